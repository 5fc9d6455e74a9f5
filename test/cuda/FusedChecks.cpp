//===- FusedChecks.cpp - Fused kernels ------------------------------------===//
//
// Against loops, and against the kernels that they stand for: a fusion does not
// change a bit.
//
//===----------------------------------------------------------------------===//

#include "test/cuda/Run.h"
#include "test/cuda/Suite.h"
#include "test/cuda/Weights.h"

#include <memory>

using namespace tandem::gpucheck;

namespace {

std::string nextName(const Suite &suite) {
  return "k" + std::to_string(suite.kernels.size());
}

constexpr float kEps = 1e-6f, kOffset = 1.0f;
/// Of the largest launch.
constexpr int kRows = 150;

//===----------------------------------------------------------------------===//
// fused_linear, fused_quant_linear
//===----------------------------------------------------------------------===//

struct Fused {
  std::vector<int64_t> widths;
  int64_t columns;
  bool norm, gated, residual;
  /// 0: bf16, not codes.
  int64_t bits = 0, group = 0;
  bool resultF32 = false;

  int64_t results() const { return gated ? 1 : int64_t(widths.size()); }
  std::string title() const {
    std::string text = bits ? "fused_quant_linear " : "fused_linear ";
    for (int64_t width : widths)
      text += std::to_string(width) + " ";
    text += "x " + std::to_string(columns);
    if (bits)
      text += " q" + std::to_string(bits) + " g" + std::to_string(group);
    return text + (norm ? " norm" : "") + (gated ? " gated" : "") +
           (residual ? " residual" : "") + (resultF32 ? " -> f32" : "");
  }
  std::string format() const {
    return bits ? number("bits", bits) + ", " + number("group", group) +
                      ", scale = bf16, "
                : "element = bf16, ";
  }
  std::string common() const {
    return std::string("{activations = bf16, ") +
           (resultF32 ? "result = f32, " : "") + format() +
           number("columns", columns) + ", ";
  }
};

/// Kernels of a fused layer and of what it stands for.
struct FusedKernels {
  std::string eight, few, many, wide, norm, silu, mul, add;
  std::vector<std::string> parts;
};

FusedKernels addKernels(Suite &suite, const Fused &fused) {
  FusedKernels kernels;
  std::string widths;
  for (int64_t width : fused.widths)
    widths += (widths.empty() ? "" : ", ") + std::to_string(width);
  std::string parameters = fused.common() + "widths = array<i64: " + widths +
                           ">, eps = 1.0e-6 : " + "f32, offset = 1.0 : f32, " +
                           number("norm", fused.norm) + ", " +
                           number("gated", fused.gated) + ", " +
                           number("residual", fused.residual) + ", ";
  std::string family = fused.bits ? "fused_quant_linear" : "fused_linear";
  kernels.eight = suite.kernel(nextName(suite), family,
                               parameters + number("row_tile", 8) + "}", 8);
  kernels.few = suite.kernel(nextName(suite), family,
                             parameters + number("row_tile", 16) + "}", 16);
  kernels.many = suite.kernel(nextName(suite), family,
                              parameters + number("row_tile", 64) + "}", 64);
  if (!fused.norm)
    kernels.wide =
        suite.kernel(nextName(suite), family,
                     parameters + number("row_tile", 128) + "}", kRows);
  for (int64_t width : fused.widths)
    kernels.parts.push_back(
        suite.kernel(nextName(suite), fused.bits ? "quant_linear" : "linear",
                     fused.common() + number("outputs", width) + ", " +
                         number("row_tile", 16) + "}",
                     16));
  auto row = [&](int64_t columns) {
    return "{activations = bf16, " + number("columns", columns);
  };
  if (fused.norm)
    kernels.norm =
        suite.kernel(nextName(suite), "rms_norm",
                     row(fused.columns) + ", " + number("dim", fused.columns) +
                         ", eps = 1.0e-6 : f32, offset = 1.0 : f32}");
  std::string width = row(fused.widths[0]) + "}";
  if (fused.gated) {
    kernels.silu = suite.kernel(nextName(suite), "silu", width);
    kernels.mul = suite.kernel(nextName(suite), "mul", width);
  }
  if (fused.residual)
    kernels.add = suite.kernel(nextName(suite), "add", width);
  return kernels;
}

/// Rows of x as the norm leaves them.
std::vector<Bf16> normalize(const std::vector<Bf16> &x,
                            const std::vector<float> &weight, int64_t columns) {
  std::vector<Bf16> result(x.size());
  parallelFor(int64_t(x.size()) / columns, [&](int64_t row) {
    double squares = 0;
    for (int64_t k = 0; k < columns; ++k) {
      double value = fromBf16(x[row * columns + k]);
      squares += value * value;
    }
    double factor = 1 / std::sqrt(squares / double(columns) + kEps);
    for (int64_t k = 0; k < columns; ++k)
      result[row * columns + k] =
          toBf16(float(fromBf16(x[row * columns + k]) * factor *
                       (double(weight[k]) + kOffset)));
  });
  return result;
}

double silu(double x) { return x / (1 + std::exp(-x)); }

/// Everything a fused layer reads, in memory of the device.
template <typename T> class FusedRun {
public:
  FusedRun(Run &run, const Fused &fused, const FusedKernels &kernels)
      : run(run), fused(fused), kernels(kernels),
        x(randomBf16(kRows * fused.columns, 31)),
        norm(randomFloat(fused.columns, 32, 0.3f)),
        residual(randomBf16(kRows * fused.widths[0], 33)), input(run, x),
        normMemory(run, norm), residualMemory(run, residual) {
    uint64_t seed = 40;
    for (int64_t width : fused.widths) {
      weights.push_back(fused.bits
                            ? makeCodes(width, fused.columns, fused.bits,
                                        fused.group, kBf16, seed)
                            : makeDense(width, fused.columns, kBf16, seed));
      weightMemory.push_back(
          std::make_unique<Array<uint8_t>>(run, weights.back().packed));
      seed += 2;
    }
  }

  void check() {
    std::vector<std::vector<T>> separate = runSeparately();
    for (auto [rows, live] :
         {std::pair(16, 16), {16, 7}, {16, 1}, {8, 8}, {8, 3}}) {
      std::vector<std::vector<T>> got =
          runFused(rows == 8 ? kernels.eight : kernels.few, rows, live);
      for (int64_t part = 0; part < fused.results(); ++part) {
        std::string title = fused.title() + ", " + std::to_string(live) +
                            " of " + std::to_string(rows) + " rows, part " +
                            std::to_string(part);
        int64_t count = live * fused.widths[part];
        run.untouched(title, got[part], count);
        got[part].resize(count);
        run.same(title + " as separately", got[part],
                 std::vector<T>(separate[part].begin(),
                                separate[part].begin() + count));
      }
    }
    compare(kernels.few, 16, 16);
    compare(kernels.many, 64, 50);
    if (!fused.norm)
      for (int live : {1, 64})
        compare(kernels.many, 64, live);
    if (!fused.norm)
      for (int live : {50, 129, kRows})
        compare(kernels.wide, kRows, live);
  }

private:
  std::vector<std::vector<T>> runFused(const std::string &kernel, int rows,
                                       int live) {
    std::vector<const Memory *> operands = {&input};
    for (auto &weight : weightMemory)
      operands.push_back(weight.get());
    if (fused.norm)
      operands.push_back(&normMemory);
    if (fused.residual)
      operands.push_back(&residualMemory);
    std::vector<std::unique_ptr<Array<T>>> outputs;
    for (int64_t part = 0; part < fused.results(); ++part) {
      outputs.push_back(
          std::make_unique<Array<T>>(run, rows * fused.widths[part]));
      operands.push_back(outputs.back().get());
    }
    Array<int32_t> count(run, std::vector<int32_t>{live});
    run.launch(kernel, operands, rows, &count);
    std::vector<std::vector<T>> values;
    for (auto &output : outputs)
      values.push_back(output->values());
    return values;
  }

  /// What the kernels that the layer stands for make of 16 rows.
  std::vector<std::vector<T>> runSeparately() {
    constexpr int rows = 16;
    Array<Bf16> normalized(run, size_t(rows * fused.columns));
    const Memory *from = &input;
    if (fused.norm) {
      run.launch(kernels.norm, {&input, &normMemory, &normalized}, rows);
      from = &normalized;
    }
    std::vector<std::unique_ptr<Array<T>>> parts;
    for (size_t part = 0; part < fused.widths.size(); ++part) {
      parts.push_back(
          std::make_unique<Array<T>>(run, size_t(rows * fused.widths[part])));
      run.launch(kernels.parts[part],
                 {from, weightMemory[part].get(), parts.back().get()}, rows);
    }
    size_t size = rows * fused.widths[0];
    Array<T> activated(run, size), product(run, size), sum(run, size);
    Array<T> *result = parts[0].get();
    if (fused.gated) {
      run.launch(kernels.silu, {parts[0].get(), &activated}, rows);
      run.launch(kernels.mul, {&activated, parts[1].get(), &product}, rows);
      result = &product;
    }
    if (fused.residual) {
      run.launch(kernels.add, {&residualMemory, result, &sum}, rows);
      result = &sum;
    }
    std::vector<std::vector<T>> values = {result->values()};
    for (int64_t part = 1; part < fused.results(); ++part)
      values.push_back(parts[part]->values());
    return values;
  }

  /// Against loops.
  void compare(const std::string &kernel, int rows, int live) {
    std::vector<std::vector<T>> got = runFused(kernel, rows, live);
    std::vector<Bf16> read = fused.norm ? normalize(x, norm, fused.columns) : x;
    std::vector<std::vector<double>> sums;
    for (size_t part = 0; part < fused.widths.size(); ++part) {
      sums.push_back(multiply(read, weights[part].values, live,
                              fused.widths[part], fused.columns));
      if constexpr (sizeof(T) == 2)
        for (double &sum : sums.back())
          sum = roundBf16(float(sum));
    }
    std::vector<double> &first = sums[0];
    for (size_t i = 0; i < first.size(); ++i) {
      if (fused.gated)
        first[i] = roundBf16(float(silu(first[i]))) * sums[1][i];
      if (fused.residual)
        first[i] = fromBf16(residual[i]) + roundBf16(float(first[i]));
    }
    for (int64_t part = 0; part < fused.results(); ++part) {
      std::string title = fused.title() + ", " + std::to_string(live) + " of " +
                          std::to_string(rows) + ", part " +
                          std::to_string(part);
      run.untouched(title, got[part], live * fused.widths[part]);
      std::vector<float> numbers;
      for (T value : got[part])
        if constexpr (sizeof(T) == 2)
          numbers.push_back(fromBf16(value));
        else
          numbers.push_back(value);
      // A few roundings to bf16, one behind the other; in large tiles weights
      // are rounded, too, and a gated number is a product of two such sums.
      bool isWide = kernel == kernels.wide || kernel == kernels.many;
      double limit = sizeof(T) != 2          ? 1e-3
                     : isWide && fused.gated ? 2.5e-2
                                             : 1.2e-2;
      run.compare(title, sums[part], numbers, limit);
    }
  }

  Run &run;
  const Fused &fused;
  const FusedKernels &kernels;
  std::vector<Bf16> x;
  std::vector<float> norm;
  std::vector<Bf16> residual;
  Array<Bf16> input;
  Array<float> normMemory;
  Array<Bf16> residualMemory;
  std::vector<Weight> weights;
  std::vector<std::unique_ptr<Array<uint8_t>>> weightMemory;
};

void addFused(Suite &suite, const Fused &fused) {
  FusedKernels kernels = addKernels(suite, fused);
  suite.check([=](Run &run) {
    if (fused.resultF32)
      FusedRun<float>(run, fused, kernels).check();
    else
      FusedRun<Bf16>(run, fused, kernels).check();
  });
}

//===----------------------------------------------------------------------===//
// head_argmax, argmax_parts
//===----------------------------------------------------------------------===//

void addHead(Suite &suite, int64_t outputs, int64_t columns) {
  std::string sizes = "element = bf16, " + number("outputs", outputs) + ", " +
                      number("columns", columns);
  int64_t parts = (outputs + 127) / 128;
  std::string head = suite.kernel(nextName(suite), "head_argmax",
                                  "{activations = bf16, " + sizes + "}", 33);
  std::string largest = suite.kernel(nextName(suite), "argmax_parts",
                                     "{" + number("parts", parts) + "}", 33);
  std::string linear =
      suite.kernel(nextName(suite), "linear",
                   "{activations = bf16, result = f32, " + sizes + "}", 33);
  std::string argmax = suite.kernel(nextName(suite), "argmax",
                                    "{" + number("columns", outputs) + "}", 33);
  suite.check([=](Run &run) {
    constexpr int rows = 33;
    std::vector<Bf16> x = randomBf16(rows * columns, 51);
    Weight weight = makeDense(outputs, columns, kBf16, 52);
    // Ties in tiles and parts of their own: two rows of the weight are equal,
    // and so large that every token wants them.
    std::string title = "head_argmax " + std::to_string(outputs) + "x" +
                        std::to_string(columns);
    int64_t rowBytes = (columns * 2 + 15) / 16 * 16;
    for (int64_t token = 0; token < 4; ++token) {
      int64_t first = 5 + token * 3;
      for (int64_t twin : {first, outputs - 1 - token}) {
        for (int64_t k = 0; k < columns; ++k) {
          Bf16 bits = toBf16(fromBf16(x[token * columns + k]) * 0.5f);
          std::memcpy(weight.packed.data() + twin * rowBytes + k * 2, &bits, 2);
        }
      }
    }
    Array<Bf16> input(run, x);
    Array<uint8_t> weightMemory(run, weight.packed);
    Array<float> logits(run, size_t(rows * outputs));
    Array<int32_t> expected(run, size_t(rows));
    run.launch(linear, {&input, &weightMemory, &logits}, rows);
    run.launch(argmax, {&logits, &expected}, rows);
    std::vector<int32_t> tokens = expected.values();
    // The first of the twins.
    for (int token = 0; token < 4; ++token)
      run.same(title + ", first of two", std::vector<int32_t>{tokens[token]},
               std::vector<int32_t>{5 + token * 3});

    for (int live : {33, 16, 1}) {
      Array<float> best(run, size_t(rows * parts));
      Array<int32_t> bestTokens(run, size_t(rows * parts)),
          result(run, size_t(rows));
      Array<int32_t> count(run, std::vector<int32_t>{live});
      run.launch(head, {&input, &weightMemory, &best, &bestTokens}, rows,
                 &count);
      run.untouched(title, best.values(), live * parts);
      run.launch(largest, {&best, &bestTokens, &result}, rows, &count);
      std::vector<int32_t> got = result.values();
      run.untouched(title, got, live);
      got.resize(live);
      run.same(title + ", " + std::to_string(live) + " rows, as separately",
               got,
               std::vector<int32_t>(tokens.begin(), tokens.begin() + live));
    }
  });
}

//===----------------------------------------------------------------------===//
// delta_inputs
//===----------------------------------------------------------------------===//

struct DeltaSizes {
  int64_t heads, keyHeads, keyDim, valueColumns;
};

void addDeltaInputs(Suite &suite, const DeltaSizes &sizes) {
  constexpr int64_t taps = 4, pending = 16;
  int64_t keyColumns = sizes.keyHeads * sizes.keyDim;
  int64_t channels = 2 * keyColumns + sizes.valueColumns;
  std::string bf16 = "{activations = bf16, ", f32 = "{activations = f32, ";
  auto add = [&](const std::string &family, const std::string &parameters) {
    return suite.kernel(nextName(suite), family, parameters + "}");
  };
  std::string cacheSizes = number("channels", channels) + ", " +
                           number("taps", taps) + ", " +
                           number("pending", pending);
  std::string fused[2], conv[2];
  for (int commit = 0; commit < 2; ++commit) {
    fused[commit] =
        add("delta_inputs",
            bf16 + cacheSizes + ", " + number("commit", commit) + ", " +
                number("heads", sizes.heads) + ", " +
                number("key_heads", sizes.keyHeads) + ", " +
                number("key_dim", sizes.keyDim) + ", eps = 1.0e-6 : f32");
    conv[commit] =
        add("short_conv", bf16 + cacheSizes + ", " + number("commit", commit));
  }
  std::string silu = add("silu", bf16 + number("columns", channels));
  std::string split =
      add("split", bf16 + number("groups", 1) +
                       ", widths = array<i64: " + std::to_string(keyColumns) +
                       ", " + std::to_string(keyColumns) + ", " +
                       std::to_string(sizes.valueColumns) + ">");
  std::string norm =
      add("l2_norm", bf16 + number("columns", keyColumns) + ", " +
                         number("dim", sizes.keyDim) + ", eps = 1.0e-6 : f32");
  std::string gate = add("delta_gate", f32 + number("columns", sizes.heads));
  std::string sigmoid = add("sigmoid", f32 + number("columns", sizes.heads));

  suite.check([=](Run &run) {
    Array<float> weight(run, randomFloat(taps * channels, 61, 0.5f)),
        logRate(run, randomFloat(sizes.heads, 62)),
        bias(run, randomFloat(sizes.heads, 63));
    std::vector<Bf16> start((taps - 1 + pending) * channels);
    Array<Bf16> cache(run, start), separateCache(run, start);
    struct Round {
      int rows, live, accepted, commit;
    };
    const Round rounds[] = {{64, 37, 0, 1}, {16, 16, 0, 0}, {16, 16, 5, 0},
                            {16, 9, 16, 0}, {1, 1, 9, 0},   {1, 1, 1, 0},
                            {24, 2, 1, 1},  {16, 16, 0, 0}, {16, 0, 3, 0}};
    uint64_t seed = 70;
    for (const Round &round : rounds) {
      auto rows = size_t(round.rows);
      Array<Bf16> x(run, randomBf16(round.rows * channels, seed++));
      Array<float> decayInput(run,
                              randomFloat(round.rows * sizes.heads, seed++, 5)),
          betaInput(run, randomFloat(round.rows * sizes.heads, seed++, 2));
      Array<int32_t> accepted(run, std::vector<int32_t>{round.accepted}),
          live(run, std::vector<int32_t>{round.live});
      Array<Bf16> query(run, rows * keyColumns), key(run, rows * keyColumns),
          value(run, rows * sizes.valueColumns);
      Array<float> decay(run, rows * sizes.heads),
          beta(run, rows * sizes.heads);
      run.launch(fused[round.commit],
                 {&x, &decayInput, &betaInput, &weight, &logRate, &bias,
                  &accepted, &query, &key, &value, &decay, &beta, &cache},
                 round.rows, &live);

      Array<Bf16> convolved(run, rows * channels),
          activated(run, rows * channels), left(run, rows * keyColumns),
          right(run, rows * keyColumns), query2(run, rows * keyColumns),
          key2(run, rows * keyColumns), value2(run, rows * sizes.valueColumns);
      Array<float> decay2(run, rows * sizes.heads),
          beta2(run, rows * sizes.heads);
      run.launch(conv[round.commit],
                 {&x, &weight, &accepted, &convolved, &separateCache},
                 round.rows, &live);
      run.launch(silu, {&convolved, &activated}, round.rows, &live);
      run.launch(split, {&activated, &left, &right, &value2}, round.rows,
                 &live);
      run.launch(norm, {&left, &query2}, round.rows, &live);
      run.launch(norm, {&right, &key2}, round.rows, &live);
      run.launch(gate, {&decayInput, &logRate, &bias, &decay2}, round.rows,
                 &live);
      run.launch(sigmoid, {&betaInput, &beta2}, round.rows, &live);

      std::string title = "delta_inputs " + std::to_string(channels) + ", " +
                          std::to_string(round.live) + " of " +
                          std::to_string(round.rows) + ", " +
                          std::to_string(round.accepted) + " kept" +
                          (round.commit ? ", commit" : "");
      run.same(title + ": query", query.values(), query2.values());
      run.same(title + ": key", key.values(), key2.values());
      run.same(title + ": value", value.values(), value2.values());
      run.same(title + ": decay", decay.values(), decay2.values());
      run.same(title + ": beta", beta.values(), beta2.values());
      run.same(title + ": cache", cache.values(), separateCache.values());
    }
  });
}

void addLastPosition(Suite &suite) {
  std::string kernel = suite.kernel(nextName(suite), "last_position", "{}", 1);
  suite.check([=](Run &run) {
    for (auto [start, count, expected] :
         {std::array<int32_t, 3>{7, 0, 7}, {7, 1, 7}, {7, 9, 15}}) {
      Array<int32_t> startMemory(run, std::vector<int32_t>{start}),
          countMemory(run, std::vector<int32_t>{count}), result(run, size_t(1));
      run.launch(kernel, {&startMemory, &countMemory, &result}, 1);
      run.same("last_position", result.values(),
               std::vector<int32_t>{expected});
    }
  });
}

} // namespace

void tandem::gpucheck::addFusedChecks(Suite &suite) {
  // Tiny and demo pair, and shapes that fill nothing.
  addFused(suite, {{128, 64, 64}, 64, true, false, false, 4, 32});
  addFused(suite, {{192, 192}, 64, true, true, false, 4, 32});
  addFused(suite, {{64}, 192, false, false, true, 4, 32});
  addFused(suite, {{1024, 384}, 384, true, false, false, 4, 32});
  addFused(suite, {{1024, 1024}, 384, true, true, false, 4, 32});
  addFused(suite, {{384}, 1024, false, false, true, 4, 128});
  addFused(suite, {{200, 200}, 320, false, true, true, 4, 64});
  addFused(suite, {{100, 8, 33}, 480, false, false, false, 4, 32});
  addFused(suite, {{72, 72}, 96, false, true, true});
  addFused(suite, {{9216, 9216}, 2560, false, true, false, 4, 32});
  addFused(suite, {{100, 8, 33}, 480, true, false, false, 4, 48});
  addFused(suite, {{40, 40}, 96, true, true, true, 8, 16});
  addFused(suite, {{130}, 200, true, false, true, 4, 20});
  addFused(suite, {{8, 8}, 64, true, false, false, 0, 0, true});
  addFused(suite, {{32, 32}, 384, true, false, false, 0, 0, true});
  addFused(suite, {{72, 72}, 90, true, true, true});
  // Qwen3.5-4B and its drafter.
  addFused(suite, {{8192, 4096}, 2560, true, false, false, 4, 32});
  addFused(suite, {{9216, 9216}, 2560, true, true, false, 4, 32});
  addFused(suite, {{8192, 4096}, 2560, false, false, false, 4, 32});
  addFused(suite, {{8192, 1024, 1024}, 2560, false, false, false, 4, 32});
  addFused(suite,
           {std::vector<int64_t>(10, 1024), 2560, false, false, false, 4, 128});
  addFused(suite, {{2560}, 9216, false, false, true, 4, 32});
  addFused(suite, {{2560}, 4096, false, false, true, 4, 32});
  addFused(suite, {{32, 32}, 2560, true, false, false, 0, 0, true});
  addFused(suite, {{4096, 1024, 1024}, 2560, true, false, false, 4, 128});

  addHead(suite, 1021, 384);
  addHead(suite, 6144, 384);
  addHead(suite, 24832, 2560);

  addDeltaInputs(suite, {4, 2, 32, 128});
  addDeltaInputs(suite, {8, 4, 64, 512});
  addDeltaInputs(suite, {32, 16, 128, 4096});
  addDeltaInputs(suite, {3, 3, 24, 60});
  addLastPosition(suite);
}
