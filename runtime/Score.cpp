//===- Score.cpp - Logits of a given text ---------------------------------===//

#include "runtime/Score.h"

#include <algorithm>
#include <cmath>

namespace tandem {

/// Index of the largest value, the lowest one of several.
static StatusOr<uint32_t> argmax(std::span<const float> values) {
  uint32_t best = 0;
  for (uint32_t index = 0; index < values.size(); ++index) {
    if (!std::isfinite(values[index]))
      return invalidFile("the logits of the last token are not finite (token ",
                         index, ")");
    if (values[index] > values[best])
      best = index;
  }
  return best;
}

/// Runs the drafter behind \p ids, whose features are in \p scores.
static Status scoreDraft(LoopDriver &driver, uint32_t tokens, uint32_t anchor,
                         Scores &scores) {
  const artifact::Loop &loop = driver.loop();
  const LoopPorts &ports = driver.ports();
  TANDEM_RETURN_IF_ERROR(driver.appendContext(scores.features, 0));
  TANDEM_RETURN_IF_ERROR(
      driver.writeTokens(ports.anchor, std::span(&anchor, 1)));
  TANDEM_RETURN_IF_ERROR(driver.writeCount(ports.accepted, 0));
  TANDEM_RETURN_IF_ERROR(driver.writeCount(ports.start, tokens));
  TANDEM_RETURN_IF_ERROR(driver.writeCount(ports.contextStart, tokens));
  TANDEM_RETURN_IF_ERROR(driver.writeCount(ports.blockCount, loop.block()));
  TANDEM_RETURN_IF_ERROR(driver.run(loop.score_draft()));
  scores.draftLogits.resize(size_t(loop.block() - 1) * loop.vocabulary());
  return driver.readRows(ports.draftLogits, scores.draftLogits);
}

StatusOr<Scores> score(const Artifact &artifact, Device &device,
                       std::span<const uint32_t> ids, const LogitsSink &sink) {
  if (!artifact.root().loop() || artifact.root().loop()->score() < 0)
    return invalidArgument("was compiled without the program 'score'");
  LoopDriver driver(artifact, device);
  const artifact::Loop &loop = driver.loop();
  const LoopPorts &ports = driver.ports();
  TANDEM_RETURN_IF_ERROR(driver.checkIds("the text", ids));
  if (ids.size() > loop.max_context())
    return invalidArgument("the text has ", ids.size(),
                           " tokens, the context holds ", loop.max_context());

  Scores scores;
  size_t width = driver.featureWidth(), vocabulary = loop.vocabulary();
  scores.features.resize(ids.size() * width);
  std::vector<float> logits(std::min<size_t>(loop.score_chunk(), ids.size()) *
                            vocabulary);
  TANDEM_RETURN_IF_ERROR(driver.reset());
  TANDEM_RETURN_IF_ERROR(driver.writeCount(ports.accepted, 0));
  std::span<float> rows;
  for (size_t first = 0; first < ids.size(); first += loop.score_chunk()) {
    size_t count = std::min<size_t>(loop.score_chunk(), ids.size() - first);
    TANDEM_RETURN_IF_ERROR(
        driver.writeTokens(ports.scoreTokens, ids.subspan(first, count)));
    TANDEM_RETURN_IF_ERROR(
        driver.writeCount(ports.scoreCount, uint32_t(count)));
    TANDEM_RETURN_IF_ERROR(driver.writeCount(ports.start, uint32_t(first)));
    TANDEM_RETURN_IF_ERROR(driver.run(loop.score()));
    rows = std::span(logits).first(count * vocabulary);
    TANDEM_RETURN_IF_ERROR(driver.readRows(ports.scoreLogits, rows));
    TANDEM_RETURN_IF_ERROR(sink(rows));
    if (width != 0)
      TANDEM_RETURN_IF_ERROR(driver.readRows(
          ports.scoreFeatures,
          std::span(scores.features).subspan(first * width, count * width)));
  }
  if (loop.score_draft() < 0)
    return scores;
  TANDEM_ASSIGN_OR_RETURN(uint32_t anchor, argmax(rows.last(vocabulary)));
  TANDEM_RETURN_IF_ERROR(
      scoreDraft(driver, uint32_t(ids.size()), anchor, scores));
  return scores;
}

} // namespace tandem
