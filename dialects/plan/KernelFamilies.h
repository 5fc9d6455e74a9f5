//===- KernelFamilies.h - What each kernel template takes -------*- C++ -*-===//
//
// The contract between convert-lm-to-plan, which names kernels, and codegen,
// which writes them: parameters and operands of every family.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECTS_PLAN_KERNELFAMILIES_H
#define TANDEM_DIALECTS_PLAN_KERNELFAMILIES_H

#include "dialects/plan/PlanDialect.h"

#include "llvm/ADT/ArrayRef.h"

#include <array>

namespace tandem::plan {

/// Number of outputs that lie side by side in `#plan.interleaved` and
/// `#plan.interleaved_codes`, and number of keys in a tile of a key cache.
inline constexpr int64_t kTile = 16;

/// Outputs of a part of a head: what one item of head_argmax looks at.
inline constexpr int64_t kHeadPart = 8 * kTile;

/// Most columns of `#plan.search_codes`: what is added up in 32 bits is then
/// exact.
inline constexpr int64_t kMaxSearchColumns = int64_t(1) << 15;

/// The port of the numbers that settled_argmax counts, and how many they are:
/// launches, live rows, tiles that were computed exactly, launches that
/// computed all tiles.
inline constexpr llvm::StringLiteral kHeadCountsPort = "head_counts";
inline constexpr int64_t kHeadCounts = 4;

/// Parts of a head of `outputs` outputs, that results of head_search and
/// head_settle are given for.
inline int64_t getHeadParts(int64_t outputs, bool forGpu) {
  return forGpu ? 1 : (outputs + kHeadPart - 1) / kHeadPart;
}

/// Tiles of rows that a block of a GPU can compute in a linear family, the
/// parameter `row_tile`: from the smallest to the largest.
inline constexpr std::array<int64_t, 5> kRowTiles = {8, 16, 32, 64, 128};

/// Most rows of a launch whose tokens may lie as products take them, and of how
/// many columns a layer takes multiples then.
inline constexpr int64_t kFragmentRows = 16, kFragmentColumns = 32;
/// Columns whose squares are summed on their own there.
inline constexpr int64_t kSquareColumns = 16;

/// Rows from which on a layer does not normalize its input itself: many blocks
/// would do it again and again.
inline constexpr int64_t kSeparateNormRows = 33;

/// Operands and parameters of a family.
struct KernelSignature {
  /// Names of the parameters, sorted. `activations`, `arithmetic`, `element`,
  /// `result` and `scale` are types, those with `eps` or `offset` in their
  /// names and `scale_by` f32, `widths` an array of i64, all others i64.
  llvm::ArrayRef<llvm::StringLiteral> parameters;
  /// Names of parameters that may be absent.
  llvm::ArrayRef<llvm::StringLiteral> optionalParameters;
  /// Number of inputs and outputs; kVariadic: at least one.
  int inputs;
  int outputs;
};

inline constexpr int kVariadic = -1;

/// Whether a fused layer of up to `kFragmentRows` rows with these parameters
/// can take tokens as products take them: its weights are bf16, or codes that
/// are multiplied where they lie in their words (quant_linear.cuh).
bool canTakeFragments(mlir::DictionaryAttr parameters);

/// The signature of `family`.
const KernelSignature &getKernelSignature(KernelFamily family);

} // namespace tandem::plan

#endif // TANDEM_DIALECTS_PLAN_KERNELFAMILIES_H
