//===- Quantization.cpp - What quantization_config says -------------------===//

#include "models/Quantization.h"
#include "models/JsonFile.h"

#include "llvm/ADT/STLExtras.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

using namespace llvm;
using namespace tandem::models;

//===----------------------------------------------------------------------===//
// ModulePattern
//===----------------------------------------------------------------------===//

namespace {

struct DeletePcre {
  void operator()(pcre2_code *code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data *data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context *context) const {
    pcre2_match_context_free(context);
  }
};

} // namespace

struct ModulePattern::Regex {
  std::unique_ptr<pcre2_code, DeletePcre> code;
  std::unique_ptr<pcre2_match_data, DeletePcre> data;
  std::unique_ptr<pcre2_match_context, DeletePcre> context;
};

ModulePattern::ModulePattern(StringRef text, const ConfigObject &object,
                             StringRef key)
    : text(text) {
  StringRef pattern = text;
  if (!pattern.consume_front("re:"))
    return;
  int error = 0;
  PCRE2_SIZE position = 0;
  regex = std::make_unique<Regex>();
  // The patterns are Python's and matched with re.match: from the start, not
  // to the end. What such lists use reads the same to PCRE2.
  regex->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()),
                                  pattern.size(), PCRE2_ANCHORED | PCRE2_UTF,
                                  &error, &position, /*ccontext=*/nullptr));
  if (!regex->code) {
    char message[128] = "";
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR *>(message),
                            sizeof(message));
    object.fail(key, quote(text) + " is not a regular expression: " + message);
    return;
  }
  regex->data.reset(
      pcre2_match_data_create_from_pattern(regex->code.get(), nullptr));
  // Module names are short: a pattern that needs more steps than this was
  // written to hang the reader.
  regex->context.reset(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(regex->context.get(), 100'000);
}

ModulePattern::ModulePattern(ModulePattern &&) = default;
ModulePattern::~ModulePattern() = default;

ModulePattern::Match ModulePattern::match(ArrayRef<std::string> names) const {
  if (!regex) {
    // All that is asked for are linear layers.
    if (text == "Linear")
      return Match::Class;
    return is_contained(names, text) ? Match::Exact : Match::None;
  }
  if (!regex->code)
    return Match::None;
  bool matches = any_of(names, [&](const std::string &name) {
    return pcre2_match(regex->code.get(),
                       reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(),
                       /*startoffset=*/0, /*options=*/0, regex->data.get(),
                       regex->context.get()) >= 0;
  });
  return matches ? Match::Regex : Match::None;
}

//===----------------------------------------------------------------------===//
// QuantizationConfig
//===----------------------------------------------------------------------===//

/// Reads the `weights` of a group of the section.
static PackedFormat readFormat(const ConfigObject &weights) {
  weights.expectString("type", {"int"});
  weights.expectFlag("symmetric", true);
  weights.expectFlag("dynamic", false);
  weights.expectNothing("block_structure");
  // "group" reorders columns, the other two only say in which order they were
  // quantized.
  weights.expectString("actorder", {"weight", "static"});

  PackedFormat format{};
  format.bits = weights.getInteger("num_bits", 1, 32);
  if (format.bits != 4)
    weights.fail("num_bits", "is " + Twine(format.bits) + ", expected 4");
  if (!weights.has("type"))
    weights.fail("type", "is missing");

  std::string strategy = weights.getString("strategy");
  if (strategy == "group")
    format.group = weights.getInteger("group_size", 1, int64_t(1) << 20);
  else if (strategy == "channel")
    format.group = 0;
  else
    weights.expectString("strategy", {"group", "channel"});
  return format;
}

/// Refuses what a group may say beside its weights.
static void checkGroup(const ConfigObject &group) {
  group.expectNothing("input_activations");
  group.expectNothing("output_activations");
  group.expectString("format", {"pack-quantized"});
}

std::optional<QuantizationConfig>
QuantizationConfig::read(ArrayRef<ConfigObject> places) {
  std::optional<ConfigObject> section;
  for (StringRef key : {"quantization_config", "compression_config"})
    for (const ConfigObject &place : places)
      if (!section)
        section = place.findObject(key);
  if (!section)
    return std::nullopt;

  QuantizationConfig result;
  if (section->getString("quant_method") != "compressed-tensors") {
    section->expectString("quant_method", {"compressed-tensors"});
    return result; // the other keys mean something else
  }
  if (!section->has("format"))
    section->fail("format", "is missing");
  section->expectString("format", {"pack-quantized"});
  section->expectString("quantization_status", {"compressed"});
  section->expectNothing("kv_cache_scheme");
  section->expectNothing("sparsity_config");
  section->expectNothing("transform_config");

  std::vector<std::string> ignore =
      section->findStrings("ignore").value_or(std::vector<std::string>());
  for (const std::string &entry : ignore)
    result.ignored.emplace_back(entry, *section, "ignore");

  std::optional<ConfigObject> groups = section->findObject("config_groups");
  if (!groups || groups->getKeys().empty()) {
    section->fail("config_groups", "is missing or empty");
    return result;
  }
  for (const std::string &name : groups->getKeys()) {
    std::optional<ConfigObject> object = groups->findObject(name);
    if (!object)
      break;
    checkGroup(*object);
    std::optional<ConfigObject> weights = object->findObject("weights");
    std::optional<std::vector<std::string>> targets =
        object->findStrings("targets");
    if (!weights || !targets) {
      object->fail(weights ? "targets" : "weights", "is missing");
      break;
    }
    Group group{{}, readFormat(*weights)};
    for (const std::string &target : *targets)
      group.targets.emplace_back(target, *object, "targets");
    result.groups.push_back(std::move(group));
  }
  return result;
}

const PackedFormat *
QuantizationConfig::find(ArrayRef<std::string> names) const {
  const PackedFormat *format = nullptr;
  ModulePattern::Match best = ModulePattern::Match::None;
  for (const Group &group : groups) {
    for (const ModulePattern &target : group.targets) {
      ModulePattern::Match match = target.match(names);
      if (match > best) {
        best = match;
        format = &group.format;
      }
    }
  }
  return format;
}

bool QuantizationConfig::isIgnored(ArrayRef<std::string> names) const {
  return any_of(ignored, [&](const ModulePattern &pattern) {
    return pattern.match(names) != ModulePattern::Match::None;
  });
}
