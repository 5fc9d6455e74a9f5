//===- Speculator.cpp - The speculative loop ------------------------------===//

#include "runtime/Speculator.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace tandem {

using Clock = std::chrono::steady_clock;

static double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double Generation::meanAcceptLength() const {
  if (acceptLengths.empty())
    return 1;
  double sum = std::accumulate(acceptLengths.begin(), acceptLengths.end(), 0.0);
  return sum / double(acceptLengths.size());
}

double Generation::tokensPerSecond() const {
  if (ids.size() < 2 || decodeSeconds <= 0)
    return 0;
  return double(ids.size() - 1) / decodeSeconds;
}

StatusOr<Speculator> Speculator::create(const Artifact &artifact,
                                        Device &device) {
  if (!artifact.root().loop())
    return invalidArgument("holds a single function and cannot write text: "
                           "run it with 'qrun exec'");
  return Speculator(LoopDriver(artifact, device));
}

Speculator::Speculator(LoopDriver loopDriver)
    : driver(std::move(loopDriver)), round(driver.loop().block()) {}

bool Speculator::isStopToken(uint32_t token) const {
  const auto *stops = driver.loop().stop_tokens();
  return stops &&
         std::find(stops->begin(), stops->end(), token) != stops->end();
}

uint32_t Speculator::emit(std::span<const uint32_t> tokens, Text &text) const {
  uint32_t taken = 0;
  for (uint32_t token : tokens) {
    if (text.ended)
      break;
    text.result.ids.push_back(token);
    ++taken;
    if ((!text.ignoreStopTokens && isStopToken(token)) ||
        !text.sink.token(token)) {
      text.ended = true;
      text.result.finishReason = FinishReason::Stop;
    } else if (text.result.ids.size() >= text.budget) {
      text.ended = true;
      text.result.finishReason = FinishReason::Length;
    }
  }
  // Cancelling a text that has already ended changes nothing.
  if (!text.sink.keepGoing() && !text.ended) {
    text.ended = true;
    text.result.finishReason = FinishReason::Cancelled;
  }
  return taken;
}

Status Speculator::prefill(std::span<const uint32_t> prompt, bool withContext,
                           Text &text) {
  const artifact::Loop &loop = driver.loop();
  const LoopPorts &ports = driver.ports();
  TANDEM_RETURN_IF_ERROR(driver.reset());
  TANDEM_RETURN_IF_ERROR(driver.writeCount(ports.accepted, 0));
  for (size_t first = 0; first < prompt.size(); first += loop.chunk()) {
    size_t count = std::min<size_t>(loop.chunk(), prompt.size() - first);
    TANDEM_RETURN_IF_ERROR(
        driver.writeTokens(ports.chunk, prompt.subspan(first, count)));
    TANDEM_RETURN_IF_ERROR(
        driver.writeCount(ports.chunkCount, uint32_t(count)));
    TANDEM_RETURN_IF_ERROR(driver.writeCount(ports.start, uint32_t(first)));
    TANDEM_RETURN_IF_ERROR(driver.run(loop.prefill()));
    if (withContext)
      TANDEM_RETURN_IF_ERROR(driver.run(loop.context()));
    if (first + count < prompt.size() && !text.sink.keepGoing()) {
      text.ended = true;
      text.result.finishReason = FinishReason::Cancelled;
      return Status();
    }
  }
  // Nothing is pending: the first round appends no rows to the context.
  auto length = uint32_t(prompt.size());
  TANDEM_RETURN_IF_ERROR(driver.writeCount(ports.start, length));
  if (driver.hasDrafter()) {
    TANDEM_RETURN_IF_ERROR(driver.writeCount(ports.contextStart, length));
    TANDEM_RETURN_IF_ERROR(driver.writeCount(ports.blockCount, loop.block()));
  }
  return driver.readTokens(ports.anchor, std::span(round).first(1), length);
}

StatusOr<std::span<const uint32_t>> Speculator::draftRound(uint64_t position) {
  const artifact::Loop &loop = driver.loop();
  TANDEM_RETURN_IF_ERROR(driver.run(loop.draft()));
  TANDEM_RETURN_IF_ERROR(driver.run(loop.verify()));
  TANDEM_RETURN_IF_ERROR(driver.run(loop.accept()));
  TANDEM_ASSIGN_OR_RETURN(
      uint32_t accepted,
      driver.readCount(driver.ports().accepted, 1, loop.block()));
  std::span<uint32_t> tokens = std::span(round).first(accepted);
  TANDEM_RETURN_IF_ERROR(
      driver.readTokens(driver.ports().decided, tokens, position));
  return std::span<const uint32_t>(tokens);
}

StatusOr<std::span<const uint32_t>> Speculator::plainRound(uint64_t position) {
  TANDEM_RETURN_IF_ERROR(driver.run(driver.loop().step()));
  std::span<uint32_t> token = std::span(round).first(1);
  TANDEM_RETURN_IF_ERROR(
      driver.readTokens(driver.ports().anchor, token, position));
  return std::span<const uint32_t>(token);
}

StatusOr<Generation> Speculator::generate(std::span<const uint32_t> prompt,
                                          const GenerateOptions &options,
                                          TokenSink &sink) {
  uint32_t context = driver.loop().max_context();
  TANDEM_RETURN_IF_ERROR(driver.checkIds("the prompt", prompt));
  if (prompt.size() >= context)
    return invalidArgument("the prompt has ", prompt.size(),
                           " tokens, prompt and answer together can have ",
                           context);
  bool useDrafter = options.useDrafter && driver.hasDrafter();
  auto room = uint32_t(context - prompt.size());
  Text text{.result = {},
            .budget = std::min(options.maxNewTokens, room),
            .ignoreStopTokens = options.ignoreStopTokens,
            .sink = sink};
  // An answer of no tokens still checks its prompt.
  if (text.budget == 0)
    return std::move(text.result);
  text.result.ids.reserve(text.budget);
  if (useDrafter)
    text.result.acceptLengths.reserve(text.budget);

  Clock::time_point begin = Clock::now();
  TANDEM_RETURN_IF_ERROR(prefill(prompt, useDrafter, text));
  text.result.prefillSeconds = secondsSince(begin);
  if (!text.ended)
    emit(std::span(round).first(1), text);

  begin = Clock::now();
  while (!text.ended) {
    uint64_t position = prompt.size() + text.result.ids.size();
    TANDEM_ASSIGN_OR_RETURN(std::span<const uint32_t> tokens,
                            useDrafter ? draftRound(position)
                                       : plainRound(position));
    uint32_t taken = emit(tokens, text);
    if (useDrafter)
      text.result.acceptLengths.push_back(taken);
  }
  text.result.decodeSeconds = secondsSince(begin);
  return std::move(text.result);
}

} // namespace tandem
