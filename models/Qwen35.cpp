//===- Qwen35.cpp - The Qwen3.5 text model --------------------------------===//

#include "models/Qwen35.h"
#include "models/JsonFile.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace mlir;
using namespace tandem;
using namespace tandem::models;

/// The query and key norms of the delta net have no weight and no eps key.
static constexpr float kL2NormEps = 1e-6f;
/// Norm weights are stored as their distance from one.
static constexpr double kNormOffset = 1;

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

ArrayRef<StringRef> Qwen35::getPrefixes() {
  // The official files, text-only exports, and MLX and some servers.
  static constexpr StringRef kPrefixes[] = {"model.language_model.", "model.",
                                            "language_model.model."};
  return kPrefixes;
}

/// The prefix that the text model's tensors have.
static StringRef findPrefix(WeightReader &reader) {
  for (StringRef prefix : Qwen35::getPrefixes())
    for (StringRef suffix : {"", "_packed"})
      if (reader.has(prefix + "embed_tokens.weight" + suffix))
        return prefix;
  return Qwen35::getPrefixes().front();
}

Qwen35::DeltaNet Qwen35::readDeltaNet(WeightReader &reader,
                                      const std::string &module,
                                      const TargetConfig &config) {
  int64_t hidden = config.hiddenSize, heads = config.linearHeads;
  int64_t values = heads * config.linearValueDim;
  int64_t channels = config.getConvChannels();
  auto name = [&](StringRef part) { return (module + "." + part).str(); };
  DeltaNet net;
  net.module = module;
  net.qkv = reader.getLinear(name("in_proj_qkv"), channels, hidden);
  net.gate = reader.getLinear(name("in_proj_z"), values, hidden);
  net.beta = reader.getLinear(name("in_proj_b"), heads, hidden);
  net.decay = reader.getLinear(name("in_proj_a"), heads, hidden);
  net.output = reader.getLinear(name("out_proj"), hidden, values);
  net.conv =
      reader.getDense(name("conv1d.weight"), {channels, 1, config.convTaps});
  net.decayLog = reader.getDense(name("A_log"), {heads});
  net.decayBias = reader.getDense(name("dt_bias"), {heads});
  net.norm = reader.getDense(name("norm.weight"), {config.linearValueDim});
  return net;
}

void Qwen35::readHead(WeightReader &reader) {
  bool tied = config.rootTied.value_or(config.textTied.value_or(false));
  bool anyTied =
      config.rootTied.value_or(false) || config.textTied.value_or(false);
  std::string module = "lm_head";
  for (StringRef candidate : {"lm_head", "language_model.lm_head"})
    if (reader.hasLinear(candidate))
      module = candidate.str();

  const Checkpoint &checkpoint = reader.getCheckpoint();
  const TensorView *own = checkpoint.find(module + ".weight");
  const TensorView *table = checkpoint.find(embedding.name);
  bool isCopy = own && table && own->dtype == table->dtype &&
                own->shape == table->shape && own->bytes == table->bytes;
  bool packed = !own && reader.hasLinear(module);
  if (isCopy || (anyTied && !own && !packed)) {
    if (!own && !tied)
      reader.warn(config.path + ": tie_word_embeddings: is false at the root "
                                "and true in text_config; the embedding is "
                                "used as the head, for there is no other");
    if (own)
      reader.skip(own->name);
    head = {StringRef(embedding.name).drop_back(strlen(".weight")).str(),
            config.vocabularySize,
            config.hiddenSize,
            embedding,
            /*scales=*/std::nullopt,
            /*zeros=*/std::nullopt,
            /*format=*/{}};
    return;
  }
  if (!own && !packed && !checkpoint.isSynthetic()) {
    reader.fail(checkpoint.getDirectory() +
                ": tensor 'lm_head.weight' is "
                "missing, and " +
                config.path + ": tie_word_embeddings: is not true");
    return;
  }
  if (tied)
    reader.warn(config.path + ": tie_word_embeddings: is true, but " +
                quote(module) +
                " differs from the embedding; it is used as "
                "the head");
  head = reader.getLinear(module, config.vocabularySize, config.hiddenSize);
}

Qwen35 Qwen35::read(WeightReader &reader, const TargetConfig &config) {
  Qwen35 model(config);
  std::string prefix = findPrefix(reader).str();
  int64_t hidden = config.hiddenSize;
  model.embedding = reader.getDense(prefix + "embed_tokens.weight",
                                    {config.vocabularySize, hidden});
  for (auto [index, type] : enumerate(config.layerTypes)) {
    std::string module = prefix + "layers." + std::to_string(index);
    Layer layer;
    layer.module = module;
    layer.inputNorm =
        reader.getDense(module + ".input_layernorm.weight", {hidden});
    layer.postNorm =
        reader.getDense(module + ".post_attention_layernorm.weight", {hidden});
    if (type == TargetConfig::Layer::FullAttention)
      layer.mixer = readAttention(reader, module + ".self_attn", config,
                                  /*gated=*/true);
    else
      layer.mixer = readDeltaNet(reader, module + ".linear_attn", config);
    layer.mlp = readMlp(reader, module + ".mlp", config);
    model.layerWeights.push_back(std::move(layer));
  }
  model.norm = reader.getDense(prefix + "norm.weight", {hidden});
  model.readHead(reader);
  for (StringRef left : {"model.visual.", "visual.", "mtp."})
    reader.skipPrefix(left);
  // Buffers that some exporters write; they follow from the configuration.
  reader.skipSuffix("rotary_emb.inv_freq");
  return model;
}

//===----------------------------------------------------------------------===//
// Caches
//===----------------------------------------------------------------------===//

SmallVector<State> Qwen35::getStates(MLIRContext *context, int64_t slots,
                                     int64_t pending, Type elementType) const {
  SmallVector<State> states;
  for (auto [index, type] : enumerate(config.layerTypes)) {
    std::string name = "layers." + std::to_string(index);
    if (type == TargetConfig::Layer::FullAttention) {
      states.push_back(
          {name + ".kv", lm::KvCacheType::get(context, slots, config.kvHeads,
                                              config.headDim, elementType,
                                              /*ring=*/false)});
      continue;
    }
    states.push_back({name + ".conv", lm::ConvCacheType::get(
                                          context, config.convTaps,
                                          config.getConvChannels(), pending)});
    states.push_back(
        {name + ".delta",
         lm::DeltaCacheType::get(context, config.linearHeads,
                                 config.linearKeyHeads, config.linearKeyDim,
                                 config.linearValueDim, pending)});
  }
  return states;
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

Value Qwen35::runAttention(LayerBuilder &layers, Value input,
                           const RowContext &context, Value &cache,
                           const AttentionWeights &weights) const {
  OpBuilder &builder = layers.getBuilder();
  Location loc = getNameLoc(builder, weights.module);
  // q_proj has, head by head, the query and then the gate.
  Value both = layers.linear(input, weights.query);
  int64_t rows = cast<RankedTensorType>(both.getType()).getDimSize(0);
  Type queryType = layers.getRowsType(rows, config.heads * config.headDim);
  auto split =
      lm::SplitOp::create(builder, getNameLoc(builder, weights.query.module),
                          TypeRange{queryType, queryType}, both,
                          builder.getI64IntegerAttr(config.heads));
  Value query = split.getResult(0), gate = split.getResult(1);
  query =
      layers.rmsNorm(query, weights.queryNorm, config.rmsNormEps, kNormOffset);
  query = layers.rope(query, context.start, config, weights.query.module);

  cache = layers.appendKeysAndValues(cache, input, context.start, context.count,
                                     weights, config, kNormOffset);
  Value attended = lm::AttentionOp::create(
      builder, loc, queryType, query, cache, context.start, context.count,
      /*gate=*/Value(), builder.getUnitAttr(), /*window=*/IntegerAttr(),
      builder.getF32FloatAttr(1.0 / std::sqrt(double(config.headDim))));
  gate = lm::SigmoidOp::create(builder, loc, queryType, gate);
  Value gated = lm::MulOp::create(builder, loc, queryType, attended, gate);
  return layers.linear(gated, weights.output);
}

Value Qwen35::runDeltaNet(LayerBuilder &layers, Value input,
                          const RowContext &context, Value &convCache,
                          Value &deltaCache, const DeltaNet &weights) const {
  OpBuilder &builder = layers.getBuilder();
  Location loc = getNameLoc(builder, weights.module);
  UnitAttr commit = context.commit ? builder.getUnitAttr() : UnitAttr();

  Value mixed = layers.linear(input, weights.qkv);
  Value taps = layers.weight(weights.conv);
  auto conv = lm::ShortConvOp::create(
      builder, getNameLoc(builder, weights.conv.name), mixed.getType(),
      convCache.getType(), mixed, taps, convCache, context.accepted,
      context.count, commit);
  convCache = conv.getResult();
  mixed = lm::SiluOp::create(builder, loc, mixed.getType(), conv.getOutput());

  int64_t rows = cast<RankedTensorType>(mixed.getType()).getDimSize(0);
  Type keyType =
      layers.getRowsType(rows, config.linearKeyHeads * config.linearKeyDim);
  Type valueType =
      layers.getRowsType(rows, config.linearHeads * config.linearValueDim);
  auto split =
      lm::SplitOp::create(builder, getNameLoc(builder, weights.qkv.module),
                          TypeRange{keyType, keyType, valueType}, mixed,
                          builder.getI64IntegerAttr(1));
  auto l2Norm = [&](Value rows) -> Value {
    return lm::L2NormOp::create(builder, loc, keyType, rows,
                                builder.getI64IntegerAttr(config.linearKeyDim),
                                builder.getF32FloatAttr(kL2NormEps));
  };
  Value query = l2Norm(split.getResult(0)), key = l2Norm(split.getResult(1));

  Value decay = layers.linearF32(input, weights.decay);
  Value decayLog = layers.weight(weights.decayLog);
  Value decayBias = layers.weight(weights.decayBias);
  decay = lm::DeltaGateOp::create(builder,
                                  getNameLoc(builder, weights.decayLog.name),
                                  decay.getType(), decay, decayLog, decayBias);
  Value beta = layers.linearF32(input, weights.beta);
  beta = lm::SigmoidOp::create(
      builder, getNameLoc(builder, weights.beta.module), beta.getType(), beta);

  auto delta = lm::GatedDeltaOp::create(
      builder, loc, valueType, deltaCache.getType(), query, key,
      split.getResult(2), decay, beta, deltaCache, context.accepted,
      context.count, /*gate=*/Value(), /*norm_weight=*/Value(), commit,
      builder.getF32FloatAttr(1.0 / std::sqrt(double(config.linearKeyDim))),
      /*norm_eps=*/FloatAttr());
  deltaCache = delta.getResult();

  Value gate = layers.linear(input, weights.gate);
  Value norm = layers.weight(weights.norm);
  Value gated = lm::GatedRmsNormOp::create(
      builder, getNameLoc(builder, weights.norm.name), valueType,
      delta.getOutput(), gate, norm,
      builder.getF32FloatAttr(config.rmsNormEps));
  return layers.linear(gated, weights.output);
}

Qwen35::Streams Qwen35::run(LayerBuilder &layers, Value tokens,
                            const RowContext &context,
                            MutableArrayRef<Value> caches,
                            ArrayRef<int64_t> taps) const {
  OpBuilder &builder = layers.getBuilder();
  SmallVector<Value> outputs;
  Value stream = layers.embed(tokens, embedding, /*scale=*/1);
  size_t cache = 0;
  for (const Layer &layer : layerWeights) {
    Value normed =
        layers.rmsNorm(stream, layer.inputNorm, config.rmsNormEps, kNormOffset);
    Value mixed;
    if (const auto *attention = std::get_if<AttentionWeights>(&layer.mixer)) {
      mixed = runAttention(layers, normed, context, caches[cache], *attention);
      cache += 1;
    } else {
      mixed = runDeltaNet(layers, normed, context, caches[cache],
                          caches[cache + 1], std::get<DeltaNet>(layer.mixer));
      cache += 2;
    }
    stream = layers.add(stream, mixed, layer.module);
    normed =
        layers.rmsNorm(stream, layer.postNorm, config.rmsNormEps, kNormOffset);
    stream = layers.add(stream, layers.mlp(normed, layer.mlp), layer.module);
    outputs.push_back(stream);
  }

  Streams streams = {stream, Value()};
  if (taps.empty())
    return streams;
  SmallVector<Value> tapped;
  for (int64_t tap : taps)
    tapped.push_back(outputs[tap]);
  int64_t rows = cast<RankedTensorType>(stream.getType()).getDimSize(0);
  streams.features = lm::ConcatFeaturesOp::create(
      builder, getNameLoc(builder, "features"),
      layers.getRowsType(rows, tapped.size() * config.hiddenSize), tapped);
  return streams;
}

Value Qwen35::logits(LayerBuilder &layers, Value stream) const {
  return layers.linearF32(
      layers.rmsNorm(stream, norm, config.rmsNormEps, kNormOffset), head);
}
