//===- CudaUpload.h - Weights from the file to a device ---------*- C++ -*-===//

#ifndef TANDEM_RUNTIME_CUDA_CUDAUPLOAD_H
#define TANDEM_RUNTIME_CUDA_CUDAUPLOAD_H

#include "runtime/cuda/CudaHandle.h"

#include <functional>
#include <span>

namespace tandem::cuda {

/// Copies \p source to \p target by way of \p stream and waits for it. While
/// one piece of pinned memory goes over, the next is filled from the file.
/// \p progress may be empty; it is told the bytes that are done.
Status uploadWeights(const CudaApi &api, Stream stream,
                     std::span<const std::byte> source, DevicePointer target,
                     const std::function<void(uint64_t, uint64_t)> &progress);

} // namespace tandem::cuda

#endif // TANDEM_RUNTIME_CUDA_CUDAUPLOAD_H
