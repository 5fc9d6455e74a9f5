//===- DeltaKernelsTest.cpp - short_conv, gated_delta, delta_save ---------===//

#include "test/codegen/cpu/KernelHarness.h"

using namespace tandem::test;

namespace {

class DeltaKernels : public KernelTest {};

TANDEM_TEST_ALL_LEVELS(DeltaKernels);

/// One call of a text: its rows, and how many of them are kept by the next.
struct Call {
  int64_t rows, kept;
  bool commit;
};

// Prefill, then blocks of which all, some or one are kept.
constexpr Call text[] = {
    {5, 0, true},  {1, 1, false}, {8, 3, false}, {8, 8, false}, {2, 1, false},
    {8, 0, false}, {1, 1, false}, {3, 0, true},  {8, 5, false}, {4, 4, false}};
constexpr int64_t pending = 8;

//===----------------------------------------------------------------------===//
// short_conv
//===----------------------------------------------------------------------===//

TEST_P(DeltaKernels, shortConv) { // P2.02
  struct Shape {
    int64_t channels, taps;
  };
  const Shape shapes[] = {{64, 4}, {33, 4}, {5, 2}, {16, 1}, {40, 3}};
  auto symbolOf = [](const Shape &shape, bool commit) {
    return (commit ? "commit" : "conv") + std::to_string(shape.channels);
  };
  for (const Shape &shape : shapes)
    for (bool commit : {false, true})
      kernels.add(symbolOf(shape, commit), "short_conv",
                  {{"channels", std::to_string(shape.channels)},
                   {"commit", commit ? "1" : "0"},
                   {"pending", std::to_string(pending)},
                   {"taps", std::to_string(shape.taps)}});
  kernels.compile();

  for (const Shape &shape : shapes) {
    auto [channels, taps] = shape;
    int64_t tiles = (channels + 15) / 16;
    Array<float> weight(taps * channels);
    random.fill(weight);
    Array<float> cache((taps - 1 + pending) * channels, 0.0f);
    // Rows that are decided, one behind the other.
    std::vector<float> decided((taps - 1) * channels, 0.0f);
    int64_t kept = 0;
    for (const Call &call : text) {
      Array<float> x(call.rows * channels);
      random.fill(x);
      Array<float> y((call.rows + 1) * channels, poison);
      Array<int32_t> accepted(1, static_cast<int32_t>(kept));
      kernels.run(symbolOf(shape, call.commit),
                  {&x, &weight, &accepted, &y, &cache}, call.rows, tiles);
      std::vector<float> all = decided;
      all.insert(all.end(), &x[0], &x[0] + call.rows * channels);
      int64_t before = decided.size() / channels;
      for (int64_t row = 0; row < call.rows; ++row)
        for (int64_t channel = 0; channel < channels; ++channel) {
          double sum = 0;
          for (int64_t tap = 0; tap < taps; ++tap)
            sum += double(weight[tap * channels + channel]) *
                   all[(before + row + tap - (taps - 1)) * channels + channel];
          expectNear(sum, y[row * channels + channel], 4.0, "conv");
        }
      for (int64_t channel = 0; channel < channels; ++channel)
        EXPECT_EQ(y[call.rows * channels + channel], poison);
      int64_t durable = call.commit ? call.rows : call.kept;
      decided.insert(decided.end(), &x[0], &x[0] + durable * channels);
      kept = call.commit ? 0 : call.kept;
    }
    // A count that cannot be stays inside the cache.
    for (int32_t wrong : {-3, 1000}) {
      Array<float> x(channels, 1.0f), y(channels, poison);
      Array<int32_t> accepted(1, wrong);
      kernels.run(symbolOf(shape, false), {&x, &weight, &accepted, &y, &cache},
                  1, tiles);
    }
  }
}

//===----------------------------------------------------------------------===//
// gated_delta
//===----------------------------------------------------------------------===//

struct DeltaShape {
  int64_t heads, keyHeads, keyDim, valueDim;

  int64_t tiles() const { return (valueDim + 15) / 16; }
  int64_t stateSize() const { return heads * tiles() * keyDim * 16; }
  int64_t cacheSize() const {
    return stateSize() +
           pending * (keyHeads * keyDim + heads * valueDim + 2 * heads);
  }
  std::string symbol(const std::string &prefix) const {
    return prefix + std::to_string(heads) + "_" + std::to_string(keyDim) + "_" +
           std::to_string(valueDim);
  }
};

/// Rows of a call.
struct DeltaInputs {
  DeltaInputs(const DeltaShape &shape, int64_t rows)
      : rows(rows), query(rows * shape.keyHeads * shape.keyDim),
        key(rows * shape.keyHeads * shape.keyDim),
        value(rows * shape.heads * shape.valueDim), decay(rows * shape.heads),
        beta(rows * shape.heads) {}

  void fill(Random &random, const DeltaShape &shape) {
    float unit = 1.0f / std::sqrt(static_cast<float>(shape.keyDim));
    random.fill(query, unit);
    random.fill(key, unit);
    random.fill(value);
    for (size_t i = 0; i < decay.length(); ++i) {
      decay[i] = -std::fabs(random.number(0.5f));
      beta[i] = 0.1f + 0.8f * random.integer(0, 100) / 100;
    }
  }

  int64_t rows;
  Array<float> query, key, value, decay, beta;
};

class GatedDelta : public DeltaKernels {
protected:
  void add(const DeltaShape &shape) {
    std::map<std::string, std::string> parameters = {
        {"heads", std::to_string(shape.heads)},
        {"key_dim", std::to_string(shape.keyDim)},
        {"key_heads", std::to_string(shape.keyHeads)},
        {"pending", std::to_string(pending)},
        {"value_dim", std::to_string(shape.valueDim)}};
    kernels.add(shape.symbol("save"), "delta_save", parameters);
    parameters["scale_by"] = "0.125 : f32";
    parameters["commit"] = "0";
    kernels.add(shape.symbol("delta"), "gated_delta", parameters);
    parameters["commit"] = "1";
    kernels.add(shape.symbol("commit"), "gated_delta", parameters);
  }

  /// A call as a plan makes it: the step, then the rows to remember.
  void step(const DeltaShape &shape, DeltaInputs &inputs, int64_t accepted,
            bool commit, Array<float> &output, Array<float> &cache) {
    Array<int32_t> count(1, static_cast<int32_t>(accepted));
    kernels.run(shape.symbol(commit ? "commit" : "delta"),
                {&inputs.query, &inputs.key, &inputs.value, &inputs.decay,
                 &inputs.beta, &count, &output, &cache},
                inputs.rows, shape.heads * shape.tiles());
    if (!commit)
      kernels.run(
          shape.symbol("save"),
          {&inputs.key, &inputs.value, &inputs.decay, &inputs.beta, &cache},
          inputs.rows, inputs.rows);
  }
};

TANDEM_TEST_ALL_LEVELS(GatedDelta);

const DeltaShape deltaShapes[] = {{8, 4, 64, 64},
                                  {2, 2, 128, 128},
                                  {4, 1, 33, 20},
                                  {1, 1, 3, 16},
                                  {2, 1, 8, 5}};

/// One row on a head's state in doubles: S [key_dim][value_dim].
void stepReference(const DeltaShape &shape, std::vector<double> &state,
                   DeltaInputs &inputs, int64_t row, int64_t head,
                   std::vector<double> &output) {
  int64_t keyDim = shape.keyDim, valueDim = shape.valueDim;
  int64_t keyHead = head / (shape.heads / shape.keyHeads);
  const float *k = &inputs.key[(row * shape.keyHeads + keyHead) * keyDim];
  const float *q = &inputs.query[(row * shape.keyHeads + keyHead) * keyDim];
  const float *v = &inputs.value[(row * shape.heads + head) * valueDim];
  double decay = std::exp(double(inputs.decay[row * shape.heads + head]));
  double beta = inputs.beta[row * shape.heads + head];
  for (double &number : state)
    number *= decay;
  for (int64_t j = 0; j < valueDim; ++j) {
    double predicted = 0;
    for (int64_t i = 0; i < keyDim; ++i)
      predicted += state[i * valueDim + j] * k[i];
    double delta = beta * (v[j] - predicted);
    output[j] = 0;
    for (int64_t i = 0; i < keyDim; ++i) {
      state[i * valueDim + j] += k[i] * delta;
      output[j] += 0.125 * q[i] * state[i * valueDim + j];
    }
  }
}

TEST_P(GatedDelta, againstReference) { // P5.07
  for (const DeltaShape &shape : deltaShapes)
    add(shape);
  kernels.compile();
  for (const DeltaShape &shape : deltaShapes) {
    Array<float> cache(shape.cacheSize(), 0.0f);
    std::vector<std::vector<double>> states(
        shape.heads, std::vector<double>(shape.keyDim * shape.valueDim, 0.0));
    int64_t kept = 0, width = shape.heads * shape.valueDim;
    std::vector<double> expected(shape.valueDim);
    for (const Call &call : text) {
      DeltaInputs inputs(shape, call.rows);
      inputs.fill(random, shape);
      Array<float> output((call.rows + 1) * width, poison);
      step(shape, inputs, kept, call.commit, output, cache);
      for (int64_t head = 0; head < shape.heads; ++head) {
        std::vector<double> trial = states[head];
        for (int64_t row = 0; row < call.rows; ++row) {
          stepReference(shape, trial, inputs, row, head, expected);
          for (int64_t j = 0; j < shape.valueDim; ++j)
            expectNear(expected[j],
                       output[row * width + head * shape.valueDim + j], 0.5,
                       shape.symbol("delta"), 5e-6);
          if (row + 1 == (call.commit ? call.rows : call.kept))
            states[head] = trial;
        }
      }
      for (int64_t i = 0; i < width; ++i)
        EXPECT_EQ(output[call.rows * width + i], poison);
      kept = call.commit ? 0 : call.kept;
    }
  }
}

/// Blocks of which some rows are rejected leave the bits that plain decoding
/// of the accepted rows leaves.
TEST_P(GatedDelta, foldsLikeDecoding) { // P2.01
  for (const DeltaShape &shape : deltaShapes)
    add(shape);
  kernels.compile();
  for (const DeltaShape &shape : deltaShapes) {
    Array<float> inBlocks(shape.cacheSize(), 0.0f);
    Array<float> oneByOne(shape.cacheSize(), 0.0f);
    Array<float> committed(shape.cacheSize(), 0.0f);
    int64_t width = shape.heads * shape.valueDim, kept = 0;
    bool hasPending = false;
    for (const Call &call : text) {
      if (call.commit)
        continue;
      DeltaInputs inputs(shape, call.rows);
      inputs.fill(random, shape);
      Array<float> output(call.rows * width, poison);
      step(shape, inputs, kept, false, output, inBlocks);
      for (int64_t row = 0; row < call.kept; ++row) {
        DeltaInputs one(shape, 1);
        auto take = [&](Array<float> &from, Array<float> &to) {
          for (size_t i = 0; i < to.length(); ++i)
            to[i] = from[row * to.length() + i];
        };
        take(inputs.query, one.query);
        take(inputs.key, one.key);
        take(inputs.value, one.value);
        take(inputs.decay, one.decay);
        take(inputs.beta, one.beta);
        Array<float> single(width, poison), again(width, poison);
        step(shape, one, hasPending ? 1 : 0, false, single, oneByOne);
        hasPending = true;
        EXPECT_EQ(0,
                  std::memcmp(single.data(), &output[row * width], width * 4))
            << shape.symbol("delta") << " row " << row;
        step(shape, one, 0, true, again, committed);
        EXPECT_TRUE(single.save() == again.save());
      }
      kept = call.kept;
    }
    // Fold what is pending.
    DeltaInputs none(shape, 0);
    Array<float> output(0);
    step(shape, none, kept, false, output, inBlocks);
    step(shape, none, 1, true, output, oneByOne);
    for (int64_t i = 0; i < shape.stateSize(); ++i) {
      ASSERT_EQ(inBlocks[i], oneByOne[i]) << shape.symbol("delta") << " " << i;
      ASSERT_EQ(inBlocks[i], committed[i]) << shape.symbol("delta");
    }
  }
}

TEST_P(GatedDelta, saveStaysInside) {
  DeltaShape shape = {2, 1, 8, 5};
  add(shape);
  kernels.compile();
  // More rows than can be pending, and a count that cannot be.
  DeltaInputs inputs(shape, pending + 3);
  inputs.fill(random, shape);
  Array<float> cache(shape.cacheSize(), 0.0f);
  Array<float> output(inputs.rows * shape.heads * shape.valueDim, poison);
  for (int64_t accepted : {-1, 100})
    step(shape, inputs, accepted, false, output, cache);
  for (int64_t i = 0; i < pending * shape.keyDim; ++i)
    EXPECT_EQ(cache[shape.stateSize() + i], inputs.key[i]);
}

} // namespace
