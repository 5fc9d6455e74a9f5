//===- TokenizeCommand.cpp - qrun tokenize --------------------------------===//

#include "tools/qrun/Commands.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace tandem::qrun {

Status tokenize(const TokenizeFlags &flags) {
  auto artifact = Artifact::open(flags.artifact, SyntheticWeights::Leave);
  if (!artifact.isOk())
    return inFile(flags.artifact, artifact.status());
  TANDEM_ASSIGN_OR_RETURN(Tokenizer tokenizer,
                          makeTokenizer(*artifact, flags.artifact));
  TANDEM_ASSIGN_OR_RETURN(std::vector<uint32_t> ids,
                          readPrompt(flags.prompt, &tokenizer));
  auto textOf = [&](uint32_t id) {
    return nlohmann::json(tokenizer.decode(std::span(&id, 1)))
        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  if (flags.json) {
    std::printf("%s\n", nlohmann::json{{"ids", ids}}.dump().c_str());
    return Status();
  }
  for (uint32_t id : ids)
    std::printf("%u\t%s\n", id, textOf(id).c_str());
  return Status();
}

} // namespace tandem::qrun
