//===- Kernels.cpp - From a family to its kernel --------------------------===//

#include "codegen/cpu/Kernels.h"

using namespace tandem;
using namespace tandem::codegen;
using plan::KernelFamily;

void tandem::codegen::buildKernel(KernelBuilder &k) {
  switch (k.spec().family()) {
  case KernelFamily::embed:
    return buildEmbed(k);
  case KernelFamily::linear:
  case KernelFamily::quant_linear:
  case KernelFamily::fused_linear:
  case KernelFamily::fused_quant_linear:
    return buildLinear(k);
  case KernelFamily::head_argmax:
  case KernelFamily::quant_head_argmax:
    return buildHeadArgmax(k);
  case KernelFamily::rms_norm:
  case KernelFamily::gated_rms_norm:
  case KernelFamily::l2_norm:
    return buildNorm(k);
  case KernelFamily::silu:
  case KernelFamily::sigmoid:
  case KernelFamily::add:
  case KernelFamily::mul:
    return buildElementwise(k);
  case KernelFamily::last_row:
    return buildLastRow(k);
  case KernelFamily::drop_rows:
    return buildDropRows(k);
  case KernelFamily::split:
    return buildSplit(k);
  case KernelFamily::concat_features:
    return buildConcatFeatures(k);
  case KernelFamily::rope:
    return buildRope(k);
  case KernelFamily::cache_append:
    return buildCacheAppend(k);
  case KernelFamily::attention:
    return buildAttention(k);
  case KernelFamily::short_conv:
    return buildShortConv(k);
  case KernelFamily::delta_gate:
    return buildDeltaGate(k);
  case KernelFamily::gated_delta:
    return buildGatedDelta(k);
  case KernelFamily::delta_save:
    return buildDeltaSave(k);
  case KernelFamily::delta_inputs:
    return buildDeltaInputs(k);
  case KernelFamily::argmax:
    return buildArgmax(k);
  case KernelFamily::argmax_parts:
    return buildArgmaxParts(k);
  case KernelFamily::last_position:
    return buildLastPosition(k);
  case KernelFamily::head_search:
    return buildHeadSearch(k);
  case KernelFamily::head_settle:
    return buildHeadSettle(k);
  case KernelFamily::settled_argmax:
    return buildSettledArgmax(k);
  case KernelFamily::head_draft:
    // KernelSpec::checkForProcessor() has refused it.
    break;
  case KernelFamily::mask_block:
    return buildMaskBlock(k);
  case KernelFamily::unmask:
    return buildUnmask(k);
  case KernelFamily::concat_tokens:
    return buildConcatTokens(k);
  case KernelFamily::select_tokens:
    return buildSelectTokens(k);
  case KernelFamily::accept:
    return buildAccept(k);
  case KernelFamily::copy:
    return buildCopy(k);
  case KernelFamily::attention_inputs:
    break;
  }
  llvm_unreachable("a family");
}
