//===- DeltaChecks.cpp - The gated delta net ------------------------------===//

#include "test/cuda/Run.h"
#include "test/cuda/Suite.h"

#include <memory>

using namespace tandem::gpucheck;

namespace {

std::string nextName(const Suite &suite) {
  return "k" + std::to_string(suite.kernels.size());
}

//===----------------------------------------------------------------------===//
// short_conv
//===----------------------------------------------------------------------===//

void addShortConv(Suite &suite, int64_t channels, int64_t taps) {
  constexpr int pending = 16;
  auto parameters = [&](int commit) {
    return "{activations = bf16, " + number("channels", channels) + ", " +
           number("taps", taps) + ", " + number("pending", pending) + ", " +
           number("commit", commit) + "}";
  };
  std::string verify =
      suite.kernel(nextName(suite), "short_conv", parameters(0));
  std::string commit =
      suite.kernel(nextName(suite), "short_conv", parameters(1));
  suite.check([=](Run &run) {
    std::vector<float> weight = randomFloat(taps * channels, 1);
    Array<float> weightMemory(run, weight);
    // All rows ever seen by the convolution, oldest first.
    std::vector<std::vector<Bf16>> history(taps - 1,
                                           std::vector<Bf16>(channels));
    Array<Bf16> cache(run, std::vector<Bf16>((taps - 1 + pending) * channels));
    // Prefill, then rounds of which some rows are accepted.
    struct Round {
      int rows, live, accepted;
      bool commits;
    };
    const Round rounds[] = {{40, 37, 0, true},  {16, 16, 0, false},
                            {16, 16, 5, false}, {16, 9, 16, false},
                            {1, 1, 9, false},   {1, 1, 1, false},
                            {24, 2, 1, true},   {16, 16, 0, false}};
    std::vector<std::vector<Bf16>> rowsBefore;
    uint64_t seed = 100;
    for (const Round &round : rounds) {
      std::vector<Bf16> x = randomBf16(round.rows * channels, seed++);
      for (int i = 0; i < round.accepted; ++i)
        history.push_back(rowsBefore[i]);
      rowsBefore.clear();
      for (int row = 0; row < round.live; ++row)
        rowsBefore.emplace_back(x.begin() + row * channels,
                                x.begin() + (row + 1) * channels);
      Array<Bf16> input(run, x), output(run, size_t(round.rows * channels));
      Array<int32_t> accepted(run, std::vector<int32_t>{round.accepted});
      Array<int32_t> live(run, std::vector<int32_t>{round.live});
      run.launch(round.commits ? commit : verify,
                 {&input, &weightMemory, &accepted, &output, &cache},
                 round.rows, &live);
      std::vector<std::vector<Bf16>> all = history;
      all.insert(all.end(), rowsBefore.begin(), rowsBefore.end());
      std::vector<double> expected;
      for (int row = 0; row < round.live; ++row)
        for (int64_t channel = 0; channel < channels; ++channel) {
          double sum = 0;
          for (int64_t tap = 0; tap < taps; ++tap)
            sum +=
                double(weight[tap * channels + channel]) *
                fromBf16(all[history.size() + row + tap - (taps - 1)][channel]);
          expected.push_back(sum);
        }
      std::string title = "short_conv " + std::to_string(channels) + " " +
                          std::to_string(round.live) + " of " +
                          std::to_string(round.rows) + " rows, " +
                          std::to_string(round.accepted) + " kept" +
                          (round.commits ? ", commit" : "");
      std::vector<Bf16> got = output.values();
      run.untouched(title, got, round.live * channels);
      run.compare(title, expected, toFloats(got), 4e-3);
      if (round.commits) {
        history = all;
        rowsBefore.clear();
      }
    }
  });
}

//===----------------------------------------------------------------------===//
// delta_gate
//===----------------------------------------------------------------------===//

void addDeltaGate(Suite &suite, int64_t columns, bool isF32) {
  std::string kernel =
      suite.kernel(nextName(suite), "delta_gate",
                   "{activations = " + std::string(isF32 ? "f32" : "bf16") +
                       ", " + number("columns", columns) + "}");
  suite.check([=](Run &run) {
    constexpr int rows = 33;
    std::vector<float> x = randomFloat(rows * columns, 1, 15);
    std::vector<Bf16> halves;
    for (float &value : x) {
      halves.push_back(toBf16(value));
      if (!isF32)
        value = roundBf16(value);
    }
    std::vector<float> rate = randomFloat(columns, 2),
                       bias = randomFloat(columns, 3);
    std::unique_ptr<Memory> input;
    if (isF32)
      input = std::make_unique<Array<float>>(run, x);
    else
      input = std::make_unique<Array<Bf16>>(run, halves);
    Array<float> rateMemory(run, rate), biasMemory(run, bias),
        output(run, size_t(rows * columns));
    Array<int32_t> live(run, std::vector<int32_t>{31});
    run.launch(kernel, {input.get(), &rateMemory, &biasMemory, &output}, rows,
               &live);
    // Small results matter as much as large ones: compared as logarithms.
    std::vector<double> expected;
    std::vector<float> got = output.values(), logs;
    run.untouched("delta_gate", got, 31 * columns);
    for (int64_t i = 0; i < 31 * columns; ++i) {
      float step = x[i] + bias[i % columns];
      double softplus =
          step > 20 ? double(step) : std::log1p(std::exp(double(step)));
      expected.push_back(
          std::log(std::exp(double(rate[i % columns])) * softplus));
      logs.push_back(std::log(-got[i]));
    }
    run.compare("delta_gate " + std::to_string(columns) +
                    (isF32 ? " f32" : " bf16"),
                expected, logs, 1e-5);
  });
}

//===----------------------------------------------------------------------===//
// gated_delta, delta_save
//===----------------------------------------------------------------------===//

struct Sizes {
  int64_t heads, keyHeads, keyDim, valueDim;
};

/// Inputs of a call.
struct Rows {
  int count;
  std::vector<Bf16> query, key, value;
  std::vector<float> decay, beta;

  Rows(const Sizes &sizes, int count, uint64_t seed) : count(count) {
    float unit = 1 / std::sqrt(float(sizes.keyDim));
    query = randomBf16(count * sizes.keyHeads * sizes.keyDim, seed, unit);
    key = randomBf16(count * sizes.keyHeads * sizes.keyDim, seed + 1, unit);
    value = randomBf16(count * sizes.heads * sizes.valueDim, seed + 2);
    decay = randomFloat(count * sizes.heads, seed + 3);
    beta = randomFloat(count * sizes.heads, seed + 4);
    for (float &x : decay)
      x = -std::fabs(x) * 0.3f;
    // Some decay by nothing, and some forget everything.
    for (size_t i = 0; i < decay.size(); i += 7)
      decay[i] = i % 3 == 0 ? 0 : -120.0f;
    for (float &x : beta)
      x = 1 / (1 + std::exp(-x));
  }
};

/// The rule in f64.
struct Rule {
  Sizes sizes;
  double scale;
  std::vector<double> state;

  Rule(const Sizes &sizes, double scale)
      : sizes(sizes), scale(scale),
        state(sizes.heads * sizes.keyDim * sizes.valueDim) {}

  void step(const Rows &rows, int row, double *output) {
    parallelFor(sizes.heads, [&](int64_t head) {
      int64_t keyHead = head / (sizes.heads / sizes.keyHeads);
      double *s = state.data() + head * sizes.keyDim * sizes.valueDim;
      const Bf16 *k =
          rows.key.data() + (row * sizes.keyHeads + keyHead) * sizes.keyDim;
      const Bf16 *q =
          rows.query.data() + (row * sizes.keyHeads + keyHead) * sizes.keyDim;
      const Bf16 *v =
          rows.value.data() + (row * sizes.heads + head) * sizes.valueDim;
      double decay = std::exp(double(rows.decay[row * sizes.heads + head]));
      double beta = rows.beta[row * sizes.heads + head];
      for (int64_t j = 0; j < sizes.valueDim; ++j) {
        double predicted = 0, result = 0;
        for (int64_t i = 0; i < sizes.keyDim; ++i) {
          s[j * sizes.keyDim + i] *= decay;
          predicted += s[j * sizes.keyDim + i] * fromBf16(k[i]);
        }
        double delta = beta * (fromBf16(v[j]) - predicted);
        for (int64_t i = 0; i < sizes.keyDim; ++i) {
          s[j * sizes.keyDim + i] += fromBf16(k[i]) * delta;
          result += s[j * sizes.keyDim + i] * fromBf16(q[i]) * scale;
        }
        if (output)
          output[head * sizes.valueDim + j] = result;
      }
    });
  }
};

void addGatedDelta(Suite &suite, const Sizes &sizes) {
  constexpr int pending = 16;
  std::string shape = number("heads", sizes.heads) + ", " +
                      number("key_heads", sizes.keyHeads) + ", " +
                      number("key_dim", sizes.keyDim) + ", " +
                      number("value_dim", sizes.valueDim) + ", " +
                      number("pending", pending);
  auto parameters = [&](int commit, const std::string &more = "") {
    return "{activations = bf16, " + shape + ", " + number("commit", commit) +
           ", scale_by = 1.250000e-01 : f32" + more + "}";
  };
  std::string verify =
      suite.kernel(nextName(suite), "gated_delta", parameters(0));
  // More rows would be in chunks, which sum in another order than plain
  // decoding.
  constexpr int committedRows = 32;
  std::string commit = suite.kernel(nextName(suite), "gated_delta",
                                    parameters(1), committedRows);
  std::string save = suite.kernel(nextName(suite), "delta_save",
                                  "{activations = bf16, " + shape + "}");
  // Longer keys are saved by a launch of their own.
  bool canSave = sizes.keyDim <= 192;
  std::string saves = canSave ? ", " + number("saves", 1) : "";
  std::string saving =
      suite.kernel(nextName(suite), "gated_delta", parameters(0, saves));
  std::string norming =
      suite.kernel(nextName(suite), "gated_delta",
                   parameters(0, canSave ? saves + ", " + number("normed", 1) +
                                               ", norm_eps = 1.0e-6 : f32"
                                         : ""));
  std::string norm =
      suite.kernel(nextName(suite), "gated_rms_norm",
                   "{activations = bf16, " +
                       number("columns", sizes.heads * sizes.valueDim) + ", " +
                       number("dim", sizes.valueDim) + ", eps = 1.0e-6 : f32}");
  // Launches of so many rows are in chunks, where the dims allow it.
  struct Prefill {
    int rows;
    std::vector<int> live;
    std::string kernel;
  };
  std::vector<Prefill> prefills = {{200, {150, 1, 64, 200, 33}, ""},
                                   {64, {64, 33, 1}, ""}};
  for (Prefill &prefill : prefills)
    prefill.kernel = suite.kernel(nextName(suite), "gated_delta", parameters(1),
                                  prefill.rows);
  suite.check([=](Run &run) {
    std::string size = "gated_delta " + std::to_string(sizes.heads) + "/" +
                       std::to_string(sizes.keyHeads) + " " +
                       std::to_string(sizes.keyDim) + "x" +
                       std::to_string(sizes.valueDim);
    int64_t valueColumns = sizes.heads * sizes.valueDim;
    auto fill = [](int64_t bytes) { return (bytes + 3) / 4 * 4; };
    int64_t bytes = sizes.heads * sizes.keyDim * sizes.valueDim * 4 +
                    fill(pending * sizes.keyHeads * sizes.keyDim * 2) +
                    fill(pending * valueColumns * 2) +
                    2 * pending * sizes.heads * 4;
    Rule rule(sizes, 0.125);
    Array<uint8_t> cache(run, std::vector<uint8_t>(bytes));
    // The same text in plain decoding, a row at a time.
    Array<uint8_t> plainCache(run, std::vector<uint8_t>(bytes));
    int plainAccepted = 0;
    bool fusedIsSame = true;

    auto call = [&](const std::string &kernel, const Rows &rows, int first,
                    int count, int live, int accepted, Array<uint8_t> &into,
                    bool saves) {
      auto cut = [&](const auto &values, int64_t columns) {
        return std::remove_cvref_t<decltype(values)>(
            values.begin() + first * columns,
            values.begin() + (first + count) * columns);
      };
      Array<Bf16> query(run, cut(rows.query, sizes.keyHeads * sizes.keyDim));
      Array<Bf16> key(run, cut(rows.key, sizes.keyHeads * sizes.keyDim));
      Array<Bf16> value(run, cut(rows.value, valueColumns));
      Array<float> decay(run, cut(rows.decay, sizes.heads));
      Array<float> beta(run, cut(rows.beta, sizes.heads));
      Array<int32_t> acceptedMemory(run, std::vector<int32_t>{accepted});
      Array<int32_t> liveMemory(run, std::vector<int32_t>{live});
      Array<Bf16> output(run, size_t(count * valueColumns));
      Array<uint8_t> savedCache(run, into.values());
      Array<uint8_t> normedCache(run, into.values());
      run.launch(kernel,
                 {&query, &key, &value, &decay, &beta, &acceptedMemory, &output,
                  &into},
                 count, &liveMemory);
      std::vector<Bf16> got = output.values();
      run.untouched(size, got, live * valueColumns);
      if (saves)
        run.launch(save, {&key, &value, &decay, &beta, &into}, count,
                   &liveMemory);
      if (saves && canSave) {
        // The same in one launch, without the norm behind it and with it.
        Array<Bf16> same(run, got.size()), gate(run, randomBf16(got.size(), 7));
        Array<Bf16> expected(run, got.size()), normed(run, got.size());
        Array<float> weight(run, randomFloat(sizes.valueDim, 8));
        run.launch(saving,
                   {&query, &key, &value, &decay, &beta, &acceptedMemory, &same,
                    &savedCache},
                   count, &liveMemory);
        run.launch(norm, {&output, &gate, &weight, &expected}, count,
                   &liveMemory);
        run.launch(norming,
                   {&query, &key, &value, &decay, &beta, &acceptedMemory, &gate,
                    &weight, &normed, &normedCache},
                   count, &liveMemory);
        std::vector<uint8_t> left = into.values();
        fusedIsSame &=
            same.values() == got && normed.values() == expected.values() &&
            savedCache.values() == left && normedCache.values() == left;
      }
      got.resize(live * valueColumns);
      return got;
    };

    struct Round {
      int rows, live, accepted;
      bool commits;
    };
    const Round rounds[] = {{committedRows, 29, 0, true},
                            {16, 16, 0, false},
                            {16, 16, 5, false},
                            {16, 16, 16, false},
                            {16, 9, 1, false},
                            {16, 16, 9, false},
                            {1, 1, 3, false},
                            {16, 16, 1, false}};
    Rows before(sizes, 1, 1);
    uint64_t seed = 10;
    for (size_t index = 0; index < std::size(rounds); ++index) {
      const Round &round = rounds[index];
      Rows rows(sizes, round.rows, seed);
      seed += 5;
      for (int row = 0; row < round.accepted; ++row)
        rule.step(before, row, nullptr);
      Rule kept = rule;
      std::vector<double> expected(round.live * valueColumns);
      for (int row = 0; row < round.live; ++row)
        rule.step(rows, row, expected.data() + row * valueColumns);
      std::vector<Bf16> got =
          call(round.commits ? commit : verify, rows, 0, round.rows, round.live,
               round.accepted, cache, !round.commits);
      std::string title = size + " " + std::to_string(round.live) + " of " +
                          std::to_string(round.rows) + " rows, " +
                          std::to_string(round.accepted) + " kept" +
                          (round.commits ? ", commit" : "");
      run.compare(title, expected, toFloats(got), 4e-3);

      // Plain decoding: rows that a later round accepts, one by one.
      int taken = round.commits                   ? round.live
                  : index + 1 < std::size(rounds) ? rounds[index + 1].accepted
                                                  : round.live;
      bool equal = true;
      for (int row = 0; row < taken; ++row) {
        std::vector<Bf16> one =
            call(verify, rows, row, 1, 1, plainAccepted, plainCache, true);
        plainAccepted = 1;
        equal &= std::memcmp(one.data(), got.data() + row * valueColumns,
                             valueColumns * 2) == 0;
      }
      run.report(title + " as plain", equal ? "same bits" : "DIFFERENT BITS",
                 equal);
      run.report(title + ", saved and normed",
                 fusedIsSame ? "same bits" : "DIFFERENT BITS", fusedIsSame);
      if (!round.commits)
        rule = kept;
      before = rows;
    }
    // A prefill that goes on from pending rows; and what a launch of fewer rows
    // makes of its state.
    int accepted = 9;
    for (int row = 0; row < accepted; ++row)
      rule.step(before, row, nullptr);
    for (const Prefill &prefill : prefills)
      for (int live : prefill.live) {
        Rows rows(sizes, prefill.rows, seed);
        seed += 5;
        std::vector<double> expected(live * valueColumns);
        for (int row = 0; row < live; ++row)
          rule.step(rows, row, expected.data() + row * valueColumns);
        std::vector<Bf16> got = call(prefill.kernel, rows, 0, prefill.rows,
                                     live, accepted, cache, false);
        std::string title = size + " prefill, " + std::to_string(live) +
                            " of " + std::to_string(prefill.rows) + " rows";
        run.compare(title + ", " + std::to_string(accepted) + " kept", expected,
                    toFloats(got), 4e-3);
        std::vector<float> state(rule.state.size());
        std::vector<uint8_t> bytes = cache.values();
        std::memcpy(state.data(), bytes.data(), state.size() * sizeof(float));
        run.compare(title + ", state", rule.state, state, 2e-4);
        accepted = 0;
      }
  });
}

//===----------------------------------------------------------------------===//
// gated_delta that makes what it reads
//===----------------------------------------------------------------------===//

struct LayerSizes {
  int64_t heads, keyHeads, keyDim, valueDim, taps, pending;
};

/// The same bits as delta_inputs and gated_delta, round after round.
void addDeltaLayer(Suite &suite, const LayerSizes &sizes) {
  int64_t keyColumns = sizes.keyHeads * sizes.keyDim;
  int64_t valueColumns = sizes.heads * sizes.valueDim;
  int64_t channels = 2 * keyColumns + valueColumns;
  std::string heads = number("heads", sizes.heads) + ", " +
                      number("key_heads", sizes.keyHeads) + ", " +
                      number("key_dim", sizes.keyDim) + ", " +
                      number("pending", sizes.pending);
  std::string conv = number("channels", channels) + ", " +
                     number("taps", sizes.taps) + ", eps = 1.0e-6 : f32";
  std::string rule = number("value_dim", sizes.valueDim) +
                     ", norm_eps = 1.0e-5 : f32, scale_by = 1.25e-01 : f32";
  auto add = [&](const std::string &family, const std::string &parameters) {
    return suite.kernel(nextName(suite), family,
                        "{activations = bf16, " + heads + ", " + parameters +
                            "}");
  };
  std::string saved = rule + ", " + number("commit", 0) + ", " +
                      number("saves", 1) + ", " + number("normed", 1);
  std::string layer = add("gated_delta", conv + ", " + saved);
  std::string inputs = add("delta_inputs", conv + ", " + number("commit", 0));
  std::string delta = add("gated_delta", saved);
  suite.check([=](Run &run) {
    Array<float> weight(run, randomFloat(sizes.taps * channels, 61, 0.5f)),
        logRate(run, randomFloat(sizes.heads, 62)),
        bias(run, randomFloat(sizes.heads, 63)),
        norm(run, randomFloat(sizes.valueDim, 64));
    std::vector<Bf16> start((sizes.taps - 1 + sizes.pending) * channels);
    Array<Bf16> conv(run, start), separateConv(run, start);
    auto fill = [](int64_t bytes) { return (bytes + 3) / 4 * 4; };
    std::vector<uint8_t> empty(sizes.heads * sizes.keyDim * sizes.valueDim * 4 +
                               fill(sizes.pending * keyColumns * 2) +
                               fill(sizes.pending * valueColumns * 2) +
                               2 * sizes.pending * sizes.heads * 4);
    Array<uint8_t> cache(run, empty), separateCache(run, empty);
    auto most = int(sizes.pending);
    struct Round {
      int rows, live, accepted;
    };
    const Round rounds[] = {{most, most, 0},     {most, most, 2},
                            {most, most, most},  {most, most / 2, 1},
                            {1, 1, most / 2},    {1, 1, 1},
                            {most, 0, 1},        {most, most - 1, 0},
                            {most, 3, most - 1}, {most, most, 3}};
    uint64_t seed = 70;
    for (const Round &round : rounds) {
      auto rows = size_t(round.rows);
      Array<Bf16> x(run, randomBf16(round.rows * channels, seed++)),
          gate(run, randomBf16(round.rows * valueColumns, seed++));
      Array<float> decayInput(run,
                              randomFloat(round.rows * sizes.heads, seed++, 5)),
          betaInput(run, randomFloat(round.rows * sizes.heads, seed++, 2));
      Array<int32_t> accepted(run, std::vector<int32_t>{round.accepted}),
          live(run, std::vector<int32_t>{round.live});
      Array<Bf16> output(run, rows * valueColumns),
          separate(run, rows * valueColumns), query(run, rows * keyColumns),
          key(run, rows * keyColumns), value(run, rows * valueColumns);
      Array<float> decay(run, rows * sizes.heads),
          beta(run, rows * sizes.heads);
      run.launch(layer,
                 {&x, &decayInput, &betaInput, &weight, &logRate, &bias,
                  &accepted, &gate, &norm, &output, &conv, &cache},
                 round.rows, &live);
      run.launch(inputs,
                 {&x, &decayInput, &betaInput, &weight, &logRate, &bias,
                  &accepted, &query, &key, &value, &decay, &beta,
                  &separateConv},
                 round.rows, &live);
      run.launch(delta,
                 {&query, &key, &value, &decay, &beta, &accepted, &gate, &norm,
                  &separate, &separateCache},
                 round.rows, &live);
      std::string title =
          "gated_delta of inputs " + std::to_string(sizes.heads) + "/" +
          std::to_string(sizes.keyHeads) + " " + std::to_string(sizes.keyDim) +
          "x" + std::to_string(sizes.valueDim) + ", " +
          std::to_string(round.live) + " of " + std::to_string(round.rows) +
          ", " + std::to_string(round.accepted) + " kept";
      std::vector<Bf16> got = output.values();
      run.untouched(title, got, round.live * valueColumns);
      run.same(title, got, separate.values());
      run.same(title + ": convolution", conv.values(), separateConv.values());
      run.same(title + ": cache", cache.values(), separateCache.values());
    }
  });
}

} // namespace

void tandem::gpucheck::addDeltaChecks(Suite &suite) {
  addShortConv(suite, 256, 4);
  addShortConv(suite, 8192, 4);
  addShortConv(suite, 33, 2);
  addShortConv(suite, 50, 1);
  addDeltaGate(suite, 8, true);
  addDeltaGate(suite, 32, false);
  addGatedDelta(suite, {8, 4, 64, 64});
  addGatedDelta(suite, {32, 16, 128, 128});
  addGatedDelta(suite, {4, 4, 32, 32});
  addGatedDelta(suite, {4, 2, 16, 48});
  addGatedDelta(suite, {3, 1, 20, 10});
  addGatedDelta(suite, {2, 2, 256, 64});
  addDeltaLayer(suite, {8, 4, 64, 64, 4, 16});
  addDeltaLayer(suite, {32, 16, 128, 128, 4, 16});
  addDeltaLayer(suite, {4, 2, 16, 16, 4, 16});
  addDeltaLayer(suite, {6, 2, 24, 40, 2, 7});
  addDeltaLayer(suite, {16, 1, 8, 8, 9, 5});
}
