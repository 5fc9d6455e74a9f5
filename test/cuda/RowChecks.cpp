//===- RowChecks.cpp - Norms, elementwise kernels, rows, rope, caches -----===//

#include "test/cuda/Run.h"
#include "test/cuda/Suite.h"

#include <algorithm>
#include <memory>

using namespace tandem::gpucheck;

namespace {

std::string nextName(const Suite &suite) {
  return "k" + std::to_string(suite.kernels.size());
}

/// Numbers of bf16 or f32.
struct Tensor {
  bool isF32;
  int64_t rows, columns;
  std::vector<Bf16> halves;
  std::vector<float> floats;
  /// What they say.
  std::vector<float> values;

  Tensor(bool isF32, int64_t rows, int64_t columns, uint64_t seed,
         float scale = 1)
      : isF32(isF32), rows(rows), columns(columns) {
    if (isF32)
      values = floats = randomFloat(rows * columns, seed, scale);
    else
      values = toFloats(halves = randomBf16(rows * columns, seed, scale));
  }
  float at(int64_t row, int64_t column) const {
    return values[row * columns + column];
  }
  std::unique_ptr<Memory> upload(Run &run) const {
    if (isF32)
      return std::make_unique<Array<float>>(run, floats);
    return std::make_unique<Array<Bf16>>(run, halves);
  }
};

/// Poisoned memory for rows, and what is in it.
struct Output {
  bool isF32;
  int64_t columns;
  std::unique_ptr<Array<Bf16>> halves;
  std::unique_ptr<Array<float>> floats;

  Output(Run &run, bool isF32, int64_t rows, int64_t columns)
      : isF32(isF32), columns(columns) {
    if (isF32)
      floats = std::make_unique<Array<float>>(run, size_t(rows * columns));
    else
      halves = std::make_unique<Array<Bf16>>(run, size_t(rows * columns));
  }
  const Memory *memory() const {
    return isF32 ? static_cast<const Memory *>(floats.get()) : halves.get();
  }
  std::vector<float> values(Run &run, const std::string &title,
                            int64_t live) const {
    if (isF32) {
      run.untouched(title, floats->values(), live * columns);
      return floats->values();
    }
    run.untouched(title, halves->values(), live * columns);
    return toFloats(halves->values());
  }
};

std::string typeOf(bool isF32) { return isF32 ? "f32" : "bf16"; }
std::string activations(bool isF32) {
  return "activations = " + typeOf(isF32) + ", ";
}
double limitOf(bool isF32) { return isF32 ? 1e-5 : 4e-3; }

double silu(double x) { return x / (1 + std::exp(-x)); }

constexpr int kRows = 20, kLive = 17;

void addNorm(Suite &suite, const std::string &family, bool isF32,
             int64_t columns, int64_t dim) {
  std::string parameters =
      "{" + activations(isF32) + number("columns", columns) + ", " +
      number("dim", dim) + ", eps = 1.0e-6 : f32" +
      (family == "rms_norm" ? ", offset = 1.0 : f32}" : "}");
  std::string kernel = suite.kernel(nextName(suite), family, parameters);
  suite.check([=](Run &run) {
    std::string title = family + " " + std::to_string(columns) + "/" +
                        std::to_string(dim) + " " + typeOf(isF32);
    Tensor x(isF32, kRows, columns, 1), gate(isF32, kRows, columns, 2);
    std::vector<float> weight = randomFloat(dim, 3);
    auto xMemory = x.upload(run), gateMemory = gate.upload(run);
    Array<float> weightMemory(run, weight);
    Array<int32_t> live(run, std::vector<int32_t>{kLive});
    Output output(run, isF32, kRows, columns);
    if (family == "l2_norm")
      run.launch(kernel, {xMemory.get(), output.memory()}, kRows, &live);
    else if (family == "rms_norm")
      run.launch(kernel, {xMemory.get(), &weightMemory, output.memory()}, kRows,
                 &live);
    else
      run.launch(
          kernel,
          {xMemory.get(), gateMemory.get(), &weightMemory, output.memory()},
          kRows, &live);
    std::vector<double> expected;
    for (int row = 0; row < kLive; ++row)
      for (int64_t first = 0; first < columns; first += dim) {
        double squares = 0;
        for (int64_t k = 0; k < dim; ++k)
          squares += double(x.at(row, first + k)) * x.at(row, first + k);
        if (family != "l2_norm")
          squares /= double(dim);
        double factor = 1 / std::sqrt(squares + 1e-6);
        for (int64_t k = 0; k < dim; ++k) {
          double value = x.at(row, first + k) * factor;
          if (family == "rms_norm")
            value *= weight[k] + 1.0;
          if (family == "gated_rms_norm")
            value *= weight[k] * silu(gate.at(row, first + k));
          expected.push_back(value);
        }
      }
    run.compare(title, expected, output.values(run, title, kLive),
                limitOf(isF32), run.time());
  });
}

void addElementwise(Suite &suite, const std::string &family, bool isF32,
                    int64_t columns) {
  std::string kernel =
      suite.kernel(nextName(suite), family,
                   "{" + activations(isF32) + number("columns", columns) + "}");
  suite.check([=](Run &run) {
    std::string title =
        family + " " + std::to_string(columns) + " " + typeOf(isF32);
    bool isBinary = family == "add" || family == "mul";
    Tensor a(isF32, kRows, columns, 1, 6), b(isF32, kRows, columns, 2);
    auto aMemory = a.upload(run), bMemory = b.upload(run);
    Array<int32_t> live(run, std::vector<int32_t>{kLive});
    Output output(run, isF32, kRows, columns);
    std::vector<const Memory *> operands = {aMemory.get()};
    if (isBinary)
      operands.push_back(bMemory.get());
    operands.push_back(output.memory());
    run.launch(kernel, operands, kRows, &live);
    std::vector<double> expected;
    for (int64_t i = 0; i < kLive * columns; ++i) {
      double x = a.values[i], y = b.values[i];
      expected.push_back(family == "silu"      ? silu(x)
                         : family == "sigmoid" ? 1 / (1 + std::exp(-x))
                         : family == "add"     ? x + y
                                               : x * y);
    }
    run.compare(title, expected, output.values(run, title, kLive),
                limitOf(isF32), run.time());
  });
}

void addMoves(Suite &suite, bool isF32, int64_t columns) {
  std::string type = activations(isF32);
  std::string last =
      suite.kernel(nextName(suite), "last_row",
                   "{" + type + number("columns", columns) + "}");
  std::string drop = suite.kernel(nextName(suite), "drop_rows",
                                  "{" + type + number("columns", columns) +
                                      ", " + number("first", 1) + "}");
  suite.check([=](Run &run) {
    std::string size = " " + std::to_string(columns) + " " + typeOf(isF32);
    Tensor x(isF32, kRows, columns, 1);
    auto memory = x.upload(run);
    for (int count : {0, 1, kLive, 1000}) {
      Array<int32_t> live(run, std::vector<int32_t>{count});
      Output output(run, isF32, 1, columns);
      run.launch(last, {memory.get(), &live, output.memory()}, kRows);
      int row = std::clamp(count, 1, int(kRows)) - 1;
      std::vector<double> expected(x.values.begin() + row * columns,
                                   x.values.begin() + (row + 1) * columns);
      run.compare("last_row" + size, expected, output.values(run, "", 1), 0);
    }
    Output output(run, isF32, kRows - 1, columns);
    run.launch(drop, {memory.get(), output.memory()}, kRows - 1);
    std::vector<double> expected(x.values.begin() + columns, x.values.end());
    run.compare("drop_rows" + size, expected, output.values(run, "", kRows - 1),
                0);
  });
}

void addSplit(Suite &suite, int64_t groups, std::vector<int64_t> widths) {
  std::string list;
  int64_t columns = 0;
  for (int64_t width : widths) {
    list += (list.empty() ? "" : ", ") + std::to_string(width);
    columns += width;
  }
  std::string type = activations(false);
  std::string split = suite.kernel(nextName(suite), "split",
                                   "{" + type + number("groups", groups) +
                                       ", widths = array<i64: " + list + ">}");
  std::string concat =
      suite.kernel(nextName(suite), "concat_features",
                   "{" + type + "widths = array<i64: " + list + ">}");
  suite.check([=](Run &run) {
    Tensor x(false, kRows, columns, 1);
    auto memory = x.upload(run);
    Array<int32_t> live(run, std::vector<int32_t>{kLive});
    std::vector<Output> parts;
    std::vector<const Memory *> operands = {memory.get()};
    for (int64_t width : widths)
      parts.emplace_back(run, false, kRows, width);
    for (Output &part : parts)
      operands.push_back(part.memory());
    run.launch(split, operands, kRows, &live);
    int64_t offset = 0;
    for (size_t j = 0; j < widths.size(); ++j) {
      int64_t width = widths[j] / groups;
      std::vector<double> expected;
      for (int row = 0; row < kLive; ++row)
        for (int64_t group = 0; group < groups; ++group)
          for (int64_t k = 0; k < width; ++k)
            expected.push_back(
                x.at(row, group * (columns / groups) + offset + k));
      offset += width;
      std::string title = "split " + list + " part " + std::to_string(j);
      run.compare(title, expected, parts[j].values(run, title, kLive), 0);
    }

    std::vector<Tensor> inputs;
    std::vector<std::unique_ptr<Memory>> memories;
    operands.clear();
    for (size_t j = 0; j < widths.size(); ++j) {
      inputs.emplace_back(false, kRows, widths[j], 10 + j);
      memories.push_back(inputs.back().upload(run));
      operands.push_back(memories.back().get());
    }
    Output output(run, false, kRows, columns);
    operands.push_back(output.memory());
    run.launch(concat, operands, kRows, &live);
    std::vector<double> expected;
    for (int row = 0; row < kLive; ++row)
      for (const Tensor &input : inputs)
        for (int64_t k = 0; k < input.columns; ++k)
          expected.push_back(input.at(row, k));
    std::string title = "concat_features " + list;
    run.compare(title, expected, output.values(run, title, kLive), 0);
  });
}

void addRope(Suite &suite, int64_t heads, int64_t headDim, int64_t dims) {
  constexpr int64_t positions = 300;
  int64_t columns = heads * headDim;
  std::string kernel = suite.kernel(
      nextName(suite), "rope",
      "{" + activations(false) + number("columns", columns) + ", " +
          number("head_dim", headDim) + ", " + number("dims", dims) + ", " +
          number("positions", positions) + "}");
  suite.check([=](Run &run) {
    std::string title = "rope " + std::to_string(columns) + "/" +
                        std::to_string(headDim) + "/" + std::to_string(dims);
    Tensor x(false, kRows, columns, 1);
    std::vector<float> table(positions * dims);
    for (int64_t p = 0; p < positions; ++p)
      for (int64_t j = 0; j < dims / 2; ++j) {
        double angle =
            double(p) * std::pow(1e5, -2.0 * double(j) / double(dims));
        table[p * dims + j] = float(std::cos(angle));
        table[p * dims + dims / 2 + j] = float(std::sin(angle));
      }
    auto memory = x.upload(run);
    Array<float> tableMemory(run, table);
    Array<int32_t> live(run, std::vector<int32_t>{kLive});
    // The second text ends behind the table.
    for (int start : {0, 101, int(positions) - 3}) {
      Array<int32_t> startMemory(run, std::vector<int32_t>{start});
      Output output(run, false, kRows, columns);
      run.launch(kernel,
                 {memory.get(), &startMemory, &tableMemory, output.memory()},
                 kRows, &live);
      std::vector<double> expected;
      for (int row = 0; row < kLive; ++row)
        for (int64_t column = 0; column < columns; ++column) {
          int64_t j = column % headDim, half = dims / 2;
          int64_t p = std::min<int64_t>(start + row, positions - 1);
          double here = x.at(row, column);
          if (j >= dims)
            expected.push_back(here);
          else if (j < half)
            expected.push_back(here * table[p * dims + j] -
                               double(x.at(row, column + half)) *
                                   table[p * dims + half + j]);
          else
            expected.push_back(here * table[p * dims + j - half] +
                               double(x.at(row, column - half)) *
                                   table[p * dims + j]);
        }
      run.compare(title + " at " + std::to_string(start), expected,
                  output.values(run, title, kLive), 4e-3);
    }
  });
}

void addCacheAppend(Suite &suite, int64_t heads, int64_t dim, int64_t slots) {
  std::string kernel = suite.kernel(
      nextName(suite), "cache_append",
      "{" + activations(false) + number("heads", heads) + ", " +
          number("dim", dim) + ", " + number("slots", slots) + "}");
  suite.check([=](Run &run) {
    int64_t columns = heads * dim;
    Tensor keys(false, kRows, columns, 1), values(false, kRows, columns, 2);
    auto keyMemory = keys.upload(run), valueMemory = values.upload(run);
    Array<int32_t> live(run, std::vector<int32_t>{kLive});
    int start = int(slots) - 5;
    Array<int32_t> startMemory(run, std::vector<int32_t>{start});
    std::vector<Bf16> expected = randomBf16(2 * slots * columns, 3);
    Array<Bf16> cache(run, expected);
    for (int row = 0; row < kLive; ++row)
      for (int64_t head = 0; head < heads; ++head)
        for (int64_t k = 0; k < dim; ++k) {
          int64_t slot = (start + row) % slots;
          int64_t at = (head * slots + slot) * dim + k;
          expected[at] = keys.halves[row * columns + head * dim + k];
          expected[slots * columns + at] =
              values.halves[row * columns + head * dim + k];
        }
    run.launch(kernel,
               {keyMemory.get(), valueMemory.get(), &startMemory, &cache},
               kRows, &live);
    run.same("cache_append " + std::to_string(slots) + "x" +
                 std::to_string(heads) + "x" + std::to_string(dim),
             cache.values(), expected);
  });
}

void addCopy(Suite &suite, int64_t bytes) {
  std::string kernel =
      suite.kernel(nextName(suite), "copy", "{" + number("bytes", bytes) + "}");
  suite.check([=](Run &run) {
    std::vector<uint8_t> content(bytes);
    Random random(1);
    for (int64_t i = 0; i < bytes; ++i)
      content[i] = uint8_t(random.bits(i));
    Array<uint8_t> from(run, content), to(run, size_t(bytes));
    run.launch(kernel, {&from, &to}, 1);
    run.same("copy " + std::to_string(bytes), to.values(), content);
  });
}

} // namespace

void tandem::gpucheck::addRowChecks(Suite &suite) {
  for (const char *family : {"rms_norm", "gated_rms_norm", "l2_norm"}) {
    addNorm(suite, family, false, 384, 384);
    addNorm(suite, family, false, 512, 64);
    addNorm(suite, family, false, 4096, 128);
    addNorm(suite, family, false, 2560, 2560);
    addNorm(suite, family, false, 1300, 1300);
    addNorm(suite, family, false, 90, 30);
    addNorm(suite, family, false, 21, 7);
    addNorm(suite, family, true, 384, 64);
  }
  for (const char *family : {"silu", "sigmoid", "add", "mul"}) {
    addElementwise(suite, family, false, 9216);
    addElementwise(suite, family, false, 100);
    addElementwise(suite, family, false, 7);
    addElementwise(suite, family, true, 32);
    addElementwise(suite, family, true, 5);
  }
  addMoves(suite, false, 2560);
  addMoves(suite, false, 90);
  addMoves(suite, false, 7);
  addMoves(suite, true, 100);
  addSplit(suite, 1, {512, 256, 256});
  addSplit(suite, 16, {4096, 4096});
  addSplit(suite, 6, {384, 384});
  addSplit(suite, 3, {9, 15, 3});
  addSplit(suite, 2, {2048, 2048, 4096, 64});
  addRope(suite, 6, 64, 16);
  addRope(suite, 4, 32, 32);
  addRope(suite, 16, 256, 64);
  addRope(suite, 3, 10, 6);
  addCacheAppend(suite, 2, 64, 4112);
  addCacheAppend(suite, 4, 256, 48);
  addCacheAppend(suite, 2, 32, 16);
  addCacheAppend(suite, 3, 20, 32);
  addCopy(suite, 4);
  addCopy(suite, 33);
  addCopy(suite, 100000);
}
