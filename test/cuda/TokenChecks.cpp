//===- TokenChecks.cpp - From logits to tokens ----------------------------===//

#include "test/cuda/Run.h"
#include "test/cuda/Suite.h"

using namespace tandem::gpucheck;

namespace {

std::string nextName(const Suite &suite) {
  return "k" + std::to_string(suite.kernels.size());
}

int32_t findLargest(const float *row, int64_t columns) {
  int64_t best = 0;
  float largest = -INFINITY;
  for (int64_t k = 0; k < columns; ++k)
    if (row[k] > largest) {
      largest = row[k];
      best = k;
    }
  return int32_t(best);
}

void addArgmax(Suite &suite, int64_t columns) {
  std::string kernel = suite.kernel(nextName(suite), "argmax",
                                    "{" + number("columns", columns) + "}");
  suite.check([=](Run &run) {
    constexpr int rows = 16, live = 14;
    std::vector<float> logits = randomFloat(rows * columns, 1);
    // Ties, nothing but minus infinity, the first, the last, NaNs.
    auto row = [&](int r) { return logits.data() + r * columns; };
    for (int64_t k = 0; k < columns; ++k) {
      row(0)[k] = 0;
      row(1)[k] = -INFINITY;
      row(2)[k] = roundBf16(row(2)[k]);
    }
    row(3)[columns - 1] = 100;
    row(4)[0] = 100;
    row(5)[columns / 2] = NAN;
    row(6)[columns / 3] = row(6)[columns - 1] = 50;
    Array<float> memory(run, logits);
    Array<int32_t> liveMemory(run, std::vector<int32_t>{live});
    Array<int32_t> output(run, size_t(rows));
    run.launch(kernel, {&memory, &output}, rows, &liveMemory);
    std::vector<int32_t> got = output.values(), expected;
    for (int r = 0; r < live; ++r)
      expected.push_back(findLargest(row(r), columns));
    std::string title = "argmax " + std::to_string(columns);
    run.untouched(title, got, live);
    got.resize(live);
    run.same(title, got, expected);
  });
}

void addBlocks(Suite &suite, int64_t size) {
  std::string mask = suite.kernel(nextName(suite), "mask_block",
                                  "{" + number("size", size) + ", " +
                                      number("mask_token", 999) + "}");
  std::string concat = suite.kernel(nextName(suite), "concat_tokens",
                                    "{" + number("left", 1) + ", " +
                                        number("right", size - 1) + "}");
  suite.check([=](Run &run) {
    Array<int32_t> anchor(run, std::vector<int32_t>{42});
    Array<int32_t> block(run, size_t(size));
    run.launch(mask, {&anchor, &block}, 1);
    std::vector<int32_t> expected(size, 999);
    expected[0] = 42;
    run.same("mask_block " + std::to_string(size), block.values(), expected);
    std::vector<int32_t> drafts;
    for (int64_t i = 1; i < size; ++i)
      drafts.push_back(int32_t(i * 3));
    Array<int32_t> draftMemory(run, drafts), both(run, size_t(size));
    run.launch(concat, {&anchor, &draftMemory, &both}, 1);
    drafts.insert(drafts.begin(), 42);
    run.same("concat_tokens " + std::to_string(size), both.values(), drafts);
  });
}

void addUnmask(Suite &suite, int64_t size, int64_t columns, int64_t fill) {
  std::string kernel = suite.kernel(
      nextName(suite), "unmask",
      "{" + number("size", size) + ", " + number("columns", columns) + ", " +
          number("fill", fill) + ", " + number("mask_token", 5) + "}");
  suite.check([=](Run &run) {
    std::vector<float> logits = randomFloat((size - 1) * columns, 1, 3);
    // Two slots that are equally sure: the lower one wins.
    if (size > 4)
      std::copy(logits.begin(), logits.begin() + columns,
                logits.begin() + 2 * columns);
    std::vector<int32_t> block(size, 5);
    block[0] = 7;
    if (size > 3)
      block[2] = 8;
    std::vector<double> confidences;
    std::vector<int32_t> expected = block;
    for (int64_t slot = 0; slot < size - 1; ++slot) {
      const float *row = logits.data() + slot * columns;
      double sum = 0;
      for (int64_t k = 0; k < columns; ++k)
        sum += std::exp(double(row[k]) - row[findLargest(row, columns)]);
      confidences.push_back(block[slot + 1] == 5 ? 1 / sum : -1);
    }
    for (int64_t i = 0; i < fill; ++i) {
      int64_t best = 0;
      for (int64_t slot = 1; slot < size - 1; ++slot)
        if (confidences[slot] > confidences[best])
          best = slot;
      if (confidences[best] < 0)
        break;
      expected[best + 1] = findLargest(logits.data() + best * columns, columns);
      confidences[best] = -1;
    }
    Array<int32_t> blockMemory(run, block), result(run, size_t(size));
    Array<float> memory(run, logits);
    run.launch(kernel, {&blockMemory, &memory, &result}, 1);
    run.same("unmask " + std::to_string(size) + " fill " + std::to_string(fill),
             result.values(), expected);
  });
}

void addSelect(Suite &suite) {
  constexpr int64_t entries = 1000;
  std::string kernel = suite.kernel(nextName(suite), "select_tokens",
                                    "{" + number("entries", entries) + "}");
  suite.check([=](Run &run) {
    constexpr int rows = 40, live = 38;
    std::vector<int32_t> places, table, expected;
    for (int i = 0; i < entries; ++i)
      table.push_back(7 * i + 3);
    for (int row = 0; row < rows; ++row)
      places.push_back(row * 97 % entries);
    places[3] = entries;
    places[4] = -1;
    for (int row = 0; row < live; ++row)
      expected.push_back(table[row == 3 || row == 4 ? 0 : places[row]]);
    Array<int32_t> placeMemory(run, places), tableMemory(run, table),
        output(run, size_t(rows));
    Array<int32_t> liveMemory(run, std::vector<int32_t>{live});
    run.launch(kernel, {&placeMemory, &tableMemory, &output}, rows,
               &liveMemory);
    std::vector<int32_t> got = output.values();
    run.untouched("select_tokens", got, live);
    got.resize(live);
    run.same("select_tokens", got, expected);
  });
}

void addAccept(Suite &suite) {
  std::string kernel = suite.kernel(nextName(suite), "accept", "{}");
  suite.check([=](Run &run) {
    for (int agreed : {1, 3, 6, 8})
      for (int live : {8, 5}) {
        std::vector<int32_t> block, decided;
        for (int i = 0; i < 8; ++i)
          block.push_back(100 + i);
        for (int i = 0; i < 8; ++i)
          decided.push_back(i + 1 < agreed ? 101 + i : 500 + i);
        int accepted = std::min(agreed, live);
        Array<int32_t> blockMemory(run, block), decidedMemory(run, decided);
        Array<int32_t> start(run, std::vector<int32_t>{40});
        Array<int32_t> liveMemory(run, std::vector<int32_t>{live});
        Array<int32_t> count(run, size_t(1)), anchor(run, size_t(1)),
            context(run, size_t(1));
        // The next start is written where the start was read.
        run.launch(kernel,
                   {&blockMemory, &decidedMemory, &start, &count, &anchor,
                    &start, &context},
                   8, &liveMemory);
        std::vector<int32_t> got = {count.values()[0], anchor.values()[0],
                                    start.values()[0], context.values()[0]};
        run.same("accept " + std::to_string(accepted) + " of " +
                     std::to_string(live),
                 got,
                 std::vector<int32_t>{accepted, decided[accepted - 1],
                                      40 + accepted, 40});
      }
  });
}

} // namespace

void tandem::gpucheck::addTokenChecks(Suite &suite) {
  addArgmax(suite, 1024);
  addArgmax(suite, 6144);
  addArgmax(suite, 1021);
  addArgmax(suite, 10);
  addArgmax(suite, 248320);
  addBlocks(suite, 16);
  addBlocks(suite, 2);
  addUnmask(suite, 16, 1024, 4);
  addUnmask(suite, 16, 1021, 100);
  addUnmask(suite, 2, 6144, 1);
  addUnmask(suite, 8, 100, 3);
  addSelect(suite);
  addAccept(suite);
}
