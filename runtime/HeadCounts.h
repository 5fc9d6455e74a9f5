//===- HeadCounts.h - What searched heads had to compute --------*- C++ -*-===//
//
// A head that is searched (docs/heads.md) computes the few tiles of its
// vocabulary whose logits may be the largest. How many those were, the device
// counts in a port.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_HEADCOUNTS_H
#define TANDEM_RUNTIME_HEADCOUNTS_H

#include "runtime/Artifact.h"
#include "runtime/Device.h"

#include <optional>

namespace tandem {

/// Counts go up from load to unload, and begin again behind 2^32 - 1.
struct HeadCounts {
  /// Rows of logits that a tile has.
  static constexpr uint32_t tileRows = 16;

  /// Searches, and the rows of activations in them.
  uint32_t searches = 0, rows = 0;
  /// Tiles that were computed in full precision.
  uint32_t tiles = 0;
  /// Searches that left nothing out: full passes over the head.
  uint32_t fullPasses = 0;

  /// What was counted since \p before.
  HeadCounts operator-(const HeadCounts &before) const {
    return {searches - before.searches, rows - before.rows,
            tiles - before.tiles, fullPasses - before.fullPasses};
  }
  HeadCounts operator+(const HeadCounts &other) const {
    return {searches + other.searches, rows + other.rows, tiles + other.tiles,
            fullPasses + other.fullPasses};
  }
  /// Tiles for each row; 0 without rows.
  double tilesPerRow() const { return rows ? double(tiles) / rows : 0; }
};

/// Waits for all work and reads the counts. Nothing when no head of the
/// artefact is searched.
StatusOr<std::optional<HeadCounts>> readHeadCounts(const Artifact &artifact,
                                                   Device &device);

} // namespace tandem

#endif // TANDEM_RUNTIME_HEADCOUNTS_H
