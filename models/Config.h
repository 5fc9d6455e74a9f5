//===- Config.h - What a config.json says about a model ---------*- C++ -*-===//
//
// config.json as structs. A key that is missing, or that changes what the model
// computes and is not handled, is an error that names file and key: a model
// that is almost right is worse than none. Names follow the keys; all sizes are
// positive and small enough that products of any three fit into 63 bits.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_MODELS_CONFIG_H
#define TANDEM_MODELS_CONFIG_H

#include "models/Quantization.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tandem::models {

/// The sizes that every transformer here has.
struct TransformerConfig {
  /// Path of config.json, for messages.
  std::string path;
  /// The one entry of `architectures`.
  std::string architecture;
  int64_t hiddenSize, intermediateSize, layers, vocabularySize;
  /// Attention: `heads` is a multiple of `kvHeads`.
  int64_t heads, kvHeads, headDim;
  /// Leading columns of a head that RoPE rotates: even, at most headDim.
  int64_t rotaryDim;
  double ropeTheta;
  /// Of every norm.
  double rmsNormEps;
  /// Longest text the model was made for.
  int64_t maxPositions;
  /// Nothing when the checkpoint has no packed weights.
  std::optional<QuantizationConfig> quantization;
};

/// A Qwen3.5 text model.
struct TargetConfig : TransformerConfig {
  enum class Layer { LinearAttention, FullAttention };

  /// One entry per layer.
  std::vector<Layer> layerTypes;
  /// The gated delta net: `linearHeads` value heads are a multiple of
  /// `linearKeyHeads` query and key heads.
  int64_t convTaps, linearHeads, linearKeyHeads, linearKeyDim, linearValueDim;
  /// tie_word_embeddings at the root and in text_config. The root rules; the
  /// tensors have the last word (see readTarget in Qwen35.h).
  std::optional<bool> rootTied, textTied;
  /// eos_token_id of the root and of text_config; tokens of the vocabulary.
  std::vector<int64_t> endTokens;

  /// Columns of the convolution: query, key and value heads side by side.
  int64_t getConvChannels() const {
    return 2 * linearKeyHeads * linearKeyDim + linearHeads * linearValueDim;
  }

  /// Reads `config.json` in \p directory, in the layout of
  /// Qwen3_5ForConditionalGeneration (sizes in text_config) or of
  /// Qwen3_5ForCausalLM (sizes at the root).
  static llvm::Expected<TargetConfig> read(llvm::StringRef directory);
};

/// A DFlash drafter.
struct DrafterConfig : TransformerConfig {
  /// How a layer attends: a key at distance d is seen when d < window, if there
  /// is one, and when it is not ahead, if the layer is causal.
  struct Layer {
    bool sliding;
    bool causal;
    std::optional<int64_t> window;
  };

  /// One entry per layer.
  std::vector<Layer> layerTypes;
  /// Layers of the target whose output the drafter reads, in the order in which
  /// they are put side by side. No layer twice.
  std::vector<int64_t> targetLayers;
  /// Layers of the target it was trained for, if the file says so.
  std::optional<int64_t> numTargetLayers;
  /// Tokens of a block, the anchor included.
  int64_t blockSize;
  /// The token that stands for a slot to fill; below the vocabulary size.
  int64_t maskToken;
  /// Factor on the embedding of a block.
  double embeddingScale;

  /// Reads `config.json` in \p directory. DFlash's own keys stand in
  /// dflash_config or at the root; in dflash_config nothing else may stand.
  static llvm::Expected<DrafterConfig> read(llvm::StringRef directory);
};

} // namespace tandem::models

#endif // TANDEM_MODELS_CONFIG_H
