//===- TensorElements.h - Numbers of a checkpoint's tensors -----*- C++ -*-===//
//
// What the packers of weights read and write: entries of arrays that need not
// be aligned, little-endian.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_TENSORELEMENTS_H
#define TANDEM_CODEGEN_TENSORELEMENTS_H

#include "models/Safetensors.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace tandem::codegen {

/// Where \p tensor is, for the begin of a message.
inline std::string describe(const models::TensorView &tensor) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << tensor.file << ": tensor '";
  llvm::printEscapedString(tensor.name, os);
  os << "'";
  return text;
}

/// Entry \p index of an array of \p T at \p bytes, which need not be aligned.
template <typename T> inline T load(const uint8_t *bytes, int64_t index) {
  return llvm::support::endian::read<T, llvm::endianness::little>(
      bytes + index * static_cast<int64_t>(sizeof(T)));
}

template <typename T>
inline void store(uint8_t *bytes, int64_t index, T value) {
  llvm::support::endian::write<T, llvm::endianness::little>(
      bytes + index * static_cast<int64_t>(sizeof(T)), value);
}

inline void storeFloat(uint8_t *bytes, int64_t index, float value) {
  store<uint32_t>(bytes, index, llvm::bit_cast<uint32_t>(value));
}

/// Entry \p index of \p tensor, whose elements are floats.
inline float loadFloat(const models::TensorView &tensor, int64_t index) {
  const uint8_t *bytes = tensor.bytes.data();
  switch (tensor.dtype) {
  case models::DType::F32:
    return llvm::bit_cast<float>(load<uint32_t>(bytes, index));
  case models::DType::BF16:
    return llvm::bit_cast<float>(uint32_t(load<uint16_t>(bytes, index)) << 16);
  default:
    return llvm::APFloat(llvm::APFloat::IEEEhalf(),
                         llvm::APInt(16, load<uint16_t>(bytes, index)))
        .convertToFloat();
  }
}

/// Whether entry \p index of \p tensor, whose elements are floats, is neither
/// infinite nor a NaN: its exponent is not all ones.
inline bool isFinite(const models::TensorView &tensor, int64_t index) {
  const uint8_t *bytes = tensor.bytes.data();
  if (tensor.dtype == models::DType::F32)
    return (~load<uint32_t>(bytes, index) & 0x7f800000) != 0;
  uint16_t exponent = tensor.dtype == models::DType::BF16 ? 0x7f80 : 0x7c00;
  return (~load<uint16_t>(bytes, index) & exponent) != 0;
}

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_TENSORELEMENTS_H
