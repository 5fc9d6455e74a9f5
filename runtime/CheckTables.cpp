//===- CheckTables.cpp - Ranges and indexes of an artefact ----------------===//

#include "runtime/ArtifactChecks.h"
#include "runtime/ElementTypes.h"
#include "runtime/WeightFill.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace tandem {

namespace {

/// Every range that a kernel gets starts at a multiple of this.
constexpr uint64_t rangeAlignment = 64;

/// Most threads of a block, and most bytes of shared memory that any GPU gives
/// one.
constexpr uint32_t blockLimit = 1024;
constexpr uint32_t sharedLimit = 227 << 10;

/// Most blocks of a grid along x, and along y and z.
constexpr uint32_t gridLimitX = 0x7fffffff;
constexpr uint32_t gridLimitYZ = 0xffff;

/// No section of memory is larger: sums of two sizes cannot overflow.
constexpr uint64_t sizeLimit = uint64_t(1) << 48;

/// Checks that [offset, offset + size) lies in [0, limit) and is aligned.
Status checkRange(uint64_t offset, uint64_t size, uint64_t limit,
                  std::string_view section) {
  if (offset % rangeAlignment != 0)
    return invalidFile("offset ", offset, " is not a multiple of ",
                       rangeAlignment);
  if (size > limit || offset > limit - size)
    return invalidFile("offset ", offset, " with ", size,
                       " bytes is outside the ", section, " of ", limit,
                       " bytes");
  return Status();
}

/// Puts `what[index]: ` before the message of a failure.
Status at(std::string_view what, uint64_t index, Status status) {
  if (status.isOk())
    return status;
  return failure(status.code(), what, "[", index, "]: ", status.message());
}

class TableChecker {
public:
  TableChecker(const artifact::Artifact &tables, uint64_t blobSize)
      : tables(tables), blobSize(blobSize) {}

  Status check() {
    if (tables.filled_blob_size() > sizeLimit ||
        (tables.filled_blob_size() != 0 &&
         tables.filled_blob_size() < blobSize))
      return invalidFile("filled blob section of ", tables.filled_blob_size(),
                         " bytes, expected ", blobSize, " to ", sizeLimit);
    if (tables.arena_size() > sizeLimit || tables.state_size() > sizeLimit ||
        tables.port_size() > sizeLimit)
      return invalidFile("memory of ", tables.arena_size(), " + ",
                         tables.state_size(), " + ", tables.port_size(),
                         " bytes, the limit of each is ", sizeLimit);
    TANDEM_RETURN_IF_ERROR(
        checkEach("ports", *tables.ports(), &TableChecker::checkPort));
    TANDEM_RETURN_IF_ERROR(
        checkEach("states", *tables.states(), &TableChecker::checkState));
    TANDEM_RETURN_IF_ERROR(
        checkEach("weights", *tables.weights(), &TableChecker::checkWeight));
    TANDEM_RETURN_IF_ERROR(
        checkEach("images", *tables.images(), &TableChecker::checkImage));
    TANDEM_RETURN_IF_ERROR(
        checkEach("kernels", *tables.kernels(), &TableChecker::checkKernel));
    TANDEM_RETURN_IF_ERROR(
        checkEach("programs", *tables.programs(), &TableChecker::checkProgram));
    TANDEM_RETURN_IF_ERROR(checkUniqueNames("ports", *tables.ports()));
    return checkUniqueNames("programs", *tables.programs());
  }

private:
  const artifact::Artifact &tables;
  uint64_t blobSize;

  template <typename Table>
  using Vector = flatbuffers::Vector<flatbuffers::Offset<Table>>;

  template <typename Table>
  Status checkEach(std::string_view name, const Vector<Table> &vector,
                   Status (TableChecker::*function)(const Table &)) {
    for (uint32_t index = 0; index < vector.size(); ++index)
      TANDEM_RETURN_IF_ERROR(
          at(name, index, (this->*function)(*vector.Get(index))));
    return Status();
  }

  template <typename Table>
  Status checkUniqueNames(std::string_view what, const Vector<Table> &vector) {
    std::vector<std::string_view> names;
    for (const Table *table : vector)
      names.push_back(table->name()->string_view());
    std::sort(names.begin(), names.end());
    auto twin = std::adjacent_find(names.begin(), names.end());
    if (twin != names.end())
      return invalidFile(what, ": two are called '", *twin, "'");
    return Status();
  }

  Status checkIndex(std::string_view what, uint64_t index, uint64_t count) {
    if (index >= count)
      return invalidFile(what, " index ", index, " is out of range (", count,
                         " ", what, "s)");
    return Status();
  }

  Status checkPort(const artifact::Port &port) {
    uint64_t size = elementSize(port.element());
    if (size == 0)
      return invalidFile("unknown element type ",
                         static_cast<unsigned>(port.element()));
    for (uint32_t dimension : *port.shape())
      if (__builtin_mul_overflow(size, uint64_t(dimension), &size) ||
          size > sizeLimit)
        return invalidFile("shape is too large");
    return checkRange(port.offset(), size, tables.port_size(), "port memory");
  }

  Status checkState(const artifact::State &state) {
    return checkRange(state.offset(), state.size(), tables.state_size(),
                      "state memory");
  }

  Status checkBlob(const artifact::Blob *blob) {
    if (!blob)
      return invalidFile("has no data");
    return checkRange(blob->offset(), blob->size(), blobSize, "blob section");
  }

  Status checkWeight(const artifact::Weight &weight) {
    const artifact::Blob *data = weight.data();
    if (!weight.fill() || !data)
      return checkBlob(data);
    if (data->offset() < blobSize)
      return invalidFile("is made at ", data->offset(), ", inside the ",
                         blobSize, " bytes of the file's blob section");
    TANDEM_RETURN_IF_ERROR(checkRange(data->offset(), data->size(),
                                      tables.filled_blob_size(),
                                      "filled blob section"));
    return checkFill(*weight.fill(), data->size());
  }

  Status checkImage(const artifact::Image &image) {
    switch (image.kind()) {
    case artifact::ImageKind::shared_object:
      if (!tables.cpu())
        return invalidFile("is a shared object, but the processor it needs is "
                           "not described");
      break;
    case artifact::ImageKind::cubin:
    case artifact::ImageKind::ptx:
      if (tables.cpu())
        return invalidFile("is code for a GPU, the artefact is for ",
                           tables.arch()->string_view());
      break;
    default:
      return invalidFile("unknown kind ", static_cast<unsigned>(image.kind()));
    }
    return checkBlob(image.data());
  }

  Status checkKernel(const artifact::Kernel &kernel) {
    if (kernel.symbol()->size() == 0)
      return invalidFile("has no symbol");
    if (kernel.scratch() > sizeLimit)
      return invalidFile("scratch of ", kernel.scratch(), " bytes");
    if (!tables.cpu() && (kernel.block() < 1 || kernel.block() > blockLimit))
      return invalidFile("block of ", kernel.block(),
                         " threads, expected 1 to ", blockLimit);
    if (!tables.cpu() && kernel.shared() > sharedLimit)
      return invalidFile("shared memory of ", kernel.shared(),
                         " bytes, the limit is ", sharedLimit);
    return checkIndex("image", kernel.image(), tables.images()->size());
  }

  Status checkProgram(const artifact::Program &program) {
    std::string_view name = program.name()->string_view();
    auto named = [&](const Status &status) {
      return failure(status.code(), "program '", name, "': ", status.message());
    };
    for (const auto *ports : {program.inputs(), program.outputs()})
      for (uint32_t index = 0; ports && index < ports->size(); ++index)
        if (Status status =
                checkIndex("port", ports->Get(index), tables.ports()->size());
            !status.isOk())
          return named(status);
    for (uint32_t index = 0; index < program.launches()->size(); ++index)
      if (Status status = at("launches", index,
                             checkLaunch(*program.launches()->Get(index)));
          !status.isOk())
        return named(status);
    return Status();
  }

  Status checkLaunch(const artifact::Launch &launch) {
    TANDEM_RETURN_IF_ERROR(
        checkIndex("kernel", launch.kernel(), tables.kernels()->size()));
    if (!tables.cpu())
      TANDEM_RETURN_IF_ERROR(checkGrid(launch));
    if (launch.rows_port() >= 0) {
      TANDEM_RETURN_IF_ERROR(checkIndex("port", uint64_t(launch.rows_port()),
                                        tables.ports()->size()));
      const artifact::Port &port = *tables.ports()->Get(launch.rows_port());
      if (port.element() != artifact::ElementType::i32 ||
          port.shape()->size() != 1 || port.shape()->Get(0) != 1)
        return invalidFile("rows come from port '", port.name()->string_view(),
                           "', which is not an i32 of shape [1]");
    }
    // The verifier checks the alignment of a vector's length only, and an
    // Operand holds 64 bits.
    const auto &operands = *launch.operands();
    if (reinterpret_cast<uintptr_t>(operands.Data()) %
            alignof(artifact::Operand) !=
        0)
      return invalidFile("operands are not aligned");
    for (uint32_t index = 0; index < operands.size(); ++index)
      TANDEM_RETURN_IF_ERROR(
          at("operands", index, checkOperand(*operands.Get(index))));
    return Status();
  }

  Status checkGrid(const artifact::Launch &launch) {
    uint32_t x = launch.grid_x(), y = launch.grid_y(), z = launch.grid_z();
    if (x >= 1 && x <= gridLimitX && y >= 1 && y <= gridLimitYZ && z >= 1 &&
        z <= gridLimitYZ)
      return Status();
    return invalidFile("grid of ", x, " x ", y, " x ", z,
                       " blocks, expected 1 to ", gridLimitX, " x ",
                       gridLimitYZ, " x ", gridLimitYZ);
  }

  Status checkOperand(const artifact::Operand &operand) {
    uint64_t size = 0;
    switch (operand.space()) {
    case artifact::Space::arena:
      size = tables.arena_size();
      break;
    case artifact::Space::state:
      TANDEM_RETURN_IF_ERROR(
          checkIndex("state", operand.index(), tables.states()->size()));
      size = tables.states()->Get(operand.index())->size();
      break;
    case artifact::Space::weight:
      TANDEM_RETURN_IF_ERROR(
          checkIndex("weight", operand.index(), tables.weights()->size()));
      size = tables.weights()->Get(operand.index())->data()->size();
      break;
    case artifact::Space::port: {
      TANDEM_RETURN_IF_ERROR(
          checkIndex("port", operand.index(), tables.ports()->size()));
      const artifact::Port &port = *tables.ports()->Get(operand.index());
      size = elementSize(port.element());
      for (uint32_t dimension : *port.shape())
        size *= dimension;
      break;
    }
    default:
      return invalidFile("unknown space ",
                         static_cast<unsigned>(operand.space()));
    }
    // Offset 0 of something empty is fine: its kernel has no rows to touch.
    if (operand.offset() % rangeAlignment != 0 ||
        (operand.offset() != 0 && operand.offset() >= size))
      return invalidFile("offset ", operand.offset(),
                         " is not a multiple of 64 inside ", size, " bytes");
    return Status();
  }
};

} // namespace

Status checkTables(const artifact::Artifact &tables, uint64_t blobSize) {
  return TableChecker(tables, blobSize).check();
}

} // namespace tandem
