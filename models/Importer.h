//===- Importer.h - From checkpoints to an lm module ------------*- C++ -*-===//
//
// Reads a target and, if there is one, its drafter, checks that they belong
// together, and writes down what they compute. Nothing is fused or lowered
// here, and no weight is copied: the module refers to tensors by name.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_MODELS_IMPORTER_H
#define TANDEM_MODELS_IMPORTER_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>

namespace tandem::models {

/// What to import and for which sizes.
struct ImportOptions {
  /// Checkpoint directories. No drafter when `drafterDir` is empty.
  std::string targetDir, drafterDir;
  /// Tokens of a block, the anchor included: 1 to the drafter's block_size,
  /// which is the default. 1 is decoding without the drafter.
  std::optional<int64_t> block;
  /// Puts a two-sided window of so many positions on every full layer of the
  /// drafter. Layers that slide by configuration keep their own.
  std::optional<int64_t> draftWindow;
  /// Longest text. By default 8192 or what the models are made for, if that is
  /// less; more than that is an error.
  std::optional<int64_t> maxContext;
  /// Passes of the drafter per block.
  int64_t denoiseSteps = 1;
  /// Rows of a prefill. By default 64, and 2048 with bf16Activations: a GPU
  /// reads weights once a chunk. No more than the longest text has.
  std::optional<int64_t> chunk;
  /// Rows of a second prefill, for prompts, or what is left of them, that have
  /// no more, for GPUs, whose launches are made for a number of rows; 0: none.
  /// By default 0, and with bf16Activations 64 if a chunk has more.
  std::optional<int64_t> shortChunk;
  /// Compile from config.json alone: the weights are made from this seed when
  /// the artefact is opened. Safetensors files are not looked at.
  std::optional<uint64_t> syntheticSeed;
  /// Rows of a score.
  int64_t scoreChunk = 16;
  /// Activations and caches of keys and values are bf16 instead of f32. Logits,
  /// and decay and beta of the delta rule, are f32 all the same.
  bool bf16Activations = false;
};

/// Imports the pair that \p options describe: the programs of
/// runtime/README.md, one lm.speculate, `lm.checkpoints` with absolute paths
/// and `lm.facts`. Loads the dialects it needs into \p context; oddities that
/// do not matter are warnings there. Errors are one line that names file, key
/// or tensor, what was found and what was expected.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
importPair(mlir::MLIRContext &context, const ImportOptions &options);

} // namespace tandem::models

#endif // TANDEM_MODELS_IMPORTER_H
