//===- KernelFamilies.cpp - What each kernel template takes ---------------===//

#include "dialects/plan/KernelFamilies.h"

#include "llvm/Support/ErrorHandling.h"

using namespace tandem::plan;
using llvm::ArrayRef;
using llvm::StringLiteral;

// Shapes of operands; R are the rows of the launch. Items as convert-lm-to-plan
// sets them are in brackets; GPUs have grids of their own.
//
// Tensors are of the type `activations`, f32 where it is absent, but for what
// is always f32: logits, decay, beta, vectors, taps, tables of rope, states of
// the delta rule. Layouts are those of processors; what GPUs have instead is
// said behind "GPU:", and drawn in codegen/cuda/kernels.
namespace {
// Every family takes the type of its activations.
constexpr StringLiteral kActivations[] = {"activations"};
// The linear ones take the type of their result, where it is another, the tile
// of rows that a block of a GPU computes, and what a processor multiplies: rows
// are f32 and are rounded to `arithmetic` on the way.
constexpr StringLiteral kLinearOptions[] = {"activations", "arithmetic",
                                            "result", "row_tile"};
// Those with codes: 1 where the packing has zero points or float codes.
constexpr StringLiteral kCodeOptions[] = {"activations", "arithmetic",
                                          "float_codes", "result",
                                          "row_tile",    "zero_points"};
// GPU alone, fused layers of up to 16 rows: tokens lie as products take them,
// [row_tile, columns] whatever R is (fragments.cuh draws them).
// from_fragments 1: x does, and with norm it is times the norm's weight, in
// place of which there are squares of its rows, f32 [columns / 16, row_tile].
// Of codes alone, to_fragments 1: the result does, of which there is one.
// next_norm 1, with residual: takes the weight of another norm (vector of
// widths[0]) behind all inputs, and behind the result writes what
// from_fragments with norm takes, with the weight plus next_offset.
constexpr StringLiteral kFusedOptions[] = {
    "activations", "arithmetic", "from_fragments", "result", "row_tile"};
constexpr StringLiteral kFusedCodeOptions[] = {
    "activations",  "arithmetic",  "float_codes", "from_fragments",
    "next_norm",    "next_offset", "result",      "row_tile",
    "to_fragments", "zero_points"};
// tokens [R] i32, table (interleaved outputs=vocabulary; GPU: rows)
//   -> [R, columns]   [1 per row]
constexpr StringLiteral kEmbed[] = {"columns", "element", "scale_by",
                                    "vocabulary"};
// x [R, columns], w (interleaved; GPU: rows) -> [R, outputs]
//   [tiles of 16 outputs]
constexpr StringLiteral kLinear[] = {"columns", "element", "outputs"};
// x [R, columns], w (interleaved_codes; GPU: fragment_codes) -> [R, outputs]
//   [tiles]
constexpr StringLiteral kQuantLinear[] = {"bits", "columns", "group", "outputs",
                                          "scale"};
// x [R, columns], w (vector of dim) -> [R, columns]   [1 per row]
constexpr StringLiteral kRmsNorm[] = {"columns", "dim", "eps", "offset"};
// x, gate [R, columns], w (vector of dim) -> [R, columns]   [1 per row]
constexpr StringLiteral kGatedRmsNorm[] = {"columns", "dim", "eps"};
// x [R, columns] -> [R, columns]   [1 per row]
constexpr StringLiteral kL2Norm[] = {"columns", "dim", "eps"};
// x [R, columns] (and y) -> [R, columns]   [1 per row]
constexpr StringLiteral kElementwise[] = {"columns"};
// x [R, columns], count [1] i32 -> [1, columns]   [1]
constexpr StringLiteral kLastRow[] = {"columns"};
// x [R + first, columns] -> [R, columns]   [1 per row]
constexpr StringLiteral kDropRows[] = {"columns", "first"};
// x [R, sum of widths] -> [R, widths[j]] each   [1 per row]
constexpr StringLiteral kSplit[] = {"groups", "widths"};
// [R, widths[j]] each -> [R, sum of widths]   [1 per row]
constexpr StringLiteral kConcatFeatures[] = {"widths"};
// x [R, columns], start [1] i32, table (rope_table) -> [R, columns]
//   [1 per row]
constexpr StringLiteral kRope[] = {"columns", "dims", "head_dim", "positions"};
// keys, values [R, heads * dim], start [1] i32 -> cache   [heads]
// cache: keys [heads][slots / 16][dim][16], values [heads][slots][dim]
// GPU: keys [heads][slots][dim] too
constexpr StringLiteral kCacheAppend[] = {"dim", "heads", "slots"};
// query [R, query_heads * dim], cache, start [1] i32 -> [R, query_heads * dim]
//   [query_heads per row]; window 0: none; keys at positions < start + live
//   rows are seen. GPU: gated 1 takes a gate like the query, behind the start,
//   and multiplies by its sigmoid. With dims, of up to 16 rows, the inputs of
//   attention_inputs of one cache -> [R, query_heads * dim], cache
constexpr StringLiteral kAttentionOptions[] = {
    "activations", "dims", "eps", "gated", "offset", "positions", "row_tile"};
constexpr StringLiteral kAttention[] = {
    "causal", "dim", "heads", "query_heads", "scale_by", "slots", "window"};
// x [R, channels], w (taps), accepted [1] i32 -> [R, channels], cache
//   [tiles of 16 channels]; cache [taps - 1 + pending][channels]
constexpr StringLiteral kShortConv[] = {"channels", "commit", "pending",
                                        "taps"};
// x [R, columns], a_log, dt_bias (vectors) -> [R, columns]   [1 per row]
constexpr StringLiteral kDeltaGate[] = {"columns"};
// query, key [R, key_heads * key_dim], value [R, heads * value_dim],
// decay, beta [R, heads], accepted [1] i32 -> [R, heads * value_dim], cache
//   [heads * tiles of 16 values]
// cache f32: state [heads][ceil(value_dim / 16)][key_dim][16], then pending
// key [pending][key_heads * key_dim], value [pending][heads * value_dim],
// decay [pending][heads], beta [pending][heads]. Reads the pending rows, never
// writes them: delta_save does, in a launch of its own, because the items of
// this one share them.
// GPU: state [heads][value_dim][key_dim], then the pending rows, key and value
// of the type of the activations, each of the four filled up to 4 bytes.
constexpr StringLiteral kGatedDelta[] = {"commit",    "heads",   "key_dim",
                                         "key_heads", "pending", "scale_by",
                                         "value_dim"};
// GPU alone: saves 1 leaves the rows waiting as delta_save does; normed 1, with
// it, takes a gate like the value and a norm (vector of value_dim) behind
// accepted, and norms the result as gated_rms_norm does, with norm_eps. taps,
// with both, and channels and eps as delta_inputs has them, takes the inputs of
// delta_inputs in front of accepted, and its cache in front of the other, and
// does what that does.
constexpr StringLiteral kDeltaOptions[] = {
    "activations", "channels", "eps", "norm_eps", "normed", "saves", "taps"};
// key, value, decay, beta -> cache   [1 per row]
constexpr StringLiteral kDeltaSave[] = {"heads", "key_dim", "key_heads",
                                        "pending", "value_dim"};
// logits [R, columns] -> [R] i32   [1 per row]
constexpr StringLiteral kArgmax[] = {"columns"};
// anchor [1] i32 -> [size] i32   [1]
constexpr StringLiteral kMaskBlock[] = {"mask_token", "size"};
// block [size] i32, logits [size - 1, columns] -> [size] i32   [1]
constexpr StringLiteral kUnmask[] = {"columns", "fill", "mask_token", "size"};
// [left] i32, [right] i32 -> [left + right] i32   [1]
constexpr StringLiteral kConcatTokens[] = {"left", "right"};
// block, decided [R] i32, start [1] i32
//   -> accepted, anchor, next start, context start [1] i32 each   [1]
// outputs may be the memory of inputs: everything is read before it is written
constexpr StringLiteral kCopy[] = {"bytes"};
// x [R, columns], weights (as of linear) of widths[j] outputs each, then the
// norm weight (vector of columns) if norm, then the residual [R, widths[0]] if
// residual -> [R, widths[j]] each, or only [R, widths[0]] if gated
//   [tiles of 16 outputs: those of the first weight, those of the second ...;
//   gated: those of the first]
constexpr StringLiteral kFusedLinear[] = {"columns",  "element", "eps",
                                          "gated",    "norm",    "offset",
                                          "residual", "widths"};
// The same with weights as of quant_linear.
constexpr StringLiteral kFusedQuantLinear[] = {
    "bits", "columns", "eps",      "gated", "group",
    "norm", "offset",  "residual", "scale", "widths"};
// x [R, channels], decay and beta inputs [R, heads] f32, w (taps), a_log,
// dt_bias (vectors of heads), accepted [1] i32 -> query, key [R, key_heads *
// key_dim], value [R, channels - 2 * key_heads * key_dim], decay, beta [R,
// heads], cache
//   [2 * key_heads, then tiles of 16 values, then 1]; cache as of short_conv
constexpr StringLiteral kDeltaInputs[] = {"channels", "commit",  "eps",
                                          "heads",    "key_dim", "key_heads",
                                          "pending",  "taps"};
// GPU alone: the query [R, query_heads * dim], or with the gate behind every
// head [R, 2 * query_heads * dim], and its norm (vector of dim) if there are
// query_heads; keys, values [R, heads * dim] of every cache, keys first, norms
// of the keys, start [1] i32, table (rope_table) -> rotated query and gate [R,
// query_heads * dim] if there are any, caches as of cache_append
constexpr StringLiteral kAttentionInputs[] = {
    "caches", "dim",    "dims",      "eps",         "gated",
    "heads",  "offset", "positions", "query_heads", "slots"};
// x [R, columns], w (interleaved) -> the largest logit [R, parts] f32 and its
// token [R, parts] i32 of every part of kHeadPart outputs   [parts]
constexpr StringLiteral kHeadOptions[] = {"activations", "arithmetic"};
constexpr StringLiteral kHeadArgmax[] = {"columns", "element", "outputs"};
// logits [R, parts] f32, tokens [R, parts] i32 -> [R] i32   [1 per row]
constexpr StringLiteral kArgmaxParts[] = {"parts"};
// x [R, columns], codes (search_codes), scales (search_scales), errors
// (search_errors) -> for every tile of 16 outputs what none of its logits is
// above [R, tiles] f32, and what the largest logit of a row is not below:
// the largest number of [R, parts] f32, a part being kHeadPart outputs
//   [parts]
// GPU: one part.
constexpr StringLiteral kHeadSearch[] = {"columns", "outputs"};
// x [R, columns], w (interleaved; GPU: rows), the results of head_search
//   -> as of head_argmax, of the tiles that may have the largest logit of a
// row; the largest logit [R, parts] f32 (minus infinity where there is no such
// tile), its token [R, parts] i32, how many tiles were computed [R, parts] i32:
// in the first of rows that are computed together, zero in all others
//   [parts]
// GPU: one part.
constexpr StringLiteral kHeadSettle[] = {"columns", "element", "outputs"};
// logits [R, parts] f32, tokens, settled [R, parts] i32 -> [R] i32, and counts
// [kHeadCounts] i32, which go up   [1 per row]
constexpr StringLiteral kSettledArgmax[] = {"parts", "tiles"};
// As head_argmax, w (rounded_codes).
// Processors alone.
constexpr StringLiteral kQuantHeadArgmax[] = {"bits", "columns", "group",
                                              "outputs", "scale"};
// places [R] i32, table (token_table) -> [R] i32   [1 per row]
constexpr StringLiteral kSelectTokens[] = {"entries"};
// x [R, columns], w (rounded_rows) -> the token of the largest logit [R] i32
// GPU alone.
constexpr StringLiteral kHeadDraft[] = {"columns", "group", "outputs"};

// clang-format off
constexpr ArrayRef<StringLiteral> kAny = kActivations, kMore = kLinearOptions,
                                  kCodes = kCodeOptions,
                                  kFused = kFusedOptions,
                                  kFusedCodes = kFusedCodeOptions;
const KernelSignature kSignatures[] = {
    {kEmbed, kAny, 2, 1},         {kLinear, kMore, 2, 1},
    {kQuantLinear, kCodes, 2, 1},
    {kRmsNorm, kAny, 2, 1},       {kGatedRmsNorm, kAny, 3, 1},
    {kL2Norm, kAny, 1, 1},
    {kElementwise, kAny, 1, 1},   {kElementwise, kAny, 1, 1}, // silu, sigmoid
    {kElementwise, kAny, 2, 1},   {kElementwise, kAny, 2, 1}, // add, mul
    {kLastRow, kAny, 2, 1},       {kDropRows, kAny, 1, 1},
    {kSplit, kAny, 1, kVariadic}, {kConcatFeatures, kAny, kVariadic, 1},
    {kRope, kAny, 3, 1},          {kCacheAppend, kAny, 3, 1},
    {kAttention, kAttentionOptions, kVariadic, kVariadic},     {kShortConv, kAny, 3, 2},
    {kDeltaGate, kAny, 3, 1},     {kGatedDelta, kDeltaOptions, kVariadic, kVariadic},
    {kDeltaSave, kAny, 4, 1},     {kArgmax, kAny, 1, 1},
    {kMaskBlock, kAny, 1, 1},     {kUnmask, kAny, 2, 1},
    {kConcatTokens, kAny, 2, 1},  {{}, kAny, 3, 4}, // accept
    {kCopy, kAny, 1, 1},
    {kFusedLinear, kFused, kVariadic, kVariadic},
    {kFusedQuantLinear, kFusedCodes, kVariadic, kVariadic},
    {kDeltaInputs, kAny, 7, 6},   {kHeadArgmax, kHeadOptions, 2, 2},
    {kArgmaxParts, kAny, 2, 1},   {{}, kAny, 2, 1}, // last_position
    {kAttentionInputs, kAny, kVariadic, kVariadic},
    {kHeadSearch, kHeadOptions, 4, 2},
    {kHeadSettle, kHeadOptions, 4, 3},
    {kSettledArgmax, kAny, 3, 2}, {kHeadDraft, kAny, 2, 1},
    {kQuantHeadArgmax, kHeadOptions, 2, 2},
    {kSelectTokens, kAny, 2, 1},
};
// clang-format on
static_assert(std::size(kSignatures) == getMaxEnumValForKernelFamily() + 1,
              "one signature per family, in order");
} // namespace

bool tandem::plan::canTakeFragments(mlir::DictionaryAttr parameters) {
  auto number = [&](llvm::StringRef name) -> int64_t {
    auto value = parameters.getAs<mlir::IntegerAttr>(name);
    return value ? value.getInt() : 0;
  };
  auto isBf16 = [&](llvm::StringRef name) {
    auto type = parameters.getAs<mlir::TypeAttr>(name);
    return type && type.getValue().isBF16();
  };
  if (!isBf16("activations") || number("columns") % kFragmentColumns != 0)
    return false;
  if (parameters.contains("element"))
    return isBf16("element");
  int64_t group = number("group");
  return number("bits") == 4 && !number("zero_points") &&
         !number("float_codes") &&
         (group == 32 || group == 64 || group == 128) && isBf16("scale");
}

const KernelSignature &tandem::plan::getKernelSignature(KernelFamily family) {
  return kSignatures[static_cast<unsigned>(family)];
}
