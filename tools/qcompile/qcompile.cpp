//===- qcompile.cpp - Compiles a pair -------------------------------------===//
//
// Flags in, driver called. CLI11 reports by exceptions; none leaves main.
//
//===----------------------------------------------------------------------===//

#include "codegen/CostModel.h"
#include "passes/Pipelines.h"
#include "tools/PrintHelp.h"
#include "tools/TruncatedFile.h"
#include "tools/Within.h"
#include "tools/qcompile/Driver.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

using namespace tandem::qcompile;

static const std::map<std::string, Stage> kStages = {
    {"import", Stage::Import},   {"fused", Stage::Fused},
    {"lowered", Stage::Lowered}, {"plan", Stage::Plan},
    {"cpu", Stage::Cpu},         {"cuda", Stage::Cuda}};

static int usageError(const std::string &message) {
  std::fprintf(stderr, "qcompile: %s (see --help)\n", message.c_str());
  return 2;
}

/// What CLI11 cannot see. Empty: nothing is wrong.
static std::string findUsageError(const Options &options) {
  if (options.target.empty() && options.input.empty())
    return "--target or a dumped stage is required";
  bool hasPairFlags = !options.drafter.empty() || options.block ||
                      options.draftWindow || options.maxContext ||
                      options.chunk || options.shortChunk ||
                      options.denoiseSteps || options.syntheticSeed ||
                      options.selfTestPrompt || options.selfTestFloor;
  if (!options.input.empty() && (!options.target.empty() || hasPairFlags))
    return "a dumped stage is compiled as it is: --target, --drafter, "
           "--block, --draft-window, --max-context, --chunk, "
           "--short-chunk, --denoise-steps, --self-test-prompt, "
           "--self-test-floor and "
           "--synthetic-weights do not go with it";
  if (options.selfTestPrompt && options.selfTestPrompt->empty())
    return "--self-test-prompt is empty";
  if (options.drafter.empty() &&
      (options.block || options.draftWindow || options.denoiseSteps))
    return "--block, --draft-window and --denoise-steps need a --drafter";
  if (options.drafter.empty() &&
      (options.selfTestPrompt || options.selfTestFloor))
    return "--self-test-prompt and --self-test-floor need a --drafter";
  if (options.drafter.empty() && options.input.empty() &&
      (!options.draftHead.empty() || options.draftVocabulary))
    return "--draft-head and --draft-vocab need a --drafter";
  if (!options.draftVocabularyText.empty() && !options.draftVocabulary)
    return "--draft-vocab-text needs --draft-vocab, how many of its tokens are "
           "drafted";
  if (options.check && (options.emit || options.report ||
                        !options.output.empty() || !options.dumpDir.empty()))
    return "--check writes nothing: --emit, --report, --dump-dir and -o do not "
           "go with it";
  if (options.report && options.emit)
    return "--report needs the whole compilation, which --emit stops";
  if ((options.json || !options.machine.empty()) && !options.report)
    return "--json and --machine are about the --report";
  return "";
}

int main(int argc, char **argv) {
  tandem::reportTruncatedFiles("qcompile: error");
  CLI::App app("Compiles a language model and its block drafter into one "
               "file, or goes on with a stage that was dumped.",
               "qcompile");
  app.set_version_flag("--version", getVersion());
  Options options;
  std::string stage;
  app.add_option("stage", options.input,
                 "A stage written by --dump-dir or --emit, or an lm function "
                 "(.mlir)");
  app.add_option("--target", options.target,
                 "Checkpoint directory of the language model");
  app.add_option("--drafter", options.drafter,
                 "Checkpoint directory of its drafter");
  app.add_option("--arch", options.arch,
                 "Processor: x86-64-v3, x86-64-v4, sapphirerapids or native "
                 "(default); or GPU: sm_80, sm_86, sm_89 or sm_90")
      ->check(CLI::IsMember({"x86-64-v3", "x86-64-v4", "sapphirerapids",
                             "native", "sm_80", "sm_86", "sm_89", "sm_90"}));
  app.add_option("-o,--output", options.output,
                 "File to write (default: name of the target, .tandem, in the "
                 "current folder)");
  app.add_option("--activations", options.activations,
                 "What linear layers multiply (default: bf16 on a GPU and on a "
                 "processor with tile registers for it, amx-bf16, else f32)")
      ->check(CLI::IsMember({"f32", "bf16", "int8"}));
  app.add_option(
         "--verify-head", options.verifyHead,
         "How the head of the target is read, in codes of 8 bits with "
         "the few rows that decide in bf16, or whole; the tokens are "
         "the same (default: int8 on a GPU and with --activations int8, "
         "else bf16)")
      ->check(CLI::IsMember({"bf16", "int8"}));
  app.add_option("--draft-head", options.draftHead,
                 "The same for the drafter; or rounded to 4 bits, which makes "
                 "other drafts but no other text (default: int4 on a GPU, bf16 "
                 "on a processor)")
      ->check(CLI::IsMember({"bf16", "int8", "int4"}));
  const CLI::Range sizes(int64_t(1), int64_t(1) << 30);
  app.add_option("--draft-vocab", options.draftVocabulary,
                 "Draft only so many tokens of the vocabulary: those that "
                 "--draft-vocab-text has most often, or else the first; makes "
                 "other drafts but no other text (default: all)")
      ->check(sizes);
  app.add_option("--draft-vocab-text", options.draftVocabularyText,
                 "A text (UTF-8) of the kind that will be written")
      ->type_name("FILE");
  app.add_option("--block", options.block,
                 "Tokens of a verified block (default: the drafter's)")
      ->check(sizes);
  app.add_option("--draft-window", options.draftWindow,
                 "Two-sided window of the drafter's full layers")
      ->check(sizes);
  app.add_option("--max-context", options.maxContext,
                 "Most tokens of a text, prompt and answer together (default: "
                 "8192, or what the models were made for if that is less)")
      ->check(sizes);
  app.add_option("--chunk", options.chunk,
                 "Tokens of a prompt that are read at a time (default: 64, on "
                 "a GPU 2048); fewer take less memory")
      ->check(sizes);
  app.add_option("--short-chunk", options.shortChunk,
                 "Read prompts, or what is left of them, of up to so many "
                 "tokens by programs made for them, which saves a GPU time; 0: "
                 "no such programs (default: 0, on a GPU 64 if that is less "
                 "than the chunk)")
      ->check(CLI::Range(int64_t(0), int64_t(1) << 30));
  app.add_option("--denoise-steps", options.denoiseSteps,
                 "Diffusion steps per block (default: 1)")
      ->check(sizes);
  app.add_option("--self-test-prompt", options.selfTestPrompt,
                 "What qrun --self-test writes about (default: numbers in "
                 "order)");
  app.add_option("--self-test-floor", options.selfTestFloor,
                 "Mean accept length that --self-test expects at least "
                 "(default: 1.1; a drafter that is never right has 1)")
      ->check(tandem::within(1, 1024));
  app.add_option("--synthetic-weights", options.syntheticSeed,
                 "Take shapes from config.json alone; weights are made from "
                 "this seed at load, for benchmarks")
      ->type_name("SEED");
  std::vector<std::string> optionalPasses;
  for (llvm::StringRef flag : tandem::getOptionalPasses())
    optionalPasses.push_back(flag.str());
  app.add_option("--disable-pass", options.disabledPasses,
                 "Leave a fusion out; changes time, never results")
      ->check(CLI::IsMember(optionalPasses))
      ->type_name("NAME");
  app.add_option("--emit", stage, "Print a stage and stop")
      ->check(
          CLI::IsMember({"import", "fused", "lowered", "plan", "cpu", "cuda"}));
  app.add_option("--dump-dir", options.dumpDir,
                 "Folder to write every stage and the kernels to");
  app.add_flag("--check", options.check,
               "Check that the input can be compiled, and stop: everything but "
               "the kernels and the file");
  app.add_flag("--report", options.report,
               "Print the memory plan, and bytes, operations and floor of "
               "every kernel");
  std::vector<std::string> machines;
  for (const tandem::codegen::Machine &machine : tandem::codegen::getMachines())
    machines.push_back(machine.name.str());
  app.add_option("--machine", options.machine,
                 "Machine of the floors (default: as --arch suggests)")
      ->check(CLI::IsMember(machines));
  app.add_flag("--json", options.json, "Print the report as JSON");

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &success) {
    return tandem::printHelp(app, success, "qcompile: error");
  } catch (const CLI::ParseError &error) {
    return usageError(error.what());
  }
  if (!stage.empty())
    options.emit = kStages.at(stage);
  if (std::string problem = findUsageError(options); !problem.empty())
    return usageError(problem);
  return compile(options);
}
