//===- Synthetic.cpp - Checkpoints without tensors ------------------------===//

#include "models/Synthetic.h"

using namespace llvm;
using namespace tandem::models;

static constexpr StringLiteral kPrefix = "synthetic:";

std::optional<SyntheticCheckpoint> SyntheticCheckpoint::parse(StringRef name) {
  SyntheticCheckpoint result;
  if (!name.consume_front(kPrefix) || name.consumeInteger(10, result.seed) ||
      !name.consume_front(":"))
    return std::nullopt;
  result.directory = name.str();
  return result;
}

std::string SyntheticCheckpoint::getName() const {
  return kPrefix.str() + std::to_string(seed) + ":" + directory;
}

std::string tandem::models::getCheckpointDirectory(StringRef name) {
  std::optional<SyntheticCheckpoint> synthetic =
      SyntheticCheckpoint::parse(name);
  return synthetic ? synthetic->directory : name.str();
}
