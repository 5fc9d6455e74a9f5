//===- LmFusedOps.td - What the fusions make of several ops ---------------===//

#ifndef TANDEM_DIALECTS_LM_LMFUSEDOPS_TD
#define TANDEM_DIALECTS_LM_LMFUSEDOPS_TD

include "dialects/lm/LmOpBase.td"

def Lm_FusedLinearOp
    : Lm_Op<"fused_linear", [Pure, AttrSizedOperandSegments]> {
  let summary = "Linear layers of one input, and what stands around them.";
  let description = [{
    With `x = input`, or `x = lm.rms_norm(input, norm_weight)` with the attribute `norm`, and W_j the matrix of `weights[j]` (with
    `scales[j]` and `quantization` when packed):

    ```
    y_j      = x transpose(W_j)              all rows of W_j, in operand order
    results  = y_0, y_1, ...                 or, when `gated`, the one result silu(y_0) * y_1
    result   = residual + result             with a residual
    ```

    Everything is computed as the separate ops compute it, so a fusion does not change a bit.

    Example:

    ```mlir
    %q, %k = lm.fused_linear(%x) weights(%c0, %c1) scales(%s0, %s1)
        norm(%w) residual()
        {quantization = #lm.grouped<bits = 4, group = 32>,
         norm = #lm.norm<eps = 1.0e-6 : f32, offset = 1.0 : f32>}
        : (tensor<16x128xf32>, tensor<64x16xi32>, tensor<32x16xi32>,
           tensor<64x4xbf16>, tensor<32x4xbf16>, tensor<128xbf16>)
        -> (tensor<16x64xf32>, tensor<16x32xf32>)
    ```

    Constraints:
    - (C1) there is at least one weight; all have the element type of the first.
    - (C2) with a quantization weights are codes, with as many scales; without there are none.
    - (C3) every weight fits the columns of the input, as in `lm.linear` and `lm.quant_linear`.
    - (C4) there is a result for every weight, of its rows; when gated there are two weights of equal rows and one result.
    - (C5) rows of input and results agree.
    - (C6) `norm` is given iff a norm weight is, a vector as long as the columns of the input.
    - (C7) a residual stands beside one result and has its type.
  }];
  let arguments = (ins Lm_Rows:$input,
                       Variadic<AnyTypeOf<[Lm_Matrix, Lm_Codes]>>:$weights,
                       Variadic<Lm_Matrix>:$scales,
                       Optional<Lm_Dense>:$norm_weight,
                       Optional<Lm_Rows>:$residual,
                       OptionalAttr<Lm_GroupedAttr>:$quantization,
                       OptionalAttr<Lm_NormAttr>:$norm, UnitAttr:$gated);
  let results = (outs Variadic<Lm_Rows>:$results);
  let assemblyFormat = [{
    `(` $input `)` `weights` `(` $weights `)` `scales` `(` $scales `)`
    `norm` `(` $norm_weight `)` `residual` `(` $residual `)` attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Lm_DeltaInputsOp
    : Lm_Op<"delta_inputs", [Pure, AllTypesMatch<["cache", "result"]>]> {
  let summary = "What the delta rule reads: conv, silu, norms and gates.";
  let description = [{
    The part of a gated delta layer between its projections and `lm.gated_delta`:

    ```
    y                = silu(lm.short_conv(input, weight, cache))     columns q | k | v
    query, key       = lm.l2_norm(q), lm.l2_norm(k)                  runs of `key_dim`
    value            = v
    decay            = lm.delta_gate(decay_input, a_log, dt_bias)
    beta             = sigmoid(beta_input)
    ```

    Example:

    ```mlir
    %q, %k, %v, %g, %beta, %new = lm.delta_inputs %x, %a, %b, %w, %a_log,
        %dt_bias, %cache keep %accepted rows %count
        {key_dim = 64 : i64, eps = 1.0e-6 : f32}
        : (tensor<16x1024xf32>, tensor<16x8xf32>, tensor<16x8xf32>,
           tensor<1024x1x4xbf16>, tensor<8xf32>, tensor<8xbf16>,
           !lm.conv_cache<taps = 4, channels = 1024, pending = 16>)
        -> (tensor<16x256xf32>, tensor<16x256xf32>, tensor<16x512xf32>,
            tensor<16x8xf32>, tensor<16x8xf32>,
            !lm.conv_cache<taps = 4, channels = 1024, pending = 16>)
    ```

    Constraints:
    - (C1) the weight is channels x 1 x taps of the cache, the input has its channels.
    - (C2) query, key and value have the columns of the input together, query and key as many each, a multiple of key_dim.
    - (C3) decay and beta and their inputs have as many columns as a_log and dt_bias have entries.
    - (C4) all rows agree; without `commit` they fit into the pending rows of the cache.
    - (C5) eps is not negative.
  }];
  let arguments = (ins Lm_Rows:$input, Lm_Rows:$decay_input,
                       Lm_Rows:$beta_input, Lm_Dense:$weight, Lm_Dense:$a_log,
                       Lm_Dense:$dt_bias, Lm_ConvCacheType:$cache,
                       Lm_Scalar:$accepted, Optional<Lm_Scalar>:$count,
                       I64Attr:$key_dim, F32Attr:$eps, UnitAttr:$commit);
  let results = (outs Lm_Rows:$query, Lm_Rows:$key, Lm_Rows:$value,
                      Lm_Rows:$decay, Lm_Rows:$beta, Lm_ConvCacheType:$result);
  let assemblyFormat = [{
    $input `,` $decay_input `,` $beta_input `,` $weight `,` $a_log `,`
    $dt_bias `,` $cache `keep` $accepted (`rows` $count^)? attr-dict
    `:` `(` type($input) `,` type($decay_input) `,` type($beta_input) `,`
    type($weight) `,` type($a_log) `,` type($dt_bias) `,` type($cache) `)`
    `->` `(` type($query) `,` type($key) `,` type($value) `,` type($decay) `,`
    type($beta) `,` type($result) `)`
  }];
  let hasVerifier = 1;
}

def Lm_AttentionInputsOp
    : Lm_Op<"attention_inputs", [Pure, AttrSizedOperandSegments,
                                 AttrSizedResultSegments]> {
  let summary = "What attention reads: norms, rotation and caches.";
  let description = [{
    The part of an attention layer between its projections and `lm.attention`, or the keys and values alone of any number of
    layers:

    ```
    key_j            = lm.rope(lm.rms_norm(keys[j], key_norms[j])) at start
    results[j]       = lm.cache_append(caches[j], key_j, values[j]) at start
    rotated          = lm.rope(lm.rms_norm(query, query_norm)) at start
    ```

    With a result for the gate the columns of the query are, head by head, those of the query and those of the gate, which
    `lm.split` takes apart. Heads have the dim of the caches.

    Example:

    ```mlir
    %q, %gate, %new = lm.attention_inputs
        query(%x, %qn : tensor<16x512xf32>, tensor<64xbf16>)
        keys(%k : tensor<16x128xf32>) values(%v : tensor<16x128xf32>)
        norms(%kn : tensor<64xbf16>)
        caches(%cache : !lm.kv_cache<4112x2x64xf32>) at %start rows %count
        {norm = #lm.norm<eps = 1.0e-6 : f32, offset = 1.0 : f32>,
         dims = 16 : i64, theta = 1.0e7 : f64}
        -> (query tensor<16x256xf32>, gate tensor<16x256xf32>,
            !lm.kv_cache<4112x2x64xf32>)
    ```

    Constraints:
    - (C1) there is at least one cache; all have one type, and there are as many keys, values, norms and results.
    - (C2) keys and values have `heads * dim` columns and the element type of the cache.
    - (C3) a query, its norm and its result are given together, and beside one cache; a gate is given with them.
    - (C4) the rotated query is a multiple of `heads * dim` columns wide, the query as wide, or twice with a gate, and a gate has the type of the rotated query.
    - (C5) norms are vectors of `dim` entries.
    - (C6) all rows agree.
    - (C7) dims is even, positive and at most `dim`; theta is positive.
  }];
  let arguments = (ins Optional<Lm_Rows>:$query, Optional<Lm_Dense>:$query_norm,
                       Variadic<Lm_Rows>:$keys, Variadic<Lm_Rows>:$values,
                       Variadic<Lm_Dense>:$key_norms,
                       Variadic<Lm_KvCacheType>:$caches, Lm_Scalar:$start,
                       Optional<Lm_Scalar>:$count, Lm_NormAttr:$norm,
                       I64Attr:$dims, F64Attr:$theta);
  let results = (outs Optional<Lm_Rows>:$rotated, Optional<Lm_Rows>:$gate,
                      Variadic<Lm_KvCacheType>:$results);
  let assemblyFormat = [{
    (`query` `(` $query^ `,` $query_norm `:` type($query) `,`
    type($query_norm) `)`)?
    `keys` `(` $keys `:` type($keys) `)`
    `values` `(` $values `:` type($values) `)`
    `norms` `(` $key_norms `:` type($key_norms) `)`
    `caches` `(` $caches `:` qualified(type($caches)) `)`
    `at` $start (`rows` $count^)? attr-dict `->` `(`
    (`query` type($rotated)^ `,`)? (`gate` type($gate)^ `,`)?
    qualified(type($results)) `)`
  }];
  let hasVerifier = 1;
}

def Lm_HeadArgmaxOp : Lm_Op<"head_argmax", [Pure]> {
  let summary = "The most likely token of each row, without the logits.";
  let description = [{
    `lm.argmax(lm.linear(input, weight))`; the logits are never in memory.

    With `search` the weight is not read whole: rounded rows of 8 bits say, with a bound on what rounding can do, which few logits may
    be the largest, and those are computed as ever. It is a way to compute the same tokens, to the bit (the page
    [heads](../heads.md) has the proof).

    With `rounding` the weight is rounded, so another token may come out: this is for drafts. In every group of columns let m be the entry that is largest in size, the first of equal ones:

    ```
    s            = bf16(m / -8)
    rounded(v)   = s * max(-8, min(7, nearest(v / s)))       0 where s is
    ```

    Example:

    ```mlir
    %t = lm.head_argmax %x, %w {search}
        : tensor<16x384xf32>, tensor<6144x384xbf16> -> tensor<16xi32>
    ```

    Constraints:
    - (C1) input and weight have the same number of columns.
    - (C2) there is one token per row.
    - (C3) what is searched or rounded is bf16, and not both.
    - (C4) rounding is to 4 bits without zero points, in groups of a multiple of 64 that divide the columns.
  }];
  let arguments = (ins Lm_Rows:$input, Lm_Matrix:$weight, UnitAttr:$search,
                       OptionalAttr<Lm_GroupedAttr>:$rounding);
  let results = (outs Lm_Tokens:$result);
  let assemblyFormat = [{
    $input `,` $weight attr-dict
    `:` type($input) `,` type($weight) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Lm_LastPositionOp : Lm_Op<"last_position", [Pure]> {
  let summary = "Position of the last live row.";
  let description = [{
    `start + count - 1`, and start itself when count is 0: where `lm.last_row` of rows that begin at `start` stands.

    Example:

    ```mlir
    %p = lm.last_position %start, %count
    ```
  }];
  let arguments = (ins Lm_Scalar:$start, Lm_Scalar:$count);
  let results = (outs Lm_Scalar:$result);
  let assemblyFormat = "$start `,` $count attr-dict";
}

#endif // TANDEM_DIALECTS_LM_LMFUSEDOPS_TD
