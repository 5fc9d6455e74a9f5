//===- Layers.cpp - Builders that models share ----------------------------===//

#include "models/Layers.h"

using namespace llvm;
using namespace mlir;
using namespace tandem;
using namespace tandem::models;

//===----------------------------------------------------------------------===//
// Weights of layers
//===----------------------------------------------------------------------===//

MlpWeights tandem::models::readMlp(WeightReader &reader, const Twine &module,
                                   const TransformerConfig &config) {
  int64_t hidden = config.hiddenSize, inner = config.intermediateSize;
  MlpWeights weights;
  weights.module = module.str();
  weights.gate = reader.getLinear(module + ".gate_proj", inner, hidden);
  weights.up = reader.getLinear(module + ".up_proj", inner, hidden);
  weights.down = reader.getLinear(module + ".down_proj", hidden, inner);
  return weights;
}

AttentionWeights tandem::models::readAttention(WeightReader &reader,
                                               const Twine &module,
                                               const TransformerConfig &config,
                                               bool gated) {
  int64_t hidden = config.hiddenSize;
  int64_t queries = config.heads * config.headDim;
  int64_t keys = config.kvHeads * config.headDim;
  AttentionWeights weights;
  weights.module = module.str();
  weights.query = reader.getLinear(module + ".q_proj",
                                   gated ? 2 * queries : queries, hidden);
  weights.key = reader.getLinear(module + ".k_proj", keys, hidden);
  weights.value = reader.getLinear(module + ".v_proj", keys, hidden);
  weights.output = reader.getLinear(module + ".o_proj", hidden, queries);
  weights.queryNorm =
      reader.getDense(module + ".q_norm.weight", {config.headDim});
  weights.keyNorm =
      reader.getDense(module + ".k_norm.weight", {config.headDim});
  return weights;
}

//===----------------------------------------------------------------------===//
// LayerBuilder
//===----------------------------------------------------------------------===//

Location tandem::models::getNameLoc(OpBuilder &builder, StringRef name) {
  return NameLoc::get(builder.getStringAttr(name));
}

/// Number of rows of \p value, a ranked tensor.
static int64_t getRows(Value value) {
  return cast<RankedTensorType>(value.getType()).getDimSize(0);
}

RankedTensorType LayerBuilder::getRowsType(int64_t rows,
                                           int64_t columns) const {
  return RankedTensorType::get({rows, columns}, elementType);
}

Value LayerBuilder::weight(const Weight &weight) {
  Type element;
  switch (weight.dtype) {
  case DType::F32:
    element = builder.getF32Type();
    break;
  case DType::BF16:
    element = builder.getBF16Type();
    break;
  case DType::F16:
    element = builder.getF16Type();
    break;
  case DType::I32:
    element = builder.getI32Type();
    break;
  case DType::F8E4M3:
    element = builder.getType<Float8E4M3FNType>();
    break;
  default:
    llvm_unreachable("a WeightReader gives floats and packed codes only");
  }
  return lm::WeightOp::create(builder, getNameLoc(builder, weight.name),
                              RankedTensorType::get(weight.shape, element),
                              weight.checkpoint, weight.name);
}

Value LayerBuilder::embed(Value tokens, const Weight &table, double scale) {
  Value matrix = weight(table);
  return lm::EmbedOp::create(builder, getNameLoc(builder, table.name),
                             getRowsType(getRows(tokens), table.shape[1]),
                             tokens, matrix, builder.getF32FloatAttr(scale));
}

/// How the tensors of a packed \p linear lie.
static lm::SourceAttr getSource(MLIRContext *context,
                                const LinearWeight &linear) {
  using Method = PackedFormat::Method;
  const PackedFormat &format = linear.format;
  lm::PackOrder order =
      format.method == Method::Awq    ? lm::PackOrder::interleaved
      : format.method == Method::Gptq ? lm::PackOrder::by_column
                                      : lm::PackOrder::by_row;
  return lm::SourceAttr::get(context, order, format.bits, linear.columns,
                             format.group, format.blockRows, format.zeroPoints,
                             format.zeroPoints ? format.zeroOffset : 0);
}

Value LayerBuilder::linear(Value input, const LinearWeight &weight) {
  return linear(input, weight, elementType);
}

Value LayerBuilder::linearF32(Value input, const LinearWeight &weight) {
  return linear(input, weight, builder.getF32Type());
}

Value LayerBuilder::linear(Value input, const LinearWeight &linear,
                           Type resultElement) {
  Location loc = getNameLoc(builder, linear.module);
  Value matrix = weight(linear.weight);
  if (linear.scales) {
    Value scales = weight(*linear.scales);
    lm::SourceAttr source = getSource(builder.getContext(), linear);
    bool floatCodes = linear.format.method == PackedFormat::Method::Float8;
    lm::GroupedAttr format = source.getGrouped(floatCodes);
    // What compressed-tensors writes needs nothing, unless there is more than
    // codes and a scale for each group of a row.
    if (source.getOrder() != lm::PackOrder::by_row || floatCodes ||
        linear.zeros || linear.format.blockRows != 1) {
      Value zeros = linear.zeros ? weight(*linear.zeros) : Value();
      int64_t words =
          llvm::divideCeilSigned(linear.columns, 32 / format.getBits());
      Type types[] = {
          RankedTensorType::get({linear.rows, words}, builder.getI32Type()),
          RankedTensorType::get(
              {linear.rows, format.getScalesPerRow(linear.columns)},
              llvm::cast<RankedTensorType>(scales.getType()).getElementType())};
      auto repack = lm::RepackOp::create(builder, loc, types, matrix, scales,
                                         zeros, source);
      matrix = repack.getNewCodes();
      scales = repack.getNewScales();
    }
    auto type = RankedTensorType::get({linear.rows, linear.columns},
                                      builder.getF32Type());
    matrix = lm::DequantOp::create(builder, loc, type, matrix, scales, format);
  }
  return lm::LinearOp::create(
      builder, loc,
      RankedTensorType::get({getRows(input), linear.rows}, resultElement),
      input, matrix);
}

Value LayerBuilder::rmsNorm(Value input, const Weight &norm, double eps,
                            double offset) {
  Value vector = weight(norm);
  return lm::RmsNormOp::create(
      builder, getNameLoc(builder, norm.name), input.getType(), input, vector,
      builder.getF32FloatAttr(eps), builder.getF32FloatAttr(offset));
}

Value LayerBuilder::mlp(Value input, const MlpWeights &weights) {
  Location loc = getNameLoc(builder, weights.module);
  Value gate = linear(input, weights.gate);
  Value up = linear(input, weights.up);
  gate = lm::SiluOp::create(builder, loc, gate.getType(), gate);
  Value inner = lm::MulOp::create(builder, loc, gate.getType(), gate, up);
  return linear(inner, weights.down);
}

Value LayerBuilder::add(Value lhs, Value rhs, StringRef name) {
  return lm::AddOp::create(builder, getNameLoc(builder, name), lhs.getType(),
                           lhs, rhs);
}

Value LayerBuilder::rope(Value input, Value start,
                         const TransformerConfig &config, StringRef name) {
  return lm::RopeOp::create(builder, getNameLoc(builder, name), input.getType(),
                            input, start,
                            builder.getI64IntegerAttr(config.headDim),
                            builder.getI64IntegerAttr(config.rotaryDim),
                            builder.getF64FloatAttr(config.ropeTheta));
}

Value LayerBuilder::keys(Value input, Value start,
                         const AttentionWeights &weights,
                         const TransformerConfig &config, double normOffset) {
  Value keys = linear(input, weights.key);
  keys = rmsNorm(keys, weights.keyNorm, config.rmsNormEps, normOffset);
  return rope(keys, start, config, weights.key.module);
}

Value LayerBuilder::appendKeysAndValues(Value cache, Value input, Value start,
                                        Value count,
                                        const AttentionWeights &weights,
                                        const TransformerConfig &config,
                                        double normOffset) {
  Value newKeys = keys(input, start, weights, config, normOffset);
  Value newValues = linear(input, weights.value);
  return lm::CacheAppendOp::create(builder, getNameLoc(builder, weights.module),
                                   cache.getType(), cache, newKeys, newValues,
                                   start, count);
}
