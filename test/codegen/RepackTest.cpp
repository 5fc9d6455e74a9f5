//===- RepackTest.cpp - Words of checkpoints, read by hand ----------------===//
//
// Small weights in every order, with the numbers that their formats give as
// examples. EndToEndTest has whole checkpoints of each.
//
//===----------------------------------------------------------------------===//

#include "codegen/Repack.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"

#include "gtest/gtest.h"

#include <cstring>

using namespace llvm;
using namespace tandem;
using codegen::Repacked;
using lm::PackOrder;
using models::DType;
using models::TensorView;

namespace {

class RepackTest : public testing::Test {
protected:
  RepackTest() {
    context.loadDialect<plan::PlanDialect>();
    f32 = mlir::Float32Type::get(&context);
  }

  template <typename T>
  TensorView makeTensor(DType dtype, ArrayRef<int64_t> shape,
                        const std::vector<T> &values) {
    TensorView tensor;
    tensor.name = "w";
    tensor.file = "model.safetensors";
    tensor.dtype = dtype;
    tensor.shape.assign(shape.begin(), shape.end());
    tensor.bytes = ArrayRef(reinterpret_cast<const uint8_t *>(values.data()),
                            values.size() * sizeof(T));
    return tensor;
  }

  lm::SourceAttr getSource(PackOrder order, int64_t bits, int64_t columns,
                           int64_t group, bool zeroPoints,
                           int64_t zeroOffset = 0, int64_t blockRows = 1) {
    return lm::SourceAttr::get(&context, order, bits, columns, group, blockRows,
                               zeroPoints, zeroOffset);
  }

  plan::PackingAttrInterface getPacking(lm::SourceAttr source, int64_t outputs,
                                        bool floatCodes = false) {
    lm::GroupedAttr grouped = source.getGrouped(floatCodes);
    return plan::InterleavedCodesAttr::get(
        &context, outputs, source.getColumns(), grouped.getBits(),
        grouped.getGroup(), f32, grouped.getZeroPoints(), floatCodes);
  }

  template <typename T> static std::vector<T> read(const TensorView &tensor) {
    std::vector<T> values(tensor.bytes.size() / sizeof(T));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
  }

  /// Repacks \p sources, which fit.
  std::pair<std::vector<uint32_t>, std::vector<float>>
  repack(lm::SourceAttr source, plan::PackingAttrInterface packing,
         ArrayRef<const TensorView *> sources) {
    EXPECT_EQ(toString(codegen::checkRepack(source, packing, sources)), "");
    Repacked result(source, packing, sources);
    return {read<uint32_t>(result.codes), read<float>(result.scales)};
  }

  mlir::MLIRContext context;
  mlir::Type f32;
};

/// P1.17: codes and zero points are both interleaved.
TEST_F(RepackTest, Interleaved) {
  // Eight rows with codes 0..7 in column 0 and 8 in the others; zero points
  // 1..8.
  std::vector<uint32_t> codes(8, 0x88888888), zeros = {0x86427531};
  codes[0] = 0x75316420;
  std::vector<float> scales(8);
  for (int row = 0; row < 8; ++row)
    scales[row] = 1.0f + row;
  TensorView codeTensor = makeTensor(DType::I32, {8, 1}, codes);
  TensorView scaleTensor = makeTensor(DType::F32, {1, 8}, scales);
  TensorView zeroTensor = makeTensor(DType::I32, {1, 1}, zeros);
  lm::SourceAttr source = getSource(PackOrder::interleaved, 4, 8, 8, true);
  auto [newCodes, newScales] = repack(source, getPacking(source, 8),
                                      {&codeTensor, &scaleTensor, &zeroTensor});
  for (uint32_t row = 0; row < 8; ++row) {
    EXPECT_EQ(newCodes[row], 0x88888880 + row);
    EXPECT_EQ(newScales[2 * row], 1.0f + row);
    EXPECT_EQ(newScales[2 * row + 1], float(row) + 1 - 8);
  }
}

/// P1.16: the first version of GPTQ stores zero points less one, modulo 16.
TEST_F(RepackTest, ByColumn) {
  std::vector<uint32_t> codes = {0x76543210, 1, 2, 3, 4, 5, 6, 0xfedcba98};
  std::vector<uint32_t> zeros = {0xf7654321};
  std::vector<float> scales(8, 0.5f);
  TensorView codeTensor = makeTensor(DType::I32, {1, 8}, codes);
  TensorView scaleTensor = makeTensor(DType::F32, {1, 8}, scales);
  TensorView zeroTensor = makeTensor(DType::I32, {1, 1}, zeros);
  for (int64_t offset : {0, 1}) {
    lm::SourceAttr source =
        getSource(PackOrder::by_column, 4, 8, 8, true, offset);
    auto [newCodes, newScales] =
        repack(source, getPacking(source, 8),
               {&codeTensor, &scaleTensor, &zeroTensor});
    EXPECT_EQ(newCodes, codes); // one word a row: nothing to move
    for (int64_t row = 0; row < 8; ++row)
      EXPECT_EQ(newScales[2 * row + 1],
                float((int64_t(zeros[0] >> (4 * row) & 15) + offset) % 16 - 8));
  }
}

/// P1.18: zero points along the rows, the last word of which is not full.
TEST_F(RepackTest, ByRow) {
  constexpr int64_t rows = 12, groups = 3;
  std::vector<uint32_t> codes(rows * groups, 0x01234567), zeros(2 * groups);
  std::vector<float> scales(rows * groups);
  auto zeroOf = [](int64_t row, int64_t group) {
    return uint32_t(row * 5 + group * 3) % 16;
  };
  for (int64_t row = 0; row < 16; ++row)
    for (int64_t group = 0; group < groups; ++group) {
      // What lies behind the last row is nobody's.
      uint32_t zero = row < rows ? zeroOf(row, group) : 9;
      zeros[row / 8 * groups + group] |= zero << (row % 8 * 4);
      if (row < rows)
        scales[row * groups + group] = float(row * groups + group);
    }
  TensorView codeTensor = makeTensor(DType::I32, {rows, groups}, codes);
  TensorView scaleTensor = makeTensor(DType::F32, {rows, groups}, scales);
  TensorView zeroTensor = makeTensor(DType::I32, {2, groups}, zeros);
  lm::SourceAttr source = getSource(PackOrder::by_row, 4, 24, 8, true);
  auto [newCodes, newScales] = repack(source, getPacking(source, rows),
                                      {&codeTensor, &scaleTensor, &zeroTensor});
  EXPECT_EQ(newCodes, codes);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t group = 0; group < groups; ++group) {
      EXPECT_EQ(newScales[2 * (row * groups + group)],
                scales[row * groups + group]);
      EXPECT_EQ(newScales[2 * (row * groups + group) + 1],
                float(zeroOf(row, group)) - 8);
    }
}

/// Blocks that neither the rows nor the columns fill.
TEST_F(RepackTest, Blocks) {
  std::vector<uint8_t> codes(3 * 6);
  for (size_t index = 0; index < codes.size(); ++index)
    codes[index] = static_cast<uint8_t>(index);
  std::vector<float> scales = {1, 2, 3, 4};
  TensorView codeTensor = makeTensor(DType::F8E4M3, {3, 6}, codes);
  TensorView scaleTensor = makeTensor(DType::F32, {2, 2}, scales);
  lm::SourceAttr source =
      getSource(PackOrder::by_row, 8, 6, 4, false, 0, /*blockRows=*/2);
  auto packing = getPacking(source, 3, /*floatCodes=*/true);
  auto [newCodes, newScales] =
      repack(source, packing, {&codeTensor, &scaleTensor});
  EXPECT_EQ(newCodes, (std::vector<uint32_t>{0x03020100, 0x0504, 0x09080706,
                                             0x0b0a, 0x0f0e0d0c, 0x1110}));
  // Groups of two columns, the greatest common divisor of 4 and 6.
  EXPECT_EQ(newScales, (std::vector<float>{1, 1, 2, 1, 1, 2, 3, 3, 4}));
}

TEST_F(RepackTest, OneScale) {
  std::vector<uint32_t> codes(4, 0x89abcdef);
  std::vector<float> scales = {0.25f};
  TensorView codeTensor = makeTensor(DType::I32, {4, 1}, codes);
  TensorView scaleTensor = makeTensor(DType::F32, {1}, scales);
  lm::SourceAttr source =
      getSource(PackOrder::by_row, 4, 8, 8, false, 0, /*blockRows=*/4);
  auto [newCodes, newScales] =
      repack(source, getPacking(source, 4), {&codeTensor, &scaleTensor});
  EXPECT_EQ(newCodes, codes);
  EXPECT_EQ(newScales, std::vector<float>(4, 0.25f));
}

TEST_F(RepackTest, WrongTensorsAreNamed) {
  std::vector<uint32_t> codes(8);
  std::vector<float> scales(8);
  TensorView codeTensor = makeTensor(DType::I32, {1, 8}, codes);
  TensorView scaleTensor = makeTensor(DType::F32, {8, 1}, scales);
  lm::SourceAttr source = getSource(PackOrder::by_column, 4, 8, 8, false);
  EXPECT_EQ(toString(codegen::checkRepack(source, getPacking(source, 8),
                                          {&codeTensor, &scaleTensor})),
            "model.safetensors: tensor 'w' is F32 [8, 1], expected F32 [1, 8]");
  EXPECT_EQ(toString(codegen::checkRepack(source, getPacking(source, 16),
                                          {&codeTensor, &scaleTensor})),
            "model.safetensors: tensor 'w' is I32 [1, 8], expected I32 "
            "[1, 16]");
}

} // namespace
