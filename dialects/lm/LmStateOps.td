//===- LmStateOps.td - Ops that know positions or carry state -------------===//

#ifndef TANDEM_DIALECTS_LM_LMSTATEOPS_TD
#define TANDEM_DIALECTS_LM_LMSTATEOPS_TD

include "dialects/lm/LmOpBase.td"

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

def Lm_RopeOp : Lm_Op<"rope", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "Rotary position embedding.";
  let description = [{
    Row r stands at position `start + r`. In every run of `head_dim` columns the first `dims` are rotated, column j with
    column `j + dims / 2`, by the angle `(start + r) * theta^(-2 j / dims)`:
    `y_j = x_j cos - x_{j + dims/2} sin`, `y_{j + dims/2} = x_{j + dims/2} cos + x_j sin`. The others pass.

    Example:

    ```mlir
    %y = lm.rope %x at %start
        {head_dim = 64 : i64, dims = 16 : i64, theta = 1.0e5 : f64}
        : tensor<16x384xf32>
    ```

    Constraints:
    - (C1) head_dim is positive and divides the columns.
    - (C2) dims is even, positive and at most head_dim.
    - (C3) theta is positive.
  }];
  let arguments = (ins Lm_Rows:$input, Lm_Scalar:$start, I64Attr:$head_dim,
                       I64Attr:$dims, F64Attr:$theta);
  let results = (outs Lm_Rows:$result);
  let assemblyFormat = "$input `at` $start attr-dict `:` type($input)";
  let hasVerifier = 1;
}

def Lm_CacheAppendOp
    : Lm_Op<"cache_append", [Pure, AllTypesMatch<["cache", "result"]>,
                             AllTypesMatch<["keys", "values"]>]> {
  let summary = "Write keys and values at positions.";
  let description = [{
    Row r (of the first `count`, or of all) replaces what the slot of position `start + r` held. When a ring has fewer
    slots than rows, the last rows win.

    Example:

    ```mlir
    %new = lm.cache_append %cache, %k, %v at %start rows %count
        : !lm.kv_cache<4112x2x64xf32>, tensor<16x128xf32>
    ```

    Constraints:
    - (C1) keys and values have `heads * dim` columns.
    - (C2) keys and values have the element type of the cache.
  }];
  let arguments = (ins Lm_KvCacheType:$cache, Lm_Rows:$keys, Lm_Rows:$values,
                       Lm_Scalar:$start, Optional<Lm_Scalar>:$count);
  let results = (outs Lm_KvCacheType:$result);
  let assemblyFormat = [{
    $cache `,` $keys `,` $values `at` $start (`rows` $count^)? attr-dict
    `:` qualified(type($cache)) `,` type($keys)
  }];
  let hasVerifier = 1;
}

def Lm_AttentionOp
    : Lm_Op<"attention", [Pure, AttrSizedOperandSegments,
                          AllTypesMatch<["query", "result"]>]> {
  let summary = "Grouped-query attention over a cache.";
  let description = [{
    Row r stands at position `q = start + r`; the rows' own keys and values are in the cache already. Query head h reads
    key/value head `h / (query heads / heads)`. A key at position p with `0 <= p < start + count` (all rows without
    `count`) is seen iff `p <= q` when `causal`, and iff `|q - p| < window` when there is a window:

    ```
    out = sum_p softmax_p(scale * query . key_p) value_p        over the keys that are seen
    ```

    Sums run over tiles of keys at absolute positions, so a row's bits do not depend on its neighbours. With a gate the
    result is `lm.mul(out, lm.sigmoid(gate))`, as the separate ops compute it.

    Example:

    ```mlir
    %o = lm.attention %q, %cache at %start rows %count
        {causal, scale = 0.125 : f32, window = 64 : i64}
        : tensor<16x256xf32>, !lm.kv_cache<4112x2x64xf32>
    ```

    Constraints:
    - (C1) the columns of the query are a multiple of `heads * dim`.
    - (C2) a window is between 1 and 2^24.
    - (C3) a ring needs a window and at least `window + rows - 1` slots.
    - (C4) the query has the element type of the cache.
    - (C5) the gate has the type of the query.
  }];
  let arguments = (ins Lm_Rows:$query, Lm_KvCacheType:$cache, Lm_Scalar:$start,
                       Optional<Lm_Scalar>:$count, Optional<Lm_Rows>:$gate,
                       UnitAttr:$causal, OptionalAttr<I64Attr>:$window,
                       F32Attr:$scale);
  let results = (outs Lm_Rows:$result);
  let assemblyFormat = [{
    $query `,` $cache `at` $start (`rows` $count^)?
    (`gate` $gate^ `:` type($gate))? attr-dict
    `:` type($query) `,` qualified(type($cache))
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// The gated delta net
//===----------------------------------------------------------------------===//

def Lm_ShortConvOp
    : Lm_Op<"short_conv", [Pure, AllTypesMatch<["input", "output"]>,
                           AllTypesMatch<["cache", "result"]>]> {
  let summary = "Causal depthwise convolution with a cache.";
  let description = [{
    With u the committed rows of the cache, then its first `accepted` pending rows, then the rows of `input`:
    `output[r, c] = sum_j weight[c, 0, j] * u[r + j - (taps - 1), c]`, the last tap on row r itself. The new cache holds the
    last `taps - 1` rows before `input` as committed and the input rows as pending; with `commit` it holds the last
    `taps - 1` rows of all (`count` of the input's) as committed and nothing pending.

    Example:

    ```mlir
    %y, %new = lm.short_conv %x, %w, %cache keep %accepted rows %count {commit}
        : tensor<16x1024xf32>, tensor<1024x1x4xbf16>,
          !lm.conv_cache<taps = 4, channels = 1024, pending = 16>
    ```

    Constraints:
    - (C1) the weight is channels x 1 x taps of the cache.
    - (C2) the input has the channels of the cache.
    - (C3) without `commit` the rows fit into the pending rows of the cache.
  }];
  let arguments = (ins Lm_Rows:$input, Lm_Dense:$weight,
                       Lm_ConvCacheType:$cache, Lm_Scalar:$accepted,
                       Optional<Lm_Scalar>:$count, UnitAttr:$commit);
  let results = (outs Lm_Rows:$output, Lm_ConvCacheType:$result);
  let assemblyFormat = [{
    $input `,` $weight `,` $cache `keep` $accepted (`rows` $count^)? attr-dict
    `:` type($input) `,` type($weight) `,` qualified(type($cache))
  }];
  let hasVerifier = 1;
}

def Lm_DeltaGateOp
    : Lm_Op<"delta_gate", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "Log decay of the delta rule.";
  let description = [{
    `g[r, h] = -exp(a_log[h]) * softplus(input[r, h] + dt_bias[h])` with `softplus(x) = log(1 + exp(x))`, and x itself
    beyond 20. Never positive.

    Example:

    ```mlir
    %g = lm.delta_gate %a, %a_log, %dt_bias
        : tensor<16x8xf32>, tensor<8xf32>, tensor<8xbf16>
    ```

    Constraints:
    - (C1) a_log and dt_bias are vectors with one entry per column.
  }];
  let arguments = (ins Lm_Rows:$input, Lm_Dense:$a_log, Lm_Dense:$dt_bias);
  let results = (outs Lm_Rows:$result);
  let assemblyFormat = [{
    $input `,` $a_log `,` $dt_bias attr-dict
    `:` type($input) `,` type($a_log) `,` type($dt_bias)
  }];
  let hasVerifier = 1;
}

def Lm_GatedDeltaOp
    : Lm_Op<"gated_delta", [Pure, AttrSizedOperandSegments,
                            AllTypesMatch<["query", "key"]>,
                            AllTypesMatch<["value", "output"]>,
                            AllTypesMatch<["decay", "beta"]>,
                            AllTypesMatch<["cache", "result"]>]> {
  let summary = "The gated delta rule, token by token.";
  let description = [{
    Value head h uses query and key head `h / (heads / key_heads)`. S is the head's state, `key_dim x value_dim`, f32. First
    the `accepted` pending rows of the cache are folded into S, then every row does

    ```
    S = exp(decay) S ;  d = beta (v - S^T k) ;  S = S + k d^T ;  output = S^T (scale * q)
    ```

    Without `commit` the cache keeps S as it was before the rows of this call and remembers their k, v, decay and
    beta as pending; with `commit` it keeps S behind the first `count` rows and nothing is pending. Folding repeats the very
    arithmetic of the step, so the state's bits are those of plain decoding. With a gate and a norm the output is
    `lm.gated_rms_norm(output, gate, norm_weight)`, as the separate ops compute it.

    Example:

    ```mlir
    %o, %new = lm.gated_delta %q, %k, %v, %g, %beta, %cache keep %accepted
        rows %count {scale = 0.125 : f32}
        : tensor<16x256xf32>, tensor<16x512xf32>, tensor<16x8xf32>,
          !lm.delta_cache<heads = 8, key_heads = 4, key_dim = 64,
                          value_dim = 64, pending = 16>
    ```

    Constraints:
    - (C1) query and key have `key_heads * key_dim` columns.
    - (C2) value and output have `heads * value_dim` columns.
    - (C3) decay and beta have `heads` columns.
    - (C4) query, value and decay have the same number of rows.
    - (C5) without `commit` the rows fit into the pending rows of the cache.
    - (C6) a gate, a norm weight and `norm_eps` are given together and without `commit`; the gate has the type of the value, the norm is a vector of `value_dim` entries and eps is not negative.
  }];
  let arguments = (ins Lm_Rows:$query, Lm_Rows:$key, Lm_Rows:$value,
                       Lm_Rows:$decay, Lm_Rows:$beta, Lm_DeltaCacheType:$cache,
                       Lm_Scalar:$accepted, Optional<Lm_Scalar>:$count,
                       Optional<Lm_Rows>:$gate, Optional<Lm_Dense>:$norm_weight,
                       UnitAttr:$commit, F32Attr:$scale,
                       OptionalAttr<F32Attr>:$norm_eps);
  let results = (outs Lm_Rows:$output, Lm_DeltaCacheType:$result);
  let assemblyFormat = [{
    $query `,` $key `,` $value `,` $decay `,` $beta `,` $cache
    `keep` $accepted (`rows` $count^)?
    (`norm` `(` $gate^ `,` $norm_weight `:` type($gate) `,`
    type($norm_weight) `)`)? attr-dict
    `:` type($query) `,` type($value) `,` type($decay) `,` qualified(type($cache))
  }];
  let hasVerifier = 1;
}

#endif // TANDEM_DIALECTS_LM_LMSTATEOPS_TD
