//===- ConfigCommon.h - Keys that target and drafter share ------*- C++ -*-===//
//
// Private to Config.h's implementation files.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_MODELS_CONFIGCOMMON_H
#define TANDEM_MODELS_CONFIGCOMMON_H

#include "models/Config.h"

namespace tandem::models {

/// Limits that keep products of sizes far from overflow and lists of layers
/// from filling the memory.
inline constexpr int64_t kMaxSize = int64_t(1) << 20;
inline constexpr int64_t kMaxLayers = 1024;
inline constexpr int64_t kMaxVocabulary = int64_t(1) << 24;
inline constexpr int64_t kMaxPositions = int64_t(1) << 30;

/// Opens `config.json` in \p directory.
llvm::Expected<ConfigFile> openConfig(llvm::StringRef directory);

/// Keeps a problem unless `architectures` is a list of exactly one of
/// \p supported; returns it.
std::string readArchitecture(const ConfigObject &root,
                             llvm::ArrayRef<llvm::StringRef> supported);

/// Reads the sizes, the attention, RoPE and quantization keys of \p config and
/// refuses biases, other activations and the like. Sizes come from \p text;
/// RoPE keys from both, and where two places give the same key they must agree.
/// \p rotaryFactor is the share of a head that is rotated when no key says.
void readTransformer(TransformerConfig &config, const ConfigObject &root,
                     const ConfigObject &text, double rotaryFactor);

} // namespace tandem::models

#endif // TANDEM_MODELS_CONFIGCOMMON_H
