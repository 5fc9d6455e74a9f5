//===- LmVerify.h - What the verifiers of lm share --------------*- C++ -*-===//

#ifndef TANDEM_DIALECTS_LM_LMVERIFY_H
#define TANDEM_DIALECTS_LM_LMVERIFY_H

#include "dialects/lm/LmDialect.h"

#include "mlir/IR/Operation.h"

namespace tandem::lm {

inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

/// Size of the first dimension.
inline int64_t rows(mlir::Value value) {
  return tensorType(value).getDimSize(0);
}

/// Size of the second dimension of a matrix.
inline int64_t columns(mlir::Value value) {
  return tensorType(value).getDimSize(1);
}

/// Checks that `codes` and `scales` describe rows of `columnCount` values: the
/// group divides them, and words and scales are as many as they need.
mlir::LogicalResult verifyCodes(mlir::Operation *op, mlir::Value codes,
                                mlir::Value scales, GroupedAttr quantization,
                                int64_t columnCount);

/// Checks that `input` has at most `pending` rows unless they are committed at
/// once.
mlir::LogicalResult verifyPending(mlir::Operation *op, bool commit,
                                  mlir::Value input, int64_t pending);

/// Checks the weight and the input of a convolution against its cache.
mlir::LogicalResult verifyConv(mlir::Operation *op, mlir::Value input,
                               mlir::Value weight, ConvCacheType cache);

/// Checks that `vector` has one dimension of `length`.
inline bool isVector(mlir::Value vector, int64_t length) {
  return tensorType(vector).getShape() == llvm::ArrayRef<int64_t>{length};
}

} // namespace tandem::lm

#endif // TANDEM_DIALECTS_LM_LMVERIFY_H
