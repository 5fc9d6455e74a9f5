//===- CudaModules.cpp - The kernels of an artefact on a device -----------===//

#include "runtime/cuda/CudaModules.h"

#include "runtime/cpu/Memory.h"

#include <cstring>

namespace tandem::cuda {

/// Shared memory that a kernel has without asking, bytes.
static constexpr uint32_t sharedWithoutAsking = 48 << 10;

/// The first compute capability, times 10, whose launches may begin before
/// those in front of them have ended.
static constexpr unsigned firstEarlyArchitecture = 90;

/// The first line of \p text that is not empty.
static std::string_view firstLine(std::string_view text) {
  size_t begin = text.find_first_not_of("\r\n ");
  if (begin == text.npos)
    return "";
  text.remove_prefix(begin);
  return text.substr(0, text.find_first_of("\r\n"));
}

StatusOr<OwnedModule> loadModule(const CudaApi &api, artifact::ImageKind kind,
                                 std::span<const std::byte> image) {
  const void *data = image.data();
  // The driver looks for the zero behind the text, the file may have none.
  std::string text;
  if (kind == artifact::ImageKind::ptx) {
    text.assign(reinterpret_cast<const char *>(image.data()), image.size());
    data = text.c_str();
  }
  char log[4096] = "";
  JitOption options[] = {JitOption::ErrorLogBuffer,
                         JitOption::ErrorLogBufferSizeBytes};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log))};
  Module module = nullptr;
  Status status =
      api.status(api.moduleLoadData(&module, data, 2, options, values),
                 "cuModuleLoadDataEx of ",
                 kind == artifact::ImageKind::ptx ? "PTX" : "a cubin");
  if (status.isOk())
    return OwnedModule(api, module);
  log[sizeof(log) - 1] = '\0';
  std::string_view line = firstLine(log);
  return failure(status.code(), status.message(), line.empty() ? "" : ": ",
                 line);
}

StatusOr<CudaModules> CudaModules::create(const CudaApi &api,
                                          const DeviceLimits &limits,
                                          const Artifact &artifact) {
  CudaModules result(api, limits);
  const artifact::Artifact &root = artifact.root();
  bool anyRuns = false, anyUsable = false;
  int oldestDriver = 0;
  for (uint32_t index = 0; index < root.images()->size(); ++index) {
    const artifact::Image &image = *root.images()->Get(index);
    auto needs = imageNeeds(image.kind(), artifact.blob(*image.data()));
    if (!needs.isOk())
      return failure(needs.status().code(), "images[", index,
                     "]: ", needs.status().message());
    bool runs = runsOn(image.kind(), needs->architecture, limits.architecture);
    bool usable = runs && needs->cudaVersion <= api.driverVersion();
    if (runs && !usable &&
        (oldestDriver == 0 || needs->cudaVersion < oldestDriver))
      oldestDriver = needs->cudaVersion;
    anyRuns |= runs;
    anyUsable |= usable;
    result.images.push_back({*needs, usable, OwnedModule()});
  }
  if (anyUsable || result.images.empty())
    return result;
  if (anyRuns)
    return failure(StatusCode::Unsupported, "needs a driver for CUDA ",
                   cudaVersionText(oldestDriver),
                   " or newer, the one of this machine is for CUDA ",
                   cudaVersionText(api.driverVersion()));
  return failure(StatusCode::Unsupported, "built for ",
                 root.arch()->string_view(), ", device is sm_",
                 limits.architecture);
}

Status CudaModules::load(const Artifact &artifact, uint32_t index) {
  if (images[index].module)
    return Status();
  const artifact::Image &image = *artifact.root().images()->Get(index);
  auto module = loadModule(*api, image.kind(), artifact.blob(*image.data()));
  if (!module.isOk())
    return failure(module.status().code(), "images[", index, "] (",
                   artifact::EnumNameImageKind(image.kind()), " for sm_",
                   images[index].needs.architecture,
                   "): ", module.status().message());
  images[index].module = std::move(*module);
  return Status();
}

StatusOr<Function> CudaModules::find(const Artifact &artifact, uint32_t index) {
  const artifact::Kernel &kernel = *artifact.root().kernels()->Get(index);
  const char *symbol = kernel.symbol()->c_str();
  for (uint32_t step = 0; step < images.size(); ++step) {
    auto image = uint32_t((uint64_t(kernel.image()) + step) % images.size());
    if (!images[image].usable)
      continue;
    TANDEM_RETURN_IF_ERROR(load(artifact, image));
    Function function = nullptr;
    Result result =
        api->moduleGetFunction(&function, images[image].module.get(), symbol);
    if (result == Result::NotFound)
      continue;
    TANDEM_RETURN_IF_ERROR(api->status(result, "kernels[", index,
                                       "]: cuModuleGetFunction of ", symbol));
    Status status = prepare(kernel, function);
    if (!status.isOk())
      return failure(status.code(), "kernels[", index, "] '", symbol,
                     "': ", status.message());
    return function;
  }
  return invalidFile("kernels[", index, "]: no image that runs on sm_",
                     limits.architecture, " has '", symbol, "'");
}

Status CudaModules::prepare(const artifact::Kernel &kernel,
                            Function function) const {
  int threads = 0, declared = 0;
  TANDEM_RETURN_IF_ERROR(api->status(
      api->functionGetAttribute(&threads, FunctionAttribute::MaxThreadsPerBlock,
                                function),
      "cuFuncGetAttribute of the threads"));
  if (kernel.block() > uint32_t(threads))
    return invalidFile("is launched with ", kernel.block(),
                       " threads a block, can have ", threads);
  TANDEM_RETURN_IF_ERROR(
      api->status(api->functionGetAttribute(
                      &declared, FunctionAttribute::SharedSizeBytes, function),
                  "cuFuncGetAttribute of the shared memory"));
  uint64_t shared = uint64_t(declared) + kernel.shared();
  if (shared > limits.sharedBytes)
    return failure(StatusCode::Unsupported, "needs ", formatBytes(shared),
                   " of shared memory, a block of this device has ",
                   formatBytes(limits.sharedBytes));
  if (shared > sharedWithoutAsking)
    TANDEM_RETURN_IF_ERROR(api->status(
        api->functionSetAttribute(function,
                                  FunctionAttribute::MaxDynamicSharedSizeBytes,
                                  int(kernel.shared())),
        "cuFuncSetAttribute of ", formatBytes(kernel.shared()),
        " of shared memory"));
  // A multiprocessor divides its memory between cache and shared memory as the
  // kernel that it runs prefers, and takes no block of a kernel that prefers
  // something else before it is empty. Where launches begin early, blocks of
  // the next one are to lie beside those of this one, so all kernels prefer the
  // same. It is a hint: without it they run as well, only one behind the other,
  // so a driver that refuses it is no error.
  if (limits.architecture >= firstEarlyArchitecture)
    (void)api->functionSetAttribute(
        function, FunctionAttribute::PreferredSharedMemoryCarveout, 100);
  return Status();
}

} // namespace tandem::cuda
