//===- TokenKernelsTest.cpp - From logits to tokens -----------------------===//

#include "test/codegen/cpu/KernelHarness.h"

#include <algorithm>

using namespace tandem::test;

namespace {

class TokenKernels : public KernelTest {};

TANDEM_TEST_ALL_LEVELS(TokenKernels);

constexpr float infinity = std::numeric_limits<float>::infinity();

int32_t argmax(const float *row, int64_t columns) {
  return static_cast<int32_t>(std::max_element(row, row + columns) - row);
}

TEST_P(TokenKernels, argmax) { // P4.06
  const int64_t widths[] = {1, 7, 16, 33, 1000};
  for (int64_t columns : widths)
    kernels.add("argmax" + std::to_string(columns), "argmax",
                {{"columns", std::to_string(columns)}});
  kernels.compile();
  for (int64_t columns : widths) {
    constexpr int64_t rows = 8, liveRows = 7;
    Array<float> logits(rows * columns);
    // Few different values: the first of equals counts.
    for (size_t i = 0; i < logits.length(); ++i)
      logits[i] =
          static_cast<float>(random.integer(-3, columns > 100 ? 40 : 3));
    for (int64_t i = 0; i < columns; ++i) {
      logits[1 * columns + i] = -infinity;
      logits[2 * columns + i] = -5.0f;
      logits[3 * columns + i] = i % 2 ? 0.0f : -0.0f;
    }
    logits[4 * columns + columns - 1] = infinity;
    if (columns > 1)
      logits[5 * columns] = std::nanf("");
    Array<int32_t> tokens(rows, -7);
    kernels.run("argmax" + std::to_string(columns), {&logits, &tokens},
                liveRows, liveRows);
    for (int64_t row = 0; row < rows; ++row) {
      const float *first = &logits[row * columns];
      // What is not a number never is the largest.
      int64_t skip = std::isnan(*first) ? 1 : 0;
      int32_t expected = row < liveRows
                             ? static_cast<int32_t>(skip) +
                                   argmax(first + skip, columns - skip)
                             : -7;
      EXPECT_EQ(tokens[row], expected) << columns << " row " << row;
    }
  }
}

TEST_P(TokenKernels, blocks) {
  kernels.add("mask", "mask_block", {{"mask_token", "999"}, {"size", "5"}});
  kernels.add("mask1", "mask_block", {{"mask_token", "999"}, {"size", "1"}});
  kernels.add("concat", "concat_tokens", {{"left", "1"}, {"right", "4"}});
  kernels.compile();
  Array<int32_t> anchor(1, 42), block(5, -1), single(1, -1);
  kernels.run("mask", {&anchor, &block}, 5, 1);
  kernels.run("mask1", {&anchor, &single}, 1, 1);
  EXPECT_EQ(single[0], 42);
  for (int64_t i = 0; i < 5; ++i)
    EXPECT_EQ(block[i], i ? 999 : 42);
  Array<int32_t> drafts(std::vector<int32_t>{1, 2, 3, 4});
  kernels.run("concat", {&anchor, &drafts, &block}, 5, 1);
  for (int64_t i = 0; i < 5; ++i)
    EXPECT_EQ(block[i], i ? i : 42);
}

TEST_P(TokenKernels, selectTokens) {
  kernels.add("select", "select_tokens", {{"entries", "3"}});
  kernels.compile();
  Array<int32_t> places(std::vector<int32_t>{2, 0, 1, 3, -1, 2}),
      table(std::vector<int32_t>{5, 70, 6000}), result(6, -7);
  kernels.run("select", {&places, &table, &result}, 5, 5);
  const int32_t expected[] = {6000, 5, 70, 5, 5, -7};
  for (int64_t row = 0; row < 6; ++row)
    EXPECT_EQ(result[row], expected[row]) << row;
}

TEST_P(TokenKernels, accept) {
  kernels.add("accept", "accept", {});
  kernels.compile();
  constexpr int64_t size = 6;
  const std::vector<int32_t> block = {9, 1, 2, 3, 4, 5};
  struct Case {
    std::vector<int32_t> decided;
    int64_t rows;
    int32_t accepted;
  };
  const Case cases[] = {
      {{1, 2, 3, 4, 5, 6}, 6, 6}, {{0, 2, 3, 4, 5, 6}, 6, 1},
      {{1, 2, 0, 4, 5, 6}, 6, 3}, {{1, 2, 3, 4, 0, 6}, 6, 5},
      {{1, 2, 3, 4, 5, 6}, 3, 3}, {{1, 2, 3, 4, 5, 6}, 1, 1},
      {{7, 2, 3, 4, 5, 6}, 1, 1},
  };
  for (const Case &each : cases) {
    Array<int32_t> b(block), d(each.decided), start(1, 100);
    Array<int32_t> accepted(1, -1), anchor(1, -1), next(1, -1), context(1, -1);
    kernels.run("accept", {&b, &d, &start, &accepted, &anchor, &next, &context},
                each.rows, 1);
    EXPECT_EQ(accepted[0], each.accepted);
    EXPECT_EQ(anchor[0], each.decided[each.accepted - 1]);
    EXPECT_EQ(next[0], 100 + each.accepted);
    EXPECT_EQ(context[0], 100);
  }
  // Results on the memory of operands: the start moves on, the anchor is the
  // head of the block.
  Array<int32_t> b(block), d(cases[2].decided), start(1, 100);
  Array<int32_t> accepted(1, -1), context(1, -1);
  kernels.call("accept",
               {b.data(), d.data(), start.data(), accepted.data(), b.data(),
                start.data(), context.data()},
               size, 0, 1);
  EXPECT_EQ(b[0], 0);
  EXPECT_EQ(start[0], 103);
  EXPECT_EQ(context[0], 100);
  // No rows, nothing accepted.
  kernels.call("accept",
               {b.data(), d.data(), start.data(), accepted.data(), b.data(),
                start.data(), context.data()},
               0, 0, 1);
  EXPECT_EQ(accepted[0], 0);
  EXPECT_EQ(b[0], 0);
  EXPECT_EQ(start[0], 103);
}

TEST_P(TokenKernels, unmask) {
  constexpr int32_t mask = 77;
  constexpr int64_t size = 9, slots = size - 1;
  const int64_t widths[] = {5, 100};
  const int64_t fills[] = {1, 3, 8, 20};
  auto symbolOf = [](int64_t columns, int64_t fill) {
    return "unmask" + std::to_string(columns) + "_" + std::to_string(fill);
  };
  for (int64_t columns : widths)
    for (int64_t fill : fills)
      kernels.add(symbolOf(columns, fill), "unmask",
                  {{"columns", std::to_string(columns)},
                   {"fill", std::to_string(fill)},
                   {"mask_token", std::to_string(mask)},
                   {"size", std::to_string(size)}});
  kernels.compile();
  for (int64_t columns : widths)
    for (int64_t fill : fills)
      for (int trial = 0; trial < 10; ++trial) {
        Array<float> logits(slots * columns);
        random.fill(logits, 2.0f);
        // Slots 3 and 6 are equally sure.
        for (int64_t i = 0; i < columns; ++i)
          logits[5 * columns + i] = logits[2 * columns + i];
        Array<int32_t> block(size, mask), result(size, -1);
        block[0] = trial % 2 ? mask : 1;
        for (int64_t slot = 1; slot < size; ++slot)
          if (trial > 3 && random.integer(0, 2) == 0)
            block[slot] = static_cast<int32_t>(100 + slot);
        if (trial == 9)
          logits[0] = std::nanf("");

        std::vector<std::pair<double, int64_t>> order;
        for (int64_t slot = 1; slot < size; ++slot) {
          const float *row = &logits[(slot - 1) * columns];
          if (block[slot] != mask)
            continue;
          double sum = 0;
          for (int64_t i = 0; i < columns; ++i)
            sum += std::exp(double(row[i]) - row[argmax(row, columns)]);
          order.push_back({std::isnan(row[0]) ? 0.0 : -1.0 / sum, slot});
        }
        // Of equals the lower slot comes first.
        std::sort(order.begin(), order.end());
        std::vector<int32_t> expected(&block[0], &block[0] + size);
        for (size_t i = 0; i < order.size() && i < size_t(fill); ++i) {
          const float *row = &logits[(order[i].second - 1) * columns];
          int64_t skip = std::isnan(row[0]) ? 1 : 0;
          expected[order[i].second] =
              static_cast<int32_t>(skip) + argmax(row + skip, columns - skip);
        }
        kernels.run(symbolOf(columns, fill), {&block, &logits, &result}, size,
                    1);
        for (int64_t slot = 0; slot < size; ++slot)
          EXPECT_EQ(result[slot], expected[slot])
              << symbolOf(columns, fill) << " trial " << trial << " slot "
              << slot;
        // In place.
        kernels.run(symbolOf(columns, fill), {&block, &logits, &block}, size,
                    1);
        EXPECT_TRUE(block.save() == result.save());
      }
}

} // namespace
