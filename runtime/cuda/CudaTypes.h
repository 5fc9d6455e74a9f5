//===- CudaTypes.h - Types of the CUDA driver -------------------*- C++ -*-===//
//
// The few types and numbers of the driver's binary interface that the runtime
// uses, so that it is built without a CUDA toolkit. The numbers are NVIDIA's
// and never change; test/runtime/CudaTypesTest.cpp compares them with the
// toolkit's header where there is one.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_CUDATYPES_H
#define TANDEM_RUNTIME_CUDA_CUDATYPES_H

#include <cstddef>
#include <cstdint>

namespace tandem::cuda {

/// What every call returns (CUresult); the ones that are told apart.
enum class Result : int32_t {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  StubLibrary = 34,
  NoDevice = 100,
  InvalidImage = 200,
  NoBinaryForGpu = 209,
  InvalidPtx = 218,
  UnsupportedPtxVersion = 222,
  NotFound = 500,
  NotReady = 600,
  IllegalAddress = 700,
  SystemDriverMismatch = 803,
};

/// An address in the memory of a device (CUdeviceptr).
using DevicePointer = uint64_t;
/// Number of a device (CUdevice).
using DeviceNumber = int32_t;
/// What the condition of a conditional node is called by (CUgraphConditional-
/// Handle).
using ConditionHandle = uint64_t;

/// Objects of the driver, only ever seen through pointers.
using Context = struct ContextObject *;
using Module = struct ModuleObject *;
using Function = struct FunctionObject *;
using Stream = struct StreamObject *;
using Event = struct EventObject *;
using Graph = struct GraphObject *;
using GraphNode = struct GraphNodeObject *;
using GraphExec = struct GraphExecObject *;

/// CUdevice_attribute.
enum class DeviceAttribute : int32_t {
  MultiprocessorCount = 16,
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76,
  /// Most shared memory a block can have when its kernel asks for it, bytes.
  MaxSharedMemoryPerBlockOptIn = 97,
};

/// CUfunction_attribute.
enum class FunctionAttribute : int32_t {
  /// What the compiled kernel can be launched with.
  MaxThreadsPerBlock = 0,
  /// Shared memory that the kernel declares itself, bytes.
  SharedSizeBytes = 1,
  /// Can be set: beyond 48 KiB it has to be.
  MaxDynamicSharedSizeBytes = 8,
  /// Can be set: how much of what caches and shared memory have in common is
  /// to be shared memory, percent.
  PreferredSharedMemoryCarveout = 9,
};

/// CUjit_option.
enum class JitOption : int32_t {
  ErrorLogBuffer = 5,
  ErrorLogBufferSizeBytes = 6,
};

/// Flag of streamCreate: does not wait for the default stream.
inline constexpr uint32_t streamNonBlocking = 1;
/// Flag of eventCreate: the event only orders, and costs less.
inline constexpr uint32_t eventDisableTiming = 2;
/// Flag of memHostAlloc: the device can use the memory.
inline constexpr uint32_t memHostAllocDeviceMap = 2;
/// Flag of graphConditionalHandleCreate: every launch of the graph begins with
/// the default value.
inline constexpr uint32_t graphConditionAssignDefault = 1;

/// CUDA_KERNEL_NODE_PARAMS as graphAddKernelNode takes it.
struct KernelNodeParams {
  Function function;
  uint32_t gridX, gridY, gridZ;
  uint32_t blockX, blockY, blockZ;
  /// Dynamic shared memory, bytes.
  uint32_t sharedBytes;
  /// For every parameter of the kernel the address of its value; copied.
  void **parameters;
  void **extra;
};

/// CUDA_CONDITIONAL_NODE_PARAMS.
struct ConditionalNodeParams {
  ConditionHandle handle;
  /// 1: the body runs while the condition is not 0.
  int32_t type;
  /// Number of bodies.
  uint32_t size;
  /// Set by the driver: the empty bodies, to be filled.
  Graph *bodies;
  Context context;
};
inline constexpr int32_t conditionalWhile = 1;

/// CUgraphNodeParams, for conditional nodes only. All that is not set is zero.
struct GraphNodeParams {
  int32_t type;
  int32_t reserved[3];
  union {
    int64_t padding[29];
    ConditionalNodeParams conditional;
  };
  int64_t reservedEnd;
};
inline constexpr int32_t graphNodeConditional = 13;

/// CUgraphEdgeData. All zero: the node behind begins when the one in front has
/// ended.
struct GraphEdgeData {
  uint8_t fromPort;
  uint8_t toPort;
  uint8_t type;
  uint8_t reserved[5];
};
/// Of an edge between kernels: the one behind may begin when all blocks of the
/// one in front have allowed it, and waits for its end itself.
inline constexpr uint8_t graphPortProgrammatic = 1;
inline constexpr uint8_t graphEdgeProgrammatic = 1;

} // namespace tandem::cuda

#endif // TANDEM_RUNTIME_CUDA_CUDATYPES_H
