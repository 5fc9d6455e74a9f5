//===- Qwen35.h - The Qwen3.5 text model ------------------------*- C++ -*-===//
//
// A hybrid: layers with a gated delta net, whose state has one size however
// long the text is, and every few layers one with gated full attention. What is
// computed follows Qwen3_5ForCausalLM of transformers in f32; norms are stored
// around zero, but for the one inside the delta net.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_MODELS_QWEN35_H
#define TANDEM_MODELS_QWEN35_H

#include "models/ProgramBuilder.h"

#include <variant>

namespace tandem::models {

/// What the rows of a call are: positions, how many count, and what becomes of
/// the caches.
struct RowContext {
  /// tensor<1xi32>: position of row 0.
  mlir::Value start;
  /// tensor<1xi32>: rows that count; null when all do.
  mlir::Value count;
  /// tensor<1xi32>: rows of the call before that are kept.
  mlir::Value accepted;
  /// Whether these rows enter the recurrent caches for good.
  bool commit = false;
};

/// The target of a pair.
class Qwen35 {
public:
  /// Finds all weights; keeps a reference to \p config. Tensors of the vision
  /// tower and the multi-token head are skipped. Whether the embedding is also
  /// the head is decided by the tensors: an lm_head that differs from the
  /// embedding is used whatever tie_word_embeddings says, with a warning;
  /// without one the key must be true, at the root or in text_config.
  static Qwen35 read(WeightReader &reader, const TargetConfig &config);

  /// What module names may begin with, where exporters disagree.
  static llvm::ArrayRef<llvm::StringRef> getPrefixes();

  /// The caches: `layers.N.kv` with \p slots positions, or `layers.N.conv` and
  /// `layers.N.delta` with \p pending rows.
  llvm::SmallVector<State> getStates(mlir::MLIRContext *context, int64_t slots,
                                     int64_t pending,
                                     mlir::Type elementType) const;

  /// Residual streams.
  struct Streams {
    /// [rows, hidden]: behind the last layer, before the final norm.
    mlir::Value last;
    /// [rows, taps * hidden]: behind the tapped layers, side by side; null
    /// without taps.
    mlir::Value features;
  };

  /// Runs all layers on \p tokens, one per row. Replaces \p caches, which are
  /// in the order of getStates.
  Streams run(LayerBuilder &layers, mlir::Value tokens,
              const RowContext &context,
              llvm::MutableArrayRef<mlir::Value> caches,
              llvm::ArrayRef<int64_t> taps) const;

  /// [rows, vocabulary]: the logits of \p stream, rows of Streams::last.
  mlir::Value logits(LayerBuilder &layers, mlir::Value stream) const;

  /// The table that maps tokens to rows, [vocabulary, hidden].
  const Weight &getEmbedding() const { return embedding; }
  /// The matrix that maps rows to logits, [vocabulary, hidden].
  const LinearWeight &getHead() const { return head; }

private:
  struct DeltaNet {
    std::string module;
    LinearWeight qkv, gate, beta, decay, output;
    /// conv1d [channels, 1, taps]; A_log, dt_bias [heads]; norm [value dim].
    Weight conv, decayLog, decayBias, norm;
  };

  struct Layer {
    std::string module;
    Weight inputNorm, postNorm;
    std::variant<AttentionWeights, DeltaNet> mixer;
    MlpWeights mlp;
  };

  explicit Qwen35(const TargetConfig &config) : config(config) {}

  static DeltaNet readDeltaNet(WeightReader &reader, const std::string &module,
                               const TargetConfig &config);
  void readHead(WeightReader &reader);

  mlir::Value runAttention(LayerBuilder &layers, mlir::Value input,
                           const RowContext &context, mlir::Value &cache,
                           const AttentionWeights &weights) const;
  mlir::Value runDeltaNet(LayerBuilder &layers, mlir::Value input,
                          const RowContext &context, mlir::Value &convCache,
                          mlir::Value &deltaCache,
                          const DeltaNet &weights) const;

  const TargetConfig &config;
  Weight embedding, norm;
  std::vector<Layer> layerWeights;
  LinearWeight head;
};

} // namespace tandem::models

#endif // TANDEM_MODELS_QWEN35_H
