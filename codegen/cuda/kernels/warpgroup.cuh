//===- warpgroup.cuh - Products of four warps -----------------------------===//
//
// On sm_90a four warps multiply A, 64 x 16 numbers in their registers, by B in
// shared memory, and go on while the processor works. Each warp has 16 rows of
// A and of the sums, in the fragments that mma.cuh draws, sums[j] those of
// columns 8 j .. 8 j + 7. B's columns are rows of 128 bytes, 64 numbers of k:
// piece p of row r, 16 bytes, lies where p ^ (r % 8) would; eight rows are 1024
// bytes, which begin at a multiple of 1024.
//
// Used by wide_rows.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "mma.cuh"

namespace tandem {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
constexpr bool kHasWarpgroups = true;
#else
constexpr bool kHasWarpgroups = false;
#endif

/// What this thread has copied to shared memory becomes what products read.
__device__ inline void showToProducts() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/// Registers of A and of the sums are ready.
__device__ inline void beginProducts() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

__device__ inline void commitProducts() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

/// Waits until all but the last \p Pending commits are done.
template <i32 Pending> __device__ inline void waitForProducts() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
#endif
}

/// B that begins at \p rows.
__device__ inline u64 describeB(const void *rows) {
  // Addresses count 16 bytes: 1024 of them from eight rows to the next; the
  // places of pieces are exclusive ors.
  return u64(sharedAddress(rows) >> 4 & 0x3fff) | u64(1) << 16 |
         u64(1024 >> 4) << 32 | u64(1) << 62;
}
/// The same 16 numbers of k further on.
__device__ inline u64 nextStep(u64 description) { return description + 2; }

#define TANDEM_FOUR(j)                                                         \
  "+f"(sums[j][0]), "+f"(sums[j][1]), "+f"(sums[j][2]), "+f"(sums[j][3])

/// sums += a * b, for 64 columns.
__device__ inline void multiplyGroup(f32 (&sums)[8][4], const u32 (&a)[4],
                                     u64 b) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
      "%30, %31}, {%32, %33, %34, %35}, %36, adds, 1, 1, 0;\n}\n"
      : TANDEM_FOUR(0), TANDEM_FOUR(1), TANDEM_FOUR(2), TANDEM_FOUR(3),
        TANDEM_FOUR(4), TANDEM_FOUR(5), TANDEM_FOUR(6), TANDEM_FOUR(7)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
#endif
}

/// The same for 128 columns.
__device__ inline void multiplyGroup(f32 (&sums)[16][4], const u32 (&a)[4],
                                     u64 b) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
      "%30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, "
      "%44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, "
      "%58, %59, %60, %61, %62, %63}, {%64, %65, %66, %67}, %68, adds, 1, 1, "
      "0;\n}\n"
      : TANDEM_FOUR(0), TANDEM_FOUR(1), TANDEM_FOUR(2), TANDEM_FOUR(3),
        TANDEM_FOUR(4), TANDEM_FOUR(5), TANDEM_FOUR(6), TANDEM_FOUR(7),
        TANDEM_FOUR(8), TANDEM_FOUR(9), TANDEM_FOUR(10), TANDEM_FOUR(11),
        TANDEM_FOUR(12), TANDEM_FOUR(13), TANDEM_FOUR(14), TANDEM_FOUR(15)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
#endif
}

#undef TANDEM_FOUR

} // namespace tandem
