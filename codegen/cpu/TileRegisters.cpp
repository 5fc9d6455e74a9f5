//===- TileRegisters.cpp - Matrices in registers --------------------------===//

#include "codegen/cpu/TileRegisters.h"

#include <array>
#include <cstring>

using namespace tandem::codegen;

void TileRegisters::configure(llvm::ArrayRef<Shape> shapes,
                              Memory scratch) const {
  assert(k.target().hasTiles() && shapes.size() <= 8);
  // Palette 1 at 0, 16-bit row lengths from byte 16 on, row counts from 48 on.
  std::array<uint8_t, configurationBytes> bytes = {1};
  for (size_t tile = 0; tile < shapes.size(); ++tile) {
    bytes[16 + 2 * tile] = static_cast<uint8_t>(shapes[tile].rowBytes);
    bytes[48 + tile] = static_cast<uint8_t>(shapes[tile].rows);
  }
  std::array<int32_t, configurationBytes / 4> words;
  std::memcpy(words.data(), bytes.data(), bytes.size());
  scratch.as(k.i32()).storeVector(
      0, k.constant(mlir::DenseElementsAttr::get(
             k.vectorOf(k.i32()), llvm::ArrayRef<int32_t>(words))));
  k.callIntrinsic("llvm.x86.ldtilecfg", {scratch.start()});
}

void TileRegisters::release() const {
  k.callIntrinsic("llvm.x86.tilerelease", {});
}

mlir::Value TileRegisters::number(int64_t tile) const {
  return k.constant(k.ops().getI8IntegerAttr(static_cast<int8_t>(tile)))
      .value();
}

void TileRegisters::zero(int64_t tile) const {
  k.callIntrinsic("llvm.x86.tilezero", {number(tile)});
}

void TileRegisters::load(int64_t tile, Memory from, int64_t stride) const {
  k.callIntrinsic("llvm.x86.tileloadd64",
                  {number(tile), from.start(), k.index(stride).value()});
}

void TileRegisters::store(int64_t tile, Memory to, int64_t stride) const {
  k.callIntrinsic("llvm.x86.tilestored64",
                  {number(tile), to.start(), k.index(stride).value()});
}

void TileRegisters::dotBf16(int64_t sum, int64_t left, int64_t right) const {
  k.callIntrinsic("llvm.x86.tdpbf16ps",
                  {number(sum), number(left), number(right)});
}
