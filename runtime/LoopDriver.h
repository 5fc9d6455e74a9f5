//===- LoopDriver.h - Typed access to the ports of the loop -----*- C++ -*-===//
//
// Knows the indexes of the loop's programs and ports, and moves tokens, counts
// and rows between the host and the device. Generation and scoring are written
// on top of it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_LOOPDRIVER_H
#define TANDEM_RUNTIME_LOOPDRIVER_H

#include "runtime/Artifact.h"
#include "runtime/Device.h"

#include <span>
#include <vector>

namespace tandem {

/// The ports of README.md. A port that the artefact does not have, because it
/// has no drafter or cannot score, is never used.
struct LoopPorts {
  uint32_t chunk, chunkCount, start, accepted, anchor, chunkFeatures, features,
      contextStart, block, blockCount, decided, scoreTokens, scoreCount,
      scoreLogits, scoreFeatures, draftLogits, anchorLogits, logits,
      stepFeatures, shortChunk, shortFeatures;
};

/// The programs and ports that read so many rows of a prompt at a time.
struct ChunkPrograms {
  uint32_t rows;
  int32_t prefill, prefillLogits, context;
  uint32_t tokens, features;
};

class LoopDriver {
public:
  /// For the loop of \p artifact, which has one, run by \p device; both outlive
  /// the driver.
  LoopDriver(const Artifact &artifact, Device &device);

  const artifact::Loop &loop() const { return *tables; }
  const LoopPorts &ports() const { return portIndexes; }
  /// Those for \p rows rows, or for the first of them where they are more than
  /// a chunk.
  ChunkPrograms chunkFor(size_t rows) const;
  /// Whether there is a drafter.
  bool hasDrafter() const { return tables->draft() >= 0; }
  /// Width n*H of a row of context features; 0 without a drafter.
  uint32_t featureWidth() const { return width; }

  /// Runs the program \p index of the loop, which is not negative.
  Status run(int32_t index);
  Status reset() { return device.reset(); }
  /// As those of Device.
  uint32_t snapshots() const { return device.snapshots(); }
  Status save(uint32_t snapshot) { return device.save(snapshot); }
  Status restore(uint32_t snapshot) { return device.restore(snapshot); }
  /// As Device::roundLoop.
  RoundLoop *roundLoop() { return device.roundLoop(); }
  /// As Device::busySeconds.
  std::optional<double> busySeconds() const { return device.busySeconds(); }

  Status writeCount(uint32_t port, uint32_t value);
  Status writeTokens(uint32_t port, std::span<const uint32_t> tokens);
  /// Rows of activations or logits, whether the port holds f32 or bf16.
  Status writeRows(uint32_t port, std::span<const float> values);
  Status readRows(uint32_t port, std::span<float> values);
  /// Reads a count that must be in [low, high]: anything else means that the
  /// programs are broken, and is an error.
  StatusOr<uint32_t> readCount(uint32_t port, uint32_t low, uint32_t high);
  /// Reads the first tokens.size() tokens. \p position is that of the first,
  /// for the message: a token outside the vocabulary is how a program says
  /// that its logits are not numbers.
  Status readTokens(uint32_t port, std::span<uint32_t> tokens,
                    uint64_t position);
  /// Checks tokens that were read in another way.
  Status checkTokens(std::span<const uint32_t> tokens, uint64_t position) const;
  /// The same for drafts, which may be any numbers.
  Status readRawTokens(uint32_t port, std::span<uint32_t> tokens) {
    return device.read(port, std::as_writable_bytes(tokens));
  }

  /// Appends the rows of \p features, which follow \p position, to the
  /// drafter's context, in chunks. Each row has featureWidth() values.
  Status appendContext(std::span<const float> features, uint32_t position);

  /// Checks ids that come from outside: at least one, and all of them inside
  /// the vocabulary. \p what is the subject of the message.
  Status checkIds(std::string_view what, std::span<const uint32_t> ids) const;

private:
  bool isBf16(uint32_t port) const;

  const Artifact *artifact;
  const artifact::Loop *tables;
  Device &device;
  LoopPorts portIndexes;
  uint32_t width = 0;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_LOOPDRIVER_H
