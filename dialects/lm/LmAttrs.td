//===- LmAttrs.td - How weights are quantized -----------------------------===//

#ifndef TANDEM_DIALECTS_LM_LMATTRS_TD
#define TANDEM_DIALECTS_LM_LMATTRS_TD

include "dialects/lm/LmDialect.td"
include "mlir/IR/AttrTypeBase.td"

class Lm_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Lm_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Lm_GroupedAttr : Lm_Attr<"Grouped", "grouped"> {
  let summary = "Symmetric group-wise integer weights.";
  let description = [{
    A weight of `rows x columns` is kept as codes of `bits` bits, packed along the columns into 32-bit words, lowest
    bits first. Every `group` consecutive columns of a row share one scale:

    ```
              columns 0..7        8..15             group = 16, bits = 4
    row r   | word 0            | word 1            | word 2 ...
            | c7 .. c2 c1 c0    | c15 .. c9 c8      |
            `------ scale[r, 0] ------------------'  `--- scale[r, 1] ---

    value[r, c] = (code[r, c] - 2^(bits-1)) * scale[r, c / group]
    ```

    This is the layout of compressed-tensors' `pack-quantized` format (offset binary codes, no zero points).
  }];
  let parameters = (ins "int64_t":$bits, "int64_t":$group);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// 32-bit words that hold a row of `columns` codes.
    int64_t getWordsPerRow(int64_t columns) const {
      int64_t perWord = 32 / getBits();
      return (columns + perWord - 1) / perWord;
    }
  }];
}

def Lm_NormAttr : Lm_Attr<"Norm", "norm"> {
  let summary = "Numbers of a root mean square norm.";
  let description = [{
    `x / sqrt(mean(x^2) + eps) * (weight + offset)`, as in `lm.rms_norm`.
  }];
  let parameters = (ins "::mlir::FloatAttr":$eps, "::mlir::FloatAttr":$offset);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif // TANDEM_DIALECTS_LM_LMATTRS_TD
