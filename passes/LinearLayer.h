//===- LinearLayer.h - One view of all linear layers ------------*- C++ -*-===//
//
// lm.linear, lm.quant_linear and lm.fused_linear are the same thing to a
// fusion: an input, weights, and what stands around them.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_LINEARLAYER_H
#define TANDEM_PASSES_LINEARLAYER_H

#include "dialects/lm/LmOps.h"

#include "mlir/IR/PatternMatch.h"

namespace tandem {

/// The operands and attributes of a lm.fused_linear; see there.
struct LinearLayer {
  mlir::Value input;
  llvm::SmallVector<mlir::Value> weights;
  llvm::SmallVector<mlir::Value> scales;
  mlir::Value normWeight;
  mlir::Value residual;
  lm::GroupedAttr quantization;
  lm::NormAttr norm;
  bool gated = false;

  /// The layer that `op` is, if it is one.
  static std::optional<LinearLayer> match(mlir::Operation *op);

  /// Whether the weights of both are kept in the same format.
  bool hasFormatOf(const LinearLayer &other) const;

  /// Adds the weights of `other`, which has the same input and format.
  void append(const LinearLayer &other);

  /// Creates the op, whose results have `types`.
  lm::FusedLinearOp create(mlir::OpBuilder &builder, mlir::Location loc,
                           mlir::TypeRange types) const;

  /// Moves what defines the weights before `op`, so that a layer can be created
  /// there. Fails when they are not tensors of a checkpoint.
  mlir::LogicalResult moveWeightsBefore(mlir::Operation *op,
                                        mlir::RewriterBase &rewriter) const;
};

} // namespace tandem

#endif // TANDEM_PASSES_LINEARLAYER_H
