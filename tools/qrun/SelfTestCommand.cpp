//===- SelfTestCommand.cpp - qrun --self-test -----------------------------===//

#include "tools/qrun/Commands.h"

#include "runtime/SelfTest.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace tandem::qrun {

Status selfTest(const GenerateFlags &flags) {
  TANDEM_ASSIGN_OR_RETURN(Session session, load(flags));
  TANDEM_ASSIGN_OR_RETURN(Tokenizer tokenizer,
                          makeTokenizer(session.artifact, flags.artifact));
  auto result = runSelfTest(session.artifact, session.device(), tokenizer);
  if (!result.isOk())
    return inFile(flags.artifact, result.status());
  if (flags.json) {
    nlohmann::ordered_json object = {
        {"tokens", result->tokens},
        {"mean_accept_length", result->meanAcceptLength},
        {"floor", result->floor},
        {"same_ids", result->sameIds},
        {"passed", result->isPassed()}};
    std::printf("%s\n", object.dump().c_str());
  } else if (result->isPassed()) {
    std::printf("self-test: %s\n", result->describe().c_str());
  }
  if (result->isPassed())
    return Status();
  return failure(StatusCode::InvalidFile, flags.artifact,
                 ": self-test: ", result->describe());
}

} // namespace tandem::qrun
