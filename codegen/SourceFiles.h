//===- SourceFiles.h - What an artefact was made from -----------*- C++ -*-===//

#ifndef TANDEM_CODEGEN_SOURCEFILES_H
#define TANDEM_CODEGEN_SOURCEFILES_H

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace tandem::codegen {

/// Describes the files that were read of the checkpoints that the module
/// attribute `lm.checkpoints` names, one line each: XXH3 (64 bits,
/// hexadecimal), size, and path, which begins with the name of the checkpoint.
/// The hash is that of the content; of a safetensors file it covers the header
/// alone, which lists the tensors, because hashing the weights would take as
/// long as packing them.
llvm::Expected<std::vector<std::string>> listSources(mlir::ModuleOp module);

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_SOURCEFILES_H
