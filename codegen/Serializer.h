//===- Serializer.h - A plan as a .tandem file ------------------*- C++ -*-===//
//
// Header, flatbuffer, and the blobs behind them, as runtime/README.md draws
// the file. Weights go from the mapped checkpoints through a tile in memory
// straight to the disk.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_SERIALIZER_H
#define TANDEM_CODEGEN_SERIALIZER_H

#include "codegen/ArtifactTables.h"
#include "codegen/OutputFile.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace tandem::codegen {

/// Told how many of how many bytes of weights are written.
using WeightProgress = llvm::function_ref<void(uint64_t done, uint64_t total)>;

/// Writes \p contents to \p file, which the caller finishes, and returns the
/// size of the file. The weights come from the checkpoints that the module
/// attribute `lm.checkpoints` names. Errors: a checkpoint that cannot be read
/// or lacks a tensor, a tensor of another type or shape (all found before
/// anything is written), scales that are not finite, a full disk.
llvm::Expected<uint64_t> writeArtifact(const ArtifactContents &contents,
                                       OutputFile &file,
                                       WeightProgress progress);

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_SERIALIZER_H
