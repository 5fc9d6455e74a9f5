//===- AttentionKernelsTest.cpp - cache_append and attention --------------===//

#include "test/codegen/cpu/KernelHarness.h"

using namespace tandem::test;

namespace {

struct Shape {
  int64_t dim, heads, group, slots, window;
  bool causal;
  /// Position of row 0, and rows.
  int64_t start, rows;

  int64_t queryHeads() const { return heads * group; }
  std::string appendSymbol() const {
    return "append_" + std::to_string(dim) + "_" + std::to_string(heads) + "_" +
           std::to_string(slots);
  }
  std::string symbol() const {
    return "attention_" + std::to_string(dim) + "_" + std::to_string(heads) +
           "_" + std::to_string(group) + "_" + std::to_string(slots) + "_" +
           std::to_string(window) + (causal ? "_causal" : "");
  }
};

constexpr float notANumber = std::numeric_limits<float>::quiet_NaN();

class AttentionKernels : public KernelTest {
protected:
  void add(const Shape &shape) {
    kernels.add(shape.appendSymbol(), "cache_append",
                {{"dim", std::to_string(shape.dim)},
                 {"heads", std::to_string(shape.heads)},
                 {"slots", std::to_string(shape.slots)}});
    kernels.add(shape.symbol(), "attention",
                {{"causal", shape.causal ? "1" : "0"},
                 {"dim", std::to_string(shape.dim)},
                 {"heads", std::to_string(shape.heads)},
                 {"query_heads", std::to_string(shape.queryHeads())},
                 {"scale_by", "0.3 : f32"},
                 {"slots", std::to_string(shape.slots)},
                 {"window", std::to_string(shape.window)}});
  }

  /// Appends positions [first, first + rows) of the text.
  void append(const Shape &shape, Array<float> &keys, Array<float> &values,
              int64_t first, int64_t rows, Array<float> &cache) {
    int64_t columns = shape.heads * shape.dim;
    auto part = [&](Array<float> &all) {
      return std::vector<float>(&all[0] + first * columns,
                                &all[0] + (first + rows) * columns);
    };
    Array<float> k(part(keys)), v(part(values));
    Array<int32_t> start(1, static_cast<int32_t>(first));
    kernels.run(shape.appendSymbol(), {&k, &v, &start, &cache}, rows,
                shape.heads);
  }

  void check(const Shape &shape);
};

TANDEM_TEST_ALL_LEVELS(AttentionKernels);

void AttentionKernels::check(const Shape &shape) {
  int64_t columns = shape.heads * shape.dim;
  int64_t length = shape.start + shape.rows;
  Array<float> keys(length * columns), values(length * columns);
  random.fill(keys);
  random.fill(values);
  // What was never written must not matter, and neither must what a rejected
  // block left behind.
  Array<float> cache(2 * shape.slots * columns, notANumber);
  for (int64_t first = 0; first < shape.start; first += 7)
    append(shape, keys, values, first,
           std::min<int64_t>(7, shape.start - first), cache);
  append(shape, keys, values, shape.start, shape.rows, cache);

  int64_t width = shape.queryHeads() * shape.dim;
  Array<float> query(shape.rows * width);
  random.fill(query);
  Array<float> output((shape.rows + 1) * width, poison);
  Array<int32_t> start(1, static_cast<int32_t>(shape.start));
  kernels.run(shape.symbol(), {&query, &cache, &start, &output}, 0, 0);
  kernels.run(shape.symbol(), {&query, &cache, &start, &output}, shape.rows,
              shape.rows * shape.queryHeads());

  std::vector<double> weights(length), expected(shape.dim);
  for (int64_t row = 0; row < shape.rows; ++row)
    for (int64_t head = 0; head < shape.queryHeads(); ++head) {
      int64_t position = shape.start + row;
      const float *q = &query[row * width + head * shape.dim];
      auto sees = [&](int64_t key) {
        return (!shape.causal || key <= position) &&
               (shape.window == 0 || std::abs(position - key) < shape.window);
      };
      double largest = -1e300, sum = 0;
      for (int64_t key = 0; key < length; ++key) {
        const float *k = &keys[key * columns + head / shape.group * shape.dim];
        weights[key] = 0;
        for (int64_t d = 0; d < shape.dim; ++d)
          weights[key] += 0.3f * double(q[d]) * k[d];
        if (sees(key))
          largest = std::max(largest, weights[key]);
      }
      std::fill(expected.begin(), expected.end(), 0.0);
      for (int64_t key = 0; key < length; ++key) {
        if (!sees(key))
          continue;
        double weight = std::exp(weights[key] - largest);
        sum += weight;
        for (int64_t d = 0; d < shape.dim; ++d)
          expected[d] +=
              weight *
              values[key * columns + head / shape.group * shape.dim + d];
      }
      for (int64_t d = 0; d < shape.dim; ++d)
        expectNear(expected[d] / sum,
                   output[row * width + head * shape.dim + d], 3.0,
                   shape.symbol() + " row " + std::to_string(row) + " head " +
                       std::to_string(head),
                   5e-6);
    }
  for (int64_t i = shape.rows * width; i < (shape.rows + 1) * width; ++i)
    EXPECT_EQ(output[i], poison);

  // A causal row cannot tell whether others run with it.
  for (int64_t row = 0; shape.causal && row < shape.rows; ++row) {
    Array<float> alone(width, poison);
    Array<int32_t> there(1, static_cast<int32_t>(shape.start + row));
    kernels.call(
        shape.symbol(),
        {&query[row * width], cache.data(), there.data(), alone.data()}, 1, 0,
        shape.queryHeads());
    EXPECT_EQ(0, std::memcmp(alone.data(), &output[row * width], width * 4))
        << shape.symbol() << " row " << row;
  }
}

TEST_P(AttentionKernels, attention) { // P3.04
  const Shape shapes[] = {
      // dim heads group slots window causal start rows
      {64, 2, 3, 64, 0, true, 0, 1},
      {64, 2, 3, 64, 0, true, 0, 17},
      {64, 2, 3, 64, 0, true, 31, 16},
      {64, 2, 3, 64, 0, true, 63, 1},
      {64, 2, 3, 64, 0, false, 0, 1},
      {64, 2, 3, 64, 0, false, 20, 16},
      {64, 2, 3, 64, 0, false, 48, 16},
      // Dimensions that fill vectors, and that do not.
      {32, 1, 1, 32, 0, true, 10, 9},
      {33, 2, 2, 32, 0, true, 14, 5},
      {128, 1, 4, 48, 0, true, 33, 8},
      {256, 1, 2, 48, 0, true, 20, 6},
      {80, 1, 2, 48, 0, false, 20, 6},
      {7, 3, 1, 16, 0, true, 3, 4},
      {129, 1, 1, 32, 0, false, 4, 4},
      // Windows on a plain cache.
      {32, 2, 2, 64, 5, true, 30, 16},
      {32, 2, 2, 64, 5, false, 30, 16},
      {32, 2, 2, 64, 1, false, 30, 4},
      {32, 2, 2, 64, 100, false, 30, 16},
      // Rings: as few slots as a window allows, and more.
      {32, 2, 2, 32, 17, true, 100, 16},
      {32, 2, 2, 32, 17, false, 100, 16},
      {32, 2, 2, 32, 17, false, 117, 16},
      {32, 2, 2, 32, 17, true, 95, 1},
      {64, 2, 3, 48, 33, true, 200, 16},
      {64, 1, 2, 48, 16, false, 77, 5},
      {16, 1, 1, 16, 16, true, 55, 1},
      {33, 1, 3, 48, 20, true, 51, 12},
  };
  for (const Shape &shape : shapes)
    add(shape);
  kernels.compile();
  for (const Shape &shape : shapes)
    check(shape);
}

/// What rejected rows left behind the live ones is not seen.
TEST_P(AttentionKernels, rejectedRows) {
  const Shape shapes[] = {{64, 2, 3, 64, 0, false, 20, 5},
                          {32, 1, 2, 48, 17, false, 100, 5}};
  for (const Shape &shape : shapes)
    add(shape);
  kernels.compile();
  for (const Shape &shape : shapes) {
    int64_t columns = shape.heads * shape.dim;
    int64_t width = shape.queryHeads() * shape.dim;
    int64_t length = shape.start + shape.rows;
    constexpr int64_t rejected = 11;
    Array<float> keys((length + rejected) * columns, notANumber);
    Array<float> values((length + rejected) * columns, notANumber);
    for (int64_t i = 0; i < length * columns; ++i) {
      keys[i] = random.number();
      values[i] = random.number();
    }
    Array<float> query(shape.rows * width);
    random.fill(query);
    Array<int32_t> start(1, static_cast<int32_t>(shape.start));
    auto attend = [&](int64_t written) {
      Array<float> cache(2 * shape.slots * columns, notANumber);
      for (int64_t first = 0; first < length + written; ++first)
        append(shape, keys, values, first, 1, cache);
      Array<float> output(shape.rows * width, poison);
      kernels.run(shape.symbol(), {&query, &cache, &start, &output}, shape.rows,
                  shape.rows * shape.queryHeads());
      return output.save();
    };
    std::vector<std::byte> clean = attend(0);
    EXPECT_TRUE(attend(rejected) == clean) << shape.symbol();
    for (size_t i = 0; i < clean.size(); i += 4) {
      float value;
      std::memcpy(&value, &clean[i], 4);
      ASSERT_FALSE(std::isnan(value)) << shape.symbol();
    }
  }
}

/// More rows than slots: the last rows win.
TEST_P(AttentionKernels, appendWrapsAround) {
  Shape shape = {20, 2, 1, 16, 4, true, 0, 1};
  add(shape);
  kernels.compile();
  constexpr int64_t rows = 21, first = 5;
  int64_t columns = shape.heads * shape.dim;
  Array<float> keys((first + rows) * columns), values((first + rows) * columns);
  random.fill(keys);
  random.fill(values);
  Array<float> cache(2 * shape.slots * columns, notANumber);
  append(shape, keys, values, first, rows, cache);
  for (int64_t position = first + rows - 16; position < first + rows;
       ++position)
    for (int64_t head = 0; head < shape.heads; ++head)
      for (int64_t d = 0; d < shape.dim; ++d) {
        int64_t slot = position % 16;
        int64_t from = position * columns + head * shape.dim + d;
        EXPECT_EQ(cache[(head * shape.dim + d) * 16 + slot], keys[from]);
        EXPECT_EQ(cache[(shape.heads * 16 + head * 16 + slot) * shape.dim + d],
                  values[from]);
      }
}

/// Whatever the position, a kernel stays inside its memory.
TEST_P(AttentionKernels, wrongPositions) {
  Shape shape = {32, 1, 2, 32, 0, true, 0, 4};
  Shape ring = {32, 1, 2, 32, 40, false, 0, 4};
  add(shape);
  add(ring);
  kernels.compile();
  for (const Shape &each : {shape, ring})
    for (int32_t position : {-100, 31, 1000, 1 << 30}) {
      Array<float> cache(2 * 32 * 32, 0.5f), rows(4 * 64, 0.5f),
          output(4 * 64, poison);
      Array<int32_t> start(1, position);
      kernels.run(each.appendSymbol(), {&rows, &rows, &start, &cache}, 4, 1);
      kernels.run(each.symbol(), {&rows, &cache, &start, &output}, 4, 8);
    }
}

} // namespace
