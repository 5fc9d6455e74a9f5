//===- CudaDevice.h - Runs programs on a GPU --------------------*- C++ -*-===//
//
// A device of code images that are cubins or PTX. All memory is asked for
// when it is made, and every program becomes a graph then, so running one is
// one call of the driver. All work goes to one stream.
//
// A kernel gets the addresses of its operands in order, the address of its
// live rows (an i32, or null), the rows of its tensors as an i32, and the
// address of its scratch.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_CUDADEVICE_H
#define TANDEM_RUNTIME_CUDA_CUDADEVICE_H

#include "runtime/Artifact.h"
#include "runtime/Device.h"
#include "runtime/Snapshot.h"
#include "runtime/cuda/CudaContext.h"
#include "runtime/cuda/CudaGraph.h"
#include "runtime/cuda/CudaLoop.h"
#include "runtime/cuda/CudaModules.h"
#include "runtime/cuda/CudaPorts.h"

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace tandem {

struct CudaOptions {
  /// Which GPU: 0 for `cuda:0`.
  unsigned ordinal = 0;
  /// Whether the device runs the rounds of a text by itself, if it can.
  bool loopOnDevice = true;
  /// Snapshots to have room for.
  uint32_t snapshots = 0;
  /// Told how many bytes of the weights are on the device while they go there.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

class CudaDevice final : public Device {
public:
  /// Loads the code and the weights of \p artifact, whose file outlives the
  /// device, and allocates all memory. Errors: there is no driver or no such
  /// GPU, the artefact is not for it or needs a newer driver, a kernel is
  /// missing, memory does not suffice.
  static StatusOr<std::unique_ptr<CudaDevice>>
  create(const Artifact &artifact, const CudaOptions &options);

  ~CudaDevice() override;

  Status reset() override;
  uint32_t snapshots() const override { return snapshotCount; }
  Status save(uint32_t snapshot) override;
  Status restore(uint32_t snapshot) override;
  Status run(uint32_t program) override;
  Status write(uint32_t port, std::span<const std::byte> data) override;
  Status read(uint32_t port, std::span<std::byte> data) override;
  RoundLoop *roundLoop() override { return loop.get(); }

  /// Why there is no roundLoop(); success when there is one, or when the
  /// artefact has no loop or it was not asked for.
  const Status &loopProblem() const { return whyNoLoop; }

  /// "NVIDIA A10G".
  const std::string &name() const { return context->name(); }

  /// Time on the device from startClock() to stopClock(), which waits for all
  /// work, in seconds. For measuring.
  Status startClock();
  StatusOr<double> stopClock();

  /// Runs program \p program once and returns the seconds that each of its
  /// launches took, in order; the changeover to the next launch is part of
  /// them. Unlike everything else it allocates. For measuring.
  StatusOr<std::vector<double>> profile(uint32_t program) override;

  /// Bytes a second that a copy inside the memory of the device reads and
  /// writes, together: the bound that programs are compared with. Allocates
  /// for its time 1 GiB, or what there is.
  StatusOr<double> measureBandwidth();

private:
  /// Launches of a program in `launches`.
  struct Program {
    size_t begin, end;
    /// None when the program has no launches.
    cuda::OwnedGraphExec exec;
  };
  struct Launch {
    uint32_t kernel;
    uint32_t gridX, gridY, gridZ;
    /// First of its parameters in `parameters`, and their number.
    size_t firstParameter, parameterCount;
    std::string_view location;
  };
  struct Kernel {
    cuda::Function function;
    uint32_t block, shared;
    /// Null without scratch.
    cuda::DevicePointer scratch;
    bool startsEarly;
  };

  CudaDevice() = default;
  Status checkMemory(const Artifact &artifact) const;
  Status allocate(const Artifact &artifact);
  Status copyStates(uint32_t snapshot, bool saves);
  Status loadKernels(const Artifact &artifact);
  Status loadWeights(const Artifact &artifact, const CudaOptions &options);
  void resolve(const Artifact &artifact);
  Status checkParameters() const;
  Status addProgram(cuda::GraphChain &chain, uint32_t program) const;
  Status buildGraphs();
  StatusOr<std::unique_ptr<cuda::CudaLoop>> buildLoop(const Artifact &artifact);
  cuda::DevicePointer address(const Artifact &artifact,
                              const artifact::Operand &operand) const;
  cuda::KernelLaunch resolved(const Launch &launch) const;
  std::string_view programName(uint32_t program) const;
  /// Says in the message of a failure which program ran last.
  Status behindLastProgram(Status status) const;

  // In the order in which they need each other.
  std::unique_ptr<cuda::CudaApi> api;
  std::optional<cuda::CudaContext> context;
  cuda::OwnedStream stream;
  cuda::OwnedEvent clockBegin, clockEnd;
  /// Tables of the artefact, for names.
  const artifact::Artifact *tables = nullptr;
  /// The weights' part of the blob section, and where it starts there.
  cuda::DeviceMemory weights;
  uint64_t firstWeight = 0, weightsEnd = 0;
  cuda::DeviceMemory states, arena, scratch, snapshotMemory;
  std::optional<SnapshotLayout> layout;
  uint32_t snapshotCount = 0;
  std::optional<cuda::CudaPorts> ports;
  std::optional<cuda::CudaModules> modules;
  /// By kernel index.
  std::vector<Kernel> kernels;
  /// Parameters of all launches, one launch behind the other.
  std::vector<uint64_t> parameters;
  std::vector<Launch> launches;
  /// By program index.
  std::vector<Program> programs;
  std::unique_ptr<cuda::CudaLoop> loop;
  Status whyNoLoop;
  /// Whether all kernels begin when those in front have ended: there is none
  /// that can do otherwise, or the driver takes no graph with it.
  bool startsLate = false;
  /// The program that ran last; none yet when negative.
  int64_t lastProgram = -1;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_CUDA_CUDADEVICE_H
