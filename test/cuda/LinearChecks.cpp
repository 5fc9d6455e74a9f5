//===- LinearChecks.cpp - linear, quant_linear, embed ---------------------===//

#include "test/cuda/Run.h"
#include "test/cuda/Suite.h"
#include "test/cuda/Weights.h"

using namespace tandem::gpucheck;

namespace {

/// A linear layer that has been launched in all ways.
struct Layer {
  std::string title;
  int64_t outputs, columns;
  bool resultF32;
  std::string tile16, tile8, tile64, tile128;
  /// Weights are codes, which tiles of 64 and 128 may round to bf16 with their
  /// scales.
  bool isQuantized;
};

template <typename T> float toFloat(T value) {
  if constexpr (sizeof(T) == 2)
    return fromBf16(value);
  else
    return value;
}

/// The tile of 128 rows: the ends of tiles, and columns in as many slices as
/// live rows leave room for.
template <typename T>
void checkWideLayer(Run &run, const Layer &layer,
                    const std::vector<uint8_t> &packed,
                    const std::vector<float> &weight) {
  constexpr int rows = 300;
  bool isLarge = layer.outputs * layer.columns > int64_t(4) << 20;
  std::vector<Bf16> x = randomBf16(rows * layer.columns, 12);
  std::vector<double> expected =
      multiply(x, weight, isLarge ? 129 : rows, layer.outputs, layer.columns);
  Array<uint8_t> weightMemory(run, packed);
  Array<Bf16> input(run, x);
  Array<T> output(run, rows * layer.outputs);
  // Numbers times their scales are rounded to bf16 once more, by up to 2^-9. A
  // sum of few of them, one of which is large, has most of that.
  double limit = layer.isQuantized ? 2e-2 : sizeof(T) == 2 ? 4e-3 : 2e-5;
  std::vector<T> last;
  for (int live : {17, 63, 64, 65, 127, 128, 129, 200, 300}) {
    if (isLarge && live > 129)
      break;
    output.poison();
    Array<int32_t> count(run, std::vector<int32_t>{live});
    run.launch(layer.tile128, {&input, &weightMemory, &output}, rows, &count);
    std::string title =
        layer.title + ", " + std::to_string(live) + " of 300 rows, tile 128";
    std::vector<T> got = output.values();
    int64_t numbers = live * layer.outputs;
    run.untouched(title, got, numbers);
    std::vector<float> values;
    for (int64_t i = 0; i < numbers; ++i)
      values.push_back(toFloat(got[i]));
    run.compare(
        title,
        std::vector<double>(expected.begin(), expected.begin() + numbers),
        values, limit);
    got.resize(numbers);
    // Rows behind a row change nothing while they fill no other tile.
    if (live == 127 || live == 128 || live == 200)
      run.same(title + " as fewer",
               std::vector<T>(got.begin(), got.begin() + last.size()), last);
    bool equal = true;
    for (int i = 0; i < (live == 65 ? 20 : 0); ++i) {
      output.poison();
      run.launch(layer.tile128, {&input, &weightMemory, &output}, rows, &count);
      equal &= std::memcmp(output.values().data(), got.data(),
                           numbers * sizeof(T)) == 0;
    }
    if (live == 65)
      run.report(title + ", 20 times", equal ? "same bits" : "DIFFERENT",
                 equal);
    last = std::move(got);
  }
}

template <typename T>
void checkLayer(Run &run, const Layer &layer,
                const std::vector<uint8_t> &packed,
                const std::vector<float> &weight, bool isLarge) {
  int64_t rows = isLarge ? 16 : 64;
  std::vector<Bf16> x = randomBf16(rows * layer.columns, 11);
  // What lies behind the live rows must not matter.
  std::vector<double> expected =
      multiply(x, weight, rows, layer.outputs, layer.columns);
  Array<uint8_t> weightMemory(run, packed);
  Array<Bf16> input(run, x);
  // As in checkWideLayer.
  auto limitOf = [&](const std::string &kernel) {
    return layer.isQuantized && kernel == layer.tile64 ? 2e-2
           : sizeof(T) == 2                            ? 4e-3
                                                       : 2e-5;
  };

  // Of the kernel that has run last: tiles of rows sum in orders of their own.
  std::vector<T> reference, ofFew;
  auto check = [&](const std::string &kernel, int tensorRows, int live,
                   bool timed) {
    Array<T> output(run, tensorRows * layer.outputs);
    Array<int32_t> count(run, std::vector<int32_t>{live});
    run.launch(kernel, {&input, &weightMemory, &output}, tensorRows, &count);
    std::vector<T> got = output.values();
    std::string title = layer.title + ", " + std::to_string(live) + " of " +
                        std::to_string(tensorRows) + " rows" +
                        (kernel == layer.tile64  ? ", tile 64"
                         : kernel == layer.tile8 ? ", tile 8"
                                                 : "");
    std::vector<float> numbers;
    for (T value : got)
      numbers.push_back(toFloat(value));
    std::vector<double> wanted(expected.begin(),
                               expected.begin() + live * layer.outputs);
    run.untouched(title, got, live * layer.outputs);
    double time = timed ? run.time() : 0;
    run.compare(title, wanted, numbers, limitOf(kernel), time);
    if (reference.size() < size_t(live * layer.outputs)) {
      got.resize(live * layer.outputs);
      if (!reference.empty())
        run.same(title + " as fewer",
                 std::vector<T>(got.begin(), got.begin() + reference.size()),
                 reference);
      reference = got;
    } else {
      got.resize(live * layer.outputs);
      run.same(
          title + " as others", got,
          std::vector<T>(reference.begin(), reference.begin() + got.size()));
    }
  };
  check(layer.tile16, 1, 1, false);
  check(layer.tile16, 16, 7, false);
  check(layer.tile16, 16, 16, true);
  // Tiles of 8 and of 16 sum in the same order.
  for (int live : {8, 3})
    check(layer.tile8, 8, live, false);
  check(layer.tile8, 1, 1, false);
  std::swap(reference, ofFew);
  if (!isLarge) {
    for (int live : {1, 33, 50})
      check(layer.tile64, 64, live, false);
    check(layer.tile64, 64, 64, true);
    // Whoever comes last, sums are added in the same order.
    Array<T> output(run, 64 * layer.outputs);
    bool equal = true;
    for (int i = 0; i < 20; ++i) {
      output.poison();
      run.launch(layer.tile64, {&input, &weightMemory, &output}, 64);
      std::vector<T> got = output.values();
      equal &= std::memcmp(got.data(), reference.data(),
                           got.size() * sizeof(T)) == 0;
    }
    run.report(layer.title + ", 64 rows, 20 times",
               equal ? "same bits" : "DIFFERENT", equal);
  }

  // A row alone gives the bits it gives among others.
  if (!isLarge) {
    checkWideLayer<T>(run, layer, packed, weight);
    int64_t row = 13;
    Array<Bf16> one(run,
                    std::vector<Bf16>(x.begin() + row * layer.columns,
                                      x.begin() + (row + 1) * layer.columns));
    Array<T> output(run, layer.outputs);
    run.launch(layer.tile16, {&one, &weightMemory, &output}, 1);
    run.same(layer.title + ", row 13 alone", output.values(),
             std::vector<T>(ofFew.begin() + row * layer.outputs,
                            ofFew.begin() + (row + 1) * layer.outputs));
    // Blocks that add slices never get in each other's way.
    bool equal = true;
    std::vector<T> first = output.values();
    for (int i = 0; i < 50; ++i) {
      output.poison();
      run.launch(layer.tile16, {&one, &weightMemory, &output}, 1);
      equal &= std::memcmp(output.values().data(), first.data(),
                           first.size() * sizeof(T)) == 0;
    }
    run.report(layer.title + ", 50 times", equal ? "same bits" : "DIFFERENT",
               equal);
  }
}

void check(Run &run, const Layer &layer, const std::vector<uint8_t> &packed,
           const std::vector<float> &weight, bool isLarge) {
  if (layer.resultF32)
    checkLayer<float>(run, layer, packed, weight, isLarge);
  else
    checkLayer<Bf16>(run, layer, packed, weight, isLarge);
}

/// Adds the kernels of all tiles.
Layer addKernels(Suite &suite, const std::string &family,
                 const std::string &title, const std::string &parameters,
                 int64_t outputs, int64_t columns, bool resultF32) {
  std::string name = "k" + std::to_string(suite.kernels.size());
  std::string all = "{activations = bf16, " +
                    std::string(resultF32 ? "result = f32, " : "") +
                    parameters + ", " + number("outputs", outputs) + ", " +
                    number("columns", columns) + ", ";
  Layer layer = {title,      outputs,    columns,
                 resultF32,  name,       name + "e",
                 name + "t", name + "w", family == "quant_linear"};
  suite.kernel(layer.tile8, family, all + number("row_tile", 8) + "}", 8);
  suite.kernel(layer.tile16, family, all + number("row_tile", 16) + "}", 16);
  suite.kernel(layer.tile64, family, all + number("row_tile", 64) + "}", 64);
  suite.kernel(layer.tile128, family, all + number("row_tile", 128) + "}", 300);
  return layer;
}

void addQuantLinear(Suite &suite, int64_t outputs, int64_t columns,
                    int64_t bits, int64_t group, const Element &scale,
                    bool resultF32 = false,
                    CodeKind kind = CodeKind::Integers) {
  std::string title = "quant_linear " + std::to_string(outputs) + "x" +
                      std::to_string(columns) + " q" + std::to_string(bits) +
                      " g" + std::to_string(group) + " " + scale.name +
                      (kind == CodeKind::ZeroPoints ? " zero points"
                       : kind == CodeKind::Floats   ? " float codes"
                                                    : "") +
                      (resultF32 ? " -> f32" : "");
  std::string option =
      kind == CodeKind::ZeroPoints ? ", " + number("zero_points", 1)
      : kind == CodeKind::Floats   ? ", " + number("float_codes", 1)
                                   : "";
  Layer layer =
      addKernels(suite, "quant_linear", title,
                 number("bits", bits) + ", " + number("group", group) +
                     ", scale = " + scale.name + option,
                 outputs, columns, resultF32);
  suite.check([=](Run &run) {
    Weight weight = makeCodes(outputs, columns, bits, group, scale, 5, kind);
    check(run, layer, weight.packed, weight.values, false);
  });
}

void addLinear(Suite &suite, int64_t outputs, int64_t columns,
               const Element &element, bool resultF32, bool isLarge = false) {
  std::string title = "linear " + std::to_string(outputs) + "x" +
                      std::to_string(columns) + " " + element.name +
                      (resultF32 ? " -> f32" : "");
  Layer layer = addKernels(suite, "linear", title, "element = " + element.name,
                           outputs, columns, resultF32);
  suite.check([=](Run &run) {
    Weight weight = makeDense(outputs, columns, element, 7);
    check(run, layer, weight.packed, weight.values, isLarge);
  });
}

void addEmbed(Suite &suite, int64_t vocabulary, int64_t columns,
              const Element &element) {
  std::string kernel = suite.kernel(
      "k" + std::to_string(suite.kernels.size()), "embed",
      "{activations = bf16, element = " + element.name +
          ", scale_by = 2.0 : f32, " + number("vocabulary", vocabulary) + ", " +
          number("columns", columns) + "}");
  std::string title = "embed " + std::to_string(vocabulary) + "x" +
                      std::to_string(columns) + " " + element.name;
  suite.check([=](Run &run) {
    Numbers table(element, vocabulary * columns, 8, 1);
    Array<uint8_t> tableMemory(
        run, packRows(table.bytes.data(), vocabulary, columns, element.width));
    std::vector<int32_t> tokens = {
        0, int32_t(vocabulary) - 1, -1, int32_t(vocabulary), 3, 5};
    Array<int32_t> tokenMemory(run, tokens);
    Array<int32_t> live(run, std::vector<int32_t>{5});
    Array<Bf16> output(run, tokens.size() * columns);
    run.launch(kernel, {&tokenMemory, &tableMemory, &output}, 6, &live);
    std::vector<double> expected;
    for (int row = 0; row < 5; ++row) {
      int64_t token =
          tokens[row] < 0 || tokens[row] >= vocabulary ? 0 : tokens[row];
      for (int64_t k = 0; k < columns; ++k)
        expected.push_back(table.values[token * columns + k] * 2);
    }
    std::vector<Bf16> got = output.values();
    run.untouched(title, got, 5 * columns);
    run.compare(title, expected, toFloats(got), 4e-3);
  });
}

} // namespace

void tandem::gpucheck::addLinearChecks(Suite &suite) {
  // Tiny and demo pair.
  addQuantLinear(suite, 128, 64, 4, 32, kBf16);
  addQuantLinear(suite, 768, 384, 4, 32, kBf16);
  addQuantLinear(suite, 384, 1024, 4, 32, kBf16);
  addQuantLinear(suite, 384, 1024, 4, 128, kBf16);
  addQuantLinear(suite, 1536, 384, 8, 128, kBf16);
  // Outputs that fill no tile, groups of all kinds, all scales.
  addQuantLinear(suite, 100, 512, 4, 64, kF16);
  addQuantLinear(suite, 8, 96, 4, 16, kF32);
  addQuantLinear(suite, 33, 480, 4, 48, kBf16);
  addQuantLinear(suite, 130, 200, 4, 20, kBf16, true);
  addQuantLinear(suite, 40, 576, 8, 96, kBf16);
  addQuantLinear(suite, 40, 128, 4, 8, kF32);
  addQuantLinear(suite, 144, 768, 4, 384, kBf16);
  addQuantLinear(suite, 256, 1280, 8, 1280, kF32);
  addQuantLinear(suite, 72, 224, 4, 224, kF16);
  // Zero points, and codes that are floats. Scales of f16 would need zero
  // points of f16, which Weights.h cannot make.
  addQuantLinear(suite, 768, 384, 4, 32, kBf16, false, CodeKind::ZeroPoints);
  addQuantLinear(suite, 100, 512, 4, 64, kF32, false, CodeKind::ZeroPoints);
  addQuantLinear(suite, 130, 200, 4, 20, kBf16, true, CodeKind::ZeroPoints);
  addQuantLinear(suite, 40, 1024, 4, 128, kBf16, false, CodeKind::ZeroPoints);
  addQuantLinear(suite, 72, 576, 8, 96, kBf16, false, CodeKind::ZeroPoints);
  addQuantLinear(suite, 256, 1280, 8, 128, kF32, true, CodeKind::ZeroPoints);
  addQuantLinear(suite, 128, 384, 8, 384, kBf16, false, CodeKind::Floats);
  addQuantLinear(suite, 130, 512, 8, 128, kF32, true, CodeKind::Floats);
  // Qwen3.5-4B and its drafter.
  addQuantLinear(suite, 18432, 2560, 4, 32, kBf16);
  addQuantLinear(suite, 2560, 9216, 4, 32, kBf16);
  addQuantLinear(suite, 2560, 4096, 4, 32, kBf16);
  addQuantLinear(suite, 2560, 12800, 4, 128, kBf16);
  addQuantLinear(suite, 2560, 9728, 8, 128, kBf16);

  addLinear(suite, 8, 64, kBf16, true);
  addLinear(suite, 6144, 384, kBf16, true);
  addLinear(suite, 1021, 384, kBf16, true);
  addLinear(suite, 128, 384, kF16, false);
  addLinear(suite, 100, 90, kBf16, false);
  addLinear(suite, 100, 91, kF32, false);
  addLinear(suite, 65, 72, kF32, true);
  addLinear(suite, 32, 2560, kBf16, true);
  addLinear(suite, 8192, 2560, kBf16, false);
  addLinear(suite, 248320, 2560, kBf16, true, /*isLarge=*/true);

  addEmbed(suite, 1024, 64, kBf16);
  addEmbed(suite, 100, 90, kBf16);
  addEmbed(suite, 100, 91, kF32);
  addEmbed(suite, 6144, 384, kF16);
}
