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

#define GET_ATTRDEF_CLASSES
#include "dialects/lm/LmAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/lm/LmTypes.h.inc"

#endif // TANDEM_DIALECTS_LM_LMDIALECT_H
