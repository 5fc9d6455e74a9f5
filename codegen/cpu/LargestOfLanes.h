//===- LargestOfLanes.h - The largest logit of a row so far -----*- C++ -*-===//

#ifndef TANDEM_CODEGEN_CPU_LARGESTOFLANES_H
#define TANDEM_CODEGEN_CPU_LARGESTOFLANES_H

#include "codegen/cpu/Kernels.h"
#include "codegen/cpu/VectorMath.h"

namespace tandem::codegen {

/// Keeps for every row of a block, in scratch, the largest logit that each lane
/// has seen and its token, the first of equal ones.
class LargestOfLanes {
public:
  static constexpr int64_t lanes = KernelBuilder::lanes;
  /// Scratch for \p rows rows.
  static int64_t bytes(int64_t rows) { return 2 * rows * lanes * 4; }

  /// For up to \p rows rows and \p outputs tokens, in \p scratch.
  LargestOfLanes(KernelBuilder &k, Memory scratch, int64_t rows,
                 int64_t outputs)
      : k(k), outputs(outputs), best(scratch.as(k.f32())),
        tokens(best.at(rows * lanes).as(k.i32())) {}

  /// Forgets what rows 0 .. \p rows - 1 have.
  void clear(int64_t rows) {
    Var noTokens = Operand(0).as(k, k.vectorOf(k.i32()));
    for (int64_t row = 0; row < rows; ++row) {
      best.storeVector(row * lanes, k.splat(-infinity));
      tokens.storeVector(row * lanes, noTokens);
    }
  }

  /// Lets row \p row see the logits \p sums of the 16 tokens from \p first on.
  /// What is not a number is passed over, and so are tokens that do not exist.
  void take(int64_t row, Var sums, Var first) {
    Var before = best.loadVector(row * lanes);
    Var isLarger = sums > before;
    if (outputs % lanes != 0)
      isLarger = isLarger & k.firstLanes(k.index(outputs) - first);
    Var token = k.laneNumbers() + k.toInt32(first);
    best.storeVector(row * lanes, k.select(isLarger, sums, before));
    tokens.storeVector(
        row * lanes, k.select(isLarger, token, tokens.loadVector(row * lanes)));
  }

  /// The largest of all lanes of row \p row.
  Largest find(int64_t row) {
    return findLargestLane(k, best.loadVector(row * lanes),
                           tokens.loadVector(row * lanes));
  }

private:
  KernelBuilder &k;
  int64_t outputs;
  /// [row][lane] both.
  Memory best, tokens;
};

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CPU_LARGESTOFLANES_H
