//===- Lifetimes.h - When the buffers of a program are alive ----*- C++ -*-===//

#ifndef TANDEM_PASSES_LIFETIMES_H
#define TANDEM_PASSES_LIFETIMES_H

#include "dialects/plan/PlanOps.h"

namespace tandem {

/// Alignment of everything in memory: a cache line and the widest vector.
inline constexpr int64_t kMemoryAlignment = 64;

/// Bytes of `memory`, a memref, rounded up to the alignment.
int64_t getAlignedBytes(mlir::Value memory);

/// A buffer and the launches of its program that use it.
struct BufferLifetime {
  plan::BufferOp op;
  int64_t bytes;
  /// Ordinals of the first and the last launch that use the buffer.
  int64_t first, last;

  int64_t offset() { return static_cast<int64_t>(*op.getOffset()); }
  /// Whether both are alive at some launch.
  bool meets(const BufferLifetime &other) const {
    return first <= other.last && other.first <= last;
  }
};

/// All buffers of `program` that are used, in order of appearance.
llvm::SmallVector<BufferLifetime> getLifetimes(plan::ProgramOp program);

} // namespace tandem

#endif // TANDEM_PASSES_LIFETIMES_H
