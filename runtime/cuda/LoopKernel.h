//===- LoopKernel.h - The kernel that ends a round --------------*- C++ -*-===//
//
// The last kernel of a round that the device runs by itself. It tells the host
// which tokens the round decided, and decides whether there is another round.
// The host and the kernel agree on the structures below; no artefact knows of
// them, so the kernel lies here, as PTX that every driver compiles.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CUDA_LOOPKERNEL_H
#define TANDEM_RUNTIME_CUDA_LOOPKERNEL_H

#include <cstdint>
#include <string_view>

namespace tandem::cuda {

/// What the kernel needs to know and keeps, in the memory of the device. The
/// stop tokens, u32 each, follow.
struct LoopControl {
  /// Rounds so far, and tokens that they decided.
  uint32_t rounds;
  uint32_t tokens;
  /// The round that reaches so many tokens is the last.
  uint32_t budget;
  /// Tokens from here on are none, and end the rounds.
  uint32_t vocabulary;
  /// Most tokens of a round.
  uint32_t block;
  uint32_t stopTokens;
};

/// Where host and device meet, in pinned memory.
struct LoopMailbox {
  /// Rounds (low half) and tokens (high half) that the host may read.
  uint64_t progress;
  /// Not 0: the host wants no more rounds.
  uint32_t stop;
};

/// The kernel `tandem_round_end`, one block of 32 threads. Parameters, all of
/// 8 bytes: the addresses of the accepted count and of the tokens (ports), of
/// the LoopControl, of the LoopMailbox, of the counts that rounds had (u32
/// each, in pinned memory) and of their tokens (the same), and the handle of
/// the condition.
std::string_view loopKernelPtx();
inline constexpr char loopKernelName[] = "tandem_round_end";
inline constexpr uint32_t loopKernelThreads = 32;

} // namespace tandem::cuda

#endif // TANDEM_RUNTIME_CUDA_LOOPKERNEL_H
