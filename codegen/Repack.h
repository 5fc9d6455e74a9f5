//===- Repack.h - Codes in the order that packings take ---------*- C++ -*-===//
//
// Checkpoints pack codes in several orders (`#lm.source` draws them). Before a
// weight is packed for the kernels it is brought into the one of
// `#lm.grouped`, in memory, a weight at a time. No value changes.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_REPACK_H
#define TANDEM_CODEGEN_REPACK_H

#include "dialects/lm/LmDialect.h"
#include "dialects/plan/PlanDialect.h"
#include "models/Safetensors.h"

namespace tandem::codegen {

/// Checks that \p sources (codes, scales, zero points) are those of a weight
/// for \p packing in the order \p source: their number, element types and
/// shapes. Errors name the file and the tensor, what it is and what was
/// expected.
llvm::Error checkRepack(lm::SourceAttr source,
                        plan::PackingAttrInterface packing,
                        llvm::ArrayRef<const models::TensorView *> sources);

/// The codes and scales of `#lm.grouped`.
class Repacked {
public:
  /// From \p sources, for which checkRepack() holds.
  Repacked(lm::SourceAttr source, plan::PackingAttrInterface packing,
           llvm::ArrayRef<const models::TensorView *> sources);
  Repacked(const Repacked &) = delete;

  models::TensorView codes, scales;

private:
  std::vector<uint8_t> codeBytes, scaleBytes;
};

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_REPACK_H
