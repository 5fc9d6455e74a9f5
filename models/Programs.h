//===- Programs.h - The programs of a pair ----------------------*- C++ -*-===//
//
// One function per program of runtime/README.md, with that table's port names
// and shapes, and the lm.speculate that names them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_MODELS_PROGRAMS_H
#define TANDEM_MODELS_PROGRAMS_H

#include "models/DFlash.h"
#include "models/Qwen35.h"

namespace tandem::models {

/// The sizes that programs are built for. All positive.
struct PairSizes {
  /// Tokens of a block, the anchor included; 1 without a drafter.
  int64_t block;
  /// Rows of a prefill, of one of a short prompt (0: there is none), and of a
  /// score.
  int64_t chunk, shortChunk, scoreChunk;
  /// Longest text, and the positions that key/value caches have room for.
  int64_t maxContext, slots;
  /// Passes of the drafter per block.
  int64_t denoiseSteps;
};

/// What programs are built from. A drafter is given when the block is more than
/// one token.
struct Pair {
  const Qwen35 &target;
  const TargetConfig &targetConfig;
  const DFlash *drafter;
  const DrafterConfig *drafterConfig;
};

/// Appends all programs of \p pair to \p module, and their lm.speculate.
/// Activations and key/value caches are of \p elementType.
void buildPrograms(mlir::ModuleOp module, const Pair &pair,
                   const PairSizes &sizes, llvm::ArrayRef<int32_t> stopTokens,
                   mlir::Type elementType);

} // namespace tandem::models

#endif // TANDEM_MODELS_PROGRAMS_H
