//===- PlanDialect.h - The plan dialect and its attributes ------*- C++ -*-===//
//
// What the machine does: memory, kernels and launches. See PlanDialect.td for
// the language and dialects/plan/README.md for the reasons behind it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECTS_PLAN_PLANDIALECT_H
#define TANDEM_DIALECTS_PLAN_PLANDIALECT_H

#include "dialects/lm/LmDialect.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"

#include "dialects/plan/PlanDialect.h.inc"
#include "dialects/plan/PlanEnums.h.inc"

#include "dialects/plan/PlanInterfaces.h.inc"

namespace tandem::plan {

/// The largest offset, and the largest number of elements of a memory: their
/// sums and the bytes they stand for never leave 64 bits.
inline constexpr int64_t kMaxElements = int64_t(1) << 48;

/// Whether `type` has known, positive sizes, at most kMaxElements elements, and
/// lies row by row in the one memory there is.
bool isPlainMemory(mlir::MemRefType type);

/// Whether `arch`, as `--arch` has it, names a GPU and not a processor.
bool isGpu(llvm::StringRef arch);

/// Whether it is a GPU whose blocks can be clusters.
bool hasClusters(llvm::StringRef arch);

} // namespace tandem::plan

#define GET_ATTRDEF_CLASSES
#include "dialects/plan/PlanAttrs.h.inc"

#endif // TANDEM_DIALECTS_PLAN_PLANDIALECT_H
