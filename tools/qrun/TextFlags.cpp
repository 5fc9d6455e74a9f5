//===- TextFlags.cpp - Parsing flags of commands that write text ----------===//

#include "tools/qrun/TextFlags.h"

#include "runtime/Sampler.h"
#include "tools/Within.h"

#include <charconv>
#include <limits>

namespace tandem::qrun {

static const std::map<std::string, DraftChoice> draftChoices = {
    {"likeliest", DraftChoice::Likeliest},
    {"shared", DraftChoice::Shared},
    {"rejection", DraftChoice::Rejection}};

void addBlockFlag(CLI::App &app, BlockFlag &block) {
  app.add_option_function<std::string>(
         "--block",
         [&block](const std::string &text) {
           uint32_t rows = 0;
           const char *end = text.data() + text.size();
           auto parsed = std::from_chars(text.data(), end, rows);
           if (parsed.ec == std::errc() && parsed.ptr == end && rows > 0)
             block = rows;
           else if (text != "auto")
             throw CLI::ValidationError(
                 "--block",
                 "expected auto or a number of tokens, got '" + text + "'");
         },
         "Tokens of a block that are verified (default: auto, as many as pay)")
      ->option_text("N");
}

static void addDraftFlags(CLI::App &app, bool &noDraft, BlockFlag &block,
                          DraftChoice &drafts) {
  app.add_flag("--no-draft", noDraft, "Without the drafter");
  addBlockFlag(app, block);
  app.add_option("--draft-sampling", drafts,
                 "How drafts of sampled texts are chosen: likeliest (the "
                 "default), shared or rejection")
      ->transform(CLI::CheckedTransformer(draftChoices))
      ->option_text("HOW");
}

static void addSamplingFlags(CLI::App &app, SamplingFlags &flags,
                             const char *group) {
  app.add_flag("--sample", flags.sample, "As the checkpoint recommends")
      ->group(group);
  app.add_option("--temperature", flags.temperature,
                 "0: the likeliest token; 1: the model's distribution")
      ->group(group);
  app.add_option("--top-k", flags.topK, "From the K likeliest tokens")
      ->group(group);
  app.add_option("--top-p", flags.topP,
                 "From the likeliest tokens that have P together")
      ->group(group);
  app.add_option("--min-p", flags.minP,
                 "From tokens that have at least P of the likeliest one's "
                 "probability")
      ->group(group);
  app.add_option("--repetition-penalty", flags.repetitionPenalty,
                 "Divides logits of tokens that were there")
      ->group(group);
  app.add_option("--presence-penalty", flags.presencePenalty,
                 "Taken off logits of tokens of the answer")
      ->group(group);
  app.add_option("--frequency-penalty", flags.frequencyPenalty,
                 "The same, for each time they were there")
      ->group(group);
  app.add_option("--logit-bias", flags.logitBias,
                 "TOKEN=BIAS, added to a logit; may be given several times")
      ->expected(1)
      ->take_all()
      ->group(group);
  app.add_option("--seed", flags.seed, "Same seed, same text")->group(group);
}

static void addTemplateFlag(CLI::App &app, std::optional<std::string> &name,
                            const char *group) {
  app.add_option("--template", name,
                 "Chat template in place of the checkpoint's: " +
                     std::string(ChatTemplate::names()))
      ->check([](const std::string &given) {
        return ChatTemplate::find(nullptr, given).status().message();
      })
      ->group(group);
}

void addAnswerFlags(CLI::App &app, AnswerFlags &flags, bool samples) {
  addDraftFlags(app, flags.noDraft, flags.block, flags.drafts);
  app.add_flag("--ignore-eos", flags.ignoreEos, "Go on behind stop tokens");
  app.add_option("--stop", flags.stops,
                 "Text that ends the answer; may be given several times")
      ->expected(1)
      ->take_all();
  app.add_option("--stop-token", flags.stopTokens,
                 "Token that ends the answer; may be given several times")
      ->expected(1)
      ->take_all();
  addSamplingFlags(
      app, flags.sampling,
      samples ? "Sampling (what is not given: as the checkpoint recommends)"
              : "Sampling (without any of these: the likeliest tokens)");
}

void addChatFlags(CLI::App &app, ChatFlags &flags) {
  const char *group = "Chat";
  addTemplateFlag(app, flags.templateName, group);
  app.add_option("--system", flags.system, "The system message")->group(group);
  // Not bound to the field: CLI11 would count in it, from 0, which is "no".
  app.add_flag_function(
         "--thinking,!--no-thinking",
         [&flags](int64_t count) { flags.thinking = count > 0; },
         "Whether to think before an answer")
      ->group(group);
}

void addServeFlags(CLI::App &app, ServeFlags &flags) {
  app.add_option("--host", flags.host, "Address to listen on")
      ->capture_default_str();
  app.add_option("--port", flags.port, "0: one that is free")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  app.add_option("--api-key", flags.apiKey,
                 "What clients have to know; better given in the environment")
      ->envname("TANDEM_API_KEY");
  app.add_option("--model-name", flags.modelName,
                 "What clients call the model (default: the file's name)");
  app.add_option("--queue", flags.queue, "Requests that may wait")
      ->check(CLI::Range(0u, 4096u))
      ->capture_default_str();
  app.add_option("--timeout", flags.timeout,
                 "Seconds a request may take; 0: any number")
      ->check(within(0, 1e6))
      ->capture_default_str();
  app.add_option("--send-timeout", flags.sendTimeout,
                 "Seconds a client may leave an answer unread")
      ->check(within(0.01, 1e6))
      ->capture_default_str();
  app.add_option("--max-body", flags.maxBodyMegabytes,
                 "MiB of a request's body")
      ->check(CLI::Range(1u, 1024u))
      ->capture_default_str();
  addTemplateFlag(app, flags.templateName, "Options");
  addDraftFlags(app, flags.noDraft, flags.block, flags.drafts);
}

std::string problemOf(const AnswerFlags &flags) {
  for (const std::string &stop : flags.stops)
    if (stop.empty())
      return "--stop: the text is empty";
  SamplingOptions sampling;
  Status status = applyFlags(flags.sampling, sampling);
  // Which tokens there are is known when the artefact is open.
  if (status.isOk())
    status = checkSampling(sampling, std::numeric_limits<uint32_t>::max());
  return status.message();
}

} // namespace tandem::qrun
