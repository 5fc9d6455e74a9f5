//===- TargetConfig.cpp - config.json of a Qwen3.5 model ------------------===//

#include "models/ConfigCommon.h"
#include "models/JsonFile.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace tandem::models;

/// Reads which layers attend and which run the delta rule. An explicit list
/// rules: layouts need not be periodic.
static void readLayerTypes(TargetConfig &config, const ConfigObject &text) {
  using Layer = TargetConfig::Layer;
  std::optional<std::vector<std::string>> names =
      text.findStrings("layer_types");
  if (!names) {
    int64_t interval =
        text.findInteger("full_attention_interval", 1, kMaxLayers).value_or(4);
    for (int64_t layer = 0; layer < config.layers; ++layer)
      config.layerTypes.push_back((layer + 1) % interval == 0
                                      ? Layer::FullAttention
                                      : Layer::LinearAttention);
    return;
  }
  if (static_cast<int64_t>(names->size()) != config.layers)
    text.fail("layer_types", "has " + Twine(names->size()) + " entries for " +
                                 Twine(config.layers) + " num_hidden_layers");
  for (const std::string &name : *names) {
    // The second name of each is what older writers used.
    if (name == "full_attention" || name == "attention")
      config.layerTypes.push_back(Layer::FullAttention);
    else if (name == "linear_attention" || name == "mamba")
      config.layerTypes.push_back(Layer::LinearAttention);
    else
      text.fail("layer_types", "has entry " + quote(name) +
                                   ", expected 'linear_attention' or "
                                   "'full_attention'");
  }
}

static void readDeltaNet(TargetConfig &config, const ConfigObject &text) {
  config.convTaps = text.getInteger("linear_conv_kernel_dim", 2, 64);
  config.linearHeads = text.getInteger("linear_num_value_heads", 1, kMaxSize);
  config.linearKeyHeads = text.getInteger("linear_num_key_heads", 1, kMaxSize);
  config.linearKeyDim = text.getInteger("linear_key_head_dim", 1, kMaxSize);
  config.linearValueDim = text.getInteger("linear_value_head_dim", 1, kMaxSize);
  if (config.linearHeads % config.linearKeyHeads != 0)
    text.fail("linear_num_key_heads", "is " + Twine(config.linearKeyHeads) +
                                          ", which does not divide " +
                                          Twine(config.linearHeads) +
                                          " linear_num_value_heads");
  if (config.linearKeyHeads * config.linearKeyDim > kMaxSize ||
      config.linearHeads * config.linearValueDim > kMaxSize)
    text.fail("linear_num_value_heads",
              "is too large for linear_key_head_dim and "
              "linear_value_head_dim");
}

Expected<TargetConfig> TargetConfig::read(StringRef directory) {
  Expected<ConfigFile> file = openConfig(directory);
  if (!file)
    return file.takeError();
  ConfigObject root = file->getRoot();
  TargetConfig config;
  config.architecture = readArchitecture(
      root, {"Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"});
  // Text-only checkpoints are written flat; the class does not say which.
  std::optional<ConfigObject> nested = root.findObject("text_config");
  ConfigObject text = nested.value_or(root);
  root.expectString("model_type", {"qwen3_5", "qwen3_5_text"});
  text.expectString("model_type", {"qwen3_5", "qwen3_5_text"});

  // A quarter of a head is rotated unless a key says otherwise, as in
  // transformers.
  readTransformer(config, root, text, /*rotaryFactor=*/0.25);
  readLayerTypes(config, text);
  readDeltaNet(config, text);
  config.rootTied = root.findFlag("tie_word_embeddings");
  if (nested)
    config.textTied = nested->findFlag("tie_word_embeddings");
  for (const ConfigObject &object : {root, text}) {
    std::vector<int64_t> tokens =
        object.findIntegers("eos_token_id", 0, config.vocabularySize - 1)
            .value_or(std::vector<int64_t>());
    append_range(config.endTokens, tokens);
  }

  // Without its gate, attention would be another model.
  text.expectFlag("attn_output_gate", true);
  text.expectString("output_gate_type", {"swish"});
  text.expectFlag("use_sliding_window", false);
  text.expectNothing("mlp_only_layers");
  text.expectNothing("num_experts");

  if (Error error = file->takeError())
    return error;
  return config;
}
