//===- SafetensorsIo.h - Tensors in files -----------------------*- C++ -*-===//
//
// Reads and writes safetensors files, for the inputs and results of `qrun
// exec` and `qrun score`. The reader trusts nothing in the file; the writer
// streams, so that a file may be larger than memory.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_SAFETENSORSIO_H
#define TANDEM_RUNTIME_SAFETENSORSIO_H

#include "runtime/MappedFile.h"
#include "runtime/OutputFile.h"
#include "runtime/Status.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// What a file says of a tensor.
struct TensorInfo {
  std::string name;
  /// As the format spells it: "F32", "I32" ...
  std::string dtype;
  std::vector<uint64_t> shape;
};

/// "F32 [3, 4]".
std::string describe(const TensorInfo &tensor);

/// Bytes of the data of \p tensor. Errors: unknown type, more bytes than 64
/// bits count.
StatusOr<uint64_t> tensorBytes(const TensorInfo &tensor);

/// An open file: its bytes stay mapped.
class SafetensorsReader {
public:
  struct Tensor : TensorInfo {
    /// Row-major; at any alignment.
    std::span<const std::byte> data;
  };

  /// Maps \p path and checks its header: sizes, types, that the tensors cover
  /// the data without overlap or hole. Errors do not contain the path.
  static StatusOr<SafetensorsReader> open(const std::string &path);

  /// In the order of their data.
  const std::vector<Tensor> &tensors() const { return entries; }
  /// Null when there is none of this name.
  const Tensor *find(std::string_view name) const;

private:
  explicit SafetensorsReader(MappedFile mapping)
      : mapping(std::move(mapping)) {}
  Status parse();

  MappedFile mapping;
  std::vector<Tensor> entries;
};

/// A file being written: create(), then append() the data of all tensors in
/// their order, then finish().
class SafetensorsWriter {
public:
  /// Starts the file \p path with the header of \p tensors. Nothing appears
  /// under that name before finish().
  static StatusOr<SafetensorsWriter>
  create(const std::string &path, std::span<const TensorInfo> tensors);

  Status append(std::span<const std::byte> data);
  /// Ends the file. It must have as much data as its header says.
  Status finish();

private:
  SafetensorsWriter(OutputFile file, uint64_t left)
      : file(std::move(file)), left(left) {}

  OutputFile file;
  /// Bytes of data that are still missing.
  uint64_t left;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_SAFETENSORSIO_H
