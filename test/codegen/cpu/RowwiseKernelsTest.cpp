//===- RowwiseKernelsTest.cpp - Norms, elementwise, rows and columns ------===//

#include "test/codegen/cpu/KernelHarness.h"

#include <algorithm>

using namespace tandem::test;

namespace {

class RowwiseKernels : public KernelTest {
protected:
  static constexpr int64_t rows = 5, liveRows = 4;

  /// Runs a kernel of [rows, columns] inputs, then weights, and checks live
  /// rows against \p reference(row, column) and the others for being left
  /// alone. A row alone must have the same bits.
  template <typename Reference>
  void check(const std::string &symbol, std::vector<Buffer *> operands,
             size_t rowInputs, int64_t columns, Reference reference,
             double tolerance = 2e-6) {
    Array<float> y(rows * columns, poison);
    operands.push_back(&y);
    kernels.run(symbol, operands, 0, 0);
    kernels.run(symbol, operands, liveRows, liveRows);
    for (int64_t i = 0; i < rows * columns; ++i) {
      if (i >= liveRows * columns) {
        ASSERT_EQ(y[i], poison) << symbol;
        continue;
      }
      double expected = reference(i / columns, i % columns);
      expectNear(expected, y[i], expected,
                 symbol + " row " + std::to_string(i / columns) + " column " +
                     std::to_string(i % columns),
                 tolerance);
    }
    for (int64_t row = 0; row < liveRows; ++row) {
      Array<float> alone(columns, poison);
      std::vector<void *> pointers;
      for (size_t i = 0; i + 1 < operands.size(); ++i)
        pointers.push_back(operands[i]->data() +
                           (i < rowInputs ? row * columns * 4 : 0));
      pointers.push_back(alone.data());
      kernels.call(symbol, pointers, 1, 0, 1);
      EXPECT_EQ(0, std::memcmp(alone.data(), &y[row * columns], columns * 4))
          << symbol << " row " << row;
    }
  }
};

TANDEM_TEST_ALL_LEVELS(RowwiseKernels);

double exactSigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

struct NormShape {
  int64_t columns, dim;
};

TEST_P(RowwiseKernels, norms) { // P5.03
  const NormShape shapes[] = {{1, 1},    {24, 8},   {33, 33},  {64, 32},
                              {384, 64}, {130, 65}, {512, 512}};
  auto name = [](const char *prefix, const NormShape &shape) {
    return prefix + std::to_string(shape.columns);
  };
  for (const NormShape &shape : shapes) {
    std::map<std::string, std::string> parameters = {
        {"columns", std::to_string(shape.columns)},
        {"dim", std::to_string(shape.dim)},
        {"eps", "1.0e-3 : f32"}};
    kernels.add(name("l2", shape), "l2_norm", parameters);
    kernels.add(name("gated", shape), "gated_rms_norm", parameters);
    parameters["offset"] = shape.columns % 2 ? "0.0 : f32" : "1.0 : f32";
    kernels.add(name("rms", shape), "rms_norm", parameters);
  }
  kernels.compile();
  for (const NormShape &shape : shapes) {
    auto [columns, dim] = shape;
    Array<float> x(rows * columns), gate(rows * columns), w(dim);
    random.fill(x);
    random.fill(gate, 4.0f);
    random.fill(w);
    auto squares = [&, columns = columns, dim = dim](int64_t row,
                                                     int64_t column) {
      double sum = 0;
      int64_t first = row * columns + column / dim * dim;
      for (int64_t i = first; i < first + dim; ++i)
        sum += double(x[i]) * x[i];
      return sum;
    };
    auto rms = [&, columns = columns, dim = dim](int64_t row, int64_t column) {
      return x[row * columns + column] /
             std::sqrt(squares(row, column) / dim + 1e-3);
    };
    check(name("l2", shape), {&x}, 1, columns,
          [&, columns = columns](int64_t row, int64_t column) {
            return x[row * columns + column] /
                   std::sqrt(squares(row, column) + 1e-3);
          });
    double offset = columns % 2 ? 0.0 : 1.0;
    check(
        name("rms", shape), {&x, &w}, 1, columns,
        [&, dim = dim](int64_t row, int64_t column) {
          return rms(row, column) * (double(w[column % dim]) + offset);
        },
        // w + 1 may cancel.
        1e-4);
    check(name("gated", shape), {&x, &gate, &w}, 2, columns,
          [&, columns = columns, dim = dim](int64_t row, int64_t column) {
            double z = gate[row * columns + column];
            return rms(row, column) * w[column % dim] * z * exactSigmoid(z);
          });
  }
}

TEST_P(RowwiseKernels, elementwise) {
  const int64_t widths[] = {1, 8, 16, 17, 100};
  for (int64_t columns : widths)
    for (const char *family : {"silu", "sigmoid", "add", "mul"})
      kernels.add(family + std::to_string(columns), family,
                  {{"columns", std::to_string(columns)}});
  kernels.compile();
  for (int64_t columns : widths) {
    Array<float> x(rows * columns), z(rows * columns);
    random.fill(x, 10.0f);
    random.fill(z);
    auto at = [&](Array<float> &array, int64_t row, int64_t column) {
      return double(array[row * columns + column]);
    };
    std::string suffix = std::to_string(columns);
    check("silu" + suffix, {&x}, 1, columns, [&](int64_t row, int64_t column) {
      return at(x, row, column) * exactSigmoid(at(x, row, column));
    });
    check("sigmoid" + suffix, {&x}, 1, columns,
          [&](int64_t row, int64_t column) {
            return exactSigmoid(at(x, row, column));
          });
    check("add" + suffix, {&x, &z}, 2, columns,
          [&](int64_t row, int64_t column) {
            return float(at(x, row, column) + at(z, row, column));
          });
    check("mul" + suffix, {&x, &z}, 2, columns,
          [&](int64_t row, int64_t column) {
            return float(at(x, row, column) * at(z, row, column));
          });
  }
}

TEST_P(RowwiseKernels, extremes) { // P5.04
  constexpr int64_t count = 12;
  kernels.add("silu", "silu", {{"columns", std::to_string(count)}});
  kernels.add("sigmoid", "sigmoid", {{"columns", std::to_string(count)}});
  kernels.compile();
  float infinity = std::numeric_limits<float>::infinity();
  Array<float> x(std::vector<float>{0.0f, -0.0f, 88.0f, -88.0f, 89.5f, -89.5f,
                                    1e30f, -1e30f, infinity, -infinity, 1e-40f,
                                    std::nanf("")});
  Array<float> y(count, poison), z(count, poison);
  kernels.run("sigmoid", {&x, &y}, 1, 1);
  kernels.run("silu", {&x, &z}, 1, 1);
  for (int64_t i = 0; i + 1 < count; ++i) {
    double expected = exactSigmoid(x[i]);
    EXPECT_NEAR(y[i], expected, 2e-6 * expected + 1e-38) << x[i];
    if (std::isfinite(x[i])) {
      EXPECT_NEAR(z[i], x[i] * expected,
                  std::fabs(2e-6 * x[i] * expected) + 1e-36)
          << x[i];
    }
  }
  EXPECT_EQ(z[8], infinity);
  EXPECT_TRUE(std::isnan(y[count - 1]));
  EXPECT_TRUE(std::isnan(z[count - 1]));
}

/// The error of exp and of the functions made of it over their whole range.
TEST_P(RowwiseKernels, accuracy) {
  constexpr int64_t count = 20000;
  kernels.add("sigmoid", "sigmoid", {{"columns", std::to_string(count)}});
  kernels.add("gate", "delta_gate", {{"columns", std::to_string(count)}});
  kernels.compile();
  Array<float> x(count), y(count), zero(count, 0.0f);
  for (int64_t i = 0; i < count; ++i)
    x[i] = -85.0f + 170.0f * i / count;
  kernels.run("sigmoid", {&x, &y}, 1, 1);
  for (int64_t i = 0; i < count; ++i)
    expectNear(exactSigmoid(x[i]), y[i], exactSigmoid(x[i]),
               std::to_string(x[i]), 4e-7);
  // -exp(0) * softplus(x + 0).
  kernels.run("gate", {&x, &zero, &zero, &y}, 1, 1);
  for (int64_t i = 0; i < count; ++i) {
    double expected = x[i] > 20 ? x[i] : std::log1p(std::exp(double(x[i])));
    expectNear(-expected, y[i], expected, std::to_string(x[i]), 4e-7);
  }
}

TEST_P(RowwiseKernels, deltaGate) { // P5.04
  const int64_t widths[] = {1, 8, 32, 33};
  for (int64_t columns : widths)
    kernels.add("gate" + std::to_string(columns), "delta_gate",
                {{"columns", std::to_string(columns)}});
  kernels.compile();
  for (int64_t columns : widths) {
    Array<float> x(rows * columns), rate(columns), bias(columns);
    random.fill(x, 6.0f);
    random.fill(rate);
    random.fill(bias);
    x[0] = 30.0f;
    check("gate" + std::to_string(columns), {&x, &rate, &bias}, 1, columns,
          [&](int64_t row, int64_t column) {
            // The sum is rounded to f32 in the kernel.
            double z = x[row * columns + column] + bias[column];
            double soft = z > 20 ? z : std::log1p(std::exp(z));
            return -std::exp(double(rate[column])) * soft;
          });
  }
}

TEST_P(RowwiseKernels, movers) {
  kernels.add("last", "last_row", {{"columns", "33"}});
  kernels.add("drop", "drop_rows", {{"columns", "20"}, {"first", "2"}});
  kernels.add("split", "split",
              {{"groups", "3"}, {"widths", "array<i64: 48, 9, 60>"}});
  kernels.add("concat", "concat_features",
              {{"widths", "array<i64: 5, 16, 40>"}});
  kernels.add("copy", "copy", {{"bytes", "1031"}});
  kernels.add("small", "copy", {{"bytes", "3"}});
  kernels.compile();

  Array<float> x(6 * 33), y(33, poison);
  random.fill(x);
  // A count of more rows than there are is that of all.
  for (int32_t value : {0, 1, 4, 6, 7, 1000, -5}) {
    Array<int32_t> count(1, value);
    kernels.run("last", {&x, &count, &y}, 6, 1);
    for (int64_t i = 0; i < 33; ++i)
      EXPECT_EQ(y[i], x[(std::clamp(value, 1, 6) - 1) * 33 + i]);
  }

  Array<float> d(7 * 20), e(5 * 20, poison);
  random.fill(d);
  kernels.run("drop", {&d, &e}, 3, 3);
  for (int64_t i = 0; i < 5 * 20; ++i)
    EXPECT_EQ(e[i], i < 3 * 20 ? d[i + 2 * 20] : poison);

  const int64_t widths[] = {48, 9, 60};
  Array<float> s(3 * 117), a(3 * 48, poison), b(3 * 9, poison),
      c(3 * 60, poison);
  random.fill(s);
  kernels.run("split", {&s, &a, &b, &c}, 2, 2);
  Array<float> *parts[] = {&a, &b, &c};
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t group = 0, offset = 0; group < 3; ++group)
      for (int64_t part = 0; part < 3; ++part)
        for (int64_t i = 0; i < widths[part] / 3; ++i, ++offset)
          EXPECT_EQ((*parts[part])[row * widths[part] +
                                   group * (widths[part] / 3) + i],
                    row < 2 ? s[row * 117 + offset] : poison);

  Array<float> p(2 * 5), q(2 * 16), r(2 * 40), all(3 * 61, poison);
  random.fill(p);
  random.fill(q);
  random.fill(r);
  kernels.run("concat", {&p, &q, &r, &all}, 2, 2);
  for (int64_t i = 0; i < 3 * 61; ++i) {
    int64_t row = i / 61, column = i % 61;
    float expected = row == 2      ? poison
                     : column < 5  ? p[row * 5 + column]
                     : column < 21 ? q[row * 16 + column - 5]
                                   : r[row * 40 + column - 21];
    EXPECT_EQ(all[i], expected);
  }

  for (const auto &[symbol, bytes] :
       {std::pair<std::string, size_t>{"copy", 1031}, {"small", 3}}) {
    Array<uint8_t> from(bytes), to(bytes);
    for (size_t i = 0; i < bytes; ++i)
      from[i] = static_cast<uint8_t>(i * 7 + 1);
    kernels.run(symbol, {&from, &to}, 1, 1);
    EXPECT_EQ(from.save(), to.save());
  }
}

TEST_P(RowwiseKernels, rope) {
  struct Shape {
    int64_t heads, headDim, dims;
  };
  const Shape shapes[] = {{6, 64, 16}, {1, 8, 8}, {2, 128, 128}, {3, 20, 6}};
  constexpr int64_t positions = 50;
  auto symbolOf = [](const Shape &shape) {
    return "rope" + std::to_string(shape.headDim);
  };
  for (const Shape &shape : shapes)
    kernels.add(symbolOf(shape), "rope",
                {{"columns", std::to_string(shape.heads * shape.headDim)},
                 {"dims", std::to_string(shape.dims)},
                 {"head_dim", std::to_string(shape.headDim)},
                 {"positions", std::to_string(positions)}});
  kernels.compile();
  for (const Shape &shape : shapes) {
    int64_t columns = shape.heads * shape.headDim, half = shape.dims / 2;
    Array<float> x(rows * columns), y(rows * columns, poison);
    Array<float> table(positions * shape.dims);
    random.fill(x);
    random.fill(table);
    constexpr int32_t first = 37;
    Array<int32_t> start(1, first);
    kernels.run(symbolOf(shape), {&x, &start, &table, &y}, liveRows, liveRows);
    for (int64_t i = 0; i < rows * columns; ++i) {
      int64_t row = i / columns, j = i % columns % shape.headDim;
      if (row >= liveRows) {
        EXPECT_EQ(y[i], poison);
        continue;
      }
      const float *cosines = &table[(first + row) * shape.dims];
      const float *sines = cosines + half;
      double expected = x[i];
      if (j < half)
        expected = double(x[i]) * cosines[j] - double(x[i + half]) * sines[j];
      else if (j < shape.dims)
        expected = double(x[i]) * cosines[j - half] +
                   double(x[i - half]) * sines[j - half];
      expectNear(expected, y[i], 3.0, symbolOf(shape));
    }
    // Row 2 alone.
    Array<float> alone(columns, poison);
    Array<int32_t> there(1, first + 2);
    kernels.call(symbolOf(shape),
                 {&x[2 * columns], there.data(), table.data(), alone.data()}, 1,
                 0, 1);
    EXPECT_EQ(0, std::memcmp(alone.data(), &y[2 * columns], columns * 4));
    // A position outside of the table stays inside of its memory.
    for (int32_t outside : {-5, 49, 1 << 30}) {
      Array<int32_t> wrong(1, outside);
      kernels.run(symbolOf(shape), {&x, &wrong, &table, &y}, liveRows,
                  liveRows);
    }
  }
}

} // namespace
