//===- CudaGraph.cpp - Launches one behind the other ----------------------===//

#include "runtime/cuda/CudaGraph.h"

#include <vector>

namespace tandem::cuda {

Status GraphChain::addKernel(const KernelLaunch &launch,
                             std::string_view location) {
  std::vector<void *> values;
  values.reserve(launch.parameters.size());
  for (const uint64_t &parameter : launch.parameters)
    values.push_back(const_cast<uint64_t *>(&parameter));
  KernelNodeParams params = {launch.function,
                             launch.gridX,
                             launch.gridY,
                             launch.gridZ,
                             launch.block,
                             1,
                             1,
                             launch.shared,
                             values.data(),
                             nullptr};
  bool isEarly = launch.startsEarly && lastIsKernel && api.graphAddDependencies;
  GraphNode node = nullptr;
  TANDEM_RETURN_IF_ERROR(
      api.status(api.graphAddKernelNode(&node, graph, before(),
                                        last && !isEarly ? 1 : 0, &params),
                 "cuGraphAddKernelNode for ", location));
  if (isEarly)
    TANDEM_RETURN_IF_ERROR(linkEarly(node, location));
  last = node;
  lastIsKernel = true;
  return Status();
}

Status GraphChain::linkEarly(GraphNode node, std::string_view location) {
  GraphEdgeData edge = {graphPortProgrammatic, 0, graphEdgeProgrammatic, {}};
  if (api.graphAddDependencies(graph, &last, &node, &edge, 1) ==
      Result::Success)
    return Status();
  // Later is as good.
  edge = {};
  return api.status(api.graphAddDependencies(graph, &last, &node, &edge, 1),
                    "cuGraphAddDependencies for ", location);
}

Status GraphChain::addEvent(Event event) {
  GraphNode node = nullptr;
  TANDEM_RETURN_IF_ERROR(api.status(
      api.graphAddEventRecordNode(&node, graph, before(), last ? 1 : 0, event),
      "cuGraphAddEventRecordNode"));
  last = node;
  lastIsKernel = false;
  return Status();
}

Status GraphChain::addWhile(ConditionHandle condition, Context context,
                            Graph &body) {
  assert(canRepeat(api));
  GraphNodeParams params = {};
  params.type = graphNodeConditional;
  params.conditional = {condition, conditionalWhile, 1, nullptr, context};
  GraphNode node = nullptr;
  TANDEM_RETURN_IF_ERROR(api.status(
      api.graphAddNode(&node, graph, before(), last ? 1 : 0, &params),
      "cuGraphAddNode for the loop"));
  body = params.conditional.bodies[0];
  last = node;
  lastIsKernel = false;
  return Status();
}

StatusOr<OwnedGraph> createGraph(const CudaApi &api) {
  Graph graph = nullptr;
  TANDEM_RETURN_IF_ERROR(
      api.status(api.graphCreate(&graph, 0), "cuGraphCreate"));
  return OwnedGraph(api, graph);
}

StatusOr<OwnedGraphExec> instantiate(const CudaApi &api, Graph graph,
                                     Stream stream, std::string_view purpose) {
  GraphExec exec = nullptr;
  TANDEM_RETURN_IF_ERROR(api.status(api.graphInstantiate(&exec, graph, 0),
                                    "cuGraphInstantiateWithFlags for ",
                                    purpose));
  OwnedGraphExec result(api, exec);
  TANDEM_RETURN_IF_ERROR(
      api.status(api.graphUpload(exec, stream), "cuGraphUpload for ", purpose));
  return result;
}

bool canRepeat(const CudaApi &api) {
  // The functions are there earlier than they work.
  return api.graphAddNode && api.graphConditionalHandleCreate &&
         api.driverVersion() >= 12040;
}

} // namespace tandem::cuda
