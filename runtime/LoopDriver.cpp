//===- LoopDriver.cpp - Typed access to the ports of the loop -------------===//

#include "runtime/LoopDriver.h"

#include "runtime/Bf16.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace tandem {

// Ports are little-endian, as the file is.
static_assert(std::endian::native == std::endian::little);

LoopDriver::LoopDriver(const Artifact &artifact, Device &device)
    : artifact(&artifact), tables(artifact.root().loop()), device(device) {
  assert(tables && "a single function has no loop");
  auto find = [&](std::string_view name) {
    return artifact.findPort(name).value_or(~0u);
  };
  portIndexes = {
      find("chunk"),         find("chunk_count"),   find("start"),
      find("accepted"),      find("anchor"),        find("chunk_features"),
      find("features"),      find("context_start"), find("block"),
      find("block_count"),   find("decided"),       find("score_tokens"),
      find("score_count"),   find("score_logits"),  find("score_features"),
      find("draft_logits"),  find("anchor_logits"), find("logits"),
      find("step_features"), find("short_chunk"),   find("short_features")};
  if (hasDrafter())
    width = artifact.root()
                .ports()
                ->Get(portIndexes.chunkFeatures)
                ->shape()
                ->Get(1);
}

ChunkPrograms LoopDriver::chunkFor(size_t rows) const {
  if (rows <= tables->short_chunk())
    return {tables->short_chunk(),          tables->short_prefill(),
            tables->short_prefill_logits(), tables->short_context(),
            portIndexes.shortChunk,         portIndexes.shortFeatures};
  return {tables->chunk(),   tables->prefill(), tables->prefill_logits(),
          tables->context(), portIndexes.chunk, portIndexes.chunkFeatures};
}

Status LoopDriver::run(int32_t index) {
  assert(index >= 0);
  return device.run(uint32_t(index));
}

Status LoopDriver::writeCount(uint32_t port, uint32_t value) {
  return device.write(port, std::as_bytes(std::span(&value, 1)));
}

Status LoopDriver::writeTokens(uint32_t port,
                               std::span<const uint32_t> tokens) {
  return device.write(port, std::as_bytes(tokens));
}

bool LoopDriver::isBf16(uint32_t port) const {
  return artifact->root().ports()->Get(port)->element() ==
         artifact::ElementType::bf16;
}

Status LoopDriver::writeRows(uint32_t port, std::span<const float> values) {
  if (!isBf16(port))
    return device.write(port, std::as_bytes(values));
  std::vector<uint16_t> halves(values.size());
  std::transform(values.begin(), values.end(), halves.begin(), toBf16);
  return device.write(port, std::as_bytes(std::span(halves)));
}

Status LoopDriver::readRows(uint32_t port, std::span<float> values) {
  if (!isBf16(port))
    return device.read(port, std::as_writable_bytes(values));
  std::vector<uint16_t> halves(values.size());
  TANDEM_RETURN_IF_ERROR(
      device.read(port, std::as_writable_bytes(std::span(halves))));
  std::transform(halves.begin(), halves.end(), values.begin(), fromBf16);
  return Status();
}

StatusOr<uint32_t> LoopDriver::readCount(uint32_t port, uint32_t low,
                                         uint32_t high) {
  uint32_t value = 0;
  TANDEM_RETURN_IF_ERROR(
      device.read(port, std::as_writable_bytes(std::span(&value, 1))));
  if (value < low || value > high)
    return invalidFile("the programs count ", int32_t(value),
                       " accepted rows, expected ", low, " to ", high);
  return value;
}

Status LoopDriver::readTokens(uint32_t port, std::span<uint32_t> tokens,
                              uint64_t position) {
  TANDEM_RETURN_IF_ERROR(device.read(port, std::as_writable_bytes(tokens)));
  return checkTokens(tokens, position);
}

Status LoopDriver::checkTokens(std::span<const uint32_t> tokens,
                               uint64_t position) const {
  for (size_t index = 0; index < tokens.size(); ++index)
    if (tokens[index] >= tables->vocabulary())
      return invalidFile("no token at position ", position + index,
                         ": the target's logits are not finite there (got ",
                         int32_t(tokens[index]), ")");
  return Status();
}

Status LoopDriver::appendContext(std::span<const float> features,
                                 uint32_t position) {
  size_t rows = features.size() / width;
  for (size_t first = 0; first < rows; first += tables->chunk()) {
    ChunkPrograms chunk = chunkFor(rows - first);
    size_t count = std::min<size_t>(chunk.rows, rows - first);
    TANDEM_RETURN_IF_ERROR(writeRows(
        chunk.features, features.subspan(first * width, count * width)));
    TANDEM_RETURN_IF_ERROR(writeCount(portIndexes.chunkCount, uint32_t(count)));
    TANDEM_RETURN_IF_ERROR(
        writeCount(portIndexes.start, uint32_t(position + first)));
    TANDEM_RETURN_IF_ERROR(run(chunk.context));
  }
  return Status();
}

Status LoopDriver::checkIds(std::string_view what,
                            std::span<const uint32_t> ids) const {
  if (ids.empty())
    return invalidArgument(what, " is empty: at least one token is needed");
  for (size_t index = 0; index < ids.size(); ++index)
    if (ids[index] >= tables->vocabulary())
      return invalidArgument(what, ": token ", ids[index], " at index ", index,
                             " is out of range (", tables->vocabulary(),
                             " tokens)");
  return Status();
}

} // namespace tandem
