//===- ArtifactFuzzer.cpp - Headers and tables of artefacts ---------------===//
//
// The input is an artefact without its blob section: weights and code are not
// looked at when a file is opened, and zeros stand in for them. The hash of the
// tables is made right first, so that what it protects is reached.
//
//===----------------------------------------------------------------------===//

#include "runtime/Artifact.h"
#include "runtime/KernelAbi.h"
#include "runtime/Tokenizer.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace tandem;
using artifact::FileHeader;

/// Address space that every input gets: enough for any seed's blob section.
static constexpr size_t kFileSize = size_t(1) << 30;
/// Synthetic weights are made in memory; more than this says nothing new.
static constexpr uint64_t kMaxFilledSize = 1 << 20;

/// Puts the right hash into the header, when the tables are where it says.
static bool sealTables(std::span<std::byte> file, size_t inputSize) {
  if (inputSize < sizeof(FileHeader))
    return false;
  FileHeader header;
  std::memcpy(&header, file.data(), sizeof(header));
  uint64_t offset = header.flatbuffer_offset(), size = header.flatbuffer_size();
  if (offset > inputSize || size > inputSize - offset)
    return false;
  FileHeader plain(header.magic(), header.version(), header.flags(), offset,
                   size, header.blob_offset(), header.blob_size(), 0, 0);
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, &plain, sizeof(plain));
  XXH3_64bits_update(&state, file.data() + offset, size);
  FileHeader sealed(header.magic(), header.version(), header.flags(), offset,
                    size, header.blob_offset(), header.blob_size(),
                    XXH3_64bits_digest(&state), 0);
  std::memcpy(file.data(), &sealed, sizeof(sealed));
  flatbuffers::Verifier verifier(
      reinterpret_cast<const uint8_t *>(file.data()) + offset, size);
  return size < FLATBUFFERS_MAX_BUFFER_SIZE && offset % 64 == 0 &&
         artifact::VerifyArtifactBuffer(verifier) &&
         artifact::GetArtifact(file.data() + offset)->filled_blob_size() >
             kMaxFilledSize;
}

static void useTokenizer(const artifact::Tokenizer &tables) {
  StatusOr<Tokenizer> tokenizer = Tokenizer::create(tables);
  if (!tokenizer.isOk())
    return;
  StatusOr<std::vector<uint32_t>> ids =
      tokenizer->encode("It's 42 \xc3\xa9t\xc3\xa9s, <|im_end|> abc\n\n  x");
  if (ids.isOk())
    (void)tokenizer->decode(*ids);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static auto *memory = static_cast<std::byte *>(
      mmap(nullptr, kFileSize, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  std::memcpy(memory, data, size);
  bool isTooLarge = sealTables({memory, kFileSize}, size);
  if (!isTooLarge) {
    StatusOr<Artifact> opened = Artifact::view({memory, kFileSize});
    if (opened.isOk() && opened->root().tokenizer())
      useTokenizer(*opened->root().tokenizer());
  }
  // Untouched pages are zero again for the next input.
  std::memset(memory, 0, size);
  return 0;
}
