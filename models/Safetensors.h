//===- Safetensors.h - Checkpoints as mapped tensors ------------*- C++ -*-===//
//
// A safetensors file is an 8-byte length, a JSON header that names tensors and
// their byte ranges, and the bytes. A checkpoint is a directory with one such
// file or several. Everything a hostile file could get wrong is checked here
// once, when it is opened; whoever holds a TensorView may trust it.
//
// A Checkpoint owns the mappings. Views and the strings in them live as long as
// it does, also when it is moved. Files must not be truncated while mapped.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_MODELS_SAFETENSORS_H
#define TANDEM_MODELS_SAFETENSORS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tandem::models {

/// Element types of safetensors that are whole bytes.
enum class DType : uint8_t {
  Bool,
  U8,
  I8,
  F8E5M2,
  F8E4M3,
  F8E8M0,
  I16,
  U16,
  F16,
  BF16,
  I32,
  U32,
  F32,
  I64,
  U64,
  F64,
};

/// The name a safetensors header uses, such as "BF16".
llvm::StringRef toString(DType dtype);

/// Bytes per element.
unsigned getByteWidth(DType dtype);

/// One tensor: row-major, little-endian, in the file's own memory.
struct TensorView {
  /// As in the file. Any text at all: quote it in messages.
  std::string name;
  DType dtype;
  /// Outermost dimension first; empty for a scalar. The product times the byte
  /// width is bytes.size().
  llvm::SmallVector<int64_t, 4> shape;
  /// Not aligned to the element: read through memcpy.
  llvm::ArrayRef<uint8_t> bytes;
  /// Path of the file that holds it.
  llvm::StringRef file;

  /// Product of the shape.
  int64_t getNumElements() const;
};

/// Prints "BF16 [512, 128]".
llvm::raw_ostream &operator<<(llvm::raw_ostream &os, const TensorView &tensor);

/// Reads the header of one safetensors file, which is \p contents, and checks
/// all of it (https://github.com/huggingface/safetensors, "Format"): the
/// ranges tile the data, names are unique, sizes agree with shapes. The views
/// point into \p contents and \p path. Oddities that change nothing are
/// appended to \p warnings. Errors start with \p path and name the tensor.
llvm::Expected<std::vector<TensorView>>
parseSafetensors(llvm::ArrayRef<uint8_t> contents, llvm::StringRef path,
                 std::vector<std::string> &warnings);

/// The tensors of a checkpoint directory.
class Checkpoint {
public:
  /// Opens \p directory. With `model.safetensors.index.json` its files are
  /// read and no others, and it must list exactly their tensors; without it,
  /// every `*.safetensors` is read. Files may be symbolic links, as in the
  /// Hugging Face cache; names in the index must be bare file names. Errors:
  /// no tensors, a missing or malformed file, a tensor in two files.
  static llvm::Expected<Checkpoint> open(llvm::StringRef directory);

  /// Names of the files that open() reads in \p directory, sorted.
  static llvm::Expected<std::vector<std::string>>
  listFiles(llvm::StringRef directory);

  /// A checkpoint in \p directory that has no tensors: whoever reads it makes
  /// up those that it should have.
  static Checkpoint createSynthetic(llvm::StringRef directory) {
    Checkpoint result(directory);
    result.synthetic = true;
    return result;
  }

  Checkpoint(Checkpoint &&);
  Checkpoint &operator=(Checkpoint &&);
  ~Checkpoint();

  /// The tensor called \p name, or null.
  const TensorView *find(llvm::StringRef name) const;

  /// All tensors by name.
  llvm::ArrayRef<TensorView> getTensors() const { return tensors; }

  /// The directory as given to open().
  llvm::StringRef getDirectory() const { return directory; }

  bool isSynthetic() const { return synthetic; }

  /// Lines for the user about things that are odd and harmless.
  llvm::ArrayRef<std::string> getWarnings() const { return warnings; }

private:
  struct File;

  explicit Checkpoint(llvm::StringRef directory);

  /// Maps \p name inside the directory and appends its tensors.
  llvm::Error addFile(llvm::StringRef name);
  /// Sorts the tensors; errors on a name that two files use.
  llvm::Error sortTensors();

  std::string directory;
  bool synthetic = false;
  std::vector<std::unique_ptr<File>> files;
  std::vector<TensorView> tensors;
  std::vector<std::string> warnings;
};

} // namespace tandem::models

#endif // TANDEM_MODELS_SAFETENSORS_H
