//===- common.cuh - What all kernels are written with ---------------------===//
//
// Every kernel gets the addresses of its operands in order, the address of the
// live rows or null, the rows, and the address of its scratch:
//
//   kernel(input..., output..., const i32 *live, i32 rows, void *scratch)
//
// Tensors are rows of `columns` numbers without gaps:
//
//   x   row 0: [x(0,0) x(0,1) .. x(0,columns-1)]  row 1: [x(1,0) ..]  ...
//
// Rows from the live ones on are neither computed nor written. What a row
// becomes depends on that row alone: sums run in an order that is fixed by
// shape and position, and no two floats are added atomically.
//
// Compiled with -fmad=false: a multiplication and an addition are one
// instruction where fma() says so and nowhere else, so the same line of code
// gives the same bits in every kernel that it becomes part of.
//
// Needs no header. Used by all other files.
//
//===----------------------------------------------------------------------===//

#pragma once

namespace tandem {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;
using f32 = float;

/// Bit patterns; numbers are computed in f32.
struct bf16 {
  u16 bits;
};
struct f16 {
  u16 bits;
};

constexpr i32 kWarp = 32;

template <typename T> constexpr bool kIsBf16 = false;
template <> constexpr bool kIsBf16<bf16> = true;

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

__device__ inline f32 toFloat(f32 x) { return x; }
__device__ inline f32 toFloat(bf16 x) {
  return __uint_as_float(u32(x.bits) << 16);
}
__device__ inline f32 toFloat(f16 x) {
  f32 result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
}

/// The nearest T, the even one of two.
template <typename T> __device__ T fromFloat(f32 x);
template <> __device__ inline f32 fromFloat<f32>(f32 x) { return x; }
template <> __device__ inline bf16 fromFloat<bf16>(f32 x) {
  // Two at a time are converted much faster than one.
  u32 result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(0.0f), "f"(x));
  return {u16(result)};
}

/// Two bf16 in a register, \p low in the lower half.
__device__ inline u32 packBf16(f32 low, f32 high) {
  u32 result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

/// A pair of bf16 times another, rounded; exact where one is a power of two.
__device__ inline u32 multiplyPair(u32 a, u32 b) {
  u32 result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;"
      : "=r"(result)
      : "r"(a), "r"(b), "r"(0x80008000u));
  return result;
}

/// a * b + c, rounded once.
__device__ inline f32 fma(f32 a, f32 b, f32 c) {
  f32 result;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(a), "f"(b), "f"(c));
  return result;
}

/// 2^x to two units in the last place; 0 for minus infinity.
__device__ inline f32 exp2Fast(f32 x) {
  f32 result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

__device__ inline f32 minusInfinity() { return __int_as_float(0xff800000); }

__device__ constexpr i32 ceilDiv(i32 a, i32 b) { return (a + b - 1) / b; }
__device__ constexpr i32 roundUp(i32 a, i32 b) { return ceilDiv(a, b) * b; }

/// One of two types.
template <bool IsFirst, typename First, typename Second> struct EitherOf {
  using Type = First;
};
template <typename First, typename Second>
struct EitherOf<false, First, Second> {
  using Type = Second;
};
template <bool IsFirst, typename First, typename Second>
using Either = typename EitherOf<IsFirst, First, Second>::Type;

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Rows that carry meaning.
__device__ inline i32 liveRows(const i32 *live, i32 rows) {
  return live ? min(max(*live, 0), rows) : rows;
}

/// Up to 16 bytes of numbers that are moved at once.
template <typename T, i32 Count> struct alignas(sizeof(T) * Count) Pack {
  T at[Count];
};

/// How many T are moved at once where rows have \p columns of them.
template <typename T> __device__ constexpr i32 packSize(i32 columns) {
  i32 count = 16 / sizeof(T);
  while (columns % count != 0)
    count /= 2;
  return count;
}

template <i32 Count, typename T>
__device__ Pack<T, Count> loadPack(const T *from) {
  return *reinterpret_cast<const Pack<T, Count> *>(from);
}
template <typename T, i32 Count>
__device__ void storePack(T *to, const Pack<T, Count> &pack) {
  *reinterpret_cast<Pack<T, Count> *>(to) = pack;
}

/// Asks for the line of memory at \p from to be brought to the cache that all
/// processors share.
__device__ inline void prefetchLine(const void *from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

/// What another block has written: past the cache of this processor.
__device__ inline f32 loadShared(const f32 *from) {
  f32 result;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(result) : "l"(from));
  return result;
}

/// Has the compiler give threads at least \p Count registers, where it is
/// compiled in behind a condition that never holds.
template <i32 Count> __device__ void needRegisters(u8 *memory) {
  volatile u32 *words = reinterpret_cast<volatile u32 *>(memory);
  u32 held[Count];
#pragma unroll
  for (i32 i = 0; i < Count; ++i)
    held[i] = words[i];
#pragma unroll
  for (i32 i = 0; i < Count; ++i)
    words[i] = held[i];
}

/// Says that the next kernel may begin, if its launch allows that.
__device__ inline void letNextKernelBegin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/// Returns when all that earlier kernels of the stream have written is there,
/// and lets the next one begin unless the caller will: so whoever begins finds
/// everything that stands in front of the kernel in front of it.
/// A launch may let this kernel begin before that; where it does not, and
/// before sm_90, there is nothing to wait for.
template <bool LetsNextBegin = true>
__device__ inline void waitForEarlierKernels() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  if constexpr (LetsNextBegin)
    letNextKernelBegin();
}

/// The same for two numbers side by side.
__device__ inline void loadShared(f32 (&numbers)[2], const f32 *from) {
  asm volatile("ld.global.cg.v2.f32 {%0, %1}, [%2];"
               : "=f"(numbers[0]), "=f"(numbers[1])
               : "l"(from));
}

__device__ inline void loadShared(f32 (&numbers)[4], const f32 *from) {
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(numbers[0]), "=f"(numbers[1]), "=f"(numbers[2]),
                 "=f"(numbers[3])
               : "l"(from));
}

/// Waits until \p Threads threads of the block, whole warps, have come to the
/// barrier with number \p Number.
template <i32 Number, i32 Threads> __device__ void meet() {
  asm volatile("bar.sync %0, %1;" ::"n"(Number), "n"(Threads) : "memory");
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// Sum over the lanes of a warp, the same in all of them: lane i and lane
/// i ^ 16, then i ^ 8 and so on.
template <i32 Lanes = kWarp> __device__ inline f32 sumLanes(f32 x) {
#pragma unroll
  for (i32 distance = Lanes / 2; distance > 0; distance /= 2)
    x += __shfl_xor_sync(~0u, x, distance);
  return x;
}

template <i32 Lanes = kWarp> __device__ inline f32 maxLanes(f32 x) {
#pragma unroll
  for (i32 distance = Lanes / 2; distance > 0; distance /= 2)
    x = fmaxf(x, __shfl_xor_sync(~0u, x, distance));
  return x;
}

/// Sum over a block of \p Threads threads, the same in all of them: over lanes,
/// then over warps in order. \p Threads is a multiple of a warp.
template <i32 Threads> __device__ f32 sumBlock(f32 x) {
  constexpr i32 warps = Threads / kWarp;
  x = sumLanes(x);
  if constexpr (warps > 1) {
    __shared__ f32 partial[warps];
    __syncthreads();
    if (threadIdx.x % kWarp == 0)
      partial[threadIdx.x / kWarp] = x;
    __syncthreads();
    x = partial[0];
#pragma unroll
    for (i32 warp = 1; warp < warps; ++warp)
      x += partial[warp];
  }
  return x;
}

//===----------------------------------------------------------------------===//
// Work of several blocks
//===----------------------------------------------------------------------===//

/// A counter that other blocks count on.
__device__ inline u32 loadTicket(const u32 *ticket) {
  u32 result;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
               : "=r"(result)
               : "l"(ticket)
               : "memory");
  return result;
}

/// A number that another block may read or write at the same time.
__device__ inline f32 loadRelaxed(const f32 *from) {
  f32 result;
  asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];"
               : "=f"(result)
               : "l"(from)
               : "memory");
  return result;
}
__device__ inline void storeRelaxed(f32 *to, f32 number) {
  asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(to), "f"(number)
               : "memory");
}
/// Counts one on it: whoever finds that number sees what all threads of the
/// block have written before they met.
__device__ inline void countTicket(u32 *ticket) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(ticket)
               : "memory");
}

/// Says in the last of \p blocks blocks to come here, and only there, that it
/// is the last; it then sees what all of them have written. \p ticket counts
/// them, is zero before, and zero again afterwards.
__device__ inline bool isLastBlock(u32 *ticket, u32 blocks) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    u32 before;
    // For all threads of the block, which have met.
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                 : "=r"(before)
                 : "l"(ticket)
                 : "memory");
    last = before == blocks - 1;
    if (last)
      *ticket = 0;
  }
  __syncthreads();
  return last;
}

} // namespace tandem
