//===- FakeKernels.cpp - The kernels of TestPtx.cpp, for the fake driver --===//

#include "runtime/cuda/LoopKernel.h"
#include "test/runtime/cuda/FakeCuda.h"
#include "test/runtime/cuda/TestPtx.h"

#include <algorithm>

namespace tandem::test {

namespace {

/// Sizes of the parameters of a kernel with \p operands operands.
std::vector<uint32_t> sizesFor(size_t operands) {
  std::vector<uint32_t> sizes(operands, 8);
  sizes.insert(sizes.end(), {8, 4, 8});
  return sizes;
}

/// The operands, and the parameters behind them.
class Arguments {
public:
  explicit Arguments(const FakeLaunch &launch) : launch(launch) {}

  int32_t *ints(size_t index, size_t count = 1) const {
    // A launch that fails still gets memory, so that it ends.
    static int32_t nowhere[4096];
    auto *found = launch.memory<int32_t>(index, count);
    return found ? found : nowhere;
  }
  float *floats(size_t index, size_t count) const {
    return reinterpret_cast<float *>(ints(index, count));
  }
  int32_t rows() const {
    return int32_t(launch.parameters[launch.parameters.size() - 2]);
  }
  int32_t liveRows() const {
    size_t index = launch.parameters.size() - 3;
    if (launch.parameters[index] == 0)
      return rows();
    return std::clamp(*ints(index), 0, rows());
  }
  int32_t *scratch() const { return ints(launch.parameters.size() - 1); }

private:
  const FakeLaunch &launch;
};

void addWeight(const FakeLaunch &launch) {
  Arguments args(launch);
  auto rows = size_t(args.liveRows());
  const float *weight = args.floats(1, 1);
  for (size_t row = 0; row < rows; ++row)
    args.floats(2, rows)[row] = args.floats(0, rows)[row] + *weight;
}

void countCalls(const FakeLaunch &launch) {
  Arguments args(launch);
  *args.ints(1) = ++*args.ints(0);
}

void countInScratch(const FakeLaunch &launch) {
  Arguments args(launch);
  *args.ints(0) = ++*args.scratch();
}

void reverseInShared(const FakeLaunch &launch) {
  Arguments args(launch);
  for (uint32_t thread = 0; thread < launch.blockX; ++thread)
    args.ints(0, launch.blockX)[thread] =
        int32_t(launch.blockX - 1 - thread) * 3;
}

void logBlocks(const FakeLaunch &launch) {
  Arguments args(launch);
  size_t blocks = size_t(launch.gridX) * launch.gridY * launch.gridZ;
  for (size_t block = 0; block < blocks; ++block)
    args.ints(0, blocks)[block] = int32_t(block * 1000 + launch.blockX);
}

void prefill(const FakeLaunch &launch) {
  Arguments args(launch);
  int32_t count = *args.ints(1);
  *args.ints(3) = nextToken(args.ints(0, size_t(count))[count - 1],
                            *args.ints(2) + count - 1);
}

void draft(const FakeLaunch &launch) {
  Arguments args(launch);
  auto rows = size_t(args.rows());
  int32_t *block = args.ints(2, rows);
  block[0] = *args.ints(0);
  for (size_t slot = 1; slot < rows; ++slot)
    block[slot] =
        draftedToken(block[slot - 1], *args.ints(1) + int32_t(slot) - 1);
}

void verify(const FakeLaunch &launch) {
  Arguments args(launch);
  auto rows = size_t(args.liveRows());
  for (size_t row = 0; row < rows; ++row)
    args.ints(2, rows)[row] =
        nextToken(args.ints(0, rows)[row], *args.ints(1) + int32_t(row));
}

/// Has no token from position 30 on.
void verifyBadly(const FakeLaunch &launch) {
  Arguments args(launch);
  verify(launch);
  for (int32_t row = 0; row < args.rows(); ++row)
    if (*args.ints(1) + row >= 30)
      args.ints(2, size_t(args.rows()))[row] = -1;
}

void accept(const FakeLaunch &launch) {
  Arguments args(launch);
  int32_t rows = args.liveRows(), accepted = 1;
  const int32_t *block = args.ints(0, size_t(rows));
  const int32_t *decided = args.ints(1, size_t(rows));
  while (accepted < rows && block[accepted] == decided[accepted - 1])
    ++accepted;
  *args.ints(3) = accepted;
  *args.ints(4) = decided[accepted - 1];
  *args.ints(5) = *args.ints(2);
  *args.ints(2) += accepted;
}

/// Counts more rows than there are.
void acceptBadly(const FakeLaunch &launch) {
  accept(launch);
  *Arguments(launch).ints(3) = 77;
}

void step(const FakeLaunch &launch) {
  Arguments args(launch);
  *args.ints(0) = nextToken(*args.ints(0), *args.ints(1));
  *args.ints(2) = 1;
  *args.ints(3) = *args.ints(1);
  *args.ints(1) += 1;
}

/// As LoopKernel.cpp has it in PTX.
void endRound(const FakeLaunch &launch) {
  auto *control = launch.memory<cuda::LoopControl>(2);
  auto *mailbox = launch.memory<cuda::LoopMailbox>(3);
  auto *count = launch.memory<uint32_t>(0);
  auto *counts = launch.memory<uint32_t>(4, control->rounds + 1);
  bool ended = *count < 1 || *count > control->block;
  uint32_t live = ended ? 0 : *count;
  auto *tokens = launch.memory<uint32_t>(1, live);
  auto *log = launch.memory<uint32_t>(5, control->tokens + live);
  auto *stops = reinterpret_cast<const uint32_t *>(control + 1);
  for (uint32_t index = 0; index < live; ++index) {
    log[control->tokens + index] = tokens[index];
    ended |= tokens[index] >= control->vocabulary ||
             std::count(stops, stops + control->stopTokens, tokens[index]);
  }
  counts[control->rounds++] = *count;
  control->tokens += live;
  mailbox->progress = uint64_t(control->tokens) << 32 | control->rounds;
  ended |= control->tokens >= control->budget || mailbox->stop != 0;
  FakeLaunch::setCondition(launch.parameters[6], !ended);
}

} // namespace

const std::map<std::string, FakeKernel> &fakeKernels() {
  static const std::map<std::string, FakeKernel> kernels = {
      {"add_weight", {addWeight, sizesFor(3)}},
      {"count_calls", {countCalls, sizesFor(2)}},
      {"count_in_scratch", {countInScratch, sizesFor(1)}},
      {"reverse_in_shared", {reverseInShared, sizesFor(1), 256, 128}},
      {"log_blocks", {logBlocks, sizesFor(1)}},
      {"prefill", {prefill, sizesFor(4)}},
      {"draft", {draft, sizesFor(3)}},
      {"verify", {verify, sizesFor(3)}},
      {"verify_badly", {verifyBadly, sizesFor(3)}},
      {"accept", {accept, sizesFor(6)}},
      {"accept_badly", {acceptBadly, sizesFor(6)}},
      {"step", {step, sizesFor(4)}},
      {cuda::loopKernelName, {endRound, std::vector<uint32_t>(7, 8)}}};
  return kernels;
}

} // namespace tandem::test
