//===- CudaTypesTest.cpp - Our declarations against NVIDIA's --------------===//
//
// Compares the sizes, offsets and numbers of CudaTypes.h with the toolkit's
// header. Compiled where there is one; the runtime itself needs none.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/CudaApi.h"

#include <gtest/gtest.h>

#if __has_include(TANDEM_CUDA_HEADER)
#include TANDEM_CUDA_HEADER

using namespace tandem::cuda;

#define SAME_NUMBER(ours, theirs)                                              \
  static_assert(static_cast<long long>(ours) == static_cast<long long>(theirs))
#define SAME_PLACE(ours, member, theirs, theirMember)                          \
  static_assert(offsetof(ours, member) == offsetof(theirs, theirMember))

SAME_NUMBER(Result::InvalidValue, CUDA_ERROR_INVALID_VALUE);
SAME_NUMBER(Result::OutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
SAME_NUMBER(Result::NoDevice, CUDA_ERROR_NO_DEVICE);
SAME_NUMBER(Result::NoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME_NUMBER(Result::InvalidPtx, CUDA_ERROR_INVALID_PTX);
SAME_NUMBER(Result::UnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME_NUMBER(Result::NotFound, CUDA_ERROR_NOT_FOUND);
SAME_NUMBER(Result::NotReady, CUDA_ERROR_NOT_READY);
SAME_NUMBER(Result::IllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME_NUMBER(DeviceAttribute::ComputeCapabilityMajor,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_NUMBER(DeviceAttribute::ComputeCapabilityMinor,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_NUMBER(DeviceAttribute::MaxSharedMemoryPerBlockOptIn,
            CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME_NUMBER(FunctionAttribute::MaxThreadsPerBlock,
            CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME_NUMBER(FunctionAttribute::SharedSizeBytes,
            CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME_NUMBER(FunctionAttribute::MaxDynamicSharedSizeBytes,
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME_NUMBER(FunctionAttribute::PreferredSharedMemoryCarveout,
            CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
SAME_NUMBER(JitOption::ErrorLogBuffer, CU_JIT_ERROR_LOG_BUFFER);
SAME_NUMBER(JitOption::ErrorLogBufferSizeBytes,
            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME_NUMBER(streamNonBlocking, CU_STREAM_NON_BLOCKING);
SAME_NUMBER(eventDisableTiming, CU_EVENT_DISABLE_TIMING);
SAME_NUMBER(memHostAllocDeviceMap, CU_MEMHOSTALLOC_DEVICEMAP);
SAME_NUMBER(graphConditionAssignDefault, CU_GRAPH_COND_ASSIGN_DEFAULT);
SAME_NUMBER(graphNodeConditional, CU_GRAPH_NODE_TYPE_CONDITIONAL);
SAME_NUMBER(conditionalWhile, CU_GRAPH_COND_TYPE_WHILE);
SAME_NUMBER(graphPortProgrammatic, CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC);
SAME_NUMBER(graphEdgeProgrammatic, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);

static_assert(sizeof(DevicePointer) == sizeof(CUdeviceptr));
static_assert(sizeof(DeviceNumber) == sizeof(CUdevice));
static_assert(sizeof(ConditionHandle) == sizeof(CUgraphConditionalHandle));

static_assert(sizeof(KernelNodeParams) == sizeof(CUDA_KERNEL_NODE_PARAMS_v1));
SAME_PLACE(KernelNodeParams, blockX, CUDA_KERNEL_NODE_PARAMS_v1, blockDimX);
SAME_PLACE(KernelNodeParams, sharedBytes, CUDA_KERNEL_NODE_PARAMS_v1,
           sharedMemBytes);
SAME_PLACE(KernelNodeParams, parameters, CUDA_KERNEL_NODE_PARAMS_v1,
           kernelParams);
SAME_PLACE(KernelNodeParams, extra, CUDA_KERNEL_NODE_PARAMS_v1, extra);

static_assert(sizeof(GraphNodeParams) == sizeof(CUgraphNodeParams));
SAME_PLACE(GraphNodeParams, conditional, CUgraphNodeParams, conditional);
SAME_PLACE(GraphNodeParams, reservedEnd, CUgraphNodeParams, reserved2);
SAME_PLACE(ConditionalNodeParams, type, CUDA_CONDITIONAL_NODE_PARAMS, type);
SAME_PLACE(ConditionalNodeParams, size, CUDA_CONDITIONAL_NODE_PARAMS, size);
SAME_PLACE(ConditionalNodeParams, bodies, CUDA_CONDITIONAL_NODE_PARAMS,
           phGraph_out);
SAME_PLACE(ConditionalNodeParams, context, CUDA_CONDITIONAL_NODE_PARAMS, ctx);

static_assert(sizeof(GraphEdgeData) == sizeof(CUgraphEdgeData));
SAME_PLACE(GraphEdgeData, toPort, CUgraphEdgeData, to_port);
SAME_PLACE(GraphEdgeData, type, CUgraphEdgeData, type);

TEST(CudaTypes, AreThoseOfTheToolkit) { EXPECT_GE(CUDA_VERSION, 12040); }
#else
TEST(CudaTypes, AreThoseOfTheToolkit) {
  GTEST_SKIP() << "there is no CUDA toolkit";
}
#endif
