//===- AttentionChecks.cpp - Attention over full caches and rings ---------===//

#include "test/cuda/Run.h"
#include "test/cuda/Suite.h"

#include <memory>

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

float getScale(const Sizes &sizes) { return 1 / std::sqrt(float(sizes.dim)); }

/// A kernel of \p sizes; \p more are further parameters.
std::string addKernel(Suite &suite, const Sizes &sizes,
                      const std::string &more = "") {
  char scale[32];
  std::snprintf(scale, sizeof(scale), "%.9e", getScale(sizes));
  return suite.kernel("k" + std::to_string(suite.kernels.size()), "attention",
                      "{activations = bf16, " + number("dim", sizes.dim) +
                          ", " + number("heads", sizes.heads) + ", " +
                          number("query_heads", sizes.queryHeads) + ", " +
                          number("slots", sizes.slots) + ", " +
                          number("causal", sizes.causal) + ", " +
                          number("window", sizes.window) +
                          ", scale_by = " + scale + " : f32" + more + "}",
                      sizes.rows);
}

void addAttention(Suite &suite, const Sizes &sizes,
                  const std::vector<int> &starts) {
  float scale = getScale(sizes);
  std::string kernel = addKernel(suite, sizes);
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
        for (int row = 0; row < live; ++row) {
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

/// With a gate against attention, sigmoid and mul in launches of their own.
void addGated(Suite &suite, const Sizes &sizes, int start) {
  int64_t columns = sizes.queryHeads * sizes.dim;
  std::string fused = addKernel(suite, sizes, ", " + number("gated", 1));
  std::string plain = addKernel(suite, sizes);
  std::string elementwise =
      "{activations = bf16, " + number("columns", columns) + "}";
  std::string name = "k" + std::to_string(suite.kernels.size());
  std::string sigmoid =
      suite.kernel(name + "_sigmoid", "sigmoid", elementwise, sizes.rows);
  std::string mul = suite.kernel(name + "_mul", "mul", elementwise, sizes.rows);
  suite.check([=](Run &run) {
    int64_t count = sizes.rows * columns;
    Array<Bf16> query(run, randomBf16(count, 1, 2));
    Array<Bf16> gate(run, randomBf16(count, 3, 2));
    Array<Bf16> cache(run,
                      randomBf16(2 * sizes.heads * sizes.slots * sizes.dim, 2));
    Array<int32_t> at(run, std::vector<int32_t>{start});
    Array<Bf16> open(run, size_t(count)), outputs(run, size_t(count));
    Array<Bf16> expected(run, size_t(count)), got(run, size_t(count));
    run.launch(plain, {&query, &cache, &at, &outputs}, sizes.rows);
    run.launch(sigmoid, {&gate, &open}, sizes.rows);
    run.launch(mul, {&outputs, &open, &expected}, sizes.rows);
    run.launch(fused, {&query, &cache, &at, &gate, &got}, sizes.rows);
    run.same("attention with a gate, " + std::to_string(sizes.rows) +
                 " rows at " + std::to_string(start),
             expected.values(), got.values());
  });
}

struct InputSizes {
  int64_t dim, heads, queryHeads, slots, dims;
  bool gated;
  int caches;
  int rows;
};

/// attention_inputs against split, rms_norm, rope and cache_append in launches
/// of their own.
void addInputs(Suite &suite, const InputSizes &sizes, int start) {
  int64_t dim = sizes.dim, columns = sizes.heads * dim;
  int64_t queryColumns = sizes.queryHeads * dim, positions = start + 64;
  std::string name = "k" + std::to_string(suite.kernels.size());
  auto add = [&](const std::string &what, const std::string &family,
                 const std::string &parameters) {
    return suite.kernel(name + what, family,
                        "{activations = bf16, " + parameters + "}", sizes.rows);
  };
  std::string numbers = "eps = 1.0e-6 : f32, offset = 1.0 : f32";
  auto addNorm = [&](const std::string &what, int64_t width) {
    return add(what, "rms_norm",
               number("columns", width) + ", " + number("dim", dim) + ", " +
                   numbers);
  };
  auto addRope = [&](const std::string &what, int64_t width) {
    return add(what, "rope",
               number("columns", width) + ", " + number("head_dim", dim) +
                   ", " + number("dims", sizes.dims) + ", " +
                   number("positions", positions));
  };
  std::string cacheNumbers = number("dim", dim) + ", " +
                             number("heads", sizes.heads) + ", " +
                             number("slots", sizes.slots);
  std::string fused = add(
      "", "attention_inputs",
      cacheNumbers + ", " + numbers + ", " + number("caches", sizes.caches) +
          ", " + number("query_heads", sizes.queryHeads) + ", " +
          number("gated", sizes.gated) + ", " + number("dims", sizes.dims) +
          ", " + number("positions", positions));
  std::string keyNorm = addNorm("_norm", columns);
  std::string keyRope = addRope("_rope", columns);
  std::string append = add("_append", "cache_append", cacheNumbers);
  std::string split, queryNorm, queryRope;
  if (sizes.queryHeads) {
    std::string width = std::to_string(queryColumns);
    split = add("_split", "split",
                number("groups", sizes.queryHeads) +
                    ", widths = array<i64: " + width + ", " + width + ">");
    queryNorm = addNorm("_query_norm", queryColumns);
    queryRope = addRope("_query_rope", queryColumns);
  }
  suite.check([=](Run &run) {
    size_t queries = sizes.rows * queryColumns, keys = sizes.rows * columns;
    std::string title = "attention_inputs " + std::to_string(sizes.queryHeads) +
                        "/" + std::to_string(sizes.heads) + "x" +
                        std::to_string(dim) + " at " + std::to_string(start);
    Array<float> table(run, randomFloat(positions * sizes.dims, 4));
    Array<int32_t> at(run, std::vector<int32_t>{start});
    for (int live : {sizes.rows, std::max(1, sizes.rows - 3), 0}) {
      std::string rows = title + ", " + std::to_string(live) + " rows";
      Array<int32_t> liveMemory(run, std::vector<int32_t>{live});
      std::vector<std::unique_ptr<Memory>> owned;
      std::vector<const Memory *> operands;
      auto own = [&](auto array) {
        owned.push_back(std::move(array));
        operands.push_back(owned.back().get());
        return operands.back();
      };
      auto random = [&](size_t count, int seed) {
        return std::make_unique<Array<Bf16>>(run, randomBf16(count, seed, 2));
      };
      auto randomNorm = [&](int seed) {
        return std::make_unique<Array<float>>(run, randomFloat(dim, seed));
      };
      Array<Bf16> expectedQuery(run, queries), gotQuery(run, queries);
      Array<Bf16> expectedGate(run, queries), gotGate(run, queries);
      Array<Bf16> normed(run, std::max(queries, keys));
      Array<Bf16> turned(run, keys), head(run, queries);
      if (sizes.queryHeads) {
        const Memory *query = own(random(queries * (sizes.gated ? 2 : 1), 1));
        const Memory *norm = own(randomNorm(2));
        if (sizes.gated)
          run.launch(split, {query, &head, &expectedGate}, sizes.rows,
                     &liveMemory);
        run.launch(queryNorm, {sizes.gated ? &head : query, norm, &normed},
                   sizes.rows, &liveMemory);
        run.launch(queryRope, {&normed, &at, &table, &expectedQuery},
                   sizes.rows, &liveMemory);
      }
      std::vector<const Memory *> keyRows, valueRows, norms;
      for (int i = 0; i < sizes.caches; ++i)
        keyRows.push_back(own(random(keys, 10 + i)));
      for (int i = 0; i < sizes.caches; ++i)
        valueRows.push_back(own(random(keys, 20 + i)));
      for (int i = 0; i < sizes.caches; ++i)
        norms.push_back(own(randomNorm(30 + i)));
      operands.push_back(&at);
      operands.push_back(&table);
      if (sizes.queryHeads)
        operands.push_back(&gotQuery);
      if (sizes.gated)
        operands.push_back(&gotGate);
      size_t cacheSize = 2 * sizes.slots * columns;
      std::vector<std::vector<Bf16>> expected;
      std::vector<Array<Bf16> *> got;
      for (int i = 0; i < sizes.caches; ++i) {
        Array<Bf16> cache(run, randomBf16(cacheSize, 40 + i));
        auto same = random(cacheSize, 40 + i);
        same->write(cache.values().data());
        got.push_back(same.get());
        own(std::move(same));
        run.launch(keyNorm, {keyRows[i], norms[i], &normed}, sizes.rows,
                   &liveMemory);
        run.launch(keyRope, {&normed, &at, &table, &turned}, sizes.rows,
                   &liveMemory);
        run.launch(append, {&turned, valueRows[i], &at, &cache}, sizes.rows,
                   &liveMemory);
        expected.push_back(cache.values());
      }
      run.launch(fused, operands, sizes.rows, &liveMemory);
      if (sizes.queryHeads)
        run.same(rows + ", query", expectedQuery.values(), gotQuery.values());
      if (sizes.gated)
        run.same(rows + ", gate", expectedGate.values(), gotGate.values());
      for (int i = 0; i < sizes.caches; ++i)
        run.same(rows + ", cache", expected[i], got[i]->values());
    }
  });
}

/// Attention that makes its inputs against attention_inputs and attention in
/// launches of their own: caches are equal, outputs are sums in another order,
/// rows alone are equal.
void addLayer(Suite &suite, const Sizes &sizes, int64_t dims, bool gated,
              const std::vector<int> &starts) {
  int64_t dim = sizes.dim, columns = sizes.heads * dim, positions = 9000;
  int64_t queryColumns = sizes.queryHeads * dim;
  std::string name = "k" + std::to_string(suite.kernels.size());
  std::string turns = "eps = 1.0e-6 : f32, offset = 1.0 : f32, " +
                      number("dims", dims) + ", " +
                      number("positions", positions);
  char scale[32];
  std::snprintf(scale, sizeof(scale), "%.9e", getScale(sizes));
  std::string shape = "{activations = bf16, " + number("dim", dim) + ", " +
                      number("heads", sizes.heads) + ", " +
                      number("query_heads", sizes.queryHeads) + ", " +
                      number("slots", sizes.slots) + ", " +
                      number("gated", gated);
  std::string sees = number("causal", sizes.causal) + ", " +
                     number("window", sizes.window) + ", scale_by = " + scale +
                     " : f32";
  auto addTile = [&](int rows) {
    return suite.kernel(name + "_r" + std::to_string(rows), "attention",
                        shape + ", " + sees + ", " + turns + ", " +
                            number("row_tile", rows) + "}",
                        rows, /*needsClusters=*/true);
  };
  std::string layer = addTile(16), few = addTile(8);
  std::string inputs =
      suite.kernel(name + "_inputs", "attention_inputs",
                   shape + ", " + turns + ", " + number("caches", 1) + "}", 16);
  std::string plain =
      suite.kernel(name + "_plain", "attention", shape + ", " + sees + "}", 16);
  suite.check([=](Run &run) {
    if (!run.has(layer))
      return;
    constexpr int rows = 16;
    std::vector<Bf16> queryNumbers =
        randomBf16(rows * queryColumns * (gated ? 2 : 1), 1, 2);
    std::vector<Bf16> keyNumbers = randomBf16(rows * columns, 2, 2);
    std::vector<Bf16> valueNumbers = randomBf16(rows * columns, 3, 2);
    Array<Bf16> query(run, queryNumbers), keys(run, keyNumbers);
    Array<Bf16> values(run, valueNumbers);
    Array<float> queryNorm(run, randomFloat(dim, 4));
    Array<float> keyNorm(run, randomFloat(dim, 5));
    Array<float> table(run, randomFloat(positions * dims, 6));
    for (int start : starts)
      for (int live : {16, 13, 1, 0}) {
        std::string title =
            "attention layer " + std::to_string(sizes.queryHeads) + "/" +
            std::to_string(sizes.heads) + "x" + std::to_string(dim) +
            (sizes.causal ? " causal " : " ") + std::to_string(live) +
            " rows at " + std::to_string(start);
        std::vector<Bf16> cacheNumbers =
            randomBf16(2 * sizes.heads * sizes.slots * dim, 7);
        // Slots of positions that are not, or no longer, there are poisoned.
        int64_t oldest =
            sizes.window ? std::max<int64_t>(0, start - sizes.window + 1) : 0;
        std::vector<bool> present(sizes.slots);
        for (int64_t p = oldest; p < start; ++p)
          present[p % sizes.slots] = true;
        for (int64_t i = 0; i < int64_t(cacheNumbers.size()); ++i)
          if (!present[i / dim % sizes.slots])
            cacheNumbers[i] = 0xffff;
        Array<Bf16> cache(run, cacheNumbers), expectedCache(run, cacheNumbers);
        Array<int32_t> at(run, std::vector<int32_t>{start});
        Array<int32_t> liveMemory(run, std::vector<int32_t>{live});
        Array<Bf16> rotated(run, size_t(rows * queryColumns));
        Array<Bf16> gate(run, size_t(rows * queryColumns));
        Array<Bf16> expected(run, size_t(rows * queryColumns));
        Array<Bf16> output(run, size_t(rows * queryColumns));
        std::vector<const Memory *> made = {&rotated},
                                    read = {&rotated, &expectedCache, &at};
        if (gated) {
          made.push_back(&gate);
          read.push_back(&gate);
        }
        std::vector<const Memory *> operands = {
            &query, &queryNorm, &keys, &values, &keyNorm, &at, &table};
        std::vector<const Memory *> apart = operands, together = operands;
        apart.insert(apart.end(), made.begin(), made.end());
        apart.push_back(&expectedCache);
        read.push_back(&expected);
        together.push_back(&output);
        together.push_back(&cache);
        run.launch(inputs, apart, rows, &liveMemory);
        run.launch(plain, read, rows, &liveMemory);
        run.launch(layer, together, rows, &liveMemory);
        std::vector<Bf16> got = output.values(), wanted = expected.values();
        run.untouched(title, got, live * queryColumns);
        run.same(title + ", cache", expectedCache.values(), cache.values());
        double microseconds = run.time();
        if (live == 0)
          continue;
        wanted.resize(live * queryColumns);
        std::vector<float> numbers = toFloats(wanted);
        std::vector<Bf16> some(got.begin(), got.begin() + live * queryColumns);
        run.compare(title, std::vector<double>(numbers.begin(), numbers.end()),
                    toFloats(some), 1.6e-2, microseconds);
        bool repeats = true;
        for (int i = 0; i < 20; ++i) {
          output.poison();
          run.launch(layer, together, rows, &liveMemory);
          repeats &= output.values() == got;
        }
        run.report(title + ", 20 times",
                   repeats ? "same bits" : "DIFFERENT BITS", repeats);
        if (!sizes.causal)
          continue;
        bool equal = true;
        for (int row = 0; row < live; ++row) {
          auto slice = [&](const std::vector<Bf16> &all) {
            size_t width = all.size() / rows;
            return std::vector<Bf16>(all.begin() + row * width,
                                     all.begin() + (row + 1) * width);
          };
          Array<Bf16> oneQuery(run, slice(queryNumbers));
          Array<Bf16> oneKey(run, slice(keyNumbers));
          Array<Bf16> oneValue(run, slice(valueNumbers));
          Array<int32_t> there(run, std::vector<int32_t>{start + row});
          for (const std::string &kernel : {few, layer}) {
            Array<Bf16> alone(run, size_t(queryColumns));
            run.launch(kernel,
                       {&oneQuery, &queryNorm, &oneKey, &oneValue, &keyNorm,
                        &there, &table, &alone, &cache},
                       1);
            equal &= std::memcmp(alone.values().data(),
                                 got.data() + row * queryColumns,
                                 queryColumns * 2) == 0;
          }
        }
        run.report(title + ", rows alone",
                   equal ? "same bits" : "DIFFERENT BITS", equal);
        run.same(title + ", cache behind rows alone", expectedCache.values(),
                 cache.values());
      }
  });
}

} // namespace

void tandem::gpucheck::addAttentionChecks(Suite &suite) {
  // Verify and prefill over plain caches.
  addAttention(suite, {32, 2, 4, 96, true, 0, 16}, {0, 5, 64, 80});
  addAttention(suite, {64, 2, 6, 4112, true, 0, 16}, {0, 100, 1000, 4000});
  addAttention(suite, {64, 2, 6, 4112, true, 0, 64}, {0, 64, 4000});
  addAttention(suite, {256, 4, 16, 8464, true, 0, 16},
               {0, 128, 1272, 2104, 2176, 8320});
  addAttention(suite, {256, 4, 16, 8464, true, 0, 64}, {0, 2048});
  // Rows whose chunks are longer than those of the rows in front of them.
  addAttention(suite, {256, 8, 16, 8464, true, 0, 16}, {1016, 2040, 5000});
  addAttention(suite, {256, 8, 16, 2080, true, 2048, 16}, {0, 1000, 5000});
  addAttention(suite, {256, 8, 16, 4112, false, 2048, 16}, {0, 5000});
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
  addGated(suite, {256, 4, 16, 8464, true, 0, 16}, 2104);
  addGated(suite, {256, 4, 16, 8464, true, 0, 64}, 100);
  addGated(suite, {24, 1, 7, 64, true, 0, 9}, 30);
  addGated(suite, {7, 1, 2, 64, false, 0, 5}, 30);
  // Both in one: spans that rows share and begin, several spans a chunk.
  addLayer(suite, {256, 4, 16, 8464, true, 0, 16}, 64, true,
           {0, 5, 60, 2104, 2176, 8320});
  addLayer(suite, {128, 2, 6, 4112, true, 0, 16}, 128, false, {0, 1000, 4000});
  addLayer(suite, {256, 8, 16, 1040, true, 1024, 16}, 64, true, {0, 900, 5000});
  addLayer(suite, {128, 8, 32, 1040, false, 1024, 16}, 128, false,
           {0, 3, 900, 1035, 5000});
  // What it reads: a gate, a ring that wraps, layers together, odd heads.
  addInputs(suite, {256, 4, 16, 4112, 64, true, 1, 16}, 2104);
  addInputs(suite, {256, 4, 16, 4112, 64, true, 1, 64}, 0);
  addInputs(suite, {128, 8, 32, 1040, 128, false, 1, 16}, 1035);
  addInputs(suite, {128, 8, 0, 1040, 128, false, 5, 16}, 1035);
  addInputs(suite, {128, 8, 0, 48, 128, false, 2, 64}, 7);
  addInputs(suite, {24, 1, 1, 64, 6, true, 1, 9}, 3);
  addInputs(suite, {200, 1, 7, 64, 200, true, 1, 9}, 3);
  addInputs(suite, {7, 2, 4, 64, 4, false, 1, 5}, 3);
}
