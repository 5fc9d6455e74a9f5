//===- FakePair.cpp - A pair whose programs are written here --------------===//

#include "test/runtime/FakePair.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>

namespace tandem::test {

/// Width of the features: the token itself, and a constant.
static constexpr uint32_t width = 2;

/// The artefact of a fake pair: all ports of the loop, programs without
/// launches.
static ArtifactSpec specOf(const FakeOptions &options) {
  ArtifactSpec spec;
  LoopSpec loop = options.loop;
  constexpr ElementType f32 = ElementType::f32;
  for (const char *name : {"chunk_count", "start", "accepted", "anchor"})
    spec.ports.push_back({name});
  spec.ports.push_back({"chunk", ElementType::i32, {loop.chunk}});
  if (options.searches)
    spec.ports.push_back({"head_counts", ElementType::i32, {4}});
  auto add = [&](const char *name) {
    spec.programs.push_back({name});
    return int32_t(spec.programs.size() - 1);
  };
  loop.prefill = add("prefill");
  loop.step = add("step");
  if (options.drafter) {
    loop.context = add("context");
    loop.draft = add("draft");
    loop.verify = add("verify");
    loop.accept = add("accept");
    for (const char *name : {"context_start", "block_count"})
      spec.ports.push_back({name});
    for (const char *name : {"block", "decided"})
      spec.ports.push_back({name, ElementType::i32, {loop.block}});
    spec.ports.push_back({"chunk_features", f32, {loop.chunk, width}});
    spec.ports.push_back({"features", f32, {loop.block, width}});
    spec.ports.push_back({"step_features", f32, {1, width}});
  }
  if (options.score) {
    loop.score = add("score");
    spec.ports.push_back({"score_tokens", ElementType::i32, {loop.scoreChunk}});
    spec.ports.push_back({"score_count"});
    spec.ports.push_back(
        {"score_logits", f32, {loop.scoreChunk, loop.vocabulary}});
    if (options.drafter) {
      loop.scoreDraft = add("score_draft");
      spec.ports.push_back({"score_features", f32, {loop.scoreChunk, width}});
      spec.ports.push_back(
          {"draft_logits", f32, {loop.block - 1, loop.vocabulary}});
    }
  }
  if (options.logits) {
    loop.prefillLogits = add("prefill_logits");
    loop.stepLogits = add("step_logits");
    spec.ports.push_back({"anchor_logits", f32, {1, loop.vocabulary}});
    if (options.drafter) {
      loop.verifyLogits = add("verify_logits");
      spec.ports.push_back({"logits", f32, {loop.block, loop.vocabulary}});
    }
  }
  if (loop.shortChunk > 0) {
    spec.ports.push_back({"short_chunk", ElementType::i32, {loop.shortChunk}});
    loop.shortPrefill = add("short_prefill");
    if (options.drafter) {
      loop.shortContext = add("short_context");
      spec.ports.push_back({"short_features", f32, {loop.shortChunk, width}});
    }
    if (options.logits)
      loop.shortPrefillLogits = add("short_prefill_logits");
  }
  spec.loop = loop;
  spec.tokenizer = options.tokenizer;
  spec.states = options.states;
  return spec;
}

uint32_t hashTarget(std::span<const uint32_t> tokens) {
  uint64_t hash = 14695981039346656037u;
  for (uint32_t token : tokens)
    hash = (hash ^ token) * 1099511628211u;
  return uint32_t((hash >> 32) % 90);
}

Drafter rightFor(unsigned drafts) {
  return [drafts](unsigned slot, uint32_t right) {
    return slot <= drafts ? right : (right + 1) % 90;
  };
}

Target likeliestOf(Logits logits) {
  return [logits](std::span<const uint32_t> seen) {
    std::vector<float> row = logits(seen);
    return uint32_t(std::max_element(row.begin(), row.end()) - row.begin());
  };
}

FakePair::FakePair(const FakeOptions &options, Target target, Drafter drafter)
    : loop(options.loop), hasDrafter(options.drafter),
      target(std::move(target)), drafter(std::move(drafter)),
      targetLogits(options.targetLogits), drafterLogits(options.drafterLogits),
      file(specOf(options).write()), saved(options.snapshots) {
  auto artifact = Artifact::view(file.bytes());
  EXPECT_TRUE(artifact.isOk()) << artifact.status().message();
  opened = std::move(*artifact);
  for (uint32_t port = 0; port < opened->root().ports()->size(); ++port)
    // What a device does not promise to be zero is not.
    portData.emplace_back(opened->portBytes(port), std::byte(0x55));
}

Status FakePair::reset() {
  cached.clear();
  pending.clear();
  contextTokens.clear();
  targetRows.clear();
  contextRows.clear();
  return Status();
}

/// Puts the keys and values of \p token where those of another one may be.
void FakePair::writeRow(Tokens &rows, size_t position, uint32_t token) {
  rows.resize(std::max(rows.size(), position + 1), ~0u);
  rows[position] = token;
}

Status FakePair::save(uint32_t snapshot) {
  // What is pending is in no state that a snapshot has.
  EXPECT_EQ(count("accepted"), 0);
  saved[snapshot] = {cached, contextTokens};
  saves.push_back(cached.size());
  return Status();
}

/// The states, and of the caches that can go back what is left.
Status FakePair::restore(uint32_t snapshot) {
  auto rowsFor = [](const Tokens &tokens, const Tokens &rows) {
    EXPECT_GE(rows.size(), tokens.size());
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), rows.begin()))
        << "rows behind a snapshot were overwritten in front of it";
    return tokens;
  };
  cached = rowsFor(saved[snapshot].cached, targetRows);
  contextTokens = rowsFor(saved[snapshot].contextTokens, contextRows);
  pending.clear();
  restores.push_back(cached.size());
  return Status();
}

Status FakePair::write(uint32_t port, std::span<const std::byte> data) {
  EXPECT_LT(port, portData.size());
  EXPECT_LE(data.size(), portData[port].size());
  std::memcpy(portData[port].data(), data.data(), data.size());
  return Status();
}

Status FakePair::read(uint32_t port, std::span<std::byte> data) {
  EXPECT_LT(port, portData.size());
  EXPECT_LE(data.size(), portData[port].size());
  if (!data.empty())
    std::memcpy(data.data(), portData[port].data(), data.size());
  return Status();
}

std::span<int32_t> FakePair::ints(std::string_view port) {
  auto &data = portData[*opened->findPort(port)];
  return {reinterpret_cast<int32_t *>(data.data()), data.size() / 4};
}

std::span<float> FakePair::floats(std::string_view port) {
  auto &data = portData[*opened->findPort(port)];
  return {reinterpret_cast<float *>(data.data()), data.size() / 4};
}

Status FakePair::run(uint32_t program) {
  std::string name = opened->root().programs()->Get(program)->name()->str();
  ++runs[name];
  seconds += programSeconds[name];
  if (name == "verify")
    seconds += (count("block_count") - 1) * rowSeconds;
  if (name == failingProgram)
    return failure(StatusCode::System, "the device is gone");
  if (name == "prefill" || name == "prefill_logits")
    prefill("chunk", "chunk_features");
  else if (name == "short_prefill" || name == "short_prefill_logits")
    prefill("short_chunk", "short_features");
  else if (name == "context")
    context("chunk_features");
  else if (name == "short_context")
    context("short_features");
  else if (name == "draft" || name == "score_draft")
    draft(name == "score_draft");
  else if (name == "verify" || name == "verify_logits")
    verify(name == "verify_logits");
  else if (name == "accept")
    accept();
  else if (name == "step" || name == "step_logits")
    step();
  else if (name == "score")
    score();
  return Status();
}

/// Every program of the target first keeps the accepted rows of the last one.
void FakePair::foldPending() {
  int32_t accepted = count("accepted");
  ASSERT_GE(accepted, 0);
  ASSERT_LE(size_t(accepted), pending.size());
  for (size_t row = 0; row < pending.size(); ++row)
    writeRow(targetRows, cached.size() + row, pending[row]);
  cached.insert(cached.end(), pending.begin(), pending.begin() + accepted);
  pending.clear();
  ASSERT_EQ(size_t(count("start")), cached.size());
}

void FakePair::prefill(std::string_view tokens, std::string_view features) {
  foldPending();
  ASSERT_LE(size_t(count("chunk_count")), ints(tokens).size());
  auto rows = ints(tokens).first(size_t(count("chunk_count")));
  for (size_t row = 0; row < rows.size(); ++row) {
    cached.push_back(uint32_t(rows[row]));
    writeRow(targetRows, cached.size() - 1, cached.back());
    if (hasDrafter)
      floats(features)[row * width] = float(rows[row]);
  }
  count("anchor") = int32_t(target(cached));
  if (opened->findPort("anchor_logits"))
    writeLogits("anchor_logits", 0, cached);
}

void FakePair::context(std::string_view features) {
  ASSERT_EQ(size_t(count("start")), contextTokens.size());
  for (size_t row = 0; row < size_t(count("chunk_count")); ++row)
    addContext(floats(features)[row * width]);
}

void FakePair::addContext(float feature) {
  // What is measured before the first text has features of nothing.
  bool isToken = feature >= 0 && feature < 16777216;
  contextTokens.push_back(isToken ? uint32_t(feature) : 0);
  writeRow(contextRows, contextTokens.size() - 1, contextTokens.back());
}

void FakePair::draft(bool withLogits) {
  size_t accepted = size_t(count("accepted"));
  ASSERT_EQ(contextTokens.size(), size_t(count("context_start")));
  for (size_t row = 0; row < accepted; ++row)
    addContext(floats("features")[row * width]);
  // The drafter knows exactly what the target has seen.
  Tokens seen = cached;
  seen.insert(seen.end(), pending.begin(), pending.begin() + accepted);
  ASSERT_EQ(contextTokens, seen);
  ASSERT_EQ(size_t(count("start")), seen.size());

  seen.push_back(uint32_t(count("anchor")));
  ints("block")[0] = count("anchor");
  for (unsigned slot = 1; slot < loop.block; ++slot) {
    uint32_t right = target(seen);
    uint32_t token = drafter(slot, right);
    if (drafterLogits) {
      Tokens context = contextTokens;
      context.push_back(uint32_t(count("anchor")));
      context.resize(context.size() + slot - 1);
      std::vector<float> row = drafterLogits(context);
      token = uint32_t(std::max_element(row.begin(), row.end()) - row.begin());
      if (withLogits)
        std::copy(row.begin(), row.end(),
                  floats("draft_logits").begin() +
                      ptrdiff_t((slot - 1) * loop.vocabulary));
    }
    ints("block")[slot] = int32_t(token);
    if (withLogits && !drafterLogits)
      for (uint32_t id = 0; id < loop.vocabulary; ++id)
        floats("draft_logits")[(slot - 1) * loop.vocabulary + id] =
            id == token ? 1.0f : 0.0f;
    seen.push_back(token);
  }
}

/// Writes row \p row of \p port: the logits behind \p seen.
void FakePair::writeLogits(std::string_view port, size_t row,
                           std::span<const uint32_t> seen) {
  auto logits = floats(port).subspan(row * loop.vocabulary, loop.vocabulary);
  if (targetLogits) {
    std::vector<float> values = targetLogits(seen);
    std::copy(values.begin(), values.end(), logits.begin());
    return;
  }
  std::fill(logits.begin(), logits.end(), 0.0f);
  logits[target(seen) % loop.vocabulary] = 1;
}

void FakePair::countSearch(int32_t rows) {
  if (!opened->findPort("head_counts"))
    return;
  // They may begin again, which numbers with a sign may not.
  auto add = [&](size_t place, uint32_t number) {
    int32_t &counted = ints("head_counts")[place];
    counted = int32_t(uint32_t(counted) + number);
  };
  add(0, 1);
  add(1, uint32_t(rows));
  add(2, 2 * uint32_t(rows));
  add(3, (runs["verify"] + runs["step"]) % 3 == 0);
}

void FakePair::verify(bool withLogits) {
  foldPending();
  countSearch(count("block_count"));
  for (size_t row = 0; row < size_t(count("block_count")); ++row) {
    pending.push_back(uint32_t(ints("block")[row]));
    Tokens seen = cached;
    seen.insert(seen.end(), pending.begin(), pending.end());
    ints("decided")[row] = int32_t(target(seen));
    if (withLogits)
      writeLogits("logits", row, seen);
    floats("features")[row * width] = float(ints("block")[row]);
  }
}

void FakePair::accept() {
  int32_t accepted = 1;
  while (accepted < count("block_count") &&
         ints("block")[size_t(accepted)] ==
             ints("decided")[size_t(accepted) - 1])
    ++accepted;
  count("accepted") = accepted;
  count("anchor") = ints("decided")[size_t(accepted) - 1];
  count("context_start") = count("start");
  count("start") += accepted;
}

void FakePair::step() {
  foldPending();
  countSearch(1);
  pending.push_back(uint32_t(count("anchor")));
  Tokens seen = cached;
  seen.push_back(pending[0]);
  count("anchor") = int32_t(target(seen));
  if (opened->findPort("anchor_logits"))
    writeLogits("anchor_logits", 0, seen);
  count("accepted") = 1;
  if (hasDrafter) {
    count("context_start") = count("start");
    floats("step_features")[0] = float(pending[0]);
  }
  count("start") += 1;
}

void FakePair::score() {
  foldPending();
  for (size_t row = 0; row < size_t(count("score_count")); ++row) {
    cached.push_back(uint32_t(ints("score_tokens")[row]));
    writeRow(targetRows, cached.size() - 1, cached.back());
    writeLogits("score_logits", row, cached);
    if (hasDrafter)
      floats("score_features")[row * width] = float(cached.back());
  }
}

} // namespace tandem::test
