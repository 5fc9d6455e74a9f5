//===- SpeculatorRounds.cpp - Rounds that the host runs -------------------===//
//
// A round decides one token and more: draft, verify and accept, or a step. The
// other half of the loop is in Speculator.cpp.
//
//===----------------------------------------------------------------------===//

#include "runtime/Speculator.h"

#include <algorithm>

namespace tandem {

//===----------------------------------------------------------------------===//
// The drafter's context
//===----------------------------------------------------------------------===//

/// Saves the features of the rows that are pending before the next program
/// writes others in their place.
Status Speculator::keepFeatures() {
  if (!pendingFeatures || pending == 0)
    return Status();
  size_t width = driver.featureWidth();
  if (laterFeatures.size() + pending * width > laterRoom)
    TANDEM_RETURN_IF_ERROR(flushFeatures());
  size_t known = laterFeatures.size();
  laterFeatures.resize(known + pending * width);
  return driver.readRows(*pendingFeatures,
                         std::span(laterFeatures).subspan(known));
}

/// Gives the drafter the features that were saved.
Status Speculator::flushFeatures() {
  if (laterFeatures.empty())
    return Status();
  TANDEM_RETURN_IF_ERROR(
      driver.appendContext(laterFeatures, uint32_t(contextRows)));
  contextRows += laterFeatures.size() / driver.featureWidth();
  laterFeatures.clear();
  // The context was appended where it belongs; the next row does not.
  return driver.writeCount(driver.ports().start, uint32_t(cached.size()));
}

/// Gives the drafter all it does not know but the rows that are pending, and
/// puts their features where the next draft takes them from.
Status Speculator::bringContext() {
  TANDEM_RETURN_IF_ERROR(flushFeatures());
  const LoopPorts &ports = driver.ports();
  if (pending == 0 || pendingFeatures != ports.stepFeatures)
    return Status();
  // There is room: all that was saved has just been given away.
  laterFeatures.resize(driver.featureWidth());
  Status moved = driver.readRows(ports.stepFeatures, laterFeatures);
  if (moved.isOk())
    moved = driver.writeRows(ports.features, laterFeatures);
  laterFeatures.clear();
  return moved;
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

/// Drafts a block behind the last token. Where the host decides or goes on with
/// the block later, \p block gets it.
Status Speculator::draftBlock(uint64_t position, std::span<uint32_t> block,
                              Text &text) {
  const artifact::Loop &loop = driver.loop();
  const LoopPorts &ports = driver.ports();
  TANDEM_RETURN_IF_ERROR(bringContext());
  bool chooses = text.decider && text.decider->choosesDrafts();
  TANDEM_RETURN_IF_ERROR(
      driver.run(chooses ? loop.score_draft() : loop.draft()));
  if (text.decider || text.choosesRows)
    TANDEM_RETURN_IF_ERROR(driver.readRawTokens(ports.block, block));
  if (!chooses || block.size() == 1)
    return Status();
  std::span<float> rows = rowsOf(draftLogits, block.size() - 1);
  TANDEM_RETURN_IF_ERROR(driver.readRows(ports.draftLogits, rows));
  text.decider->chooseDrafts(rows, position, block);
  return driver.writeTokens(ports.block, block);
}

/// Between verify and accept: decides what the programs did not, from the
/// logits of \p block.
StatusOr<uint32_t> Speculator::decideBlock(uint64_t position,
                                           std::span<const uint32_t> block,
                                           Text &text) {
  const LoopPorts &ports = driver.ports();
  std::span<float> rows = rowsOf(logits, block.size());
  TANDEM_RETURN_IF_ERROR(driver.readRows(ports.logits, rows));
  std::span<const float> drafted;
  if (text.decider->choosesDrafts() && block.size() > 1)
    drafted = rowsOf(draftLogits, block.size() - 1);
  TANDEM_ASSIGN_OR_RETURN(
      uint32_t count,
      text.decider->decide(rows, drafted, block, position, round));
  // The rest of the port may say what it likes: accept stops at the first
  // token that is not its draft.
  TANDEM_RETURN_IF_ERROR(
      driver.writeTokens(ports.decided, std::span(round).first(count)));
  return count;
}

/// Between verify and accept: makes the drafts right so far as they are to be
/// accepted, and the one behind them wrong.
Status Speculator::forceDrafts(uint64_t position, uint32_t rowCount,
                               uint32_t count) {
  const LoopPorts &ports = driver.ports();
  std::vector<uint32_t> decided(rowCount), block(rowCount);
  TANDEM_RETURN_IF_ERROR(driver.readTokens(ports.decided, decided, position));
  TANDEM_RETURN_IF_ERROR(driver.readRawTokens(ports.block, block));
  std::copy_n(decided.begin(), std::min(count, rowCount) - 1,
              block.begin() + 1);
  if (count < rowCount)
    block[count] = (decided[count - 1] + 1) % driver.loop().vocabulary();
  return driver.writeTokens(ports.block, block);
}

/// Verifies the rows \p block, which are in their port.
StatusOr<uint32_t> Speculator::verifyBlock(uint64_t position,
                                           std::span<const uint32_t> block,
                                           Text &text) {
  const artifact::Loop &loop = driver.loop();
  const LoopPorts &ports = driver.ports();
  auto rows = uint32_t(block.size());
  uint32_t anchor = text.result.ids.back();
  uint32_t low = 1, high = rows;
  if (text.decider) {
    TANDEM_RETURN_IF_ERROR(driver.run(loop.verify_logits()));
    TANDEM_ASSIGN_OR_RETURN(high, decideBlock(position, block, text));
    low = high;
  } else {
    TANDEM_RETURN_IF_ERROR(driver.run(loop.verify()));
    if (text.options.forcedAcceptLength)
      TANDEM_RETURN_IF_ERROR(
          forceDrafts(position, rows, text.options.forcedAcceptLength));
  }
  TANDEM_RETURN_IF_ERROR(driver.run(loop.accept()));
  TANDEM_ASSIGN_OR_RETURN(uint32_t accepted,
                          driver.readCount(ports.accepted, low, high));
  if (!text.decider)
    TANDEM_RETURN_IF_ERROR(driver.readTokens(
        ports.decided, std::span(round).first(accepted), position));
  pendingFeatures = ports.features;
  cached.push_back(anchor);
  cached.insert(cached.end(), round.begin(), round.begin() + accepted - 1);
  return accepted;
}

//===----------------------------------------------------------------------===//
// Rounds
//===----------------------------------------------------------------------===//

/// Drafts a block and verifies as much of it as the text allows.
StatusOr<uint32_t> Speculator::draftRound(uint64_t position, Text &text) {
  std::span<uint32_t> block = std::span(drafted).first(text.blockRows);
  TANDEM_RETURN_IF_ERROR(draftBlock(position, block, text));
  contextRows = cached.size();
  return verifyBlock(position, block, text);
}

/// Drafts a block for a round that was chosen.
Status Speculator::draftChosen(uint64_t position, Text &text) {
  auto rows = uint32_t(laterFeatures.size() / driver.featureWidth());
  double begin = seconds();
  if (rows > 0) {
    TANDEM_RETURN_IF_ERROR(flushFeatures());
    double end = seconds();
    chooser.recordContext(rows, end - begin);
    begin = end;
  }
  TANDEM_RETURN_IF_ERROR(draftBlock(position, drafted, text));
  chooser.recordDraft(seconds() - begin);
  contextRows = cached.size();
  text.place = 0;
  ++text.result.drafts;
  return Status();
}

/// A round with a block: one that is drafted now, or what is left of the last.
StatusOr<uint32_t> Speculator::chosenBlock(uint64_t position,
                                           BlockChooser::Choice choice,
                                           Text &text) {
  const LoopPorts &ports = driver.ports();
  double begin = seconds();
  TANDEM_RETURN_IF_ERROR(choice.drafts ? draftChosen(position, text)
                                       : keepFeatures());
  uint32_t place = *text.place, accepted = 1;
  double middle = seconds();
  if (choice.rows == 1) {
    TANDEM_ASSIGN_OR_RETURN(accepted, plainRound(position, text));
  } else {
    std::span<const uint32_t> block =
        std::span(drafted).subspan(place, choice.rows);
    if (!choice.drafts)
      TANDEM_RETURN_IF_ERROR(driver.writeTokens(ports.block, block));
    TANDEM_RETURN_IF_ERROR(driver.writeCount(ports.blockCount, choice.rows));
    TANDEM_ASSIGN_OR_RETURN(accepted, verifyBlock(position, block, text));
  }
  // Reading the tokens waited for the programs.
  double end = seconds();
  text.result.roundRows.push_back(choice.rows);

  // The rest of the block is good for as long as the text follows it.
  *text.place += accepted;
  bool follows = accepted == choice.rows && *text.place < drafted.size() &&
                 drafted[*text.place] == round[accepted - 1];
  if (!follows)
    text.place.reset();
  chooser.recordRows(choice.rows, end - middle);
  chooser.recordRound(place, choice.rows, accepted, accepted - 1 + follows,
                      choice.drafts, end - begin);
  return accepted;
}

/// One of the steps that were chosen. Whatever is done here, every token of a
/// text that does not pay waits for.
StatusOr<uint32_t> Speculator::chosenStep(uint64_t position, Text &text) {
  TANDEM_RETURN_IF_ERROR(keepFeatures());
  TANDEM_ASSIGN_OR_RETURN(uint32_t accepted, plainRound(position, text));
  text.result.roundRows.push_back(1);
  if (--text.stepsLeft == 0) {
    chooser.recordRows(1, (seconds() - text.stepsBegin) / text.steps);
    chooser.recordSteps(text.steps);
  }
  return accepted;
}

/// A round that seems to pay.
StatusOr<uint32_t> Speculator::chosenRound(uint64_t position, Text &text) {
  if (text.stepsLeft > 0)
    return chosenStep(position, text);
  uint32_t wanted = text.budget - uint32_t(text.result.ids.size());
  BlockChooser::Choice choice =
      chooser.choose(text.blockRows, wanted, text.place);
  if (choice.drafts || (text.place && choice.steps == 1))
    return chosenBlock(position, choice, text);
  text.place.reset();
  text.steps = text.stepsLeft = choice.steps;
  text.stepsBegin = seconds();
  return chosenStep(position, text);
}

StatusOr<uint32_t> Speculator::plainRound(uint64_t position, Text &text) {
  const artifact::Loop &loop = driver.loop();
  const LoopPorts &ports = driver.ports();
  std::span<uint32_t> token = std::span(round).first(1);
  uint32_t anchor = text.result.ids.back();
  if (text.decider) {
    TANDEM_RETURN_IF_ERROR(driver.run(loop.step_logits()));
    std::span<float> row = rowsOf(logits, 1);
    TANDEM_RETURN_IF_ERROR(driver.readRows(ports.anchorLogits, row));
    TANDEM_ASSIGN_OR_RETURN(token[0], text.decider->decideOne(row, position));
    TANDEM_RETURN_IF_ERROR(driver.writeTokens(ports.anchor, token));
  } else {
    TANDEM_RETURN_IF_ERROR(driver.run(loop.step()));
    TANDEM_RETURN_IF_ERROR(driver.readTokens(ports.anchor, token, position));
  }
  pendingFeatures.reset();
  if (text.drafted)
    pendingFeatures = ports.stepFeatures;
  cached.push_back(anchor);
  return uint32_t(1);
}

/// Takes a round that the device has run.
StatusOr<uint32_t> Speculator::deviceRound(uint64_t position, Text &text) {
  uint32_t anchor = text.result.ids.back();
  TANDEM_ASSIGN_OR_RETURN(std::span<const uint32_t> tokens,
                          text.rounds->next());
  if (tokens.empty())
    return invalidFile("the rounds on the device ended at position ", position,
                       ", before the text");
  TANDEM_RETURN_IF_ERROR(driver.checkTokens(tokens, position));
  std::copy(tokens.begin(), tokens.end(), round.begin());
  pendingFeatures.reset();
  if (text.drafted) {
    contextRows = cached.size();
    pendingFeatures = driver.ports().features;
  }
  cached.push_back(anchor);
  cached.insert(cached.end(), tokens.begin(), tokens.end() - 1);
  return uint32_t(tokens.size());
}

StatusOr<uint32_t> Speculator::oneRound(uint64_t position, Text &text) {
  if (text.rounds)
    return deviceRound(position, text);
  if (!text.drafted)
    return plainRound(position, text);
  return text.choosesRows ? chosenRound(position, text)
                          : draftRound(position, text);
}

//===----------------------------------------------------------------------===//
// What rounds cost
//===----------------------------------------------------------------------===//

/// A round in which somebody else had the processor took no more work.
double Speculator::seconds() const {
  return driver.busySeconds().value_or(now());
}

Status Speculator::measureRounds() {
  // More is not worth a later first token. Programs that take longer are
  // measured well enough by the rounds of a text.
  constexpr double enough = 0.011;
  constexpr uint64_t mostBytes = uint64_t(128) << 20;
  constexpr int turns = 2;
  assert(cached.empty() && "would overwrite a text");
  // Where the device runs rounds by itself, nothing is chosen.
  if (!hasDrafter() || driver.roundLoop() || stepBytes > mostBytes)
    return Status();
  const artifact::Loop &loop = driver.loop();
  const LoopPorts &ports = driver.ports();
  uint32_t block = loop.block();
  std::vector<uint32_t> tokens(block);
  auto measure = [&](int32_t program, uint32_t rows) -> StatusOr<double> {
    // Each stands at the start of an empty text.
    for (uint32_t port : {ports.start, ports.contextStart, ports.accepted})
      TANDEM_RETURN_IF_ERROR(driver.writeCount(port, 0));
    for (uint32_t port : {ports.blockCount, ports.chunkCount})
      TANDEM_RETURN_IF_ERROR(driver.writeCount(port, rows));
    TANDEM_RETURN_IF_ERROR(
        driver.writeTokens(ports.anchor, std::span(tokens).first(1)));
    TANDEM_RETURN_IF_ERROR(driver.writeTokens(ports.block, tokens));
    double first = seconds();
    TANDEM_RETURN_IF_ERROR(driver.run(program));
    // Reading waits.
    uint32_t count = 0;
    TANDEM_RETURN_IF_ERROR(
        driver.readRawTokens(ports.accepted, std::span(&count, 1)));
    return seconds() - first;
  };
  struct Measured {
    int32_t program;
    uint32_t rows;
    std::function<void(double)> record;
  };
  uint32_t chunk = loop.chunk();
  double begin = 0;
  std::vector<Measured> all = {
      {loop.step(), 1, [&](double time) { chooser.recordRows(1, time); }},
      {loop.draft(), block, [&](double time) { chooser.recordDraft(time); }}};
  for (uint32_t rows : {block, block / 2, block / 4, block / 8})
    if (rows >= 2)
      all.push_back({loop.verify(), rows, [&, rows](double time) {
                       chooser.recordRows(rows, time);
                     }});
  all.push_back({loop.context(), chunk,
                 [&](double time) { chooser.recordContext(chunk, time); }});
  // In turns, as they are run: what one program reads is not in the caches for
  // the next. A step follows another one, though. The first turn brings code
  // and weights into memory and counts nowhere.
  for (int turn = 0; turn <= turns; ++turn) {
    TANDEM_RETURN_IF_ERROR(driver.reset());
    if (turn < 2)
      begin = seconds();
    TANDEM_RETURN_IF_ERROR(measure(loop.step(), 1).status());
    // Not even what has just begun takes that long, if it is small.
    if (turn == 0 && seconds() - begin > 2 * enough)
      return Status();
    for (const Measured &measured : all) {
      if (seconds() - begin > enough)
        break;
      TANDEM_ASSIGN_OR_RETURN(double taken,
                              measure(measured.program, measured.rows));
      if (turn > 0)
        measured.record(taken);
    }
  }
  return Status();
}

} // namespace tandem
