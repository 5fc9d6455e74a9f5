//===- ReadBandwidth.cpp - How fast memory can be read --------------------===//

#include "runtime/cpu/ReadBandwidth.h"

#include "runtime/cpu/Memory.h"
#include "runtime/cpu/ThreadPool.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace tandem {

/// Sixteen bytes at a time: every processor has such registers.
typedef uint64_t Vector __attribute__((vector_size(16)));

/// Sum of all words: something that depends on every one of them.
static uint64_t sumOf(const std::byte *data, uint64_t size) {
  Vector sums[8] = {};
  for (uint64_t offset = 0; offset + sizeof(sums) <= size;
       offset += sizeof(sums)) {
    const auto *vectors = reinterpret_cast<const Vector *>(data + offset);
    for (unsigned lane = 0; lane < 8; ++lane)
      sums[lane] += vectors[lane];
  }
  uint64_t sum = 0;
  for (const Vector &vector : sums)
    sum += vector[0] + vector[1];
  return sum;
}

StatusOr<double> measureReadBandwidth(unsigned threads, uint64_t size) {
  constexpr uint64_t page = 4096;
  uint64_t part = std::min(size, availableMemory() / 4) / threads / page * page;
  part = std::max(part, page);
  TANDEM_ASSIGN_OR_RETURN(PageMemory memory,
                          PageMemory::create(part * threads));
  TANDEM_ASSIGN_OR_RETURN(auto pool, ThreadPool::create(threads));
  // Pages that were only read are all the same page of zeros.
  pool->run(threads, [&](uint32_t number, unsigned) {
    std::memset(memory.data() + number * part, 1, part);
  });
  std::atomic<uint64_t> total{0};
  double best = 0;
  for (unsigned pass = 0; pass < 3; ++pass) {
    auto begin = std::chrono::steady_clock::now();
    pool->run(threads, [&](uint32_t number, unsigned) {
      total += sumOf(memory.data() + number * part, part);
    });
    std::chrono::duration<double> duration =
        std::chrono::steady_clock::now() - begin;
    best = std::max(best, double(part * threads) / duration.count());
  }
  // Whoever could compute the sum without reading would find it used here.
  return total.load() == 1 ? 0 : best;
}

} // namespace tandem
