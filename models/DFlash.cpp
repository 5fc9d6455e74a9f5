//===- DFlash.cpp - The DFlash block drafter ------------------------------===//

#include "models/DFlash.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace mlir;
using namespace tandem;
using namespace tandem::models;

/// Unlike the target's, the norms are stored as they are.
static constexpr double kNormOffset = 0;

ArrayRef<StringRef> DFlash::getPrefixes() {
  static constexpr StringRef kPrefixes[] = {"model.", ""};
  return kPrefixes;
}

DFlash DFlash::read(WeightReader &reader, const DrafterConfig &config) {
  DFlash model(config);
  int64_t hidden = config.hiddenSize;
  int64_t taps = config.targetLayers.size();
  model.fc = reader.getLinear("fc", hidden, taps * hidden);
  model.hiddenNorm = reader.getDense("hidden_norm.weight", {hidden});
  model.norm = reader.getDense("norm.weight", {hidden});
  for (int64_t index = 0; index < config.layers; ++index) {
    std::string module = "layers." + std::to_string(index);
    Layer layer;
    layer.module = module;
    layer.inputNorm =
        reader.getDense(module + ".input_layernorm.weight", {hidden});
    layer.postNorm =
        reader.getDense(module + ".post_attention_layernorm.weight", {hidden});
    layer.attention = readAttention(reader, module + ".self_attn", config,
                                    /*gated=*/false);
    layer.mlp = readMlp(reader, module + ".mlp", config);
    model.layerWeights.push_back(std::move(layer));
  }
  reader.skipSuffix("rotary_emb.inv_freq");
  return model;
}

SmallVector<State> DFlash::getStates(MLIRContext *context, int64_t slots,
                                     Type elementType) const {
  SmallVector<State> states;
  for (int64_t index = 0; index < config.layers; ++index)
    states.push_back({"draft.layers." + std::to_string(index) + ".kv",
                      lm::KvCacheType::get(context, slots, config.kvHeads,
                                           config.headDim, elementType,
                                           /*ring=*/false)});
  return states;
}

void DFlash::ingest(LayerBuilder &layers, Value features, Value start,
                    Value count, MutableArrayRef<Value> caches) const {
  OpBuilder &builder = layers.getBuilder();
  Value live = lm::LiveRowsOp::create(builder, getNameLoc(builder, fc.module),
                                      features.getType(), features, count);
  // One normed context serves all layers; there is no norm per layer here.
  Value context = layers.rmsNorm(layers.linear(live, fc), hiddenNorm,
                                 config.rmsNormEps, kNormOffset);
  for (auto [layer, cache] : zip_equal(layerWeights, caches))
    cache = layers.appendKeysAndValues(cache, context, start, count,
                                       layer.attention, config, kNormOffset);
}

Value DFlash::runAttention(LayerBuilder &layers, Value input, Value start,
                           Value &cache, const Layer &layer,
                           const DrafterConfig::Layer &type) const {
  OpBuilder &builder = layers.getBuilder();
  const AttentionWeights &weights = layer.attention;
  Value query = layers.linear(input, weights.query);
  query =
      layers.rmsNorm(query, weights.queryNorm, config.rmsNormEps, kNormOffset);
  query = layers.rope(query, start, config, weights.query.module);
  cache = layers.appendKeysAndValues(cache, input, start, /*count=*/Value(),
                                     weights, config, kNormOffset);
  Value attended = lm::AttentionOp::create(
      builder, getNameLoc(builder, weights.module), query.getType(), query,
      cache, start, /*count=*/Value(), /*gate=*/Value(),
      type.causal ? builder.getUnitAttr() : UnitAttr(),
      type.window ? builder.getI64IntegerAttr(*type.window) : IntegerAttr(),
      builder.getF32FloatAttr(1.0 / std::sqrt(double(config.headDim))));
  return layers.linear(attended, weights.output);
}

Value DFlash::draft(LayerBuilder &layers, const Qwen35 &target, Value tokens,
                    Value start, MutableArrayRef<Value> caches) const {
  OpBuilder &builder = layers.getBuilder();
  Value stream =
      layers.embed(tokens, target.getEmbedding(), config.embeddingScale);
  for (auto [layer, type, cache] :
       zip_equal(layerWeights, config.layerTypes, caches)) {
    Value normed =
        layers.rmsNorm(stream, layer.inputNorm, config.rmsNormEps, kNormOffset);
    Value mixed = runAttention(layers, normed, start, cache, layer, type);
    stream = layers.add(stream, mixed, layer.module);
    normed =
        layers.rmsNorm(stream, layer.postNorm, config.rmsNormEps, kNormOffset);
    stream = layers.add(stream, layers.mlp(normed, layer.mlp), layer.module);
  }
  stream = layers.rmsNorm(stream, norm, config.rmsNormEps, kNormOffset);
  // The anchor's slot predicts nothing.
  int64_t block = cast<RankedTensorType>(stream.getType()).getDimSize(0);
  Value slots =
      lm::DropRowsOp::create(builder, getNameLoc(builder, norm.name),
                             layers.getRowsType(block - 1, config.hiddenSize),
                             stream, builder.getI64IntegerAttr(1));
  return layers.linearF32(slots, target.getHead());
}
