//===- Serializer.cpp - A plan as a .tandem file --------------------------===//

#include "codegen/Serializer.h"
#include "codegen/Repack.h"
#include "codegen/TensorElements.h"
#include "codegen/WeightFills.h"
#include "codegen/WeightPacker.h"
#include "dialects/lm/LmDialect.h"
#include "dialects/plan/PlanOps.h"
#include "runtime/KernelAbi.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace llvm;
using namespace tandem;
using namespace tandem::codegen;
using artifact::FileHeader;
using models::Checkpoint;
using models::TensorView;

namespace {

/// The tables start behind the header, the blobs at a page of their own, so
/// that they can be mapped.
constexpr uint64_t kTablesOffset = sizeof(FileHeader);
constexpr uint64_t kPageSize = 4096;

/// The checkpoints of a module, opened when they are first asked for.
class CheckpointSet {
public:
  explicit CheckpointSet(mlir::ModuleOp module)
      : directories(module->getAttrOfType<mlir::DictionaryAttr>(
            lm::LmDialect::kCheckpointsAttrName)) {}

  Expected<const Checkpoint *> get(StringRef name) {
    auto opened = checkpoints.find(name);
    if (opened != checkpoints.end())
      return &opened->second;
    auto directory = directories ? directories.getAs<mlir::StringAttr>(name)
                                 : mlir::StringAttr();
    if (!directory)
      return createStringError("the module attribute " +
                               lm::LmDialect::kCheckpointsAttrName +
                               " names no checkpoint '" + name + "'");
    Expected<Checkpoint> checkpoint = Checkpoint::open(directory.getValue());
    if (!checkpoint)
      return checkpoint.takeError();
    return &checkpoints.try_emplace(name, std::move(*checkpoint)).first->second;
  }

private:
  mlir::DictionaryAttr directories;
  StringMap<Checkpoint> checkpoints;
};

/// A weight and the tensors it is made from.
struct PackedWeight {
  plan::PackingAttrInterface packing;
  /// Is made at load: nothing is written.
  bool synthetic = false;
  /// The order of the sources, where it is another than the packing takes.
  lm::SourceAttr repack;
  /// The rows of the one source that are packed; null: all.
  lm::TokenSetAttr rows;
  SmallVector<const TensorView *, 3> sources;

  Error check() const {
    if (repack)
      return checkRepack(repack, packing, sources);
    if (rows)
      return checkSelection();
    return checkSources(packing, sources);
  }
  Error write(ByteSink sink) const {
    if (repack) {
      Repacked tensors(repack, packing, sources);
      return packWeight(packing, {&tensors.codes, &tensors.scales}, sink);
    }
    if (!rows)
      return packWeight(packing, sources, sink);
    std::vector<uint8_t> bytes;
    TensorView selected = select();
    int64_t rowBytes = selected.shape[1] * models::getByteWidth(selected.dtype);
    bytes.reserve(selected.shape[0] * rowBytes);
    for (int32_t row : rows.getTokens())
      llvm::append_range(bytes, selected.bytes.slice(row * rowBytes, rowBytes));
    selected.bytes = bytes;
    return packWeight(packing, {&selected}, sink);
  }

private:
  /// The source, as if it had only the rows that are packed.
  TensorView select() const {
    TensorView selected = *sources[0];
    selected.shape[0] = rows.size();
    return selected;
  }
  Error checkSelection() const {
    const TensorView &whole = *sources[0];
    if (whole.shape.size() != 2 || whole.shape[0] <= rows.getTokens().back()) {
      std::string found;
      raw_string_ostream(found) << whole;
      return createStringError(describe(whole) + " is " + found +
                               ", expected a matrix with a row of token " +
                               Twine(rows.getTokens().back()));
    }
    TensorView selected = select();
    return checkSources(packing, {&selected});
  }
};

/// Writes an artefact front to back; the header comes last, so that what is
/// not finished is no artefact.
class ArtifactWriter {
public:
  ArtifactWriter(const ArtifactContents &contents, OutputFile &file,
                 WeightProgress progress)
      : contents(contents), plan(contents.plan), checkpoints(plan),
        layout(contents), file(file), progress(progress) {
    XXH3_64bits_reset(&blobHash);
  }

  Expected<uint64_t> write();

private:
  Error resolveWeights();
  Error writeBlobs();
  void writeBytes(ArrayRef<uint8_t> bytes);
  void startBlob(const artifact::Blob &blob);

  const ArtifactContents &contents;
  mlir::ModuleOp plan;
  CheckpointSet checkpoints;
  BlobLayout layout;
  OutputFile &file;
  WeightProgress progress;

  std::vector<PackedWeight> weights;
  /// Bytes of the blob section that are written, and their hash.
  uint64_t blobBytes = 0;
  // XXH3 wants its state aligned to 64 bytes, which its type asks for.
  XXH3_state_t blobHash;
};

} // namespace

Error ArtifactWriter::resolveWeights() {
  for (auto weight : plan.getOps<plan::WeightOp>()) {
    PackedWeight &packed = weights.emplace_back();
    packed.packing = weight.getPacking();
    packed.synthetic = isSynthetic(weight);
    if (packed.synthetic) {
      if (Error error = checkFill(weight))
        return error;
      continue;
    }
    packed.repack = weight.getRepackAttr();
    packed.rows = weight.getRowsAttr();
    for (auto source : weight.getSources().getAsRange<mlir::StringAttr>()) {
      Expected<const Checkpoint *> checkpoint =
          checkpoints.get(weight.getCheckpoint());
      if (!checkpoint)
        return checkpoint.takeError();
      const TensorView *tensor = (*checkpoint)->find(source.getValue());
      if (!tensor)
        return createStringError((*checkpoint)->getDirectory() +
                                 ": has no tensor '" + source.getValue() + "'");
      packed.sources.push_back(tensor);
    }
    if (Error error = packed.check())
      return error;
  }
  return Error::success();
}

void ArtifactWriter::writeBytes(ArrayRef<uint8_t> bytes) {
  file.os().write(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  XXH3_64bits_update(&blobHash, bytes.data(), bytes.size());
  blobBytes += bytes.size();
}

void ArtifactWriter::startBlob(const artifact::Blob &blob) {
  static constexpr uint8_t zeros[kBlobAlignment] = {};
  assert(blob.offset() - blobBytes < sizeof(zeros));
  writeBytes(ArrayRef(zeros, blob.offset() - blobBytes));
}

Error ArtifactWriter::writeBlobs() {
  for (auto [image, blob] : zip_equal(contents.code.images, layout.images)) {
    startBlob(blob);
    writeBytes(arrayRefFromStringRef(
        StringRef(image.bytes.data(), image.bytes.size())));
  }

  uint64_t total = 0, done = 0;
  for (auto [packed, blob] : zip_equal(weights, layout.weights))
    total += packed.synthetic ? 0 : blob.size();
  for (auto [packed, blob] : zip_equal(weights, layout.weights)) {
    if (packed.synthetic)
      continue;
    startBlob(blob);
    Error error = packed.write([&](ArrayRef<uint8_t> bytes) {
      writeBytes(bytes);
      done += bytes.size();
      progress(done, total);
      return file.check();
    });
    if (error)
      return error;
  }
  assert(blobBytes == layout.size);
  return Error::success();
}

/// XXH3 of the header with both hashes zero, followed by the tables.
static uint64_t hashTables(const FileHeader &header, ArrayRef<uint8_t> tables) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, &header, sizeof(header));
  XXH3_64bits_update(&state, tables.data(), tables.size());
  return XXH3_64bits_digest(&state);
}

Expected<uint64_t> ArtifactWriter::write() {
  if (Error error = resolveWeights())
    return error;
  flatbuffers::FlatBufferBuilder builder;
  if (Error error = buildTables(contents, layout, builder))
    return createStringError(file.getPath() + ": " +
                             toString(std::move(error)));
  ArrayRef<uint8_t> tables(builder.GetBufferPointer(), builder.GetSize());
  uint64_t blobOffset = alignTo(kTablesOffset + tables.size(), kPageSize);
  uint64_t fileSize = blobOffset + layout.size;
  if (Error error = file.reserve(fileSize))
    return error;

  raw_fd_ostream &os = file.os();
  os.write_zeros(kTablesOffset);
  os.write(reinterpret_cast<const char *>(tables.data()), tables.size());
  os.write_zeros(blobOffset - kTablesOffset - tables.size());
  if (Error error = writeBlobs())
    return error;

  auto makeHeader = [&](uint64_t hash, uint64_t blobsHash) {
    return FileHeader(TANDEM_MAGIC, TANDEM_ARTIFACT_VERSION, /*flags=*/0,
                      kTablesOffset, tables.size(), blobOffset, layout.size,
                      hash, blobsHash);
  };
  FileHeader header = makeHeader(hashTables(makeHeader(0, 0), tables),
                                 XXH3_64bits_digest(&blobHash));
  os.pwrite(reinterpret_cast<const char *>(&header), sizeof(header), 0);
  if (Error error = file.check())
    return error;
  return fileSize;
}

Expected<uint64_t> codegen::writeArtifact(const ArtifactContents &contents,
                                          OutputFile &file,
                                          WeightProgress progress) {
  return ArtifactWriter(contents, file, progress).write();
}
