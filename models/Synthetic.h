//===- Synthetic.h - Checkpoints without tensors ----------------*- C++ -*-===//
//
// For measurements a pair can be compiled from its configurations alone: the
// shapes are those of the configuration, and so is what is packed. IR names
// such a checkpoint like any other; the bytes are made when the artefact is
// opened.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_MODELS_SYNTHETIC_H
#define TANDEM_MODELS_SYNTHETIC_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace tandem::models {

/// A checkpoint that `lm.checkpoints` names as `synthetic:SEED:DIRECTORY`.
struct SyntheticCheckpoint {
  /// What its numbers are drawn from.
  uint64_t seed;
  /// Holds config.json, and a tokenizer or none.
  std::string directory;

  /// The name; nothing when \p name is that of a checkpoint with tensors.
  static std::optional<SyntheticCheckpoint> parse(llvm::StringRef name);
  std::string getName() const;
};

/// The directory of the checkpoint that `lm.checkpoints` calls \p name, whether
/// it is synthetic or not.
std::string getCheckpointDirectory(llvm::StringRef name);

} // namespace tandem::models

#endif // TANDEM_MODELS_SYNTHETIC_H
