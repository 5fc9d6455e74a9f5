//===- LinearKernelsTest.cpp - embed, linear, quant_linear ----------------===//

#include "test/codegen/cpu/KernelHarness.h"

using namespace tandem::test;

namespace {

constexpr int64_t tile = 16;
constexpr int64_t rowCounts[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,
                                 11, 12, 13, 15, 16, 17, 24, 25, 33, 64};
constexpr int64_t mostRows = 64;

/// A number as bf16 or f16 has it, and its bits there.
struct Narrow {
  float value;
  uint16_t bits;
};

Narrow toBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits &= 0xffff0000u;
  std::memcpy(&value, &bits, 4);
  return {value, static_cast<uint16_t>(bits >> 16)};
}

Narrow toF16(float value) {
  _Float16 narrow = static_cast<_Float16>(value);
  uint16_t bits;
  std::memcpy(&bits, &narrow, 2);
  return {static_cast<float>(narrow), bits};
}

/// Appends a number as \p type to packed bytes; returns what it became.
float append(std::vector<uint8_t> &bytes, const std::string &type,
             float value) {
  if (type == "f32") {
    bytes.resize(bytes.size() + 4);
    std::memcpy(&bytes[bytes.size() - 4], &value, 4);
    return value;
  }
  Narrow narrow = type == "bf16" ? toBf16(value) : toF16(value);
  bytes.push_back(narrow.bits & 0xff);
  bytes.push_back(narrow.bits >> 8);
  return narrow.value;
}

/// A weight as kernels read it, and its numbers.
struct Weight {
  int64_t outputs, columns;
  std::vector<float> values;
  std::vector<uint8_t> packed;

  float at(int64_t output, int64_t column) const {
    return values[output * columns + column];
  }
};

/// `#plan.interleaved`.
Weight makeDense(Random &random, int64_t outputs, int64_t columns,
                 const std::string &element) {
  Weight weight = {outputs, columns, {}, {}};
  weight.values.resize(outputs * columns);
  for (int64_t first = 0; first < outputs; first += tile)
    for (int64_t column = 0; column < columns; ++column)
      for (int64_t output = first; output < first + tile; ++output) {
        float value = append(weight.packed, element,
                             output < outputs ? random.number() : 0.0f);
        if (output < outputs)
          weight.values[output * columns + column] = value;
      }
  return weight;
}

/// What a code means, and how its bits are found.
enum class Codes { Integer, WithZeros, Float };

/// The value of the bits of an f8E4M3FN.
float decodeFloat8(uint32_t bits) {
  int exponent = static_cast<int>(bits >> 3 & 15), fraction = bits & 7;
  float value = exponent == 0 ? std::ldexp(float(fraction), -9)
                              : std::ldexp(float(8 + fraction), exponent - 10);
  return bits & 0x80 ? -value : value;
}

/// `#plan.interleaved_codes`.
Weight makeCoded(Random &random, int64_t outputs, int64_t columns, int64_t bits,
                 int64_t group, const std::string &scaleType,
                 Codes kind = Codes::Integer) {
  Weight weight = {outputs, columns, {}, {}};
  weight.values.resize(outputs * columns);
  int64_t perWord = 32 / bits, half = int64_t(1) << (bits - 1);
  for (int64_t first = 0; first < outputs; first += tile)
    for (int64_t start = 0; start < columns; start += group) {
      float scales[tile];
      for (float &scale : scales)
        scale = append(weight.packed, scaleType,
                       0.01f + 0.001f * random.integer(0, 50));
      float zeros[tile] = {};
      if (kind == Codes::WithZeros)
        for (float &zero : zeros)
          zero = append(weight.packed, scaleType,
                        static_cast<float>(random.integer(-half, half - 1)));
      for (int64_t word = 0; word * perWord < group; ++word)
        for (int64_t lane = 0; lane < tile; ++lane) {
          uint32_t codes = 0;
          for (int64_t i = 0; i < perWord && word * perWord + i < group; ++i) {
            int64_t code = random.integer(-half, half - 1);
            codes |= (static_cast<uint32_t>(code) & (2 * half - 1))
                     << (i * bits);
            float value = static_cast<float>(code) - zeros[lane];
            if (kind == Codes::Float) {
              // All but the NaNs.
              uint32_t byte = codes >> (i * bits) & 0xff;
              if ((byte & 0x7f) == 0x7f)
                codes ^= 1u << (i * bits);
              value = decodeFloat8(codes >> (i * bits) & 0xff);
            }
            if (first + lane < outputs)
              weight.values[(first + lane) * columns + start + word * perWord +
                            i] = value * scales[lane];
          }
          size_t at = weight.packed.size();
          weight.packed.resize(at + 4);
          std::memcpy(&weight.packed[at], &codes, 4);
        }
    }
  return weight;
}

/// What a kernel rounds rows to before it multiplies them.
struct Rounding {
  /// "f32", "bf16" or "i8".
  std::string arithmetic = "f32";
  /// Columns that have a scale together in i8.
  int64_t group = 1;

  std::vector<double> apply(const float *row, int64_t columns) const {
    std::vector<double> rounded(row, row + columns);
    if (arithmetic == "bf16")
      for (int64_t i = 0; i < columns; ++i) {
        uint32_t bits;
        std::memcpy(&bits, &row[i], 4);
        bits += 0x7fff + (bits >> 16 & 1);
        bits &= 0xffff0000u;
        float value;
        std::memcpy(&value, &bits, 4);
        rounded[i] = value;
      }
    for (int64_t first = 0; arithmetic == "i8" && first < columns;
         first += group) {
      float largest = 0;
      for (int64_t i = first; i < first + group; ++i)
        largest = std::max(largest, std::fabs(row[i]));
      float scale = largest * (1.0f / 127), inverse = 127.0f / largest;
      for (int64_t i = first; i < first + group; ++i)
        rounded[i] =
            largest == 0 ? 0 : std::nearbyint(double(row[i]) * inverse) * scale;
    }
    return rounded;
  }
};

class LinearKernels : public KernelTest {
protected:
  /// Checks a product against doubles, and that rows do not know each other.
  void check(const std::string &symbol, const Weight &weight,
             const Rounding &rounding = {}) {
    int64_t columns = weight.columns, outputs = weight.outputs;
    Array<float> x(mostRows * columns);
    random.fill(x);
    // Columns of zeros are a group without a largest number.
    std::fill(&x[0], &x[0] + std::min<int64_t>(columns, rounding.group), 0.0f);
    Array<uint8_t> w(weight.packed);
    int64_t tiles = (outputs + tile - 1) / tile;

    // Every row alone.
    std::vector<float> alone(mostRows * outputs);
    for (int64_t row = 0; row < mostRows; ++row) {
      Array<float> y(outputs, poison);
      call(symbol, {&x[row * columns], w.data(), y.data()}, tiles);
      std::vector<double> known = rounding.apply(&x[row * columns], columns);
      for (int64_t output = 0; output < outputs; ++output) {
        double sum = 0, scale = 0;
        for (int64_t column = 0; column < columns; ++column) {
          double term = known[column] * weight.at(output, column);
          sum += term;
          scale += std::fabs(term);
        }
        expectNear(sum, y[output], scale, symbol);
        alone[row * outputs + output] = y[output];
      }
    }
    for (int64_t rows : rowCounts) {
      Array<float> y(mostRows * outputs, poison);
      // Rows that do not count are not read either.
      Array<float> live(std::vector<float>(&x[0], &x[0] + rows * columns));
      kernels.run(symbol, {&live, &w, &y}, rows, tiles);
      for (int64_t i = 0; i < mostRows * outputs; ++i)
        ASSERT_EQ(y[i], i < rows * outputs ? alone[i] : poison)
            << symbol << " with " << rows << " rows, row " << i / outputs
            << ", output " << i % outputs;
    }
  }

private:
  void call(const std::string &symbol, const std::vector<void *> &operands,
            int64_t tiles) {
    kernels.call(symbol, operands, 1, 0, tiles);
  }
};

TANDEM_TEST_ALL_LEVELS(LinearKernels);

struct CodedShape {
  int64_t outputs, columns, bits, group;
  const char *scale;
  Codes kind = Codes::Integer;
};

TEST_P(LinearKernels, quantLinear) { // P4.01, P5.02
  const CodedShape shapes[] = {
      {1, 32, 4, 32, "bf16"},
      {5, 96, 4, 32, "f16"},
      {16, 128, 4, 64, "bf16"},
      {17, 256, 4, 128, "bf16"},
      {33, 40, 4, 8, "f32"},
      {40, 36, 4, 12, "bf16"},
      {80, 24, 4, 4, "bf16"},
      {24, 35, 4, 35, "f16"},
      {100, 64, 4, 32, "bf16"},
      {32, 16, 4, 16, "bf16"},
      {31, 64, 8, 32, "bf16"},
      {16, 66, 8, 6, "f32"},
      {48, 20, 8, 4, "f16"},
      {7, 3, 8, 1, "bf16"},
      {17, 192, 4, 32, "f16", Codes::WithZeros},
      {40, 44, 4, 44, "f32", Codes::WithZeros},
      {16, 160, 8, 32, "bf16", Codes::WithZeros},
      {33, 256, 8, 128, "f32", Codes::Float},
      {5, 72, 8, 8, "bf16", Codes::Float},
  };
  auto symbolOf = [](const CodedShape &shape) {
    return "q" + std::to_string(shape.outputs) + "x" +
           std::to_string(shape.columns);
  };
  for (const CodedShape &shape : shapes) {
    std::map<std::string, std::string> parameters = {
        {"bits", std::to_string(shape.bits)},
        {"columns", std::to_string(shape.columns)},
        {"group", std::to_string(shape.group)},
        {"outputs", std::to_string(shape.outputs)},
        {"scale", shape.scale}};
    if (shape.kind == Codes::WithZeros)
      parameters["zero_points"] = "1";
    if (shape.kind == Codes::Float)
      parameters["float_codes"] = "1";
    kernels.add(symbolOf(shape), "quant_linear", parameters);
  }
  kernels.compile();
  for (const CodedShape &shape : shapes)
    check(symbolOf(shape),
          makeCoded(random, shape.outputs, shape.columns, shape.bits,
                    shape.group, shape.scale, shape.kind));
}

// Rows are rounded to a few bits, and then products are exact.
TEST_P(LinearKernels, narrowQuantLinear) {
  const CodedShape shapes[] = {
      {1, 32, 4, 32, "bf16"},     {17, 96, 4, 32, "f16"},
      {33, 48, 4, 16, "bf16"},    {40, 128, 4, 64, "f32"},
      {100, 256, 4, 128, "bf16"}, {31, 64, 8, 32, "bf16"},
      {16, 128, 8, 64, "f32"},
  };
  for (const std::string arithmetic : {"bf16", "i8"}) {
    auto symbolOf = [&](const CodedShape &shape) {
      return arithmetic + "_" + std::to_string(shape.outputs) + "x" +
             std::to_string(shape.columns);
    };
    for (const CodedShape &shape : shapes)
      kernels.add(symbolOf(shape), "quant_linear",
                  {{"arithmetic", arithmetic},
                   {"bits", std::to_string(shape.bits)},
                   {"columns", std::to_string(shape.columns)},
                   {"group", std::to_string(shape.group)},
                   {"outputs", std::to_string(shape.outputs)},
                   {"scale", shape.scale}});
  }
  kernels.compile();
  for (const std::string arithmetic : {"bf16", "i8"})
    for (const CodedShape &shape : shapes)
      check(arithmetic + "_" + std::to_string(shape.outputs) + "x" +
                std::to_string(shape.columns),
            makeCoded(random, shape.outputs, shape.columns, shape.bits,
                      shape.group, shape.scale),
            {arithmetic, shape.group});
}

// A row that is not finite must not look like one that is.
TEST_P(LinearKernels, narrowRowsStayInfiniteOrNoNumber) {
  for (const std::string arithmetic : {"bf16", "i8"})
    kernels.add(arithmetic + "_q", "quant_linear",
                {{"arithmetic", arithmetic},
                 {"bits", "4"},
                 {"columns", "64"},
                 {"group", "32"},
                 {"outputs", "16"},
                 {"scale", "bf16"}});
  kernels.compile();
  Weight weight = makeCoded(random, 16, 64, 4, 32, "bf16");
  Array<uint8_t> w(weight.packed);
  for (const std::string arithmetic : {"bf16", "i8"})
    for (float bad : {std::numeric_limits<float>::infinity(),
                      -std::numeric_limits<float>::infinity(),
                      std::numeric_limits<float>::quiet_NaN()})
      for (int64_t place : {0, 31, 40}) {
        Array<float> x(64), y(16);
        random.fill(x);
        x[place] = bad;
        kernels.run(arithmetic + "_q", {&x, &w, &y}, 1, 1);
        for (int64_t output = 0; output < 16; ++output)
          if (weight.at(output, place) != 0) {
            EXPECT_FALSE(std::isfinite(y[output]))
                << arithmetic << ", output " << output << ": " << y[output];
          }
      }
}

struct DenseShape {
  int64_t outputs, columns;
  const char *element;
};

TEST_P(LinearKernels, linear) {
  const DenseShape shapes[] = {
      {1, 1, "bf16"},  {8, 33, "bf16"},   {16, 64, "f32"}, {40, 130, "f16"},
      {23, 7, "bf16"}, {100, 16, "bf16"}, {64, 31, "f32"},
  };
  auto symbolOf = [](const DenseShape &shape) {
    return "d" + std::to_string(shape.outputs) + "x" +
           std::to_string(shape.columns);
  };
  for (const DenseShape &shape : shapes)
    kernels.add(symbolOf(shape), "linear",
                {{"columns", std::to_string(shape.columns)},
                 {"element", shape.element},
                 {"outputs", std::to_string(shape.outputs)}});
  kernels.compile();
  for (const DenseShape &shape : shapes)
    check(symbolOf(shape),
          makeDense(random, shape.outputs, shape.columns, shape.element));
}

TEST_P(LinearKernels, narrowLinear) {
  const DenseShape shapes[] = {
      {1, 16, "bf16"}, {8, 32, "bf16"}, {40, 144, "bf16"}, {100, 64, "bf16"}};
  auto symbolOf = [](const DenseShape &shape) {
    return "d" + std::to_string(shape.outputs) + "x" +
           std::to_string(shape.columns);
  };
  for (const DenseShape &shape : shapes)
    kernels.add(symbolOf(shape), "linear",
                {{"arithmetic", "bf16"},
                 {"columns", std::to_string(shape.columns)},
                 {"element", shape.element},
                 {"outputs", std::to_string(shape.outputs)}});
  kernels.compile();
  for (const DenseShape &shape : shapes)
    check(symbolOf(shape),
          makeDense(random, shape.outputs, shape.columns, shape.element),
          {"bf16"});
}

TEST_P(LinearKernels, embed) {
  const DenseShape shapes[] = {
      {1, 5, "bf16"}, {40, 33, "bf16"}, {19, 16, "f16"}, {16, 64, "f32"}};
  const float scales[] = {1.0f, 0.5f, 3.0f, 1.0f};
  for (size_t i = 0; i < 4; ++i)
    kernels.add("e" + std::to_string(i), "embed",
                {{"columns", std::to_string(shapes[i].columns)},
                 {"element", shapes[i].element},
                 {"scale_by", std::to_string(scales[i]) + " : f32"},
                 {"vocabulary", std::to_string(shapes[i].outputs)}});
  kernels.compile();
  for (size_t i = 0; i < 4; ++i) {
    int64_t vocabulary = shapes[i].outputs, columns = shapes[i].columns;
    Weight weight = makeDense(random, vocabulary, columns, shapes[i].element);
    Array<uint8_t> table(weight.packed);
    constexpr int64_t rows = 7, liveRows = 6;
    Array<int32_t> tokens(rows);
    for (int64_t row = 0; row < rows; ++row)
      tokens[row] = static_cast<int32_t>(random.integer(0, vocabulary - 1));
    // Outside the table.
    tokens[1] = static_cast<int32_t>(vocabulary);
    tokens[2] = -1;
    tokens[3] = static_cast<int32_t>(vocabulary - 1);
    Array<float> y(rows * columns, poison);
    kernels.run("e" + std::to_string(i), {&tokens, &table, &y}, liveRows,
                liveRows);
    for (int64_t j = 0; j < rows * columns; ++j) {
      int64_t row = j / columns;
      int32_t token = row == 1 || row == 2 ? 0 : tokens[row];
      EXPECT_EQ(y[j], row < liveRows ? weight.at(token, j % columns) * scales[i]
                                     : poison);
    }
  }
}

} // namespace
