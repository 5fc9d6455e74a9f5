//===- LmDialect.td - The lm dialect: what the models compute -------------===//

#ifndef TANDEM_DIALECTS_LM_LMDIALECT_TD
#define TANDEM_DIALECTS_LM_LMDIALECT_TD

include "mlir/IR/OpBase.td"

def Lm_Dialect : Dialect {
  let name = "lm";
  let summary = "What a language model and its block drafter compute.";
  let description = [{
    Pure ops on ranked tensors. A program of the model is a `func.func` with static shapes whose first
    dimension counts rows (tokens):

    ```mlir
    func.func @step(%anchor: tensor<1xi32> {lm.port = "anchor"},
                    %layer3: !lm.kv_cache<4112x2x64xf32> {lm.state = "layers.3"})
        -> (tensor<1xi32> {lm.port = "anchor"},
            !lm.kv_cache<4112x2x64xf32> {lm.state = "layers.3"})
    ```

    - **Weights** are referred to by checkpoint and tensor name (`lm.weight`); their bytes stay in the
      checkpoint until the artefact is written, so IR stays readable.
    - **Quantization** is an attribute (`#lm.grouped`).
    - **State** is a value: an op takes a cache and returns it, so SSA order is the order of writes.
    - **Ports** (`lm.port`) name the arguments and results that programs exchange; two programs that name the
      same port mean the same memory. **States** (`lm.state`) name the caches in the same way.
    - `start` operands are `tensor<1xi32>`: the position of row 0. `count` operands say how many rows are live.

    A row's result depends on that row's inputs, on earlier rows and on caches only; never on the number of rows.
  }];
  let cppNamespace = "::tandem::lm";
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;

  let extraClassDeclaration = [{
    /// Argument and result attribute: name of the port (StringAttr).
    static constexpr llvm::StringLiteral kPortAttrName = "lm.port";
    /// Argument and result attribute: name of the cache (StringAttr).
    static constexpr llvm::StringLiteral kStateAttrName = "lm.state";
    /// Module attribute: dictionary from checkpoint name (`target`, `drafter`)
    /// to its directory.
    static constexpr llvm::StringLiteral kCheckpointsAttrName =
        "lm.checkpoints";
    /// Module attribute: dictionary of facts about the models, for people.
    static constexpr llvm::StringLiteral kFactsAttrName = "lm.facts";
    /// Attribute of a `gated_delta` (UnitAttr): its launch does what the op
    /// does that makes its operands.
    static constexpr llvm::StringLiteral kMakesInputsAttrName =
        "lm.makes_inputs";
  }];
}

#endif // TANDEM_DIALECTS_LM_LMDIALECT_TD
