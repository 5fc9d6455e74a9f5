//===- Bf16.h - The upper half of a float -----------------------*- C++ -*-===//

#ifndef TANDEM_RUNTIME_BF16_H
#define TANDEM_RUNTIME_BF16_H

#include <bit>
#include <cstdint>

namespace tandem {

/// The number whose bfloat16 bits are \p bits.
inline float fromBf16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

/// Bits of the nearest bfloat16, the even one of two. What is not a number
/// stays so.
inline uint16_t toBf16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if (value != value)
    return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

} // namespace tandem

#endif // TANDEM_RUNTIME_BF16_H
