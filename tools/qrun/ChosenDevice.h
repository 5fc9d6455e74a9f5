//===- ChosenDevice.h - The device that runs an artefact --------*- C++ -*-===//

#ifndef TANDEM_TOOLS_QRUN_CHOSENDEVICE_H
#define TANDEM_TOOLS_QRUN_CHOSENDEVICE_H

#include "runtime/Artifact.h"
#include "runtime/Device.h"

#include <functional>
#include <memory>
#include <string>

namespace tandem::qrun {

/// A device of any kind, and what is known of it beside its programs.
struct ChosenDevice {
  std::unique_ptr<Device> device;
  /// "8 threads", or the name of the GPU.
  std::string name;
  /// "rounds on the device", or "rounds on the host" and why.
  std::string rounds;
  /// Measures how many bytes a second its memory gives: the bound that
  /// programs are compared with. On a CPU, \p size bytes are read.
  std::function<StatusOr<double>(uint64_t size)> measureBandwidth;
};

/// What a device of any kind is made with.
struct DeviceOptions {
  /// Of a CPU; 0: all cores.
  unsigned threads = 0;
  /// Snapshots to have room for.
  uint32_t snapshots = 0;
  /// Told, if set, how many bytes of the weights are there.
  std::function<void(uint64_t, uint64_t)> progress = nullptr;
};

/// Loads \p artifact onto the device called \p name: `cpu`, `cuda:N`, `cuda`
/// for `cuda:0`, or nothing for what the artefact was compiled for.
StatusOr<ChosenDevice> chooseDevice(const Artifact &artifact,
                                    const std::string &name,
                                    const DeviceOptions &options);

/// Whether \p name is one that chooseDevice() knows; the message lists them.
Status checkDeviceName(const std::string &name);

} // namespace tandem::qrun

#endif // TANDEM_TOOLS_QRUN_CHOSENDEVICE_H
