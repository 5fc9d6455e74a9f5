//===- Speculator.cpp - The speculative loop ------------------------------===//

#include "runtime/Speculator.h"

#include "runtime/WeightTraffic.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace tandem {

double Speculator::steadySeconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double Generation::meanAcceptLength() const {
  if (acceptLengths.empty())
    return 1;
  double sum = std::accumulate(acceptLengths.begin(), acceptLengths.end(), 0.0);
  return sum / double(acceptLengths.size());
}

double Generation::draftedShare() const {
  if (acceptLengths.empty())
    return 0;
  if (roundRows.empty())
    return 1;
  return double(drafts) / double(roundRows.size());
}

double Generation::tokensPerSecond() const {
  if (ids.size() < 2 || decodeSeconds <= 0)
    return 0;
  return double(ids.size() - 1) / decodeSeconds;
}

StatusOr<Speculator> Speculator::create(const Artifact &artifact,
                                        Device &device, Now now) {
  if (!artifact.root().loop())
    return invalidArgument("holds a single function and cannot write text: "
                           "run it with 'qrun exec'");
  const artifact::Loop &loop = *artifact.root().loop();
  uint64_t stepBytes = weightBytesRead(artifact, uint32_t(loop.step()));
  double draftCost = 0;
  if (loop.draft() >= 0)
    draftCost = double(weightBytesRead(artifact, uint32_t(loop.draft()))) /
                double(std::max<uint64_t>(stepBytes, 1));
  return Speculator(LoopDriver(artifact, device), draftCost, stepBytes,
                    std::move(now));
}

Speculator::Speculator(LoopDriver loopDriver, double draftCost,
                       uint64_t stepBytes, Now now)
    : driver(std::move(loopDriver)), now(std::move(now)), stepBytes(stepBytes),
      round(driver.loop().block()), drafted(driver.loop().block()),
      snapshots(driver.snapshots()), chooser(driver.loop().block(), draftCost) {
  // A drafter that is not asked again needs no context: what it would have to
  // read waits for as long as there is room.
  constexpr size_t usualRoom = (size_t(16) << 20) / sizeof(float);
  size_t chunk = size_t(driver.loop().chunk()) * driver.featureWidth();
  laterRoom = std::max(chunk, usualRoom);
  laterFeatures.reserve(hasDrafter() ? laterRoom : 0);
}

bool Speculator::isStopToken(uint32_t token,
                             const GenerateOptions &options) const {
  const auto *stops = driver.loop().stop_tokens();
  bool ends = stops && !options.ignoreStopTokens &&
              std::find(stops->begin(), stops->end(), token) != stops->end();
  return ends || std::find(options.stopTokens.begin(), options.stopTokens.end(),
                           token) != options.stopTokens.end();
}

uint32_t Speculator::emit(std::span<const uint32_t> tokens, Text &text) const {
  uint32_t taken = 0;
  uint32_t vocabulary = driver.loop().vocabulary();
  for (uint32_t token : tokens) {
    if (text.ended)
      break;
    text.result.ids.push_back(token);
    bool stops = isStopToken(token, text.options);
    if (!stops && text.options.logprobs)
      text.sink.logprobs(computeLogprobs(
          std::span(logits).subspan(size_t(taken) * vocabulary, vocabulary),
          token, *text.options.logprobs));
    ++taken;
    if (stops || !text.sink.token(token)) {
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

std::span<float> Speculator::rowsOf(std::vector<float> &buffer,
                                    size_t count) const {
  size_t size = count * driver.loop().vocabulary();
  if (buffer.size() < size)
    buffer.resize(size);
  return std::span(buffer).first(size);
}

//===----------------------------------------------------------------------===//
// The prompt
//===----------------------------------------------------------------------===//

/// Whether the drafter has, or can be given, the rows of all tokens in the
/// caches.
bool Speculator::knowsContext(const Text &text) const {
  if (!text.drafted)
    return true;
  size_t rows = contextRows + laterFeatures.size() / driver.featureWidth();
  return rows == cached.size() ||
         (pendingFeatures && rows + pending == cached.size());
}

/// Begins an empty text.
Status Speculator::startOver() {
  cached.clear();
  snapshots.clear();
  isCurrent = true;
  pending = 0;
  contextRows = 0;
  laterFeatures.clear();
  TANDEM_RETURN_IF_ERROR(driver.reset());
  return driver.writeCount(driver.ports().accepted, 0);
}

/// Goes on behind all tokens in the caches.
Status Speculator::goOn(Text &text) {
  const LoopPorts &ports = driver.ports();
  if (text.drafted)
    TANDEM_RETURN_IF_ERROR(flushFeatures());
  if (text.drafted && contextRows < cached.size()) {
    // The drafter would read these rows at the start of its next round, which
    // now begins behind the prompt.
    std::vector<float> features(size_t(pending) * driver.featureWidth());
    TANDEM_RETURN_IF_ERROR(driver.readRows(*pendingFeatures, features));
    TANDEM_RETURN_IF_ERROR(
        driver.appendContext(features, uint32_t(contextRows)));
    contextRows = cached.size();
  }
  // Fewer rows than the last program accepted when the text ended among them.
  return driver.writeCount(ports.accepted, pending);
}

/// Goes on behind the tokens of a snapshot.
Status Speculator::goBack(const SnapshotTable::Found &found) {
  TANDEM_RETURN_IF_ERROR(driver.restore(found.snapshot));
  cached.resize(found.entry.position);
  // Those behind it, of which the drafter knows too little, are of tokens that
  // are no longer in the caches.
  snapshots.dropBehind(cached.size());
  isCurrent = true;
  pending = 0;
  pendingFeatures.reset();
  contextRows = found.entry.contextRows;
  laterFeatures.clear();
  return driver.writeCount(driver.ports().accepted, 0);
}

/// Brings the caches to the longest known beginning of \p prompt, and decides
/// where there will be snapshots.
Status Speculator::reuseCaches(std::span<const uint32_t> prompt, Text &text) {
  // Fewer tokens are computed again in the time that one more chunk takes.
  constexpr size_t worthASnapshot = 32;
  if (!text.options.reusePrefix || text.options.promptLogprobs)
    return startOver();
  auto differs =
      std::mismatch(cached.begin(), cached.end(), prompt.begin(), prompt.end());
  // The last token of the prompt is always computed: it decides the first one
  // of the answer.
  size_t shared =
      std::min(size_t(differs.first - cached.begin()), prompt.size() - 1);
  if (isCurrent && !cached.empty() && cached.size() <= shared &&
      knowsContext(text)) {
    TANDEM_RETURN_IF_ERROR(goOn(text));
  } else {
    snapshots.dropBehind(shared);
    auto found = snapshots.find(shared, text.drafted);
    TANDEM_RETURN_IF_ERROR(found ? goBack(*found) : startOver());
    // What two texts have in common, a third one may have, too.
    if (shared >= cached.size() + worthASnapshot)
      text.snapshotsAt.push_back(shared);
  }
  text.result.reusedTokens = uint32_t(cached.size());
  size_t leavesAt = text.options.leavesAt.value_or(0);
  if (leavesAt > cached.size() && leavesAt <= prompt.size())
    text.snapshotsAt.push_back(leavesAt);
  std::sort(text.snapshotsAt.begin(), text.snapshotsAt.end());
  if (driver.snapshots() == 0)
    text.snapshotsAt.clear();
  return Status();
}

/// Makes the snapshots that are wanted behind the tokens in the caches, none of
/// which is pending.
Status Speculator::takeSnapshots(Text &text) {
  auto &places = text.snapshotsAt;
  if (places.empty() || places.front() != cached.size())
    return Status();
  while (!places.empty() && places.front() == cached.size())
    places.erase(places.begin());
  return driver.save(snapshots.add(cached.size(), contextRows));
}

/// Writes the log probabilities of the tokens behind each row of a chunk of
/// \p count tokens of \p prompt.
Status Speculator::scoreChunk(std::span<const uint32_t> prompt, size_t count,
                              Text &text) {
  const artifact::Loop &loop = driver.loop();
  const LoopPorts &ports = driver.ports();
  size_t first = cached.size();
  TANDEM_RETURN_IF_ERROR(
      driver.writeTokens(ports.scoreTokens, prompt.subspan(first, count)));
  TANDEM_RETURN_IF_ERROR(driver.writeCount(ports.scoreCount, uint32_t(count)));
  TANDEM_RETURN_IF_ERROR(driver.writeCount(ports.start, uint32_t(first)));
  TANDEM_RETURN_IF_ERROR(driver.run(loop.score()));
  std::span<float> rows = rowsOf(logits, count);
  TANDEM_RETURN_IF_ERROR(driver.readRows(ports.scoreLogits, rows));
  for (size_t row = 0; row < count && first + row + 1 < prompt.size(); ++row)
    text.sink.promptLogprobs(computeLogprobs(
        rows.subspan(row * loop.vocabulary(), loop.vocabulary()),
        prompt[first + row + 1], text.options.logprobs.value_or(0)));
  if (text.drafted) {
    std::vector<float> features(count * driver.featureWidth());
    TANDEM_RETURN_IF_ERROR(driver.readRows(ports.scoreFeatures, features));
    TANDEM_RETURN_IF_ERROR(driver.appendContext(features, uint32_t(first)));
  }
  if (first + count < prompt.size())
    return Status();
  // As if this had been the last row of a prefill.
  std::span<float> last =
      rows.subspan((count - 1) * loop.vocabulary(), loop.vocabulary());
  std::copy(last.begin(), last.end(), rows.begin());
  return decideFirst(rows.first(loop.vocabulary()), text);
}

/// Decides the first token of the answer from its row of logits.
Status Speculator::decideFirst(std::span<const float> row, Text &text) {
  TANDEM_ASSIGN_OR_RETURN(round[0],
                          text.decider->decideOne(row, cached.size()));
  return driver.writeTokens(driver.ports().anchor, std::span(round).first(1));
}

Status Speculator::prefillChunk(std::span<const uint32_t> chunk, bool last,
                                Text &text) {
  const LoopPorts &ports = driver.ports();
  ChunkPrograms programs = driver.chunkFor(chunk.size());
  TANDEM_RETURN_IF_ERROR(driver.writeTokens(programs.tokens, chunk));
  TANDEM_RETURN_IF_ERROR(
      driver.writeCount(ports.chunkCount, uint32_t(chunk.size())));
  TANDEM_RETURN_IF_ERROR(
      driver.writeCount(ports.start, uint32_t(cached.size())));
  bool withLogits = last && text.decider;
  TANDEM_RETURN_IF_ERROR(
      driver.run(withLogits ? programs.prefillLogits : programs.prefill));
  if (text.drafted)
    TANDEM_RETURN_IF_ERROR(driver.run(programs.context));
  return Status();
}

Status Speculator::prefill(std::span<const uint32_t> prompt, Text &text) {
  const artifact::Loop &loop = driver.loop();
  const LoopPorts &ports = driver.ports();
  TANDEM_RETURN_IF_ERROR(reuseCaches(prompt, text));
  bool scores = text.options.promptLogprobs;
  size_t step = scores ? loop.score_chunk() : loop.chunk();
  while (cached.size() < prompt.size()) {
    size_t first = cached.size();
    size_t border =
        text.snapshotsAt.empty() ? prompt.size() : text.snapshotsAt.front();
    size_t count = std::min(step, border - first);
    bool last = first + count == prompt.size();
    if (scores)
      TANDEM_RETURN_IF_ERROR(scoreChunk(prompt, count, text));
    else
      TANDEM_RETURN_IF_ERROR(
          prefillChunk(prompt.subspan(first, count), last, text));
    cached.insert(cached.end(), prompt.begin() + ptrdiff_t(first),
                  prompt.begin() + ptrdiff_t(first + count));
    if (text.drafted)
      contextRows = cached.size();
    // Whatever was pending has been kept.
    if (pending > 0) {
      pending = 0;
      TANDEM_RETURN_IF_ERROR(driver.writeCount(ports.accepted, 0));
    }
    TANDEM_RETURN_IF_ERROR(takeSnapshots(text));
    if (!last && !text.sink.keepGoing()) {
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
    TANDEM_RETURN_IF_ERROR(driver.writeCount(ports.blockCount, text.blockRows));
  }
  if (scores)
    return Status();
  if (!text.decider)
    return driver.readTokens(ports.anchor, std::span(round).first(1), length);
  std::span<float> row = rowsOf(logits, 1);
  TANDEM_RETURN_IF_ERROR(driver.readRows(ports.anchorLogits, row));
  return decideFirst(row, text);
}

//===----------------------------------------------------------------------===//
// The answer
//===----------------------------------------------------------------------===//

Status Speculator::startRounds(Text &text) {
  // The host has to act between the programs.
  bool isForced = text.drafted && text.options.forcedAcceptLength;
  text.rounds = text.decider || isForced ? nullptr : driver.roundLoop();
  if (!text.rounds)
    return Status();
  return text.rounds->start(text.drafted,
                            text.budget - uint32_t(text.result.ids.size()),
                            text.options.ignoreStopTokens);
}

Status Speculator::stopRounds(Text &text) {
  if (!text.rounds)
    return Status();
  TANDEM_ASSIGN_OR_RETURN(uint32_t surplus, text.rounds->stop());
  // Rounds behind the end of the text cannot be taken back, but overwrote no
  // row of it.
  if (surplus > 0)
    isCurrent = false;
  return Status();
}

StatusOr<Generation> Speculator::write(std::span<const uint32_t> prompt,
                                       Text &text) {
  double begin = now();
  TANDEM_RETURN_IF_ERROR(prefill(prompt, text));
  text.result.prefillSeconds = now() - begin;
  if (text.budget == 0)
    text.ended = true;
  if (!text.ended)
    emit(std::span(round).first(1), text);

  begin = now();
  if (!text.ended)
    TANDEM_RETURN_IF_ERROR(startRounds(text));
  while (!text.ended) {
    uint64_t position = prompt.size() + text.result.ids.size();
    TANDEM_ASSIGN_OR_RETURN(uint32_t decided, oneRound(position, text));
    uint32_t taken = emit(std::span(round).first(decided), text);
    if (text.drafted)
      text.result.acceptLengths.push_back(taken);
    // Rows behind the end of the text leave the caches with the next program.
    cached.resize(cached.size() - (decided - taken));
    pending = taken;
  }
  text.result.decodeSeconds = now() - begin;
  return std::move(text.result);
}

Status Speculator::checkOptions(const GenerateOptions &options) const {
  if (hasDrafter() && options.blockRows > driver.loop().block())
    return invalidArgument("was compiled for blocks of ", driver.loop().block(),
                           " tokens, ", options.blockRows, " were asked for");
  if ((options.sampling || options.logprobs) && !canSample())
    return invalidArgument("was compiled without logits: it can only write "
                           "the likeliest tokens");
  if (options.promptLogprobs && !(canScore() && canSample()))
    return invalidArgument("was compiled without 'score' or without logits: "
                           "prompts have no log probabilities");
  if (options.sampling && options.drafts != DraftChoice::Likeliest &&
      options.useDrafter && hasDrafter() && driver.loop().score_draft() < 0)
    return invalidArgument("was compiled without 'score_draft': drafts cannot "
                           "be sampled");
  if (options.sampling)
    return checkSampling(*options.sampling, driver.loop().vocabulary());
  return Status();
}

Status Speculator::checkPrompt(std::span<const uint32_t> prompt) const {
  uint32_t context = driver.loop().max_context();
  TANDEM_RETURN_IF_ERROR(driver.checkIds("the prompt", prompt));
  if (prompt.size() >= context)
    return invalidArgument("the prompt has ", prompt.size(),
                           " tokens, prompt and answer together can have ",
                           context);
  return Status();
}

StatusOr<Generation> Speculator::generate(std::span<const uint32_t> prompt,
                                          const GenerateOptions &options,
                                          TokenSink &sink) {
  TANDEM_RETURN_IF_ERROR(checkPrompt(prompt));
  TANDEM_RETURN_IF_ERROR(checkOptions(options));
  auto room = uint32_t(driver.loop().max_context() - prompt.size());
  Text text{.result = {},
            .options = options,
            .budget = std::min(options.maxNewTokens, room),
            .drafted = options.useDrafter && driver.hasDrafter(),
            .blockRows =
                options.blockRows ? options.blockRows : driver.loop().block(),
            .choosesRows = options.chooseRows,
            .decider = std::nullopt,
            .rounds = nullptr,
            .sink = sink};
  // An answer of no tokens still checks its prompt.
  if (text.budget == 0 && !options.promptLogprobs)
    return std::move(text.result);
  // Enough for most texts; one that fills a huge context grows.
  size_t expected = std::min<size_t>(text.budget, 1 << 16);
  text.result.ids.reserve(expected);
  if (text.drafted)
    text.result.acceptLengths.reserve(expected);
  if (text.drafted && text.choosesRows)
    text.result.roundRows.reserve(expected);
  if (options.sampling || options.logprobs || options.promptLogprobs) {
    // The likeliest tokens need no draft but the likeliest.
    text.decider.emplace(options.sampling.value_or(SamplingOptions::greedy()),
                         options.sampling ? options.drafts
                                          : DraftChoice::Likeliest,
                         driver.loop().vocabulary());
    text.decider->start(prompt);
    // Times must not show in a text.
    if (options.sampling && options.drafts == DraftChoice::Rejection)
      text.choosesRows = false;
  }
  chooser.startText(text.budget);

  StatusOr<Generation> result = write(prompt, text);
  Status stopped = stopRounds(text);
  if (result.isOk() && !stopped.isOk())
    result = stopped;
  // Nobody knows what a program that failed left behind.
  if (!result.isOk()) {
    cached.clear();
    snapshots.clear();
  }
  return result;
}

} // namespace tandem
