//===- LmAttrs.td - How weights are quantized -----------------------------===//

#ifndef TANDEM_DIALECTS_LM_LMATTRS_TD
#define TANDEM_DIALECTS_LM_LMATTRS_TD

include "dialects/lm/LmDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Lm_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Lm_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Lm_GroupedAttr : Lm_Attr<"Grouped", "grouped"> {
  let summary = "Group-wise integer or 8-bit float weights.";
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

    With `zero_points` every scale is followed by the zero point of its group, a whole number in the type of the scale:

    ```
    row r   | scale[r, 0] | zero[r, 0] | scale[r, 1] | zero[r, 1] | ...

    value[r, c] = (code[r, c] - 2^(bits-1) - zero[r, c / group]) * scale[r, c / group]
    ```

    With `float_codes` a code is a number in f8E4M3FN:

    ```
    value[r, c] = e4m3(code[r, c]) * scale[r, c / group]
    ```

    Checkpoints that pack in another order go through `lm.repack`.
  }];
  let parameters = (ins "int64_t":$bits, "int64_t":$group,
                        DefaultValuedParameter<"bool", "false">:$zero_points,
                        DefaultValuedParameter<"bool", "false">:$float_codes);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// 32-bit words that hold a row of `columns` codes.
    int64_t getWordsPerRow(int64_t columns) const {
      int64_t perWord = 32 / getBits();
      return (columns + perWord - 1) / perWord;
    }
    /// Scales, and zero points, of a row of `columns` codes.
    int64_t getScalesPerRow(int64_t columns) const {
      return columns / getGroup() * (getZeroPoints() ? 2 : 1);
    }
  }];
}

def Lm_PackOrder
    : I32EnumAttr<"PackOrder", "order of packed codes", [
        I32EnumAttrCase<"by_row", 0>, I32EnumAttrCase<"by_column", 1>,
        I32EnumAttrCase<"interleaved", 2>
      ]> {
  let cppNamespace = "::tandem::lm";
}

def Lm_SourceAttr : Lm_Attr<"Source", "source"> {
  let summary = "How a checkpoint packs a quantized weight.";
  let description = [{
    A weight of `rows x columns` in codes of `bits` bits, n = 32 / bits to a word, lowest bits first. A scale, and with
    `zero_points` a zero point, belongs to `block_rows` rows by `group` columns. `R` are the blocks of rows and `G` the
    groups of columns, the last of each filled up.

    ```
    order        codes                        scales   zero points
    by_row       rows x ceil(columns / n)     R x G    ceil(R / n) x G    words along: columns; zero points: rows
    by_column    columns / n x rows           G x R    G x R / n          words along: columns; zero points: rows
    interleaved  columns x rows / n           G x R    G x R / n          words along: rows; zero points: rows
    ```

    In a word of `interleaved` four-bit codes stand for rows in the order 0, 2, 4, 6, 1, 3, 5, 7 from the lowest bits up:

    ```
    bits   31..28 27..24 23..20 19..16 15..12 11..8  7..4  3..0
    row      7      5      3      1      6      4     2     0
    ```

    A stored zero point is the true one less `zero_offset`, modulo `2^bits`. Codes may also be a matrix of f8E4M3FN,
    `rows x columns`, in the order `by_row`: then `bits` is 8 and there are no zero points. Where there is one scale in all, it
    may be a vector.

    These are the orders of compressed-tensors (`by_row`), GPTQ (`by_column`; its first version stores zero points less one), AutoAWQ
    (`interleaved`) and of FP8 checkpoints with a scale per block.
  }];
  let parameters = (ins EnumParameter<Lm_PackOrder>:$order, "int64_t":$bits,
                        "int64_t":$columns, "int64_t":$group,
                        DefaultValuedParameter<"int64_t", "1">:$block_rows,
                        DefaultValuedParameter<"bool", "false">:$zero_points,
                        DefaultValuedParameter<"int64_t", "0">:$zero_offset);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Shapes of the tensors of a weight of `rows`.
    std::array<int64_t, 2> getCodesShape(int64_t rows, bool floatCodes) const;
    std::array<int64_t, 2> getScalesShape(int64_t rows) const;
    std::array<int64_t, 2> getZerosShape(int64_t rows) const;
    /// What `lm.repack` makes of it: groups of columns that divide a row.
    GroupedAttr getGrouped(bool floatCodes) const;
  }];
}

def Lm_TokenSetAttr : Lm_Attr<"TokenSet", "token_set"> {
  let summary = "Some tokens of a vocabulary.";
  let description = [{
    Ids in ascending order, so that of two tokens the same one stands first in the set and in the vocabulary:

    ```mlir
    #token_set = #lm.token_set<0, 3, 17>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"int32_t">:$tokens);
  let assemblyFormat = "`<` $tokens `>`";
  let genVerifyDecl = 1;
  let genMnemonicAlias = 1;
  let extraClassDeclaration = [{
    int64_t size() const { return static_cast<int64_t>(getTokens().size()); }
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
