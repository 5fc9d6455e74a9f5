//===- DotProduct.h - Products of narrow numbers ----------------*- C++ -*-===//
//
// What products do in place of f32 multiplications when a kernel's parameter
// `arithmetic` says bf16 or i8: the rows of a register tile are narrowed into
// scratch, and instructions that multiply two or four columns at a time add
// them up.
//
//   bf16  rows are rounded to bf16; products are exact and summed in f32: over
//         a group of columns, then times its scale, group after group
//   i8    rows are rounded to 127 steps of the largest number of each group of
//         columns; sums over a group are exact, then multiplied by both scales
//
// As everywhere, an output has one order of sums whatever rows are beside it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_CPU_DOTPRODUCT_H
#define TANDEM_CODEGEN_CPU_DOTPRODUCT_H

#include "codegen/cpu/KernelBuilder.h"

#include <memory>

namespace tandem::codegen {

/// A register tile: up to `rows` rows times `tiles` tiles of 16 outputs.
struct TileShape {
  int64_t rows;
  int64_t tiles;
};

class DotProduct {
public:
  /// What the kernel's `arithmetic` asks for; null for f32.
  static std::unique_ptr<DotProduct> create(KernelBuilder &k);

  virtual ~DotProduct() = default;

  /// The shapes of register tiles, from most rows to one, for products of
  /// \p weights weights, or of one for a kernel that keeps more than its sums
  /// (0).
  virtual llvm::ArrayRef<TileShape> shapes(int64_t weights) const;
  /// Scratch that \p rows rows take when they are packed, in bytes.
  virtual int64_t packedBytes(int64_t rows) const = 0;
  /// Packs the rows, of the kernel's `columns` f32 each, into \p packed.
  virtual void pack(llvm::ArrayRef<Memory> rows, Memory packed) const = 0;
  /// The sums of the \p rows packed rows with \p tiles, which begin where
  /// WeightReader::tile() says: [row][tile].
  virtual Vars sum(int64_t rows, Memory packed,
                   llvm::ArrayRef<Memory> tiles) const = 0;
  /// Ends what began with pack().
  virtual void release() const {}
};

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CPU_DOTPRODUCT_H
