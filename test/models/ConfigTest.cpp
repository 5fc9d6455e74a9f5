//===- ConfigTest.cpp - config.json and what is wrong with it -------------===//

#include "models/Config.h"
#include "models/StopTokens.h"
#include "test/models/TestFiles.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

#include <functional>

using namespace tandem::models;
using llvm::ArrayRef;
using nlohmann::json;

namespace {

/// The configuration of a tiny checkpoint, changed by \p edit, in a directory.
class ConfigTest : public testing::Test {
protected:
  using Edit = std::function<void(json &)>;

  json target = EditableCheckpoint::readTiny("target-w4a16").config();
  json drafter = EditableCheckpoint::readTiny("drafter-w4a16").config();
  TempDirectory directory;

  llvm::Expected<TargetConfig> readTarget(const Edit &edit = [](json &) {}) {
    json config = target;
    edit(config);
    directory.write("config.json", config.dump());
    return TargetConfig::read(directory.getPath());
  }
  llvm::Expected<DrafterConfig> readDrafter(const Edit &edit = [](json &) {}) {
    json config = drafter;
    edit(config);
    directory.write("config.json", config.dump());
    return DrafterConfig::read(directory.getPath());
  }
  /// Messages, without the path of the file.
  std::string targetMessage(const Edit &edit) {
    return getMessage(readTarget(edit), directory.getPath("config.json: "));
  }
  std::string drafterMessage(const Edit &edit) {
    return getMessage(readDrafter(edit), directory.getPath("config.json: "));
  }
  /// The same, the edit being one key of text_config.
  std::string textMessage(const std::string &key, const json &value) {
    return targetMessage(
        [&](json &config) { config["text_config"][key] = value; });
  }
  /// The same, the edit being one key at the drafter's root.
  std::string drafterMessage(const std::string &key, const json &value) {
    return drafterMessage([&](json &config) { config[key] = value; });
  }
  /// The same, the edit being one key of dflash_config.
  std::string dflashMessage(const std::string &key, const json &value) {
    return drafterMessage(
        [&](json &config) { config["dflash_config"][key] = value; });
  }
  /// The same, the edit being the `weights` of the quantization group.
  std::string weightsMessage(const std::string &key, const json &value) {
    return targetMessage([&](json &config) {
      config["quantization_config"]["config_groups"]["group_0"]["weights"]
            [key] = value;
    });
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// The target
//===----------------------------------------------------------------------===//

TEST_F(ConfigTest, ReadsTarget) {
  llvm::Expected<TargetConfig> config = readTarget();
  ASSERT_TRUE(static_cast<bool>(config)) << toString(config.takeError());
  EXPECT_EQ(config->hiddenSize, 128);
  EXPECT_EQ(config->layers, 8);
  EXPECT_EQ(config->rotaryDim, 16); // a quarter of 64
  EXPECT_EQ(config->ropeTheta, 1e5);
  EXPECT_EQ(config->getConvChannels(), 256);
  EXPECT_EQ(config->layerTypes[2], TargetConfig::Layer::LinearAttention);
  EXPECT_EQ(config->layerTypes[3], TargetConfig::Layer::FullAttention);
  EXPECT_TRUE(config->quantization.has_value());
}

TEST_F(ConfigTest, FlatIsTheSameAsNested) { // P1.22
  json flat = target["text_config"];
  flat["architectures"] = {"Qwen3_5ForCausalLM"};
  flat["quantization_config"] = target["quantization_config"];
  target = flat;
  llvm::Expected<TargetConfig> config = readTarget();
  ASSERT_TRUE(static_cast<bool>(config)) << toString(config.takeError());
  EXPECT_EQ(config->hiddenSize, 128);
  EXPECT_EQ(config->rootTied, true);
  EXPECT_EQ(config->textTied, std::nullopt);
}

TEST_F(ConfigTest, Architectures) { // P1.26
  auto message = [&](const json &value) {
    return targetMessage([&](json &c) { c["architectures"] = value; });
  };
  std::string supported =
      ", supported here: Qwen3_5ForConditionalGeneration, Qwen3_5ForCausalLM";
  EXPECT_EQ(message({"Qwen3NextForCausalLM"}),
            "architectures: is 'Qwen3NextForCausalLM'" + supported);
  EXPECT_EQ(message(json::array()), "architectures: is missing" + supported);
  EXPECT_EQ(message(nullptr), "architectures: is missing" + supported);
  EXPECT_EQ(message({"Qwen3_5ForCausalLM", "X"}),
            "architectures: is 'Qwen3_5ForCausalLM', 'X'" + supported);
  EXPECT_EQ(message(3), "architectures: is 3, expected a list of strings");
}

TEST_F(ConfigTest, MissingKeysAreNamed) {
  for (const char *key :
       {"hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size",
        "num_attention_heads", "num_key_value_heads", "head_dim",
        "rms_norm_eps", "max_position_embeddings", "hidden_act",
        "linear_conv_kernel_dim", "linear_num_value_heads",
        "linear_num_key_heads", "linear_key_head_dim",
        "linear_value_head_dim"}) {
    std::string name = "text_config." + std::string(key);
    EXPECT_EQ(targetMessage([&](json &c) { c["text_config"].erase(key); }),
              name + ": is missing");
    EXPECT_EQ(textMessage(key, nullptr), name + ": is missing");
  }
}

TEST_F(ConfigTest, AbsurdNumbers) {
  std::string range = ", expected a whole number from 1 to 1048576";
  EXPECT_EQ(textMessage("hidden_size", 0),
            "text_config.hidden_size: is 0" + range);
  EXPECT_EQ(textMessage("hidden_size", -1),
            "text_config.hidden_size: is -1" + range);
  EXPECT_EQ(textMessage("hidden_size", 128.5),
            "text_config.hidden_size: is 128.5" + range);
  EXPECT_EQ(textMessage("hidden_size", "128"),
            "text_config.hidden_size: is \"128\"" + range);
  EXPECT_EQ(textMessage("hidden_size", UINT64_MAX),
            "text_config.hidden_size: is 18446744073709551615" + range);
  EXPECT_EQ(textMessage("num_hidden_layers", 1000000000),
            "text_config.num_hidden_layers: is 1000000000, expected a whole "
            "number from 1 to 1024");
  EXPECT_EQ(textMessage("num_key_value_heads", 3),
            "text_config.num_key_value_heads: is 3, which does not divide 4 "
            "num_attention_heads");
  EXPECT_EQ(textMessage("linear_num_key_heads", 3),
            "text_config.linear_num_key_heads: is 3, which does not divide 4 "
            "linear_num_value_heads");
  EXPECT_EQ(textMessage("head_dim", 1048576),
            "text_config.head_dim: is 1048576, too large for 4 "
            "num_attention_heads");
  EXPECT_EQ(textMessage("rms_norm_eps", -1),
            "text_config.rms_norm_eps: is -1, expected a number of at least 0");
}

TEST_F(ConfigTest, KeysThatChangeTheMaths) {
  EXPECT_EQ(textMessage("attention_bias", true),
            "text_config.attention_bias: is true, expected false");
  EXPECT_EQ(textMessage("hidden_act", "gelu"),
            "text_config.hidden_act: is \"gelu\", expected 'silu'");
  EXPECT_EQ(textMessage("attn_output_gate", false),
            "text_config.attn_output_gate: is false, expected true");
  EXPECT_EQ(textMessage("output_gate_type", "sigmoid"),
            "text_config.output_gate_type: is \"sigmoid\", expected 'swish'");
  EXPECT_EQ(textMessage("mlp_only_layers", {1}),
            "text_config.mlp_only_layers: is an array of 1, expected nothing: "
            "it is not supported");
  EXPECT_EQ(textMessage("final_logit_softcapping", 30.0),
            "text_config.final_logit_softcapping: is 30.0, expected nothing: "
            "it is not supported");
  // What 27B files have beside the rest.
  EXPECT_EQ(targetMessage([](json &c) {
              c["text_config"]["output_gate_type"] = "swish";
              c["text_config"]["mlp_only_layers"] = json::array();
              c["text_config"]["attn_output_gate"] = true;
            }),
            "");
}

TEST_F(ConfigTest, LayerTypes) { // P1.15, P1.27
  std::vector<std::string> types(8, "linear_attention");
  types[1] = "attention"; // the older name
  llvm::Expected<TargetConfig> config = readTarget([&](json &c) {
    c["text_config"]["layer_types"] = types;
    c["text_config"]["full_attention_interval"] = 2; // the list wins
  });
  ASSERT_TRUE(static_cast<bool>(config)) << toString(config.takeError());
  EXPECT_EQ(llvm::count(config->layerTypes, TargetConfig::Layer::FullAttention),
            1);

  config = readTarget([](json &c) {
    c["text_config"].erase("layer_types");
    c["text_config"]["full_attention_interval"] = 3;
  });
  ASSERT_TRUE(static_cast<bool>(config)) << toString(config.takeError());
  EXPECT_EQ(config->layerTypes[2], TargetConfig::Layer::FullAttention);
  EXPECT_EQ(config->layerTypes[3], TargetConfig::Layer::LinearAttention);

  EXPECT_EQ(textMessage("layer_types", {"linear_attention"}),
            "text_config.layer_types: has 1 entries for 8 num_hidden_layers");
  types[0] = "sliding_attention";
  EXPECT_EQ(textMessage("layer_types", types),
            "text_config.layer_types: has entry 'sliding_attention', expected "
            "'linear_attention' or 'full_attention'");
  EXPECT_EQ(targetMessage([](json &c) {
              c["text_config"].erase("layer_types");
              c["text_config"]["full_attention_interval"] = 0;
            }),
            "text_config.full_attention_interval: is 0, expected a whole "
            "number from 1 to 1024");
}

TEST_F(ConfigTest, RopeThetaMayStandAnywhere) { // P1.12
  // Takes the key away, then puts it where edit says.
  auto theta = [&](const Edit &edit) {
    return readTarget([&](json &c) {
      c["text_config"].erase("rope_parameters");
      edit(c);
    });
  };
  for (const Edit &edit : std::vector<Edit>{
           [](json &c) { c["rope_theta"] = 100000; },
           [](json &c) { c["text_config"]["rope_theta"] = 1e5; },
           [](json &c) {
             c["text_config"]["rope_scaling"] = {{"type", "default"},
                                                 {"rope_theta", 1e5}};
           },
           [](json &c) {
             c["text_config"]["rope_parameters"] = {{"rope_theta", 100000}};
             c["rope_theta"] = 1e5;
           }}) {
    llvm::Expected<TargetConfig> config = theta(edit);
    ASSERT_TRUE(static_cast<bool>(config)) << toString(config.takeError());
    EXPECT_EQ(config->ropeTheta, 1e5);
    EXPECT_EQ(config->rotaryDim, 16);
  }
  auto message = [&](const Edit &edit) {
    return getMessage(theta(edit), directory.getPath("config.json: "));
  };
  EXPECT_EQ(message([](json &) {}),
            "text_config.rope_theta: is missing, also in rope_parameters");
  EXPECT_EQ(message([](json &c) {
              c["text_config"]["rope_theta"] = 1e5;
              c["rope_theta"] = 10000;
            }),
            "rope_theta: is 10000, but text_config.rope_theta is 100000.0");
}

TEST_F(ConfigTest, OtherRopeIsRefused) { // P1.12
  auto message = [&](const std::string &key, const json &value) {
    return targetMessage(
        [&](json &c) { c["text_config"]["rope_parameters"][key] = value; });
  };
  EXPECT_EQ(message("rope_type", "yarn"),
            "text_config.rope_parameters.rope_type: is \"yarn\", expected "
            "'default' or 'mrope'");
  EXPECT_EQ(message("factor", 4.0),
            "text_config.rope_parameters.factor: is not supported");
  EXPECT_EQ(message("partial_rotary_factor", 0.5),
            "text_config.rope_parameters.partial_rotary_factor: is 0.5, but "
            "text_config.partial_rotary_factor is 0.25");
  EXPECT_EQ(targetMessage([](json &c) {
              c["text_config"].erase("partial_rotary_factor");
              c["text_config"]["rope_parameters"]["partial_rotary_factor"] = 2;
            }),
            "text_config.partial_rotary_factor: gives 128 rotated columns of "
            "64, expected an even part of them");
  EXPECT_EQ(targetMessage([](json &c) {
              c["text_config"].erase("rope_parameters");
              c["text_config"]["rope_theta"] = 10000;
              c["text_config"]["partial_rotary_factor"] = 1e50;
            }),
            "text_config.partial_rotary_factor: gives 6.4e+51 rotated columns "
            "of 64, expected an even part of them");
}

TEST_F(ConfigTest, BrokenFiles) {
  EXPECT_NE(
      getMessage(TargetConfig::read(directory.getPath()), directory.getPath())
          .find("/config.json: "),
      std::string::npos);
  auto message = [&](const std::string &text) {
    directory.write("config.json", text);
    return getMessage(TargetConfig::read(directory.getPath()),
                      directory.getPath("config.json: "));
  };
  EXPECT_EQ(message(""), "is empty");
  EXPECT_EQ(message("{\"a\":1,\"a\":2}"), "duplicate key 'a'");
  EXPECT_EQ(message("{\n\"a\":}"), "line 2, byte 7: is not JSON");
  EXPECT_EQ(message("[1]"), "holds an array of 1, expected an object");
  EXPECT_EQ(message(std::string("{}\0", 3)), "holds a NUL byte, expected JSON");
  EXPECT_EQ(message("{\"a\":" + std::string(100000, '[')),
            "is nested more than 64 deep");
  EXPECT_EQ(targetMessage([](json &c) { c["text_config"] = 1; }),
            "text_config: is 1, expected an object");
}

//===----------------------------------------------------------------------===//
// quantization_config
//===----------------------------------------------------------------------===//

TEST_F(ConfigTest, OtherQuantizationIsRefused) {
  auto message = [&](const std::string &key, const json &value) {
    return targetMessage(
        [&](json &c) { c["quantization_config"][key] = value; });
  };
  EXPECT_EQ(message("quant_method", "bitsandbytes"),
            "quantization_config.quant_method: is \"bitsandbytes\", expected "
            "'compressed-tensors' or 'awq' or 'gptq' or 'fp8'");
  EXPECT_EQ(message("quant_method", nullptr),
            "quantization_config.quant_method: is missing");
  EXPECT_EQ(message("format", "nvfp4-pack-quantized"),
            "quantization_config.format: is \"nvfp4-pack-quantized\", expected "
            "'pack-quantized'");
  EXPECT_EQ(message("kv_cache_scheme", {{"num_bits", 8}}),
            "quantization_config.kv_cache_scheme: is an object of 1, expected "
            "nothing: it is not supported");
  EXPECT_EQ(message("sparsity_config", json::object()), "");
  EXPECT_EQ(message("config_groups", json::object()),
            "quantization_config.config_groups: is missing or empty");
  EXPECT_EQ(message("ignore", {"re:("}),
            "quantization_config.ignore: 're:(' is not a regular expression: "
            "missing closing parenthesis");

  std::string weights = "quantization_config.config_groups.group_0.weights.";
  EXPECT_EQ(weightsMessage("num_bits", 8), "");
  EXPECT_EQ(weightsMessage("num_bits", 3),
            weights + "num_bits: is 3, expected 4 or 8");
  EXPECT_EQ(weightsMessage("type", "float"),
            weights + "type: is \"float\", expected 'int'");
  EXPECT_EQ(weightsMessage("symmetric", false), "");
  EXPECT_EQ(weightsMessage("strategy", "block"),
            weights + "strategy: is \"block\", expected 'group' or 'channel' "
                      "or 'tensor'");
  EXPECT_EQ(weightsMessage("group_size", nullptr),
            weights + "group_size: is missing");
  EXPECT_EQ(weightsMessage("actorder", "group"), ""); // g_idx decides
  EXPECT_EQ(weightsMessage("actorder", "random"),
            weights + "actorder: is \"random\", expected 'group' or 'weight' "
                      "or 'static'");
  EXPECT_EQ(weightsMessage("actorder", "static"), "");
  EXPECT_EQ(targetMessage([](json &c) {
              c["quantization_config"]["config_groups"]["group_0"]
               ["input_activations"] = {{"num_bits", 8}};
            }),
            "quantization_config.config_groups.group_0.input_activations: is "
            "an object of 1, expected nothing: it is not supported");
}

TEST_F(ConfigTest, OtherMethods) {
  auto message = [&](const json &section, const std::string &key,
                     const json &value) {
    return targetMessage([&](json &c) {
      c["quantization_config"] = section;
      c["quantization_config"][key] = value;
    });
  };
  const json awq = {{"quant_method", "awq"},
                    {"bits", 4},
                    {"group_size", 128},
                    {"version", "gemm"},
                    {"zero_point", true}};
  EXPECT_EQ(message(awq, "modules_to_not_convert", nullptr), "");
  EXPECT_EQ(message(awq, "group_size", -1), "");
  EXPECT_EQ(message(awq, "bits", 8),
            "quantization_config.bits: is 8, expected 4");
  EXPECT_EQ(message(awq, "version", "gemv"),
            "quantization_config.version: is \"gemv\", expected 'gemm' or "
            "'GEMM'");
  EXPECT_EQ(message(awq, "zero_point", false),
            "quantization_config.zero_point: is false, expected true");
  EXPECT_EQ(message(awq, "group_size", 0),
            "quantization_config.group_size: is 0, expected -1 or a number of "
            "columns");

  const json gptq = {{"quant_method", "gptq"},
                     {"bits", 4},
                     {"group_size", 128},
                     {"desc_act", false},
                     {"sym", true}};
  EXPECT_EQ(message(gptq, "dynamic", {{"-:.*lm_head.*", json::object()}}), "");
  EXPECT_EQ(message(gptq, "checkpoint_format", "gptq_v2"), "");
  EXPECT_EQ(message(gptq, "bits", 3),
            "quantization_config.bits: is 3, expected 4 or 8");
  EXPECT_EQ(message(gptq, "checkpoint_format", "marlin"),
            "quantization_config.checkpoint_format: is \"marlin\", expected "
            "'gptq' or 'gptq_v2'");
  EXPECT_EQ(message(gptq, "dynamic", {{"+:.*mlp.*", {{"bits", 8}}}}),
            "quantization_config.dynamic.+:.*mlp.*: gives some modules a "
            "format of their own, which is not supported");

  const json fp8 = {{"quant_method", "fp8"},
                    {"fmt", "e4m3"},
                    {"activation_scheme", "dynamic"},
                    {"weight_block_size", {128, 128}}};
  EXPECT_EQ(message(fp8, "modules_to_not_convert", {"lm_head"}), "");
  EXPECT_EQ(message(fp8, "fmt", "e5m2"),
            "quantization_config.fmt: is \"e5m2\", expected 'e4m3'");
  EXPECT_EQ(message(fp8, "activation_scheme", "static"),
            "quantization_config.activation_scheme: is \"static\", expected "
            "'dynamic'");
  EXPECT_EQ(message(fp8, "weight_block_size", nullptr),
            "quantization_config.weight_block_size: is missing");
  EXPECT_EQ(message(fp8, "weight_block_size", {128}),
            "quantization_config.weight_block_size: has 1 entries, expected 2");
}

/// P1.03: a part of a name is some of its components.
TEST_F(ConfigTest, ModulesThatAreNotConverted) {
  llvm::Expected<TargetConfig> config = readTarget([](json &c) {
    c["quantization_config"] = {
        {"quant_method", "awq"},
        {"bits", 4},
        {"group_size", 128},
        {"zero_point", true},
        {"modules_to_not_convert", {"layers.1", "linear_attn.in_proj_a"}}};
  });
  ASSERT_TRUE(static_cast<bool>(config)) << toString(config.takeError());
  const QuantizationConfig &quantization = *config->quantization;
  EXPECT_TRUE(quantization.isIgnored({"model.layers.1.mlp.up_proj"}));
  EXPECT_FALSE(quantization.isIgnored({"model.layers.10.mlp.up_proj"}));
  EXPECT_TRUE(quantization.isIgnored({"layers.4.linear_attn.in_proj_a"}));
  EXPECT_FALSE(quantization.isIgnored({"layers.4.linear_attn.in_proj_all"}));
}

TEST_F(ConfigTest, QuantizationTargets) { // P1.02
  auto group = [](const std::string &target, const json &size) {
    return json{{"targets", {target}},
                {"weights",
                 {{"num_bits", 4},
                  {"type", "int"},
                  {"symmetric", true},
                  {"strategy", size.is_null() ? "channel" : "group"},
                  {"group_size", size}}}};
  };
  llvm::Expected<TargetConfig> config = readTarget([&](json &c) {
    json &section = c["quantization_config"];
    section["config_groups"] = {
        {"a", group("Linear", 32)},
        {"b", group("re:.*down_proj", 64)},
        {"c", group("layers.1.mlp.down_proj", nullptr)}};
    section["ignore"] = {"re:.*self_attn.*", "layers.1"};
  });
  ASSERT_TRUE(static_cast<bool>(config)) << toString(config.takeError());
  const QuantizationConfig &quantization = *config->quantization;
  auto groupOf = [&](const std::string &name) {
    const PackedFormat *format = quantization.find({name});
    return format ? format->group : -1;
  };
  // The most specific match counts, whatever the order.
  EXPECT_EQ(groupOf("layers.0.mlp.up_proj"), 32);
  EXPECT_EQ(groupOf("layers.0.mlp.down_proj"), 64);
  EXPECT_EQ(groupOf("layers.1.mlp.down_proj"), 0);
  EXPECT_TRUE(quantization.isIgnored({"model.layers.3.self_attn.q_proj"}));
  EXPECT_FALSE(quantization.isIgnored({"layers.10"}));
}

/// A pattern that takes forever is a pattern that does not match.
TEST_F(ConfigTest, PatternsCannotHang) { // P1.02
  llvm::Expected<TargetConfig> config = readTarget([](json &c) {
    c["quantization_config"]["ignore"] = {"re:(a*)*(a*)*(a*)*b"};
  });
  ASSERT_TRUE(static_cast<bool>(config)) << toString(config.takeError());
  EXPECT_FALSE(config->quantization->isIgnored({std::string(200, 'a')}));
}

//===----------------------------------------------------------------------===//
// The drafter
//===----------------------------------------------------------------------===//

TEST_F(ConfigTest, ReadsDrafter) {
  llvm::Expected<DrafterConfig> config = readDrafter();
  ASSERT_TRUE(static_cast<bool>(config)) << toString(config.takeError());
  EXPECT_EQ(config->blockSize, 16);
  EXPECT_EQ(config->maskToken, 999);
  EXPECT_EQ(config->targetLayers, (std::vector<int64_t>{1, 3, 5}));
  EXPECT_EQ(config->rotaryDim, 32); // the whole head
  EXPECT_EQ(config->embeddingScale, 1);
  ASSERT_EQ(config->layerTypes.size(), 3u);
  EXPECT_TRUE(config->layerTypes[0].sliding);
  EXPECT_EQ(config->layerTypes[0].window, 64);
  EXPECT_FALSE(config->layerTypes[0].causal); // is_causal is false
  EXPECT_EQ(config->layerTypes[2].window, std::nullopt);
}

TEST_F(ConfigTest, DrafterKeysMayBeFlatOrNested) { // P1.27
  llvm::Expected<DrafterConfig> config = readDrafter([](json &c) {
    c["target_layer_ids"] = c["dflash_config"]["target_layer_ids"];
    c["mask_token_id"] = 999;
    c.erase("dflash_config");
    c["input_embedding_scale"] = 2;
    c["block_size"] = nullptr;
  });
  ASSERT_TRUE(static_cast<bool>(config)) << toString(config.takeError());
  EXPECT_EQ(config->targetLayers, (std::vector<int64_t>{1, 3, 5}));
  EXPECT_EQ(config->embeddingScale, 2);
  EXPECT_EQ(config->blockSize, 16); // the default

  config = readDrafter([](json &c) {
    c["dflash_config"]["block_size"] = 8;
    c["dflash_config"]["output_multiplier"] = nullptr;
    c["dflash_config"]["final_logit_softcapping"] = nullptr;
    c["target_layer_ids"] = {0}; // dflash_config comes first
  });
  ASSERT_TRUE(static_cast<bool>(config)) << toString(config.takeError());
  EXPECT_EQ(config->blockSize, 8);
  EXPECT_EQ(config->targetLayers, (std::vector<int64_t>{1, 3, 5}));
}

TEST_F(ConfigTest, DrafterCausality) { // P3.05
  auto causal = [&](const Edit &edit) {
    llvm::Expected<DrafterConfig> config = readDrafter(edit);
    EXPECT_TRUE(static_cast<bool>(config));
    return std::make_pair(config->layerTypes[0].causal,
                          config->layerTypes[2].causal);
  };
  using Pair = std::pair<bool, bool>;
  // Sliding layers are causal and full ones are not, unless the file says so.
  EXPECT_EQ(causal([](json &c) { c.erase("is_causal"); }), Pair(true, false));
  EXPECT_EQ(causal([](json &c) { c["is_causal"] = nullptr; }),
            Pair(true, false));
  EXPECT_EQ(causal([](json &c) { c["is_causal"] = true; }), Pair(true, true));
  EXPECT_EQ(causal([](json &c) {
              c.erase("is_causal");
              c["dflash_config"]["causal"] = false;
            }),
            Pair(false, false));
  EXPECT_EQ(dflashMessage("causal", true),
            "dflash_config.causal: is true, but is_causal is false");
}

TEST_F(ConfigTest, DrafterLayers) {
  llvm::Expected<DrafterConfig> config = readDrafter([](json &c) {
    c.erase("layer_types");
    c["sliding_window"] = nullptr;
    c["use_sliding_window"] = false;
  });
  ASSERT_TRUE(static_cast<bool>(config)) << toString(config.takeError());
  EXPECT_TRUE(llvm::none_of(config->layerTypes, [](const auto &layer) {
    return layer.sliding || layer.causal || layer.window;
  }));
  EXPECT_EQ(drafterMessage([](json &c) {
              c.erase("layer_types");
              c["max_window_layers"] = 1;
            }),
            "layer_types: is missing, but use_sliding_window is true");
  EXPECT_EQ(drafterMessage("sliding_window", nullptr),
            "sliding_window: is missing, but layer_types has "
            "'sliding_attention'");
  EXPECT_EQ(drafterMessage("sliding_window", 0),
            "sliding_window: is 0, expected a whole number from 1 to "
            "1073741824");
  EXPECT_EQ(drafterMessage("layer_types", {"full_attention"}),
            "layer_types: has 1 entries for 3 num_hidden_layers");
  EXPECT_EQ(drafterMessage("layer_types", {"full_attention", "x", "y"}),
            "layer_types: has entry 'x', expected 'sliding_attention' or "
            "'full_attention'");
}

TEST_F(ConfigTest, DrafterRope) { // P3.09
  EXPECT_EQ(drafterMessage("rope_theta", nullptr),
            "rope_theta: is missing, also in rope_parameters");
  EXPECT_EQ(drafterMessage("rope_scaling", {{"rope_type", "yarn"}}),
            "rope_scaling.rope_type: is \"yarn\", expected 'default' or "
            "'mrope'");
  EXPECT_EQ(drafterMessage("rope_parameters",
                           {{"rope_theta", 1e5}, {"rope_type", "default"}}),
            "");
  EXPECT_EQ(drafterMessage("partial_rotary_factor", 0.5),
            "partial_rotary_factor: rotates 16 columns of 32, expected all");
}

TEST_F(ConfigTest, DrafterNumbers) { // P3.07
  EXPECT_EQ(drafterMessage("block_size", 1),
            "block_size: is 1, expected a whole number from 2 to 1024");
  EXPECT_EQ(dflashMessage("mask_token_id", nullptr),
            "mask_token_id: is missing");
  EXPECT_EQ(dflashMessage("mask_token_id", -1),
            "dflash_config.mask_token_id: is -1, expected a whole number from "
            "0 to 1023");
  EXPECT_EQ(dflashMessage("mask_token_id", 1024),
            "dflash_config.mask_token_id: is 1024, expected a whole number "
            "from 0 to 1023");
  EXPECT_EQ(dflashMessage("mask_token_id", 1023), ""); // the padded tail
  EXPECT_EQ(dflashMessage("target_layer_ids", nullptr),
            "target_layer_ids: is missing or empty");
  EXPECT_EQ(dflashMessage("target_layer_ids", {1, 3, 1}),
            "dflash_config.target_layer_ids: names layer 1 twice");
  EXPECT_EQ(dflashMessage("target_layer_ids", {1, -3}),
            "dflash_config.target_layer_ids: is -3, expected whole numbers "
            "from 0 to 1023");
}

TEST_F(ConfigTest, OtherDraftersAreRefused) { // P1.26
  EXPECT_EQ(drafterMessage("architectures", {"DFlash2DraftModel"}),
            "architectures: is 'DFlash2DraftModel', supported here: "
            "DFlashDraftModel");
  EXPECT_EQ(drafterMessage("architectures", {"LlamaForCausalLMEagle3"}),
            "architectures: is 'LlamaForCausalLMEagle3', supported here: "
            "DFlashDraftModel");
  auto foreign = [](const std::string &key, const std::string &value,
                    const std::string &kind) {
    return key + ": is " + value + ", which means " + kind +
           "; that is not supported";
  };
  EXPECT_EQ(
      dflashMessage("conv_kernel_size", 4),
      foreign("dflash_config.conv_kernel_size", "4", "a DFlash 2 drafter"));
  EXPECT_EQ(drafterMessage("gru_hidden_dim", 64),
            foreign("gru_hidden_dim", "64", "a Domino drafter"));
  EXPECT_EQ(dflashMessage("projector_type", "dspark"),
            foreign("dflash_config.projector_type", "\"dspark\"",
                    "a drafter of another kind"));
  EXPECT_EQ(dflashMessage("use_swa", true),
            foreign("dflash_config.use_swa", "true", "windows on every layer"));
  EXPECT_EQ(dflashMessage("use_swa", false), "");
  EXPECT_EQ(dflashMessage("something_new", 1),
            "dflash_config.something_new: is not supported");
  EXPECT_EQ(dflashMessage("something_new", nullptr), "");
  EXPECT_EQ(dflashMessage("output_multiplier", 2.0),
            "dflash_config.output_multiplier: is 2.0, expected 1");
  EXPECT_EQ(drafterMessage("final_logit_softcapping", 30.0),
            "final_logit_softcapping: is 30.0, expected nothing: it is not "
            "supported");
  EXPECT_EQ(drafterMessage("draft_vocab_size", 512),
            "draft_vocab_size: is 512, expected the vocab_size, 1024");
}

//===----------------------------------------------------------------------===//
// Stop tokens
//===----------------------------------------------------------------------===//

namespace {

class StopTokensTest : public testing::Test {
protected:
  EditableCheckpoint files = EditableCheckpoint::readTiny("target-w4a16");
  TempDirectory directory;

  llvm::Expected<std::vector<int32_t>> read() {
    files.write(directory);
    llvm::Expected<TargetConfig> config =
        TargetConfig::read(directory.getPath());
    if (!config)
      return config.takeError();
    return readStopTokens(directory.getPath(), *config);
  }
  std::vector<int32_t> readTokens() {
    llvm::Expected<std::vector<int32_t>> tokens = read();
    if (tokens)
      return *tokens;
    ADD_FAILURE() << toString(tokens.takeError());
    return {};
  }
  std::string message() {
    return getMessage(read(), directory.getPath() + "/");
  }
  using Tokens = std::vector<int32_t>;
};

} // namespace

TEST_F(StopTokensTest, AllFilesCount) { // P6.09
  EXPECT_EQ(readTokens(), Tokens({995, 993}));
  files.files["generation_config.json"]["eos_token_id"] = 7;
  EXPECT_EQ(readTokens(), Tokens({7, 993, 995}));
  files.config()["eos_token_id"] = {8, 9};
  EXPECT_EQ(readTokens(), Tokens({7, 8, 9, 993, 995}));
}

TEST_F(StopTokensTest, FilesMayBeMissing) {
  files.files.erase("generation_config.json");
  EXPECT_EQ(readTokens(), Tokens({993, 995}));
  files.files.erase("tokenizer_config.json");
  std::remove(directory.getPath("generation_config.json").c_str());
  std::remove(directory.getPath("tokenizer_config.json").c_str());
  EXPECT_EQ(readTokens(), Tokens({993}));
}

TEST_F(StopTokensTest, TokenizerToken) {
  json &config = files.files["tokenizer_config.json"];
  config["eos_token"] = {{"content", "<|im_start|>"}};
  EXPECT_EQ(readTokens(), Tokens({995, 993, 994}));
  // Some added tokens stand in tokenizer_config.json only.
  config["eos_token"] = "<end>";
  config["added_tokens_decoder"]["1000"] = {{"content", "<end>"}};
  EXPECT_EQ(readTokens(), Tokens({995, 993, 1000}));
  config["added_tokens_decoder"] = {{"1024", {{"content", "<end>"}}}};
  EXPECT_EQ(message(), "tokenizer.json: eos_token has id 1024, expected less "
                       "than the 1024 of vocab_size");
  config["added_tokens_decoder"] = nullptr;
  EXPECT_EQ(message(), "tokenizer_config.json: eos_token: is '<end>', which "
                       "tokenizer.json does not know");
  config["eos_token"] = 3;
  EXPECT_EQ(message(),
            "tokenizer_config.json: eos_token: is 3, expected a token");
}

TEST_F(StopTokensTest, TokensAreInTheVocabulary) {
  files.files["generation_config.json"]["eos_token_id"] = {1, 1024};
  EXPECT_EQ(message(), "generation_config.json: eos_token_id: is 1024, "
                       "expected whole numbers from 0 to 1023");
}
