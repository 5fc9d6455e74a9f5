//===- CudaApi.cpp - The CUDA driver, opened by name ----------------------===//

#include "runtime/cuda/CudaApi.h"

#include <cstdlib>
#include <dlfcn.h>

namespace tandem::cuda {

StatusOr<std::unique_ptr<CudaApi>> CudaApi::load() {
  const char *name = std::getenv("TANDEM_LIBCUDA");
  if (!name || !*name)
    name = "libcuda.so.1";
  // Never closed: the driver has threads of its own.
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return failure(StatusCode::Unsupported,
                   "cannot open the NVIDIA driver: ", dlerror());
  std::unique_ptr<CudaApi> api(new CudaApi);
  TANDEM_RETURN_IF_ERROR(api->findFunctions(library));
  TANDEM_RETURN_IF_ERROR(api->start());
  return api;
}

Status CudaApi::findFunctions(void *library) {
  const char *missing = nullptr;
#define TANDEM_CUDA_FIND(member, symbol, parameters)                           \
  member = reinterpret_cast<decltype(member)>(dlsym(library, #symbol));        \
  if (!member && !missing)                                                     \
    missing = #symbol;
  TANDEM_CUDA_FUNCTIONS(TANDEM_CUDA_FIND)
#undef TANDEM_CUDA_FIND
  if (missing)
    return failure(StatusCode::Unsupported, "the NVIDIA driver has no ",
                   missing, ": a driver for CUDA 11.4 or newer is needed");

#define TANDEM_CUDA_FIND(member, symbol, parameters)                           \
  member = reinterpret_cast<decltype(member)>(dlsym(library, #symbol));
  TANDEM_CUDA_NEWER_FUNCTIONS(TANDEM_CUDA_FIND)
#undef TANDEM_CUDA_FIND
  return Status();
}

Status CudaApi::start() {
  switch (Result result = init(0)) {
  case Result::Success:
    break;
  case Result::NoDevice:
    return failure(StatusCode::Unsupported,
                   "there is no GPU: cuInit: ", describe(result));
  default:
    return failed(result, "cannot start the NVIDIA driver: cuInit");
  }
  return status(driverGetVersion(&version), "cuDriverGetVersion");
}

std::string CudaApi::describe(Result result) const {
  const char *text = nullptr;
  const char *name = nullptr;
  // Neither fails but for numbers that the driver does not know.
  (void)getErrorString(result, &text);
  (void)getErrorName(result, &name);
  if (!text || !name)
    return concat("error ", static_cast<int32_t>(result));
  return concat(text, " (", name, ")");
}

Status CudaApi::failed(Result result, std::string what) const {
  StatusCode code = StatusCode::System;
  if (result == Result::OutOfMemory)
    code = StatusCode::OutOfResources;
  return failure(code, what, ": ", describe(result));
}

} // namespace tandem::cuda
