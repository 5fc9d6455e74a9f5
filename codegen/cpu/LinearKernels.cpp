//===- LinearKernels.cpp - embed, and the linear families -----------------===//

#include "codegen/cpu/Kernels.h"
#include "codegen/cpu/LargestOfLanes.h"
#include "codegen/cpu/RegisterTiles.h"
#include "codegen/cpu/VectorMath.h"

using namespace tandem;
using namespace tandem::codegen;
using plan::KernelFamily;

static constexpr int64_t lanes = KernelBuilder::lanes;

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
// Linear layers
//===----------------------------------------------------------------------===//

namespace {

/// A weight of a layer with its tiles among the items, and where its results
/// go.
struct Part {
  Memory weight;
  Memory y;
  /// Outputs, and the item of the first tile.
  Var outputs, firstItem;
  /// Whether all tiles have 16 outputs.
  bool isFull;
};

/// `linear`, `quant_linear` and their fused forms.
class Layer {
public:
  explicit Layer(KernelBuilder &k);
  void emit();

private:
  void forEachPart(llvm::function_ref<void(const Part &)> body);
  void emitTiles(const TileShape &shape, Var firstRow, const Part &part,
                 int64_t tiles, Var first);

  KernelBuilder &k;
  std::unique_ptr<WeightReader> reader = WeightReader::create(k);
  int64_t columns = k.spec().getInt("columns");
  llvm::SmallVector<int64_t> widths;
  bool isGated = false;
  /// Rows that are added to the results, if any.
  Memory residual;
  int64_t firstResult;
  std::optional<RegisterTiles> rows;
};

} // namespace

Layer::Layer(KernelBuilder &k) : k(k) {
  const KernelSpec &spec = k.spec();
  bool isFused = spec.family() == KernelFamily::fused_linear ||
                 spec.family() == KernelFamily::fused_quant_linear;
  std::optional<RowNorm> norm;
  if (isFused) {
    widths.assign(spec.widths().begin(), spec.widths().end());
    isGated = spec.getInt("gated") != 0;
  } else {
    widths = {spec.getInt("outputs")};
  }
  auto next = static_cast<int64_t>(1 + widths.size());
  if (isFused && spec.getInt("norm"))
    norm = {k.operand(next++, k.f32()), spec.getFloat("eps"),
            spec.getFloat("offset")};
  if (isFused && spec.getInt("residual"))
    residual = k.operand(next++, k.f32());
  firstResult = next;
  rows.emplace(k, *reader, k.operand(0, k.f32()), columns,
               isGated ? RegisterTiles::shapesOfTwo(k)
                       : RegisterTiles::shapesOfOne(k),
               norm);
}

/// The value for part \p number among \p values.
static Var pick(KernelBuilder &k, Var number, llvm::ArrayRef<int64_t> values) {
  Var picked = k.index(values.back());
  for (auto index = static_cast<int64_t>(values.size()) - 2; index >= 0;
       --index)
    picked = k.select(number.isEqual(index), k.index(values[index]), picked);
  return picked;
}

void Layer::forEachPart(llvm::function_ref<void(const Part &)> body) {
  llvm::SmallVector<int64_t> firstItems;
  int64_t item = 0;
  bool isFull = true;
  for (int64_t width : widths) {
    firstItems.push_back(item);
    item += (width + lanes - 1) / lanes;
    isFull &= width % lanes == 0;
  }
  if (isGated || widths.size() == 1)
    return body({reader->weight(1), k.operand(firstResult, k.f32()),
                 k.index(widths[0]), k.index(0), isFull});
  // The code is the same for all weights; where they lie is looked up.
  k.loop(0, widths.size(), 1, [&](Var number) {
    body({reader->weight(number + 1), k.operand(number + firstResult, k.f32()),
          pick(k, number, widths), pick(k, number, firstItems), isFull});
  });
}

void Layer::emit() {
  rows->forEachBlock([&](const TileShape &shape, Var firstRow) {
    forEachPart([&](const Part &part) {
      Var tiles = (part.outputs + (lanes - 1)) / lanes;
      Var begin = k.min(k.max(k.begin() - part.firstItem, 0), tiles);
      Var end = k.max(k.min(k.end() - part.firstItem, tiles), begin);
      // A gate and its partner are the two tiles of one output.
      TileShape outputs = {shape.rows, isGated ? 1 : shape.tiles};
      rows->forEachTile(outputs, begin, end, [&](int64_t count, Var first) {
        emitTiles(shape, firstRow, part, count, first);
      });
    });
  });
}

void Layer::emitTiles(const TileShape &shape, Var firstRow, const Part &part,
                      int64_t tiles, Var first) {
  llvm::SmallVector<Memory> memory;
  for (int64_t i = 0; i < tiles; ++i)
    memory.push_back(reader->tile(part.weight, first + i));
  if (isGated)
    memory.push_back(reader->tile(reader->weight(2), first));
  Vars sums = rows->sum(shape, firstRow, memory);

  for (int64_t row = 0; row < shape.rows; ++row) {
    Var base = (firstRow + row) * part.outputs;
    for (int64_t i = 0; i < tiles; ++i) {
      Var output = (first + i) * lanes;
      Var mask =
          rows->mask(shape, firstRow, row, part.outputs - output, part.isFull);
      Var value = sums[row * memory.size() + i];
      if (isGated)
        value = silu(k, value) * sums[row * memory.size() + 1];
      if (residual.isValid())
        value = residual.loadVector(base + output, mask) + value;
      part.y.storeVector(base + output, value, mask);
    }
  }
}

void tandem::codegen::buildLinear(KernelBuilder &k) { Layer(k).emit(); }

//===----------------------------------------------------------------------===//
// The head
//===----------------------------------------------------------------------===//

/// Every item finds the largest logit of its part of the vocabulary.
void tandem::codegen::buildHeadArgmax(KernelBuilder &k) {
  constexpr int64_t tilesOfPart = plan::kHeadPart / lanes;
  int64_t outputs = k.spec().getInt("outputs");
  int64_t allTiles = (outputs + lanes - 1) / lanes;
  int64_t parts = (allTiles + tilesOfPart - 1) / tilesOfPart;
  Memory logits = k.operand(2, k.f32());
  Memory tokens = k.operand(3, k.i32());

  std::unique_ptr<WeightReader> reader = WeightReader::create(k);
  llvm::ArrayRef<TileShape> shapes = RegisterTiles::shapesOfParts(k);
  int64_t most = shapes.front().rows;
  RegisterTiles rows(k, *reader, k.operand(0, k.f32()),
                     k.spec().getInt("columns"), shapes, std::nullopt,
                     LargestOfLanes::bytes(most));
  LargestOfLanes best(k, rows.extra(), most, outputs);

  rows.forEachBlock([&](const TileShape &shape, Var firstRow) {
    k.loopItems([&](Var part) {
      best.clear(shape.rows);
      Var begin = part * tilesOfPart;
      Var end = k.min(begin + tilesOfPart, allTiles);
      rows.forEachTile(shape, begin, end, [&](int64_t count, Var first) {
        llvm::SmallVector<Memory> tiles;
        for (int64_t i = 0; i < count; ++i)
          tiles.push_back(reader->tile(reader->weight(1), first + i));
        Vars sums = rows.sum(shape, firstRow, tiles);
        for (int64_t row = 0; row < shape.rows; ++row)
          for (int64_t i = 0; i < count; ++i)
            best.take(row, sums[row * count + i], (first + i) * lanes);
      });
      for (int64_t row = 0; row < shape.rows; ++row)
        k.ifThen(firstRow + row < k.rows(), [&] {
          Largest largest = best.find(row);
          Var at = (firstRow + row) * parts + part;
          logits.store(at, largest.value);
          tokens.store(at, largest.column);
        });
    });
  });
}
