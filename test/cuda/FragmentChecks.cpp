//===- FragmentChecks.cpp - Layers that leave tokens to each other --------===//
//
// Three fused layers of codes behind each other, as down, gate and up, and down
// of a decoder: the first prepares the norm of the second, which leaves its
// result as the third takes it. Against loops, and where nothing is rounded
// another time against the same layers that write and read rows.
//
//===----------------------------------------------------------------------===//

#include "test/cuda/Run.h"
#include "test/cuda/Suite.h"
#include "test/cuda/Weights.h"

#include <memory>

using namespace tandem::gpucheck;

namespace {

constexpr float kEps = 1e-6f, kOffset = 1.0f;
constexpr int64_t kSquareColumns = 16;
/// What tokens in fragments are multiplied by: 2^64.
constexpr float kFactor = 18446744073709551616.0f;

/// The layers multiply `columns`, `width` and `inner` columns.
struct Chain {
  int64_t columns, width, inner, group;

  std::string title() const {
    return "fragments " + std::to_string(columns) + " " +
           std::to_string(width) + " " + std::to_string(inner) + " g" +
           std::to_string(group);
  }
};

/// Kernels of tiles of 8 or 16 rows; `..Rows` write or read rows. `dense` has
/// bf16 weights and reads what `second` does, as a and b of a delta layer.
struct ChainKernels {
  std::string first, firstRows, second, secondRows, third, thirdRows, dense;
};
constexpr int64_t kDenseWidth = 32;

ChainKernels addKernels(Suite &suite, const Chain &chain, int tile) {
  auto add = [&](int64_t columns, const std::string &widths, bool norm,
                 bool gated, bool residual, const std::string &more) {
    std::string name = "k" + std::to_string(suite.kernels.size());
    return suite.kernel(
        name, "fused_quant_linear",
        "{activations = bf16, bits = 4 : i64, scale = bf16, " +
            number("group", chain.group) + ", " + number("columns", columns) +
            ", widths = array<i64: " + widths +
            ">, eps = 1.0e-6 : f32, offset = 1.0 : f32, " +
            number("norm", norm) + ", " + number("gated", gated) + ", " +
            number("residual", residual) + ", " + number("row_tile", tile) +
            more + "}",
        tile, /*needsClusters=*/true);
  };
  std::string width = std::to_string(chain.width),
              inner = std::to_string(chain.inner), both = inner + ", " + inner;
  std::string from = ", " + number("from_fragments", 1),
              to = ", " + number("to_fragments", 1);
  return {
      add(chain.columns, width, false, false, true,
          ", " + number("next_norm", 1) + ", next_offset = 1.0 : f32"),
      add(chain.columns, width, false, false, true, ""),
      add(chain.width, both, true, true, false, from + to),
      add(chain.width, both, true, true, false, from),
      add(chain.inner, width, false, false, true, from),
      add(chain.inner, width, false, false, true, ""),
      suite.kernel("k" + std::to_string(suite.kernels.size()), "fused_linear",
                   "{activations = bf16, result = f32, element = bf16, " +
                       number("columns", chain.width) +
                       ", widths = array<i64: 32, 32>, eps = 1.0e-6 : f32, "
                       "offset = 1.0 : f32, " +
                       number("norm", 1) + ", " + number("gated", 0) + ", " +
                       number("residual", 0) + ", " + number("row_tile", tile) +
                       from + "}",
                   tile, /*needsClusters=*/true),
  };
}

/// Where column \p column of \p token lies among \p tile tokens, as
/// fragments.cuh draws it.
size_t placeOf(int64_t column, int64_t token, int64_t tile) {
  int64_t block = column / 32, word = column % 32 / 8, pair = column % 8 / 2;
  int64_t lane = token % 8 * 4 + pair;
  int64_t octet = block * (tile / 8) + token / 8;
  return size_t(((octet * 32 + lane) * 4 + word) * 2 + column % 2);
}

class ChainRun {
public:
  ChainRun(Run &run, const Chain &chain)
      : run(run), chain(chain), norm(randomFloat(chain.width, 72, 0.3f)),
        input(run, randomBf16(16 * chain.columns, 71)), normMemory(run, norm),
        residual(run, randomBf16(16 * chain.width, 73)) {
    addWeight(chain.width, chain.columns);
    addWeight(chain.inner, chain.width);
    addWeight(chain.inner, chain.width);
    addWeight(chain.width, chain.inner);
    for (int i = 0; i < 2; ++i) {
      dense.push_back(makeDense(kDenseWidth, chain.width, kBf16, 90 + 2 * i));
      denseMemory.push_back(
          std::make_unique<Array<uint8_t>>(run, dense.back().packed));
    }
  }

  /// What the three layers make of \p live of \p tile rows.
  struct Results {
    std::vector<Bf16> first, second, third;
    std::vector<float> dense[2];
  };
  Results check(const ChainKernels &kernels, int tile, int live) {
    std::string title = chain.title() + ", " + std::to_string(live) + " of " +
                        std::to_string(tile) + " rows";
    Array<int32_t> count(run, std::vector<int32_t>{live});
    size_t rows = tile;
    Array<Bf16> y(run, rows * chain.width), plain(run, rows * chain.width),
        tokens(run, rows * chain.width);
    Array<float> squares(run, chain.width / kSquareColumns * rows);
    Results results;

    run.launch(kernels.first,
               {&input, weights[0].get(), &residual, &normMemory, &y, &tokens,
                &squares},
               tile, &count);
    run.launch(kernels.firstRows, {&input, weights[0].get(), &residual, &plain},
               tile, &count);
    results.first = y.values();
    run.untouched(title, results.first, live * chain.width);
    run.same(title + ", rows beside fragments", cut(plain, live, chain.width),
             cut(y, live, chain.width));
    checkTokens(title, results.first, tokens.values(), squares.values(), tile,
                live);

    Array<Bf16> gated(run, rows * chain.inner),
        gatedTokens(run, rows * chain.inner);
    run.launch(kernels.secondRows,
               {&tokens, weights[1].get(), weights[2].get(), &squares, &gated},
               tile, &count);
    run.launch(
        kernels.second,
        {&tokens, weights[1].get(), weights[2].get(), &squares, &gatedTokens},
        tile, &count);
    results.second = cut(gated, live, chain.inner);
    run.untouched(title, gated.values(), live * chain.inner);
    compareGated(title, results.first, results.second, live);
    std::vector<Bf16> lying = gatedTokens.values(), expected, got;
    for (int row = 0; row < live; ++row)
      for (int64_t column = 0; column < chain.inner; ++column) {
        Bf16 value = results.second[row * chain.inner + column];
        expected.push_back(toBf16(fromBf16(value) * kFactor));
        got.push_back(lying[placeOf(column, row, tile)]);
      }
    run.same(title + ", a result in fragments", expected, got);

    Array<float> a(run, rows * kDenseWidth), b(run, rows * kDenseWidth);
    run.launch(
        kernels.dense,
        {&tokens, denseMemory[0].get(), denseMemory[1].get(), &squares, &a, &b},
        tile, &count);
    results.dense[0] = a.values();
    results.dense[1] = b.values();
    Normed normed = normOf(results.first, live);
    for (int i = 0; i < 2; ++i) {
      run.untouched(title, results.dense[i], live * kDenseWidth);
      results.dense[i].resize(live * kDenseWidth);
      std::vector<double> expected = multiply(normed.tokens, dense[i].values,
                                              live, kDenseWidth, chain.width);
      for (size_t j = 0; j < expected.size(); ++j)
        expected[j] *= normed.factors[j / kDenseWidth];
      run.compare(title + ", norm and bf16 weights", expected, results.dense[i],
                  2e-5);
    }

    Array<Bf16> last(run, rows * chain.width),
        lastPlain(run, rows * chain.width);
    run.launch(kernels.third,
               {&gatedTokens, weights[3].get(), &residual, &last}, tile,
               &count);
    run.launch(kernels.thirdRows,
               {&gated, weights[3].get(), &residual, &lastPlain}, tile, &count);
    results.third = cut(last, live, chain.width);
    run.untouched(title, last.values(), live * chain.width);
    run.same(title + ", fragments as rows", cut(lastPlain, live, chain.width),
             results.third);
    results.first.resize(live * chain.width);
    return results;
  }

  /// Whether the first rows of \p a and \p b have the same bits.
  void checkRows(const std::string &what, const Results &a, const Results &b) {
    auto compare = [&](const auto &one, const auto &other) {
      size_t count = std::min(one.size(), other.size());
      return std::memcmp(one.data(), other.data(), count * sizeof(one[0])) == 0;
    };
    bool equal = compare(a.first, b.first) && compare(a.second, b.second) &&
                 compare(a.third, b.third) && compare(a.dense[0], b.dense[0]) &&
                 compare(a.dense[1], b.dense[1]);
    run.report(chain.title() + ", " + what,
               equal ? "same bits" : "DIFFERENT BITS", equal);
  }

private:
  void addWeight(int64_t outputs, int64_t columns) {
    values.push_back(makeCodes(outputs, columns, 4, chain.group, kBf16,
                               80 + 2 * values.size()));
    weights.push_back(
        std::make_unique<Array<uint8_t>>(run, values.back().packed));
  }

  static std::vector<Bf16> cut(const Array<Bf16> &memory, int live,
                               int64_t columns) {
    std::vector<Bf16> rows = memory.values();
    rows.resize(live * columns);
    return rows;
  }

  /// What the first layer has prepared of rows \p y.
  void checkTokens(const std::string &title, const std::vector<Bf16> &y,
                   const std::vector<Bf16> &tokens,
                   const std::vector<float> &squares, int tile, int live) {
    std::vector<Bf16> expected, got;
    std::vector<double> sums;
    std::vector<float> gotSums;
    for (int row = 0; row < live; ++row) {
      double sum = 0;
      for (int64_t column = 0; column < chain.width; ++column) {
        float value = fromBf16(y[row * chain.width + column]);
        Bf16 weighed = toBf16(value * (norm[column] + kOffset));
        expected.push_back(toBf16(fromBf16(weighed) * kFactor));
        got.push_back(tokens[placeOf(column, row, tile)]);
        sum += double(value) * value;
        if (column % kSquareColumns == kSquareColumns - 1) {
          sums.push_back(sum);
          gotSums.push_back(squares[column / kSquareColumns * tile + row]);
          sum = 0;
        }
      }
    }
    run.same(title + ", tokens times the next norm", expected, got);
    run.compare(title + ", squares", sums, gotSums, 1e-6);
  }

  /// What a layer takes of rows \p y, and what its sums are multiplied by.
  struct Normed {
    std::vector<Bf16> tokens;
    std::vector<double> factors;
  };
  Normed normOf(const std::vector<Bf16> &y, int live) const {
    Normed result = {std::vector<Bf16>(live * chain.width), {}};
    for (int row = 0; row < live; ++row) {
      double squares = 0;
      for (int64_t k = 0; k < chain.width; ++k) {
        float value = fromBf16(y[row * chain.width + k]);
        result.tokens[row * chain.width + k] =
            toBf16(value * (norm[k] + kOffset));
        squares += double(value) * value;
      }
      result.factors.push_back(1 /
                               std::sqrt(squares / double(chain.width) + kEps));
    }
    return result;
  }

  /// The second layer against loops.
  void compareGated(const std::string &title, const std::vector<Bf16> &y,
                    const std::vector<Bf16> &got, int live) {
    Normed normed = normOf(y, live);
    std::vector<double> gate = multiply(normed.tokens, values[1].values, live,
                                        chain.inner, chain.width),
                        up = multiply(normed.tokens, values[2].values, live,
                                      chain.inner, chain.width);
    std::vector<float> numbers;
    for (size_t i = 0; i < gate.size(); ++i) {
      double factor = normed.factors[i / chain.inner];
      double rounded = roundBf16(float(gate[i] * factor));
      gate[i] = roundBf16(float(rounded / (1 + std::exp(-rounded)))) *
                roundBf16(float(up[i] * factor));
      numbers.push_back(fromBf16(got[i]));
    }
    // As in FusedChecks.cpp.
    run.compare(title + ", norm and gate", gate, numbers, 1.2e-2);
  }

  Run &run;
  const Chain &chain;
  std::vector<float> norm;
  Array<Bf16> input;
  Array<float> normMemory;
  Array<Bf16> residual;
  std::vector<Weight> values, dense;
  std::vector<std::unique_ptr<Array<uint8_t>>> weights, denseMemory;
};

void addChain(Suite &suite, const Chain &chain) {
  ChainKernels eight = addKernels(suite, chain, 8),
               sixteen = addKernels(suite, chain, 16);
  suite.check([=](Run &run) {
    if (!run.has(sixteen.first))
      return;
    ChainRun chains(run, chain);
    ChainRun::Results all = chains.check(sixteen, 16, 16);
    chains.checkRows("7 rows as among 16", all, chains.check(sixteen, 16, 7));
    chains.checkRows("a row as among 16", all, chains.check(sixteen, 16, 1));
    chains.checkRows("8 rows of a tile of 8 as among 16", all,
                     chains.check(eight, 8, 8));
    chains.checkRows("a row of a tile of 8 as among 16", all,
                     chains.check(eight, 8, 1));
  });
}

} // namespace

void tandem::gpucheck::addFragmentChecks(Suite &suite) {
  // Tiny and demo pair.
  addChain(suite, {192, 64, 192, 32});
  addChain(suite, {1024, 384, 1024, 32});
  addChain(suite, {320, 96, 160, 32});
  addChain(suite, {256, 128, 384, 64});
  // Qwen3.5-4B and its drafter: o and down in front of gate and up.
  addChain(suite, {4096, 2560, 9216, 32});
  addChain(suite, {9216, 2560, 9216, 32});
  addChain(suite, {4096, 2560, 9728, 128});
}
