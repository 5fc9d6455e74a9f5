//===- CudaLoop.h - The speculative loop as one graph -----------*- C++ -*-===//
//
// A graph that repeats a round as long as the kernel at its end wants to. The
// tokens go to pinned memory, where the host finds them while the next round
// runs already. Drivers before CUDA 12.4 cannot do this.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_CUDALOOP_H
#define TANDEM_RUNTIME_CUDA_CUDALOOP_H

#include "runtime/Artifact.h"
#include "runtime/RoundLoop.h"
#include "runtime/cuda/CudaContext.h"
#include "runtime/cuda/CudaGraph.h"
#include "runtime/cuda/CudaPorts.h"
#include "runtime/cuda/LoopKernel.h"

#include <functional>
#include <memory>

namespace tandem::cuda {

class CudaLoop final : public RoundLoop {
public:
  /// Adds the launches of a program to a graph.
  using AddProgram = std::function<Status(GraphChain &chain, uint32_t program)>;

  /// Builds the loop of \p artifact, which has one, on \p stream. Everything
  /// but the artefact outlives it. The driver canRepeat().
  static StatusOr<std::unique_ptr<CudaLoop>>
  create(const CudaApi &api, const CudaContext &context, Stream stream,
         const Artifact &artifact, CudaPorts &ports,
         const AddProgram &addProgram);
  ~CudaLoop() override;

  Status start(bool withDrafter, uint32_t budget,
               bool ignoreStopTokens) override;
  StatusOr<std::span<const uint32_t>> next() override;
  StatusOr<uint32_t> stop() override;

private:
  CudaLoop(const CudaApi &api, const CudaContext &context, Stream stream,
           const artifact::Loop &tables, CudaPorts &ports)
      : api(api), context(context), stream(stream), tables(tables),
        ports(ports) {}
  Status allocate();
  StatusOr<OwnedGraphExec> build(const Artifact &artifact,
                                 std::span<const int32_t> programs,
                                 std::string_view tokensPort,
                                 const AddProgram &addProgram);
  /// Rounds that are there to be read.
  uint32_t readyRounds() const;
  /// Of the pinned memory, the part at \p offset.
  template <typename T> T *pinned(uint64_t offset) const {
    return reinterpret_cast<T *>(static_cast<std::byte *>(memory.get()) +
                                 offset);
  }
  LoopMailbox &mailbox() const { return *pinned<LoopMailbox>(0); }

  const CudaApi &api;
  const CudaContext &context;
  Stream stream;
  const artifact::Loop &tables;
  CudaPorts &ports;

  OwnedModule module;
  Function function = nullptr;
  DeviceMemory control;
  /// The mailbox, the counts of the rounds, their tokens, and what goes to
  /// `control` at the start.
  PinnedMemory memory;
  DevicePointer deviceMemory = 0;
  uint64_t countsOffset = 0, tokensOffset = 0, controlOffset = 0;
  /// None without a drafter.
  OwnedGraphExec drafted;
  OwnedGraphExec plain;

  bool running = false;
  /// Most tokens of a round of those that run.
  uint32_t roundLimit = 1;
  /// Rounds and tokens that next() has returned.
  uint32_t roundsTaken = 0, tokensTaken = 0;
};

} // namespace tandem::cuda

#endif // TANDEM_RUNTIME_CUDA_CUDALOOP_H
