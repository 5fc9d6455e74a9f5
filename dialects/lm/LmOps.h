//===- LmOps.h - Operations of the lm dialect -------------------*- C++ -*-===//
//
// The generated op classes. Their documentation is in LmTensorOps.td,
// LmStateOps.td and LmDecodingOps.td.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_DIALECTS_LM_LMOPS_H
#define TANDEM_DIALECTS_LM_LMOPS_H

#include "dialects/lm/LmDialect.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#define GET_OP_CLASSES
#include "dialects/lm/LmOps.h.inc"

#endif // TANDEM_DIALECTS_LM_LMOPS_H
