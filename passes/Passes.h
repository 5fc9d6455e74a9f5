//===- Passes.h - Declarations of all passes --------------------*- C++ -*-===//
//
// Generated from Passes.td, which documents them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_PASSES_H
#define TANDEM_PASSES_PASSES_H

#include "mlir/Pass/Pass.h"

namespace tandem {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

} // namespace tandem

#endif // TANDEM_PASSES_PASSES_H
