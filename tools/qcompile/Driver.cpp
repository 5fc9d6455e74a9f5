//===- Driver.cpp - From options to an artefact ---------------------------===//

#include "tools/qcompile/Driver.h"

#include "codegen/MemoryReport.h"
#include "codegen/Serializer.h"
#include "codegen/SourceFiles.h"
#include "codegen/cpu/CpuCompiler.h"
#include "codegen/cuda/CudaCompiler.h"
#include "dialects/lm/LmOps.h"
#include "dialects/plan/PlanOps.h"
#include "models/ChatFiles.h"
#include "models/Importer.h"
#include "models/Synthetic.h"
#include "models/Tokenizer.h"
#include "passes/Pipelines.h"
#include "runtime/KernelAbi.h"
#include "tools/qcompile/Diagnostics.h"
#include "tools/qcompile/DraftVocabulary.h"
#include "tools/qcompile/Report.h"
#include "tools/qcompile/TargetOptions.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/SourceMgr.h"

using namespace llvm;
using namespace tandem;
using namespace tandem::qcompile;
using mlir::FailureOr;
using mlir::LogicalResult;
using mlir::ModuleOp;

namespace {

/// Module attribute: the options that shaped the module, so that a compilation
/// that continues from a dump can still say them.
constexpr StringLiteral kOptionsAttrName = "tandem.options";

/// Module attribute: prompt and floor of the self-test, for the same reason.
constexpr StringLiteral kSelfTestAttrName = "tandem.self_test";

/// File names of --dump-dir, by stage.
constexpr StringLiteral kDumpNames[] = {"00-import.mlir", "10-fused.mlir",
                                        "20-lowered.mlir", "30-plan.mlir",
                                        "kernels.txt"};

class Driver {
public:
  explicit Driver(const Options &options)
      : options(options), diagnostics(context, progress),
        targetOptions(options, module) {
    context.loadDialect<lm::LmDialect, plan::PlanDialect,
                        mlir::func::FuncDialect>();
  }

  LogicalResult run();

private:
  /// Checks what can be checked before the long work, and opens the output.
  LogicalResult prepare();

  LogicalResult importPair();
  LogicalResult readStage();
  /// The last stage that the module has been through.
  Stage findStage();

  /// Runs the phase that leads to \p stage, if it is still to come.
  LogicalResult runPhase(Stage stage, StringRef name,
                         function_ref<void(mlir::OpPassManager &)> build);
  /// What is to be done with the module now that it is at \p stage.
  LogicalResult finishStage(Stage stage);
  /// Says what was found good, for --check.
  LogicalResult reportCheck();
  LogicalResult compileKernels();
  LogicalResult compileForProcessor();
  LogicalResult compileForGpu();
  LogicalResult writeArtifact();
  LogicalResult readTokenizer();
  /// Chooses the tokens that are drafted, where not all of them are.
  LogicalResult chooseDraftTokens();

  /// Writes what \p print prints to the file \p path.
  LogicalResult writeFile(StringRef path,
                          function_ref<void(raw_ostream &)> print);
  LogicalResult dump(StringRef name, function_ref<void(raw_ostream &)> print);
  /// Prints a stage for --emit.
  LogicalResult emit(function_ref<void(raw_ostream &)> print);

  /// Writes what was printed to standard output.
  LogicalResult flushOutput();

  bool isDone() const { return isEmitted; }
  bool hasLoop();
  std::string getOutputPath();
  /// The flags that shape what is imported, as one would type them.
  std::string getImportFlags();

  const Options &options;
  mlir::MLIRContext context;
  Progress progress;
  Diagnostics diagnostics;
  mlir::OwningOpRef<ModuleOp> module;
  const TargetOptions targetOptions;
  codegen::ArtifactContents contents;
  std::optional<codegen::OutputFile> file;
  Stage stage = Stage::Import;
  SmallVector<int64_t> draftTokens;
  bool isEmitted = false;
};

} // namespace

//===----------------------------------------------------------------------===//
// Before the work
//===----------------------------------------------------------------------===//

std::string Driver::getOutputPath() {
  if (!options.output.empty())
    return options.output;
  if (!options.input.empty())
    return (sys::path::stem(options.input) + ".tandem").str();
  // `models/demo/target`, `target/` and `.` all have a name.
  SmallString<256> directory(options.target);
  if (sys::fs::real_path(options.target, directory))
    directory = StringRef(options.target).rtrim('/');
  return (sys::path::filename(directory) + ".tandem").str();
}

LogicalResult Driver::prepare() {
  // A plan knows what it is for; it has not been read yet.
  bool mayBePlan = !options.input.empty() && options.arch.empty();
  if (!mayBePlan && failed(diagnostics.report(targetOptions.check())))
    return mlir::failure();
  if (!options.dumpDir.empty())
    if (std::error_code error = sys::fs::create_directories(
            options.dumpDir, /*IgnoreExisting=*/true, sys::fs::all_all))
      return diagnostics.report(
          createStringError(error, options.dumpDir + ": " + error.message()));
  if (options.check || (options.emit && options.output.empty()))
    return mlir::success();
  FailureOr<codegen::OutputFile> opened =
      diagnostics.report(codegen::OutputFile::create(getOutputPath()));
  if (failed(opened))
    return mlir::failure();
  file.emplace(std::move(*opened));
  return mlir::success();
}

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

std::string Driver::getImportFlags() {
  std::string flags;
  auto add = [&](StringRef name, std::optional<int64_t> value) {
    if (value)
      flags +=
          ((flags.empty() ? "--" : " --") + name + " " + Twine(*value)).str();
  };
  add("block", options.block);
  add("draft-window", options.draftWindow);
  add("max-context", options.maxContext);
  add("chunk", options.chunk);
  add("short-chunk", options.shortChunk);
  add("denoise-steps", options.denoiseSteps);
  if (options.syntheticSeed)
    flags += (flags.empty() ? "" : " ") + std::string("--synthetic-weights ") +
             std::to_string(*options.syntheticSeed);
  return flags;
}

LogicalResult Driver::importPair() {
  progress.begin("import");
  models::ImportOptions importOptions;
  importOptions.targetDir = options.target;
  importOptions.drafterDir = options.drafter;
  importOptions.block = options.block;
  importOptions.draftWindow = options.draftWindow;
  importOptions.maxContext = options.maxContext;
  importOptions.chunk = options.chunk;
  importOptions.shortChunk = options.shortChunk;
  importOptions.syntheticSeed = options.syntheticSeed;
  importOptions.bf16Activations = plan::isGpu(targetOptions.getArch());
  if (options.denoiseSteps)
    importOptions.denoiseSteps = *options.denoiseSteps;
  FailureOr<mlir::OwningOpRef<ModuleOp>> imported =
      diagnostics.report(models::importPair(context, importOptions));
  if (failed(imported))
    return mlir::failure();
  module = std::move(*imported);
  if (std::string flags = getImportFlags(); !flags.empty())
    (*module)->setAttr(kOptionsAttrName,
                       mlir::StringAttr::get(&context, flags));
  if (!options.drafter.empty()) {
    mlir::Builder builder(&context);
    (*module)->setAttr(
        kSelfTestAttrName,
        builder.getDictionaryAttr(
            {builder.getNamedAttr(
                 "floor", builder.getF32FloatAttr(
                              float(options.selfTestFloor.value_or(1.1)))),
             builder.getNamedAttr(
                 "prompt",
                 builder.getStringAttr(options.selfTestPrompt.value_or(
                     "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,")))}));
  }
  return mlir::success();
}

LogicalResult Driver::readStage() {
  progress.begin("read");
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer =
      MemoryBuffer::getFile(options.input);
  if (!buffer)
    return diagnostics.report(createStringError(
        buffer.getError(), options.input + ": " + buffer.getError().message()));
  // Asking an index for its width is the end of MLIR's parser (LLVM 22).
  if (Regex("array<[[:space:]]*index").match((*buffer)->getBuffer()))
    return diagnostics.report(createStringError(
        options.input + ": holds an array<index>, expected array<i32> or "
                        "array<i64>"));
  SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(*buffer), SMLoc());
  module = mlir::parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    return diagnostics.reportFailure(options.input);
  stage = findStage();
  if (options.emit && *options.emit < stage)
    return diagnostics.report(createStringError(
        options.input + ": is past the stage that --emit asks for"));
  // Plans of processors are alike, and so are those of GPUs.
  if (auto planned = (*module)->getAttrOfType<mlir::StringAttr>(
          plan::PlanDialect::kArchAttrName);
      planned && plan::isGpu(planned) != plan::isGpu(targetOptions.getArch()))
    return diagnostics.report(createStringError(
        options.input + ": is planned for " + planned.getValue() + ", --arch " +
        targetOptions.getArch() +
        " needs a plan of its own: go on from an earlier stage"));
  if (failed(diagnostics.report(targetOptions.checkEarlierFlags(stage))))
    return mlir::failure();
  return diagnostics.report(targetOptions.check());
}

Stage Driver::findStage() {
  if (!module->getOps<plan::ProgramOp>().empty())
    return Stage::Plan;
  if (!module->getOps<plan::LoopOp>().empty())
    return Stage::Lowered;
  // Fusions find nothing left to do in what is fused already.
  return Stage::Import;
}

bool Driver::hasLoop() {
  return !module->getOps<plan::LoopOp>().empty() ||
         !module->getOps<lm::SpeculateOp>().empty();
}

/// Number of tokens that \p module, a pair at any stage, has embeddings of; 0
/// when nothing in it says.
static int64_t getVocabulary(ModuleOp module) {
  int64_t vocabulary = 0;
  module.walk([&](plan::LoopOp loop) { vocabulary = loop.getVocabulary(); });
  module.walk([&](lm::EmbedOp embed) {
    vocabulary = embed.getTable().getType().getDimSize(0);
  });
  return vocabulary;
}

/// Reads the tokenizer of a pair, and how it talks; a single function does
/// not.
LogicalResult Driver::readTokenizer() {
  if (!hasLoop() || (options.emit && options.draftVocabularyText.empty()))
    return mlir::success();
  auto checkpoints = (*module)->getAttrOfType<mlir::DictionaryAttr>(
      lm::LmDialect::kCheckpointsAttrName);
  auto target = checkpoints ? checkpoints.getAs<mlir::StringAttr>("target")
                            : mlir::StringAttr();
  if (!target)
    return diagnostics.report(createStringError(
        "the module attribute " + lm::LmDialect::kCheckpointsAttrName +
        " names no checkpoint 'target', which has the tokenizer"));
  std::string directory = models::getCheckpointDirectory(target);
  SmallString<256> path(directory);
  sys::path::append(path, "tokenizer.json");
  // Measurements go without a text.
  if (models::SyntheticCheckpoint::parse(target) && !sys::fs::exists(path))
    return mlir::success();
  FailureOr<models::TokenizerData> tokenizer =
      diagnostics.report(models::readTokenizer(directory));
  if (failed(tokenizer))
    return mlir::failure();
  // There may be fewer tokens than embeddings: rows are padded.
  int64_t vocabulary = getVocabulary(*module);
  if (vocabulary != 0 && int64_t(tokenizer->tokens.size()) > vocabulary)
    return diagnostics.report(createStringError(
        path + ": has tokens up to id " + Twine(tokenizer->tokens.size() - 1) +
        ", but the model has embeddings of " + Twine(vocabulary)));
  contents.tokenizer = std::move(*tokenizer);
  FailureOr<models::ChatData> chat =
      diagnostics.report(models::readChatFiles(directory));
  if (failed(chat))
    return mlir::failure();
  contents.chat = *chat;
  return mlir::success();
}

LogicalResult Driver::chooseDraftTokens() {
  if (!options.draftVocabulary)
    return mlir::success();
  auto refuse = [&](const Twine &message) {
    return diagnostics.report(createStringError(
        "--draft-vocab " + Twine(*options.draftVocabulary) + ": " + message));
  };
  auto loops = module->getOps<lm::SpeculateOp>();
  if (loops.empty() || !(*loops.begin()).getDraft())
    return refuse("expected a model with a drafter");
  int64_t count = *options.draftVocabulary, vocabulary = getVocabulary(*module);
  if (count > vocabulary)
    return refuse("expected up to " + Twine(vocabulary) +
                  ", the tokens that the model has");
  SmallVector<int64_t> kept;
  std::vector<uint32_t> text;
  std::string flags = "--draft-vocab " + std::to_string(count);
  if (const std::string &path = options.draftVocabularyText; !path.empty()) {
    if (!contents.tokenizer)
      return diagnostics.report(createStringError(
          "--draft-vocab-text " + path + ": the target has no tokenizer"));
    FailureOr<std::vector<uint32_t>> tokens =
        diagnostics.report(readTokens(path, *contents.tokenizer));
    if (failed(tokens))
      return mlir::failure();
    text = std::move(*tokens);
    // What ends an answer, and what markup is written with: a text need not
    // have any of it.
    for (int32_t token : (*loops.begin()).getStopTokens())
      kept.push_back(token);
    for (const auto &added : contents.tokenizer->added)
      kept.push_back(added.id);
    llvm::sort(kept);
    kept.erase(llvm::unique(kept), kept.end());
    if (count < static_cast<int64_t>(kept.size()))
      return refuse("expected at least " + Twine(kept.size()) +
                    ", the tokens that end a text or are markup");
    flags += " --draft-vocab-text " + sys::path::filename(path).str();
  }
  if (count < vocabulary)
    draftTokens = chooseTokens(count, vocabulary, kept, text);
  auto before = (*module)->getAttrOfType<mlir::StringAttr>(kOptionsAttrName);
  if (before)
    flags = before.str() + " " + flags;
  (*module)->setAttr(kOptionsAttrName, mlir::StringAttr::get(&context, flags));
  return mlir::success();
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

LogicalResult
Driver::runPhase(Stage next, StringRef name,
                 function_ref<void(mlir::OpPassManager &)> build) {
  if (next < stage)
    return mlir::success();
  // A plan is verified and laid out again: it may have been edited.
  if (next == stage && next == Stage::Lowered)
    return finishStage(next);
  progress.begin(name);
  mlir::PassManager manager(&context, ModuleOp::getOperationName());
  build(manager);
  if (failed(manager.run(*module)))
    return diagnostics.reportFailure(name);
  stage = next;
  return finishStage(next);
}

LogicalResult Driver::finishStage(Stage reached) {
  auto print = [&](raw_ostream &os) { module->print(os); };
  if (failed(dump(kDumpNames[int(reached)], print)))
    return mlir::failure();
  return options.emit == reached ? emit(print) : mlir::success();
}

LogicalResult Driver::writeFile(StringRef path,
                                function_ref<void(raw_ostream &)> print) {
  FailureOr<codegen::OutputFile> output =
      diagnostics.report(codegen::OutputFile::create(path));
  if (failed(output))
    return mlir::failure();
  print(output->os());
  return diagnostics.report(output->finish());
}

LogicalResult Driver::dump(StringRef name,
                           function_ref<void(raw_ostream &)> print) {
  if (options.dumpDir.empty())
    return mlir::success();
  SmallString<256> path(options.dumpDir);
  sys::path::append(path, name);
  return writeFile(path, print);
}

LogicalResult Driver::emit(function_ref<void(raw_ostream &)> print) {
  isEmitted = true;
  progress.end();
  if (file) {
    print(file->os());
    return diagnostics.report(file->finish());
  }
  print(outs());
  return flushOutput();
}

LogicalResult Driver::flushOutput() {
  outs().flush();
  if (!outs().has_error())
    return mlir::success();
  std::error_code error = outs().error();
  outs().clear_error();
  return diagnostics.report(
      createStringError(error, "standard output: " + error.message()));
}

LogicalResult Driver::reportCheck() {
  progress.end();
  outs() << (options.input.empty() ? options.target : options.input);
  if (!options.drafter.empty())
    outs() << " and " << options.drafter;
  outs() << ": can be compiled\n";
  auto facts = (*module)->getAttrOfType<mlir::DictionaryAttr>(
      lm::LmDialect::kFactsAttrName);
  for (mlir::NamedAttribute fact :
       facts ? facts.getValue() : ArrayRef<mlir::NamedAttribute>()) {
    outs() << "  " << fact.getName().getValue() << ' ';
    if (auto text = dyn_cast<mlir::StringAttr>(fact.getValue()))
      outs() << text.getValue();
    else if (auto number = dyn_cast<mlir::IntegerAttr>(fact.getValue()))
      outs() << number.getInt();
    else
      outs() << fact.getValue();
    outs() << '\n';
  }
  return flushOutput();
}

LogicalResult Driver::compileKernels() {
  progress.begin("kernels");
  return plan::isGpu(targetOptions.getArch()) ? compileForGpu()
                                              : compileForProcessor();
}

/// Prints \p bytes as they are.
static auto printBytes(const std::vector<char> &bytes) {
  return [&bytes](raw_ostream &os) { os.write(bytes.data(), bytes.size()); };
}

LogicalResult Driver::compileForProcessor() {
  FailureOr<codegen::CpuTarget> processor =
      diagnostics.report(codegen::getCpuTarget(targetOptions.getArch()));
  if (failed(processor))
    return mlir::failure();
  codegen::CpuOptions cpuOptions;
  cpuOptions.keepMlir = options.emit == Stage::Cpu || !options.dumpDir.empty();
  FailureOr<codegen::CpuImage> image = diagnostics.report(
      codegen::compileCpuKernels(*module, *processor, cpuOptions));
  if (failed(image))
    return mlir::failure();

  auto printMlir = [&](raw_ostream &os) { os << image->mlirText; };
  if (failed(dump(kDumpNames[int(Stage::Cpu)], printMlir)) ||
      failed(dump("kernels.so", printBytes(image->sharedObject))))
    return mlir::failure();
  if (options.emit == Stage::Cpu)
    return emit(printMlir);
  contents.code = codegen::makeCode(*processor, std::move(*image));
  return mlir::success();
}

LogicalResult Driver::compileForGpu() {
  FailureOr<codegen::CudaTarget> gpu =
      diagnostics.report(codegen::getCudaTarget(targetOptions.getArch()));
  if (failed(gpu))
    return mlir::failure();
  // The text alone takes no compiler of NVIDIA.
  if (options.emit == Stage::Cuda) {
    FailureOr<std::vector<codegen::CudaSource>> sources =
        diagnostics.report(codegen::emitCudaKernels(*module, *gpu));
    if (failed(sources))
      return mlir::failure();
    return emit([&](raw_ostream &os) {
      for (const codegen::CudaSource &source : *sources)
        os << source.text << "\n";
    });
  }
  FailureOr<codegen::CudaImage> image =
      diagnostics.report(codegen::compileCudaKernels(*module, *gpu));
  if (failed(image))
    return mlir::failure();
  for (const codegen::CudaUnit &unit : image->units) {
    const std::string &name = unit.source.name;
    if (failed(dump(name + ".cu",
                    [&](raw_ostream &os) { os << unit.source.text; })) ||
        failed(dump(name + ".ptx", printBytes(unit.ptx))) ||
        failed(dump(name + ".cubin", printBytes(unit.cubin))) ||
        failed(dump(name + ".log", [&](raw_ostream &os) { os << unit.log; })))
      return mlir::failure();
  }
  contents.code = codegen::makeCode(std::move(*image));
  return mlir::success();
}

//===----------------------------------------------------------------------===//
// The artefact
//===----------------------------------------------------------------------===//

LogicalResult Driver::writeArtifact() {
  contents.plan = *module;
  contents.activations = targetOptions.getActivations();
  contents.compilerVersion = getVersion();
  // Paths are left out: they say nothing about what is in the file.
  contents.commandLine = "qcompile --arch " + targetOptions.getArch() +
                         " --activations " + targetOptions.getActivations();
  if (auto flags = (*module)->getAttrOfType<mlir::StringAttr>(kOptionsAttrName))
    contents.commandLine += " " + flags.str();
  if (auto test =
          (*module)->getAttrOfType<mlir::DictionaryAttr>(kSelfTestAttrName)) {
    auto prompt = test.getAs<mlir::StringAttr>("prompt");
    auto floor = test.getAs<mlir::FloatAttr>("floor");
    if (!prompt || !floor)
      return diagnostics.report(
          createStringError("the module attribute " + kSelfTestAttrName +
                            " needs a string 'prompt' and a number 'floor'"));
    contents.selfTest = {prompt.str(), float(floor.getValueAsDouble())};
  }
  FailureOr<std::vector<std::string>> sources =
      diagnostics.report(codegen::listSources(*module));
  if (failed(sources))
    return mlir::failure();
  contents.sources = std::move(*sources);

  progress.begin("weights");
  FailureOr<uint64_t> size = diagnostics.report(codegen::writeArtifact(
      contents, *file,
      [&](uint64_t done, uint64_t total) { progress.update(done, total); }));
  if (failed(size) || failed(diagnostics.report(file->finish())))
    return mlir::failure();
  progress.finish(file->getPath().str() + ": " + codegen::formatBytes(*size));
  if (options.report) {
    const codegen::Machine *machine = codegen::findMachine(options.machine);
    printReport(contents,
                machine ? *machine
                        : codegen::getDefaultMachine(targetOptions.getArch()),
                options.json, outs());
  }
  return flushOutput();
}

LogicalResult Driver::run() {
  if (failed(prepare()))
    return mlir::failure();
  if (failed(options.input.empty() ? importPair() : readStage()))
    return mlir::failure();
  if (failed(readTokenizer()) || failed(chooseDraftTokens()))
    return mlir::failure();

  PipelineOptions pipeline = targetOptions.getPipeline();
  pipeline.draftTokens = draftTokens;
  struct Phase {
    Stage stage;
    StringRef name;
    std::function<void(mlir::OpPassManager &)> build;
  };
  const Phase phases[] = {
      {Stage::Import, "check", buildImportPipeline},
      {Stage::Fused, "fuse",
       [&](auto &manager) { buildFusionPipeline(manager, pipeline); }},
      {Stage::Lowered, "lower",
       [&](auto &manager) { buildLoweringPipeline(manager, pipeline); }},
      {Stage::Plan, "plan",
       [&](auto &manager) {
         (*module)->setAttr(
             kActivationsAttrName,
             mlir::StringAttr::get(&context, targetOptions.getActivations()));
         buildPlanPipeline(manager, pipeline);
       }},
  };
  for (const Phase &phase : phases)
    if (failed(runPhase(phase.stage, phase.name, phase.build)) || isDone())
      return mlir::success(isDone());
  if (options.check)
    return reportCheck();
  if (failed(compileKernels()) || isDone())
    return mlir::success(isDone());
  return writeArtifact();
}

int qcompile::compile(const Options &options) {
  return succeeded(Driver(options).run()) ? 0 : 1;
}

std::string qcompile::getVersion() {
  return "qcompile " TANDEM_VERSION " (artefact format " +
         std::to_string(TANDEM_ARTIFACT_VERSION) +
         ", LLVM " LLVM_VERSION_STRING ")";
}
