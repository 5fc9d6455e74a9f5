//===- SizesTest.cpp - All sizes of the family ----------------------------===//
//
// Configurations with the published sizes of Qwen3.5 and Qwen3.6, imported
// without tensors. The parameters of each are those that its checkpoint is
// known to have, so that no matrix has another shape and none is missing. The
// drafters are the two published for the 4B model.
//
//===----------------------------------------------------------------------===//

#include "dialects/lm/LmDialect.h"
#include "models/Importer.h"
#include "test/models/TestFiles.h"

#include "mlir/IR/BuiltinAttributes.h"

#include <fstream>
#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::models;
using nlohmann::json;

namespace {

struct Size {
  const char *name;
  int64_t hidden, layers, heads, kvHeads, intermediate, valueHeads;
  bool tied;
  int64_t parameters;
};

void PrintTo(const Size &size, std::ostream *os) { *os << size.name; }

json readConfig(const std::string &model) {
  std::ifstream file(TANDEM_SOURCE_DIR "/test/Inputs/qwen3.5-4b/" + model +
                     "/config.json");
  return json::parse(file);
}

json makeTarget(const Size &size) {
  json config = readConfig("target-w4a16");
  config.erase("quantization_config");
  config["tie_word_embeddings"] = size.tied;
  json &text = config["text_config"];
  text["tie_word_embeddings"] = size.tied;
  text["hidden_size"] = size.hidden;
  text["num_hidden_layers"] = size.layers;
  text["num_attention_heads"] = size.heads;
  text["num_key_value_heads"] = size.kvHeads;
  text["intermediate_size"] = size.intermediate;
  text["linear_num_value_heads"] = size.valueHeads;
  return config;
}

/// The facts of the pair, or the error.
std::map<std::string, std::string> import(const json &target,
                                          const json *drafter) {
  TempDirectory targetDir, drafterDir;
  targetDir.write("config.json", target.dump());
  ImportOptions options;
  options.targetDir = targetDir.getPath();
  if (drafter) {
    drafterDir.write("config.json", drafter->dump());
    options.drafterDir = drafterDir.getPath();
  }
  options.syntheticSeed = 1;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = importPair(context, options);
  if (!module)
    return {{"error", llvm::toString(module.takeError())}};
  std::map<std::string, std::string> facts;
  for (mlir::NamedAttribute fact :
       (**module)->getAttrOfType<mlir::DictionaryAttr>(
           lm::LmDialect::kFactsAttrName)) {
    std::string text;
    llvm::raw_string_ostream os(text);
    if (auto string = llvm::dyn_cast<mlir::StringAttr>(fact.getValue()))
      os << string.getValue();
    else if (auto integer = llvm::dyn_cast<mlir::IntegerAttr>(fact.getValue()))
      os << integer.getInt();
    facts[fact.getName().str()] = text;
  }
  return facts;
}

} // namespace

class SizesTest : public testing::TestWithParam<Size> {};

INSTANTIATE_TEST_SUITE_P(
    Family, SizesTest,
    testing::Values(
        Size{"0.8B", 1024, 24, 8, 2, 3584, 16, true, 752'393'024},
        Size{"2B", 2048, 24, 8, 2, 6144, 16, true, 1'881'825'088},
        Size{"4B", 2560, 32, 16, 4, 9216, 32, true, 4'205'751'296},
        Size{"9B", 4096, 32, 16, 4, 12288, 32, false, 8'953'803'264},
        Size{"27B", 5120, 64, 24, 4, 17408, 48, false, 26'895'998'464}),
    [](const testing::TestParamInfo<Size> &info) {
      std::string name = info.param.name;
      std::replace(name.begin(), name.end(), '.', '_');
      return "Qwen" + name;
    });

TEST_P(SizesTest, HasTheParametersOfItsCheckpoint) {
  auto facts = import(makeTarget(GetParam()), nullptr);
  EXPECT_EQ(facts["error"], "");
  EXPECT_EQ(facts["target.parameters"], std::to_string(GetParam().parameters));
}

// 5 layers of full attention, and 5 sliding ones with a full one behind them,
// whose keys are nested.
TEST(DrafterSizesTest, HaveTheParametersOfTheirCheckpoints) {
  json target = readConfig("target-w4a16");
  json older = readConfig("drafter-w4a16");
  older.erase("quantization_config");
  auto facts = import(target, &older);
  EXPECT_EQ(facts["error"], "");
  EXPECT_EQ(facts["drafter.parameters"], "537427200");
  EXPECT_EQ(facts["drafter.layers"], "5 (5 bidirectional, full)");

  json current = older;
  for (const char *key : {"block_size", "rope_theta", "rope_scaling"})
    current.erase(key);
  current["num_hidden_layers"] = 6;
  current["intermediate_size"] = 9216;
  current["use_sliding_window"] = true;
  current["sliding_window"] = 4096;
  current["max_window_layers"] = 6;
  current["layer_types"] = json::array(
      {"sliding_attention", "sliding_attention", "sliding_attention",
       "sliding_attention", "sliding_attention", "full_attention"});
  current["rope_parameters"] = {{"rope_theta", 10000000},
                                {"rope_type", "default"}};
  current["dflash_config"] = {
      {"block_size", 16},
      {"mask_token_id", 248077},
      {"target_layer_ids", {1, 5, 9, 13, 17, 21, 25, 29}}};
  current["auto_map"] = {{"AutoModel", "dflash.DFlashDraftModel"}};
  facts = import(target, &current);
  EXPECT_EQ(facts["error"], "");
  EXPECT_EQ(facts["drafter.parameters"], "634425856");
  EXPECT_EQ(facts["drafter.layers"],
            "6 (5 causal, window 4096; 1 bidirectional, full)");
}
