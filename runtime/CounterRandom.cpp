//===- CounterRandom.cpp - Random numbers without a state -----------------===//

#include "runtime/CounterRandom.h"

#include <cmath>

namespace tandem {

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                               std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t even = uint64_t(0xd2511f53) * counter[0];
    uint64_t odd = uint64_t(0xcd9e8d57) * counter[2];
    counter = {uint32_t(odd >> 32) ^ counter[1] ^ key[0], uint32_t(odd),
               uint32_t(even >> 32) ^ counter[3] ^ key[1], uint32_t(even)};
    key[0] += 0x9e3779b9;
    key[1] += 0xbb67ae85;
  }
  return counter;
}

double PositionRandom::uniform(uint32_t index) {
  if (!filled || index / 4 != group) {
    group = index / 4;
    filled = true;
    words = philox(
        {group, uint32_t(position), uint32_t(position >> 32), uint32_t(use)},
        {uint32_t(seed), uint32_t(seed >> 32)});
  }
  return (words[index % 4] + 0.5) * 0x1p-32;
}

double PositionRandom::gumbel(uint32_t index) {
  return -std::log(-std::log(uniform(index)));
}

} // namespace tandem
