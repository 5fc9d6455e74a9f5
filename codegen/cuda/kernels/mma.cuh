//===- mma.cuh - Tensor cores and asynchronous copies ---------------------===//
//
// One instruction multiplies 16 x 16 numbers A by 16 x 8 numbers B and adds
// them to 16 x 8 numbers C in f32. Lane l, with g = l / 4 and t = l % 4, holds
//
//        A (row, k)                  B (k, column)       C (row, column)
//        2t,2t+1   2t+8,2t+9
//   g    a[0]      a[2]              b[0]: k 2t,2t+1     c[0] c[1]: row g
//   g+8  a[1]      a[3]              b[1]: k 2t+8,2t+9   c[2] c[3]: row g+8
//                                    of column g         of columns 2t,2t+1
//
// A column of C depends on its column of B alone, so a token's bits are the
// same in every column and whatever stands beside it.
//
// Used by linear, quant_linear and attention.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "common.cuh"

namespace tandem {

/// c += a * b in bf16 with sums in f32.
__device__ inline void multiply(f32 (&c)[4], const u32 (&a)[4], u32 b0,
                                u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// c = a * b.
__device__ inline void multiplyFirst(f32 (&c)[4], const u32 (&a)[4], u32 b0,
                                     u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%10, %10, %10, %10};"
               : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1),
                 "f"(0.0f));
}

/// An 8 x 8 matrix of 16-bit numbers transposed: lane l has two numbers of its
/// row l / 4 before, columns 2 (l % 4) .., and of its column l / 4 afterwards.
__device__ inline u32 transposed(u32 pair) {
  u32 result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
               : "=r"(result)
               : "r"(pair));
  return result;
}

__device__ inline u32 sharedAddress(const void *pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

/// Four 8 x 8 matrices of 16-bit numbers from shared memory. Lane l gives the
/// address of row l % 8 of matrix l / 8, 16 bytes; register i holds of matrix i
/// what B's drawing says of one half.
__device__ inline void loadMatrices(u32 (&registers)[4], const void *row) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]),
        "=r"(registers[3])
      : "r"(sharedAddress(row)));
}

/// The same, each matrix transposed.
__device__ inline void loadTransposed(u32 (&registers)[4], const void *row) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]),
        "=r"(registers[3])
      : "r"(sharedAddress(row)));
}

//===----------------------------------------------------------------------===//
// Tiles of bf16 in shared memory: rows of `stride` numbers, 16-byte aligned.
// A stride of 8 more than a multiple of 16 keeps rows out of each other's
// banks.
//===----------------------------------------------------------------------===//

/// A of rows 0..15 and columns k..k+15 of \p tile.
__device__ inline void loadA(u32 (&a)[4], const bf16 *tile, i32 stride, i32 k) {
  i32 lane = threadIdx.x % kWarp;
  i32 row = lane % 16, column = k + lane / 16 * 8;
  loadMatrices(a, tile + row * stride + column);
}

/// B of tile rows 0..7 in b[0], b[1] and of rows 8..15 in b[2], b[3]: row n of
/// the tile is column n of B, its columns k..k+15 are B's k.
__device__ inline void loadB(u32 (&b)[4], const bf16 *tile, i32 stride, i32 k) {
  i32 lane = threadIdx.x % kWarp;
  i32 row = lane % 8 + lane / 16 * 8, column = k + lane / 8 % 2 * 8;
  loadMatrices(b, tile + row * stride + column);
}

/// B of tile columns n..n+7 in b[0], b[1] and of n+8..n+15 in b[2], b[3]: the
/// tile's rows 0..15 are B's k.
__device__ inline void loadBTransposed(u32 (&b)[4], const bf16 *tile,
                                       i32 stride, i32 n) {
  i32 lane = threadIdx.x % kWarp;
  i32 row = lane % 16, column = n + lane / 16 * 8;
  loadTransposed(b, tile + row * stride + column);
}

//===----------------------------------------------------------------------===//
// Asynchronous copies to shared memory
//===----------------------------------------------------------------------===//

/// Copies 16 bytes, or writes zeros where \p exists is false (\p from is then
/// not read). Without a cache hint: with one, ptxas 13.0 encodes some copies
/// (a constant policy, a shared address that is the same in all lanes but for
/// an offset) as an instruction that GPUs call illegal.
__device__ inline void copyAsync(void *to, const void *from,
                                 bool exists = true) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(sharedAddress(to)),
      "l"(from), "r"(exists ? 16 : 0));
}

__device__ inline void commitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until all but the last \p Pending commits of this thread are there.
template <i32 Pending> __device__ inline void waitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

/// Whether stretches of memory are copied as a whole, by a unit of the
/// processor that is made for it: sm_90.
#if __CUDA_ARCH__ >= 900
constexpr bool kCopiesStretches = true;
#else
constexpr bool kCopiesStretches = false;
#endif

/// Makes \p barrier, u64 in shared memory, one that is complete when \p count
/// threads have come by arrive() or copyStretch(), and what they copy is there.
__device__ inline void makeBarrier(u64 *barrier, u32 count = 1) {
  asm volatile(
      "mbarrier.init.shared.b64 [%0], %1;" ::"r"(sharedAddress(barrier)),
      "r"(count)
      : "memory");
}

/// Comes to \p barrier: whoever waits for it sees what this thread has written.
__device__ inline void arrive(u32 barrier) {
  asm volatile("{\n"
               ".reg .b64 state;\n"
               "mbarrier.arrive.shared.b64 state, [%0];\n"
               "}\n" ::"r"(barrier)
               : "memory");
}
__device__ inline void arrive(u64 *barrier) { arrive(sharedAddress(barrier)); }

/// Comes to \p barrier when the copies that this thread has started by
/// copyAsync() are there; it does not wait for them.
__device__ inline void arriveWithCopies(u64 *barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(
                   sharedAddress(barrier))
               : "memory");
}

/// Makes barriers known to copies, and to blocks of a cluster that meet
/// afterwards. By the thread that has made them.
__device__ inline void showBarriers() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

/// Comes to \p barrier and says how many bytes it has to wait for: of copies,
/// or of what other blocks send.
__device__ inline void expectStretches(u64 *barrier, u32 bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                   sharedAddress(barrier)),
               "r"(bytes)
               : "memory");
#endif
}

/// Starts a copy of \p bytes, a multiple of 16, that \p barrier waits for: it
/// has been told to expect them.
__device__ inline void startStretch(void *to, const void *from, u32 bytes,
                                    u64 *barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
               "bytes [%0], [%1], %2, [%3];" ::"r"(sharedAddress(to)),
               "l"(from), "r"(bytes), "r"(sharedAddress(barrier))
               : "memory");
#endif
}

/// The same, which tells the barrier. By one thread.
__device__ inline void copyStretch(void *to, const void *from, u32 bytes,
                                   u64 *barrier) {
  expectStretches(barrier, bytes);
  startStretch(to, from, bytes, barrier);
}

/// Whether waitForBarrier() would not wait; false may be wrong. Asked early,
/// the answer costs nothing.
__device__ inline bool isComplete(u32 barrier, u32 phase) {
  u32 result = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("{\n"
               ".reg .pred done;\n"
               "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
               "selp.u32 %0, 1, 0, done;\n"
               "}\n"
               : "=r"(result)
               : "r"(barrier), "r"(phase)
               : "memory");
#endif
  return result;
}

/// Waits until \p barrier is complete for the first, third .. time (\p phase 0)
/// or the second, fourth .. (1); phase 1 of a new barrier is behind it.
__device__ inline void waitForBarrier(u32 barrier, u32 phase) {
#if __CUDA_ARCH__ >= 900
  asm volatile("{\n"
               ".reg .pred done;\n"
               "again:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@!done bra again;\n"
               "}\n" ::"r"(barrier),
               "r"(phase)
               : "memory");
#else
  asm volatile("{\n"
               ".reg .pred done;\n"
               "again:\n"
               "mbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n"
               "@!done bra again;\n"
               "}\n" ::"r"(barrier),
               "r"(phase)
               : "memory");
#endif
}
__device__ inline void waitForBarrier(u64 *barrier, u32 phase) {
  waitForBarrier(sharedAddress(barrier), phase);
}

//===----------------------------------------------------------------------===//
// Shared memory by its addresses, which are kept in registers: what is made of
// pointers is computed again whenever it is used, and takes as long as products
// do.
//===----------------------------------------------------------------------===//

/// A number that the compiler has to keep. \p number is that of lane \p lane:
/// the thread's own, or one that all threads of a warp have.
__device__ inline u32 kept(u32 number, i32 lane) {
  return __shfl_sync(~0u, number, lane);
}

__device__ inline void loadAt(u32 (&words)[4], u32 place) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(place)
               : "memory");
}
__device__ inline void loadAt(u32 (&words)[2], u32 place) {
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
               : "=r"(words[0]), "=r"(words[1])
               : "r"(place)
               : "memory");
}
__device__ inline void loadAt(u32 (&words)[1], u32 place) {
  asm volatile("ld.shared.u32 %0, [%1];"
               : "=r"(words[0])
               : "r"(place)
               : "memory");
}
__device__ inline void storeAt(u32 place, const f32 (&numbers)[4]) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(place),
               "f"(numbers[0]), "f"(numbers[1]), "f"(numbers[2]),
               "f"(numbers[3])
               : "memory");
}

/// Copies \p Columns numbers of each of \p Rows rows to a tile with \p Stride,
/// by all \p Threads threads of a block. Row r begins at \p rowAddress(r),
/// which is null for rows of zeros; numbers from \p limit on are zeros too.
/// \p Aligned: rows begin at multiples of 16 bytes, limits are multiples of 8.
template <i32 Rows, i32 Columns, i32 Stride, i32 Threads, bool Aligned,
          typename RowAddress>
__device__ void copyTile(bf16 *tile, i32 limit, RowAddress rowAddress) {
  if constexpr (Aligned) {
    constexpr i32 perRow = Columns / 8;
#pragma unroll
    for (i32 first = 0; first < Rows * perRow; first += Threads) {
      i32 piece = first + threadIdx.x;
      if (Rows * perRow % Threads != 0 && piece >= Rows * perRow)
        break;
      i32 row = piece / perRow, column = piece % perRow * 8;
      const bf16 *from = rowAddress(row);
      bool exists = from && column < limit;
      copyAsync(tile + row * Stride + column, exists ? from + column : from,
                exists);
    }
  } else {
    for (i32 place = threadIdx.x; place < Rows * Columns; place += Threads) {
      i32 row = place / Columns, column = place % Columns;
      const bf16 *from = rowAddress(row);
      bf16 zero = {0};
      tile[row * Stride + column] =
          from && column < limit ? from[column] : zero;
    }
  }
}

} // namespace tandem
