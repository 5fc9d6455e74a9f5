//===- Artifact.cpp - An opened .tandem file ------------------------------===//

#include "runtime/Artifact.h"

#include "runtime/ArtifactChecks.h"
#include "runtime/ElementTypes.h"
#include "runtime/KernelAbi.h"
#include "runtime/WeightFill.h"

#include <algorithm>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tandem {

using artifact::FileHeader;

/// XXH3 of the header with both hashes zero, followed by the flatbuffer.
static uint64_t hashOfTables(const FileHeader &header,
                             std::span<const std::byte> tables) {
  FileHeader plain(header.magic(), header.version(), header.flags(),
                   header.flatbuffer_offset(), header.flatbuffer_size(),
                   header.blob_offset(), header.blob_size(), 0, 0);
  // On the stack: XXH3 wants its state aligned to 64 bytes.
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, &plain, sizeof(plain));
  XXH3_64bits_update(&state, tables.data(), tables.size());
  return XXH3_64bits_digest(&state);
}

/// Checks what can be said of the first 64 bytes and the size of the file.
static Status checkHeader(std::span<const std::byte> file) {
  if (file.empty())
    return invalidFile("the file is empty, not a Tandem artefact");
  uint64_t magic = 0;
  std::memcpy(&magic, file.data(), std::min(file.size(), sizeof(magic)));
  if (magic != TANDEM_MAGIC)
    return invalidFile("not a Tandem artefact");
  if (file.size() < sizeof(FileHeader))
    return invalidFile("the file ends inside its header (", file.size(),
                       " bytes, the header has ", sizeof(FileHeader), ")");
  const auto &header = *reinterpret_cast<const FileHeader *>(file.data());
  if (header.version() != TANDEM_ARTIFACT_VERSION)
    return failure(StatusCode::Unsupported, "artefact format ",
                   header.version(), ", this qrun reads ",
                   TANDEM_ARTIFACT_VERSION,
                   ": recompile with this version of qcompile");
  if (header.flags() != 0)
    return invalidFile("header: flags are ", header.flags(), ", expected 0");

  auto checkSection = [&](std::string_view name, uint64_t offset, uint64_t size,
                          uint64_t alignment) -> Status {
    if (offset % alignment != 0)
      return invalidFile("header: ", name, " at ", offset,
                         " is not aligned to ", alignment);
    if (offset < sizeof(FileHeader) || offset > file.size() ||
        size > file.size() - offset)
      return invalidFile("header: ", name, " (offset ", offset, ", ", size,
                         " bytes) is not inside the file of ", file.size(),
                         " bytes: the file is truncated or damaged");
    return Status();
  };
  TANDEM_RETURN_IF_ERROR(checkSection("flatbuffer", header.flatbuffer_offset(),
                                      header.flatbuffer_size(), 64));
  TANDEM_RETURN_IF_ERROR(checkSection("blob section", header.blob_offset(),
                                      header.blob_size(), 4096));
  if (header.blob_offset() <
      header.flatbuffer_offset() + header.flatbuffer_size())
    return invalidFile("header: blob section at ", header.blob_offset(),
                       " begins before the flatbuffer ends");
  // The verifier of flatbuffers only asserts this.
  if (header.flatbuffer_size() >= FLATBUFFERS_MAX_BUFFER_SIZE)
    return invalidFile("header: flatbuffer of ", header.flatbuffer_size(),
                       " bytes, the limit is ", FLATBUFFERS_MAX_BUFFER_SIZE);
  return Status();
}

StatusOr<Artifact> Artifact::view(std::span<const std::byte> file,
                                  SyntheticWeights weights) {
  assert(reinterpret_cast<uintptr_t>(file.data()) % 64 == 0);
  TANDEM_RETURN_IF_ERROR(checkHeader(file));
  Artifact result;
  result.file = file;
  result.fileHeader = reinterpret_cast<const FileHeader *>(file.data());
  const FileHeader &header = *result.fileHeader;

  auto tables =
      file.subspan(header.flatbuffer_offset(), header.flatbuffer_size());
  if (hashOfTables(header, tables) != header.hash())
    return invalidFile("the hash of header and tables does not match: the file "
                       "is damaged");
  const auto *data = reinterpret_cast<const uint8_t *>(tables.data());
  flatbuffers::Verifier verifier(data, tables.size());
  if (!artifact::VerifyArtifactBuffer(verifier))
    return invalidFile("the tables are not a valid flatbuffer");
  result.tables = artifact::GetArtifact(data);

  TANDEM_RETURN_IF_ERROR(checkTables(result.root(), header.blob_size()));
  if (result.tables->loop())
    TANDEM_RETURN_IF_ERROR(checkLoop(result.root()));
  if (result.tables->tokenizer())
    TANDEM_RETURN_IF_ERROR(checkTokenizer(*result.tables->tokenizer()));
  result.blobs = file.subspan(header.blob_offset(), header.blob_size());
  if (result.tables->filled_blob_size() != 0 &&
      weights == SyntheticWeights::Make)
    TANDEM_RETURN_IF_ERROR(result.makeWeights());
  return result;
}

Status Artifact::makeWeights() {
  uint64_t size = tables->filled_blob_size(), available = availableMemory();
  if (size > available)
    return failure(StatusCode::OutOfResources, "its synthetic weights need ",
                   formatBytes(size), " of memory, ", formatBytes(available),
                   " are available");
  TANDEM_ASSIGN_OR_RETURN(madeBlobs, PageMemory::create(size));
  std::memcpy(madeBlobs->data(), blobs.data(), blobs.size());
  TANDEM_RETURN_IF_ERROR(fillWeights(root(), madeBlobs->data()));
  blobs = {madeBlobs->data(), size};
  return Status();
}

StatusOr<Artifact> Artifact::open(const std::string &path,
                                  SyntheticWeights weights) {
  TANDEM_ASSIGN_OR_RETURN(MappedFile mapping, MappedFile::open(path));
  TANDEM_ASSIGN_OR_RETURN(Artifact result, view(mapping.bytes(), weights));
  result.mapping = std::move(mapping);
  return result;
}

std::optional<uint32_t> Artifact::findPort(std::string_view name) const {
  const auto &ports = *tables->ports();
  for (uint32_t index = 0; index < ports.size(); ++index)
    if (ports.Get(index)->name()->string_view() == name)
      return index;
  return std::nullopt;
}

std::optional<uint32_t> Artifact::findProgram(std::string_view name) const {
  const auto &programs = *tables->programs();
  for (uint32_t index = 0; index < programs.size(); ++index)
    if (programs.Get(index)->name()->string_view() == name)
      return index;
  return std::nullopt;
}

uint64_t Artifact::portBytes(uint32_t index) const {
  const artifact::Port &port = *tables->ports()->Get(index);
  uint64_t size = elementSize(port.element());
  for (uint32_t dimension : *port.shape())
    size *= dimension;
  return size;
}

Status Artifact::verifyBlobs() const {
  // Of the file; weights that are made have nothing to be compared with.
  auto stored =
      file.subspan(fileHeader->blob_offset(), fileHeader->blob_size());
  if (XXH3_64bits(stored.data(), stored.size()) != fileHeader->blob_hash())
    return invalidFile("the hash of code and weights does not match: the file "
                       "is damaged");
  return Status();
}

} // namespace tandem
