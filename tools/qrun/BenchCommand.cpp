//===- BenchCommand.cpp - qrun bench --------------------------------------===//

#include "tools/qrun/Commands.h"
#include "tools/qrun/HeadCountsJson.h"

#include "runtime/Bench.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace tandem::qrun {

namespace {

/// What bench writes about when it is given no prompt.
constexpr std::string_view builtInText =
    "The cable ferry crosses the river every half hour. It was built when the "
    "road on the other side was still a path, and it has needed new ropes "
    "twice since then. In winter, when ice drifts down from the hills, the "
    "ferryman waits and mends nets.\n";

} // namespace

StatusOr<std::vector<Scenario>> parseScenarios(std::string_view text) {
  std::vector<Scenario> result;
  while (true) {
    std::string_view item = text.substr(0, text.find(','));
    Scenario scenario = {};
    const char *end = item.data() + item.size();
    auto prompt = std::from_chars(item.data(), end, scenario.promptTokens);
    bool good =
        prompt.ec == std::errc() && prompt.ptr != end && *prompt.ptr == '/';
    if (good) {
      auto answer = std::from_chars(prompt.ptr + 1, end, scenario.newTokens);
      good = answer.ec == std::errc() && answer.ptr == end &&
             scenario.promptTokens > 0 && scenario.newTokens > 0;
    }
    if (!good)
      return invalidArgument("'", item,
                             "' is not of the form PROMPT/ANSWER, as 64/128");
    result.push_back(scenario);
    if (item.size() == text.size())
      return result;
    text.remove_prefix(item.size() + 1);
  }
}

/// Ids to make prompts of.
static StatusOr<std::vector<uint32_t>> sourceIds(const BenchFlags &flags,
                                                 const Session &session) {
  bool given =
      flags.prompt.text || flags.prompt.textFile || flags.prompt.idsFile;
  if (!session.artifact.root().tokenizer() && !given) {
    // Any ids do: without text nobody reads the answer.
    std::vector<uint32_t> ids(251);
    for (uint32_t index = 0; index < ids.size(); ++index)
      ids[index] = index * 7919 % session.artifact.root().loop()->vocabulary();
    return ids;
  }
  if (flags.prompt.idsFile)
    return readPrompt(flags.prompt, nullptr);
  TANDEM_ASSIGN_OR_RETURN(Tokenizer tokenizer,
                          makeTokenizer(session.artifact, flags.artifact));
  if (!given)
    return tokenizer.encode(builtInText);
  return readPrompt(flags.prompt, &tokenizer);
}

static void addKernels(nlohmann::ordered_json &object,
                       const std::vector<KernelTime> &kernels) {
  for (const KernelTime &time : kernels)
    object["kernels"].push_back({{"program", time.program},
                                 {"family", time.family},
                                 {"launches", time.launches},
                                 {"us", time.seconds * 1e6},
                                 {"weight_bytes", time.weightBytes}});
}

static nlohmann::ordered_json toJson(const BenchSide &side, double bandwidth) {
  nlohmann::ordered_json programs = nlohmann::ordered_json::object();
  for (const auto &[name, seconds] : side.programSeconds)
    programs[name] = seconds * 1e3;
  nlohmann::ordered_json object = {
      {"tokens_per_s", side.tokensPerSecond},
      {"mean_accept_length", side.meanAcceptLength},
      {"round_ms", side.roundSeconds * 1e3},
      {"program_ms", programs},
      {"weight_bytes_per_round", uint64_t(side.weightBytesPerRound)},
      {"drafted_share", side.draftedShare},
      {"gb_per_s", side.bytesPerSecond() / 1e9},
      {"bandwidth_share", side.bytesPerSecond() / bandwidth}};
  if (side.heads)
    object["head"] = toJson(*side.heads);
  addKernels(object, side.kernels);
  return object;
}

static nlohmann::ordered_json toJson(const BenchResult &result,
                                     double bandwidth) {
  nlohmann::ordered_json object = {{"prompt_tokens", result.promptTokens},
                                   {"new_tokens", result.newTokens},
                                   {"prefill_ms", result.prefillSeconds * 1e3},
                                   {"same_ids", result.sameIds},
                                   {"plain", toJson(result.plain, bandwidth)}};
  if (result.speculative)
    object["speculative"] = toJson(*result.speculative, bandwidth);
  addKernels(object, result.prefillKernels);
  return object;
}

static void printKernels(const std::vector<KernelTime> &kernels,
                         double bandwidth) {
  for (const KernelTime &time : kernels) {
    double rate = double(time.weightBytes) / time.seconds;
    std::printf("    %-12s %4u %-22s %9.1f us", time.program.c_str(),
                time.launches, time.family.c_str(), time.seconds * 1e6);
    if (time.weightBytes)
      std::printf("  %8.1f MB  %7.1f GB/s (%.0f%%)",
                  double(time.weightBytes) / 1e6, rate / 1e9,
                  rate / bandwidth * 100);
    std::printf("\n");
  }
}

static void printSide(const char *name, const BenchSide &side,
                      double bandwidth) {
  std::printf("  %-12s %8.1f tokens/s  accept %5.2f  round %8.2f ms  "
              "%7.1f MB  %6.2f GB/s (%.0f%%)\n",
              name, side.tokensPerSecond, side.meanAcceptLength,
              side.roundSeconds * 1e3, side.weightBytesPerRound / 1e6,
              side.bytesPerSecond() / 1e9,
              side.bytesPerSecond() / bandwidth * 100);
  std::printf("  %-12s", "");
  for (const auto &[program, seconds] : side.programSeconds)
    std::printf(" %s %.2f ms", program.c_str(), seconds * 1e3);
  std::printf("\n");
  if (side.heads)
    std::printf("  %-12s head: %u searches of %.1f rows, %.2f tiles a row "
                "computed, %u full passes\n",
                "", side.heads->searches,
                double(side.heads->rows) / std::max(side.heads->searches, 1u),
                side.heads->tilesPerRow(), side.heads->fullPasses);
  printKernels(side.kernels, bandwidth);
}

static void printResult(const BenchResult &result, double bandwidth) {
  std::printf("prompt %u, answer %u: prefill %.1f ms (%.0f tokens/s)\n",
              result.promptTokens, result.newTokens,
              result.prefillSeconds * 1e3,
              result.promptTokens / result.prefillSeconds);
  printKernels(result.prefillKernels, bandwidth);
  if (result.speculative)
    printSide("speculative", *result.speculative, bandwidth);
  printSide("plain", result.plain, bandwidth);
}

Status bench(const BenchFlags &flags) {
  TANDEM_ASSIGN_OR_RETURN(Session session, load(flags));
  if (!session.artifact.root().loop())
    return invalidArgument(flags.artifact,
                           ": holds a single function and cannot write text");
  TANDEM_ASSIGN_OR_RETURN(std::vector<uint32_t> ids, sourceIds(flags, session));
  if (ids.empty())
    return invalidArgument("the prompt is empty");

  // A prompt without scenarios is used as it is. Of the scenarios that nobody
  // asked for, those that fit.
  std::vector<Scenario> scenarios = flags.scenarios;
  uint32_t context = session.artifact.root().loop()->max_context();
  auto fits = [&](const Scenario &scenario) {
    return uint64_t(scenario.promptTokens) + scenario.newTokens <= context;
  };
  bool given =
      flags.prompt.text || flags.prompt.textFile || flags.prompt.idsFile;
  if (scenarios.empty() && given) {
    scenarios = {{uint32_t(ids.size()), flags.maxNewTokens}};
  } else if (scenarios.empty()) {
    scenarios = {{64, 128}, {2048, 256}, {8192, 256}};
    std::erase_if(scenarios, std::not_fn(fits));
  }
  for (const Scenario &scenario : scenarios)
    if (!fits(scenario))
      return invalidArgument(flags.artifact, ": ", scenario.promptTokens, "/",
                             scenario.newTokens, " needs a context of ",
                             uint64_t(scenario.promptTokens) +
                                 scenario.newTokens,
                             " tokens, it was compiled for ", context);

  if (scenarios.empty())
    return invalidArgument(flags.artifact, ": a context of ", context,
                           " tokens is too short for the usual scenarios, "
                           "which begin with 64/128: choose --scenario");

  const std::string &machine = session.machine.name;
  TANDEM_ASSIGN_OR_RETURN(
      double bandwidth, session.machine.measureBandwidth(uint64_t(512) << 20));
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  if (!flags.json)
    std::printf("%s, memory at %.1f GB/s, %s\n", machine.c_str(),
                bandwidth / 1e9, session.machine.rounds.c_str());
  for (const Scenario &scenario : scenarios) {
    BenchOptions options;
    options.newTokens = scenario.newTokens;
    options.repeats = flags.repeats;
    options.blockRows = flags.block.value_or(0);
    options.forcedAcceptLength = flags.acceptLength;
    // What is forced says nothing about what pays.
    options.chooseRows = !flags.block && !flags.acceptLength;
    options.kernels = flags.kernels;
    if (isatty(STDERR_FILENO) && !flags.json)
      std::fprintf(stderr, "measuring %u/%u...\r", scenario.promptTokens,
                   scenario.newTokens);
    auto result = tandem::bench(session.artifact, session.device(),
                                repeatIds(ids, scenario.promptTokens), options);
    if (!result.isOk())
      return inFile(flags.artifact, result.status());
    if (flags.json)
      results.push_back(toJson(*result, bandwidth));
    else
      printResult(*result, bandwidth);
    // A reader that has seen enough is no error.
    if (std::fflush(stdout) != 0)
      return errno == EPIPE ? Status()
                            : systemError("stdout: cannot write", errno);
    if (!result->sameIds)
      return invalidFile(flags.artifact, ": with the drafter the ids of ",
                         scenario.promptTokens, "/", scenario.newTokens,
                         " are not the same as without");
  }
  if (flags.json) {
    nlohmann::ordered_json object = {{"device", machine},
                                     {"rounds", session.machine.rounds},
                                     {"memory_gb_per_s", bandwidth / 1e9},
                                     {"scenarios", std::move(results)}};
    // Names come from the file and may be any bytes.
    std::string line = object.dump(
        -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    std::printf("%s\n", line.c_str());
  }
  return Status();
}

} // namespace tandem::qrun
