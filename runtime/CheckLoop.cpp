//===- CheckLoop.cpp - The speculative loop of an artefact ----------------===//

#include "runtime/ArtifactChecks.h"

#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>

namespace tandem {

using artifact::ElementType;

namespace {

class LoopChecker {
public:
  explicit LoopChecker(const artifact::Artifact &tables)
      : tables(tables), loop(*tables.loop()) {}

  Status check() {
    TANDEM_RETURN_IF_ERROR(checkNumbers());
    TANDEM_RETURN_IF_ERROR(checkPrograms());
    TANDEM_RETURN_IF_ERROR(checkPorts());
    return checkSelfTest();
  }

private:
  const artifact::Artifact &tables;
  const artifact::Loop &loop;

  Status checkNumbers() {
    if (loop.block() < 1 || loop.chunk() < 1 || loop.max_context() < 1 ||
        loop.vocabulary() < 1)
      return invalidFile("loop: block ", loop.block(), ", chunk ", loop.chunk(),
                         ", max_context ", loop.max_context(),
                         " and vocabulary ", loop.vocabulary(),
                         " must all be at least 1");
    // Positions and tokens travel through i32 ports.
    uint64_t limit = std::numeric_limits<int32_t>::max();
    if (uint64_t(loop.max_context()) + loop.block() > limit ||
        loop.chunk() > limit || loop.score_chunk() > limit ||
        loop.short_chunk() > limit || loop.vocabulary() > limit)
      return invalidFile("loop: a number is larger than ", limit);
    if (loop.short_chunk() >= loop.chunk())
      return invalidFile("loop: short_chunk is ", loop.short_chunk(),
                         ", expected less than the chunk, ", loop.chunk());
    if (const auto *stops = loop.stop_tokens())
      for (uint32_t index = 0; index < stops->size(); ++index)
        if (stops->Get(index) >= loop.vocabulary())
          return invalidFile("loop: stop_tokens[", index, "]: token ",
                             stops->Get(index), " is out of range (",
                             loop.vocabulary(), " tokens)");
    return Status();
  }

  Status checkProgram(std::string_view name, int32_t index, bool needed) {
    if (index < 0 && needed)
      return invalidFile("loop: there is no program for '", name, "'");
    if (index >= 0 && uint32_t(index) >= tables.programs()->size())
      return invalidFile("loop: ", name, ": program index ", index,
                         " is out of range (", tables.programs()->size(),
                         " programs)");
    return Status();
  }

  bool hasDrafter() const { return loop.draft() >= 0; }
  bool hasLogits() const { return loop.prefill_logits() >= 0; }
  bool hasShort() const { return loop.short_chunk() > 0; }

  Status checkPrograms() {
    TANDEM_RETURN_IF_ERROR(checkProgram("prefill", loop.prefill(), true));
    TANDEM_RETURN_IF_ERROR(checkProgram("step", loop.step(), true));
    TANDEM_RETURN_IF_ERROR(checkProgram("draft", loop.draft(), false));
    // Programs of the round come together.
    TANDEM_RETURN_IF_ERROR(
        checkProgram("context", loop.context(), hasDrafter()));
    TANDEM_RETURN_IF_ERROR(checkProgram("verify", loop.verify(), hasDrafter()));
    TANDEM_RETURN_IF_ERROR(checkProgram("accept", loop.accept(), hasDrafter()));
    TANDEM_RETURN_IF_ERROR(checkProgram("score", loop.score(), false));
    TANDEM_RETURN_IF_ERROR(
        checkProgram("score_draft", loop.score_draft(), false));
    TANDEM_RETURN_IF_ERROR(
        checkProgram("prefill_logits", loop.prefill_logits(), false));
    bool logits = hasLogits();
    TANDEM_RETURN_IF_ERROR(
        checkProgram("step_logits", loop.step_logits(), logits));
    TANDEM_RETURN_IF_ERROR(checkProgram("verify_logits", loop.verify_logits(),
                                        logits && hasDrafter()));
    if (!logits && (loop.step_logits() >= 0 || loop.verify_logits() >= 0))
      return invalidFile("loop: 'step_logits' and 'verify_logits' need the "
                         "program 'prefill_logits'");
    TANDEM_RETURN_IF_ERROR(
        checkProgram("short_prefill", loop.short_prefill(), hasShort()));
    TANDEM_RETURN_IF_ERROR(checkProgram("short_context", loop.short_context(),
                                        hasShort() && hasDrafter()));
    TANDEM_RETURN_IF_ERROR(checkProgram("short_prefill_logits",
                                        loop.short_prefill_logits(),
                                        hasShort() && logits));
    if (loop.score() >= 0 && loop.score_chunk() < 1)
      return invalidFile("loop: score_chunk is 0");
    if (loop.score_draft() >= 0 && (!hasDrafter() || loop.score() < 0))
      return invalidFile(
          "loop: 'score_draft' needs the programs 'score' and 'draft'");
    return Status();
  }

  /// A dimension that the loop does not tell: any number does, but the same
  /// for every port.
  static constexpr uint32_t featureWidth = 0xffffffff;
  uint32_t foundWidth = featureWidth;

  static std::string shapeText(std::initializer_list<uint32_t> shape) {
    std::string text = "[";
    for (uint32_t dimension : shape) {
      if (text.size() > 1)
        text += ", ";
      text += dimension == featureWidth ? "n*H" : concat(dimension);
    }
    return text + "]";
  }

  const artifact::Port *findPort(std::string_view name) const {
    for (const artifact::Port *port : *tables.ports())
      if (port->name()->string_view() == name)
        return port;
    return nullptr;
  }

  Status checkPort(std::string_view name, ElementType element,
                   std::initializer_list<uint32_t> shape) {
    const artifact::Port *port = findPort(name);
    if (!port)
      return invalidFile("loop: there is no port '", name, "'");
    bool matches =
        port->element() == element && port->shape()->size() == shape.size();
    for (uint32_t axis = 0; matches && axis < shape.size(); ++axis) {
      uint32_t expected = shape.begin()[axis];
      uint32_t found = port->shape()->Get(axis);
      if (expected == featureWidth) {
        if (foundWidth == featureWidth)
          foundWidth = found;
        expected = foundWidth;
        // Rows without values could not be counted.
        matches = found != 0;
      }
      matches &= found == expected;
    }
    if (!matches)
      return invalidFile("loop: port '", name, "' is not ",
                         artifact::EnumNameElementType(element), " of shape ",
                         shapeText(shape));
    return Status();
  }

  Status checkPorts() {
    constexpr ElementType i32 = ElementType::i32;
    constexpr ElementType f32 = ElementType::f32;
    // Features are activations, and all of one type.
    const artifact::Port *first = findPort("chunk_features");
    ElementType features = first && first->element() == ElementType::bf16
                               ? ElementType::bf16
                               : f32;
    uint32_t block = loop.block();
    TANDEM_RETURN_IF_ERROR(checkPort("chunk", i32, {loop.chunk()}));
    if (hasShort())
      TANDEM_RETURN_IF_ERROR(
          checkPort("short_chunk", i32, {loop.short_chunk()}));
    for (std::string_view name : {"chunk_count", "start", "accepted", "anchor"})
      TANDEM_RETURN_IF_ERROR(checkPort(name, i32, {1}));
    if (hasDrafter()) {
      for (std::string_view name : {"context_start", "block_count"})
        TANDEM_RETURN_IF_ERROR(checkPort(name, i32, {1}));
      for (std::string_view name : {"block", "decided"})
        TANDEM_RETURN_IF_ERROR(checkPort(name, i32, {block}));
      TANDEM_RETURN_IF_ERROR(
          checkPort("chunk_features", features, {loop.chunk(), featureWidth}));
      if (hasShort())
        TANDEM_RETURN_IF_ERROR(checkPort("short_features", features,
                                         {loop.short_chunk(), featureWidth}));
      TANDEM_RETURN_IF_ERROR(
          checkPort("features", features, {block, featureWidth}));
      TANDEM_RETURN_IF_ERROR(
          checkPort("step_features", features, {1, featureWidth}));
    }
    if (loop.score() >= 0) {
      TANDEM_RETURN_IF_ERROR(
          checkPort("score_tokens", i32, {loop.score_chunk()}));
      TANDEM_RETURN_IF_ERROR(checkPort("score_count", i32, {1}));
      TANDEM_RETURN_IF_ERROR(checkPort(
          "score_logits", f32, {loop.score_chunk(), loop.vocabulary()}));
    }
    if (loop.score() >= 0 && hasDrafter())
      TANDEM_RETURN_IF_ERROR(checkPort("score_features", features,
                                       {loop.score_chunk(), featureWidth}));
    if (loop.score_draft() >= 0)
      TANDEM_RETURN_IF_ERROR(
          checkPort("draft_logits", f32, {block - 1, loop.vocabulary()}));
    if (hasLogits())
      TANDEM_RETURN_IF_ERROR(
          checkPort("anchor_logits", f32, {1, loop.vocabulary()}));
    if (hasLogits() && hasDrafter())
      TANDEM_RETURN_IF_ERROR(
          checkPort("logits", f32, {block, loop.vocabulary()}));
    return Status();
  }

  Status checkSelfTest() {
    const artifact::SelfTest *test = tables.self_test();
    if (!test)
      return Status();
    if (!hasDrafter() || !tables.tokenizer())
      return invalidFile("self_test: needs a drafter and a tokenizer");
    if (test->prompt()->size() == 0)
      return invalidFile("self_test: the prompt is empty");
    if (test->new_tokens() < 1 || test->new_tokens() > loop.max_context())
      return invalidFile("self_test: new_tokens is ", test->new_tokens(),
                         ", expected 1 to ", loop.max_context());
    // Not a number is below nothing.
    if (!(test->floor() >= 1 && test->floor() <= float(loop.block())))
      return invalidFile("self_test: floor is ", std::to_string(test->floor()),
                         ", expected 1 to ", loop.block());
    return Status();
  }
};

} // namespace

Status checkLoop(const artifact::Artifact &tables) {
  return LoopChecker(tables).check();
}

} // namespace tandem
