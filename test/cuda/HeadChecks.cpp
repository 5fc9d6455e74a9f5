//===- HeadChecks.cpp - Heads that are searched ---------------------------===//
//
// head_search, head_settle and settled_argmax against head_argmax and
// argmax_parts, which must find the same tokens, and against all logits, which
// must be where head_search says that they are.
//
//===----------------------------------------------------------------------===//

#include "test/cuda/Packing.h"
#include "test/cuda/Run.h"
#include "test/cuda/Suite.h"
#include "test/cuda/Weights.h"

using namespace tandem::gpucheck;

namespace {

/// What is special about weights and tokens.
enum class Kind {
  Random,
  /// Rows that differ from each other in one entry, by one unit.
  NearTies,
  /// All rows are one row: everything has to be computed.
  EqualRows,
  /// Some rows and some entries of tokens are a thousand times larger.
  Outliers,
  /// Tokens of zeros, with infinite and with tiny numbers.
  Extremes,
};

const char *nameOf(Kind kind) {
  constexpr const char *names[] = {"random", "near ties", "equal rows",
                                   "outliers", "extremes"};
  return names[int(kind)];
}

struct Inputs {
  std::vector<Bf16> weight, x;
};

Inputs makeInputs(Kind kind, int64_t outputs, int64_t columns, int64_t rows) {
  Inputs inputs = {randomBf16(outputs * columns, 71, 0.05f),
                   randomBf16(rows * columns, 72)};
  Bf16 *w = inputs.weight.data(), *x = inputs.x.data();
  switch (kind) {
  case Kind::Random:
    break;
  case Kind::NearTies:
    // Every seventh row is the first one but for an entry, and wanted by all.
    for (int64_t k = 0; k < columns; ++k)
      w[k] = toBf16(fromBf16(x[k]) * 0.5f);
    for (int64_t row = 7; row < outputs; row += 7) {
      std::copy(w, w + columns, w + row * columns);
      w[row * columns + row % columns] ^= 1;
    }
    for (int64_t row = 1; row < rows; ++row)
      for (int64_t k = 0; k < columns; ++k)
        x[row * columns + k] =
            toBf16(fromBf16(x[k]) + 0.1f * fromBf16(x[row * columns + k]));
    break;
  case Kind::EqualRows:
    for (int64_t row = 1; row < outputs; ++row)
      std::copy(w, w + columns, w + row * columns);
    break;
  case Kind::Outliers:
    for (int64_t row = 5; row < outputs; row += 97)
      for (int64_t k = 0; k < columns; ++k)
        w[row * columns + k] = toBf16(fromBf16(w[row * columns + k]) * 1000);
    for (int64_t row = 0; row < rows; ++row) {
      int64_t place = row * columns + row * 13 % columns;
      x[place] = toBf16(fromBf16(x[place]) * (row % 2 ? 1000 : 40));
    }
    break;
  case Kind::Extremes:
    for (int64_t k = 0; k < columns; ++k) {
      x[k] = 0;
      x[1 * columns + k] = toBf16(fromBf16(x[1 * columns + k]) * 1e-38f);
      x[3 * columns + k] = toBf16(fromBf16(x[3 * columns + k]) * 1e36f);
      x[4 * columns + k] = toBf16(fromBf16(x[4 * columns + k]) * 1e-30f);
      // A row of zeros, and a tiny one.
      w[3 * columns + k] = 0;
      w[9 * columns + k] = toBf16(fromBf16(w[9 * columns + k]) * 1e-38f);
    }
    x[2 * columns] = toBf16(INFINITY);
    x[5 * columns + columns - 1] = toBf16(-INFINITY);
    break;
  }
  return inputs;
}

void addHead(Suite &suite, Kind kind, int64_t outputs, int64_t columns) {
  constexpr int rows = 33;
  int64_t parts = (outputs + 127) / 128, tiles = (outputs + 15) / 16;
  std::string sizes =
      number("outputs", outputs) + ", " + number("columns", columns);
  auto add = [&](const std::string &family, const std::string &parameters) {
    return suite.kernel("k" + std::to_string(suite.kernels.size()), family,
                        "{" + parameters + "}", rows);
  };
  std::string bf16 = "activations = bf16, ", element = "element = bf16, ";
  std::string head = add("head_argmax", bf16 + element + sizes);
  std::string argmax = add("argmax_parts", number("parts", parts));
  std::string linear = add("linear", bf16 +
                                         "result = f32, row_tile = 16 : "
                                         "i64, " +
                                         element + sizes);
  std::string search = add("head_search", bf16 + sizes);
  std::string settle = add("head_settle", bf16 + element + sizes);
  std::string largest =
      add("settled_argmax", number("parts", 1) + ", " + number("tiles", tiles));
  suite.check([=](Run &run) {
    Inputs inputs = makeInputs(kind, outputs, columns, rows);
    std::string title = "head_search " + std::to_string(outputs) + "x" +
                        std::to_string(columns) + " " + nameOf(kind);
    Array<Bf16> x(run, inputs.x);
    Array<uint8_t> weight(run,
                          packRows(inputs.weight.data(), outputs, columns, 2));
    Searched packed = packSearched(inputs.weight, outputs, columns);
    Array<uint8_t> codes(run, packed.codes);
    Array<float> scales(run, packed.scales), errors(run, packed.errors);

    Array<float> partLogits(run, size_t(rows * parts)),
        logits(run, size_t(rows * outputs));
    Array<int32_t> partTokens(run, size_t(rows * parts)),
        expected(run, size_t(rows));
    run.launch(head, {&x, &weight, &partLogits, &partTokens}, rows);
    run.launch(argmax, {&partLogits, &partTokens, &expected}, rows);
    run.launch(linear, {&x, &weight, &logits}, rows);
    std::vector<int32_t> tokens = expected.values();
    std::vector<float> all = logits.values();

    Array<int32_t> counts(run, std::vector<int32_t>(4));
    int32_t launches = 0, liveRows = 0, tilesSettled = 0;
    for (int live : {rows, 16, 9, 1, 16}) {
      Array<float> above(run, size_t(rows * tiles)), below(run, size_t(rows)),
          best(run, size_t(rows));
      Array<int32_t> bestTokens(run, size_t(rows)), settled(run, size_t(rows)),
          result(run, size_t(rows));
      Array<int32_t> count(run, std::vector<int32_t>{live});
      run.launch(search, {&x, &codes, &scales, &errors, &above, &below}, rows,
                 &count);
      run.launch(settle,
                 {&x, &weight, &above, &below, &best, &bestTokens, &settled},
                 rows, &count);
      run.launch(largest, {&best, &bestTokens, &settled, &result, &counts},
                 rows, &count);
      std::vector<int32_t> got = result.values();
      run.untouched(title, got, live);
      run.untouched(title, above.values(), live * tiles);
      got.resize(live);
      std::vector<int32_t> each = settled.values();
      int32_t sum = 0;
      for (int row = 0; row < live; ++row)
        sum += each[row];
      run.same(title + ", " + std::to_string(live) + " rows, " +
                   std::to_string(sum) + " tiles",
               got,
               std::vector<int32_t>(tokens.begin(), tokens.begin() + live));
      // Every logit is where the search says.
      std::vector<float> bounds = above.values(), floors = below.values();
      bool holds = true;
      for (int64_t row = 0; row < live; ++row) {
        float most = -INFINITY;
        for (int64_t n = 0; n < outputs; ++n) {
          float logit = all[row * outputs + n];
          holds &= !(logit > bounds[row * tiles + n / 16]);
          most = logit > most ? logit : most;
        }
        holds &= !(floors[row] > most);
      }
      run.report(title, holds ? "bounds hold" : "A BOUND DOES NOT HOLD", holds);
      launches += 1;
      liveRows += live;
      tilesSettled += sum;
    }
    std::vector<int32_t> counted = counts.values();
    counted.resize(3);
    run.same(title + ", counts", counted,
             std::vector<int32_t>{launches, liveRows, tilesSettled});
  });
}

/// A rounded head, of \p outputs of the rows of a matrix.
void addDraft(Suite &suite, int64_t outputs, int64_t columns, int64_t group) {
  constexpr int rows = 33;
  std::string draft = suite.kernel(
      "k" + std::to_string(suite.kernels.size()), "head_draft",
      "{activations = bf16, " + number("outputs", outputs) + ", " +
          number("columns", columns) + ", " + number("group", group) + "}",
      rows);
  suite.check([=](Run &run) {
    std::vector<Bf16> x = randomBf16(rows * columns, 81);
    std::vector<Bf16> matrix = randomBf16(outputs * columns, 82, 0.05f);
    // Rows and entries that are larger, and a row of zeros.
    for (int64_t k = 0; k < columns; ++k) {
      matrix[3 * columns + k] = 0;
      matrix[5 * columns + k] = x[2 * columns + k];
      // Twins: the first one counts.
      matrix[7 * columns + k] = matrix[(outputs - 1) * columns + k] =
          x[3 * columns + k];
    }
    x[4 * columns + 1] = toBf16(200);
    Rounded rounded = packRounded(matrix, outputs, columns, group);
    std::vector<double> logits =
        multiply(x, rounded.values, rows, outputs, columns);
    Array<Bf16> input(run, x);
    Array<uint8_t> codes(run, rounded.packed);
    for (int live : {rows, 16, 5, 1}) {
      Array<int32_t> result(run, size_t(rows));
      Array<int32_t> count(run, std::vector<int32_t>{live});
      run.launch(draft, {&input, &codes, &result}, rows, &count);
      std::vector<int32_t> got = result.values();
      std::string title = "head_draft " + std::to_string(outputs) + "x" +
                          std::to_string(columns) + " g" +
                          std::to_string(group) + ", " + std::to_string(live) +
                          " rows";
      run.untouched(title, got, live);
      // What is chosen is no further from the largest than rounding explains.
      double worst = 0;
      bool isToken = true;
      for (int64_t row = 0; row < live; ++row) {
        const double *of = logits.data() + row * outputs;
        double most = -INFINITY, squares = 0;
        for (int64_t n = 0; n < outputs; ++n) {
          most = std::max(most, of[n]);
          squares += of[n] * of[n];
        }
        isToken &= got[row] >= 0 && got[row] < outputs;
        if (isToken)
          worst = std::max(worst, (most - of[got[row]]) /
                                      std::sqrt(squares / double(outputs)));
      }
      bool good = isToken && worst < 1e-3;
      if (live > 3)
        good &= got[2] == 5 && got[3] == 7;
      char text[64];
      std::snprintf(text, sizeof(text), "off by %.1e", worst);
      run.report(title, text, good);
    }
  });
}

} // namespace

void tandem::gpucheck::addHeadChecks(Suite &suite) {
  addDraft(suite, 6144, 384, 128);
  addDraft(suite, 20000, 2560, 128);
  addDraft(suite, 515, 192, 64);
  addDraft(suite, 3000, 5120, 128);
  for (Kind kind : {Kind::Random, Kind::NearTies, Kind::EqualRows,
                    Kind::Outliers, Kind::Extremes}) {
    addHead(suite, kind, 6144, 384);
    addHead(suite, kind, 20000, 2560);
    addHead(suite, kind, 515, 100);
  }
  // Several slices of columns, and digits in phases.
  addHead(suite, Kind::Random, 5000, 4096);
  addHead(suite, Kind::Random, 3000, 5120);
  addHead(suite, Kind::Outliers, 3000, 5120);
  addHead(suite, Kind::Random, 40, 64);
  addHead(suite, Kind::NearTies, 300, 101);
}
