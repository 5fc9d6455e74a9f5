//===- ScoreCommand.cpp - qrun score --------------------------------------===//

#include "tools/qrun/Commands.h"

#include "runtime/IdsFile.h"
#include "runtime/SafetensorsIo.h"
#include "runtime/Score.h"

namespace tandem::qrun {

/// The tensors of the result for \p tokens tokens.
static std::vector<TensorInfo> resultTensors(const LoopDriver &driver,
                                             uint64_t tokens) {
  const artifact::Loop &loop = driver.loop();
  uint64_t vocabulary = loop.vocabulary();
  std::vector<TensorInfo> tensors = {{"logits", "F32", {tokens, vocabulary}}};
  if (driver.hasDrafter())
    tensors.push_back({"features", "F32", {tokens, driver.featureWidth()}});
  if (loop.score_draft() >= 0)
    tensors.push_back({"draft_logits", "F32", {loop.block() - 1, vocabulary}});
  return tensors;
}

Status score(const ScoreFlags &flags) {
  auto ids = readIdsFile(flags.idsFile);
  if (!ids.isOk())
    return inFile(flags.idsFile, ids.status());
  TANDEM_ASSIGN_OR_RETURN(Session session, load(flags));
  if (!session.artifact.root().loop())
    return invalidArgument(flags.artifact,
                           ": holds a single function and cannot score");
  LoopDriver driver(session.artifact, session.device());
  auto writer = SafetensorsWriter::create(flags.output,
                                          resultTensors(driver, ids->size()));
  if (!writer.isOk())
    return inFile(flags.output, writer.status());

  // What fails while writing is about the other file.
  Status writing;
  auto append = [&](std::span<const float> values) {
    writing = writer->append(std::as_bytes(values));
    return writing;
  };
  auto scores = tandem::score(session.artifact, session.device(), *ids, append);
  QRUN_RETURN_IF_ERROR(flags.output, writing);
  if (!scores.isOk())
    return inFile(flags.artifact, scores.status());
  QRUN_RETURN_IF_ERROR(flags.output, append(scores->features));
  QRUN_RETURN_IF_ERROR(flags.output, append(scores->draftLogits));
  return inFile(flags.output, writer->finish());
}

} // namespace tandem::qrun
