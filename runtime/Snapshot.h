//===- Snapshot.h - Copies of the states that cannot go back ----*- C++ -*-===//
//
// A text can go back to an earlier position when its caches can. Rows of
// key/value caches stay where they are until others are written over them, so
// they can. Convolution windows, recurrent states and the rings of windowed
// layers are what the rows so far have made of them: where a text may have to
// go back to, a device keeps a copy of these, a snapshot.
//
//   state memory   |conv 0|delta 0|key_value 3|conv 4|delta 4|window d0|
//   snapshot       |conv 0|delta 0|conv 4|delta 4|window d0|
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_SNAPSHOT_H
#define TANDEM_RUNTIME_SNAPSHOT_H

#include "runtime/Artifact.h"

#include <optional>
#include <span>
#include <vector>

namespace tandem {

/// Snapshots that a conversation has: one where its last question ends, and
/// one where an earlier text went another way.
constexpr uint32_t conversationSnapshots = 2;

/// What a snapshot of an artefact is a copy of.
struct SnapshotLayout {
  /// Some states that lie together, with the padding between them.
  struct Range {
    /// Into the state memory, and into the snapshot; multiples of 64.
    uint64_t stateOffset, snapshotOffset;
    uint64_t size;
  };

  explicit SnapshotLayout(const Artifact &artifact);

  /// In order; they do not overlap.
  std::vector<Range> ranges;
  /// Bytes of a snapshot, a multiple of 64.
  uint64_t size = 0;
};

/// Which snapshots there are, and of what. All of them are of beginnings of
/// one text, the one in the caches.
class SnapshotTable {
public:
  explicit SnapshotTable(uint32_t count) : entries(count) {}

  struct Entry {
    /// Tokens in the target's caches.
    size_t position = 0;
    /// Rows in the drafter's context.
    size_t contextRows = 0;
    /// When it was made or found last; 0: there is none.
    uint64_t lastUse = 0;
  };
  /// Number of a snapshot, and what it is of.
  struct Found {
    uint32_t snapshot;
    Entry entry;
  };

  /// The latest one up to \p position; with \p drafted, of those whose
  /// drafter knows all tokens.
  std::optional<Found> find(size_t position, bool drafted);

  /// The number of a new one, in the place of that which nobody has used for
  /// the longest time. There are snapshots.
  uint32_t add(size_t position, size_t contextRows);

  /// Forgets those behind \p position: the text goes another way there.
  void dropBehind(size_t position);
  void clear();

private:
  std::vector<Entry> entries;
  uint64_t uses = 0;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_SNAPSHOT_H
