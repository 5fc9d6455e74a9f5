//===- DFlash.h - The DFlash block drafter ----------------------*- C++ -*-===//
//
// A small transformer that fills a block of masked slots in one pass. It has no
// tokens of its own for the text so far: its context keys and values come from
// residual streams of the target, and embedding and head are the target's.
// After z-lab's dflash (https://github.com/z-lab/dflash) of 2026; all norms
// have plain weights.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_MODELS_DFLASH_H
#define TANDEM_MODELS_DFLASH_H

#include "models/ProgramBuilder.h"
#include "models/Qwen35.h"

namespace tandem::models {

/// The drafter of a pair.
class DFlash {
public:
  /// Finds all weights; keeps a reference to \p config.
  static DFlash read(WeightReader &reader, const DrafterConfig &config);

  /// What module names may begin with, where exporters disagree.
  static llvm::ArrayRef<llvm::StringRef> getPrefixes();

  /// The caches: `draft.layers.N.kv` with \p slots positions.
  llvm::SmallVector<State> getStates(mlir::MLIRContext *context, int64_t slots,
                                     mlir::Type elementType) const;

  /// Appends the context of the first \p count rows of \p features, [rows,
  /// taps * hidden], to \p caches from position \p start on.
  void ingest(LayerBuilder &layers, mlir::Value features, mlir::Value start,
              mlir::Value count,
              llvm::MutableArrayRef<mlir::Value> caches) const;

  /// [block - 1, vocabulary]: logits of the slots of \p tokens, [block], behind
  /// the anchor, which stands at position \p start. Writes the block's own keys
  /// and values into \p caches; whoever continues from \p start overwrites
  /// them.
  mlir::Value draft(LayerBuilder &layers, const Qwen35 &target,
                    mlir::Value tokens, mlir::Value start,
                    llvm::MutableArrayRef<mlir::Value> caches) const;

private:
  struct Layer {
    std::string module;
    Weight inputNorm, postNorm;
    AttentionWeights attention;
    MlpWeights mlp;
  };

  explicit DFlash(const DrafterConfig &config) : config(config) {}

  mlir::Value runAttention(LayerBuilder &layers, mlir::Value input,
                           mlir::Value start, mlir::Value &cache,
                           const Layer &layer,
                           const DrafterConfig::Layer &type) const;

  const DrafterConfig &config;
  /// fc [hidden, taps * hidden].
  LinearWeight fc;
  Weight hiddenNorm, norm;
  std::vector<Layer> layerWeights;
};

} // namespace tandem::models

#endif // TANDEM_MODELS_DFLASH_H
