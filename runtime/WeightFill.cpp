//===- WeightFill.cpp - Weights that no file holds ------------------------===//

#include "runtime/WeightFill.h"

#include "runtime/cpu/ThreadPool.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace tandem {

using artifact::ElementType;
using artifact::Fill;

static uint64_t numberBytes(const Fill &fill) {
  return fill.element() == ElementType::f32 ? 4 : 2;
}

uint64_t recordBytes(const Fill &fill) {
  return fill.numbers() * numberBytes(fill) + fill.codes();
}

Status checkFill(const Fill &fill, uint64_t size) {
  if (fill.element() != ElementType::f32 && fill.element() != ElementType::bf16)
    return invalidFile("fill: makes numbers of element type ",
                       static_cast<unsigned>(fill.element()),
                       ", expected f32 or bf16");
  if (!std::isfinite(fill.center()) || !std::isfinite(fill.spread()))
    return invalidFile("fill: center or spread is not finite");
  uint64_t record = recordBytes(fill);
  if (record == 0 || size % record != 0)
    return invalidFile("fill: records of ", record, " bytes do not make ", size,
                       " bytes");
  return Status();
}

/// Draw number \p counter of stream \p key. SplitMix64 (Steele, Lea and Flood,
/// "Fast splittable pseudorandom number generators", 2014), which can start
/// anywhere.
static uint64_t draw(uint64_t key, uint64_t counter) {
  uint64_t z = key + (counter + 1) * UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/// Makes records [\p begin, \p end) of a weight that starts at \p data. A
/// record takes as many draws as it has numbers and words of 8 bytes.
static void fillRecords(const Fill &fill, uint64_t key, uint64_t begin,
                        uint64_t end, std::byte *data) {
  uint64_t numbers = fill.numbers(), codes = fill.codes();
  uint64_t draws = numbers + (codes + 7) / 8;
  uint64_t width = numberBytes(fill);
  float center = fill.center(), spread = fill.spread();
  data += begin * recordBytes(fill);
  for (uint64_t record = begin; record < end; ++record) {
    uint64_t counter = record * draws;
    for (uint64_t index = 0; index < numbers; ++index) {
      // 24 bits are what an f32 between 0 and 1 holds.
      float unit = float(draw(key, counter++) >> 40) * 0x1p-24f;
      auto bits = std::bit_cast<uint32_t>(center + spread * (2 * unit - 1));
      // A bf16 is the upper half of an f32.
      if (width == 2)
        bits >>= 16;
      std::memcpy(data, &bits, width);
      data += width;
    }
    for (uint64_t done = 0; done < codes; done += 8) {
      uint64_t bits = draw(key, counter++);
      uint64_t size = std::min<uint64_t>(8, codes - done);
      std::memcpy(data, &bits, size);
      data += size;
    }
  }
}

Status fillWeights(const artifact::Artifact &tables, std::byte *blobs) {
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<ThreadPool> pool,
                          ThreadPool::create(usableCores()));
  // Pieces go around the threads: all weights are about as hard as each other.
  constexpr uint64_t pieceBytes = uint64_t(1) << 20;
  pool->run(pool->size(), [&](uint32_t part, unsigned) {
    uint64_t piece = 0;
    for (uint32_t index = 0; index < tables.weights()->size(); ++index) {
      const artifact::Weight &weight = *tables.weights()->Get(index);
      const Fill *fill = weight.fill();
      if (!fill)
        continue;
      uint64_t record = recordBytes(*fill);
      uint64_t records = weight.data()->size() / record;
      uint64_t each = std::max<uint64_t>(1, pieceBytes / record);
      // Streams of weights lie far apart.
      uint64_t key = draw(fill->seed(), index);
      for (uint64_t begin = 0; begin < records; begin += each, ++piece)
        if (piece % pool->size() == part)
          fillRecords(*fill, key, begin, std::min(records, begin + each),
                      blobs + weight.data()->offset());
    }
  });
  return Status();
}

} // namespace tandem
