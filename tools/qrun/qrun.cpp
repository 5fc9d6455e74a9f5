//===- qrun.cpp - Runs a compiled pair ------------------------------------===//
//
// Flags in, commands called. CLI11 reports by exceptions; none leaves main.
//
//===----------------------------------------------------------------------===//

#include "tools/PrintHelp.h"
#include "tools/TruncatedFile.h"
#include "tools/qrun/Commands.h"
#include "tools/qrun/TextFlags.h"

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <functional>

using namespace tandem;
using namespace tandem::qrun;

namespace {

/// What main does after the flags are parsed; returns the exit code.
using Command = std::function<StatusOr<int>()>;

/// Wraps a command that has no exit code of its own.
template <typename Flags>
Command command(Status (*function)(const Flags &), const Flags &flags) {
  return [function, &flags]() -> StatusOr<int> {
    TANDEM_RETURN_IF_ERROR(function(flags));
    return 0;
  };
}

void addDeviceFlags(CLI::App &app, DeviceFlags &flags) {
  app.add_option("artifact", flags.artifact, "The compiled pair (.tandem)");
  app.add_option("--device", flags.device,
                 "Where to run: cpu or cuda:N (default: what the artefact is "
                 "for)")
      ->check([](const std::string &name) {
        return checkDeviceName(name).message();
      });
  app.add_option("--threads", flags.threads,
                 "Threads for the CPU (default: as many as it may use cores)")
      ->check(CLI::Range(1u, 1024u));
  app.add_flag("--verify", flags.verify,
               "Check the hash of code and weights first, which reads all of "
               "the file");
}

void addPromptFlags(CLI::App &app, PromptFlags &flags, bool withIds) {
  auto *text = app.add_option("-p,--prompt", flags.text, "The prompt");
  auto *file =
      app.add_option("--prompt-file", flags.textFile, "A file with the prompt");
  text->excludes(file);
  if (!withIds)
    return;
  auto *ids = app.add_option("--ids", flags.idsFile,
                             "A file with the prompt's ids, a JSON array");
  ids->excludes(text)->excludes(file);
}

bool hasPrompt(const PromptFlags &prompt) {
  return prompt.text || prompt.textFile || prompt.idsFile;
}

/// Usage errors that CLI11 cannot see. Empty: there are none.
std::string missing(const std::string &artifact, const PromptFlags *prompt) {
  if (artifact.empty())
    return "an artifact is required (see --help)";
  if (prompt && !hasPrompt(*prompt))
    return "a prompt is required: -p, --prompt-file or --ids";
  return "";
}

int usageError(std::string_view message) {
  std::fprintf(stderr, "qrun: %.*s\n", int(message.size()), message.data());
  return 2;
}

} // namespace

int main(int argc, char **argv) {
  reportTruncatedFiles("qrun");
  // Writing to a pipe that nobody reads is an error like others.
  std::signal(SIGPIPE, SIG_IGN);

  CLI::App app("Runs a compiled pair of target and drafter.", "qrun");
  app.set_version_flag("--version", TANDEM_VERSION);
  Command run;
  std::string problem;

  GenerateFlags generateFlags;
  addDeviceFlags(app, generateFlags);
  addPromptFlags(app, generateFlags.prompt, /*withIds=*/true);
  app.add_option("-n,--max-tokens", generateFlags.maxNewTokens,
                 "Most tokens of the answer")
      ->check(CLI::Range(1u, 1u << 30))
      ->capture_default_str();
  addAnswerFlags(app, generateFlags.answer, /*samples=*/false);
  app.add_flag("--chat", generateFlags.isChat,
               "The prompt is a message: use the chat template");
  addChatFlags(app, generateFlags.chat);
  app.add_flag("--json", generateFlags.json, "Print one JSON object");
  bool isSelfTest = false;
  app.add_flag("--self-test", isSelfTest,
               "Check that target and drafter agree on the prompt that the "
               "artefact brings");
  app.require_subcommand(0, 1);
  // The artefact may stand in front of a command; flags that stand there are
  // those of no command.
  auto takeArtifact = [&](const CLI::App &command, std::string &artifact) {
    for (const CLI::Option *option : app.get_options()) {
      bool isArtifact = option->get_positional();
      if (!option->empty() && (!isArtifact || !artifact.empty()))
        throw CLI::ValidationError(
            command.get_name(),
            isArtifact ? "there are two artefacts, " + generateFlags.artifact +
                             " and " + artifact
                       : option->get_name() + " stands in front of " +
                             command.get_name() + ", expected it behind");
    }
    if (artifact.empty())
      artifact = generateFlags.artifact;
  };

  ScoreFlags scoreFlags;
  CLI::App *scoreApp = app.add_subcommand(
      "score", "Logits and features of given ids, as safetensors");
  addDeviceFlags(*scoreApp, scoreFlags);
  scoreApp->add_option("--ids", scoreFlags.idsFile, "A JSON array of ids")
      ->required();
  scoreApp->add_option("-o", scoreFlags.output, "The file to write")
      ->required();
  scoreApp->callback([&] {
    takeArtifact(*scoreApp, scoreFlags.artifact);
    problem = missing(scoreFlags.artifact, nullptr);
    run = command(score, scoreFlags);
  });

  ExecFlags execFlags;
  CLI::App *execApp = app.add_subcommand(
      "exec", "Runs one program on tensors from a safetensors file");
  addDeviceFlags(*execApp, execFlags);
  execApp->add_option("--in", execFlags.input, "The inputs, by port name")
      ->required();
  execApp->add_option("-o", execFlags.output, "The file to write")->required();
  execApp->add_option("--program", execFlags.program,
                      "Name of the program (default: the first)");
  execApp->callback([&] {
    takeArtifact(*execApp, execFlags.artifact);
    problem = missing(execFlags.artifact, nullptr);
    run = command(exec, execFlags);
  });

  BenchFlags benchFlags;
  CLI::App *benchApp =
      app.add_subcommand("bench", "Measures how fast the pair is");
  addDeviceFlags(*benchApp, benchFlags);
  addPromptFlags(*benchApp, benchFlags.prompt, /*withIds=*/true);
  benchApp
      ->add_option_function<std::string>(
          "--scenario",
          [&benchFlags](const std::string &text) {
            auto scenarios = parseScenarios(text);
            if (!scenarios.isOk())
              throw CLI::ValidationError("--scenario",
                                         scenarios.status().message());
            benchFlags.scenarios = std::move(*scenarios);
          },
          "Lengths of prompt and answer, as 64/128,2048/256")
      ->option_text("TEXT");
  benchApp
      ->add_option("-n,--max-tokens", benchFlags.maxNewTokens,
                   "Tokens behind a prompt without --scenario")
      ->check(CLI::Range(1u, 1u << 30))
      ->capture_default_str();
  benchApp
      ->add_option("--repeat", benchFlags.repeats,
                   "Runs of each kind; medians are printed")
      ->check(CLI::Range(1u, 1000u))
      ->capture_default_str();
  addBlockFlag(*benchApp, benchFlags.block);
  benchApp
      ->add_option("--accept", benchFlags.acceptLength,
                   "Let every round accept this many tokens, whatever the "
                   "drafter says: for synthetic weights. The host runs the "
                   "rounds then")
      ->check(CLI::Range(1u, 1024u));
  benchApp->add_flag("--kernels", benchFlags.kernels,
                     "Print the time of the kernels of every program");
  benchApp->add_flag("--json", benchFlags.json, "Print one JSON object");
  benchApp->callback([&] {
    takeArtifact(*benchApp, benchFlags.artifact);
    problem = missing(benchFlags.artifact, nullptr);
    run = command(bench, benchFlags);
  });

  ChatCommandFlags chatFlags;
  CLI::App *chatApp =
      app.add_subcommand("chat", "A conversation in the terminal");
  addDeviceFlags(*chatApp, chatFlags);
  chatApp
      ->add_option("-n,--max-tokens", chatFlags.maxNewTokens,
                   "Most tokens of an answer (default: what fits)")
      ->check(CLI::Range(1u, 1u << 30));
  addAnswerFlags(*chatApp, chatFlags.answer, /*samples=*/true);
  addChatFlags(*chatApp, chatFlags.chat);
  chatApp->callback([&] {
    takeArtifact(*chatApp, chatFlags.artifact);
    problem = missing(chatFlags.artifact, nullptr);
    if (problem.empty())
      problem = problemOf(chatFlags.answer);
    run = [&] { return converse(chatFlags); };
  });

  ServeFlags serveFlags;
  CLI::App *serveApp =
      app.add_subcommand("serve", "Answers requests of OpenAI's API");
  addDeviceFlags(*serveApp, serveFlags);
  addServeFlags(*serveApp, serveFlags);
  serveApp->callback([&] {
    takeArtifact(*serveApp, serveFlags.artifact);
    problem = missing(serveFlags.artifact, nullptr);
    run = command(serve, serveFlags);
  });

  InspectFlags inspectFlags;
  CLI::App *inspectApp =
      app.add_subcommand("inspect", "What an artefact holds");
  inspectApp->add_option("artifact", inspectFlags.artifact,
                         "The compiled pair (.tandem)");
  inspectApp->add_flag("--deep", inspectFlags.deep,
                       "Also verify the hash of the weights, and run the "
                       "self-test if this machine can");
  inspectApp->add_flag("--json", inspectFlags.json, "Print a JSON object");
  inspectApp->callback([&] {
    takeArtifact(*inspectApp, inspectFlags.artifact);
    problem = missing(inspectFlags.artifact, nullptr);
    run = command(inspect, inspectFlags);
  });

  TokenizeFlags tokenizeFlags;
  CLI::App *tokenizeApp =
      app.add_subcommand("tokenize", "The token ids of a text");
  tokenizeApp->add_option("artifact", tokenizeFlags.artifact,
                          "The compiled pair (.tandem)");
  addPromptFlags(*tokenizeApp, tokenizeFlags.prompt, /*withIds=*/false);
  tokenizeApp->add_flag("--json", tokenizeFlags.json, "Print a JSON object");
  tokenizeApp->callback([&] {
    takeArtifact(*tokenizeApp, tokenizeFlags.artifact);
    problem = missing(tokenizeFlags.artifact, &tokenizeFlags.prompt);
    run = command(tokenize, tokenizeFlags);
  });

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &success) {
    return printHelp(app, success, "qrun");
  } catch (const CLI::ParseError &error) {
    return usageError(error.what());
  }
  if (!run && isSelfTest) {
    problem = missing(generateFlags.artifact, nullptr);
    if (problem.empty() && hasPrompt(generateFlags.prompt))
      problem = "--self-test brings its own prompt";
    run = command(selfTest, generateFlags);
  } else if (!run) {
    problem = missing(generateFlags.artifact, &generateFlags.prompt);
    if (problem.empty())
      problem = problemOf(generateFlags.answer);
    if (problem.empty() && generateFlags.isChat && generateFlags.prompt.idsFile)
      problem = "--chat takes text, not --ids";
    const ChatFlags &chat = generateFlags.chat;
    if (problem.empty() && !generateFlags.isChat &&
        (chat.templateName || chat.system || chat.thinking))
      problem = "--template, --system, --thinking and --no-thinking are about "
                "a --chat";
    run = [&] { return generate(generateFlags); };
  }
  if (!problem.empty())
    return usageError(problem);

  StatusOr<int> code = run();
  if (!code.isOk()) {
    std::fflush(stdout);
    std::fprintf(stderr, "qrun: %s\n", code.status().message().c_str());
    return 1;
  }
  if (std::fflush(stdout) != 0 && errno != EPIPE) {
    std::fprintf(stderr, "qrun: %s\n",
                 systemError("stdout: cannot write", errno).message().c_str());
    return 1;
  }
  return *code;
}
