//===- KernelRelations.cpp - How parameters of kernels fit each other -----===//

#include "passes/ContractBuilder.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::contract;
using plan::KernelFamily;

/// Of fused layers: what may lie as products take it.
LogicalResult ContractBuilder::checkFragments() {
  bool from = number("from_fragments") != 0, to = number("to_fragments") != 0,
       next = number("next_norm") != 0;
  if (!from && !to && !next)
    return success();
  if (!isGpu)
    return kernel.emitOpError("expects a GPU for tokens in fragments");
  int64_t tile = number("row_tile");
  if (!parameter("row_tile") || tile > plan::kFragmentRows || rows > tile)
    return kernel.emitOpError("expects rows in a row_tile of up to ")
           << plan::kFragmentRows << " with tokens in fragments, but got "
           << rows << " and " << tile;
  if (from && !plan::canTakeFragments(kernel.getParameters()))
    return kernel.emitOpError("expects bf16 weights, or codes of 4 bits "
                              "without zero points in groups of 32, 64 or 128 "
                              "with scales in bf16, for bf16 tokens in "
                              "fragments");
  ArrayRef<int64_t> outputs = widths();
  if ((to || next) &&
      (outputs.front() % plan::kFragmentColumns != 0 || !result().isBF16()))
    return kernel.emitOpError("expects widths of a multiple of ")
           << plan::kFragmentColumns << " and bf16 results in fragments, but "
           << "got " << outputs.front() << " and " << result();
  if (to && ((outputs.size() != 1 && !number("gated")) || next))
    return kernel.emitOpError("expects a single result in fragments");
  if (next &&
      (!number("residual") || number("gated") || !parameter("next_offset")))
    return kernel.emitOpError("expects a residual, no gate and next_offset "
                              "where the next norm is prepared");
  return success();
}

LogicalResult ContractBuilder::checkRelations() {
  if (parameter("row_tile") &&
      !llvm::is_contained(plan::kRowTiles, number("row_tile")))
    return kernel.emitOpError(
               "expects a row_tile of 8, 16, 32, 64 or 128, but got ")
           << number("row_tile");
  switch (kernel.getFamily()) {
  case KernelFamily::rms_norm:
  case KernelFamily::gated_rms_norm:
  case KernelFamily::l2_norm:
    return expectMultiple("columns", "dim");
  case KernelFamily::split:
    for (int64_t width : widths())
      if (width % number("groups") != 0)
        return kernel.emitOpError("expects widths to be multiples of groups, "
                                  "but got ")
               << width << " and " << number("groups");
    return success();
  case KernelFamily::rope:
    if (number("dims") > number("head_dim"))
      return kernel.emitOpError("expects dims up to head_dim, but got ")
             << number("dims") << " and " << number("head_dim");
    return expectMultiple("columns", "head_dim");
  case KernelFamily::quant_head_argmax:
    if (number("bits") != 4 || !type("scale", f32()).isBF16())
      return kernel.emitOpError("expects 4 bits and scales in bf16, but got ")
             << number("bits") << " and " << type("scale", f32());
    return success();
  case KernelFamily::attention_inputs:
    if (number("dims") > number("dim"))
      return kernel.emitOpError("expects dims up to dim, but got ")
             << number("dims") << " and " << number("dim");
    if (number("query_heads") && number("caches") != 1)
      return kernel.emitOpError("expects one cache beside a query, but got ")
             << number("caches");
    if (number("gated") && !number("query_heads"))
      return kernel.emitOpError("expects a query beside its gate");
    return expectSlotTiles();
  case KernelFamily::cache_append:
    return expectSlotTiles();
  case KernelFamily::attention:
    if (failed(expectMultiple("query_heads", "heads")))
      return failure();
    for (StringRef name : {"eps", "offset", "positions"})
      if (number("dims") && !parameter(name))
        return kernel.emitOpError("expects ") << name << " beside dims";
    if (number("dims") > number("dim"))
      return kernel.emitOpError("expects dims up to dim, but got ")
             << number("dims") << " and " << number("dim");
    return expectSlotTiles();
  case KernelFamily::gated_delta:
    if (number("saves") && number("commit"))
      return kernel.emitOpError("expects rows to be saved or committed");
    if (number("normed") && (!number("saves") || !parameter("norm_eps")))
      return kernel.emitOpError("expects norm_eps, and rows to be saved, with "
                                "a norm");
    if (number("taps")) {
      int64_t channels = product({2, number("key_heads"), number("key_dim")}) +
                         product({number("heads"), number("value_dim")});
      if (!number("normed") || !parameter("eps"))
        return kernel.emitOpError("expects eps and a norm with taps");
      if (number("channels") != channels)
        return kernel.emitOpError("expects ")
               << channels << " channels, those of its heads, but got "
               << number("channels");
    }
    return expectMultiple("heads", "key_heads");
  case KernelFamily::delta_save:
    return expectMultiple("heads", "key_heads");
  case KernelFamily::unmask:
    if (number("size") < 2)
      return kernel.emitOpError("expects a slot behind the anchor, but got a "
                                "size of ")
             << number("size");
    return success();
  case KernelFamily::fused_linear:
  case KernelFamily::fused_quant_linear: {
    ArrayRef<int64_t> outputs = widths();
    bool isGated = number("gated") != 0;
    if (isGated && (outputs.size() != 2 || outputs[0] != outputs[1]))
      return kernel.emitOpError("expects two equal widths when gated, but "
                                "got ")
             << parameter("widths");
    if (number("residual") && !isGated && outputs.size() != 1)
      return kernel.emitOpError("expects one width when there is a residual, "
                                "but got ")
             << parameter("widths");
    return checkFragments();
  }
  case KernelFamily::delta_inputs: {
    int64_t keys = product({2, number("key_heads"), number("key_dim")});
    if (number("channels") <= keys)
      return kernel.emitOpError("expects channels behind the ")
             << keys << " of queries and keys, but got " << number("channels");
    return success();
  }
  default:
    return success();
  }
}
