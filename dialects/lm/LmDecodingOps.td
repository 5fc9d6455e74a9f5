//===- LmDecodingOps.td - From logits to tokens, and the loop -------------===//

#ifndef TANDEM_DIALECTS_LM_LMDECODINGOPS_TD
#define TANDEM_DIALECTS_LM_LMDECODINGOPS_TD

include "dialects/lm/LmOpBase.td"

def Lm_ArgmaxOp : Lm_Op<"argmax", [Pure]> {
  let summary = "The most likely token of each row.";
  let description = [{
    `result[r]` is the column of the largest entry of row r, the lowest column among equals.

    Example:

    ```mlir
    %t = lm.argmax %logits : tensor<16x6144xf32> -> tensor<16xi32>
    ```

    Constraints:
    - (C1) there is one token per row.
  }];
  let arguments = (ins Lm_Rows:$logits);
  let results = (outs Lm_Tokens:$result);
  let assemblyFormat =
      "$logits attr-dict `:` type($logits) `->` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

def Lm_DenoiseOp
    : Lm_Op<"denoise", [SingleBlockImplicitTerminator<"YieldOp">,
                        RecursiveMemoryEffects]> {
  let summary = "Draft a block by diffusion.";
  let description = [{
    The block starts as the anchor and `size - 1` mask tokens. A step runs the body on the block: token ids and caches
    in, logits of the slots behind the anchor and caches out. Every step but the last fills the masked slots it is most
    confident of, so that after step s of `steps` at least `s / steps` of the slots are filled, and masks the
    others again; the last step fills what is left. A slot is filled with its argmax; confidence is the softmax
    probability of the argmax, the lower slot wins ties. `logits` are those of the last step.

    Example:

    ```mlir
    %block, %logits, %new = lm.denoise %anchor caches(%cache)
        {mask_token = 999 : i32, size = 16 : i64, steps = 1 : i64}
        : (!lm.kv_cache<80x2x32xf32>)
        -> (tensor<16xi32>, tensor<15x1024xf32>, !lm.kv_cache<80x2x32xf32>) {
    ^body(%tokens: tensor<16xi32>, %c: !lm.kv_cache<80x2x32xf32>):
      ...
      lm.yield %slots, %d : tensor<15x1024xf32>, !lm.kv_cache<80x2x32xf32>
    }
    ```

    Constraints:
    - (C1) size is at least 2 and steps is between 1 and size - 1.
    - (C2) the block has `size` tokens, the logits `size - 1` rows.
    - (C3) the body takes the block and the caches, and yields the logits and the caches.
    - (C4) caches come out with the types they went in with.
    - (C5) mask_token is not negative.
  }];
  let arguments = (ins Lm_Scalar:$anchor, Variadic<Lm_AnyCache>:$caches,
                       I32Attr:$mask_token, I64Attr:$size, I64Attr:$steps);
  let results = (outs Lm_Tokens:$block, Lm_Rows:$logits,
                      Variadic<Lm_AnyCache>:$new_caches);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $anchor `caches` `(` $caches `)` attr-dict
    `:` functional-type($caches, results) $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Lm_YieldOp : Lm_Op<"yield", [Pure, Terminator, ReturnLike,
                                 HasParent<"DenoiseOp">]> {
  let summary = "What the body of lm.denoise computes.";
  let description = [{
    Ends the body: logits, then caches.

    Example: see `lm.denoise`.
  }];
  let arguments = (ins Variadic<AnyType>:$results);
  let builders = [OpBuilder<(ins), [{ /* required by the implicit terminator */ }]>];
  let assemblyFormat = "($results^ `:` type($results))? attr-dict";
}

def Lm_MaskBlockOp : Lm_Op<"mask_block", [Pure]> {
  let summary = "An anchor and masks.";
  let description = [{
    `result = [anchor, mask_token, mask_token, ...]`.

    Example:

    ```mlir
    %block = lm.mask_block %anchor {mask_token = 999 : i32} : tensor<16xi32>
    ```

    Constraints:
    - (C1) mask_token is not negative.
  }];
  let arguments = (ins Lm_Scalar:$anchor, I32Attr:$mask_token);
  let results = (outs Lm_Tokens:$result);
  let assemblyFormat = "$anchor attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Lm_UnmaskOp : Lm_Op<"unmask", [Pure, AllTypesMatch<["block", "result"]>]> {
  let summary = "Fill the masked slots a step is most confident of.";
  let description = [{
    Row i of `logits` belongs to slot i + 1 of the block. Of the slots that hold `mask_token`, the `fill` most confident
    (all, when fewer are masked) get their argmax; the others stay as they are. Confidence and ties as in `lm.denoise`.

    Example:

    ```mlir
    %next = lm.unmask %block, %logits {mask_token = 999 : i32, fill = 8 : i64}
        : tensor<16xi32>, tensor<15x1024xf32>
    ```

    Constraints:
    - (C1) there is one row of logits per slot behind the anchor.
    - (C2) fill is positive.
    - (C3) mask_token is not negative.
  }];
  let arguments = (ins Lm_Tokens:$block, Lm_Rows:$logits, I32Attr:$mask_token,
                       I64Attr:$fill);
  let results = (outs Lm_Tokens:$result);
  let assemblyFormat =
      "$block `,` $logits attr-dict `:` type($block) `,` type($logits)";
  let hasVerifier = 1;
}

def Lm_ConcatTokensOp : Lm_Op<"concat_tokens", [Pure]> {
  let summary = "Token ids, one behind the other.";
  let description = [{
    `result = [lhs..., rhs...]`: a block from its anchor and its drafts.

    Example:

    ```mlir
    %block = lm.concat_tokens %anchor, %drafts
        : tensor<1xi32>, tensor<15xi32> -> tensor<16xi32>
    ```

    Constraints:
    - (C1) the lengths add up.
  }];
  let arguments = (ins Lm_Tokens:$lhs, Lm_Tokens:$rhs);
  let results = (outs Lm_Tokens:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Lm_AcceptOp : Lm_Op<"accept", [Pure, AllTypesMatch<["block", "decided"]>]> {
  let summary = "Length of the agreed prefix of a block.";
  let description = [{
    `decided[i]` is what the target says after `block[0..i]`. Of `count` rows (all without it), the anchor and the leading
    drafts with `block[i] = decided[i - 1]` are accepted:

    ```
    block     a  d1 d2 d3 d4          accepted      = 3        (a, d1, d2)
    decided   d1 d2 x  .  .           anchor        = x        (decided[accepted - 1])
                                      next_start    = start + 3
                                      context_start = start
    ```

    Example:

    ```mlir
    %accepted, %anchor, %next, %context = lm.accept %block, %decided at %start
        rows %count : tensor<16xi32>
    ```
  }];
  let arguments = (ins Lm_Tokens:$block, Lm_Tokens:$decided, Lm_Scalar:$start,
                       Optional<Lm_Scalar>:$count);
  let results = (outs Lm_Scalar:$accepted, Lm_Scalar:$anchor,
                      Lm_Scalar:$next_start, Lm_Scalar:$context_start);
  let assemblyFormat = [{
    $block `,` $decided `at` $start (`rows` $count^)? attr-dict
    `:` type($block)
  }];
}

//===----------------------------------------------------------------------===//
// The loop
//===----------------------------------------------------------------------===//

def Lm_SpeculateOp
    : Lm_Op<"speculate", [HasParent<"::mlir::ModuleOp">,
                          DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The speculative loop and its programs.";
  let description = [{
    Names the programs of a text: `prefill` and `step` always; `context`, `draft`, `verify` and `accept` when there is a
    drafter; `score` and `score_draft` for checking; `prefill_logits`, `step_logits` and `verify_logits` for tokens that the
    host decides. `short_prefill`, `short_context` and `short_prefill_logits` do what those without `short_` do, for up to
    `short_chunk` rows, in less time. A round is draft, verify, accept. `lm-lower-speculate` checks that the programs fit together and makes it
    a `plan.loop`.

    Example:

    ```mlir
    lm.speculate {prefill = @prefill, step = @step, context = @context,
                  draft = @draft, verify = @verify, accept = @accept,
                  block = 16 : i64, chunk = 64 : i64, score_chunk = 16 : i64,
                  max_context = 4096 : i64, vocabulary = 6144 : i64,
                  stop_tokens = array<i32: 6115, 6113>}
    ```

    Constraints:
    - (C1) every program is a function of the module.
    - (C2) context, draft, verify and accept are given together, with a block of at least 2; without them the block is 1.
    - (C3) sizes are between 1 and 2^24.
    - (C4) stop tokens are inside the vocabulary.
    - (C5) prefill_logits and step_logits are given together; verify_logits with them and a drafter, and only then.
    - (C6) short_prefill and a short_chunk below the chunk are given together; short_context with them and a drafter,
      short_prefill_logits with them and prefill_logits, and only then.
  }];
  let arguments = (ins FlatSymbolRefAttr:$prefill, FlatSymbolRefAttr:$step,
                       OptionalAttr<FlatSymbolRefAttr>:$context,
                       OptionalAttr<FlatSymbolRefAttr>:$draft,
                       OptionalAttr<FlatSymbolRefAttr>:$verify,
                       OptionalAttr<FlatSymbolRefAttr>:$accept,
                       OptionalAttr<FlatSymbolRefAttr>:$score,
                       OptionalAttr<FlatSymbolRefAttr>:$score_draft,
                       I64Attr:$block, I64Attr:$chunk, I64Attr:$score_chunk,
                       I64Attr:$max_context, I64Attr:$vocabulary,
                       DenseI32ArrayAttr:$stop_tokens,
                       OptionalAttr<FlatSymbolRefAttr>:$prefill_logits,
                       OptionalAttr<FlatSymbolRefAttr>:$step_logits,
                       OptionalAttr<FlatSymbolRefAttr>:$verify_logits,
                       OptionalAttr<I64Attr>:$short_chunk,
                       OptionalAttr<FlatSymbolRefAttr>:$short_prefill,
                       OptionalAttr<FlatSymbolRefAttr>:$short_context,
                       OptionalAttr<FlatSymbolRefAttr>:$short_prefill_logits);
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

#endif // TANDEM_DIALECTS_LM_LMDECODINGOPS_TD
