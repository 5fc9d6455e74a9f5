//===- PlanDialect.td - The plan dialect: what the machine does -----------===//

#ifndef TANDEM_DIALECTS_PLAN_PLANDIALECT_TD
#define TANDEM_DIALECTS_PLAN_PLANDIALECT_TD

include "mlir/IR/OpBase.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let summary = "What the machine does: memory, kernels, launches.";
  let description = [{
    The artefact spelled in MLIR, one op per table of `runtime/Artifact.fbs`; the serializer is a walk. Memory is a
    `memref`: ports, states and weights stand in the module and are used by the programs below them, buffers stand in
    the program whose scratch they are. Programs are lists of launches in order.

    ```mlir
    %tokens = plan.port "tokens" at 0 : memref<1xi32>
    %table = plan.weight "model.embed_tokens" from "target" ["model.embed_tokens.weight"]
        packing(#plan.interleaved<outputs = 6144, columns = 384, element = bf16>)
        : memref<4718592xi8>
    plan.kernel @embed_6144x384_bf16 embed {columns = 384 : i64, ...}
    plan.program @step(%tokens : memref<1xi32>) -> () {
      %h = plan.buffer at 0 : memref<1x384xf32>
      plan.launch @embed_6144x384_bf16
          ins(%tokens, %table : memref<1xi32>, memref<4718592xi8>)
          outs(%h : memref<1x384xf32>) rows 1 items 1 per_row
    }
    ```
  }];
  let cppNamespace = "::tandem::plan";
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::tandem::lm::LmDialect"];
  let hasOperationAttrVerify = 1;

  let extraClassDeclaration = [{
    /// Module attribute: processor the plan is for (StringAttr), as `--arch`.
    static constexpr llvm::StringLiteral kArchAttrName = "plan.arch";
    /// Module attributes set by plan-assign-buffers (I64): bytes of each space.
    static constexpr llvm::StringLiteral kArenaSizeAttrName =
        "plan.arena_size";
    static constexpr llvm::StringLiteral kStateSizeAttrName =
        "plan.state_size";
    static constexpr llvm::StringLiteral kPortSizeAttrName = "plan.port_size";
  }];
}

#endif // TANDEM_DIALECTS_PLAN_PLANDIALECT_TD
