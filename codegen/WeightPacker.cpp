//===- WeightPacker.cpp - Weights in the layout of the kernels ------------===//

#include "codegen/WeightPacker.h"
#include "codegen/HeadPacker.h"
#include "codegen/TensorElements.h"
#include "dialects/plan/KernelFamilies.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace llvm;
using namespace tandem;
using namespace tandem::codegen;
using models::DType;
using models::TensorView;
using plan::kTile;

namespace {

/// The element type of tensors that hold \p type, one of f32, bf16 and f16.
DType getDType(mlir::Type type) {
  return type.isF32() ? DType::F32 : type.isBF16() ? DType::BF16 : DType::F16;
}

bool isFloat(DType dtype) {
  return dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// An error at \p tensor, which is not \p expected.
Error refuse(const TensorView &tensor, const Twine &expected) {
  std::string found;
  raw_string_ostream(found) << tensor;
  return createStringError(describe(tensor) + " is " + found + ", expected " +
                           expected);
}

std::string toText(ArrayRef<int64_t> shape) {
  std::string text = "[";
  raw_string_ostream os(text);
  llvm::interleaveComma(shape, os);
  os << "]";
  return text;
}

Error expectTensor(const TensorView &tensor, DType dtype,
                   ArrayRef<int64_t> shape) {
  if (tensor.dtype == dtype && ArrayRef<int64_t>(tensor.shape) == shape)
    return Error::success();
  return refuse(tensor, models::toString(dtype) + " " + toText(shape));
}

//===----------------------------------------------------------------------===//
// One layout each
//===----------------------------------------------------------------------===//

/// Writes rows [first, first + live) of a matrix side by side into \p tile,
/// which has been filled with zeros.
template <typename T>
void interleave(const uint8_t *matrix, int64_t columns, int64_t first,
                int64_t live, uint8_t *tile) {
  for (int64_t column = 0; column < columns; ++column)
    for (int64_t lane = 0; lane < live; ++lane)
      store<T>(tile, column * kTile + lane,
               load<T>(matrix, (first + lane) * columns + column));
}

Error packInterleaved(plan::InterleavedAttr packing, const TensorView &matrix,
                      ByteSink sink) {
  int64_t width = models::getByteWidth(matrix.dtype);
  std::vector<uint8_t> tile(kTile * packing.getColumns() * width);
  for (int64_t first = 0; first < packing.getOutputs(); first += kTile) {
    int64_t live = std::min(kTile, packing.getOutputs() - first);
    if (live < kTile)
      llvm::fill(tile, 0);
    auto *write = width == 4 ? interleave<uint32_t> : interleave<uint16_t>;
    write(matrix.bytes.data(), packing.getColumns(), first, live, tile.data());
    if (Error error = sink(tile))
      return error;
  }
  return Error::success();
}

/// Checks that the scale of group \p index of row \p row, one of \p groups, is
/// finite.
Error checkScale(const TensorView &scales, int64_t row, int64_t index,
                 int64_t groups) {
  int64_t entry = row * groups + index;
  if (isFinite(scales, entry))
    return Error::success();
  return createStringError(
      describe(scales) + " at [" + Twine(row) + ", " + Twine(index) + "] is " +
      std::to_string(loadFloat(scales, entry)) + ", expected a finite scale");
}

/// Packs the codes of `#lm.grouped` with their scales.
class CodePacker {
public:
  CodePacker(plan::InterleavedCodesAttr packing, const TensorView &codes,
             const TensorView &scales)
      : packing(packing), codes(codes), scales(scales),
        perWord(32 / packing.getBits()), group(packing.getGroup()),
        groups(packing.getColumns() / group),
        wordsPerGroup(packing.getWordsPerGroup()),
        wordsPerRow(divideCeil(packing.getColumns(), perWord)),
        wholeWords(group % perWord == 0),
        // In the checkpoint a code is the value plus 2^(bits - 1). Taking that
        // off again flips the top bit. A float is what it is.
        signs(packing.getFloatCodes()  ? 0
              : packing.getBits() == 4 ? 0x88888888
                                       : 0x80808080) {}

  /// Writes outputs [first, first + live) into \p tile, which has been filled
  /// with zeros.
  Error packTile(int64_t first, int64_t live, uint8_t *tile) const {
    for (int64_t index = 0; index < groups; ++index) {
      uint8_t *record = tile + index * packing.getGroupBytes();
      if (Error error = packScales(first, live, index, record))
        return error;
      uint8_t *words = record + packing.getScaleBytes();
      for (int64_t word = 0; word < wordsPerGroup; ++word)
        for (int64_t lane = 0; lane < live; ++lane)
          store<uint32_t>(words, word * kTile + lane,
                          makeWord(first + lane, index, word));
    }
    return Error::success();
  }

private:
  Error packScales(int64_t first, int64_t live, int64_t index,
                   uint8_t *record) const {
    int64_t width = models::getByteWidth(scales.dtype);
    // A scale, and maybe the zero point behind it.
    int64_t parts = packing.getScalesPerGroup();
    for (int64_t lane = 0; lane < live; ++lane)
      for (int64_t part = 0; part < parts; ++part) {
        int64_t row = first + lane, place = index * parts + part;
        if (Error error = checkScale(scales, row, place, groups * parts))
          return error;
        std::memcpy(record + (part * kTile + lane) * width,
                    scales.bytes.data() +
                        (row * groups * parts + place) * width,
                    width);
      }
    return Error::success();
  }

  /// Word \p word of group \p index of output \p row.
  uint32_t makeWord(int64_t row, int64_t index, int64_t word) const {
    const uint8_t *words = codes.bytes.data() + row * wordsPerRow * 4;
    // Groups that are whole words lie in the checkpoint as they will here.
    if (wholeWords)
      return load<uint32_t>(words, index * wordsPerGroup + word) ^ signs;

    uint32_t bits = packing.getBits();
    uint32_t result = 0;
    int64_t begin = word * perWord;
    int64_t end = std::min(begin + perWord, group);
    for (int64_t place = begin; place < end; ++place) {
      int64_t column = index * group + place;
      uint32_t code = ((load<uint32_t>(words, column / perWord) ^ signs) >>
                       (column % perWord * bits)) &
                      maskTrailingOnes<uint32_t>(bits);
      result |= code << ((place - begin) * bits);
    }
    return result;
  }

  plan::InterleavedCodesAttr packing;
  const TensorView &codes;
  const TensorView &scales;
  /// Codes in a word, columns in a group, groups in a row.
  int64_t perWord;
  int64_t group;
  int64_t groups;
  int64_t wordsPerGroup;
  int64_t wordsPerRow;
  /// Whether no word holds codes of two groups.
  bool wholeWords;
  /// The top bits of the codes of a word.
  uint32_t signs;
};

Error packCodes(plan::InterleavedCodesAttr packing, const TensorView &codes,
                const TensorView &scales, ByteSink sink) {
  CodePacker packer(packing, codes, scales);
  std::vector<uint8_t> tile(packing.getTileBytes());
  for (int64_t first = 0; first < packing.getOutputs(); first += kTile) {
    int64_t live = std::min(kTile, packing.getOutputs() - first);
    if (live < kTile)
      llvm::fill(tile, 0);
    if (Error error = packer.packTile(first, live, tile.data()))
      return error;
    if (Error error = sink(tile))
      return error;
  }
  return Error::success();
}

Error packRows(plan::RowsAttr packing, const TensorView &matrix,
               ByteSink sink) {
  int64_t columnBytes =
      packing.getColumns() * models::getByteWidth(matrix.dtype);
  std::vector<uint8_t> row(packing.getRowBytes());
  for (int64_t output = 0; output < packing.getOutputs(); ++output) {
    std::memcpy(row.data(), matrix.bytes.data() + output * columnBytes,
                columnBytes);
    if (Error error = sink(row))
      return error;
  }
  return Error::success();
}

/// Packs the codes of `#lm.grouped` with their scales as operands of tensor
/// cores.
class FragmentPacker {
public:
  FragmentPacker(plan::FragmentCodesAttr packing, const TensorView &codes,
                 const TensorView &scales)
      : packing(packing), codes(codes), scales(scales),
        bits(static_cast<uint32_t>(packing.getBits())), perWord(32 / bits),
        group(packing.getGroup()), groups(packing.getColumns() / group),
        groupSteps(packing.getGroupSteps()),
        wordsPerRow(divideCeil(packing.getColumns(), perWord)),
        unitWords(packing.getUnitWords()), vector(unitWords % 4 == 0   ? 4
                                                  : unitWords % 2 == 0 ? 2
                                                                       : 1) {}

  /// Writes outputs from \p first on into \p tile, which has been filled with
  /// zeros.
  Error packTile(int64_t first, uint8_t *tile) const {
    for (int64_t unit = 0; unit < packing.getUnits(); ++unit) {
      uint8_t *record = tile + unit * packing.getUnitBytes();
      if (Error error = packScales(first, unit, record))
        return error;
      uint8_t *words = record + packing.getScaleBytes();
      for (int64_t lane = 0; lane < 32; ++lane)
        for (int64_t word = 0; word < unitWords; ++word)
          store<uint32_t>(words,
                          word / vector * vector * 32 + lane * vector +
                              word % vector,
                          makeWord(first, unit, lane, word));
    }
    return Error::success();
  }

private:
  Error packScales(int64_t first, int64_t unit, uint8_t *record) const {
    int64_t width = models::getByteWidth(scales.dtype);
    int64_t unitGroups = packing.getUnitGroups();
    // A scale, and maybe the zero point behind it, which go to two blocks.
    int64_t kinds = packing.getScalesPerGroup();
    for (int64_t lane = 0; lane < kTile; ++lane)
      for (int64_t part = 0; part < unitGroups; ++part) {
        int64_t row = first + lane;
        int64_t index = unit * packing.getUnitSteps() / groupSteps + part;
        if (row >= packing.getOutputs() || index >= groups)
          continue;
        for (int64_t kind = 0; kind < kinds; ++kind) {
          int64_t column = index * kinds + kind;
          if (Error error = checkScale(scales, row, column, groups * kinds))
            return error;
          // Output g, then output g + 8.
          int64_t place =
              (kind * kTile + lane % 8 * 2 + lane / 8) * unitGroups + part;
          std::memcpy(record + place * width,
                      scales.bytes.data() +
                          (row * groups * kinds + column) * width,
                      width);
        }
      }
    return Error::success();
  }

  /// Word \p word of lane \p lane in unit \p unit.
  uint32_t makeWord(int64_t first, int64_t unit, int64_t lane,
                    int64_t word) const {
    int64_t wordsPerStep = bits / 4;
    int64_t step = unit * packing.getUnitSteps() + word / wordsPerStep;
    // The registers that this word holds, each two columns.
    int64_t begin = bits == 4 ? 0 : word % wordsPerStep * 2;
    int64_t end = bits == 4 ? 4 : begin + 2;
    uint32_t result = 0;
    for (int64_t i = begin; i < end; ++i) {
      int64_t row = first + lane / 4 + i % 2 * 8;
      int64_t inStep = lane % 4 * 2 + i / 2 * 8;
      for (int64_t half = 0; half < 2; ++half) {
        uint32_t place =
            bits == 4 ? 4 * i + 16 * half : 16 * (i - begin) + 8 * half;
        result |= getCode(row, step, inStep + half) << place;
      }
    }
    return result;
  }

  /// The code of column \p inStep of step \p step; that of zero where there is
  /// none.
  uint32_t getCode(int64_t row, int64_t step, int64_t inStep) const {
    int64_t inGroup = step % groupSteps * 16 + inStep;
    int64_t column = step / groupSteps * group + inGroup;
    if (row >= packing.getOutputs() || inGroup >= group ||
        column >= packing.getColumns())
      return 1u << (bits - 1);
    uint32_t word = load<uint32_t>(codes.bytes.data(),
                                   row * wordsPerRow + column / perWord);
    return word >> (column % perWord * bits) & maskTrailingOnes<uint32_t>(bits);
  }

  plan::FragmentCodesAttr packing;
  const TensorView &codes;
  const TensorView &scales;
  uint32_t bits;
  /// Codes in a word, columns in a group, groups in a row, steps in a group.
  int64_t perWord;
  int64_t group;
  int64_t groups;
  int64_t groupSteps;
  int64_t wordsPerRow;
  /// Words of a lane in a unit, and how many of them lie side by side.
  int64_t unitWords;
  int64_t vector;
};

Error packFragments(plan::FragmentCodesAttr packing, const TensorView &codes,
                    const TensorView &scales, ByteSink sink) {
  FragmentPacker packer(packing, codes, scales);
  std::vector<uint8_t> tile(packing.getUnits() * packing.getUnitBytes());
  for (int64_t first = 0; first < packing.getOutputs(); first += kTile) {
    llvm::fill(tile, 0);
    if (Error error = packer.packTile(first, tile.data()))
      return error;
    if (Error error = sink(tile))
      return error;
  }
  return Error::success();
}

Error packVector(const TensorView &vector, ByteSink sink) {
  std::vector<uint8_t> bytes(vector.getNumElements() * 4);
  for (int64_t index = 0; index < vector.getNumElements(); ++index)
    storeFloat(bytes.data(), index, loadFloat(vector, index));
  return sink(bytes);
}

Error packTaps(plan::TapsAttr packing, const TensorView &weights,
               ByteSink sink) {
  int64_t taps = packing.getTaps(), channels = packing.getChannels();
  std::vector<uint8_t> bytes(packing.getSizeInBytes());
  for (int64_t channel = 0; channel < channels; ++channel)
    for (int64_t tap = 0; tap < taps; ++tap)
      storeFloat(bytes.data(), tap * channels + channel,
                 loadFloat(weights, channel * taps + tap));
  return sink(bytes);
}

Error packTokenTable(plan::TokenTableAttr packing, ByteSink sink) {
  std::vector<uint8_t> bytes(packing.getSizeInBytes());
  for (auto [index, token] : enumerate(packing.getSet().getTokens()))
    store<int32_t>(bytes.data(), static_cast<int64_t>(index), token);
  return sink(bytes);
}

Error packRopeTable(plan::RopeTableAttr packing, ByteSink sink) {
  int64_t half = packing.getDims() / 2;
  std::vector<float> frequencies;
  double theta = packing.getTheta().getValueAsDouble();
  for (int64_t j = 0; j < half; ++j)
    frequencies.push_back(static_cast<float>(
        std::pow(theta, -2.0 * double(j) / double(packing.getDims()))));

  std::vector<uint8_t> row(packing.getDims() * 4);
  for (int64_t position = 0; position < packing.getPositions(); ++position) {
    for (int64_t j = 0; j < half; ++j) {
      float angle = static_cast<float>(position) * frequencies[j];
      storeFloat(row.data(), j, static_cast<float>(std::cos(double(angle))));
      storeFloat(row.data(), half + j,
                 static_cast<float>(std::sin(double(angle))));
    }
    if (Error error = sink(row))
      return error;
  }
  return Error::success();
}

} // namespace

Error codegen::checkSources(plan::PackingAttrInterface packing,
                            ArrayRef<const TensorView *> sources) {
  if (static_cast<int64_t>(sources.size()) != packing.getSourceCount())
    return createStringError("expected " + Twine(packing.getSourceCount()) +
                             " tensors to pack, got " + Twine(sources.size()));
  return TypeSwitch<mlir::Attribute, Error>(packing)
      .Case<plan::InterleavedAttr, plan::RowsAttr>([&](auto dense) {
        return expectTensor(*sources[0], getDType(dense.getElement()),
                            {dense.getOutputs(), dense.getColumns()});
      })
      .Case<plan::SearchCodesAttr, plan::SearchScalesAttr,
            plan::SearchErrorsAttr, plan::RoundedRowsAttr,
            plan::RoundedCodesAttr>([&](auto head) {
        return expectTensor(*sources[0], DType::BF16,
                            {head.getOutputs(), head.getColumns()});
      })
      .Case<plan::InterleavedCodesAttr, plan::FragmentCodesAttr>(
          [&](auto grouped) -> Error {
            int64_t words =
                divideCeil(grouped.getColumns(), 32 / grouped.getBits());
            if (Error error = expectTensor(*sources[0], DType::I32,
                                           {grouped.getOutputs(), words}))
              return error;
            int64_t scales = grouped.getColumns() / grouped.getGroup() *
                             grouped.getScalesPerGroup();
            return expectTensor(*sources[1], getDType(grouped.getScale()),
                                {grouped.getOutputs(), scales});
          })
      .Case([&](plan::VectorAttr vector) -> Error {
        if (isFloat(sources[0]->dtype) &&
            sources[0]->getNumElements() == vector.getLength())
          return Error::success();
        return refuse(*sources[0], "F32, BF16 or F16 with " +
                                       Twine(vector.getLength()) + " entries");
      })
      .Case([&](plan::TapsAttr taps) -> Error {
        int64_t shape[] = {taps.getChannels(), 1, taps.getTaps()};
        if (isFloat(sources[0]->dtype) &&
            ArrayRef<int64_t>(sources[0]->shape) == ArrayRef<int64_t>(shape))
          return Error::success();
        return refuse(*sources[0], "F32, BF16 or F16 " + toText(shape));
      })
      .Case<plan::RopeTableAttr, plan::TokenTableAttr>(
          [](auto) { return Error::success(); });
}

Error codegen::packWeight(plan::PackingAttrInterface packing,
                          ArrayRef<const TensorView *> sources, ByteSink sink) {
  return TypeSwitch<mlir::Attribute, Error>(packing)
      .Case([&](plan::InterleavedAttr dense) {
        return packInterleaved(dense, *sources[0], sink);
      })
      .Case([&](plan::InterleavedCodesAttr grouped) {
        return packCodes(grouped, *sources[0], *sources[1], sink);
      })
      .Case([&](plan::RowsAttr dense) {
        return packRows(dense, *sources[0], sink);
      })
      .Case([&](plan::FragmentCodesAttr grouped) {
        return packFragments(grouped, *sources[0], *sources[1], sink);
      })
      .Case([&](plan::SearchCodesAttr search) {
        return packSearchCodes(search, *sources[0], sink);
      })
      .Case([&](plan::SearchScalesAttr search) {
        return packSearchScales(search, *sources[0], sink);
      })
      .Case([&](plan::SearchErrorsAttr search) {
        return packSearchErrors(search, *sources[0], sink);
      })
      .Case([&](plan::RoundedRowsAttr rounded) {
        return packRoundedRows(rounded, *sources[0], sink);
      })
      .Case([&](plan::RoundedCodesAttr rounded) {
        return packRoundedCodes(rounded, *sources[0], sink);
      })
      .Case([&](plan::VectorAttr) { return packVector(*sources[0], sink); })
      .Case([&](plan::TapsAttr taps) {
        return packTaps(taps, *sources[0], sink);
      })
      .Case([&](plan::TokenTableAttr table) {
        return packTokenTable(table, sink);
      })
      .Case(
          [&](plan::RopeTableAttr rope) { return packRopeTable(rope, sink); });
}
