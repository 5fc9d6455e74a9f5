//===- Linker.h - Object files to a shared object ---------------*- C++ -*-===//

#ifndef TANDEM_CODEGEN_CPU_LINKER_H
#define TANDEM_CODEGEN_CPU_LINKER_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <vector>

namespace tandem::codegen {

/// Links \p objects (ELF, in memory) into a shared object that needs no other.
/// One call runs at a time. Errors: what the linker says; no folder for
/// temporary files.
llvm::Expected<std::vector<char>>
linkSharedObject(llvm::ArrayRef<std::vector<char>> objects);

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CPU_LINKER_H
