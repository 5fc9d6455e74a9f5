//===- LinearLayer.cpp - One view of all linear layers --------------------===//

#include "passes/LinearLayer.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tandem;

std::optional<LinearLayer> LinearLayer::match(Operation *op) {
  if (!op)
    return std::nullopt;
  return llvm::TypeSwitch<Operation *, std::optional<LinearLayer>>(op)
      .Case([](lm::LinearOp linear) {
        LinearLayer layer;
        layer.input = linear.getInput();
        layer.weights = {linear.getWeight()};
        return layer;
      })
      .Case([](lm::QuantLinearOp linear) {
        LinearLayer layer;
        layer.input = linear.getInput();
        layer.weights = {linear.getCodes()};
        layer.scales = {linear.getScales()};
        layer.quantization = linear.getQuantization();
        return layer;
      })
      .Case([](lm::FusedLinearOp fused) {
        LinearLayer layer;
        layer.input = fused.getInput();
        layer.weights = llvm::to_vector(fused.getWeights());
        layer.scales = llvm::to_vector(fused.getScales());
        layer.normWeight = fused.getNormWeight();
        layer.residual = fused.getResidual();
        layer.quantization = fused.getQuantizationAttr();
        layer.norm = fused.getNormAttr();
        layer.gated = fused.getGated();
        return layer;
      })
      .Default([](Operation *) { return std::nullopt; });
}

static Type elementOf(ArrayRef<Value> tensors) {
  return tensors.empty()
             ? Type()
             : cast<RankedTensorType>(tensors[0].getType()).getElementType();
}

bool LinearLayer::hasFormatOf(const LinearLayer &other) const {
  return quantization == other.quantization &&
         elementOf(weights) == elementOf(other.weights) &&
         elementOf(scales) == elementOf(other.scales);
}

void LinearLayer::append(const LinearLayer &other) {
  llvm::append_range(weights, other.weights);
  llvm::append_range(scales, other.scales);
}

lm::FusedLinearOp LinearLayer::create(OpBuilder &builder, Location loc,
                                      TypeRange types) const {
  return lm::FusedLinearOp::create(builder, loc, types, input, weights, scales,
                                   normWeight, residual, quantization, norm,
                                   gated);
}

LogicalResult LinearLayer::moveWeightsBefore(Operation *op,
                                             RewriterBase &rewriter) const {
  // In an order in which operands stand before those who use them.
  SmallVector<Operation *> sources;
  auto add = [&](Value tensor) {
    if (isa<BlockArgument>(tensor))
      return true;
    sources.push_back(tensor.getDefiningOp());
    return isa<lm::WeightOp>(sources.back());
  };
  for (Value tensor : llvm::concat<const Value>(weights, scales)) {
    auto repack = tensor.getDefiningOp<lm::RepackOp>();
    if (!repack) {
      if (!add(tensor))
        return failure();
      continue;
    }
    if (!llvm::all_of(repack->getOperands(), add))
      return failure();
    if (!llvm::is_contained(sources, repack.getOperation()))
      sources.push_back(repack);
  }
  for (Operation *source : sources)
    if (source->getBlock() == op->getBlock() && op->isBeforeInBlock(source))
      rewriter.moveOpBefore(source, op);
  return success();
}
