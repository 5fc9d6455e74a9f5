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

} // namespace tandem::plan

#endif // TANDEM_DIALECTS_PLAN_SAVEDROWS_H
