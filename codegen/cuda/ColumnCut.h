//===- ColumnCut.h - How few_rows.cuh cuts columns --------------*- C++ -*-===//
//
// How the columns of a layer of up to 16 rows are cut is part of the order of
// its sums, so it follows from the shape of the weight and what the kind of
// processor has room for, never from the rows of a launch.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_CUDA_COLUMNCUT_H
#define TANDEM_CODEGEN_CUDA_COLUMNCUT_H

#include <cstdint>
#include <optional>

namespace tandem::codegen {

/// A cut of columns: into slices, and those over warps, each of some units.
struct ColumnCut {
  int64_t slices, warps, unitsPerWarp;
};

/// Outputs of a tile, and tokens up to which layers are few_rows.cuh's.
inline constexpr int64_t kTileOutputs = 16, kFewRows = 16;
/// Bytes of the sums of a tile of few_rows.cuh, and of a warp, which has two.
inline constexpr int64_t kTileSumsBytes = 256 * 4,
                         kSumsBytes = 2 * kTileSumsBytes;
/// Stages of tiles at least.
inline constexpr int64_t kTileStages = 4;
/// Warps that multiply in half of a multiprocessor.
inline constexpr int64_t kHalfWarps = 10;

/// Cuts the columns of \p units units of \p steps steps: into the fewest slices
/// whose warps have registers for their tokens, and two stages of \p unitBytes
/// a unit in \p shared bytes; \p copiesTiles: four stages, each of all units of
/// a warp. It depends on nothing else, so layers of the same columns sum in the
/// same order, fused or not.
ColumnCut cutColumns(int64_t units, int64_t steps, int64_t unitBytes,
                     bool copiesTiles, int64_t shared);

/// Bytes of the slots of few_slices.cuh in a block of \p slices, for items of
/// \p tiles tiles.
int64_t getSlotBytes(int64_t slices, int64_t tiles);

/// Cuts columns over the blocks of a cluster: into the fewest slices for whose
/// warps half of a multiprocessor is enough, so that the next launch has the
/// other half; of many columns, into those that have room in a whole one. None
/// where that is not enough. It depends on what cutColumns() takes alone, too.
std::optional<ColumnCut> cutForCluster(int64_t units, int64_t steps,
                                       int64_t unitBytes, int64_t shared);

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CUDA_COLUMNCUT_H
