//===- KernelFiles.h - The templates, as text -------------------*- C++ -*-===//

#ifndef TANDEM_CODEGEN_CUDA_KERNELFILES_H
#define TANDEM_CODEGEN_CUDA_KERNELFILES_H

#include "codegen/cuda/Nvrtc.h"

namespace tandem::codegen {

/// The files of kernels/, by name. Defined by what EmbedFiles.cmake writes.
llvm::ArrayRef<NvrtcHeader> getKernelFiles();

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CUDA_KERNELFILES_H
