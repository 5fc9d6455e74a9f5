//===- PlanDialect.h - The plan dialect and its attributes ------*- C++ -*-===//
//
// What the machine does: memory, kernels and launches. See PlanDialect.td for
// the language and dialects/plan/README.md for the reasons behind it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECTS_PLAN_PLANDIALECT_H
#define TANDEM_DIALECTS_PLAN_PLANDIALECT_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"

#include "dialects/plan/PlanDialect.h.inc"
#include "dialects/plan/PlanEnums.h.inc"

#include "dialects/plan/PlanInterfaces.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/plan/PlanAttrs.h.inc"

#endif // TANDEM_DIALECTS_PLAN_PLANDIALECT_H
