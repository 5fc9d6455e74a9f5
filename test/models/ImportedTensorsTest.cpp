//===- ImportedTensorsTest.cpp - Tensors and formats, good and wrong ------===//

#include "test/models/ImporterTest.h"

using namespace tandem;
using namespace tandem::models;
using namespace mlir;
using nlohmann::json;

namespace {

class ImportedTensorsTest : public ImporterTest {};

} // namespace

//===----------------------------------------------------------------------===//
// Wrong tensors
//===----------------------------------------------------------------------===//

TEST_F(ImportedTensorsTest,
       MissingAndUnknownTensors) { // P1.22, P1.24, P1.28, P3.01
  std::string name = Prefix + "layers.3.mlp.up_proj.weight";
  EditableCheckpoint edited = target;
  edited.tensors.erase(name + "_packed");
  useTarget(edited);
  EXPECT_EQ(message(), "T: tensor '" + name + "' is missing");
  edited = target;
  edited.tensors.erase(name + "_scale");
  useTarget(edited);
  EXPECT_EQ(message(), "T: tensor '" + name +
                           "_scale' is missing, but the module's weight is "
                           "packed");
  edited = target;
  edited.tensors.erase(name + "_shape");
  useTarget(edited);
  EXPECT_EQ(message(), "T: tensor '" + name +
                           "_shape' is missing, but the module's weight is "
                           "packed");
  // The first packed module lacks what the section promises of all.
  std::string first = Prefix + "layers.0.linear_attn.in_proj_qkv.weight";
  auto messageOf = [&](const char *key, const nlohmann::json &value) {
    EditableCheckpoint promised = target;
    promised.config()["quantization_config"]["config_groups"]["group_0"]
                     ["weights"][key] = value;
    useTarget(promised);
    return message();
  };
  EXPECT_EQ(messageOf("symmetric", false),
            "T: tensor '" + first +
                "_zero_point' is missing, but the module is not symmetric");
  EXPECT_EQ(messageOf("actorder", "group"),
            "T: tensor '" + first +
                "_g_idx' is missing, but actorder in T/config.json is 'group'");
  edited = target;
  edited.tensors[Prefix + "layers.0.foo.weight"] = {"BF16", {1}, "ab"};
  useTarget(edited);
  EXPECT_EQ(message(), "T/model.safetensors: tensor '" + Prefix +
                           "layers.0.foo.weight' is not part of the model");
  edited = drafter;
  edited.tensors["d2t"] = {"U8", {1}, "a"};
  useTarget(target);
  useDrafter(edited);
  EXPECT_EQ(message(),
            "D/model.safetensors: tensor 'd2t' is not part of the model");
}

TEST_F(ImportedTensorsTest, WrongShapesAndTypes) {
  auto message = [&](const std::string &name,
                     const EditableCheckpoint::Tensor &tensor) {
    EditableCheckpoint edited = target;
    edited.tensors[Prefix + name] = tensor;
    useTarget(edited);
    return ImporterTest::message();
  };
  auto expected = [](const std::string &name, const std::string &text) {
    return "T/model.safetensors: tensor '" + Prefix + name + "' " + text;
  };
  EXPECT_EQ(message("norm.weight", {"BF16", {127}, std::string(254, '\0')}),
            expected("norm.weight",
                     "is BF16 [127], expected F32, BF16 or F16 [128]"));
  EXPECT_EQ(
      message("norm.weight", {"I8", {128}, std::string(128, '\0')}),
      expected("norm.weight", "is I8 [128], expected F32, BF16 or F16 [128]"));
  // MLX writes the convolution the other way round.
  std::string conv = "layers.0.linear_attn.conv1d.weight";
  EXPECT_EQ(message(conv, {"BF16", {256, 4, 1}, std::string(2048, '\0')}),
            expected(conv, "is BF16 [256, 4, 1], expected F32, BF16 or F16 "
                           "[256, 1, 4]"));
  std::string gate = "layers.0.mlp.gate_proj.weight";
  EXPECT_EQ(
      message(gate + "_packed",
              {"I32", {384, 15}, std::string(384 * 15 * 4, '\0')}),
      expected(gate + "_packed", "is I32 [384, 15], expected I32 [384, 16]"));
  EXPECT_EQ(message(gate + "_scale",
                    {"BF16", {384, 5}, std::string(384 * 5 * 2, '\0')}),
            expected(gate + "_scale", "is BF16 [384, 5], expected F32, BF16 or "
                                      "F16 [384, 4]"));
  std::string shape(16, '\0');
  shape[0] = shape[8] = 1;
  EXPECT_EQ(message(gate + "_shape", {"I64", {2}, shape}),
            expected(gate + "_shape", "holds [1, 1], expected [384, 128]"));
  // Norm and decay of the delta net are F32 in the official files.
  EXPECT_EQ(message("layers.0.linear_attn.A_log",
                    {"F32", {4}, std::string(16, '\0')}),
            "");
}

TEST_F(ImportedTensorsTest, ScalesAreFinite) { // P1.25
  std::string name = Prefix + "layers.0.mlp.gate_proj.weight_scale";
  auto message = [&](uint16_t bits) {
    EditableCheckpoint edited = target;
    std::string &bytes = edited.tensors[name].bytes;
    bytes[2 * 9] = static_cast<char>(bits);
    bytes[2 * 9 + 1] = static_cast<char>(bits >> 8);
    useTarget(edited);
    return ImporterTest::message();
  };
  std::string expected = "T/model.safetensors: tensor '" + name +
                         "' is infinite or not a number at [2, 1]";
  EXPECT_EQ(message(0x7f80), expected); // infinity
  EXPECT_EQ(message(0xffc1), expected); // NaN
  EXPECT_EQ(message(0x0000), "");
  EXPECT_EQ(message(0x0001), ""); // subnormal
  EXPECT_EQ(message(0x7f7f), ""); // the largest
}

TEST_F(ImportedTensorsTest, OtherFormatsOfAModule) { // P1.20
  std::string module = Prefix + "layers.3.self_attn.k_proj";
  auto message = [&](const std::string &suffix,
                     const EditableCheckpoint::Tensor &tensor) {
    EditableCheckpoint edited = target;
    edited.tensors[module + suffix] = tensor;
    useTarget(edited);
    return ImporterTest::message();
  };
  EXPECT_EQ(message(".weight_zero_point", {"I32", {1}, "abcd"}),
            "T: tensor '" + module +
                ".weight_zero_point' holds zero points, but T/config.json: "
                "quantization_config says symmetric");
  EXPECT_EQ(message(".qweight", {"I32", {1}, "abcd"}),
            "T: module '" + module + "' has both weight_packed and qweight");
  EXPECT_EQ(message(".bias", {"BF16", {1}, "ab"}),
            "T: tensor '" + module +
                ".bias' is a bias, which is not "
                "supported");
  EXPECT_EQ(message(".weight",
                    {"BF16", {128, 128}, std::string(128 * 128 * 2, '\0')}),
            "T: module '" + module + "' has both weight and weight_packed");
  // A group index that says nothing new is let pass.
  std::string unset(128 * 4, '\xff'), inOrder(128 * 4, '\0');
  for (int column = 0; column < 128; ++column)
    inOrder[4 * column] = static_cast<char>(column / 32);
  std::string reordered = inOrder;
  reordered[0] = 3;
  EXPECT_EQ(message(".weight_g_idx", {"I32", {128}, unset}), "");
  EXPECT_EQ(message(".weight_g_idx", {"I32", {128}, inOrder}), "");
  EXPECT_EQ(message(".weight_g_idx", {"I32", {128}, reordered}),
            "T/model.safetensors: tensor '" + module +
                ".weight_g_idx' reorders columns, which is not supported");
  reordered[0] = 4;
  EXPECT_EQ(message(".weight_g_idx", {"I32", {128}, reordered}),
            "T/model.safetensors: tensor '" + module +
                ".weight_g_idx' gives column 0 group 4, expected 0 to 3");
}

TEST_F(ImportedTensorsTest, OtherMethodsOfAModule) { // P1.16, P1.20
  // One module of a dense checkpoint is packed; zero is a fine code.
  std::string module = Prefix + "layers.3.self_attn.k_proj";
  EditableCheckpoint dense = EditableCheckpoint::readTiny("target-bf16");
  int64_t rows = dense.tensors.at(module + ".weight").shape[0];
  int64_t columns = dense.tensors.at(module + ".weight").shape[1];
  auto makeTensor = [](const char *dtype, int64_t height, int64_t width,
                       int64_t bytes) {
    return EditableCheckpoint::Tensor{
        dtype, {height, width}, std::string(height * width * bytes, '\0')};
  };
  using Tensors = std::map<std::string, EditableCheckpoint::Tensor>;
  auto message = [&](const nlohmann::json &section, const Tensors &tensors) {
    EditableCheckpoint edited = dense;
    edited.config()["quantization_config"] = section;
    edited.tensors.erase(module + ".weight");
    for (const auto &[suffix, tensor] : tensors)
      edited.tensors[module + suffix] = tensor;
    useTarget(edited);
    return ImporterTest::message();
  };
  std::string file = "T/model.safetensors: tensor '" + module;

  nlohmann::json section = {{"quant_method", "awq"},
                            {"bits", 4},
                            {"group_size", 32},
                            {"zero_point", true}};
  Tensors awq = {{".qweight", makeTensor("I32", columns, rows / 8, 4)},
                 {".qzeros", makeTensor("I32", columns / 32, rows / 8, 4)},
                 {".scales", makeTensor("F16", columns / 32, rows, 2)}};
  EXPECT_EQ(message(section, awq), "");
  Tensors edited = awq;
  edited.erase(".qzeros");
  EXPECT_EQ(message(section, edited),
            "T: tensor '" + module +
                ".qzeros' is missing, but the module's weight is packed");
  edited = awq;
  edited[".scales"].bytes[1] = 0x7c;
  EXPECT_EQ(message(section, edited),
            file + ".scales' is infinite or not a number at [0, 0]");
  section["group_size"] = 24;
  EXPECT_EQ(message(section, awq),
            "T/config.json: quantization_config: groups of 24 columns do not "
            "divide the " +
                std::to_string(columns) + " columns of module '" + module +
                "'");

  section = {{"quant_method", "gptq"},
             {"bits", 4},
             {"group_size", 32},
             {"sym", false}};
  Tensors gptq = {{".qweight", makeTensor("I32", columns / 8, rows, 4)},
                  {".qzeros", makeTensor("I32", columns / 32, rows / 8, 4)},
                  {".scales", makeTensor("F16", columns / 32, rows, 2)}};
  EXPECT_EQ(message(section, gptq), "");
  EXPECT_NE(message(section, awq), ""); // the other way round
  section["desc_act"] = true;
  EXPECT_EQ(message(section, gptq), "T: tensor '" + module +
                                        ".g_idx' is missing, but desc_act in "
                                        "T/config.json is true");
  section["desc_act"] = false;
  section["sym"] = true;
  EXPECT_EQ(message(section, gptq),
            file + ".qzeros' holds zero points other than 8, but sym in "
                   "T/config.json is true");
  // P1.16: symmetric is symmetric, whatever version the label says.
  for (char stored : {'\x77', '\x88'}) {
    edited = gptq;
    edited[".qzeros"].bytes.assign(edited[".qzeros"].bytes.size(), stored);
    EXPECT_EQ(message(section, edited), "");
  }

  section = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  auto blocks = [](int64_t size) { return (size + 127) / 128; };
  Tensors fp8 = {{".weight", makeTensor("F8_E4M3", rows, columns, 1)},
                 {".weight_scale_inv",
                  makeTensor("F32", blocks(rows), blocks(columns), 4)}};
  EXPECT_EQ(message(section, fp8), "");
  edited = fp8;
  edited[".weight"].bytes[columns + 1] = '\x7f';
  EXPECT_EQ(message(section, edited),
            file + ".weight' is infinite or not a number at [1, 1]");
  edited = fp8;
  edited.erase(".weight_scale_inv");
  EXPECT_EQ(message(section, edited),
            "T: tensor '" + module +
                ".weight_scale_inv' is missing, but the module's weight is "
                "packed");
  section = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 32}};
  EXPECT_EQ(message(section, fp8),
            "T/config.json: quantization_config.quant_method: is 'gptq', but "
            "module '" +
                module + "' has tensors of another method");
}

TEST_F(ImportedTensorsTest, PackedEmbedding) {
  EditableCheckpoint edited = target;
  auto node = edited.tensors.extract(Prefix + "embed_tokens.weight");
  node.key() += "_packed";
  edited.tensors.insert(std::move(node));
  useTarget(edited);
  EXPECT_EQ(message(), "T: tensor '" + Prefix +
                           "embed_tokens.weight' is missing; it is packed, "
                           "which is not supported here");
}

//===----------------------------------------------------------------------===//
// Configuration and tensors
//===----------------------------------------------------------------------===//

TEST_F(ImportedTensorsTest, TensorsDecideWhatIsPacked) { // P1.01
  // A dense module that the section targets, and a packed one that it ignores.
  std::string up = Prefix + "layers.0.mlp.up_proj.weight";
  for (const char *suffix : {"_packed", "_scale", "_shape"})
    target.tensors.erase(up + suffix);
  target.tensors[up] = {"BF16", {384, 128}, std::string(384 * 128 * 2, '\0')};
  target.config()["quantization_config"]["ignore"].push_back(
      "re:.*layers.0.mlp.down_proj");
  useTarget(target);
  OwningOpRef<ModuleOp> module = import();
  ASSERT_TRUE(module);
  EXPECT_EQ(
      warnings,
      Strings({"T/config.json: quantization_config: would pack 1 modules "
               "that are dense, such as '" +
                   Prefix + "layers.0.mlp.up_proj'; the tensors count",
               "T/config.json: quantization_config: ignores 1 modules "
               "that are packed, such as '" +
                   Prefix + "layers.0.mlp.down_proj'; the tensors count"}));
}

/// Exporters write the names of ignored modules with other prefixes.
TEST_F(ImportedTensorsTest, PrefixesOfPatternsDoNotMatter) { // P1.03
  json &ignore = target.config()["quantization_config"]["ignore"];
  ignore = json::array();
  for (int layer : {0, 1, 2, 4, 5, 6})
    for (const char *part : {"a", "b"})
      ignore.push_back(std::string("model.layers.") + std::to_string(layer) +
                       ".linear_attn.in_proj_" + part);
  useTarget(target);
  EXPECT_EQ(message(), "");
  EXPECT_EQ(warnings, Strings());
}

TEST_F(ImportedTensorsTest, PackedWithoutSection) {
  target.config().erase("quantization_config");
  useTarget(target);
  EXPECT_EQ(message(),
            "T/config.json: quantization_config: says nothing of module '" +
                Prefix + "layers.0.linear_attn.in_proj_qkv', which is packed");
}

TEST_F(ImportedTensorsTest, GroupsDivideColumns) { // P1.19
  target.config()["quantization_config"]["config_groups"]["group_0"]["weights"]
                 ["group_size"] = 48;
  useTarget(target);
  EXPECT_EQ(message(),
            "T/config.json: quantization_config: groups of 48 columns do not "
            "divide the 128 columns of module '" +
                Prefix + "layers.0.linear_attn.in_proj_qkv'");
}

TEST_F(ImportedTensorsTest, OneScalePerRow) { // P1.19
  json &weights = drafter.config()["quantization_config"]["config_groups"]
                                  ["group_0"]["weights"];
  weights["strategy"] = "channel";
  weights["group_size"] = nullptr;
  // down_proj has 384 columns and three groups; keep the first of each row.
  for (auto &[name, tensor] : drafter.tensors) {
    if (!llvm::StringRef(name).ends_with("down_proj.weight_scale"))
      continue;
    std::string first;
    for (int64_t row = 0; row < tensor.shape[0]; ++row)
      first += tensor.bytes.substr(row * tensor.shape[1] * 2, 2);
    tensor.bytes = first;
    tensor.shape[1] = 1;
  }
  useDrafter(drafter);
  OwningOpRef<ModuleOp> module = import();
  ASSERT_TRUE(module);
  auto facts = (*module)->getAttrOfType<DictionaryAttr>("lm.facts");
  EXPECT_EQ(facts.getAs<StringAttr>("drafter.quantization").getValue(),
            "int4, groups of 128 (18 modules); int4, groups of 384 (3 "
            "modules); 1 modules dense");
}
