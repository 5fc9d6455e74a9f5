//===- Speculator.h - The speculative loop ----------------------*- C++ -*-===//
//
// Writes text with a compiled pair: prefills the prompt, then drafts, verifies
// and accepts block after block, or steps row by row without the drafter. Both
// give the same tokens. Which programs there are, and how large a block is, is
// in the artefact; this is only their order and when to stop.
//
// The likeliest tokens are decided by the programs. When tokens are sampled or
// their log probabilities wanted, programs that also write logits take the
// place of three of them, and the host decides between verify and accept.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_SPECULATOR_H
#define TANDEM_RUNTIME_SPECULATOR_H

#include "runtime/BlockChooser.h"
#include "runtime/BlockSampler.h"
#include "runtime/Logprobs.h"
#include "runtime/LoopDriver.h"
#include "runtime/Snapshot.h"

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace tandem {

/// Who gets the tokens of a text while it is written.
class TokenSink {
public:
  virtual ~TokenSink() = default;

  /// A token of the text was decided. The stop token that ends a text does not
  /// come here. Returns false when the text ends with this token (because it
  /// completed a stop string, say).
  virtual bool token(uint32_t id) = 0;

  /// Comes right before token() of the same token when log probabilities are
  /// wanted.
  virtual void logprobs(const Logprobs &logprobs) {}

  /// Comes once for every token of the prompt but the first, in order and
  /// before all others, when those of the prompt are wanted.
  virtual void promptLogprobs(const Logprobs &logprobs) {}

  /// Called after every prefill chunk and every round: the time to flush what
  /// token() collected. Returns false to cancel.
  virtual bool keepGoing() = 0;
};

/// Takes all tokens: for measurements and checks that look at the result alone.
class NullSink final : public TokenSink {
public:
  bool token(uint32_t) override { return true; }
  bool keepGoing() override { return true; }
};

struct GenerateOptions {
  /// Most tokens of the answer.
  uint32_t maxNewTokens = 128;
  /// Stop tokens are tokens like all others.
  bool ignoreStopTokens = false;
  /// Tokens that end the text besides those of the artefact, in any case.
  std::vector<uint32_t> stopTokens = {};
  /// Whether the drafter, if there is one, takes part.
  bool useDrafter = true;
  /// Most rows of a block that are verified, the anchor among them; 0: all
  /// that the pair was compiled for.
  uint32_t blockRows = 0;
  /// Verifies as many rows as pay, chosen round by round: up to `blockRows`,
  /// and down to one without a draft. Ids do not change, except that with
  /// DraftChoice::Rejection they would depend on it: there, and where a device
  /// runs rounds by itself, all `blockRows` are verified.
  bool chooseRows = false;
  /// For measurements with weights that say nothing: every round accepts this
  /// many tokens, as far as it has rows. Between verify and accept the drafts
  /// are made those that the target decided; what is written is no text. The
  /// host runs these rounds. 0: what the drafter got right.
  uint32_t forcedAcceptLength = 0;
  /// How tokens are chosen; has passed checkSampling. None: the likeliest.
  std::optional<SamplingOptions> sampling = std::nullopt;
  /// How the drafts of a sampled text are chosen.
  DraftChoice drafts = DraftChoice::Likeliest;
  /// Wants the log probability of every token, and of this many others.
  std::optional<uint32_t> logprobs = std::nullopt;
  /// Wants those of the prompt, too.
  bool promptLogprobs = false;
  /// Does not compute again what the caches hold: the text goes on behind the
  /// longest beginning of the prompt that they can go back to. That is the
  /// last text, all of it, or one of its beginnings of which there is a
  /// snapshot.
  bool reusePrefix = false;
  /// Tokens of the prompt behind which a later prompt is likely to go another
  /// way, so that there is to be a snapshot. With `reusePrefix` only.
  std::optional<uint32_t> leavesAt = std::nullopt;
};

enum class FinishReason : uint8_t {
  /// A stop token, or the sink ended the text.
  Stop,
  /// The wanted number of tokens, or the end of the context.
  Length,
  /// The sink cancelled.
  Cancelled,
};

struct Generation {
  /// All tokens of the answer, the stop token that ended it among them.
  std::vector<uint32_t> ids;
  /// Tokens that each round added to `ids`. The first id comes from the
  /// prefill and counts nowhere. Empty without the drafter.
  std::vector<uint32_t> acceptLengths;
  /// Where they were chosen round by round: rows that each of these rounds
  /// verified, 1 being a step, and how many of them drafted a block first.
  /// Otherwise empty.
  std::vector<uint32_t> roundRows;
  uint32_t drafts = 0;
  FinishReason finishReason = FinishReason::Length;
  /// Tokens of the prompt that were in the caches.
  uint32_t reusedTokens = 0;
  /// From the start to the first token, and from there to the end.
  double prefillSeconds = 0;
  double decodeSeconds = 0;

  /// Mean of acceptLengths, 1 when there are none.
  double meanAcceptLength() const;
  /// The part of the rounds that had a draft, 0 when there are none.
  double draftedShare() const;
  /// Tokens decided behind the first one, per second; 0 when there are none.
  double tokensPerSecond() const;
};

class Speculator {
public:
  /// Seconds since whenever.
  using Now = std::function<double()>;

  /// \p artifact and \p device outlive the speculator. Fails when the artefact
  /// is a single function. \p now is the clock that rounds are measured with.
  static StatusOr<Speculator> create(const Artifact &artifact, Device &device,
                                     Now now = steadySeconds);

  /// Writes one text behind \p prompt, from an empty context; one text can
  /// follow another. Errors: the prompt is empty, has ids outside the
  /// vocabulary, or leaves no room in the context; a program failed; logits
  /// are needed and canSample() or canScore() says no.
  StatusOr<Generation> generate(std::span<const uint32_t> prompt,
                                const GenerateOptions &options,
                                TokenSink &sink);

  /// Runs the programs of a round a few times, for a hundredth of a second or
  /// two, so that texts whose rows are chosen begin with what
  /// rounds cost. Large models are left to their texts. Only before the first
  /// text.
  Status measureRounds();

  /// Whether generate() takes \p prompt.
  Status checkPrompt(std::span<const uint32_t> prompt) const;

  bool hasDrafter() const { return driver.hasDrafter(); }
  /// Whether tokens can be sampled and have log probabilities.
  bool canSample() const { return driver.loop().prefill_logits() >= 0; }
  /// Whether tokens of prompts can have log probabilities.
  bool canScore() const { return driver.loop().score() >= 0; }

private:
  /// One text being written.
  struct Text {
    Generation result;
    const GenerateOptions &options;
    uint32_t budget;
    bool drafted;
    /// Most rows of a round, and whether they are chosen.
    uint32_t blockRows;
    bool choosesRows;
    /// Decides on the host; none when the programs decide.
    std::optional<BlockSampler> decider;
    /// Runs the rounds; null when the host does.
    RoundLoop *rounds = nullptr;
    /// Tokens of the prompt behind which snapshots are made, in order.
    std::vector<size_t> snapshotsAt = {};
    /// Rows of the last block that are known to be right, the last token being
    /// the one behind them; none when the text went another way.
    std::optional<uint32_t> place = std::nullopt;
    /// Steps that were chosen last, how many of them are still to be taken, and
    /// when the first began.
    uint32_t steps = 0, stepsLeft = 0;
    double stepsBegin = 0;
    bool ended = false;
    TokenSink &sink;
  };

  Speculator(LoopDriver driver, double draftCost, uint64_t stepBytes, Now now);
  static double steadySeconds();

  Status checkOptions(const GenerateOptions &options) const;
  StatusOr<Generation> write(std::span<const uint32_t> prompt, Text &text);
  Status reuseCaches(std::span<const uint32_t> prompt, Text &text);
  Status goOn(Text &text);
  Status goBack(const SnapshotTable::Found &found);
  Status startOver();
  Status takeSnapshots(Text &text);
  bool knowsContext(const Text &text) const;
  /// Leaves the first token of the answer in `round`.
  Status prefill(std::span<const uint32_t> prompt, Text &text);
  Status prefillChunk(std::span<const uint32_t> chunk, bool last, Text &text);
  Status scoreChunk(std::span<const uint32_t> prompt, size_t count, Text &text);
  Status decideFirst(std::span<const float> row, Text &text);
  /// Each decides the tokens of one round, which stand at \p position, and
  /// leaves them in `round`.
  StatusOr<uint32_t> draftRound(uint64_t position, Text &text);
  StatusOr<uint32_t> chosenRound(uint64_t position, Text &text);
  StatusOr<uint32_t> chosenBlock(uint64_t position, BlockChooser::Choice choice,
                                 Text &text);
  StatusOr<uint32_t> chosenStep(uint64_t position, Text &text);
  StatusOr<uint32_t> plainRound(uint64_t position, Text &text);
  StatusOr<uint32_t> deviceRound(uint64_t position, Text &text);
  StatusOr<uint32_t> oneRound(uint64_t position, Text &text);
  Status startRounds(Text &text);
  Status stopRounds(Text &text);
  Status draftChosen(uint64_t position, Text &text);
  Status draftBlock(uint64_t position, std::span<uint32_t> block, Text &text);
  StatusOr<uint32_t> verifyBlock(uint64_t position,
                                 std::span<const uint32_t> block, Text &text);
  StatusOr<uint32_t> decideBlock(uint64_t position,
                                 std::span<const uint32_t> block, Text &text);
  Status forceDrafts(uint64_t position, uint32_t rowCount, uint32_t count);
  Status keepFeatures();
  Status flushFeatures();
  Status bringContext();
  double seconds() const;
  /// Takes tokens over into the text until it ends; returns how many.
  uint32_t emit(std::span<const uint32_t> tokens, Text &text) const;
  bool isStopToken(uint32_t token, const GenerateOptions &options) const;
  std::span<float> rowsOf(std::vector<float> &buffer, size_t count) const;

  LoopDriver driver;
  Now now;
  /// Bytes of weights that a step reads.
  uint64_t stepBytes;
  /// Tokens of the last round, and the last block, where the host has to know
  /// it: [block].
  std::vector<uint32_t> round, drafted;
  /// Logits of the last round, [block, vocabulary], and of the drafter; made
  /// when they are first needed.
  std::vector<float> logits, draftLogits;
  /// Tokens in the target's caches. The last `pending` of them are rows that
  /// the next program will keep; the drafter knows the first `contextRows`.
  std::vector<uint32_t> cached;
  uint32_t pending = 0;
  /// Whether the states stand behind `cached`. Where they do not, its rows of
  /// keys and values are there, and the text can go back to a snapshot.
  bool isCurrent = true;
  SnapshotTable snapshots;
  size_t contextRows = 0;
  /// Features of rows behind those, which the drafter did not need yet:
  /// [rows, width], at most `laterRoom` numbers of them.
  std::vector<float> laterFeatures;
  size_t laterRoom = 0;
  /// The port with the features of the rows that are pending, if they left any.
  std::optional<uint32_t> pendingFeatures;
  BlockChooser chooser;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_SPECULATOR_H
