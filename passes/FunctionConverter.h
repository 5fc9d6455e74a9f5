//===- FunctionConverter.h - One function on its way to plan ----*- C++ -*-===//
//
// Part of convert-lm-to-plan. The converter knows where every value lies; the
// functions below, one for each group of ops as in dialects/lm, turn an op into
// launches.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_FUNCTIONCONVERTER_H
#define TANDEM_PASSES_FUNCTIONCONVERTER_H

#include "dialects/lm/LmOps.h"
#include "dialects/plan/KernelFamilies.h"
#include "dialects/plan/PlanOps.h"
#include "passes/PlanBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tandem {

/// A launch to be made; see plan.launch.
struct Launch {
  plan::KernelFamily family;
  llvm::SmallVector<mlir::NamedAttribute> parameters = {};
  llvm::SmallVector<mlir::Value> inputs = {}, outputs = {};
  int64_t rows = 1;
  mlir::Value count = {};
  int64_t items = 1;
  bool perRow = false;
};

class FunctionConverter {
public:
  /// `positions` is the length of rope tables.
  FunctionConverter(mlir::func::FuncOp function, PlanBuilder &plan,
                    int64_t positions)
      : plan(plan), positions(positions), builder(function.getContext()),
        function(function) {}

  /// Replaces the function by a program.
  mlir::LogicalResult convert();

  /// Memory of `value`, which an op before has made.
  mlir::Value memory(mlir::Value value) { return memoryOf.lookup(value); }
  /// Memory for the result `value`: its port, or a new buffer.
  mlir::Value createMemory(mlir::Value value);
  /// A buffer that stands for no value.
  mlir::Value createBuffer(mlir::Location loc, llvm::ArrayRef<int64_t> shape,
                           mlir::Type element);
  /// Says that `value` lies where `other` does.
  void alias(mlir::Value value, mlir::Value other) {
    memoryOf[value] = memory(other);
  }
  /// Memory of the i32 that counts the live rows of `value`; null when all are.
  mlir::Value count(mlir::Value value) { return countOf.lookup(value); }
  void setCount(mlir::Value value, mlir::Value count) {
    countOf[value] = count;
  }
  /// The matrix `tensor`, packed for linear layers and look-ups.
  mlir::FailureOr<mlir::Value> denseWeight(mlir::Operation *user,
                                           mlir::Value tensor);
  /// Codes of `columns` values a row, and their scales, packed for linear
  /// layers.
  mlir::FailureOr<mlir::Value> codeWeight(mlir::Operation *user,
                                          mlir::Value codes, mlir::Value scales,
                                          lm::GroupedAttr quantization,
                                          int64_t columns);
  /// The weight `tensors`, which belong to one checkpoint, as `packing`.
  mlir::FailureOr<mlir::Value> weight(mlir::Operation *user,
                                      llvm::ArrayRef<mlir::Value> tensors,
                                      plan::PackingAttrInterface packing);
  /// The rope table of \p op.
  mlir::Value ropeTable(mlir::Operation *op, uint64_t dims,
                        const llvm::APFloat &theta);
  /// The cache operand that `op` updates: its memory, given to `result` too.
  mlir::FailureOr<mlir::Value>
  updateCache(mlir::Operation *op, mlir::Value cache, mlir::Value result);
  /// Emits `launch` for `op`. Results with the rows of the launch inherit its
  /// count. The types of activations are added to the parameters.
  void emit(mlir::Operation *op, Launch launch);

  mlir::NamedAttribute number(llvm::StringRef name, int64_t value) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
  }
  mlir::NamedAttribute real(llvm::StringRef name, const llvm::APFloat &value) {
    return builder.getNamedAttr(
        name, builder.getF32FloatAttr(value.convertToFloat()));
  }
  mlir::NamedAttribute type(llvm::StringRef name, mlir::Type value) {
    return builder.getNamedAttr(name, mlir::TypeAttr::get(value));
  }

  PlanBuilder &plan;
  const int64_t positions;
  mlir::OpBuilder builder;
  /// Memory of rows that layers share, normalized: by the rows, the
  /// weight and the norm.
  llvm::DenseMap<std::tuple<mlir::Value, mlir::Value, mlir::Attribute>,
                 mlir::Value>
      normalized;

private:
  mlir::LogicalResult
  convertArguments(llvm::SmallVectorImpl<mlir::Value> &inputs);
  mlir::LogicalResult placeResults(llvm::SmallVectorImpl<mlir::Value> &outputs);
  mlir::LogicalResult convertOp(mlir::Operation *op);
  mlir::LogicalResult convertReturn(mlir::func::ReturnOp op);
  mlir::LogicalResult checkTypes(mlir::Operation *op);
  void addTypes(Launch &launch);

  mlir::func::FuncOp function;
  llvm::DenseMap<mlir::Value, mlir::Value> memoryOf;
  llvm::DenseMap<mlir::Value, mlir::Value> countOf;
  /// Memory of the states that are arguments, by name.
  llvm::DenseMap<mlir::Attribute, mlir::Value> states;
  /// Ports that results are returned through.
  llvm::DenseMap<mlir::Value, mlir::Value> portOf;
};

/// What became of an op: nothing when it is of another group.
using ConversionResult = std::optional<mlir::LogicalResult>;

// ConvertTensorOps.cpp
ConversionResult convertTensorOp(FunctionConverter &c, mlir::Operation *op);
// ConvertStateOps.cpp
ConversionResult convertStateOp(FunctionConverter &c, mlir::Operation *op);
// ConvertDecodingOps.cpp
ConversionResult convertDecodingOp(FunctionConverter &c, mlir::Operation *op);
// ConvertFusedOps.cpp
ConversionResult convertFusedOp(FunctionConverter &c, mlir::Operation *op);

inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
inline int64_t rowsOf(mlir::Value value) {
  return tensorType(value).getDimSize(0);
}
inline int64_t columnsOf(mlir::Value value) {
  return tensorType(value).getDimSize(1);
}

/// Parameters of a kernel that reads codes.
llvm::SmallVector<mlir::NamedAttribute>
getCodeParameters(FunctionConverter &c, lm::GroupedAttr quantization,
                  mlir::Type scale);

} // namespace tandem

#endif // TANDEM_PASSES_FUNCTIONCONVERTER_H
