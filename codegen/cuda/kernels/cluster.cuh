//===- cluster.cuh - Blocks that reach each other's shared memory ---------===//
//
// Blocks of a cluster (sm_90) run at the same time and may write to each
// other's shared memory. A place there is named by a block's own place, which
// lies alike in all of them, and the rank of the other block:
//
//   rank 0   [barriers | .. | slot | ..]     block.rank 1's place of `slot`:
//   rank 1   [barriers | .. | slot | ..]     placeInBlock(slot, 1)
//
// What is sent counts its bytes at a barrier beside it (mma.cuh), so whoever
// waits there has the numbers; nothing else says that they have come. A block
// must not end before all that is sent to it is there.
//
// Needs blocks of a kernel with __cluster_dims__. Used by few_tokens.cuh,
// few_slices.cuh and medium_clusters.cuh.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "mma.cuh"

namespace tandem {

/// Comes to the barrier of all threads of a cluster, by whole warps, once
/// before each waitForCluster(): whoever has waited sees what this thread has
/// written, and may write to where it has read.
__device__ inline void comeToCluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

/// The same where nothing needs to be there for other blocks but barriers that
/// showBarriers() has made known: comeToCluster() waits for all the copies that
/// the thread has started.
__device__ inline void comeWithBarriers() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

/// Waits until all threads have come.
__device__ inline void waitForCluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/// Where block \p rank of the cluster has what this one has at \p own.
__device__ inline u32 placeInBlock(const void *own, i32 rank) {
  u32 result = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(result)
               : "r"(sharedAddress(own)), "r"(rank));
#endif
  return result;
}

/// Sends numbers to \p place, aligned to as many bytes as they have, for \p
/// barrier of the same block.
__device__ inline void send(u32 place, f32 number, u32 barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 "
               "[%0], %1, [%2];" ::"r"(place),
               "f"(number), "r"(barrier)
               : "memory");
#endif
}
__device__ inline void send(u32 place, const f32 (&numbers)[4], u32 barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 "
               "[%0], {%1, %2, %3, %4}, [%5];" ::"r"(place),
               "f"(numbers[0]), "f"(numbers[1]), "f"(numbers[2]),
               "f"(numbers[3]), "r"(barrier)
               : "memory");
#endif
}

} // namespace tandem
