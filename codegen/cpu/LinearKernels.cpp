//===- LinearKernels.cpp - embed, linear, quant_linear --------------------===//
//
// A product is computed by register tiles: a few rows times one or more tiles
// of 16 outputs, over all columns. Every output has one accumulator and adds
// its columns in order, so its bits do not depend on the shape of the register
// tile it is in.
//
//===----------------------------------------------------------------------===//

#include "codegen/cpu/Kernels.h"

using namespace tandem;
using namespace tandem::codegen;
using plan::KernelFamily;

static constexpr int64_t lanes = KernelBuilder::lanes;
/// How far ahead weights are asked for, in bytes. They are read once, in order,
/// but so slowly that a processor does not guess it.
static constexpr int64_t prefetchDistance = 2048;
static constexpr int64_t cacheLine = 64;

void tandem::codegen::buildEmbed(KernelBuilder &k) {
  int64_t columns = k.spec().getInt("columns");
  int64_t vocabulary = k.spec().getInt("vocabulary");
  float scale = k.spec().getFloat("scale_by");
  Memory tokens = k.operand(0, k.i32());
  Memory table = k.operand(1, k.typeOf(k.spec().getKind("element")));
  Memory y = k.operand(2, k.f32());
  k.loopItems([&](Var row) {
    Var token = k.toIndex(tokens.load(row));
    Var isKnown = (token >= 0) & (token < vocabulary);
    token = k.select(isKnown, token, 0);
    // A tile of 16 tokens holds a column of them side by side.
    Memory entry = table.at(token / lanes * (columns * lanes) + token % lanes);
    k.loop(0, columns, 1, [&](Var column) {
      Var value = entry.loadAsF32(column * lanes);
      if (scale != 1.0f)
        value = value * scale;
      y.store(row * columns + column, value);
    });
  });
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

namespace {

/// Tiles of a packed weight: feeds the columns of some tiles, in order, to a
/// function that adds them up.
class WeightReader {
public:
  /// add(column, weights, sums): the weights of one column, a vector for each
  /// tile; returns the new sums.
  using Add = llvm::function_ref<Vars(Var column, const Vars &weights,
                                      const Vars &sums)>;

  virtual ~WeightReader() = default;
  /// Emits the loop over all columns of the tiles from \p firstTile on.
  virtual Vars emitColumns(Var firstTile, int64_t tiles, Vars sums,
                           Add add) const = 0;
};

/// `#plan.interleaved`.
class DenseWeight : public WeightReader {
public:
  DenseWeight(KernelBuilder &k, int64_t operand)
      : k(k), columns(k.spec().getInt("columns")),
        memory(k.operand(operand, k.typeOf(k.spec().getKind("element")))) {}

  Vars emitColumns(Var firstTile, int64_t tiles, Vars sums,
                   Add add) const override {
    constexpr int64_t unroll = 4;
    int64_t columnBytes = lanes * getByteWidth(k.spec().getKind("element"));
    Memory first = memory.at(firstTile * (columns * lanes));
    auto addColumn = [&](Var column, const Vars &before) {
      Vars weights;
      for (int64_t tile = 0; tile < tiles; ++tile)
        weights.push_back(
            first.at(tile * columns * lanes).loadVectorAsF32(column * lanes));
      return add(column, weights, before);
    };
    int64_t full = columns / unroll * unroll;
    sums = k.loop(0, full, unroll, sums, [&](Var column, const Vars &before) {
      Vars next = before;
      Memory bytes = first.at(column * lanes).as(k.ops().getI8Type());
      for (int64_t tile = 0; tile < tiles; ++tile)
        for (int64_t line = 0; line < unroll * columnBytes; line += cacheLine)
          bytes.prefetch(tile * columns * columnBytes + prefetchDistance +
                         line);
      for (int64_t i = 0; i < unroll; ++i)
        next = addColumn(column + i, next);
      return next;
    });
    for (int64_t column = full; column < columns; ++column)
      sums = addColumn(k.index(column), sums);
    return sums;
  }

private:
  KernelBuilder &k;
  int64_t columns;
  Memory memory;
};

/// `#plan.interleaved_codes`.
class CodedWeight : public WeightReader {
public:
  CodedWeight(KernelBuilder &k, int64_t operand)
      : k(k), columns(k.spec().getInt("columns")),
        bits(k.spec().getInt("bits")), group(k.spec().getInt("group")),
        scaleKind(k.spec().getKind("scale")),
        memory(k.operand(operand, k.ops().getI8Type())) {}

  Vars emitColumns(Var firstTile, int64_t tiles, Vars sums,
                   Add add) const override;

private:
  /// The code in bits [position, position + bits) of the words, times scale.
  Var expand(Var words, int64_t position, Var scale) const;
  /// What the codes of four bits mean: 0 .. 7, -8 .. -1.
  Var codeTable() const;

  KernelBuilder &k;
  int64_t columns, bits, group;
  FloatKind scaleKind;
  int64_t perWord = 32 / bits;
  int64_t wordsPerGroup = (group + perWord - 1) / perWord;
  int64_t scaleBytes = lanes * getByteWidth(scaleKind);
  int64_t groupBytes = scaleBytes + wordsPerGroup * lanes * 4;
  int64_t tileBytes = columns / group * groupBytes;
  Memory memory;
};

} // namespace

Var CodedWeight::codeTable() const {
  llvm::SmallVector<float> numbers;
  for (int code = 0; code < 16; ++code)
    numbers.push_back(static_cast<float>(code < 8 ? code : code - 16));
  return k.constant(mlir::DenseElementsAttr::get(
      k.vectorOf(k.f32()), llvm::ArrayRef<float>(numbers)));
}

Var CodedWeight::expand(Var words, int64_t position, Var scale) const {
  if (bits == 4 && k.target().hasAvx512()) {
    // A permutation looks at the low four bits of a lane only: it finds the
    // number of a code in a table.
    Var picks = position == 0 ? words : words >> position;
    return k.permute(codeTable(), picks) * scale;
  }
  // Moving the code to the top and back down spreads its sign.
  int64_t above = 32 - bits - position;
  Var code = above == 0 ? words : words << above;
  return k.toFloat(code >> (32 - bits)) * scale;
}

Vars CodedWeight::emitColumns(Var firstTile, int64_t tiles, Vars sums,
                              Add add) const {
  Memory first = memory.at(firstTile * tileBytes);
  return k.loop(
      0, columns / group, 1, sums, [&](Var groupNumber, const Vars &before) {
        Memory record = first.at(groupNumber * groupBytes);
        Var firstColumn = groupNumber * group;
        Vars scales;
        for (int64_t tile = 0; tile < tiles; ++tile)
          scales.push_back(record.at(tile * tileBytes)
                               .as(k.typeOf(scaleKind))
                               .loadVectorAsF32(0));
        // The columns of one word of every output.
        auto addWord = [&](Var word, int64_t count, const Vars &carried) {
          Vars words;
          for (int64_t tile = 0; tile < tiles; ++tile) {
            Memory from = record.at(tile * tileBytes + scaleBytes).as(k.i32());
            words.push_back(from.loadVector(word * lanes));
            from.prefetch(word * lanes + prefetchDistance / 4);
          }
          Vars next = carried;
          for (int64_t i = 0; i < count; ++i) {
            Vars weights;
            for (int64_t tile = 0; tile < tiles; ++tile)
              weights.push_back(expand(words[tile], i * bits, scales[tile]));
            next = add(firstColumn + word * perWord + i, weights, next);
          }
          return next;
        };
        int64_t fullWords = group / perWord;
        Vars next = before;
        if (fullWords == 1)
          next = addWord(k.index(0), perWord, next);
        else
          next = k.loop(0, fullWords, 1, next, [&](Var word, const Vars &left) {
            return addWord(word, perWord, left);
          });
        if (int64_t left = group % perWord)
          next = addWord(k.index(fullWords), left, next);
        return next;
      });
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

namespace {

/// A register tile: up to `rows` rows times `tiles` tiles of 16 outputs.
struct TileShape {
  int64_t rows;
  int64_t tiles;
};

/// Emits the product of rows and a weight.
class Product {
public:
  Product(KernelBuilder &k, const WeightReader &weight, int64_t columns,
          int64_t outputs)
      : k(k), weight(weight), columns(columns), outputs(outputs),
        x(k.operand(0, k.f32())), y(k.operand(2, k.f32())) {}

  void emit();

private:
  /// Rows from \p firstRow on, fewer than `shapes[shape - 1]` is good for.
  void emitRest(size_t shape, Var firstRow);
  /// Rows from \p firstRow on, as many as the shape has and there are.
  void emitRows(const TileShape &shape, Var firstRow);
  void packRows(int64_t count, Var firstRow);
  void emitTile(const TileShape &shape, Var firstRow, Var tile);

  KernelBuilder &k;
  const WeightReader &weight;
  int64_t columns, outputs;
  Memory x, y;
  /// Rows of a register tile, side by side: [column][row].
  Memory packed;
  /// From most rows to 1.
  llvm::ArrayRef<TileShape> shapes;
};

} // namespace

void Product::emit() {
  // Accumulators take most registers: 32 of 512 bits, or 16 of 256, of which a
  // vector needs two.
  static constexpr TileShape wide[] = {{16, 1}, {8, 2}, {4, 2}, {1, 4}};
  static constexpr TileShape narrow[] = {{4, 1}, {1, 2}};
  shapes = k.target().hasAvx512() ? llvm::ArrayRef<TileShape>(wide)
                                  : llvm::ArrayRef<TileShape>(narrow);
  int64_t paddedColumns = (columns + lanes - 1) / lanes * lanes;
  packed = k.scratch(shapes.front().rows * paddedColumns * 4, k.f32());

  // Blocks of the largest shape until the rest fits the next one.
  int64_t most = shapes[0].rows;
  Var blocks = (k.rows() + (most - shapes[1].rows - 1)) / most;
  k.loop(0, blocks, 1, [&](Var block) { emitRows(shapes[0], block * most); });
  emitRest(1, blocks * most);
}

void Product::emitRest(size_t shape, Var firstRow) {
  Var left = k.rows() - firstRow;
  if (shape + 1 == shapes.size())
    return k.ifThen(left > 0, [&] { emitRows(shapes[shape], firstRow); });
  k.ifElse(
      left > shapes[shape + 1].rows,
      [&] {
        emitRows(shapes[shape], firstRow);
        return Vars();
      },
      [&] {
        emitRest(shape + 1, firstRow);
        return Vars();
      });
}

void Product::emitRows(const TileShape &shape, Var firstRow) {
  if (shape.rows > 1)
    packRows(shape.rows, firstRow);
  Var together = (k.end() - k.begin()) / shape.tiles * shape.tiles;
  Var middle = k.begin() + together;
  k.loop(k.begin(), middle, shape.tiles,
         [&](Var tile) { emitTile(shape, firstRow, tile); });
  if (shape.tiles > 1)
    k.loop(middle, k.end(), 1,
           [&](Var tile) { emitTile({shape.rows, 1}, firstRow, tile); });
}

/// Puts \p count rows side by side, so that a column of them is one stretch of
/// memory. Behind the last row it stands once more: what is computed from that
/// is not stored.
void Product::packRows(int64_t count, Var firstRow) {
  llvm::SmallVector<int64_t> low, high;
  for (int64_t lane = 0; lane < lanes / 2; ++lane) {
    low.append({lane, lane + lanes});
    high.append({lane + lanes / 2, lane + lanes / 2 + lanes});
  }
  llvm::SmallVector<Memory> rows;
  for (int64_t row = 0; row < count; ++row)
    rows.push_back(x.at(k.min(firstRow + row, k.rows() - 1) * columns));
  k.loopColumns(columns, [&](Var column, Var mask) {
    Vars parts;
    for (const Memory &row : rows)
      parts.push_back(row.loadVector(column, mask));
    // Interleaving the first half of the vectors with the second half, as
    // often as the rows can be halved, ends with [column][row].
    for (int64_t width = count; width > 1; width /= 2) {
      Vars next;
      for (int64_t i = 0; i < count / 2; ++i) {
        next.push_back(k.shuffle(parts[i], parts[i + count / 2], low));
        next.push_back(k.shuffle(parts[i], parts[i + count / 2], high));
      }
      parts = next;
    }
    for (int64_t i = 0; i < count; ++i)
      packed.storeVector(column * count + i * lanes, parts[i]);
  });
}

void Product::emitTile(const TileShape &shape, Var firstRow, Var tile) {
  auto addColumn = [&](Var column, const Vars &weights, const Vars &before) {
    Vars sums = before;
    for (int64_t row = 0; row < shape.rows; ++row) {
      Var value = shape.rows > 1 ? packed.loadSplat(column * shape.rows + row)
                                 : x.loadSplat(firstRow * columns + column);
      for (int64_t i = 0; i < shape.tiles; ++i) {
        Var &sum = sums[row * shape.tiles + i];
        sum = k.fma(value, weights[i], sum);
      }
    }
    return sums;
  };
  Vars sums = weight.emitColumns(tile, shape.tiles,
                                 Vars(shape.rows * shape.tiles, k.splat(0.0)),
                                 addColumn);

  for (int64_t row = 0; row < shape.rows; ++row) {
    Var base = (firstRow + row) * outputs;
    for (int64_t i = 0; i < shape.tiles; ++i) {
      Var output = (tile + i) * lanes;
      // Neither rows nor outputs need fill the register tile.
      Var count = k.index(outputs) - output;
      if (shape.rows > 1)
        count = k.select(firstRow + row < k.rows(), count, 0);
      bool isFull = shape.rows == 1 && outputs % lanes == 0;
      y.storeVector(base + output, sums[row * shape.tiles + i],
                    isFull ? Var() : k.firstLanes(count));
    }
  }
}

void tandem::codegen::buildLinear(KernelBuilder &k) {
  int64_t columns = k.spec().getInt("columns");
  int64_t outputs = k.spec().getInt("outputs");
  if (k.spec().family() == KernelFamily::linear) {
    DenseWeight weight(k, 1);
    Product(k, weight, columns, outputs).emit();
  } else {
    CodedWeight weight(k, 1);
    Product(k, weight, columns, outputs).emit();
  }
}
