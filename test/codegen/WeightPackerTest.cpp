//===- WeightPackerTest.cpp - Every packing, unpacked again ---------------===//

#include "codegen/WeightPacker.h"
#include "dialects/plan/KernelFamilies.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include "test/cuda/Packing.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace llvm;
using namespace tandem;
using models::DType;
using models::TensorView;
using plan::kTile;

namespace {

/// A tensor in memory of its own, which starts at an odd address as tensors of
/// a checkpoint may.
class OwnedTensor {
public:
  template <typename T>
  OwnedTensor(DType dtype, ArrayRef<int64_t> shape, ArrayRef<T> values)
      : memory(1 + values.size() * sizeof(T)) {
    std::memcpy(memory.data() + 1, values.data(), values.size() * sizeof(T));
    tensor.name = "layers.0.w";
    tensor.dtype = dtype;
    tensor.shape.assign(shape.begin(), shape.end());
    tensor.bytes = ArrayRef<uint8_t>(memory).drop_front();
    tensor.file = "model.safetensors";
  }

  const TensorView *operator&() const { return &tensor; }

private:
  std::vector<uint8_t> memory;
  TensorView tensor;
};

class WeightPackerTest : public testing::Test {
protected:
  WeightPackerTest() {
    context.loadDialect<plan::PlanDialect>();
    f32 = mlir::Float32Type::get(&context);
    bf16 = mlir::BFloat16Type::get(&context);
    f16 = mlir::Float16Type::get(&context);
  }

  /// The packed bytes; fails the test when there are not as many as the packing
  /// says.
  std::vector<uint8_t> pack(plan::PackingAttrInterface packing,
                            ArrayRef<const TensorView *> sources) {
    std::vector<uint8_t> bytes;
    EXPECT_EQ(errorOf(codegen::checkSources(packing, sources)), "");
    Error error =
        codegen::packWeight(packing, sources, [&](ArrayRef<uint8_t> piece) {
          bytes.insert(bytes.end(), piece.begin(), piece.end());
          return Error::success();
        });
    EXPECT_EQ(errorOf(std::move(error)), "");
    EXPECT_EQ(static_cast<int64_t>(bytes.size()), packing.getSizeInBytes());
    return bytes;
  }

  static std::string errorOf(Error error) { return toString(std::move(error)); }

  template <typename T> static T read(ArrayRef<uint8_t> bytes, int64_t index) {
    T value;
    std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
    return value;
  }

  mlir::MLIRContext context;
  mlir::Type f32, bf16, f16;
};

TEST_F(WeightPackerTest, Interleaved) {
  // 21 outputs: the second tile is filled up.
  constexpr int64_t outputs = 21, columns = 5;
  std::vector<uint16_t> values(outputs * columns);
  for (size_t index = 0; index < values.size(); ++index)
    values[index] = static_cast<uint16_t>(index * 631 + 7);
  OwnedTensor matrix(DType::BF16, {outputs, columns}, ArrayRef(values));
  auto packing = plan::InterleavedAttr::get(&context, outputs, columns, bf16);
  std::vector<uint8_t> bytes = pack(packing, {&matrix});

  for (int64_t output = 0; output < 2 * kTile; ++output)
    for (int64_t column = 0; column < columns; ++column) {
      int64_t place =
          (output / kTile * columns + column) * kTile + output % kTile;
      uint16_t expected =
          output < outputs ? values[output * columns + column] : 0;
      EXPECT_EQ(read<uint16_t>(bytes, place), expected)
          << "output " << output << ", column " << column;
    }
}

TEST_F(WeightPackerTest, InterleavedF32) {
  std::vector<float> values;
  for (int index = 0; index < 16 * 3; ++index)
    values.push_back(float(index) * 0.25f);
  OwnedTensor matrix(DType::F32, {16, 3}, ArrayRef(values));
  std::vector<uint8_t> bytes =
      pack(plan::InterleavedAttr::get(&context, 16, 3, f32), {&matrix});
  for (int64_t output = 0; output < 16; ++output)
    for (int64_t column = 0; column < 3; ++column)
      EXPECT_EQ(read<float>(bytes, column * 16 + output),
                values[output * 3 + column]);
}

/// Codes of `outputs x columns` in the layout of compressed-tensors.
struct Codes {
  Codes(int64_t outputs, int64_t columns, int64_t bits)
      : perWord(32 / bits), wordsPerRow((columns + perWord - 1) / perWord),
        words(outputs * wordsPerRow), values(outputs * columns) {
    for (int64_t row = 0; row < outputs; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        // All codes, in an order that is not the same in any two rows.
        int64_t code = (row * 5 + column * 7 + column / 3) & ((1 << bits) - 1);
        values[row * columns + column] = code - (int64_t(1) << (bits - 1));
        words[row * wordsPerRow + column / perWord] |=
            uint32_t(code) << (column % perWord * bits);
      }
      // What lies behind the last column is not part of the weight.
      for (int64_t column = columns; column < wordsPerRow * perWord; ++column)
        words[row * wordsPerRow + column / perWord] |=
            1u << (column % perWord * bits);
    }
  }

  int64_t perWord;
  int64_t wordsPerRow;
  std::vector<uint32_t> words;
  /// With the offset taken off.
  std::vector<int64_t> values;
};

struct CodeCase {
  int64_t outputs, columns, bits, group;
};

class CodePackerTest : public WeightPackerTest,
                       public testing::WithParamInterface<CodeCase> {};

TEST_P(CodePackerTest, InterleavedCodes) {
  auto [outputs, columns, bits, group] = GetParam();
  Codes codes(outputs, columns, bits);
  int64_t groups = columns / group;
  std::vector<uint16_t> scales(outputs * groups);
  for (size_t index = 0; index < scales.size(); ++index)
    scales[index] = static_cast<uint16_t>(0x3000 + index);
  OwnedTensor codeTensor(DType::I32, {outputs, codes.wordsPerRow},
                         ArrayRef(codes.words));
  OwnedTensor scaleTensor(DType::BF16, {outputs, groups}, ArrayRef(scales));
  auto packing = plan::InterleavedCodesAttr::get(&context, outputs, columns,
                                                 bits, group, bf16);
  std::vector<uint8_t> bytes = pack(packing, {&codeTensor, &scaleTensor});

  int64_t tiles = (outputs + kTile - 1) / kTile;
  for (int64_t output = 0; output < tiles * kTile; ++output)
    for (int64_t index = 0; index < groups; ++index) {
      ArrayRef<uint8_t> record =
          ArrayRef(bytes).drop_front(output / kTile * packing.getTileBytes() +
                                     index * packing.getGroupBytes());
      int64_t lane = output % kTile;
      bool live = output < outputs;
      EXPECT_EQ(read<uint16_t>(record, lane),
                live ? scales[output * groups + index] : 0);
      ArrayRef<uint8_t> words = record.drop_front(kTile * 2);
      for (int64_t slot = 0; slot < packing.getWordsPerGroup() * codes.perWord;
           ++slot) {
        auto word = read<uint32_t>(words, slot / codes.perWord * kTile + lane);
        // Shifted up and down again for the sign.
        int64_t shift = 32 - bits * (slot % codes.perWord + 1);
        int64_t value = static_cast<int32_t>(word << shift) >> (32 - bits);
        int64_t column = index * group + slot;
        EXPECT_EQ(value, live && slot < group
                             ? codes.values[output * columns + column]
                             : 0)
            << "output " << output << ", column " << column;
      }
    }
}

/// Against the layout that Packing.h reads off the drawing.
TEST_P(CodePackerTest, FragmentCodes) {
  auto [outputs, columns, bits, group] = GetParam();
  Codes codes(outputs, columns, bits);
  int64_t groups = columns / group;
  std::vector<uint16_t> scales(outputs * groups);
  for (size_t index = 0; index < scales.size(); ++index)
    scales[index] = static_cast<uint16_t>(0x3000 + index);
  OwnedTensor codeTensor(DType::I32, {outputs, codes.wordsPerRow},
                         ArrayRef(codes.words));
  OwnedTensor scaleTensor(DType::BF16, {outputs, groups}, ArrayRef(scales));
  auto packing = plan::FragmentCodesAttr::get(&context, outputs, columns, bits,
                                              group, bf16);
  std::vector<uint8_t> bytes = pack(packing, {&codeTensor, &scaleTensor});

  gpucheck::Fragments sizes = {outputs, columns, bits, group, 2};
  ASSERT_EQ(static_cast<int64_t>(bytes.size()), sizes.bytes());
  for (int64_t output = 0; output < sizes.tiles() * 16; ++output)
    for (int64_t unit = 0; unit < sizes.units(); ++unit)
      for (int64_t part = 0; part < sizes.unitGroups(); ++part) {
        int64_t index = unit * sizes.unitSteps() / sizes.groupSteps() + part;
        int64_t offset =
            sizes.unitOffset(output, unit) + sizes.scalePlace(output, part);
        EXPECT_EQ(read<uint16_t>(ArrayRef(bytes).drop_front(offset), 0),
                  output < outputs && index < groups
                      ? scales[output * groups + index]
                      : 0)
            << "output " << output << ", unit " << unit;
      }
  for (int64_t output = 0; output < outputs; ++output)
    for (int64_t column = 0; column < columns; ++column) {
      auto [offset, bit] = sizes.codePlace(output, column);
      auto word = read<uint32_t>(ArrayRef(bytes).drop_front(offset), 0);
      int64_t code = word >> bit & ((1u << bits) - 1);
      EXPECT_EQ(code - (int64_t(1) << (bits - 1)),
                codes.values[output * columns + column])
          << "output " << output << ", column " << column;
    }
}

/// Zero points lie behind the scales; codes lie where they do without.
TEST_P(CodePackerTest, FragmentCodesWithZeroPoints) {
  auto [outputs, columns, bits, group] = GetParam();
  Codes codes(outputs, columns, bits);
  int64_t groups = columns / group;
  // Of every group the scale, then the zero point.
  std::vector<uint16_t> pairs(outputs * groups * 2);
  for (size_t index = 0; index < pairs.size(); ++index)
    pairs[index] = static_cast<uint16_t>(0x3000 + index);
  OwnedTensor codeTensor(DType::I32, {outputs, codes.wordsPerRow},
                         ArrayRef(codes.words));
  OwnedTensor pairTensor(DType::BF16, {outputs, groups * 2}, ArrayRef(pairs));
  auto packing = plan::FragmentCodesAttr::get(&context, outputs, columns, bits,
                                              group, bf16, /*zero_points=*/true,
                                              /*float_codes=*/false);
  std::vector<uint8_t> bytes = pack(packing, {&codeTensor, &pairTensor});

  std::vector<uint8_t> raw(outputs * columns), scales, zeros;
  for (size_t i = 0; i < raw.size(); ++i)
    raw[i] = static_cast<uint8_t>(codes.values[i] + (1 << (bits - 1)));
  for (size_t index = 0; index < pairs.size(); ++index) {
    auto &half = index % 2 ? zeros : scales;
    half.push_back(static_cast<uint8_t>(pairs[index]));
    half.push_back(static_cast<uint8_t>(pairs[index] >> 8));
  }
  gpucheck::Fragments sizes = {outputs, columns, bits, group, 2, true};
  std::vector<uint8_t> expected =
      gpucheck::packFragments(sizes, raw, scales, zeros);
  ASSERT_EQ(bytes.size(), expected.size());
  // Codes that stand for nothing are those of zero, in expected() they are 0.
  for (int64_t output = 0; output < outputs; ++output) {
    for (int64_t index = 0; index < groups; ++index)
      for (int64_t offset :
           {sizes.scaleOffset(output, index),
            sizes.scaleOffset(output, index) + sizes.zeroOffset()})
        EXPECT_EQ(read<uint16_t>(ArrayRef(bytes).drop_front(offset), 0),
                  read<uint16_t>(ArrayRef(expected).drop_front(offset), 0))
            << "output " << output << ", group " << index;
    for (int64_t column = 0; column < columns; ++column) {
      auto [offset, bit] = sizes.codePlace(output, column);
      uint32_t mask = ((1u << bits) - 1) << bit;
      EXPECT_EQ(read<uint32_t>(ArrayRef(bytes).drop_front(offset), 0) & mask,
                read<uint32_t>(ArrayRef(expected).drop_front(offset), 0) & mask)
          << "output " << output << ", column " << column;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CodePackerTest,
    testing::Values(CodeCase{16, 64, 4, 32}, CodeCase{40, 64, 4, 16},
                    CodeCase{3, 24, 8, 8},
                    // Groups that end inside a word of the checkpoint.
                    CodeCase{17, 36, 4, 12}, CodeCase{5, 10, 8, 2},
                    CodeCase{16, 15, 4, 5}, CodeCase{16, 7, 4, 1},
                    // One scale a row, and a row that ends inside a word.
                    CodeCase{20, 20, 4, 20}, CodeCase{9, 30, 8, 30},
                    // Units of several groups and groups of several units.
                    CodeCase{33, 480, 4, 48}, CodeCase{18, 448, 4, 224},
                    CodeCase{24, 384, 8, 128}));

TEST_F(WeightPackerTest, Rows) {
  std::vector<uint16_t> values;
  for (int index = 0; index < 5 * 11; ++index)
    values.push_back(static_cast<uint16_t>(0x3f80 + index));
  OwnedTensor matrix(DType::BF16, {5, 11}, ArrayRef(values));
  EXPECT_EQ(pack(plan::RowsAttr::get(&context, 5, 11, bf16), {&matrix}),
            gpucheck::packRows(values.data(), 5, 11, 2));
}

TEST_F(WeightPackerTest, Vector) {
  float numbers[] = {0.0f, 1.5f, -2.25f, 65504.0f, 0x1p-24f, -0.125f};
  uint16_t half[] = {0x0000, 0x3e00, 0xc080, 0x7bff, 0x0001, 0xb000};
  uint16_t brain[6];
  for (int index = 0; index < 6; ++index)
    brain[index] = uint16_t(bit_cast<uint32_t>(numbers[index]) >> 16);
  auto packing = plan::VectorAttr::get(&context, 6);

  OwnedTensor single(DType::F32, {2, 3}, ArrayRef(numbers));
  OwnedTensor halves(DType::F16, {6}, ArrayRef(half));
  OwnedTensor brains(DType::BF16, {1, 6, 1}, ArrayRef(brain));
  std::vector<uint8_t> fromSingle = pack(packing, {&single});
  std::vector<uint8_t> fromHalf = pack(packing, {&halves});
  std::vector<uint8_t> fromBrain = pack(packing, {&brains});
  for (int index = 0; index < 6; ++index) {
    EXPECT_EQ(read<float>(fromSingle, index), numbers[index]);
    EXPECT_EQ(read<float>(fromHalf, index), numbers[index]);
    EXPECT_EQ(read<uint32_t>(fromBrain, index), uint32_t(brain[index]) << 16);
  }
}

TEST_F(WeightPackerTest, Taps) {
  std::vector<float> values;
  for (int index = 0; index < 6 * 4; ++index)
    values.push_back(float(index));
  OwnedTensor weights(DType::F32, {6, 1, 4}, ArrayRef(values));
  std::vector<uint8_t> bytes =
      pack(plan::TapsAttr::get(&context, 4, 6), {&weights});
  for (int64_t tap = 0; tap < 4; ++tap)
    for (int64_t channel = 0; channel < 6; ++channel)
      EXPECT_EQ(read<float>(bytes, tap * 6 + channel),
                values[channel * 4 + tap]);
}

TEST_F(WeightPackerTest, RopeTable) { // P3.10
  auto theta = mlir::Builder(&context).getF64FloatAttr(1e7);
  std::vector<uint8_t> bytes =
      pack(plan::RopeTableAttr::get(&context, 1000, 8, theta), {});
  for (int64_t position = 0; position < 1000; ++position)
    for (int64_t j = 0; j < 4; ++j) {
      float frequency = float(std::pow(1e7, -2.0 * double(j) / 8.0));
      double angle = float(position) * frequency;
      EXPECT_EQ(read<float>(bytes, position * 8 + j), float(std::cos(angle)));
      EXPECT_EQ(read<float>(bytes, position * 8 + 4 + j),
                float(std::sin(angle)));
    }
}

//===----------------------------------------------------------------------===//
// What is refused
//===----------------------------------------------------------------------===//

TEST_F(WeightPackerTest, WrongSources) {
  std::vector<float> zeros(64);
  OwnedTensor matrix(DType::F32, {16, 4}, ArrayRef(zeros));
  OwnedTensor words(DType::I32, {16, 4}, ArrayRef(zeros));

  auto dense = plan::InterleavedAttr::get(&context, 16, 5, f32);
  EXPECT_EQ(errorOf(codegen::checkSources(dense, {&matrix})),
            "model.safetensors: tensor 'layers.0.w' is F32 [16, 4], expected "
            "F32 [16, 5]");
  dense = plan::InterleavedAttr::get(&context, 16, 4, bf16);
  EXPECT_EQ(errorOf(codegen::checkSources(dense, {&matrix})),
            "model.safetensors: tensor 'layers.0.w' is F32 [16, 4], expected "
            "BF16 [16, 4]");
  EXPECT_EQ(errorOf(codegen::checkSources(dense, {&matrix, &words})),
            "expected 1 tensors to pack, got 2");

  auto grouped = plan::InterleavedCodesAttr::get(&context, 16, 32, 4, 16, f32);
  EXPECT_EQ(errorOf(codegen::checkSources(grouped, {&words, &matrix})),
            "model.safetensors: tensor 'layers.0.w' is F32 [16, 4], expected "
            "F32 [16, 2]");
  EXPECT_EQ(errorOf(codegen::checkSources(grouped, {&matrix, &matrix})),
            "model.safetensors: tensor 'layers.0.w' is F32 [16, 4], expected "
            "I32 [16, 4]");

  auto vector = plan::VectorAttr::get(&context, 63);
  EXPECT_EQ(errorOf(codegen::checkSources(vector, {&matrix})),
            "model.safetensors: tensor 'layers.0.w' is F32 [16, 4], expected "
            "F32, BF16 or F16 with 63 entries");
  vector = plan::VectorAttr::get(&context, 64);
  EXPECT_EQ(errorOf(codegen::checkSources(vector, {&words})),
            "model.safetensors: tensor 'layers.0.w' is I32 [16, 4], expected "
            "F32, BF16 or F16 with 64 entries");

  auto taps = plan::TapsAttr::get(&context, 4, 16);
  EXPECT_EQ(errorOf(codegen::checkSources(taps, {&matrix})),
            "model.safetensors: tensor 'layers.0.w' is F32 [16, 4], expected "
            "F32, BF16 or F16 [16, 1, 4]");
}

TEST_F(WeightPackerTest, ScalesThatAreNotFinite) { // P1.25
  std::vector<uint32_t> words(16);
  OwnedTensor codes(DType::I32, {16, 1}, ArrayRef(words));
  auto packing = plan::InterleavedCodesAttr::get(&context, 16, 8, 4, 8, f32);
  for (float bad : {std::numeric_limits<float>::infinity(),
                    -std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> values(16, 1.0f);
    values[5] = bad;
    OwnedTensor scales(DType::F32, {16, 1}, ArrayRef(values));
    Error error =
        codegen::packWeight(packing, {&codes, &scales},
                            [](ArrayRef<uint8_t>) { return Error::success(); });
    EXPECT_TRUE(StringRef(errorOf(std::move(error)))
                    .starts_with("model.safetensors: tensor 'layers.0.w' at "
                                 "[5, 0] is "));
  }
}

/// A bf16 matrix with rows of all sizes.
static std::vector<uint16_t> makeRows(int64_t rows, int64_t columns) {
  gpucheck::Random random(3);
  std::vector<uint16_t> matrix(rows * columns);
  for (int64_t i = 0; i < rows * columns; ++i) {
    float size = i / columns % 5 == 1   ? 0
                 : i / columns % 5 == 2 ? 1e-39f
                 : i / columns % 5 == 3 ? 300
                                        : 0.05f;
    matrix[i] = gpucheck::toBf16(random.normal(i) * size);
  }
  return matrix;
}

template <typename T> static std::vector<T> readAs(ArrayRef<uint8_t> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST_F(WeightPackerTest, Search) {
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{40, 96}, {21, 77}}) {
    std::vector<uint16_t> matrix = makeRows(rows, columns);
    OwnedTensor tensor(DType::BF16, {rows, columns}, ArrayRef(matrix));
    for (bool fragments : {false, true}) {
      gpucheck::Searched expected =
          gpucheck::packSearched(matrix, rows, columns, fragments);
      EXPECT_EQ(
          pack(plan::SearchCodesAttr::get(&context, rows, columns, fragments),
               {&tensor}),
          expected.codes);
      EXPECT_EQ(
          readAs<float>(pack(
              plan::SearchScalesAttr::get(&context, rows, columns), {&tensor})),
          expected.scales);
      EXPECT_EQ(
          readAs<float>(pack(
              plan::SearchErrorsAttr::get(&context, rows, columns), {&tensor})),
          expected.errors);
    }
  }
}

TEST_F(WeightPackerTest, RoundedRows) {
  for (auto [outputs, columns, group] :
       {std::array<int64_t, 3>{40, 256, 128}, {21, 192, 64}}) {
    std::vector<uint16_t> matrix = makeRows(outputs, columns);
    OwnedTensor tensor(DType::BF16, {outputs, columns}, ArrayRef(matrix));
    EXPECT_EQ(
        pack(plan::RoundedRowsAttr::get(&context, outputs, columns, group),
             {&tensor}),
        gpucheck::packRounded(matrix, outputs, columns, group).packed);
  }
}

TEST_F(WeightPackerTest, RoundedCodes) {
  constexpr int64_t outputs = 21, columns = 192, group = 64;
  std::vector<uint16_t> matrix = makeRows(outputs, columns);
  OwnedTensor tensor(DType::BF16, {outputs, columns}, ArrayRef(matrix));
  auto packing = plan::RoundedCodesAttr::get(&context, outputs, columns, group);
  std::vector<uint8_t> packed = pack(packing, {&tensor});
  plan::InterleavedCodesAttr codes = packing.getCodes();
  ASSERT_EQ(static_cast<int64_t>(packed.size()), codes.getSizeInBytes());
  gpucheck::Rounded rounded =
      gpucheck::packRounded(matrix, outputs, columns, group);
  for (int64_t output = 0; output < outputs; ++output)
    for (int64_t k = 0; k < columns; ++k) {
      const uint8_t *record = packed.data() +
                              output / 16 * codes.getTileBytes() +
                              k / group * codes.getGroupBytes();
      int64_t lane = output % 16, inGroup = k % group;
      uint16_t scale;
      std::memcpy(&scale, record + lane * 2, 2);
      int code = record[codes.getScaleBytes() + (inGroup / 8 * 16 + lane) * 4 +
                        inGroup % 8 / 2] >>
                     (inGroup % 2 * 4) &
                 15;
      EXPECT_EQ(gpucheck::fromBf16(scale) *
                    static_cast<float>(code >= 8 ? code - 16 : code),
                rounded.values[output * columns + k])
          << output << ", " << k;
    }
}

TEST_F(WeightPackerTest, TokenTable) {
  auto set = lm::TokenSetAttr::get(&context, {0, 3, 70000});
  std::vector<uint8_t> packed =
      pack(plan::TokenTableAttr::get(&context, set), {});
  EXPECT_EQ(packed,
            (std::vector<uint8_t>{0, 0, 0, 0, 3, 0, 0, 0, 0x70, 0x11, 1, 0}));
}

TEST_F(WeightPackerTest, HeadsThatAreNotFinite) {
  std::vector<uint16_t> matrix(16 * 64);
  matrix[5 * 64 + 2] = 0x7f80;
  OwnedTensor tensor(DType::BF16, {16, 64}, ArrayRef(matrix));
  for (plan::PackingAttrInterface packing :
       {plan::PackingAttrInterface(
            plan::SearchErrorsAttr::get(&context, 16, 64)),
        plan::PackingAttrInterface(
            plan::RoundedRowsAttr::get(&context, 16, 64, 64))})
    EXPECT_EQ(errorOf(codegen::packWeight(
                  packing, {&tensor},
                  [](ArrayRef<uint8_t>) { return Error::success(); })),
              "model.safetensors: tensor 'layers.0.w' at [5, 2] is inf, "
              "expected a finite number");
  EXPECT_EQ(errorOf(codegen::checkSources(
                plan::RoundedRowsAttr::get(&context, 17, 64, 64), {&tensor})),
            "model.safetensors: tensor 'layers.0.w' is BF16 [16, 64], expected "
            "BF16 [17, 64]");
}

TEST_F(WeightPackerTest, StopsWhenTheSinkFails) {
  std::vector<float> values(48);
  OwnedTensor matrix(DType::F32, {48, 1}, ArrayRef(values));
  int pieces = 0;
  Error error =
      codegen::packWeight(plan::InterleavedAttr::get(&context, 48, 1, f32),
                          {&matrix}, [&](ArrayRef<uint8_t>) -> Error {
                            return ++pieces == 2
                                       ? createStringError("disk full")
                                       : Error::success();
                          });
  EXPECT_EQ(errorOf(std::move(error)), "disk full");
  EXPECT_EQ(pieces, 2);
}

} // namespace
