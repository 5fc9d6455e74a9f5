//===- TestArtifact.cpp - Artefacts made in memory ------------------------===//

#include "test/runtime/TestArtifact.h"

#include "runtime/ElementTypes.h"
#include "runtime/KernelAbi.h"

#include <cstdlib>
#include <cstring>
#include <numeric>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tandem::test {

using artifact::Blob;
using artifact::FileHeader;

static uint64_t roundUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

FileBytes::FileBytes(size_t size)
    : data(static_cast<std::byte *>(
          std::aligned_alloc(4096, roundUp(size + 1, 4096)))),
      size(size) {
  std::memset(data.get(), 0, size);
}

FileBytes::FileBytes(std::span<const std::byte> bytes)
    : FileBytes(bytes.size()) {
  if (!bytes.empty())
    std::memcpy(data.get(), bytes.data(), bytes.size());
}

void FileBytes::Free::operator()(std::byte *memory) const { std::free(memory); }

TokenizerSpec byteTokenizer(const std::vector<std::string> &words) {
  TokenizerSpec spec;
  spec.byteTokens.resize(256);
  std::iota(spec.byteTokens.begin(), spec.byteTokens.end(), 0);
  spec.offsets = {0};
  for (unsigned byte = 0; byte < 256; ++byte) {
    spec.bytes += char(byte);
    spec.offsets.push_back(uint32_t(spec.bytes.size()));
  }
  for (const std::string &word : words) {
    spec.bytes += word;
    spec.offsets.push_back(uint32_t(spec.bytes.size()));
  }
  return spec;
}

namespace {

/// Lays out one file.
class Writer {
public:
  explicit Writer(const ArtifactSpec &spec) : spec(spec) {}

  FileBytes write() {
    writeTables();
    std::span<const std::byte> tables(
        reinterpret_cast<const std::byte *>(builder.GetBufferPointer()),
        builder.GetSize());
    uint64_t blobOffset = roundUp(64 + tables.size(), 4096);
    FileBytes file(blobOffset + blobs.size());
    FileHeader header(TANDEM_MAGIC, TANDEM_ARTIFACT_VERSION, 0, 64,
                      tables.size(), blobOffset, blobs.size(), 0,
                      XXH3_64bits(blobs.data(), blobs.size()));
    std::byte *begin = file.bytes().data();
    std::memcpy(begin, &header, sizeof(header));
    std::memcpy(begin + 64, tables.data(), tables.size());
    if (!blobs.empty())
      std::memcpy(begin + blobOffset, blobs.data(), blobs.size());
    sealTables(file);
    return file;
  }

private:
  const ArtifactSpec &spec;
  flatbuffers::FlatBufferBuilder builder;
  std::vector<std::byte> blobs;

  Blob addBlob(const std::vector<std::byte> &data) {
    Blob blob(blobs.size(), data.size());
    blobs.insert(blobs.end(), data.begin(), data.end());
    blobs.resize(roundUp(blobs.size(), 64));
    return blob;
  }

  auto ports(uint64_t &size) {
    std::vector<flatbuffers::Offset<artifact::Port>> result;
    for (const PortSpec &port : spec.ports) {
      uint64_t offset = port.offset.value_or(size);
      uint64_t bytes = elementSize(port.element);
      for (uint32_t dimension : port.shape)
        bytes *= dimension;
      size = roundUp(offset + bytes, 64);
      result.push_back(artifact::CreatePortDirect(
          builder, port.name.c_str(), port.element, &port.shape, offset));
    }
    return builder.CreateVector(result);
  }

  auto states(uint64_t &size) {
    std::vector<flatbuffers::Offset<artifact::State>> result;
    for (const StateSpec &state : spec.states) {
      uint64_t offset = state.offset.value_or(size);
      size = roundUp(offset + state.size, 64);
      result.push_back(artifact::CreateStateDirect(
          builder, state.name.c_str(), state.kind.c_str(), offset, state.size));
    }
    return builder.CreateVector(result);
  }

  auto weights() {
    std::vector<flatbuffers::Offset<artifact::Weight>> result;
    for (const BytesSpec &weight : spec.weights) {
      Blob blob = addBlob(weight.data);
      if (weight.blob)
        blob = *weight.blob;
      flatbuffers::Offset<artifact::Fill> fill = 0;
      if (weight.fill)
        fill = artifact::CreateFill(builder, weight.fill->seed,
                                    weight.fill->element, weight.fill->numbers,
                                    weight.fill->codes, weight.fill->center,
                                    weight.fill->spread);
      result.push_back(artifact::CreateWeightDirect(
          builder, weight.name.c_str(), "rows", &blob, fill));
    }
    return builder.CreateVector(result);
  }

  auto images() {
    std::vector<flatbuffers::Offset<artifact::Image>> result;
    for (const ImageSpec &image : spec.images) {
      Blob blob = addBlob(image.data);
      result.push_back(artifact::CreateImage(builder, image.kind, &blob));
    }
    return builder.CreateVector(result);
  }

  auto kernels() {
    std::vector<flatbuffers::Offset<artifact::Kernel>> result;
    for (const KernelSpec &kernel : spec.kernels)
      result.push_back(artifact::CreateKernelDirect(
          builder, kernel.symbol.c_str(), kernel.family.c_str(), kernel.image,
          kernel.scratch, kernel.block, kernel.shared, kernel.startsEarly));
    return builder.CreateVector(result);
  }

  auto programs() {
    std::vector<flatbuffers::Offset<artifact::Program>> result;
    for (const ProgramSpec &program : spec.programs) {
      std::vector<flatbuffers::Offset<artifact::Launch>> launches;
      for (const LaunchSpec &launch : program.launches) {
        auto operands = builder.CreateVectorOfStructs(launch.operands);
        artifact::LaunchBuilder table(builder);
        table.add_kernel(launch.kernel);
        table.add_operands(operands);
        table.add_rows(launch.rows);
        table.add_rows_port(launch.rowsPort);
        table.add_items(launch.items);
        table.add_items_per_row(launch.itemsPerRow);
        table.add_grid_x(launch.grid[0]);
        table.add_grid_y(launch.grid[1]);
        table.add_grid_z(launch.grid[2]);
        launches.push_back(table.Finish());
      }
      result.push_back(artifact::CreateProgramDirect(
          builder, program.name.c_str(), &program.inputs, &program.outputs,
          &launches));
    }
    return builder.CreateVector(result);
  }

  flatbuffers::Offset<artifact::Loop> loop() {
    if (!spec.loop)
      return 0;
    const LoopSpec &loop = *spec.loop;
    return artifact::CreateLoopDirect(
        builder, loop.block, loop.chunk, loop.scoreChunk, loop.maxContext,
        loop.vocabulary, &loop.stopTokens, loop.prefill, loop.step,
        loop.context, loop.draft, loop.verify, loop.accept, loop.score,
        loop.scoreDraft, loop.prefillLogits, loop.stepLogits, loop.verifyLogits,
        loop.shortChunk, loop.shortPrefill, loop.shortContext,
        loop.shortPrefillLogits);
  }

  flatbuffers::Offset<artifact::Tokenizer> tokenizer() {
    if (!spec.tokenizer)
      return 0;
    const TokenizerSpec &tokens = *spec.tokenizer;
    std::vector<uint8_t> bytes(tokens.bytes.begin(), tokens.bytes.end());
    std::vector<flatbuffers::Offset<artifact::AddedToken>> added;
    for (size_t index = 0; index < tokens.addedIds.size(); ++index) {
      uint32_t id = tokens.addedIds[index];
      std::string name = index < tokens.addedNames.size()
                             ? tokens.addedNames[index]
                             : "<added " + std::to_string(id) + ">";
      added.push_back(
          artifact::CreateAddedTokenDirect(builder, id, name.c_str()));
    }
    return artifact::CreateTokenizerDirect(builder, &tokens.offsets, &bytes,
                                           &tokens.byteTokens, &tokens.merges,
                                           &added);
  }

  void writeTables() {
    uint64_t portSize = 0, stateSize = 0;
    auto portTables = ports(portSize);
    auto stateTables = states(stateSize);
    auto weightTables = weights();
    auto imageTables = images();
    auto kernelTables = kernels();
    auto programTables = programs();
    auto loopTable = loop();
    auto tokenizerTable = tokenizer();
    auto arch = builder.CreateString(spec.arch);
    flatbuffers::Offset<artifact::Cpu> cpu = 0;
    if (spec.cpuFeatures) {
      auto features = builder.CreateVectorOfStrings(*spec.cpuFeatures);
      cpu = artifact::CreateCpu(builder, arch, features);
    }
    flatbuffers::Offset<artifact::SelfTest> selfTest;
    if (spec.selfTest)
      selfTest = artifact::CreateSelfTestDirect(
          builder, spec.selfTest->prompt.c_str(), spec.selfTest->newTokens,
          spec.selfTest->floor);
    artifact::FinishArtifactBuffer(
        builder, artifact::CreateArtifact(
                     builder, arch, cpu, 0, spec.arenaSize,
                     spec.stateSize.value_or(stateSize),
                     spec.portSize.value_or(portSize), portTables, stateTables,
                     weightTables, imageTables, kernelTables, programTables,
                     loopTable, tokenizerTable, /*build=*/0, /*chat=*/0,
                     /*generation=*/0, spec.filledBlobSize, selfTest));
  }
};

} // namespace

void LoopSpec::numberPrograms() {
  int32_t number = 0;
  for (int32_t *program : {&prefill, &step, &context, &draft, &verify, &accept,
                           &score, &scoreDraft})
    *program = number++;
}

FileBytes ArtifactSpec::write() const { return Writer(*this).write(); }

void sealTables(FileBytes &file) {
  std::byte *begin = file.bytes().data();
  FileHeader header;
  std::memcpy(&header, begin, sizeof(header));
  FileHeader plain(header.magic(), header.version(), header.flags(),
                   header.flatbuffer_offset(), header.flatbuffer_size(),
                   header.blob_offset(), header.blob_size(), 0, 0);
  std::vector<std::byte> hashed(sizeof(plain) + header.flatbuffer_size());
  std::memcpy(hashed.data(), &plain, sizeof(plain));
  std::memcpy(hashed.data() + sizeof(plain), begin + header.flatbuffer_offset(),
              header.flatbuffer_size());
  FileHeader sealed(header.magic(), header.version(), header.flags(),
                    header.flatbuffer_offset(), header.flatbuffer_size(),
                    header.blob_offset(), header.blob_size(),
                    XXH3_64bits(hashed.data(), hashed.size()),
                    header.blob_hash());
  std::memcpy(begin, &sealed, sizeof(sealed));
}

} // namespace tandem::test
