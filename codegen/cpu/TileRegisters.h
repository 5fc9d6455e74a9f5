//===- TileRegisters.h - Matrices in registers ------------------*- C++ -*-===//
//
// The eight tile registers of a processor with AMX: up to 16 rows of 64 bytes
// each. They have no values in MLIR or LLVM IR: what is emitted here names
// them by number, and keeps its place among loads and stores.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_CPU_TILEREGISTERS_H
#define TANDEM_CODEGEN_CPU_TILEREGISTERS_H

#include "codegen/cpu/KernelBuilder.h"

namespace tandem::codegen {

class TileRegisters {
public:
  /// Part of a register that is used.
  struct Shape {
    int64_t rows, rowBytes;
  };
  /// Bytes of a configuration in memory.
  static constexpr int64_t configurationBytes = 64;

  explicit TileRegisters(KernelBuilder &k) : k(k) {}

  /// Gives the first registers their shapes, by way of configurationBytes of
  /// \p scratch, and clears all. Every path from here passes release().
  void configure(llvm::ArrayRef<Shape> shapes, Memory scratch) const;
  /// Says that no register is in use any more: the system need not save them.
  void release() const;

  void zero(int64_t tile) const;
  /// Rows lie \p stride bytes apart.
  void load(int64_t tile, Memory from, int64_t stride) const;
  void store(int64_t tile, Memory to, int64_t stride) const;
  /// Adds to number (m, n) of \p sum, f32, the products of pair k of row m of
  /// \p left and pair n of row k of \p right, pairs of bf16, for all k in
  /// order.
  void dotBf16(int64_t sum, int64_t left, int64_t right) const;

private:
  mlir::Value number(int64_t tile) const;

  KernelBuilder &k;
};

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CPU_TILEREGISTERS_H
