//===- warpgroup.cuh - Products of four warps together --------------------===//
//
// On GPUs of compute capability 9.0 four warps multiply together (wgmma), twice
// as fast as each for itself: 64 x 16 numbers A, of which every warp has 16
// rows in its registers as mma.cuh draws them, by 16 x 64 numbers B, or of more
// tokens, which the tensor cores read from shared memory. Every warp gets C of
// its rows:
//
//             B (k, token), in shared memory      C: f32 [octet of tokens][4]
//   A warp 0  one row of 64 columns a token,      warp 0, rows of its own
//     warp 1  128 bytes, in 8 pieces of 16:       warp 1
//     warp 2  piece p of row r at p ^ (r % 8);    warp 2
//     warp 3  eight rows begin at 1024 n          warp 3
//
// Which rows of a weight the warps have is theirs to say. Products run beside
// what the warps do meanwhile; registers of A must stay what they are, and
// those of C must not be read, until they have ended.
//
// Instructions of that one architecture are not in PTX for later ones: where
// code is made for those, kWarpgroups is false.
//
// Floor: operations, 32 cycles of a multiprocessor for 64 tokens.
//
// Used by wide_rows.cuh and medium_clusters.cuh.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "mma.cuh"

namespace tandem {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
constexpr bool kWarpgroups = true;
#else
constexpr bool kWarpgroups = false;
#endif

/// What eight rows of B take, and begin at multiples of, in bytes.
constexpr i32 kGroupBytes = 1024;

/// The dynamic shared memory of a block at a multiple of that, as B wants it.
/// Its name is its own: of several declarations of one name, the first says how
/// it is aligned.
__device__ inline u8 *groupShared() {
  extern __shared__ __align__(kGroupBytes) u8 alignedShared[];
  return alignedShared;
}

/// Says what the tensor cores need to know of B at \p rows, whose first row is
/// a multiple of eight; kGroupStep is added for every 16 columns.
__device__ inline u64 groupRows(const void *rows) {
  // In units of 16 bytes: where it begins, and how far eight rows are from the
  // next; 1: pieces in the order of their rows.
  return u64(sharedAddress(rows) >> 4) | u64(kGroupBytes / 16) << 32 |
         u64(1) << 62;
}
constexpr u64 kGroupStep = 32 / 16;

/// What threads have copied to shared memory is there for the tensor cores: by
/// those who have copied it, before they meet those who multiply, or by these
/// behind that.
__device__ inline void showToGroup() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/// Before the first of several products: what A and C hold is there.
__device__ inline void beginProducts() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

/// Behind the last of them.
__device__ inline void endProducts() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

/// Waits for all products but those of the last \p Pending endProducts().
template <i32 Pending> __device__ void waitForProducts() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
#endif
}

#define OCTET(i) "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])
#define OCTETS(i)                                                              \
  OCTET(i), OCTET(i + 1), OCTET(i + 2), OCTET(i + 3), OCTET(i + 4),            \
      OCTET(i + 5), OCTET(i + 6), OCTET(i + 7)

/// Starts c += a * b for 64 tokens.
__device__ inline void multiplyGroup(f32 (&c)[8][4], const u32 (&a)[4], u64 b) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
               "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
               "%26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, 1, "
               "1, 1, 0;"
               : OCTETS(0)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#endif
}

/// The same for 128 tokens.
__device__ inline void multiplyGroup(f32 (&c)[16][4], const u32 (&a)[4],
                                     u64 b) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
               "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
               "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, "
               "%38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
               "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "
               "%62, %63}, {%64, %65, %66, %67}, %68, 1, 1, 1, 0;"
               : OCTETS(0), OCTETS(8)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#endif
}

/// The same for 160 tokens.
__device__ inline void multiplyGroup(f32 (&c)[20][4], const u32 (&a)[4],
                                     u64 b) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("wgmma.mma_async.sync.aligned.m64n160k16.f32.bf16.bf16 "
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
               "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
               "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, "
               "%35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "
               "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, "
               "%57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, "
               "%68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, "
               "%79}, {%80, %81, %82, %83}, "
               "%84, 1, 1, 1, 0;"
               : OCTETS(0), OCTETS(8), OCTET(16), OCTET(17), OCTET(18),
                 OCTET(19)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
#endif
}

#undef OCTETS
#undef OCTET

/// Weights of a warp in a stage, \p Tiles tiles that lie \p Stride bytes apart,
/// and A of two steps. `Stage` is that of wide_rows.cuh.
template <typename Stage, i32 Tiles, i32 Stride> struct GroupWeights {
  typename Stage::Held held[Tiles];
  u32 a[2][Tiles][4];

  /// Reads half \p half of the tiles from \p from on.
  __device__ void load(const u8 *from, i32 half) {
#pragma unroll
    for (i32 tile = 0; tile < Tiles; ++tile) {
      Stage::load(held[tile], from + tile * Stride);
      Stage::loadScales(held[tile], from + tile * Stride, half);
    }
  }

  /// Makes A of step \p step.
  __device__ void prepare(const u8 *from, i32 step, i32 half) {
#pragma unroll
    for (i32 tile = 0; tile < Tiles; ++tile) {
      const u8 *ofTile = from + tile * Stride;
      Stage::begin(held[tile], ofTile, step, half);
#pragma unroll
      for (i32 i = 0; i < 4; ++i)
        Stage::expand(a[step % 2][tile], held[tile], ofTile, step, i);
    }
  }

  /// Starts the products of step \p step, whose B is that of \p rows.
  template <i32 Octets>
  __device__ void multiply(f32 (&sums)[Tiles][Octets][4], u64 rows,
                           i32 step) const {
    beginProducts();
#pragma unroll
    for (i32 tile = 0; tile < Tiles; ++tile)
      multiplyGroup(sums[tile], a[step % 2][tile], rows + step * kGroupStep);
    endProducts();
  }
};

} // namespace tandem
