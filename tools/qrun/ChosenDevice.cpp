//===- ChosenDevice.cpp - The device that runs an artefact ----------------===//

#include "tools/qrun/ChosenDevice.h"

#include "runtime/cpu/CpuDevice.h"
#include "runtime/cpu/ReadBandwidth.h"
#include "runtime/cuda/CudaDevice.h"

#include <optional>

namespace tandem::qrun {

/// Number of the GPU called \p name; none when it is not the name of one.
static std::optional<unsigned> cudaOrdinal(std::string_view name) {
  if (name == "cuda")
    return 0;
  constexpr std::string_view prefix = "cuda:";
  if (!name.starts_with(prefix))
    return std::nullopt;
  name.remove_prefix(prefix.size());
  unsigned ordinal = 0;
  const char *end = name.data() + name.size();
  auto parsed = std::from_chars(name.data(), end, ordinal);
  if (parsed.ec != std::errc() || parsed.ptr != end)
    return std::nullopt;
  return ordinal;
}

Status checkDeviceName(const std::string &name) {
  if (name.empty() || name == "cpu" || cudaOrdinal(name))
    return Status();
  return invalidArgument("unknown device '", name,
                         "': expected cpu or cuda:N, as cuda:0");
}

StatusOr<ChosenDevice> chooseDevice(const Artifact &artifact,
                                    const std::string &name,
                                    const DeviceOptions &options) {
  TANDEM_RETURN_IF_ERROR(checkDeviceName(name));
  bool onCpu = name.empty() ? artifact.root().cpu() != nullptr : name == "cpu";
  if (onCpu) {
    CpuOptions cpuOptions;
    cpuOptions.threads = options.threads;
    cpuOptions.snapshots = options.snapshots;
    cpuOptions.progress = options.progress;
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<CpuDevice> device,
                            CpuDevice::create(artifact, cpuOptions));
    unsigned count = device->threads();
    return ChosenDevice{
        std::move(device), concat(count, count == 1 ? " thread" : " threads"),
        "rounds on the host",
        [count](uint64_t size) { return measureReadBandwidth(count, size); }};
  }
  CudaOptions cudaOptions;
  cudaOptions.ordinal = cudaOrdinal(name).value_or(0);
  cudaOptions.snapshots = options.snapshots;
  cudaOptions.progress = options.progress;
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device,
                          CudaDevice::create(artifact, cudaOptions));
  CudaDevice *gpu = device.get();
  std::string rounds =
      gpu->roundLoop() ? "rounds on the device" : "rounds on the host";
  if (!gpu->loopProblem().isOk())
    rounds += ": " + gpu->loopProblem().message();
  return ChosenDevice{std::move(device), gpu->name(), rounds,
                      [gpu](uint64_t) { return gpu->measureBandwidth(); }};
}

} // namespace tandem::qrun
