//===- LmTensorOps.td - Weights, linear layers, norms, elementwise, rows --===//

#ifndef TANDEM_DIALECTS_LM_LMTENSOROPS_TD
#define TANDEM_DIALECTS_LM_LMTENSOROPS_TD

include "dialects/lm/LmOpBase.td"

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

def Lm_WeightOp : Lm_Op<"weight", [Pure]> {
  let summary = "A tensor of a checkpoint, by name.";
  let description = [{
    Stands for tensor `name` of the checkpoint that the module attribute `lm.checkpoints` calls `checkpoint`. The type is the
    tensor's own: packed codes are `i32` words. The bytes are read when the artefact is written.

    Example:

    ```mlir
    %w = lm.weight "target", "model.norm.weight" : tensor<384xbf16>
    ```
  }];
  let arguments = (ins StrAttr:$checkpoint, StrAttr:$name);
  let results = (outs AnyTypeOf<[Lm_Dense, Lm_Codes, Lm_FloatCodes]>:$result);
  let assemblyFormat = "$checkpoint `,` $name attr-dict `:` type($result)";
}

def Lm_DequantOp : Lm_Op<"dequant", [Pure]> {
  let summary = "Expand packed codes to a matrix.";
  let description = [{
    `result[r, c] = (code[r, c] - 2^(bits-1)) * scales[r, c / group]`, rounded to f32 once. `#lm.grouped` says what is
    different with zero points and with float codes.

    Example:

    ```mlir
    %w = lm.dequant %codes, %scales grouped<bits = 4, group = 32>
        : tensor<64x16xi32>, tensor<64x4xbf16> -> tensor<64x128xf32>
    ```

    Constraints:
    - (C1) codes, scales and result have the same number of rows.
    - (C2) the group divides the columns of the result.
    - (C3) a row of codes has `ceil(columns * bits / 32)` words.
    - (C4) a row of scales has `columns / group` entries, twice as many with zero points.

    It exists so that import says what a checkpoint holds; `lm-fuse-dequant-linear` removes it.
  }];
  let arguments = (ins Lm_Codes:$codes, Lm_Matrix:$scales,
                       Lm_GroupedAttr:$quantization);
  let results = (outs Lm_Matrix:$result);
  let assemblyFormat = [{
    $codes `,` $scales `grouped` `` $quantization attr-dict
    `:` type($codes) `,` type($scales) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Lm_RepackOp : Lm_Op<"repack", [Pure]> {
  let summary = "Packed codes in the order of `#lm.grouped`.";
  let description = [{
    The codes and scales of a checkpoint that packs as `source` says, as `lm.dequant` takes them: no value changes. Zero
    points move behind their scales, scales of blocks are repeated for every row.

    Example:

    ```mlir
    %c, %s = lm.repack %qweight, %scales zeros %qzeros
        as <order = by_column, bits = 4, columns = 128, group = 32,
            zero_points = true, zero_offset = 1>
        : (tensor<16x64xi32>, tensor<4x64xf16>, tensor<4x8xi32>)
        -> (tensor<64x16xi32>, tensor<64x8xf16>)
    ```

    Constraints:
    - (C1) codes, scales and zero points have the shapes that `#lm.source` draws.
    - (C2) there are zero points iff the source has them.
    - (C3) the results have the shapes and the type of scales that `lm.dequant` wants.
    - (C4) float codes are `by_row`, of 8 bits and without zero points.
    - (C5) orders other than by_row have rows and columns that fill their words.

    It exists so that a weight keeps the types of its checkpoint and every op behind it knows one order. No program runs
    it: `codegen` repacks when it writes the artefact.
  }];
  let arguments = (ins AnyTypeOf<[Lm_Codes, Lm_FloatCodes]>:$codes,
                       Lm_Dense:$scales, Optional<Lm_Codes>:$zeros,
                       Lm_SourceAttr:$source);
  let results = (outs Lm_Codes:$new_codes, Lm_Matrix:$new_scales);
  let assemblyFormat = [{
    $codes `,` $scales (`zeros` $zeros^)? `as` $source attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Lm_SelectRowsOp : Lm_Op<"select_rows", [Pure]> {
  let summary = "The rows of some tokens.";
  let description = [{
    `result[i, :] = weight[set[i], :]`: a head or a table that knows some tokens of the vocabulary.

    Example:

    ```mlir
    %w = lm.select_rows %head[#lm.token_set<0, 3, 17>]
        : tensor<6144x384xbf16> -> tensor<3x384xbf16>
    ```

    Constraints:
    - (C1) the weight has a row for every token of the set.
    - (C2) the result has one row per token of the set, with the columns and the type of the weight.

    No program runs it: `codegen` takes those rows when it writes the artefact.
  }];
  let arguments = (ins Lm_Matrix:$weight, Lm_TokenSetAttr:$set);
  let results = (outs Lm_Matrix:$result);
  let assemblyFormat = [{
    $weight `[` qualified($set) `]` attr-dict `:` type($weight) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Lm_SelectTokensOp : Lm_Op<"select_tokens", [Pure, AllTypesMatch<["places", "result"]>]> {
  let summary = "From places in a set to tokens.";
  let description = [{
    `result[r] = set[places[r]]`: what an argmax over the rows that `lm.select_rows` took is called in the vocabulary. A place outside of
    the set is the first.

    Example:

    ```mlir
    %t = lm.select_tokens %places[#lm.token_set<0, 3, 17>] : tensor<15xi32>
    ```
  }];
  let arguments = (ins Lm_Tokens:$places, Lm_TokenSetAttr:$set);
  let results = (outs Lm_Tokens:$result);
  let assemblyFormat =
      "$places `[` qualified($set) `]` attr-dict `:` type($result)";
}

//===----------------------------------------------------------------------===//
// Linear layers
//===----------------------------------------------------------------------===//

def Lm_EmbedOp : Lm_Op<"embed", [Pure]> {
  let summary = "Look tokens up in a table.";
  let description = [{
    `result[r, :] = scale * table[tokens[r], :]`. An id outside the table reads row 0: ids are checked where they enter.

    Example:

    ```mlir
    %h = lm.embed %tokens, %table
        : tensor<16xi32>, tensor<6144x384xbf16> -> tensor<16x384xf32>
    ```

    Constraints:
    - (C1) the result has one row per token.
    - (C2) the result has the columns of the table.
  }];
  let arguments = (ins Lm_Tokens:$tokens, Lm_Matrix:$table,
                       DefaultValuedAttr<F32Attr, "1.0f">:$scale);
  let results = (outs Lm_Rows:$result);
  let assemblyFormat = [{
    $tokens `,` $table attr-dict
    `:` type($tokens) `,` type($table) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Lm_LinearOp : Lm_Op<"linear", [Pure]> {
  let summary = "Rows times a transposed dense weight.";
  let description = [{
    `result[r, n] = sum_k input[r, k] * weight[n, k]`, accumulated in f32 in one order that depends on k alone.

    Example:

    ```mlir
    %y = lm.linear %x, %w
        : tensor<16x384xf32>, tensor<8x384xbf16> -> tensor<16x8xf32>
    ```

    Constraints:
    - (C1) input and weight have the same number of columns.
    - (C2) the result is rows of the input by rows of the weight.
  }];
  let arguments = (ins Lm_Rows:$input, Lm_Matrix:$weight);
  let results = (outs Lm_Rows:$result);
  let assemblyFormat = [{
    $input `,` $weight attr-dict
    `:` type($input) `,` type($weight) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Lm_QuantLinearOp : Lm_Op<"quant_linear", [Pure]> {
  let summary = "Rows times a transposed weight that stays packed.";
  let description = [{
    The product of `lm.linear` with the weight of `lm.dequant`; codes are expanded in registers.

    Example:

    ```mlir
    %y = lm.quant_linear %x, %codes, %scales grouped<bits = 4, group = 32>
        : tensor<16x128xf32>, tensor<64x16xi32>, tensor<64x4xbf16>
        -> tensor<16x64xf32>
    ```

    Constraints:
    - (C1) codes and scales have the same number of rows, the columns of the result.
    - (C2) the group divides the columns of the input.
    - (C3) a row of codes has `ceil(columns * bits / 32)` words.
    - (C4) a row of scales has `columns / group` entries, twice as many with zero points.
    - (C5) input and result have the same number of rows.
  }];
  let arguments = (ins Lm_Rows:$input, Lm_Codes:$codes, Lm_Matrix:$scales,
                       Lm_GroupedAttr:$quantization);
  let results = (outs Lm_Rows:$result);
  let assemblyFormat = [{
    $input `,` $codes `,` $scales `grouped` `` $quantization attr-dict
    `:` type($input) `,` type($codes) `,` type($scales) `->` type($result)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Norms and elementwise ops
//===----------------------------------------------------------------------===//

def Lm_RmsNormOp : Lm_Op<"rms_norm", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "Root mean square norm of consecutive columns.";
  let description = [{
    With d the length of `weight`, every run of d columns of a row is a vector x:
    `y = x / sqrt(mean(x^2) + eps) * (weight + offset)`. One run per row is the usual layer norm, one per head is a
    query or key norm. Qwen3.5 stores its norms around zero (`offset` 1), its drafters do not.

    Example:

    ```mlir
    %y = lm.rms_norm %x, %w {eps = 1.0e-6 : f32, offset = 1.0 : f32}
        : tensor<16x384xf32>, tensor<384xbf16>
    ```

    Constraints:
    - (C1) the weight is a vector whose length divides the columns.
    - (C2) eps is not negative.
  }];
  let arguments = (ins Lm_Rows:$input, Lm_Dense:$weight, F32Attr:$eps,
                       DefaultValuedAttr<F32Attr, "0.0f">:$offset);
  let results = (outs Lm_Rows:$result);
  let assemblyFormat =
      "$input `,` $weight attr-dict `:` type($input) `,` type($weight)";
  let hasVerifier = 1;
}

def Lm_GatedRmsNormOp
    : Lm_Op<"gated_rms_norm",
            [Pure, AllTypesMatch<["input", "gate", "result"]>]> {
  let summary = "Root mean square norm, then a gate.";
  let description = [{
    With d the length of `weight`, for every run of d columns: `y = x / sqrt(mean(x^2) + eps) * weight * silu(gate)`.

    Example:

    ```mlir
    %y = lm.gated_rms_norm %x, %z, %w {eps = 1.0e-6 : f32}
        : tensor<16x512xf32>, tensor<64xbf16>
    ```

    Constraints:
    - (C1) the weight is a vector whose length divides the columns.
    - (C2) eps is not negative.
  }];
  let arguments = (ins Lm_Rows:$input, Lm_Rows:$gate, Lm_Dense:$weight,
                       F32Attr:$eps);
  let results = (outs Lm_Rows:$result);
  let assemblyFormat = [{
    $input `,` $gate `,` $weight attr-dict `:` type($input) `,` type($weight)
  }];
  let hasVerifier = 1;
}

def Lm_L2NormOp : Lm_Op<"l2_norm", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "Scale runs of columns to unit length.";
  let description = [{
    For every run of `dim` columns: `y = x / sqrt(sum(x^2) + eps)`.

    Example:

    ```mlir
    %y = lm.l2_norm %x {dim = 64 : i64, eps = 1.0e-6 : f32} : tensor<16x256xf32>
    ```

    Constraints:
    - (C1) dim is positive and divides the columns.
    - (C2) eps is not negative.
  }];
  let arguments = (ins Lm_Rows:$input, I64Attr:$dim, F32Attr:$eps);
  let results = (outs Lm_Rows:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
  let hasVerifier = 1;
}

class Lm_UnaryOp<string mnemonic>
    : Lm_Op<mnemonic, [Pure, SameOperandsAndResultType]> {
  let arguments = (ins Lm_Rows:$input);
  let results = (outs Lm_Rows:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

class Lm_BinaryOp<string mnemonic>
    : Lm_Op<mnemonic, [Pure, SameOperandsAndResultType]> {
  let arguments = (ins Lm_Rows:$lhs, Lm_Rows:$rhs);
  let results = (outs Lm_Rows:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs)";
}

def Lm_SiluOp : Lm_UnaryOp<"silu"> {
  let summary = "x * sigmoid(x).";
  let description = [{
    `y = x / (1 + exp(-x))`.

    Example:

    ```mlir
    %y = lm.silu %x : tensor<16x1024xf32>
    ```
  }];
}

def Lm_SigmoidOp : Lm_UnaryOp<"sigmoid"> {
  let summary = "Logistic function.";
  let description = [{
    `y = 1 / (1 + exp(-x))`.

    Example:

    ```mlir
    %y = lm.sigmoid %x : tensor<16x8xf32>
    ```
  }];
}

def Lm_AddOp : Lm_BinaryOp<"add"> {
  let summary = "Elementwise sum.";
  let description = [{
    `y = lhs + rhs`.

    Example:

    ```mlir
    %y = lm.add %a, %b : tensor<16x384xf32>
    ```
  }];
}

def Lm_MulOp : Lm_BinaryOp<"mul"> {
  let summary = "Elementwise product.";
  let description = [{
    `y = lhs * rhs`.

    Example:

    ```mlir
    %y = lm.mul %a, %b : tensor<16x1024xf32>
    ```
  }];
}

//===----------------------------------------------------------------------===//
// Rows and columns
//===----------------------------------------------------------------------===//

def Lm_LiveRowsOp
    : Lm_Op<"live_rows", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "Say how many rows carry meaning.";
  let description = [{
    The first `count` rows of `input`; the rows behind them are zero. Whatever is computed row by row from the result
    need not be computed for those rows, and `convert-lm-to-plan` does not.

    Example:

    ```mlir
    %t = lm.live_rows %tokens, %count : tensor<64xi32>
    ```
  }];
  let arguments = (ins AnyTypeOf<[Lm_Rows, Lm_Tokens]>:$input,
                       Lm_Scalar:$count);
  let results = (outs AnyTypeOf<[Lm_Rows, Lm_Tokens]>:$result);
  let assemblyFormat = "$input `,` $count attr-dict `:` type($input)";
  let hasFolder = 1;
}

def Lm_LastRowOp : Lm_Op<"last_row", [Pure]> {
  let summary = "The last live row.";
  let description = [{
    `result[0, :] = input[count - 1, :]`; row 0 when count is 0, the last row when it is larger than there are rows.

    Example:

    ```mlir
    %last = lm.last_row %h, %count : tensor<64x384xf32> -> tensor<1x384xf32>
    ```

    Constraints:
    - (C1) the result is one row with the columns and element type of the input.
  }];
  let arguments = (ins Lm_Rows:$input, Lm_Scalar:$count);
  let results = (outs Lm_Rows:$result);
  let assemblyFormat =
      "$input `,` $count attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Lm_DropRowsOp : Lm_Op<"drop_rows", [Pure]> {
  let summary = "All rows but the first few.";
  let description = [{
    `result[r, :] = input[r + first, :]`. The slots of a drafted block behind its anchor.

    Example:

    ```mlir
    %tail = lm.drop_rows %h {first = 1 : i64}
        : tensor<16x384xf32> -> tensor<15x384xf32>
    ```

    Constraints:
    - (C1) first is not negative and leaves at least one row.
    - (C2) the result has `rows - first` rows and the columns and element type of the input.
  }];
  let arguments = (ins Lm_Rows:$input, I64Attr:$first);
  let results = (outs Lm_Rows:$result);
  let assemblyFormat =
      "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Lm_SplitOp : Lm_Op<"split", [Pure]> {
  let summary = "Cut columns into parts, group by group.";
  let description = [{
    The columns are `groups` runs of equal length. Part j takes the same columns of every run: with widths
    `w_j = columns(results[j]) / groups`, run g contributes its columns `[w_0 + .. + w_{j-1}, w_0 + .. + w_j)` to
    columns `[g * w_j, (g + 1) * w_j)` of part j. One group is a plain cut; a group per head separates the query from
    the gate that Qwen3.5 stores beside it in `q_proj`.

    Example:

    ```mlir
    %q, %gate = lm.split %x {groups = 6 : i64}
        : tensor<16x768xf32> -> tensor<16x384xf32>, tensor<16x384xf32>
    ```

    Constraints:
    - (C1) groups is positive and divides the columns of every part.
    - (C2) the columns of the parts add up to those of the input.
    - (C3) rows and element types agree.
  }];
  let arguments = (ins Lm_Rows:$input,
                       DefaultValuedAttr<I64Attr, "1">:$groups);
  let results = (outs Variadic<Lm_Rows>:$parts);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($parts)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Lm_ConcatFeaturesOp : Lm_Op<"concat_features", [Pure]> {
  let summary = "Residual streams of several layers, side by side.";
  let description = [{
    Row r of the result is row r of every input, one behind the other in operand order. This is what a drafter reads of
    the target.

    Example:

    ```mlir
    %f = lm.concat_features %h1, %h2
        : (tensor<16x384xf32>, tensor<16x384xf32>) -> tensor<16x768xf32>
    ```

    Constraints:
    - (C1) there is at least one input.
    - (C2) the columns of the inputs add up to those of the result.
    - (C3) rows and element types agree.
  }];
  let arguments = (ins Variadic<Lm_Rows>:$inputs);
  let results = (outs Lm_Rows:$result);
  let assemblyFormat = [{
    $inputs attr-dict `:` `(` type($inputs) `)` `->` type($result)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

#endif // TANDEM_DIALECTS_LM_LMTENSOROPS_TD
