//===- ConfigCommon.cpp - Keys that target and drafter share --------------===//

#include "models/ConfigCommon.h"
#include "models/JsonFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace tandem::models;

Expected<ConfigFile> tandem::models::openConfig(StringRef directory) {
  SmallString<256> path(directory);
  sys::path::append(path, "config.json");
  return ConfigFile::open(path);
}

std::string tandem::models::readArchitecture(const ConfigObject &root,
                                             ArrayRef<StringRef> supported) {
  std::vector<std::string> names =
      root.findStrings("architectures").value_or(std::vector<std::string>());
  if (names.size() == 1 && is_contained(supported, names.front()))
    return names.front();
  std::string found;
  for (const std::string &name : names)
    found += (found.empty() ? "" : ", ") + quote(name);
  root.fail("architectures", "is " + (found.empty() ? "missing" : found) +
                                 ", supported here: " + join(supported, ", "));
  return "";
}

namespace {

/// A number that may stand in several places, which must agree.
class SharedNumber {
public:
  /// Notes \p key of \p place, if it is there.
  void add(const ConfigObject &place, StringRef key, double min) {
    std::optional<double> found = place.findNumber(key, min);
    if (!found)
      return;
    if (value && *value != *found)
      place.fail(key,
                 "is " + place.getText(key) + ", but " + name + " is " + text);
    value = found;
    name = place.getName(key);
    text = place.getText(key);
  }

  std::optional<double> value;
  /// The place last noted.
  std::string name, text;
};

} // namespace

/// Reads the RoPE keys of \p places into \p config. Newer writers keep them in
/// rope_parameters, older ones at the top and in rope_scaling, and some in two
/// places at once.
static void readRope(TransformerConfig &config, ArrayRef<ConfigObject> places,
                     double rotaryFactor) {
  SharedNumber theta, factor;
  for (const ConfigObject &place : places) {
    theta.add(place, "rope_theta", 1);
    factor.add(place, "partial_rotary_factor", 0);
    for (StringRef section : {"rope_parameters", "rope_scaling"}) {
      std::optional<ConfigObject> rope = place.findObject(section);
      if (!rope)
        continue;
      theta.add(*rope, "rope_theta", 1);
      factor.add(*rope, "partial_rotary_factor", 0);
      // For text the positions of multimodal RoPE are all the same, so its
      // sections do not matter.
      for (StringRef key : {"rope_type", "type"})
        rope->expectString(key, {"default", "mrope"});
      for (const std::string &key : rope->getKeys())
        if (!is_contained({"rope_theta", "partial_rotary_factor", "rope_type",
                           "type", "mrope_section", "mrope_interleaved"},
                          StringRef(key)))
          rope->fail(key, "is not supported");
    }
  }
  const ConfigObject &text = places.front();
  if (!theta.value)
    text.fail("rope_theta", "is missing, also in rope_parameters");
  config.ropeTheta = theta.value.value_or(1);
  double columns =
      static_cast<double>(config.headDim) * factor.value.value_or(rotaryFactor);
  // What is too large may be more than an integer can be.
  config.rotaryDim =
      columns <= static_cast<double>(config.headDim) ? int64_t(columns) : 0;
  if (config.rotaryDim < 2 || config.rotaryDim % 2 != 0) {
    std::string found;
    raw_string_ostream(found) << format("%g", columns);
    text.fail(factor.value ? "partial_rotary_factor" : "head_dim",
              "gives " + found + " rotated columns of " +
                  Twine(config.headDim) + ", expected an even part of them");
  }
}

void tandem::models::readTransformer(TransformerConfig &config,
                                     const ConfigObject &root,
                                     const ConfigObject &text,
                                     double rotaryFactor) {
  config.path = root.getFile().getPath().str();
  config.hiddenSize = text.getInteger("hidden_size", 1, kMaxSize);
  config.intermediateSize = text.getInteger("intermediate_size", 1, kMaxSize);
  config.layers = text.getInteger("num_hidden_layers", 1, kMaxLayers);
  config.vocabularySize = text.getInteger("vocab_size", 1, kMaxVocabulary);
  config.heads = text.getInteger("num_attention_heads", 1, kMaxSize);
  config.kvHeads = text.getInteger("num_key_value_heads", 1, kMaxSize);
  config.headDim = text.getInteger("head_dim", 1, kMaxSize);
  config.rmsNormEps = text.getNumber("rms_norm_eps", 0);
  config.maxPositions =
      text.getInteger("max_position_embeddings", 1, kMaxPositions);
  if (config.heads % config.kvHeads != 0)
    text.fail("num_key_value_heads",
              "is " + Twine(config.kvHeads) + ", which does not divide " +
                  Twine(config.heads) + " num_attention_heads");
  // Rows of the widest projection, query and gate side by side.
  if (config.heads * config.headDim > kMaxSize)
    text.fail("head_dim", "is " + Twine(config.headDim) + ", too large for " +
                              Twine(config.heads) + " num_attention_heads");

  if (!text.has("hidden_act"))
    text.fail("hidden_act", "is missing");
  text.expectString("hidden_act", {"silu"});
  text.expectFlag("attention_bias", false);
  text.expectNothing("attn_logit_softcapping");
  text.expectNothing("final_logit_softcapping");

  // The nested object may be the root itself.
  SmallVector<ConfigObject, 2> places = {text, root};
  readRope(config, places, rotaryFactor);
  SmallVector<ConfigObject, 2> rootFirst = {root, text};
  config.quantization = QuantizationConfig::read(rootFirst);
}
