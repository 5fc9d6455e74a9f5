//===- CpuDevice.h - Runs programs on the processor -------------*- C++ -*-===//
//
// A device of code images that are shared objects (KernelAbi.h). Weights are
// used in the mapped file. All pointers are resolved when the device is made,
// so running a program is a walk over a flat list.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CPU_CPUDEVICE_H
#define TANDEM_RUNTIME_CPU_CPUDEVICE_H

#include "runtime/Artifact.h"
#include "runtime/Device.h"
#include "runtime/KernelAbi.h"
#include "runtime/Snapshot.h"
#include "runtime/cpu/Memory.h"
#include "runtime/cpu/SharedObject.h"
#include "runtime/cpu/ThreadPool.h"

#include <functional>
#include <memory>
#include <vector>

namespace tandem {

struct CpuOptions {
  /// Threads that run kernels; 0: as many as there are cores to use.
  unsigned threads = 0;
  /// Snapshots to have room for.
  uint32_t snapshots = 0;
  /// Told how many bytes of the weights are in memory while they are read.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

class CpuDevice final : public Device {
public:
  /// Loads the code of \p artifact, which outlives the device, and allocates
  /// all memory. Errors: the artefact is not for a CPU, this CPU lacks a
  /// feature, a kernel is missing, memory or threads do not suffice.
  static StatusOr<std::unique_ptr<CpuDevice>> create(const Artifact &artifact,
                                                     const CpuOptions &options);

  Status reset() override;
  uint32_t snapshots() const override { return snapshotCount; }
  Status save(uint32_t snapshot) override;
  Status restore(uint32_t snapshot) override;
  Status run(uint32_t program) override;
  StatusOr<std::vector<double>> profile(uint32_t program) override;
  Status write(uint32_t port, std::span<const std::byte> data) override;
  Status read(uint32_t port, std::span<std::byte> data) override;
  std::optional<double> busySeconds() const override;

  unsigned threads() const { return pool->size(); }

private:
  /// A launch with everything resolved.
  struct Launch {
    TandemKernel kernel;
    /// First of its operands in `operands`.
    size_t firstOperand;
    /// Where the number of live rows is found; null: all of them.
    const int32_t *liveRows;
    int64_t rows;
    int64_t items;
    bool itemsPerRow;
    /// Parts that its items are split into, if there are as many.
    uint32_t parts;
  };
  struct Range {
    size_t begin, end;
  };
  struct PortMemory {
    std::byte *data;
    uint64_t size;
  };

  CpuDevice() = default;
  Status checkMemory(const Artifact &artifact, uint64_t scratch,
                     unsigned threads) const;
  std::byte *snapshotData(uint32_t snapshot) const;
  Status loadKernels(const Artifact &artifact);
  Status allocate(const Artifact &artifact, unsigned threads);
  void readWeights(const Artifact &artifact, const CpuOptions &options) const;
  uint32_t countParts(const Artifact &artifact,
                      const artifact::Launch &launch) const;
  void resolve(const Artifact &artifact);
  std::byte *address(const Artifact &artifact,
                     const artifact::Operand &operand) const;
  void runLaunch(const Launch &launch);

  std::vector<SharedObject> images;
  /// By kernel index.
  std::vector<TandemKernel> kernels;
  bool statesAreZero = true;
  /// Offset and size of each state that is no cache of keys and values.
  std::vector<std::pair<uint64_t, uint64_t>> carried;
  PageMemory arena, states, portMemory, scratch, snapshotMemory;
  std::optional<SnapshotLayout> layout;
  uint32_t snapshotCount = 0;
  /// Bytes of one thread's part of `scratch`.
  uint64_t scratchStride = 0;
  std::vector<PortMemory> ports;
  /// Operands of all launches, one launch behind the other.
  std::vector<void *> operands;
  std::vector<Launch> launches;
  /// By program index: its part of `launches`.
  std::vector<Range> programs;
  std::unique_ptr<ThreadPool> pool;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_CPU_CPUDEVICE_H
