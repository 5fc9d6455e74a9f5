//===- SavedRows.h - What one gated_delta of a GPU can do -------*- C++ -*-===//

#ifndef TANDEM_DIALECTS_PLAN_SAVEDROWS_H
#define TANDEM_DIALECTS_PLAN_SAVEDROWS_H

#include <cstdint>

namespace tandem::plan {

/// Whether GPUs have a `gated_delta` that saves `pending` rows with keys of
/// `keyDim` and norms what it says: both the rows that wait and those of the
/// call fit into the shared memory of a block.
inline bool canSaveRows(int64_t pending, int64_t keyDim) {
  return pending <= 16 && keyDim <= 192;
}

/// Whether that kernel can norm what it says, of heads of `valueDim` numbers of
/// `bytes` bytes: a lane of a warp has 16 bytes side by side, fewer where heads
/// are no multiple of that.
inline bool canNormRows(int64_t valueDim, int64_t bytes) {
  int64_t pack = 16 / bytes;
  while (valueDim % pack != 0)
    pack /= 2;
  return valueDim <= 32 * pack;
}

/// Whether a block of it can make what it reads of up to 16 rows from a
/// convolution of `taps` taps: a lane has eight numbers of a head.
inline bool canMakeRows(int64_t pending, int64_t heads, int64_t keyHeads,
                        int64_t keyDim, int64_t valueDim, int64_t taps) {
  return canSaveRows(pending, keyDim) && keyDim <= 128 && keyDim % 8 == 0 &&
         valueDim % 8 == 0 && canNormRows(valueDim, 2) &&
         heads <= 16 * keyHeads && taps <= 9;
}

} // namespace tandem::plan

#endif // TANDEM_DIALECTS_PLAN_SAVEDROWS_H
