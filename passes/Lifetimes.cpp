//===- Lifetimes.cpp - When the buffers of a program are alive ------------===//

#include "passes/Lifetimes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;

int64_t tandem::getAlignedBytes(Value memory) {
  auto type = cast<MemRefType>(memory.getType());
  int64_t bytes = type.getNumElements() * (type.getElementTypeBitWidth() / 8);
  return static_cast<int64_t>(llvm::alignTo(bytes, kMemoryAlignment));
}

SmallVector<BufferLifetime> tandem::getLifetimes(plan::ProgramOp program) {
  llvm::MapVector<Value, BufferLifetime> lifetimes;
  int64_t ordinal = 0;
  for (auto launch : program.getBody().getOps<plan::LaunchOp>()) {
    for (Value operand : launch.getOperands()) {
      auto buffer = operand.getDefiningOp<plan::BufferOp>();
      if (!buffer)
        continue;
      auto [entry, isNew] = lifetimes.try_emplace(
          operand,
          BufferLifetime{buffer, getAlignedBytes(operand), ordinal, ordinal});
      entry->second.last = ordinal;
    }
    ++ordinal;
  }
  return llvm::map_to_vector(lifetimes,
                             [](auto &entry) { return entry.second; });
}
