//===- ColumnCut.cpp - How few_rows.cuh cuts columns ----------------------===//

#include "codegen/cuda/ColumnCut.h"

#include "llvm/Support/MathExtras.h"

using namespace llvm;
using namespace tandem;
using namespace tandem::codegen;

ColumnCut tandem::codegen::cutColumns(int64_t units, int64_t steps,
                                      int64_t unitBytes, bool copiesTiles,
                                      int64_t shared) {
  // Many warps with few registers: five for each of the four parts of a
  // multiprocessor hide what each of them waits for.
  constexpr int64_t mostSteps = 8, mostWarps = 20;
  for (int64_t slices = 1;; ++slices) {
    auto perSlice = static_cast<int64_t>(divideCeil(units, slices));
    for (int64_t perWarp = 1; perWarp == 1 || perWarp * steps <= mostSteps;
         ++perWarp) {
      auto warps = static_cast<int64_t>(divideCeil(perSlice, perWarp));
      int64_t stage = unitBytes * (copiesTiles ? perWarp : 1);
      int64_t needed =
          warps * (kSumsBytes + (copiesTiles ? kTileStages : 2) * stage);
      if (warps <= mostWarps && (needed <= shared || warps == 1))
        return {slices, warps, perWarp};
    }
  }
}

int64_t tandem::codegen::getSlotBytes(int64_t slices, int64_t tiles) {
  if (slices == 1)
    return 0;
  return static_cast<int64_t>(divideCeil(slices + 7, slices)) * tiles * slices *
         kTileSumsBytes;
}

std::optional<ColumnCut> tandem::codegen::cutForCluster(int64_t units,
                                                        int64_t steps,
                                                        int64_t unitBytes,
                                                        int64_t shared) {
  constexpr int64_t mostSteps = 8, mostWarps = 20, mostTiles = 2;
  // Those that fill the groups that multiprocessors come in first.
  for (int64_t most : {kHalfWarps, mostWarps})
    for (int64_t slices : {1, 2, 4, 8, 3, 5, 6, 7}) {
      auto perSlice = static_cast<int64_t>(divideCeil(units, slices));
      for (int64_t perWarp = 1; perWarp == 1 || perWarp * steps <= mostSteps;
           ++perWarp) {
        auto warps = static_cast<int64_t>(divideCeil(perSlice, perWarp));
        int64_t needed =
            getSlotBytes(slices, mostTiles) +
            warps * (kSumsBytes + kTileStages * perWarp * unitBytes);
        // No slice without units.
        if (warps <= most && needed <= shared &&
            (slices - 1) * warps * perWarp < units)
          return ColumnCut{slices, warps, perWarp};
      }
    }
  return std::nullopt;
}
