//===- AttentionChecks.cpp - Attention over full caches and rings ---------===//

#include "test/cuda/Run.h"
#include "test/cuda/Suite.h"

using namespace tandem::gpucheck;

namespace {

struct Sizes {
  int64_t dim, heads, queryHeads, slots;
  bool causal;
  int64_t window;
  int rows;
};

/// One query against the positions it sees; \p position in slot p mod slots.
std::vector<double> attend(const Sizes &sizes, const float *query,
                           const std::vector<float> &cache, int64_t head,
                           int64_t position, int64_t end, double scale) {
  int64_t low = 0, high = sizes.causal ? position : end - 1;
  if (sizes.window) {
    low = std::max<int64_t>(0, position - sizes.window + 1);
    high = std::min(high, position + sizes.window - 1);
  }
  auto row = [&](int64_t half, int64_t p) {
    return cache.data() +
           ((half * sizes.heads + head) * sizes.slots + p % sizes.slots) *
               sizes.dim;
  };
  std::vector<double> scores;
  double largest = -INFINITY, sum = 0;
  for (int64_t p = low; p <= high; ++p) {
    double score = 0;
    for (int64_t k = 0; k < sizes.dim; ++k)
      score += double(query[k]) * row(0, p)[k];
    scores.push_back(score * scale);
    largest = std::max(largest, score * scale);
  }
  std::vector<double> result(sizes.dim);
  for (int64_t p = low; p <= high; ++p) {
    double weight = std::exp(scores[p - low] - largest);
    sum += weight;
    for (int64_t k = 0; k < sizes.dim; ++k)
      result[k] += weight * row(1, p)[k];
  }
  for (double &number : result)
    number /= sum;
  return result;
}

void addAttention(Suite &suite, const Sizes &sizes,
                  const std::vector<int> &starts) {
  float scale = 1 / std::sqrt(float(sizes.dim));
  char scaleText[32];
  std::snprintf(scaleText, sizeof(scaleText), "%.9e", scale);
  std::string kernel = suite.kernel(
      "k" + std::to_string(suite.kernels.size()), "attention",
      "{activations = bf16, " + number("dim", sizes.dim) + ", " +
          number("heads", sizes.heads) + ", " +
          number("query_heads", sizes.queryHeads) + ", " +
          number("slots", sizes.slots) + ", " + number("causal", sizes.causal) +
          ", " + number("window", sizes.window) + ", scale_by = " + scaleText +
          " : f32}",
      sizes.rows);
  suite.check([=](Run &run) {
    int64_t columns = sizes.queryHeads * sizes.dim;
    int64_t group = sizes.queryHeads / sizes.heads;
    std::vector<Bf16> queries = randomBf16(sizes.rows * columns, 1, 2);
    std::vector<float> numbers = toFloats(queries);
    Array<Bf16> queryMemory(run, queries);
    for (int start : starts)
      for (int live : {sizes.rows, std::max(1, sizes.rows - 3)}) {
        std::string title =
            "attention " + std::to_string(sizes.queryHeads) + "/" +
            std::to_string(sizes.heads) + "x" + std::to_string(sizes.dim) +
            (sizes.causal ? " causal" : "") +
            (sizes.window ? " w" + std::to_string(sizes.window) : "") + " " +
            std::to_string(live) + " rows at " + std::to_string(start);
        int64_t end = start + live;
        // Slots of positions that are not, or no longer, there are poisoned.
        std::vector<Bf16> cache =
            randomBf16(2 * sizes.heads * sizes.slots * sizes.dim, 2);
        int64_t oldest =
            sizes.window ? std::max<int64_t>(0, start - sizes.window + 1) : 0;
        std::vector<bool> present(sizes.slots);
        for (int64_t p = oldest; p < end; ++p)
          present[p % sizes.slots] = true;
        for (int64_t i = 0; i < int64_t(cache.size()); ++i)
          if (!present[i / sizes.dim % sizes.slots])
            cache[i] = 0xffff;
        std::vector<float> cacheNumbers = toFloats(cache);
        Array<Bf16> cacheMemory(run, cache);
        Array<int32_t> startMemory(run, std::vector<int32_t>{start});
        Array<int32_t> liveMemory(run, std::vector<int32_t>{live});
        Array<Bf16> output(run, size_t(sizes.rows * columns));
        run.launch(kernel, {&queryMemory, &cacheMemory, &startMemory, &output},
                   sizes.rows, &liveMemory);
        std::vector<Bf16> got = output.values();
        run.untouched(title, got, live * columns);
        std::vector<double> expected(live * columns);
        parallelFor(live * sizes.queryHeads, [&](int64_t item) {
          int64_t row = item / sizes.queryHeads, head = item % sizes.queryHeads;
          std::vector<double> one =
              attend(sizes, numbers.data() + item * sizes.dim, cacheNumbers,
                     head / group, start + row, end, scale);
          std::copy(one.begin(), one.end(),
                    expected.begin() + item * sizes.dim);
        });
        run.compare(title, expected, toFloats(got), 8e-3, run.time());

        // Every row alone: a causal row does not know how many follow it.
        // Launches of many rows sum in an order of their own.
        if (!sizes.causal || live != sizes.rows || sizes.rows > 16)
          continue;
        bool equal = true;
        for (int row : {0, live / 2, live - 1}) {
          Array<Bf16> one(
              run, std::vector<Bf16>(queries.begin() + row * columns,
                                     queries.begin() + (row + 1) * columns));
          Array<int32_t> at(run, std::vector<int32_t>{start + row});
          Array<Bf16> alone(run, size_t(columns));
          run.launch(kernel, {&one, &cacheMemory, &at, &alone}, 1);
          equal &= std::memcmp(alone.values().data(),
                               got.data() + row * columns, columns * 2) == 0;
        }
        run.report(title + ", rows alone",
                   equal ? "same bits" : "DIFFERENT BITS", equal);
        bool repeats = true;
        for (int i = 0; i < 20; ++i) {
          output.poison();
          run.launch(kernel,
                     {&queryMemory, &cacheMemory, &startMemory, &output},
                     sizes.rows, &liveMemory);
          repeats &= std::memcmp(output.values().data(), got.data(),
                                 got.size() * 2) == 0;
        }
        run.report(title + ", 20 times",
                   repeats ? "same bits" : "DIFFERENT BITS", repeats);
      }
  });
}

} // namespace

void tandem::gpucheck::addAttentionChecks(Suite &suite) {
  // Verify and prefill over plain caches.
  addAttention(suite, {32, 2, 4, 96, true, 0, 16}, {0, 5, 64, 80});
  addAttention(suite, {64, 2, 6, 4112, true, 0, 16}, {0, 100, 1000, 4000});
  addAttention(suite, {64, 2, 6, 4112, true, 0, 64}, {0, 64, 4000});
  addAttention(suite, {256, 4, 16, 8464, true, 0, 16}, {0, 128, 2176, 8320});
  addAttention(suite, {256, 4, 16, 8464, true, 0, 64}, {0, 2048});
  // Drafts: two-sided, full and windowed, rings.
  addAttention(suite, {32, 2, 4, 96, false, 0, 16}, {0, 5, 80});
  addAttention(suite, {32, 2, 4, 80, false, 64, 16}, {0, 5, 64, 200, 1003});
  addAttention(suite, {64, 2, 6, 272, false, 256, 16}, {3, 300, 5000});
  addAttention(suite, {64, 2, 6, 272, true, 256, 16}, {3, 300, 5000});
  addAttention(suite, {128, 8, 32, 1056, false, 1024, 16}, {0, 900, 5000});
  addAttention(suite, {128, 8, 32, 1056, true, 1024, 16}, {0, 5000});
  addAttention(suite, {32, 2, 4, 80, true, 1, 16}, {0, 77});
  // Dims of no kind, one head, many heads a head.
  addAttention(suite, {24, 1, 7, 64, true, 0, 9}, {0, 30});
  addAttention(suite, {20, 3, 3, 64, true, 0, 5}, {0, 30});
  addAttention(suite, {7, 1, 2, 64, false, 0, 5}, {0, 30});
}
