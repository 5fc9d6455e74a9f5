//===- AttentionLayer.h - Attention that makes its inputs -------*- C++ -*-===//

#ifndef TANDEM_DIALECTS_PLAN_ATTENTIONLAYER_H
#define TANDEM_DIALECTS_PLAN_ATTENTIONLAYER_H

#include <cstdint>

namespace tandem::plan {

/// Rows up to which one launch of a GPU can make the inputs of attention.
constexpr int64_t kMostLayerRows = 16;

/// Whether the launch of attention over a cache of such a shape can normalize,
/// turn and append what it reads itself; \p dims of a head turn.
inline bool canMakeQueries(int64_t dim, int64_t heads, int64_t queryHeads,
                           int64_t slots, int64_t dims) {
  // A head of one row alone is summed in another order.
  return (dim == 128 || dim == 256) && heads > 1 && queryHeads % heads == 0 &&
         queryHeads / heads <= 4 && slots >= 128 && dims > 0 &&
         dims % 64 == 0 && dims <= 128 && dims <= dim;
}

} // namespace tandem::plan

#endif // TANDEM_DIALECTS_PLAN_ATTENTIONLAYER_H
