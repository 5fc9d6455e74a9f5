//===- PlanOps.h - Operations of the plan dialect ---------------*- C++ -*-===//
//
// The generated op classes. Their documentation is in PlanOps.td.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECTS_PLAN_PLANOPS_H
#define TANDEM_DIALECTS_PLAN_PLANOPS_H

#include "dialects/plan/PlanDialect.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#define GET_OP_CLASSES
#include "dialects/plan/PlanOps.h.inc"

#endif // TANDEM_DIALECTS_PLAN_PLANOPS_H
