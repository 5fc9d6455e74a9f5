//===- Importer.cpp - From checkpoints to an lm module --------------------===//

#include "models/Importer.h"
#include "models/JsonFile.h"
#include "models/Programs.h"
#include "models/StopTokens.h"
#include "models/Synthetic.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"

using namespace llvm;
using namespace mlir;
using namespace tandem;
using namespace tandem::models;

/// Longest text when the user does not say: caches grow with it.
static constexpr int64_t kDefaultMaxContext = 8192;
/// Cache slots are a multiple of it, so that tiles of keys are whole.
static constexpr int64_t kSlotMultiple = 16;

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// Checks that \p drafter was made for \p target.
static Error checkPair(const TargetConfig &target,
                       const DrafterConfig &drafter) {
  auto mismatch = [&](StringRef key, int64_t found, int64_t expected,
                      StringRef targetKey) {
    return createStringError(drafter.path + ": " + key + ": is " +
                             Twine(found) + ", but " + targetKey +
                             " of the target is " + Twine(expected) + " (" +
                             target.path + ")");
  };
  if (drafter.hiddenSize != target.hiddenSize)
    return mismatch("hidden_size", drafter.hiddenSize, target.hiddenSize,
                    "hidden_size");
  if (drafter.vocabularySize != target.vocabularySize)
    return mismatch("vocab_size", drafter.vocabularySize, target.vocabularySize,
                    "vocab_size");
  if (drafter.numTargetLayers && *drafter.numTargetLayers != target.layers)
    return mismatch("num_target_layers", *drafter.numTargetLayers,
                    target.layers, "num_hidden_layers");
  for (int64_t layer : drafter.targetLayers)
    if (layer >= target.layers)
      return createStringError(drafter.path +
                               ": target_layer_ids: names layer " +
                               Twine(layer) + ", but the target has " +
                               Twine(target.layers) + " (" + target.path + ")");
  return Error::success();
}

/// Error unless \p value is in [\p min, \p max]; \p limit says where the limit
/// comes from.
static Error checkRange(StringRef name, int64_t value, int64_t min, int64_t max,
                        const Twine &limit = "") {
  if (value >= min && value <= max)
    return Error::success();
  return createStringError(name + " is " + Twine(value) + ", expected " +
                           Twine(min) + " to " + Twine(max) + limit);
}

/// Decides the sizes; \p drafter is null without one.
static Expected<PairSizes> chooseSizes(const ImportOptions &options,
                                       const TargetConfig &target,
                                       const DrafterConfig *drafter) {
  constexpr int64_t kMaxRows = 4096;
  PairSizes sizes;
  int64_t largestBlock = drafter ? drafter->blockSize : 1;
  sizes.block = options.block.value_or(largestBlock);
  if (Error error =
          checkRange("block", sizes.block, 1, largestBlock,
                     drafter ? " (block_size in " + Twine(drafter->path) + ")"
                             : Twine(": there is no drafter")))
    return error;

  const TransformerConfig *shorter = &target;
  if (drafter && drafter->maxPositions < target.maxPositions)
    shorter = drafter;
  sizes.maxContext = options.maxContext.value_or(
      std::min(shorter->maxPositions, kDefaultMaxContext));
  if (Error error = checkRange(
          "maximum context", sizes.maxContext, 1, shorter->maxPositions,
          " (max_position_embeddings in " + Twine(shorter->path) + ")"))
    return error;
  sizes.slots = alignTo(sizes.maxContext + sizes.block, kSlotMultiple);
  SmallVector<const TransformerConfig *, 2> models = {&target};
  if (drafter)
    models.push_back(drafter);
  for (const TransformerConfig *model : models)
    if (!lm::areSaneSizes({sizes.slots, model->kvHeads, model->headDim}))
      return createStringError(
          "maximum context is " + Twine(sizes.maxContext) +
          ", too large for a key/value cache of " + Twine(model->kvHeads) +
          " heads of " + Twine(model->headDim) + " (" + model->path + ")");

  // Chunks of a GPU are whole tiles of rows.
  constexpr int64_t processorChunk = 64, gpuChunk = 2048;
  sizes.chunk = options.chunk.value_or(
      options.bf16Activations
          ? std::min<int64_t>(gpuChunk, alignTo(sizes.maxContext, 64))
          : processorChunk);
  sizes.scoreChunk = options.scoreChunk;
  sizes.denoiseSteps = options.denoiseSteps;
  if (Error error = checkRange("chunk", sizes.chunk, 1, kMaxRows))
    return error;
  // Layers of a GPU have tiles of so many rows, too.
  constexpr int64_t gpuShortChunk = 64;
  sizes.shortChunk = options.shortChunk.value_or(
      options.bf16Activations && sizes.chunk > gpuShortChunk ? gpuShortChunk
                                                             : 0);
  if (Error error = checkRange("short chunk", sizes.shortChunk, 0,
                               sizes.chunk - 1, ", less than the chunk"))
    return error;
  if (Error error = checkRange("score chunk", sizes.scoreChunk, 1, kMaxRows))
    return error;
  if (Error error =
          checkRange("number of denoise steps", sizes.denoiseSteps, 1,
                     std::max<int64_t>(sizes.block - 1, 1),
                     sizes.block > 1 ? ", one less than the block" : ""))
    return error;
  return sizes;
}

/// Puts the window of \p options on the full layers of \p drafter and checks
/// that every window holds a block of \p block tokens.
static Error applyWindows(const ImportOptions &options, DrafterConfig &drafter,
                          int64_t block) {
  if (options.draftWindow)
    if (Error error = checkRange("draft window", *options.draftWindow, block,
                                 lm::kMaxSize, ": a block must fit"))
      return error;
  for (DrafterConfig::Layer &layer : drafter.layerTypes) {
    if (!layer.sliding)
      layer.window = options.draftWindow;
    else if (*layer.window < block)
      return createStringError(
          drafter.path + ": sliding_window: is " + Twine(*layer.window) +
          ", expected at least the block, " + Twine(block));
    else if (*layer.window > lm::kMaxSize)
      return createStringError(drafter.path + ": sliding_window: is " +
                               Twine(*layer.window) + ", expected at most " +
                               Twine(lm::kMaxSize));
  }
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Facts
//===----------------------------------------------------------------------===//

namespace {

/// Collects `lm.facts`.
class Facts {
public:
  explicit Facts(Builder &builder) : builder(builder) {}

  void add(StringRef key, const Twine &value) {
    attributes.push_back(
        builder.getNamedAttr(key, builder.getStringAttr(value)));
  }
  DictionaryAttr get() { return builder.getDictionaryAttr(attributes); }

private:
  Builder &builder;
  SmallVector<NamedAttribute> attributes;
};

} // namespace

/// "int4, groups of 32 (56 modules); 12 modules dense".
static std::string describeQuantization(const WeightStatistics &statistics) {
  std::string text;
  for (const auto &[format, modules] : statistics.packedModules)
    text += format + " (" + std::to_string(modules) + " modules); ";
  return text + std::to_string(statistics.denseModules) + " modules dense";
}

static std::string joinNumbers(ArrayRef<int64_t> numbers) {
  return join(map_range(numbers, [](int64_t number) { return itostr(number); }),
              ", ");
}

/// Facts that target and drafter share, under \p prefix.
static void addModelFacts(Facts &facts, const std::string &prefix,
                          const TransformerConfig &config,
                          const WeightStatistics &statistics) {
  facts.add(prefix + ".architecture", config.architecture);
  facts.add(prefix + ".hidden_size", Twine(config.hiddenSize));
  facts.add(prefix + ".parameters", Twine(statistics.parameters));
  facts.add(prefix + ".quantization", describeQuantization(statistics));
  if (statistics.skippedTensors)
    facts.add(prefix + ".skipped_tensors", Twine(statistics.skippedTensors));
}

static void addTargetFacts(Facts &facts, const TargetConfig &config,
                           const WeightStatistics &statistics) {
  addModelFacts(facts, "target", config, statistics);
  size_t full =
      llvm::count(config.layerTypes, TargetConfig::Layer::FullAttention);
  facts.add("target.layers",
            Twine(config.layers) + " (" + Twine(config.layers - full) +
                " gated delta net, " + Twine(full) + " full attention)");
  facts.add("target.vocabulary", Twine(config.vocabularySize));
}

static void addDrafterFacts(Facts &facts, const DrafterConfig &config,
                            const WeightStatistics &statistics) {
  addModelFacts(facts, "drafter", config, statistics);
  std::vector<std::string> layers;
  for (const DrafterConfig::Layer &layer : config.layerTypes)
    layers.push_back((layer.causal ? "causal" : "bidirectional") +
                     (layer.window ? ", window " + std::to_string(*layer.window)
                                   : std::string(", full")));
  // Usually all layers are the same, or all but the last.
  std::string text;
  for (size_t first = 0, last; first < layers.size(); first = last) {
    for (last = first; last < layers.size() && layers[last] == layers[first];)
      ++last;
    text += (text.empty() ? "" : "; ") + std::to_string(last - first) + " " +
            layers[first];
  }
  facts.add("drafter.layers", Twine(config.layers) + " (" + text + ")");
  facts.add("drafter.taps", joinNumbers(config.targetLayers));
  facts.add("drafter.mask_token", Twine(config.maskToken));
}

//===----------------------------------------------------------------------===//
// The import
//===----------------------------------------------------------------------===//

/// \p directory as an absolute path.
static std::string makeAbsolute(StringRef directory) {
  SmallString<256> path(directory);
  sys::fs::make_absolute(path);
  sys::path::remove_dots(path, /*remove_dot_dot=*/false);
  return path.str().str();
}

/// Opens a checkpoint in the way that \p options say.
static Expected<Checkpoint> openCheckpoint(const ImportOptions &options,
                                           StringRef directory) {
  if (options.syntheticSeed)
    return Checkpoint::createSynthetic(directory);
  return Checkpoint::open(directory);
}

/// What `lm.checkpoints` calls it.
static std::string getCheckpointName(const ImportOptions &options,
                                     StringRef directory) {
  std::string path = makeAbsolute(directory);
  return options.syntheticSeed
             ? SyntheticCheckpoint{*options.syntheticSeed, path}.getName()
             : path;
}

/// Passes on what \p checkpoint and \p reader found odd.
static void emitWarnings(MLIRContext &context, const Checkpoint &checkpoint,
                         const WeightReader &reader) {
  Location loc = UnknownLoc::get(&context);
  for (const std::string &warning : checkpoint.getWarnings())
    emitWarning(loc) << warning;
  for (const std::string &warning : reader.getWarnings())
    emitWarning(loc) << warning;
}

Expected<OwningOpRef<ModuleOp>>
tandem::models::importPair(MLIRContext &context, const ImportOptions &options) {
  // What needs only the configuration comes first: it is quick, and tells a
  // wrong pair apart from a broken file.
  Expected<TargetConfig> targetConfig = TargetConfig::read(options.targetDir);
  if (!targetConfig)
    return targetConfig.takeError();
  std::optional<DrafterConfig> drafterConfig;
  if (!options.drafterDir.empty()) {
    Expected<DrafterConfig> config = DrafterConfig::read(options.drafterDir);
    if (!config)
      return config.takeError();
    drafterConfig = std::move(*config);
    if (Error error = checkPair(*targetConfig, *drafterConfig))
      return error;
  }
  Expected<PairSizes> sizes = chooseSizes(
      options, *targetConfig, drafterConfig ? &*drafterConfig : nullptr);
  if (!sizes)
    return sizes.takeError();
  if (sizes->block == 1)
    drafterConfig.reset(); // decoding a token at a time has no use for it
  if (drafterConfig)
    if (Error error = applyWindows(options, *drafterConfig, sizes->block))
      return error;
  Expected<std::vector<int32_t>> stopTokens =
      readStopTokens(options.targetDir, *targetConfig);
  if (!stopTokens)
    return stopTokens.takeError();

  context.loadDialect<lm::LmDialect, func::FuncDialect>();
  Builder builder(&context);
  Facts facts(builder);
  NamedAttrList checkpoints;

  Expected<Checkpoint> targetFiles = openCheckpoint(options, options.targetDir);
  if (!targetFiles)
    return targetFiles.takeError();
  WeightReader targetReader(*targetFiles, "target", targetConfig->quantization,
                            targetConfig->path, Qwen35::getPrefixes());
  Qwen35 target = Qwen35::read(targetReader, *targetConfig);
  if (Error error = targetReader.finish())
    return error;
  emitWarnings(context, *targetFiles, targetReader);
  addTargetFacts(facts, *targetConfig, targetReader.getStatistics());
  checkpoints.set("target", builder.getStringAttr(
                                getCheckpointName(options, options.targetDir)));

  std::optional<DFlash> drafter;
  if (drafterConfig) {
    Expected<Checkpoint> files = openCheckpoint(options, options.drafterDir);
    if (!files)
      return files.takeError();
    WeightReader reader(*files, "drafter", drafterConfig->quantization,
                        drafterConfig->path, DFlash::getPrefixes());
    drafter.emplace(DFlash::read(reader, *drafterConfig));
    if (Error error = reader.finish())
      return error;
    emitWarnings(context, *files, reader);
    addDrafterFacts(facts, *drafterConfig, reader.getStatistics());
    checkpoints.set("drafter", builder.getStringAttr(getCheckpointName(
                                   options, options.drafterDir)));
  }

  OwningOpRef<ModuleOp> module =
      ModuleOp::create(NameLoc::get(builder.getStringAttr("import")));
  (*module)->setAttr(lm::LmDialect::kCheckpointsAttrName,
                     checkpoints.getDictionary(&context));
  (*module)->setAttr(lm::LmDialect::kFactsAttrName, facts.get());
  Pair pair = {target, *targetConfig, drafter ? &*drafter : nullptr,
               drafterConfig ? &*drafterConfig : nullptr};
  Type activations = options.bf16Activations ? Type(builder.getBF16Type())
                                             : Type(builder.getF32Type());
  buildPrograms(*module, pair, *sizes, *stopTokens, activations);
  return module;
}
