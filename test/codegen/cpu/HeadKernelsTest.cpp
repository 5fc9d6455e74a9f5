//===- HeadKernelsTest.cpp - Heads that are searched or rounded -----------===//
//
// head_search, head_settle and settled_argmax find the tokens of head_argmax
// and argmax_parts, whatever the numbers are, and all logits are where
// head_search says. quant_head_argmax finds the tokens of quant_linear.
//
//===----------------------------------------------------------------------===//

#include "test/codegen/cpu/KernelHarness.h"
#include "test/cuda/Packing.h"

using namespace tandem::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr int64_t mostRows = 33;

class HeadKernels : public KernelTest {};

TANDEM_TEST_ALL_LEVELS(HeadKernels);

enum class Kind { Random, EqualRows, Outliers, Extremes };

/// A head in bf16 and rows of activations.
struct Head {
  int64_t outputs, columns;
  std::vector<uint16_t> weight;
  std::vector<float> x;
};

Head makeHead(Random &random, Kind kind, int64_t outputs, int64_t columns) {
  Head head = {outputs, columns, {}, {}};
  for (int64_t i = 0; i < outputs * columns; ++i) {
    float number = random.number(0.05f);
    if (kind == Kind::Outliers && i / columns % 37 == 5)
      number *= 1000;
    head.weight.push_back(tandem::gpucheck::toBf16(number));
    if (kind == Kind::EqualRows && i >= columns)
      head.weight.back() = head.weight[i % columns];
  }
  for (int64_t i = 0; i < mostRows * columns; ++i) {
    head.x.push_back(random.number());
    if (kind == Kind::Outliers && i % columns == 3)
      head.x.back() *= 1000;
  }
  if (kind == Kind::Extremes) {
    for (int64_t k = 0; k < columns; ++k) {
      head.x[k] = 0;
      head.x[columns + k] *= 1e-38f;
      head.x[3 * columns + k] *= 1e36f;
      head.weight[7 * columns + k] = 0;
    }
    head.x[2 * columns] = infinity;
    head.x[4 * columns + columns - 1] = std::nanf("");
  }
  return head;
}

/// `#plan.interleaved` of bf16.
std::vector<uint16_t> interleave(const Head &head) {
  std::vector<uint16_t> packed((head.outputs + 15) / 16 * 16 * head.columns);
  for (int64_t output = 0; output < head.outputs; ++output)
    for (int64_t k = 0; k < head.columns; ++k)
      packed[(output / 16 * head.columns + k) * 16 + output % 16] =
          head.weight[output * head.columns + k];
  return packed;
}

TEST_P(HeadKernels, search) {
  struct Case {
    Kind kind;
    int64_t outputs, columns;
  };
  std::vector<Case> cases;
  for (Kind kind :
       {Kind::Random, Kind::EqualRows, Kind::Outliers, Kind::Extremes})
    for (auto [outputs, columns] :
         {std::pair<int64_t, int64_t>{1000, 384}, {300, 64}, {515, 99}})
      cases.push_back({kind, outputs, columns});
  auto symbol = [](const char *name, const Case &of) {
    return name + std::to_string(of.outputs) + "x" + std::to_string(of.columns);
  };
  for (const Case &each : cases) {
    if (each.kind != Kind::Random)
      continue;
    std::map<std::string, std::string> sizes = {
        {"outputs", std::to_string(each.outputs)},
        {"columns", std::to_string(each.columns)}};
    kernels.add(symbol("search", each), "head_search", sizes);
    sizes["element"] = "bf16";
    kernels.add(symbol("settle", each), "head_settle", sizes);
    kernels.add(symbol("head", each), "head_argmax", sizes);
    kernels.add(symbol("linear", each), "linear", sizes);
    std::string parts = std::to_string((each.outputs + 127) / 128);
    kernels.add(symbol("parts", each), "argmax_parts", {{"parts", parts}});
    kernels.add(symbol("largest", each), "settled_argmax",
                {{"parts", parts},
                 {"tiles", std::to_string((each.outputs + 15) / 16)}});
  }
  kernels.compile();
  for (const Case &each : cases) {
    SCOPED_TRACE(symbol("", each) + ", kind " + std::to_string(int(each.kind)));
    int64_t outputs = each.outputs, parts = (outputs + 127) / 128,
            tiles = (outputs + 15) / 16;
    Head head = makeHead(random, each.kind, outputs, each.columns);
    tandem::gpucheck::Searched searched = tandem::gpucheck::packSearched(
        head.weight, outputs, each.columns, /*fragments=*/false);
    Array<float> x(head.x), scales(searched.scales), errors(searched.errors);
    Array<uint16_t> weight(interleave(head));
    Array<uint8_t> codes(searched.codes);
    for (int64_t rows : {0, 1, 2, 4, 5, 8, 9, 16, 17, 33}) {
      Array<float> all(mostRows * outputs), best(mostRows * parts);
      Array<int32_t> bestTokens(mostRows * parts), expected(mostRows, -7);
      kernels.run(symbol("linear", each), {&x, &weight, &all}, rows, tiles);
      kernels.run(symbol("head", each), {&x, &weight, &best, &bestTokens}, rows,
                  parts);
      kernels.run(symbol("parts", each), {&best, &bestTokens, &expected}, rows,
                  rows);

      Array<float> above(mostRows * tiles, poison),
          below(mostRows * parts, poison), logits(mostRows * parts);
      Array<int32_t> tokens(mostRows * parts), settled(mostRows * parts),
          result(mostRows, -7), counts(4, 5);
      kernels.run(symbol("search", each),
                  {&x, &codes, &scales, &errors, &above, &below}, rows, parts);
      kernels.run(symbol("settle", each),
                  {&x, &weight, &above, &below, &logits, &tokens, &settled},
                  rows, parts);
      kernels.run(symbol("largest", each),
                  {&logits, &tokens, &settled, &result, &counts}, rows, rows);
      int64_t sum = 0;
      for (int64_t row = 0; row < mostRows; ++row)
        EXPECT_EQ(result[row], expected[row])
            << "row " << row << " of " << rows;
      for (int64_t place = 0; place < rows * parts; ++place)
        sum += settled[place];
      for (int64_t row = 0; row < rows; ++row) {
        float most = -infinity, floor = -infinity;
        for (int64_t output = 0; output < outputs; ++output) {
          float logit = all[row * outputs + output];
          EXPECT_FALSE(logit > above[row * tiles + output / 16])
              << "row " << row << ", output " << output;
          most = logit > most ? logit : most;
        }
        for (int64_t part = 0; part < parts; ++part)
          floor = std::max(floor, below[row * parts + part]);
        EXPECT_FALSE(floor > most) << "row " << row;
      }
      for (size_t place = rows * tiles; place < above.length(); ++place)
        EXPECT_EQ(above[place], poison);
      EXPECT_EQ(counts[0], rows ? 6 : 5);
      EXPECT_EQ(counts[1], 5 + rows);
      EXPECT_EQ(counts[2], 5 + sum);
      EXPECT_EQ(counts[3], 5 + (rows && sum >= tiles));
      // What is all the same leaves nothing out.
      if (each.kind == Kind::EqualRows && rows) {
        EXPECT_GE(sum, tiles);
      }
      // A row alone and one that is like no other do not need much.
      if (each.kind == Kind::Random && outputs == 1000 && rows == 1) {
        EXPECT_LT(sum, tiles / 4);
      }
    }
  }
}

/// The largest logit of every part is that of the layer with the same codes, to
/// the bit, and its token the first of equal ones; in all ways to multiply.
TEST_P(HeadKernels, rounded) {
  constexpr int64_t group = 64, bits = 4;
  std::vector<const char *> ways = {"f32", "bf16", "i8"};
  auto symbol = [](const char *name, const char *way, int64_t outputs) {
    return std::string(name) + way + std::to_string(outputs);
  };
  constexpr int64_t columns = 192;
  const int64_t sizes[] = {300, 13};
  for (int64_t outputs : sizes)
    for (const char *way : ways) {
      std::map<std::string, std::string> parameters = {
          {"arithmetic", way},
          {"bits", std::to_string(bits)},
          {"columns", std::to_string(columns)},
          {"group", std::to_string(group)},
          {"outputs", std::to_string(outputs)},
          {"scale", "bf16"}};
      kernels.add(symbol("head", way, outputs), "quant_head_argmax",
                  parameters);
      kernels.add(symbol("linear", way, outputs), "quant_linear", parameters);
    }
  kernels.compile();
  for (int64_t outputs : sizes) {
    int64_t tiles = (outputs + 15) / 16, parts = (outputs + 127) / 128;
    constexpr int64_t tileBytes = columns / group * (16 * 2 + group * 8);
    Array<uint8_t> weight(tiles * tileBytes);
    for (int64_t place = 0; place < tiles * tileBytes; ++place) {
      int64_t inGroup = place % (16 * 2 + group * 8);
      // Scales between 2^-8 and 2^-6, some of them negative.
      weight[place] = static_cast<uint8_t>(
          inGroup >= 16 * 2  ? random.integer(0, 255)
          : inGroup % 2 == 0 ? random.integer(0, 255)
                             : random.integer(0, 1) * 128 + 0x3c);
    }
    Array<float> x(mostRows * columns);
    random.fill(x);
    for (const char *way : ways)
      for (int64_t rows : {0, 1, 4, 16, 17, 33}) {
        SCOPED_TRACE(symbol("", way, outputs) + ", rows " +
                     std::to_string(rows));
        Array<float> all(mostRows * outputs), best(mostRows * parts, poison);
        Array<int32_t> tokens(mostRows * parts, -7);
        kernels.run(symbol("linear", way, outputs), {&x, &weight, &all}, rows,
                    tiles);
        kernels.run(symbol("head", way, outputs), {&x, &weight, &best, &tokens},
                    rows, parts);
        for (int64_t place = 0; place < mostRows * parts; ++place) {
          int64_t row = place / parts, first = place % parts * 128;
          if (row >= rows) {
            EXPECT_EQ(best[place], poison);
            EXPECT_EQ(tokens[place], -7);
            continue;
          }
          int64_t largest = first;
          for (int64_t output = first; output < std::min(first + 128, outputs);
               ++output)
            if (all[row * outputs + output] > all[row * outputs + largest])
              largest = output;
          EXPECT_EQ(tokens[place], largest);
          EXPECT_EQ(best[place], all[row * outputs + largest]);
        }
      }
  }
}

} // namespace
