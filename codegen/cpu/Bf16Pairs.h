//===- Bf16Pairs.h - Rows and weights as pairs of bf16 ----------*- C++ -*-===//
//
// Instructions for bf16 multiply two columns at a time: a word holds two
// numbers of a row, or two weights of an output. Codes of 4 bits are unpacked
// to pairs of columns that are 4 apart, all others to neighbours, and rows
// follow them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_CPU_BF16PAIRS_H
#define TANDEM_CODEGEN_CPU_BF16PAIRS_H

#include "codegen/cpu/CodeLayout.h"
#include "codegen/cpu/KernelBuilder.h"

namespace tandem::codegen {

/// Rows that are rounded to bf16 and packed for codes or dense weights:
///
///   block 0                            block 1
///   [row 0: pairs] [row 1: pairs] ..   [row 0: pairs] ..
///
/// A block has `blockColumns` columns, a multiple of 16.
class Bf16Rows {
public:
  Bf16Rows(KernelBuilder &k, int64_t columns, int64_t blockColumns);

  int64_t packedBytes(int64_t rows) const { return rows * columns * 2; }
  void pack(llvm::ArrayRef<Memory> rows, Memory packed) const;
  /// Pair \p pair of \p block of row \p row, in all lanes.
  Var load(Memory packed, int64_t rows, Var block, int64_t row,
           int64_t pair) const;
  /// Row 0 of \p block; a row takes `blockColumns * 2` bytes.
  Memory block(Memory packed, int64_t rows, Var block) const;

private:
  /// The word, of \p rows packed rows, that the pairs of 16 columns begin at.
  Var placeOf(Var column, int64_t row, int64_t rows) const;

  KernelBuilder &k;
  int64_t columns, blockColumns;
  /// Between the columns of a pair.
  int64_t distance;
};

/// Unpacks the codes of 16 outputs from the words at \p words on to \p columns
/// columns: [pair][output].
Vars unpackPairs(KernelBuilder &k, const CodeLayout &codes, Memory words,
                 int64_t columns);

/// The same for dense bf16 weights, two columns of them: [output].
Var loadDensePair(KernelBuilder &k, Memory columns);

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CPU_BF16PAIRS_H
