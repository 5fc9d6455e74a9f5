//===- CudaApi.h - The CUDA driver, opened by name --------------*- C++ -*-===//
//
// The driver is a library of the machine, libcuda.so.1. It is opened when a
// GPU is asked for and not before, and its functions are found by the names of
// one table. The names carry the version of the call (`cuMemAlloc_v2`), so
// each stands for one binary interface for ever, whatever the driver is.
//
// Every call gives a Result; status() makes a Status of it that names the call
// and what it was for.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_CUDAAPI_H
#define TANDEM_RUNTIME_CUDA_CUDAAPI_H

#include "runtime/Status.h"
#include "runtime/cuda/CudaTypes.h"

#include <memory>

namespace tandem::cuda {

/// The functions of the driver: member of CudaApi, exported name, parameters.
/// All of them are in the drivers of CUDA 11.4 and later.
#define TANDEM_CUDA_FUNCTIONS(X)                                               \
  X(init, cuInit, (uint32_t flags))                                            \
  X(driverGetVersion, cuDriverGetVersion, (int *version))                      \
  X(getErrorName, cuGetErrorName, (Result result, const char **name))          \
  X(getErrorString, cuGetErrorString, (Result result, const char **text))      \
  X(deviceGetCount, cuDeviceGetCount, (int *count))                            \
  X(deviceGet, cuDeviceGet, (DeviceNumber * device, int ordinal))              \
  X(deviceGetName, cuDeviceGetName,                                            \
    (char *name, int size, DeviceNumber device))                               \
  X(deviceGetAttribute, cuDeviceGetAttribute,                                  \
    (int *value, DeviceAttribute attribute, DeviceNumber device))              \
  X(primaryContextRetain, cuDevicePrimaryCtxRetain,                            \
    (Context * context, DeviceNumber device))                                  \
  X(primaryContextRelease, cuDevicePrimaryCtxRelease_v2,                       \
    (DeviceNumber device))                                                     \
  X(contextSetCurrent, cuCtxSetCurrent, (Context context))                     \
  X(memGetInfo, cuMemGetInfo_v2, (size_t *free, size_t *total))                \
  X(memAlloc, cuMemAlloc_v2, (DevicePointer * pointer, size_t size))           \
  X(memFree, cuMemFree_v2, (DevicePointer pointer))                            \
  X(memHostAlloc, cuMemHostAlloc,                                              \
    (void **pointer, size_t size, uint32_t flags))                             \
  X(memFreeHost, cuMemFreeHost, (void *pointer))                               \
  X(memHostGetDevicePointer, cuMemHostGetDevicePointer_v2,                     \
    (DevicePointer * pointer, void *host, uint32_t flags))                     \
  X(memcpyHostToDevice, cuMemcpyHtoDAsync_v2,                                  \
    (DevicePointer to, const void *from, size_t size, Stream stream))          \
  X(memcpyDeviceToHost, cuMemcpyDtoHAsync_v2,                                  \
    (void *to, DevicePointer from, size_t size, Stream stream))                \
  X(memcpyDeviceToDevice, cuMemcpyDtoDAsync_v2,                                \
    (DevicePointer to, DevicePointer from, size_t size, Stream stream))        \
  X(memset, cuMemsetD8Async,                                                   \
    (DevicePointer to, unsigned char value, size_t size, Stream stream))       \
  X(streamCreate, cuStreamCreate, (Stream * stream, uint32_t flags))           \
  X(streamDestroy, cuStreamDestroy_v2, (Stream stream))                        \
  X(streamSynchronize, cuStreamSynchronize, (Stream stream))                   \
  X(streamQuery, cuStreamQuery, (Stream stream))                               \
  X(eventCreate, cuEventCreate, (Event * event, uint32_t flags))               \
  X(eventDestroy, cuEventDestroy_v2, (Event event))                            \
  X(eventRecord, cuEventRecord, (Event event, Stream stream))                  \
  X(eventSynchronize, cuEventSynchronize, (Event event))                       \
  X(eventElapsedTime, cuEventElapsedTime,                                      \
    (float *milliseconds, Event begin, Event end))                             \
  X(moduleLoadData, cuModuleLoadDataEx,                                        \
    (Module * module, const void *image, uint32_t optionCount,                 \
     JitOption *options, void **values))                                       \
  X(moduleUnload, cuModuleUnload, (Module module))                             \
  X(moduleGetFunction, cuModuleGetFunction,                                    \
    (Function * function, Module module, const char *name))                    \
  X(functionGetAttribute, cuFuncGetAttribute,                                  \
    (int *value, FunctionAttribute attribute, Function function))              \
  X(functionSetAttribute, cuFuncSetAttribute,                                  \
    (Function function, FunctionAttribute attribute, int value))               \
  X(graphCreate, cuGraphCreate, (Graph * graph, uint32_t flags))               \
  X(graphDestroy, cuGraphDestroy, (Graph graph))                               \
  X(graphAddKernelNode, cuGraphAddKernelNode,                                  \
    (GraphNode * node, Graph graph, const GraphNode *dependencies,             \
     size_t dependencyCount, const KernelNodeParams *params))                  \
  X(graphAddEventRecordNode, cuGraphAddEventRecordNode,                        \
    (GraphNode * node, Graph graph, const GraphNode *dependencies,             \
     size_t dependencyCount, Event event))                                     \
  X(graphInstantiate, cuGraphInstantiateWithFlags,                             \
    (GraphExec * exec, Graph graph, unsigned long long flags))                 \
  X(graphUpload, cuGraphUpload, (GraphExec exec, Stream stream))               \
  X(graphLaunch, cuGraphLaunch, (GraphExec exec, Stream stream))               \
  X(graphExecDestroy, cuGraphExecDestroy, (GraphExec exec))

/// Functions that only newer drivers have; null otherwise. Conditional nodes
/// and kinds of edges came with CUDA 12.3, the sizes of parameters with CUDA
/// 12.4.
#define TANDEM_CUDA_NEWER_FUNCTIONS(X)                                         \
  X(functionGetParamInfo, cuFuncGetParamInfo,                                  \
    (Function function, size_t index, size_t *offset, size_t *size))           \
  X(graphConditionalHandleCreate, cuGraphConditionalHandleCreate,              \
    (ConditionHandle * handle, Graph graph, Context context,                   \
     uint32_t defaultValue, uint32_t flags))                                   \
  X(graphAddNode, cuGraphAddNode,                                              \
    (GraphNode * node, Graph graph, const GraphNode *dependencies,             \
     size_t dependencyCount, GraphNodeParams *params))                         \
  X(graphAddDependencies, cuGraphAddDependencies_v2,                           \
    (Graph graph, const GraphNode *from, const GraphNode *to,                  \
     const GraphEdgeData *edges, size_t count))

class CudaApi {
public:
  /// Opens the driver and starts it. The library is `libcuda.so.1`, or the one
  /// that the environment variable TANDEM_LIBCUDA names, which is how tests
  /// put another in its place. Errors: there is no driver, it is older than
  /// CUDA 11.4, there is no device.
  static StatusOr<std::unique_ptr<CudaApi>> load();

#define TANDEM_CUDA_MEMBER(member, symbol, parameters)                         \
  Result(*member) parameters = nullptr;
  TANDEM_CUDA_FUNCTIONS(TANDEM_CUDA_MEMBER)
  TANDEM_CUDA_NEWER_FUNCTIONS(TANDEM_CUDA_MEMBER)
#undef TANDEM_CUDA_MEMBER

  /// Version of CUDA that the driver was made for: 12040 is CUDA 12.4.
  int driverVersion() const { return version; }

  /// Success, or a failure with the message "\p parts: what the driver says".
  /// The parts name the call and what it was for.
  template <typename... Parts>
  Status status(Result result, const Parts &...parts) const {
    if (result == Result::Success)
      return Status();
    return failed(result, concat(parts...));
  }

  /// "an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)".
  std::string describe(Result result) const;

private:
  CudaApi() = default;
  Status findFunctions(void *library);
  Status start();
  Status failed(Result result, std::string what) const;

  int version = 0;
};

} // namespace tandem::cuda

#endif // TANDEM_RUNTIME_CUDA_CUDAAPI_H
