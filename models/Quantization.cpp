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

/// Columns of a group, when that is no number of columns.
static constexpr int64_t kMaxGroup = int64_t(1) << 20;

/// Reads the `weights` of a group of compressed-tensors' section.
static PackedFormat readFormat(const ConfigObject &weights) {
  PackedFormat format{PackedFormat::Method::CompressedTensors,
                      /*bits=*/4,
                      /*group=*/0,
                      /*blockRows=*/1,
                      /*zeroPoints=*/false,
                      /*zeroOffset=*/0,
                      /*reorders=*/false};
  weights.expectString("type", {"int"});
  weights.expectFlag("dynamic", false);
  weights.expectNothing("block_structure");
  // "group" reorders columns if weight_g_idx says so, the other two only say in
  // which order they were quantized.
  weights.expectString("actorder", {"group", "weight", "static"});
  if (weights.has("actorder"))
    format.reorders = weights.getString("actorder") == "group";

  format.bits = weights.getInteger("num_bits", 1, 32);
  if (format.bits != 4 && format.bits != 8)
    weights.fail("num_bits", "is " + Twine(format.bits) + ", expected 4 or 8");
  if (!weights.has("type"))
    weights.fail("type", "is missing");
  format.zeroPoints = !weights.findFlag("symmetric").value_or(true);

  std::string strategy = weights.getString("strategy");
  if (strategy == "group")
    format.group = weights.getInteger("group_size", 1, kMaxGroup);
  else if (strategy == "tensor")
    format.blockRows = 0;
  else if (strategy != "channel")
    weights.expectString("strategy", {"group", "channel", "tensor"});
  if (strategy == "tensor" && format.zeroPoints)
    weights.fail("symmetric", "is false, expected true with one scale in all");
  return format;
}

/// Refuses what a group may say beside its weights.
static void checkGroup(const ConfigObject &group) {
  group.expectNothing("input_activations");
  group.expectNothing("output_activations");
  group.expectString("format", {"pack-quantized"});
}

void QuantizationConfig::readCompressedTensors(const ConfigObject &section) {
  if (!section.has("format"))
    section.fail("format", "is missing");
  section.expectString("format", {"pack-quantized"});
  section.expectString("quantization_status", {"compressed"});
  section.expectNothing("kv_cache_scheme");
  section.expectNothing("sparsity_config");
  section.expectNothing("transform_config");

  std::vector<std::string> ignore =
      section.findStrings("ignore").value_or(std::vector<std::string>());
  for (const std::string &entry : ignore)
    ignored.emplace_back(entry, section, "ignore");

  std::optional<ConfigObject> objects = section.findObject("config_groups");
  if (!objects || objects->getKeys().empty()) {
    section.fail("config_groups", "is missing or empty");
    return;
  }
  for (const std::string &name : objects->getKeys()) {
    std::optional<ConfigObject> object = objects->findObject(name);
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
    groups.push_back(std::move(group));
  }
}

/// The number of columns that share a scale; 0 for a whole row, which files
/// call -1.
static int64_t readGroupSize(const ConfigObject &section, StringRef key) {
  int64_t group = section.getInteger(key, -1, kMaxGroup);
  if (group == 0)
    section.fail(key, "is 0, expected -1 or a number of columns");
  return group < 0 ? 0 : group;
}

void QuantizationConfig::readExcluded(const ConfigObject &section,
                                      StringRef key) {
  excluded = section.findStrings(key).value_or(std::vector<std::string>());
}

void QuantizationConfig::readAwq(const ConfigObject &section) {
  // AutoAWQ itself writes shorter names than transformers does.
  StringRef bitsKey = section.has("w_bit") ? "w_bit" : "bits";
  StringRef groupKey =
      section.has("q_group_size") ? "q_group_size" : "group_size";
  int64_t bits = section.getInteger(bitsKey, 1, 32);
  if (bits != 4)
    section.fail(bitsKey, "is " + Twine(bits) + ", expected 4");
  section.expectString("version", {"gemm", "GEMM"});
  if (!section.has("zero_point"))
    section.fail("zero_point", "is missing");
  section.expectFlag("zero_point", true);
  format = {PackedFormat::Method::Awq, bits, readGroupSize(section, groupKey),
            /*blockRows=*/1,
            /*zeroPoints=*/true,
            /*zeroOffset=*/0,
            /*reorders=*/false};
  readExcluded(section, "modules_to_not_convert");
}

void QuantizationConfig::readGptq(const ConfigObject &section) {
  int64_t bits = section.getInteger("bits", 1, 32);
  if (bits != 4 && bits != 8)
    section.fail("bits", "is " + Twine(bits) + ", expected 4 or 8");
  section.expectString("checkpoint_format", {"gptq", "gptq_v2"});
  section.expectString("format", {"gptq", "gptq_v2"});
  section.expectString("pack_dtype", {"int32"});
  std::string version = section.has("checkpoint_format")
                            ? section.getString("checkpoint_format")
                        : section.has("format") ? section.getString("format")
                                                : "gptq";
  bool symmetric = section.findFlag("sym").value_or(true);
  format = {PackedFormat::Method::Gptq,
            bits,
            readGroupSize(section, "group_size"),
            /*blockRows=*/1,
            /*zeroPoints=*/!symmetric,
            /*zeroOffset=*/version == "gptq" ? 1 : 0,
            section.findFlag("desc_act").value_or(false)};
  // Patterns behind "-:" name what is not packed, others change the numbers of
  // some modules.
  std::optional<ConfigObject> dynamic = section.findObject("dynamic");
  if (!dynamic)
    return;
  for (const std::string &key : dynamic->getKeys()) {
    StringRef pattern = key;
    if (!pattern.consume_front("-:"))
      dynamic->fail(key, "gives some modules a format of their own, which is "
                         "not supported");
    ignored.emplace_back(("re:" + pattern).str(), *dynamic, key);
  }
}

void QuantizationConfig::readFloat8(const ConfigObject &section) {
  section.expectString("fmt", {"e4m3"});
  // How activations are rounded is a choice of who runs it.
  section.expectString("activation_scheme", {"dynamic"});
  std::optional<std::vector<int64_t>> block =
      section.findIntegers("weight_block_size", 1, kMaxGroup);
  if (!block || block->size() != 2) {
    section.fail("weight_block_size",
                 block ? "has " + Twine(block->size()) + " entries, expected 2"
                       : Twine("is missing"));
    return;
  }
  format = {PackedFormat::Method::Float8,
            /*bits=*/8,
            /*group=*/(*block)[1],
            /*blockRows=*/(*block)[0],
            /*zeroPoints=*/false,
            /*zeroOffset=*/0,
            /*reorders=*/false};
  readExcluded(section, "modules_to_not_convert");
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

  using Method = PackedFormat::Method;
  QuantizationConfig result;
  result.methodName = section->getString("quant_method");
  if (result.methodName == "compressed-tensors") {
    result.readCompressedTensors(*section);
  } else if (result.methodName == "awq") {
    result.method = Method::Awq;
    result.readAwq(*section);
  } else if (result.methodName == "gptq") {
    result.method = Method::Gptq;
    result.readGptq(*section);
  } else if (result.methodName == "fp8") {
    result.method = Method::Float8;
    result.readFloat8(*section);
  } else {
    section->expectString("quant_method",
                          {"compressed-tensors", "awq", "gptq", "fp8"});
  }
  return result;
}

const PackedFormat *
QuantizationConfig::find(ArrayRef<std::string> names) const {
  if (format)
    return &*format;
  const PackedFormat *found = nullptr;
  ModulePattern::Match best = ModulePattern::Match::None;
  for (const Group &group : groups) {
    for (const ModulePattern &target : group.targets) {
      ModulePattern::Match match = target.match(names);
      if (match > best) {
        best = match;
        found = &group.format;
      }
    }
  }
  return found;
}

/// Whether \p part is \p name, or some consecutive components of it:
/// `layers.1` is part of `layers.1.mlp`, but not of `layers.10.mlp`.
static bool hasComponents(StringRef name, StringRef part) {
  return ("." + name + ".").str().find(("." + part + ".").str()) !=
         std::string::npos;
}

bool QuantizationConfig::isIgnored(ArrayRef<std::string> names) const {
  return any_of(ignored,
                [&](const ModulePattern &pattern) {
                  return pattern.match(names) != ModulePattern::Match::None;
                }) ||
         any_of(excluded, [&](const std::string &part) {
           return any_of(names, [&](const std::string &name) {
             return hasComponents(name, part);
           });
         });
}
