//===- ImporterTest.cpp - Pairs, good and wrong ---------------------------===//

#include "test/models/ImporterTest.h"
#include "dialects/lm/LmOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

using namespace tandem;
using namespace tandem::models;
using namespace mlir;
using nlohmann::json;

namespace {

/// Names that \p attribute has on arguments, or on results, of \p function.
Strings getNames(func::FuncOp function, llvm::StringRef attribute,
                 bool results) {
  Strings names;
  unsigned count =
      results ? function.getNumResults() : function.getNumArguments();
  for (unsigned index = 0; index < count; ++index)
    if (auto name =
            results ? function.getResultAttrOfType<StringAttr>(index, attribute)
                    : function.getArgAttrOfType<StringAttr>(index, attribute))
      names.push_back(name.str());
  return names;
}

/// Distinct tensors of \p checkpoint that \p module refers to.
size_t countWeights(ModuleOp module, llvm::StringRef checkpoint) {
  llvm::StringSet<> names;
  module.walk([&](lm::WeightOp weight) {
    if (weight.getCheckpoint() == checkpoint)
      names.insert(weight.getName());
  });
  return names.size();
}

} // namespace

//===----------------------------------------------------------------------===//
// What is built
//===----------------------------------------------------------------------===//

TEST_F(ImporterTest, PortsAndStates) {
  OwningOpRef<ModuleOp> module = import();
  ASSERT_TRUE(module);
  struct Program {
    const char *name;
    Strings inputs, outputs;
    size_t states;
  };
  // The table of runtime/README.md. The target has 6 layers with two caches
  // and 2 with one, the drafter 3.
  const Program programs[] = {
      {"prefill",
       {"chunk", "chunk_count", "start", "accepted"},
       {"anchor", "chunk_features"},
       14},
      {"step",
       {"anchor", "start", "accepted"},
       {"anchor", "accepted", "start", "context_start", "step_features"},
       14},
      {"context", {"chunk_features", "chunk_count", "start"}, {}, 3},
      {"draft",
       {"anchor", "features", "accepted", "context_start", "start"},
       {"block"},
       3},
      {"verify",
       {"block", "block_count", "start", "accepted"},
       {"decided", "features"},
       14},
      {"accept",
       {"block", "decided", "block_count", "start"},
       {"accepted", "anchor", "start", "context_start"},
       0},
      {"score",
       {"score_tokens", "score_count", "start", "accepted"},
       {"score_logits", "score_features"},
       14},
      {"score_draft",
       {"anchor", "features", "accepted", "context_start", "start"},
       {"block", "draft_logits"},
       3},
      {"prefill_logits",
       {"chunk", "chunk_count", "start", "accepted"},
       {"anchor", "chunk_features", "anchor_logits"},
       14},
      {"step_logits",
       {"anchor", "start", "accepted"},
       {"anchor", "accepted", "start", "context_start", "step_features",
        "anchor_logits"},
       14},
      {"verify_logits",
       {"block", "block_count", "start", "accepted"},
       {"decided", "features", "logits"},
       14},
  };
  std::map<std::string, Type> ports, states;
  for (const Program &program : programs) {
    auto function = module->lookupSymbol<func::FuncOp>(program.name);
    ASSERT_TRUE(function) << program.name;
    EXPECT_EQ(getNames(function, "lm.port", false), program.inputs);
    EXPECT_EQ(getNames(function, "lm.port", true), program.outputs);
    Strings caches = getNames(function, "lm.state", false);
    EXPECT_EQ(caches.size(), program.states) << program.name;
    EXPECT_EQ(getNames(function, "lm.state", true), caches);
    // One name, one type, wherever it stands.
    for (auto [index, type] : llvm::enumerate(function.getArgumentTypes())) {
      auto port = function.getArgAttrOfType<StringAttr>(index, "lm.port");
      auto state = function.getArgAttrOfType<StringAttr>(index, "lm.state");
      auto &table = port ? ports : states;
      std::string name = (port ? port : state).str();
      EXPECT_EQ(table.try_emplace(name, type).first->second, type) << name;
    }
    for (auto [index, type] : llvm::enumerate(function.getResultTypes())) {
      auto port = function.getResultAttrOfType<StringAttr>(index, "lm.port");
      if (port) {
        EXPECT_EQ(ports.try_emplace(port.str(), type).first->second, type);
      }
    }
  }
  auto print = [](Type type) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    return text;
  };
  EXPECT_EQ(print(ports["chunk"]), "tensor<64xi32>");
  EXPECT_EQ(print(ports["features"]), "tensor<16x384xf32>");
  EXPECT_EQ(print(ports["draft_logits"]), "tensor<15x1024xf32>");
  EXPECT_EQ(print(states["layers.3.kv"]), "!lm.kv_cache<8208x2x64xf32>");
  EXPECT_EQ(print(states["draft.layers.2.kv"]), "!lm.kv_cache<8208x2x32xf32>");
  EXPECT_EQ(print(states["layers.0.conv"]),
            "!lm.conv_cache<taps = 4, channels = 256, pending = 16>");
  EXPECT_EQ(print(states["layers.0.delta"]),
            "!lm.delta_cache<heads = 4, key_heads = 2, key_dim = 32, "
            "value_dim = 32, pending = 16>");
}

TEST_F(ImporterTest, Speculate) {
  OwningOpRef<ModuleOp> module = import();
  ASSERT_TRUE(module);
  auto loops = module->getOps<lm::SpeculateOp>();
  ASSERT_EQ(std::distance(loops.begin(), loops.end()), 1);
  lm::SpeculateOp loop = *loops.begin();
  EXPECT_EQ(loop.getBlock(), 16u);
  EXPECT_EQ(loop.getMaxContext(), 8192u);
  EXPECT_EQ(loop.getVocabulary(), 1024u);
  EXPECT_EQ(loop.getStopTokens(), llvm::ArrayRef<int32_t>({995, 993}));
}

TEST_F(ImporterTest, EveryTensorIsUsed) { // P3.01
  OwningOpRef<ModuleOp> module = import();
  ASSERT_TRUE(module);
  // All but the weight_shape of packed modules, and 4 tensors of the vision
  // tower and the multi-token head.
  auto countUsed = [](const EditableCheckpoint &files) {
    return llvm::count_if(files.tensors, [](const auto &tensor) {
      return !llvm::StringRef(tensor.first).ends_with(".weight_shape");
    });
  };
  EXPECT_EQ(countWeights(*module, "target"), size_t(countUsed(target)) - 4);
  EXPECT_EQ(countWeights(*module, "drafter"), size_t(countUsed(drafter)));
  EXPECT_TRUE(warnings.empty());
}

TEST_F(ImporterTest, Bf16Pair) {
  options.targetDir = TinyDir + "target-bf16";
  options.drafterDir = TinyDir + "drafter-bf16";
  OwningOpRef<ModuleOp> module = import();
  ASSERT_TRUE(module);
  // 6 x 14 + 2 x 11 + 2 and 3 + 3 x 11, as in the tensor counts of the real
  // models.
  EXPECT_EQ(countWeights(*module, "target"), 108u);
  EXPECT_EQ(countWeights(*module, "drafter"), 36u);
  EXPECT_TRUE(
      module->walk([](lm::DequantOp) { return WalkResult::interrupt(); })
          .wasInterrupted() == false);
}

TEST_F(ImporterTest, Attributes) {
  OwningOpRef<ModuleOp> module = import();
  ASSERT_TRUE(module);
  auto checkpoints = (*module)->getAttrOfType<DictionaryAttr>("lm.checkpoints");
  EXPECT_EQ(checkpoints.getAs<StringAttr>("target").getValue(),
            options.targetDir);
  EXPECT_EQ(checkpoints.getAs<StringAttr>("drafter").getValue(),
            options.drafterDir);
  auto facts = (*module)->getAttrOfType<DictionaryAttr>("lm.facts");
  auto fact = [&](llvm::StringRef key) {
    auto value = facts.getAs<StringAttr>(key);
    return value ? value.str() : "";
  };
  EXPECT_EQ(fact("target.layers"), "8 (6 gated delta net, 2 full attention)");
  EXPECT_EQ(fact("target.quantization"),
            "int4, groups of 32 (50 modules); 12 modules dense");
  EXPECT_EQ(fact("target.skipped_tensors"), "4");
  EXPECT_EQ(fact("drafter.layers"),
            "3 (2 bidirectional, window 64; 1 bidirectional, full)");
  EXPECT_EQ(fact("drafter.taps"), "1, 3, 5");
}

TEST_F(ImporterTest, LocationsAreTensorNames) {
  OwningOpRef<ModuleOp> module = import();
  ASSERT_TRUE(module);
  module->walk([](lm::WeightOp weight) {
    auto loc = dyn_cast<NameLoc>(weight.getLoc());
    ASSERT_TRUE(loc);
    EXPECT_EQ(loc.getName(), weight.getName());
  });
  module->walk([](Operation *op) { EXPECT_TRUE(isa<NameLoc>(op->getLoc())); });
}

/// The query is the first half of every head of q_proj, not of all rows.
TEST_F(ImporterTest, GateStandsBesideTheQuery) { // P1.14
  OwningOpRef<ModuleOp> module = import();
  ASSERT_TRUE(module);
  unsigned gates = 0;
  module->lookupSymbol<func::FuncOp>("step").walk([&](lm::SplitOp split) {
    if (split.getNumResults() != 2)
      return;
    ++gates;
    EXPECT_EQ(split.getGroups(), 4u);
    Operation *norm = *split.getResult(0).getUsers().begin();
    EXPECT_TRUE(isa<lm::RmsNormOp>(norm));
    EXPECT_TRUE(isa<lm::SigmoidOp>(*split.getResult(1).getUsers().begin()));
  });
  EXPECT_EQ(gates, 2u);
}

/// Norms of the target are stored around zero, all but the gated one; the
/// drafter's are not.
TEST_F(ImporterTest, NormOffsets) { // P1.13, P5.06
  OwningOpRef<ModuleOp> module = import();
  ASSERT_TRUE(module);
  unsigned norms = 0;
  module->walk([&](lm::RmsNormOp norm) {
    bool ofTarget =
        norm.getWeight().getDefiningOp<lm::WeightOp>().getCheckpoint() ==
        "target";
    EXPECT_EQ(norm.getOffset().convertToFloat(), ofTarget ? 1 : 0);
    ++norms;
  });
  EXPECT_GT(norms, 0u);
}

TEST_F(ImporterTest, FeaturesAreStreamsBehindTheTaps) { // P3.06
  OwningOpRef<ModuleOp> module = import();
  ASSERT_TRUE(module);
  unsigned found = 0;
  module->walk([&](lm::ConcatFeaturesOp concat) {
    ++found;
    Strings layers;
    for (Value input : concat.getInputs())
      layers.push_back(cast<NameLoc>(input.getDefiningOp<lm::AddOp>().getLoc())
                           .getName()
                           .str());
    EXPECT_EQ(layers, Strings({Prefix + "layers.1", Prefix + "layers.3",
                               Prefix + "layers.5"}));
    // The second sum of a layer: that of the mlp.
    for (Value input : concat.getInputs())
      EXPECT_TRUE(
          llvm::StringRef(
              cast<NameLoc>(input.getDefiningOp<lm::AddOp>().getRhs().getLoc())
                  .getName()
                  .getValue())
              .ends_with("mlp.down_proj"));
  });
  // Prefill, step and verify, with and without logits; score.
  EXPECT_EQ(found, 7u);
}

/// Context keys come from the features, block keys from the block.
TEST_F(ImporterTest, DraftIngestsThenDenoises) {
  OwningOpRef<ModuleOp> module = import();
  ASSERT_TRUE(module);
  auto draft = module->lookupSymbol<func::FuncOp>("draft");
  Value contextStart = draft.getArgument(3), start = draft.getArgument(4);
  unsigned context = 0, block = 0;
  draft.walk([&](lm::CacheAppendOp append) {
    bool inside = append->getParentOfType<lm::DenoiseOp>();
    EXPECT_EQ(append.getStart(), inside ? start : contextStart);
    EXPECT_EQ(append.getCount(), inside ? Value() : draft.getArgument(2));
    ++(inside ? block : context);
  });
  EXPECT_EQ(context, 3u);
  EXPECT_EQ(block, 3u);
  draft.walk([&](lm::DenoiseOp denoise) {
    EXPECT_EQ(denoise.getMaskToken(), 999u);
    EXPECT_EQ(denoise.getSteps(), 1u);
  });
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

TEST_F(ImporterTest, WithoutDrafter) {
  options.drafterDir.clear();
  OwningOpRef<ModuleOp> alone = import();
  options.drafterDir = TinyDir + "drafter-w4a16";
  options.block = 1;
  OwningOpRef<ModuleOp> blockOfOne = import();
  for (ModuleOp module : {*alone, *blockOfOne}) {
    ASSERT_TRUE(module);
    Strings names;
    for (auto function : module.getOps<func::FuncOp>())
      names.push_back(function.getName().str());
    EXPECT_EQ(names, Strings({"prefill", "step", "score", "prefill_logits",
                              "step_logits"}));
    EXPECT_EQ(
        getNames(module.lookupSymbol<func::FuncOp>("prefill"), "lm.port", true),
        Strings({"anchor"}));
    EXPECT_EQ(
        getNames(module.lookupSymbol<func::FuncOp>("score"), "lm.port", true),
        Strings({"score_logits"}));
    EXPECT_FALSE((*module.getOps<lm::SpeculateOp>().begin()).getDraft());
    auto cache = cast<lm::ConvCacheType>(
        module.lookupSymbol<func::FuncOp>("step").getArgument(3).getType());
    EXPECT_EQ(cache.getPending(), 1);
  }
}

/// Programs for short prompts are there where they are asked for, and on GPUs
/// whose chunks are longer.
TEST_F(ImporterTest, ShortPrompts) {
  auto shortRows = [](ModuleOp module) -> std::string {
    lm::SpeculateOp loop = *module.getOps<lm::SpeculateOp>().begin();
    if (!loop.getShortChunk())
      return "none";
    std::string text = std::to_string(*loop.getShortChunk());
    for (llvm::StringRef name :
         {*loop.getShortPrefill(), *loop.getShortContext(),
          *loop.getShortPrefillLogits()}) {
      auto function = module.lookupSymbol<func::FuncOp>(name);
      auto rows = cast<RankedTensorType>(function.getArgumentTypes().front());
      text += " " + name.str() + " " + std::to_string(rows.getDimSize(0));
    }
    return text;
  };
  OwningOpRef<ModuleOp> processor = import();
  ASSERT_TRUE(processor);
  EXPECT_EQ(shortRows(*processor), "none");
  options.shortChunk = 5;
  OwningOpRef<ModuleOp> asked = import();
  ASSERT_TRUE(asked);
  EXPECT_EQ(shortRows(*asked),
            "5 short_prefill 5 short_context 5 short_prefill_logits 5");
  EXPECT_EQ(getNames(asked->lookupSymbol<func::FuncOp>("short_prefill"),
                     "lm.port", false),
            Strings({"short_chunk", "chunk_count", "start", "accepted"}));
  EXPECT_EQ(getNames(asked->lookupSymbol<func::FuncOp>("short_prefill_logits"),
                     "lm.port", true),
            Strings({"anchor", "short_features", "anchor_logits"}));
  EXPECT_EQ(getNames(asked->lookupSymbol<func::FuncOp>("short_context"),
                     "lm.port", false),
            Strings({"short_features", "chunk_count", "start"}));
  options.bf16Activations = true;
  options.maxContext = 300;
  options.shortChunk.reset();
  OwningOpRef<ModuleOp> gpu = import();
  ASSERT_TRUE(gpu);
  EXPECT_EQ(shortRows(*gpu),
            "64 short_prefill 64 short_context 64 short_prefill_logits 64");
  options.shortChunk = 0;
  OwningOpRef<ModuleOp> refused = import();
  ASSERT_TRUE(refused);
  EXPECT_EQ(shortRows(*refused), "none");
  options.shortChunk.reset();
  options.chunk = 64;
  OwningOpRef<ModuleOp> small = import();
  ASSERT_TRUE(small);
  EXPECT_EQ(shortRows(*small), "none");
}

TEST_F(ImporterTest, Sizes) {
  options.block = 5;
  options.maxContext = 300;
  options.chunk = 7;
  options.scoreChunk = 3;
  options.denoiseSteps = 4;
  OwningOpRef<ModuleOp> module = import();
  ASSERT_TRUE(module);
  lm::SpeculateOp loop = *module->getOps<lm::SpeculateOp>().begin();
  EXPECT_EQ(loop.getBlock(), 5u);
  EXPECT_EQ(loop.getChunk(), 7u);
  EXPECT_EQ(loop.getScoreChunk(), 3u);
  EXPECT_EQ(loop.getMaxContext(), 300u);
  module->walk([](lm::AttentionOp attention) {
    EXPECT_EQ(attention.getCache().getType().getSlots(), 320); // 305 and up
  });
  module->walk([](lm::DenoiseOp denoise) {
    EXPECT_EQ(denoise.getSize(), 5u);
    EXPECT_EQ(denoise.getSteps(), 4u);
  });
}

TEST_F(ImporterTest, ChunksOfGpusAreLarge) {
  auto chunk = [&] {
    OwningOpRef<ModuleOp> module = import();
    return (*module->getOps<lm::SpeculateOp>().begin()).getChunk();
  };
  EXPECT_EQ(chunk(), 64u);
  options.bf16Activations = true;
  EXPECT_EQ(chunk(), 2048u);
  // No more than a text can have, in whole tiles.
  options.maxContext = 300;
  EXPECT_EQ(chunk(), 320u);
  options.chunk = 48;
  EXPECT_EQ(chunk(), 48u);
}

TEST_F(ImporterTest, SizesOutOfRange) { // P3.08
  options.block = 17;
  EXPECT_EQ(message(), "block is 17, expected 1 to 16 (block_size in "
                       "D/config.json)");
  options.block = 0;
  EXPECT_EQ(message(), "block is 0, expected 1 to 16 (block_size in "
                       "D/config.json)");
  options.block = 2;
  options.denoiseSteps = 2;
  EXPECT_EQ(message(), "number of denoise steps is 2, expected 1 to 1, one "
                       "less than the block");
  options.denoiseSteps = 1;
  options.maxContext = 8193;
  EXPECT_EQ(message(), "maximum context is 8193, expected 1 to 8192 "
                       "(max_position_embeddings in T/config.json)");
  options.maxContext.reset();
  options.chunk = 0;
  EXPECT_EQ(message(), "chunk is 0, expected 1 to 4096");
  options.chunk.reset();
  options.drafterDir.clear();
  EXPECT_EQ(message(), "block is 2, expected 1 to 1: there is no drafter");
}

TEST_F(ImporterTest, ContextIsWhatBothModelsCanDo) { // P3.11
  drafter.config()["max_position_embeddings"] = 128;
  useDrafter(drafter);
  OwningOpRef<ModuleOp> module = import();
  ASSERT_TRUE(module);
  EXPECT_EQ((*module->getOps<lm::SpeculateOp>().begin()).getMaxContext(), 128u);
  options.maxContext = 129;
  EXPECT_EQ(message(), "maximum context is 129, expected 1 to 128 "
                       "(max_position_embeddings in D/config.json)");
}

TEST_F(ImporterTest, ContextBeyondWhatCachesCanHold) {
  target.config()["text_config"]["max_position_embeddings"] = 1 << 30;
  useTarget(target);
  options.drafterDir.clear();
  options.maxContext = 1 << 24;
  EXPECT_EQ(message(), "maximum context is 16777216, too large for a key/value "
                       "cache of 2 heads of 64 (T/config.json)");
  options.maxContext = 1 << 23;
  EXPECT_EQ(message(), "");
}

TEST_F(ImporterTest, Windows) { // P3.04
  auto getLayers = [&] {
    OwningOpRef<ModuleOp> module = import();
    Strings layers;
    module->lookupSymbol<func::FuncOp>("draft").walk([&](lm::AttentionOp op) {
      layers.push_back(
          std::string(op.getCausal() ? "causal " : "") +
          (op.getWindow() ? std::to_string(*op.getWindow()) : "full"));
    });
    return layers;
  };
  EXPECT_EQ(getLayers(), Strings({"64", "64", "full"}));
  options.draftWindow = 100;
  EXPECT_EQ(getLayers(), Strings({"64", "64", "100"}));
  drafter.config().erase("is_causal");
  useDrafter(drafter);
  EXPECT_EQ(getLayers(), Strings({"causal 64", "causal 64", "100"}));
  options.draftWindow = 15;
  EXPECT_EQ(message(), "draft window is 15, expected 16 to 16777216: a block "
                       "must fit");
  options.draftWindow = 16777217;
  EXPECT_EQ(message(), "draft window is 16777217, expected 16 to 16777216: a "
                       "block must fit");
  options.draftWindow.reset();
  drafter.config()["sliding_window"] = 15;
  useDrafter(drafter);
  EXPECT_EQ(message(), "D/config.json: sliding_window: is 15, expected at "
                       "least the block, 16");
  drafter.config()["sliding_window"] = 16777217;
  useDrafter(drafter);
  EXPECT_EQ(message(), "D/config.json: sliding_window: is 16777217, expected "
                       "at most 16777216");
}

//===----------------------------------------------------------------------===//
// Wrong pairs
//===----------------------------------------------------------------------===//

TEST_F(ImporterTest, DrafterOfAnotherTarget) {
  auto message = [&](const std::string &key, const json &value) {
    EditableCheckpoint edited = drafter;
    edited.config()[key] = value;
    useDrafter(edited);
    return ImporterTest::message();
  };
  EXPECT_EQ(message("hidden_size", 256),
            "D/config.json: hidden_size: is 256, but hidden_size of the target "
            "is 128 (T/config.json)");
  EXPECT_EQ(message("vocab_size", 2048),
            "D/config.json: vocab_size: is 2048, but vocab_size of the target "
            "is 1024 (T/config.json)");
  EXPECT_EQ(message("num_target_layers", 32),
            "D/config.json: num_target_layers: is 32, but num_hidden_layers of "
            "the target is 8 (T/config.json)");
  EditableCheckpoint edited = drafter;
  edited.config()["dflash_config"]["target_layer_ids"] = {1, 3, 8};
  useDrafter(edited);
  EXPECT_EQ(ImporterTest::message(),
            "D/config.json: target_layer_ids: names layer 8, but the target "
            "has 8 (T/config.json)");
}

TEST_F(ImporterTest, MissingFiles) {
  options.targetDir = targetDirectory.getPath();
  EXPECT_EQ(message(), "T/config.json: No such file or directory");
  targetDirectory.write("config.json", target.config().dump());
  EXPECT_EQ(message(), "T: holds no .safetensors file and no "
                       "model.safetensors.index.json");
  // A target is no drafter.
  options.targetDir = TinyDir + "target-w4a16";
  options.drafterDir = TinyDir + "target-w4a16";
  EXPECT_EQ(message(), "T/config.json: architectures: is "
                       "'Qwen3_5ForConditionalGeneration', supported here: "
                       "DFlashDraftModel");
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

TEST_F(ImporterTest, OtherPrefixes) {
  for (const char *prefix : {"model.", "language_model.model."}) {
    EditableCheckpoint renamed = target;
    renamed.tensors.clear();
    for (const auto &[name, tensor] : target.tensors) {
      llvm::StringRef rest = name;
      bool isText = rest.consume_front(Prefix);
      renamed.tensors[isText ? prefix + rest.str() : name] = tensor;
    }
    useTarget(renamed);
    OwningOpRef<ModuleOp> module = import();
    ASSERT_TRUE(module);
    EXPECT_EQ(countWeights(*module, "target"), 158u);
  }
}

TEST_F(ImporterTest, BuffersOfExportersAreSkipped) { // P1.22
  target.tensors[Prefix + "layers.3.self_attn.rotary_emb.inv_freq"] = {
      "F32", {8}, std::string(32, '\0')};
  useTarget(target);
  EXPECT_EQ(message(), "");
}

TEST_F(ImporterTest, HeadAndEmbedding) { // P1.04, P1.05
  std::string table = Prefix + "embed_tokens.weight";
  // What the head of step is; the message when there is none.
  auto head = [&](const json &rootTied, const json &textTied,
                  std::optional<std::string> ownHead) {
    EditableCheckpoint edited = target;
    edited.config()["tie_word_embeddings"] = rootTied;
    edited.config()["text_config"]["tie_word_embeddings"] = textTied;
    if (ownHead) {
      edited.tensors["lm_head.weight"] = target.tensors[table];
      edited.tensors["lm_head.weight"].bytes[0] ^= (*ownHead)[0];
    }
    useTarget(edited);
    warnings.clear();
    llvm::Expected<OwningOpRef<ModuleOp>> module = importPair(context, options);
    if (!module)
      return strip(toString(module.takeError()));
    std::string name;
    (*module)->lookupSymbol<func::FuncOp>("step").walk([&](lm::ArgmaxOp op) {
      auto linear = op.getLogits().getDefiningOp<lm::LinearOp>();
      name = linear.getWeight().getDefiningOp<lm::WeightOp>().getName().str();
    });
    return name;
  };
  const std::optional<std::string> none, copy(std::string("\0", 1)),
      other("\1");
  // Tied, and untied, as they should be.
  EXPECT_EQ(head(true, true, none), table);
  EXPECT_EQ(head(true, nullptr, none), table);
  EXPECT_EQ(head(nullptr, true, none), table);
  EXPECT_EQ(head(false, false, other), "lm_head.weight");
  EXPECT_EQ(head(nullptr, nullptr, other), "lm_head.weight");
  EXPECT_EQ(head(false, true, other), "lm_head.weight"); // the root rules
  EXPECT_EQ(head(true, true, copy), table);
  EXPECT_EQ(warnings, Strings());
  // Flags and tensors disagree: the tensors count.
  EXPECT_EQ(head(true, true, other), "lm_head.weight");
  EXPECT_EQ(warnings,
            Strings({"T/config.json: tie_word_embeddings: is true, but "
                     "'lm_head' differs from the embedding; it is used as the "
                     "head"}));
  EXPECT_EQ(head(false, true, none), table);
  EXPECT_EQ(warnings,
            Strings({"T/config.json: tie_word_embeddings: is false at the root "
                     "and true in text_config; the embedding is used as the "
                     "head, for there is no other"}));
  EXPECT_EQ(head(false, false, none),
            "T: tensor 'lm_head.weight' is missing, and T/config.json: "
            "tie_word_embeddings: is not true");
}

/// Layers need not follow a pattern; then neither do the caches.
TEST_F(ImporterTest, LayersWithoutAPattern) { // P1.15
  // Layers 3 and 7 are attention in the file; say the opposite of layer 7.
  json &types = target.config()["text_config"]["layer_types"];
  types[7] = "linear_attention";
  useTarget(target);
  EXPECT_EQ(message(), "T: tensor '" + Prefix +
                           "layers.7.linear_attn.in_proj_qkv.weight' is "
                           "missing");
}
