//===- Snapshot.cpp - Copies of the states that cannot go back ------------===//

#include "runtime/Snapshot.h"

#include <algorithm>

namespace tandem {

/// States and snapshots are padded to multiples of this.
static constexpr uint64_t alignment = 64;

SnapshotLayout::SnapshotLayout(const Artifact &artifact) {
  for (const artifact::State *state : *artifact.root().states())
    if (state->kind()->string_view() != "key_value" && state->size() > 0)
      ranges.push_back({state->offset(), 0, state->size()});
  std::sort(ranges.begin(), ranges.end(),
            [](const Range &left, const Range &right) {
              return left.stateOffset < right.stateOffset;
            });
  // A few large copies are quicker than many.
  std::vector<Range> merged;
  for (const Range &range : ranges) {
    Range *last = merged.empty() ? nullptr : &merged.back();
    if (!last ||
        range.stateOffset >= last->stateOffset + last->size + alignment)
      merged.push_back(range);
    else
      last->size = std::max(last->size,
                            range.stateOffset + range.size - last->stateOffset);
  }
  ranges = std::move(merged);
  for (Range &range : ranges) {
    range.snapshotOffset = size;
    size += (range.size + alignment - 1) / alignment * alignment;
  }
}

std::optional<SnapshotTable::Found> SnapshotTable::find(size_t position,
                                                        bool drafted) {
  Entry *best = nullptr;
  for (Entry &entry : entries) {
    if (entry.lastUse == 0 || entry.position > position ||
        (drafted && entry.contextRows != entry.position))
      continue;
    if (!best || entry.position > best->position)
      best = &entry;
  }
  if (!best)
    return std::nullopt;
  best->lastUse = ++uses;
  return Found{uint32_t(best - entries.data()), *best};
}

uint32_t SnapshotTable::add(size_t position, size_t contextRows) {
  assert(!entries.empty());
  auto place = std::min_element(entries.begin(), entries.end(),
                                [](const Entry &left, const Entry &right) {
                                  return left.lastUse < right.lastUse;
                                });
  *place = {position, contextRows, ++uses};
  return uint32_t(place - entries.begin());
}

void SnapshotTable::dropBehind(size_t position) {
  for (Entry &entry : entries)
    if (entry.position > position)
      entry = {};
}

void SnapshotTable::clear() {
  std::fill(entries.begin(), entries.end(), Entry{});
}

} // namespace tandem
