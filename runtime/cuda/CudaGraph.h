//===- CudaGraph.h - Launches one behind the other --------------*- C++ -*-===//
//
// A program becomes a graph once: a chain of kernels whose parameters never
// change, which the driver then launches with one call.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_CUDAGRAPH_H
#define TANDEM_RUNTIME_CUDA_CUDAGRAPH_H

#include "runtime/cuda/CudaHandle.h"

#include <span>

namespace tandem::cuda {

/// A launch with everything resolved.
struct KernelLaunch {
  Function function;
  uint32_t gridX, gridY, gridZ;
  uint32_t block;
  /// Dynamic shared memory, bytes.
  uint32_t shared;
  /// The values of the parameters, 8 bytes each of which a smaller parameter
  /// takes the first.
  std::span<const uint64_t> parameters;
  /// Whether the kernel waits itself for those in front of it.
  bool startsEarly = false;
};

/// Adds nodes to a graph, each behind the one before.
class GraphChain {
public:
  /// The graph is empty and outlives the chain.
  GraphChain(const CudaApi &api, Graph graph) : api(api), graph(graph) {}

  /// \p location names the launch in the message of a failure. A kernel that
  /// starts early does so behind another kernel, where the driver knows how.
  Status addKernel(const KernelLaunch &launch, std::string_view location);
  /// Records \p event when all nodes before have ended.
  Status addEvent(Event event);
  /// Repeats the nodes of \p body, which are to be added, while \p condition
  /// is not 0. Needs a driver that canRepeat().
  Status addWhile(ConditionHandle condition, Context context, Graph &body);

private:
  /// Makes \p node, which may begin early, the one behind the last.
  Status linkEarly(GraphNode node, std::string_view location);
  const GraphNode *before() const { return last ? &last : nullptr; }

  const CudaApi &api;
  Graph graph;
  GraphNode last = nullptr;
  bool lastIsKernel = false;
};

/// An empty graph.
StatusOr<OwnedGraph> createGraph(const CudaApi &api);

/// Makes \p graph ready to be launched, and puts it onto the device by way of
/// \p stream. \p purpose is the subject of a failure's message.
StatusOr<OwnedGraphExec> instantiate(const CudaApi &api, Graph graph,
                                     Stream stream, std::string_view purpose);

/// Whether the driver knows graphs that repeat a part of themselves.
bool canRepeat(const CudaApi &api);

} // namespace tandem::cuda

#endif // TANDEM_RUNTIME_CUDA_CUDAGRAPH_H
