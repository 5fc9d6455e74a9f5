//===- Artifact.h - An opened .tandem file ----------------------*- C++ -*-===//
//
// Opens a compiled pair and checks all of it once, so that the code behind may
// assert. The file stays mapped for the life of the object: the flatbuffer,
// the code images and the weights are used where they lie. README.md draws the
// file, Artifact.fbs describes its tables.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_ARTIFACT_H
#define TANDEM_RUNTIME_ARTIFACT_H

#include "runtime/Artifact_generated.h"
#include "runtime/MappedFile.h"
#include "runtime/Status.h"
#include "runtime/cpu/Memory.h"

#include <optional>
#include <span>
#include <string_view>

namespace tandem {

/// Whether weights that no file holds are made when an artefact is opened,
/// which takes as long as writing them; blobs of an artefact whose weights are
/// left must not be asked for.
enum class SyntheticWeights { Make, Leave };

class Artifact {
public:
  /// Maps and checks the file \p path: header, hash of everything but the
  /// blobs, structure, every range and every index. Whether this machine can
  /// run it is the device's question. Errors do not contain the path.
  static StatusOr<Artifact>
  open(const std::string &path,
       SyntheticWeights weights = SyntheticWeights::Make);

  /// The same for a file that is in memory, at an address that is a multiple
  /// of 64, and outlives the result.
  static StatusOr<Artifact>
  view(std::span<const std::byte> file,
       SyntheticWeights weights = SyntheticWeights::Make);

  /// Everything small.
  const artifact::Artifact &root() const { return *tables; }
  const artifact::FileHeader &header() const { return *fileHeader; }

  /// Bytes of a code image or weight, 64-byte aligned. Weights that are not in
  /// the file were made when it was opened.
  std::span<const std::byte> blob(const artifact::Blob &blob) const {
    return blobSection().subspan(blob.offset(), blob.size());
  }
  /// All blobs; page-aligned when the file was opened by path.
  std::span<const std::byte> blobSection() const { return blobs; }

  /// Index of the port called \p name.
  std::optional<uint32_t> findPort(std::string_view name) const;
  /// Index of the program called \p name.
  std::optional<uint32_t> findProgram(std::string_view name) const;
  /// Bytes of port \p index.
  uint64_t portBytes(uint32_t index) const;

  /// Reads the whole blob section and compares it with the header's hash.
  Status verifyBlobs() const;

private:
  Artifact() = default;

  /// Makes the weights that are not in the file.
  Status makeWeights();

  std::optional<MappedFile> mapping;
  std::span<const std::byte> file;
  /// Part of the file, or of `madeBlobs`.
  std::span<const std::byte> blobs;
  std::optional<PageMemory> madeBlobs;
  const artifact::FileHeader *fileHeader = nullptr;
  const artifact::Artifact *tables = nullptr;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_ARTIFACT_H
