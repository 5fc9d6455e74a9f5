//===- DrafterConfig.cpp - config.json of a DFlash drafter ----------------===//

#include "models/ConfigCommon.h"
#include "models/JsonFile.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace tandem::models;

namespace {

/// DFlash's own keys. Older writers put them at the root, newer ones into
/// dflash_config, where they are looked up first.
class DFlashKeys {
public:
  explicit DFlashKeys(const ConfigObject &root)
      : root(root), nested(root.findObject("dflash_config")) {}

  /// The object that has \p key; the root when neither has.
  const ConfigObject &at(StringRef key) const {
    return nested && nested->has(key) ? *nested : root;
  }

  const ConfigObject &root;
  std::optional<ConfigObject> nested;
};

/// A key that only another kind of drafter has.
struct ForeignKey {
  StringLiteral key;
  StringLiteral kind;
};

constexpr ForeignKey kForeignKeys[] = {
    {"conv_kernel_size", "a DFlash 2 drafter"},
    {"conv_group_size", "a DFlash 2 drafter"},
    {"selector_rank", "a DFlash 2 drafter"},
    {"selector_top_k", "a DFlash 2 drafter"},
    {"emb_dim", "a Domino drafter"},
    {"gru_hidden_dim", "a Domino drafter"},
    {"pure_draft_prefix_len", "a Domino drafter"},
    {"shift_label", "a Domino drafter"},
    {"domino_config", "a Domino drafter"},
    {"markov_rank", "a DSpark drafter"},
    {"speculators_model_type", "a drafter of another kind"},
    {"transformer_layer_config", "a drafter of another kind"},
    {"projector_type", "a drafter of another kind"},
    {"eagle_config", "an EAGLE drafter"},
    {"use_swa", "windows on every layer"},
    {"swa_window_size", "windows on every layer"},
    {"attention_sink_bias", "attention sinks"},
    {"attention_value_scale", "scaled attention values"},
    {"sample_from_anchor", "drafts in the anchor's slot"},
    {"query_zero_predicts_next", "drafts in the anchor's slot"},
};

constexpr StringLiteral kKnownKeys[] = {"target_layer_ids",
                                        "mask_token_id",
                                        "block_size",
                                        "input_embedding_scale",
                                        "output_multiplier",
                                        "final_logit_softcapping",
                                        "causal",
                                        "draft_vocab_size"};

} // namespace

/// Refuses drafters that look like DFlash and are not.
static void checkVariant(const DFlashKeys &keys) {
  // Off is the same as absent.
  auto isOff = [](const ConfigObject &object, StringRef key) {
    std::string text = object.getText(key);
    return text == "null" || text == "false";
  };
  for (const ForeignKey &foreign : kForeignKeys) {
    const ConfigObject &object = keys.at(foreign.key);
    if (!isOff(object, foreign.key))
      object.fail(foreign.key, "is " + object.getText(foreign.key) +
                                   ", which means " + foreign.kind +
                                   "; that is not supported");
  }
  if (!keys.nested)
    return;
  for (const std::string &key : keys.nested->getKeys())
    if (!is_contained(kKnownKeys, StringRef(key)) && !isOff(*keys.nested, key))
      keys.nested->fail(key, "is not supported");
}

/// Whether all layers are causal or none is, when the file says so at the root
/// or in dflash_config. Nothing: sliding layers are causal, full ones are not.
static std::optional<bool> readCausality(const DFlashKeys &keys) {
  std::optional<bool> causal = keys.root.findFlag("is_causal");
  if (!keys.nested)
    return causal;
  std::optional<bool> other = keys.nested->findFlag("causal");
  if (causal && other && *causal != *other)
    keys.nested->fail("causal", "is " + keys.nested->getText("causal") +
                                    ", but is_causal is " +
                                    keys.root.getText("is_causal"));
  return causal ? causal : other;
}

static void readLayerTypes(DrafterConfig &config, const DFlashKeys &keys) {
  const ConfigObject &root = keys.root;
  std::optional<bool> causal = readCausality(keys);
  std::optional<int64_t> window =
      root.findInteger("sliding_window", 1, kMaxPositions);
  std::optional<std::vector<std::string>> names =
      root.findStrings("layer_types");
  if (!names) {
    // transformers would make the layers from max_window_layers on slide.
    // DFlash has no such rule, so a file that asks for it is unclear.
    bool slides = root.findFlag("use_sliding_window").value_or(false) && window;
    std::optional<int64_t> first =
        root.findInteger("max_window_layers", 0, kMaxLayers);
    if (slides && first && *first < config.layers)
      root.fail("layer_types", "is missing, but use_sliding_window is true");
    names = std::vector<std::string>(config.layers, "full_attention");
  }
  if (static_cast<int64_t>(names->size()) != config.layers)
    root.fail("layer_types", "has " + Twine(names->size()) + " entries for " +
                                 Twine(config.layers) + " num_hidden_layers");
  for (const std::string &name : *names) {
    bool sliding = name == "sliding_attention";
    if (!sliding && name != "full_attention")
      root.fail("layer_types", "has entry " + quote(name) +
                                   ", expected 'sliding_attention' or "
                                   "'full_attention'");
    if (sliding && !window)
      root.fail("sliding_window", "is missing, but layer_types has "
                                  "'sliding_attention'");
    config.layerTypes.push_back(
        {sliding, causal.value_or(sliding), sliding ? window : std::nullopt});
  }
}

Expected<DrafterConfig> DrafterConfig::read(StringRef directory) {
  Expected<ConfigFile> file = openConfig(directory);
  if (!file)
    return file.takeError();
  ConfigObject root = file->getRoot();
  DrafterConfig config;
  config.architecture = readArchitecture(root, {"DFlashDraftModel"});
  DFlashKeys keys(root);
  checkVariant(keys);
  readTransformer(config, root, root, /*rotaryFactor=*/1);
  if (config.rotaryDim != config.headDim)
    root.fail("partial_rotary_factor",
              "rotates " + Twine(config.rotaryDim) + " columns of " +
                  Twine(config.headDim) + ", expected all");
  readLayerTypes(config, keys);

  if (std::optional<std::vector<int64_t>> layers =
          keys.at("target_layer_ids")
              .findIntegers("target_layer_ids", 0, kMaxLayers - 1);
      layers && !layers->empty())
    config.targetLayers = std::move(*layers);
  else
    keys.at("target_layer_ids").fail("target_layer_ids", "is missing or empty");
  for (auto [index, layer] : enumerate(config.targetLayers))
    if (is_contained(ArrayRef(config.targetLayers).take_front(index), layer))
      keys.at("target_layer_ids")
          .fail("target_layer_ids", "names layer " + Twine(layer) + " twice");
  config.numTargetLayers = root.findInteger("num_target_layers", 1, kMaxLayers);

  config.blockSize =
      keys.at("block_size").findInteger("block_size", 2, 1024).value_or(16);
  config.maskToken =
      keys.at("mask_token_id")
          .getInteger("mask_token_id", 0, config.vocabularySize - 1);
  config.embeddingScale = keys.at("input_embedding_scale")
                              .findNumber("input_embedding_scale", 0)
                              .value_or(1);
  const ConfigObject &multiplier = keys.at("output_multiplier");
  if (multiplier.findNumber("output_multiplier", 0).value_or(1) != 1)
    multiplier.fail("output_multiplier",
                    "is " + multiplier.getText("output_multiplier") +
                        ", expected 1");
  keys.at("final_logit_softcapping").expectNothing("final_logit_softcapping");
  std::optional<int64_t> draftVocabulary =
      keys.at("draft_vocab_size")
          .findInteger("draft_vocab_size", 1, kMaxVocabulary);
  if (draftVocabulary && *draftVocabulary != config.vocabularySize)
    keys.at("draft_vocab_size")
        .fail("draft_vocab_size", "is " + Twine(*draftVocabulary) +
                                      ", expected the vocab_size, " +
                                      Twine(config.vocabularySize));

  if (Error error = file->takeError())
    return error;
  return config;
}
