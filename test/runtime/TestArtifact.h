//===- TestArtifact.h - Artefacts made in memory ----------------*- C++ -*-===//
//
// Writes a .tandem file from plain structures, right or deliberately wrong.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_RUNTIME_TESTARTIFACT_H
#define TANDEM_TEST_RUNTIME_TESTARTIFACT_H

#include "runtime/Artifact.h"

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tandem::test {

using artifact::ElementType;
using artifact::Operand;

/// Bytes at a page-aligned address, as a mapped file has them.
class FileBytes {
public:
  FileBytes() = default;
  explicit FileBytes(size_t size);
  explicit FileBytes(std::span<const std::byte> bytes);

  std::span<std::byte> bytes() { return {data.get(), size}; }
  std::span<const std::byte> bytes() const { return {data.get(), size}; }

private:
  struct Free {
    void operator()(std::byte *memory) const;
  };
  std::unique_ptr<std::byte, Free> data;
  size_t size = 0;
};

struct PortSpec {
  std::string name;
  ElementType element = ElementType::i32;
  std::vector<uint32_t> shape = {1};
  /// None: behind the port before.
  std::optional<uint64_t> offset = {};
};

struct StateSpec {
  std::string name;
  uint64_t size;
  std::optional<uint64_t> offset = {};
  std::string kind = "key_value";
};

/// How to make a weight.
struct FillSpec {
  ElementType element = ElementType::bf16;
  uint32_t numbers = 1, codes = 0;
  float center = 0, spread = 1;
  uint64_t seed = 1;
};

struct BytesSpec {
  std::string name;
  std::vector<std::byte> data;
  std::optional<artifact::Blob> blob = {};
  /// For a weight that is not in the file; the blob says where it lies.
  std::optional<FillSpec> fill = {};
};

struct ImageSpec {
  std::vector<std::byte> data;
  artifact::ImageKind kind = artifact::ImageKind::shared_object;
};

struct KernelSpec {
  std::string symbol;
  uint32_t image = 0;
  uint64_t scratch = 0;
  std::string family = "test";
  /// For a GPU.
  uint32_t block = 1, shared = 0;
  bool startsEarly = false;
};

struct LaunchSpec {
  uint32_t kernel = 0;
  std::vector<Operand> operands = {};
  uint32_t rows = 1;
  int32_t rowsPort = -1;
  uint32_t items = 1;
  bool itemsPerRow = false;
  /// For a GPU.
  std::array<uint32_t, 3> grid = {1, 1, 1};
};

struct ProgramSpec {
  std::string name;
  std::vector<uint32_t> inputs = {};
  std::vector<uint32_t> outputs = {};
  std::vector<LaunchSpec> launches = {};
};

struct LoopSpec {
  uint32_t block = 1, chunk = 8, scoreChunk = 8, maxContext = 64,
           vocabulary = 100;
  std::vector<uint32_t> stopTokens = {};
  int32_t prefill = -1, step = -1, context = -1, draft = -1, verify = -1,
          accept = -1, score = -1, scoreDraft = -1, prefillLogits = -1,
          stepLogits = -1, verifyLogits = -1;
  /// 0: no programs for short prompts.
  uint32_t shortChunk = 0;
  int32_t shortPrefill = -1, shortContext = -1, shortPrefillLogits = -1;

  /// The programs without logits have the numbers 0 to 7, in the order above.
  void numberPrograms();
};

struct TokenizerSpec {
  std::vector<uint32_t> offsets;
  std::string bytes;
  std::vector<uint32_t> byteTokens;
  std::vector<artifact::Merge> merges = {};
  std::vector<uint32_t> addedIds = {};
  /// Their texts; "<added ID>" for those that have none.
  std::vector<std::string> addedNames = {};
};

struct SelfTestSpec {
  std::string prompt = "a";
  uint32_t newTokens = 8;
  float floor = 1.1f;
};

/// A tokenizer of the 256 bytes, whose ids are their values, and \p words
/// behind them.
TokenizerSpec byteTokenizer(const std::vector<std::string> &words = {});

struct ArtifactSpec {
  std::string arch = "native";
  std::optional<std::vector<std::string>> cpuFeatures =
      std::vector<std::string>();
  uint64_t arenaSize = 0;
  /// None: as large as the states or ports need.
  std::optional<uint64_t> stateSize = {}, portSize = {};
  std::vector<PortSpec> ports;
  std::vector<StateSpec> states;
  std::vector<BytesSpec> weights;
  std::vector<ImageSpec> images;
  std::vector<KernelSpec> kernels;
  std::vector<ProgramSpec> programs;
  std::optional<LoopSpec> loop;
  std::optional<TokenizerSpec> tokenizer;
  /// Bytes of the blob section with the weights that are made.
  uint64_t filledBlobSize = 0;
  std::optional<SelfTestSpec> selfTest;

  /// The file. Its hashes are right, whatever else is wrong.
  FileBytes write() const;
};

/// Puts the right hash of header and tables into the header of \p file.
void sealTables(FileBytes &file);

} // namespace tandem::test

#endif // TANDEM_TEST_RUNTIME_TESTARTIFACT_H
