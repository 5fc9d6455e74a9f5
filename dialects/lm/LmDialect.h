//===- LmDialect.h - The lm dialect, its attributes and types ---*- C++ -*-===//
//
// What a model computes, as pure tensor ops. See LmDialect.td for the language
// and dialects/lm/README.md for the reasons behind it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECTS_LM_LMDIALECT_H
#define TANDEM_DIALECTS_LM_LMDIALECT_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"

#include "dialects/lm/LmDialect.h.inc"
#include "dialects/lm/LmEnums.h.inc"

#include <array>

namespace tandem::lm {

/// The largest size of a dimension, and the largest number of elements: sums
/// and products of sizes never leave 64 bits.
inline constexpr int64_t kMaxSize = int64_t(1) << 24;
inline constexpr int64_t kMaxElements = int64_t(1) << 40;

/// Whether every size is between 1 and kMaxSize and their product at most
/// kMaxElements.
bool areSaneSizes(llvm::ArrayRef<int64_t> sizes);

} // namespace tandem::lm

#define GET_ATTRDEF_CLASSES
#include "dialects/lm/LmAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/lm/LmTypes.h.inc"

#endif // TANDEM_DIALECTS_LM_LMDIALECT_H
