//===- LinearEmitter.cpp - Linear layers in CUDA --------------------------===//
//
// How a layer is cut: few_rows.cuh, many_rows.cuh, medium_rows.cuh and
// wide_rows.cuh draw it. How columns are is part of the order of sums, so it
// follows from the shape of the weights (of those but few_rows.cuh: and the
// architecture), never from the rows of a launch; but of wide_rows.cuh from the
// live rows.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/KernelEmitter.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <optional>

using namespace llvm;
using namespace tandem;
using namespace tandem::codegen;
using plan::KernelFamily;

/// Outputs of a tile.
static constexpr int64_t kTileOutputs = 16;
/// Tokens up to which layers are few_rows.cuh's.
static constexpr int64_t kFewRows = 16;

int64_t KernelEmitter::getTiles() const {
  int64_t tiles = 0;
  for (int64_t width : widths)
    tiles += static_cast<int64_t>(divideCeil(width, kTileOutputs));
  return tiles;
}

//===----------------------------------------------------------------------===//
// Up to 16 rows
//===----------------------------------------------------------------------===//

namespace {
/// A cut of columns: few_rows.cuh.
struct Cut {
  int64_t slices, warps, unitsPerWarp;
};
} // namespace

/// What few_rows.cuh has in shared memory beside its stages: of a warp, and of
/// a block.
static constexpr int64_t kTileSumsBytes = 256 * 4,
                         kSumsBytes = 2 * kTileSumsBytes, kBarrierBytes = 256;
/// Stages of tiles at least.
static constexpr int64_t kTileStages = 4;
/// Warps that multiply in half of a multiprocessor.
static constexpr int64_t kHalfWarps = 10;
/// A multiprocessor has four parts with 64 times 256 registers each, in which a
/// warp takes as many for every eight of a thread. What a block of the first
/// half may take of a part, and more than half of it: few_rows.cuh.
static constexpr int64_t kParts = 4, kPartPieces = 64, kFirstHalfPieces = 30,
                         kSecondHalfPieces = 33;
/// Cuts the columns of \p units units of \p steps steps: into the fewest slices
/// whose warps have registers for their tokens, and two stages of \p unitBytes
/// a unit in \p shared bytes; \p copiesTiles: four stages, each of all units of
/// a warp. It depends on nothing else, so layers of the same columns sum in the
/// same order, fused or not.
static Cut cutColumns(int64_t units, int64_t steps, int64_t unitBytes,
                      bool copiesTiles, int64_t shared) {
  // Many warps with few registers: five for each of the four parts of a
  // multiprocessor hide what each of them waits for.
  constexpr int64_t mostSteps = 8, mostWarps = 20;
  for (int64_t slices = 1;; ++slices) {
    auto perSlice = static_cast<int64_t>(divideCeil(units, slices));
    for (int64_t perWarp = 1; perWarp == 1 || perWarp * steps <= mostSteps;
         ++perWarp) {
      auto warps = static_cast<int64_t>(divideCeil(perSlice, perWarp));
      int64_t stage = unitBytes * (copiesTiles ? perWarp : 1);
      int64_t needed =
          warps * (kSumsBytes + (copiesTiles ? kTileStages : 2) * stage);
      if (warps <= mostWarps && (needed <= shared || warps == 1))
        return {slices, warps, perWarp};
    }
  }
}

/// Bytes of the slots of few_slices.cuh in a block of \p slices, for items of
/// \p tiles tiles.
static int64_t getSlotBytes(int64_t slices, int64_t tiles) {
  if (slices == 1)
    return 0;
  return static_cast<int64_t>(divideCeil(slices + 7, slices)) * tiles * slices *
         kTileSumsBytes;
}

/// Cuts columns over the blocks of a cluster: into the fewest slices for whose
/// warps half of a multiprocessor is enough, so that the next launch has the
/// other half; of many columns, into those that have room in a whole one. None
/// where that is not enough. It depends on what cutColumns() takes alone, too.
static std::optional<Cut> cutForCluster(int64_t units, int64_t steps,
                                        int64_t unitBytes, int64_t shared) {
  constexpr int64_t mostSteps = 8, mostWarps = 20, mostTiles = 2;
  // Those that fill the groups that multiprocessors come in first.
  for (int64_t most : {kHalfWarps, mostWarps})
    for (int64_t slices : {1, 2, 4, 8, 3, 5, 6, 7}) {
      auto perSlice = static_cast<int64_t>(divideCeil(units, slices));
      for (int64_t perWarp = 1; perWarp == 1 || perWarp * steps <= mostSteps;
           ++perWarp) {
        auto warps = static_cast<int64_t>(divideCeil(perSlice, perWarp));
        int64_t needed =
            getSlotBytes(slices, mostTiles) +
            warps * (kSumsBytes + kTileStages * perWarp * unitBytes);
        // No slice without units.
        if (warps <= most && needed <= shared &&
            (slices - 1) * warps * perWarp < units)
          return Cut{slices, warps, perWarp};
      }
    }
  return std::nullopt;
}

/// Multiprocessors that clusters of \p blocks may have, of \p processors: they
/// come in groups of 14 to 18, and the last ones of a group are too few for
/// another cluster.
static int64_t getClusterProcessors(int64_t processors, int64_t blocks) {
  if (blocks <= 2)
    return processors;
  return blocks == 4 || blocks == 8 ? processors * 10 / 11 : processors * 3 / 4;
}

KernelEmitter::Units KernelEmitter::getDenseUnits(FloatKind element) const {
  // 128 bytes of a row, in shared memory with 16 of gap.
  int64_t steps = 128 / getByteWidth(element) / 16;
  return {static_cast<int64_t>(divideCeil(get("columns"), steps * 16)), steps,
          kTileOutputs * (128 + 16), "DenseUnits"};
}

int64_t KernelEmitter::getNormBytes() const {
  return static_cast<int64_t>(
      alignTo((divideCeil(get("columns"), 128) + 1) * kFewRows * 4, 128));
}

int64_t KernelEmitter::getFewRowsShared() const {
  return target.sharedLimit - kBarrierBytes - getNormBytes();
}

void KernelEmitter::emitFewRows(const Units &units, int64_t tilesPerItem,
                                int64_t tokens) {
  auto items = static_cast<int64_t>(divideCeil(getTiles(), tilesPerItem));
  bool copiesTiles =
      target.copiesStretches && spec.has("bits") && units.bytes % 16 == 0;
  std::optional<Cut> ofCluster;
  if (copiesTiles)
    ofCluster = cutForCluster(units.count, units.steps, units.bytes,
                              getFewRowsShared());
  Cut cut = ofCluster ? *ofCluster
                      : cutColumns(units.count, units.steps, units.bytes,
                                   copiesTiles, getFewRowsShared());
  clusterBlocks = ofCluster ? cut.slices : 1;
  int64_t ranges = std::clamp<int64_t>(
      getClusterProcessors(target.processors, clusterBlocks) / cut.slices, 1,
      items);
  // As few blocks as take no longer leave multiprocessors to the layer beside.
  if (order.hasBeside(kernel.symbol))
    ranges = static_cast<int64_t>(
        divideCeil(items, static_cast<int64_t>(divideCeil(items, ranges))));
  int64_t fixedBytes = kBarrierBytes + cut.warps * kSumsBytes;
  if (has("norm") && !has("from_fragments"))
    fixedBytes += getNormBytes();
  fixedBytes += getSlotBytes(clusterBlocks, tilesPerItem) * tokens / kFewRows;
  int64_t stageBytes =
      cut.warps * units.bytes * (copiesTiles ? cut.unitsPerWarp : 1);
  constexpr int64_t mostStages = 16;
  bool isSmall = ofCluster && cut.warps <= kHalfWarps &&
                 fixedBytes + kTileStages * stageBytes <= kSecondHalfBytes;
  if ((has("to_fragments") || has("next_norm")) && !ofCluster)
    refuse("expects clusters of blocks that add " + Twine(get("columns")) +
           " columns, to leave tokens in fragments");
  // Without clusters a thread has two sums of a tile.
  int64_t sumWarps = ofCluster ? 1 : tokens / 4, ringWarps = copiesTiles;
  int64_t warps = cut.warps + sumWarps + ringWarps,
          partWarps = static_cast<int64_t>(divideCeil(warps, kParts));
  // Layers without a cluster have room in any way. Two blocks of a second half
  // must not fit, however their warps are spread over the parts.
  bool isHalf = isSmall && clusterBlocks > 1;
  auto secondPieces =
      static_cast<int64_t>(divideCeil(kSecondHalfPieces, partWarps));
  bool isSecond = isHalf && partWarps > 1 &&
                  divideCeil(2 * warps, kParts) * secondPieces > kPartPieces &&
                  order.takesSecondHalf(kernel.symbol);
  residentBlocks = isSmall ? 2 : 1;
  int64_t shared = isSecond  ? kSecondHalfBytes
                   : isHalf  ? kFirstHalfBytes
                   : isSmall ? target.sharedLimit / 2
                             : target.sharedLimit;
  int64_t stages =
      std::clamp<int64_t>((shared - fixedBytes) / stageBytes, 2, mostStages);
  int64_t rowBlocks = static_cast<int64_t>(divideCeil(maxRows, tokens));
  int64_t ticketBytes = 0,
          rangeTiles =
              static_cast<int64_t>(divideCeil(items, ranges)) * tilesPerItem;
  // The ring of the next layer comes through the same memory.
  constexpr int64_t restPart = 4;
  bool letsBeginLate = copiesTiles && order.hasLayerBehind(kernel.symbol);
  // Few tokens do not take as long as the beginning of the next layer, which
  // may be as early where all weights are asked for.
  constexpr int64_t fewTokens = 8;
  bool letsBeginEarly = copiesTiles && tokens <= fewTokens &&
                        rangeTiles <= stages &&
                        order.hasOnlyLayersBehind(kernel.symbol);
  int64_t restTiles = letsBeginLate ? rangeTiles / restPart : rangeTiles;
  if (cut.slices > clusterBlocks) {
    ticketBytes = getTicketBytes(rowBlocks * ranges);
    kernel.scratch =
        ticketBytes + rowBlocks * ranges * cut.slices * rangeTiles * 256 * 4;
  }
  numbers({{"tokens", tokens},
           {"slices", cut.slices},
           {"warps", cut.warps},
           {"unitsPerWarp", cut.unitsPerWarp},
           {"stages", stages}});
  numbers({{"sumWarps", sumWarps},
           {"cluster", clusterBlocks},
           {"itemTiles", tilesPerItem}});
  numbers({{"rangeTiles", rangeTiles},
           {"restTiles", restTiles},
           {"ticketBytes", ticketBytes}});
  flag("copiesTiles", copiesTiles);
  flag("letsBeginEarly", letsBeginEarly);
  kernel.block = warps * 32;
  if (isHalf)
    mostRegisters =
        8 * (isSecond ? secondPieces : kFirstHalfPieces / partWarps);
  if (isSecond)
    leastRegisters = mostRegisters - 7;
  int64_t sharedBytes = fixedBytes + stages * stageBytes;
  kernel.shared = isHalf && !isSecond ? kFirstHalfBytes : sharedBytes;
  // A kernel with __block_size__ is launched with so many clusters.
  kernel.grid = {{ranges},
                 {isHalf ? cut.slices / clusterBlocks : cut.slices},
                 {1, 1, tokens}};
  StringRef name = spec.has("bits") ? "FewQuantUnits" : "DenseUnits";
  assertions += "static_assert(FewRows<" + getStruct() + ", " + name.str() +
                "<" + getStruct() +
                ">>::sharedBytes == " + std::to_string(sharedBytes) + ");\n";
}

//===----------------------------------------------------------------------===//
// Heads
//===----------------------------------------------------------------------===//

/// The largest divisor of \p number up to \p most.
static int64_t getDivisor(int64_t number, int64_t most) {
  while (number % most != 0)
    --most;
  return most;
}

/// Shared memory for the digits of tokens: what fits on every GPU, and what a
/// step of 32 columns takes.
static constexpr int64_t kDigitsLimit = 95 * 1024, kStepBytes = 1024;

/// The numbers of head_digits.cuh and the grid of its kernels. A row of the
/// weight is \p units units, of which a warp reads up to \p mostAhead at once;
/// a unit of all tokens takes \p unitBytes of shared memory, and every token
/// \p tokenBytes of scratch.
void KernelEmitter::emitDigits(int64_t units, int64_t unitBytes,
                               int64_t mostAhead, int64_t tokenBytes) {
  constexpr int64_t warps = 16;
  int64_t phases = 1;
  while (units % phases != 0 ||
         (phases < units && units / phases * unitBytes > kDigitsLimit))
    ++phases;
  if (units / phases * unitBytes > kDigitsLimit)
    refuse("expects smaller groups, but got " + Twine(getOr("group", 0)));
  auto tiles = static_cast<int64_t>(divideCeil(get("outputs"), kTileOutputs));
  auto rowBlocks = static_cast<int64_t>(divideCeil(maxRows, kFewRows));
  int64_t ticketBytes = getTicketBytes(rowBlocks);
  kernel.scratch = ticketBytes + rowBlocks * kFewRows * tokenBytes;
  numbers({{"phases", phases},
           {"chunk", getDivisor(units / phases, mostAhead)},
           {"ticketBytes", ticketBytes}});
  // Lengths of a token in its steps, rounded up: docs/heads.md.
  double root = std::sqrt(double(get("columns")));
  real("halfSteps", float(0.5101 * root));
  real("leastSteps", float(1045.1 * root));
  kernel.block = warps * 32;
  kernel.shared = units / phases * unitBytes;
  kernel.grid = {
      {std::min<int64_t>(target.processors,
                         static_cast<int64_t>(divideCeil(tiles, warps)))},
      {1},
      {1, 1, kFewRows}};
}

void KernelEmitter::emitHeadDraft() {
  expectBf16();
  int64_t outputs = get("outputs"), columns = get("columns"),
          group = get("group");
  numbers({{"outputs", outputs}, {"columns", columns}, {"group", group}});
  // Blocks of 64 columns are one load of a lane.
  constexpr int64_t mostBlocks = 8;
  emitDigits(columns / group, group / 32 * kStepBytes + kFewRows * 4,
             std::max<int64_t>(1, mostBlocks / (group / 64)),
             /*tokenBytes=*/8);
  assertions += "static_assert(HeadDraft<" + getStruct() +
                ">::sharedBytes == " + std::to_string(kernel.shared) + ");\n";
  operands({"const bf16 *x", "const u8 *codes", "i32 *result"});
  call("headDraft", "x, codes, result, live, rows, scratch");
}

void KernelEmitter::emitHeadSearch() {
  expectBf16();
  constexpr int64_t mostAhead = 8;
  int64_t outputs = get("outputs"), columns = get("columns");
  numbers({{"outputs", outputs}, {"columns", columns}});
  emitDigits(static_cast<int64_t>(divideCeil(columns, 32)), kStepBytes,
             mostAhead, /*tokenBytes=*/4);
  assertions += "static_assert(HeadSearch<" + getStruct() +
                ">::sharedBytes == " + std::to_string(kernel.shared) + ");\n";
  operands({"const bf16 *x", "const u8 *codes", "const f32 *scales",
            "const f32 *errors", "f32 *above", "f32 *below"});
  call("headSearch", "x, codes, scales, errors, above, below, live, rows, "
                     "scratch");
}

void KernelEmitter::emitHeadSettle() {
  expectBf16();
  if (spec.getKind("element") != FloatKind::BF16)
    refuse("expects bf16 weights to settle");
  int64_t outputs = get("outputs"), columns = get("columns");
  auto tiles = static_cast<int64_t>(divideCeil(outputs, kTileOutputs));
  // As head_argmax cuts its columns.
  Units units = getDenseUnits(FloatKind::BF16);
  Cut cut = cutColumns(units.count, units.steps, units.bytes,
                       /*copiesTiles=*/false, getFewRowsShared());
  int64_t blocks = std::min(target.processors, tiles);
  constexpr int64_t neighbours = 8;
  int64_t most =
      static_cast<int64_t>(divideCeil(divideCeil(tiles, neighbours), blocks)) *
      neighbours;
  auto rowBlocks = static_cast<int64_t>(divideCeil(maxRows, kFewRows));
  int64_t ticketBytes = getTicketBytes(rowBlocks);
  kernel.scratch = ticketBytes + rowBlocks * (kFewRows * 8 + 128);
  numbers({{"outputs", outputs}, {"columns", columns}});
  numbers({{"slices", cut.slices},
           {"warps", cut.warps},
           {"stepsPerWarp", cut.unitsPerWarp * units.steps},
           {"blocks", blocks},
           {"ticketBytes", ticketBytes}});
  kernel.block = std::max<int64_t>(cut.warps, 8) * 32;
  kernel.shared = static_cast<int64_t>(alignTo(most, 16)) + cut.warps * 256 * 4;
  kernel.grid = {{blocks}, {1}, {1, 1, kFewRows}};
  assertions += "static_assert(HeadSettle<" + getStruct() +
                ">::sharedBytes == " + std::to_string(kernel.shared) + ");\n";
  operands({"const bf16 *x", "const bf16 *weight", "const f32 *above",
            "const f32 *below", "f32 *logits", "i32 *tokens", "i32 *settled"});
  call("headSettle", "x, weight, above, below, logits, tokens, settled, live, "
                     "rows, scratch");
}

//===----------------------------------------------------------------------===//
// More rows
//===----------------------------------------------------------------------===//

void KernelEmitter::emitManyRows(const Units &units, int64_t tokens) {
  constexpr int64_t warps = 8, outputs = warps * kTileOutputs;
  // What a block may use of all GPUs. More would leave room for fewer blocks.
  constexpr int64_t sharedLimit = 98 * 1024;
  auto blocks = static_cast<int64_t>(divideCeil(getTiles(), warps));
  int64_t stageBytes =
      warps * units.bytes + tokens * (units.steps * 16 + 8) * 2;
  int64_t normBytes = 0;
  if (has("norm"))
    normBytes = static_cast<int64_t>(
        alignTo((divideCeil(get("columns"), 128) + 1) * tokens * 4, 128));
  int64_t stages =
      std::clamp<int64_t>((sharedLimit - normBytes) / stageBytes, 2, 5);
  // A slice of less than two units costs more than it brings.
  int64_t wanted = static_cast<int64_t>(divideCeil(target.processors, blocks));
  // Many rows are many blocks, and many slices of them a large scratch.
  int64_t mostSlices = maxRows > tokens ? 4 : 16;
  int64_t slices =
      std::clamp<int64_t>(std::min(wanted, units.count / 2), 1, mostSlices);
  int64_t tiles = blocks * static_cast<int64_t>(divideCeil(maxRows, tokens));
  int64_t ticketBytes = 0;
  if (slices > 1) {
    ticketBytes = getTicketBytes(tiles);
    kernel.scratch = ticketBytes + tiles * slices * tokens * outputs * 4;
  }
  numbers({{"tokens", tokens}, {"slices", slices}, {"stages", stages}});
  numbers({{"ticketBytes", ticketBytes}});
  kernel.block = warps * 32;
  kernel.shared = normBytes + stages * stageBytes;
  kernel.grid = {{blocks}, {slices}, {1, 1, tokens}};
  assertions += "static_assert(ManyRows<" + getStruct() + ", " + units.name +
                "<" + getStruct() +
                ">>::sharedBytes == " + std::to_string(kernel.shared) + ");\n";
}

//===----------------------------------------------------------------------===//
// Dozens of rows
//===----------------------------------------------------------------------===//

/// Tokens and outputs of medium_rows.cuh.
static constexpr int64_t kMediumRows = 64, kMediumOutputs = 128;

void KernelEmitter::emitMediumRows(const Units &units) {
  constexpr int64_t tiles = kMediumOutputs / kTileOutputs, threads = 256;
  auto outputBlocks = static_cast<int64_t>(divideCeil(getTiles(), tiles));
  int64_t stageBytes = kMediumRows * units.steps * 16 * 2 + tiles * units.bytes;
  // Sums are exchanged at once, where enough stages fit beside them.
  constexpr int64_t tokenBytes = (kMediumOutputs + 4) * 4, fewTokens = 16;
  constexpr int64_t wanted = 4, most = 6;
  auto stagesBeside = [&](int64_t tokens) {
    return (target.sharedLimit - tokens * tokenBytes) / stageBytes;
  };
  int64_t exchanged =
      stagesBeside(kMediumRows) >= wanted ? kMediumRows : fewTokens;
  int64_t stages = std::clamp<int64_t>(stagesBeside(exchanged), 2, most);
  int64_t blocks = std::min(target.processors, outputBlocks * units.count);
  int64_t ticketBytes = getTicketBytes(outputBlocks);
  // What is left at the beginning of a stretch.
  kernel.scratch = ticketBytes + blocks * kMediumRows * kMediumOutputs * 4;
  numbers({{"tokens", kMediumRows}, {"stages", stages}, {"blocks", blocks}});
  numbers({{"exchanged", exchanged}, {"ticketBytes", ticketBytes}});
  residentBlocks = 1;
  kernel.block = threads;
  kernel.shared = stages * stageBytes + exchanged * tokenBytes;
  kernel.grid.x = {blocks};
  assertions += "static_assert(MediumRows<" + getStruct() + ", QuantUnits<" +
                getStruct() + ">, CodeStage<" + getStruct() +
                ">>::sharedBytes == " + std::to_string(kernel.shared) + ");\n";
}

//===----------------------------------------------------------------------===//
// Hundreds of rows
//===----------------------------------------------------------------------===//

/// Tokens and columns of a stage of wide_rows.cuh.
static constexpr int64_t kWideRows = 128, kWideColumns = 64;

/// Whether wide_rows.cuh has the layer: codes whose units are two stages of 4
/// steps, columns in pieces of 16 bytes and in order.
bool KernelEmitter::canBeWide(const Units &units) const {
  return spec.has("bits") && units.steps == 8 && get("group") % 16 == 0 &&
         get("columns") % 8 == 0;
}

void KernelEmitter::emitWideRows(const Units &units) {
  constexpr int64_t tiles = 8, threads = 128;
  auto outputBlocks = static_cast<int64_t>(divideCeil(getTiles(), tiles));
  auto tokenBlocks = static_cast<int64_t>(divideCeil(maxRows, kWideRows));
  // Scales as a whole and half of the words.
  int64_t tileBytes =
      units.bytes - kTileOutputs * kWideColumns * get("bits") / 8;
  constexpr int64_t alignment = 1024;
  auto stageBytes = static_cast<int64_t>(
      alignTo(tiles * tileBytes + kWideRows * kWideColumns * 2, alignment));
  // Two blocks on a multiprocessor, where two stages of each fit.
  constexpr int64_t fewest = 2, most = 4;
  int64_t shared = target.sharedLimit / 2;
  if (shared < fewest * stageBytes)
    shared = target.sharedLimit;
  int64_t stages = std::clamp<int64_t>(shared / stageBytes, fewest, most);
  // A slice of few stages costs more than it brings.
  constexpr int64_t fewestOfSlice = 4;
  auto count = static_cast<int64_t>(divideCeil(get("columns"), kWideColumns));
  int64_t mostSlices = std::clamp<int64_t>(count / fewestOfSlice, 1, 16);
  int64_t slots = 2 * target.processors;
  int64_t ticketBytes = 0;
  if (mostSlices > 1 && slots / outputBlocks > 1) {
    ticketBytes = getTicketBytes(slots);
    kernel.scratch = ticketBytes + slots * kWideRows * tiles * kTileOutputs * 4;
  }
  numbers({{"tokens", kWideRows}, {"stages", stages}});
  numbers({{"slots", slots}, {"mostSlices", mostSlices}});
  numbers({{"ticketBytes", ticketBytes}});
  kernel.block = threads;
  kernel.shared = stages * stageBytes;
  kernel.grid.x = {std::max(outputBlocks * tokenBlocks, slots)};
  assertions += "static_assert(WideRows<" + getStruct() + ", " + "CodeStage<" +
                getStruct() +
                ">>::sharedBytes == " + std::to_string(kernel.shared) + ");\n";
}

//===----------------------------------------------------------------------===//
// All of them
//===----------------------------------------------------------------------===//

/// Says what the weight is, and how it lies.
KernelEmitter::Units KernelEmitter::emitWeight() {
  int64_t columns = get("columns");
  if (!spec.has("bits")) {
    FloatKind element = spec.getKind("element");
    type("Element", element);
    return getDenseUnits(element);
  }
  bool zeroPoints = has("zero_points"), floatCodes = has("float_codes");
  auto packing = plan::FragmentCodesAttr::get(
      given.getContext(), widths.front(), columns, get("bits"), get("group"),
      given.getAs<mlir::TypeAttr>("scale").getValue(), zeroPoints, floatCodes);
  numbers({{"bits", get("bits")}, {"group", get("group")}});
  flag("zeroPoints", zeroPoints);
  flag("floatCodes", floatCodes);
  type("Scale", spec.getKind("scale"));
  return {packing.getUnits(), packing.getUnitSteps(), packing.getUnitBytes(),
          "QuantUnits"};
}

void KernelEmitter::emitLayer() {
  expectBf16();
  bool isHead = kernel.family == KernelFamily::head_argmax;
  bool isFused = spec.has("gated");
  bool isGated = has("gated"), hasNorm = has("norm"),
       hasResidual = has("residual");
  bool fromFragments = has("from_fragments"), nextNorm = has("next_norm");
  if (isFused)
    widths = spec.widths();
  else
    widths = {get("outputs")};
  FloatKind result = isHead ? FloatKind::F32 : getKind("result", activations());
  if (result != FloatKind::BF16 && (isGated || hasResidual))
    refuse("expects bf16 results of a layer that is gated or has a residual");
  auto parts = static_cast<int64_t>(widths.size());
  int64_t results = isGated || isHead ? 1 : parts;

  numbers({{"columns", get("columns")}, {"parts", parts}});
  numbers({{"results", results}});
  std::string width;
  for (size_t part = 0; part + 1 < widths.size(); ++part)
    width +=
        ("part == " + Twine(part) + " ? " + Twine(widths[part]) + " : ").str();
  line("__device__ static constexpr i32 width(i32 part) { return " + width +
       Twine(widths.back()) + "; }");
  flag("gated", isGated);
  flag("hasNorm", hasNorm && !fromFragments);
  flag("hasResidual", hasResidual);
  flag("fromFragments", fromFragments);
  flag("normsSums", hasNorm && fromFragments);
  flag("toFragments", has("to_fragments"));
  flag("nextNorm", nextNorm);
  flag("isBeside", target.startsEarly && order.isBeside(kernel.symbol));
  if (hasNorm) {
    real("eps", spec.getFloat("eps"));
    real("offset", spec.getFloat("offset"));
  }
  if (nextNorm)
    real("nextOffset", spec.getFloat("next_offset"));
  type("Result", result);

  Units units = emitWeight();
  int64_t tokens = given.contains("row_tile") ? get("row_tile") : kFewRows;
  // Norms of so many rows have a kernel of their own.
  bool isWide = tokens == kWideRows && !isHead && !hasNorm && canBeWide(units);
  // The addresses of so many results take registers that a large tile has not.
  constexpr int64_t mostLargeParts = 8, fewerTokens = 32, largest = 64;
  bool isMedium = tokens == kMediumRows && maxRows <= kMediumRows && !isHead &&
                  !hasNorm && canBeWide(units);
  if (spec.has("bits"))
    flag("isMedium", isMedium);
  if (!isWide && !isMedium)
    tokens = std::min(tokens, parts > mostLargeParts ? fewerTokens : largest);
  if (isWide) {
    emitWideRows(units);
  } else if (isMedium) {
    emitMediumRows(units);
  } else if (tokens <= kFewRows || isHead) {
    // Tiles that must stay together; the sinks of few_rows.cuh and head.cuh.
    emitFewRows(units,
                isHead    ? 8
                : isGated ? 2
                          : 1,
                isHead ? kFewRows : tokens);
  } else {
    // With a scale for every step, 64 tokens take more registers than there
    // are.
    bool hasManyScales = spec.has("bits") && get("group") <= 16;
    emitManyRows(units, hasManyScales ? std::min<int64_t>(tokens, 32) : tokens);
  }

  parameters.push_back("const bf16 *x");
  std::string weights, outputs;
  for (int64_t part = 0; part < parts; ++part) {
    std::string name = "weight" + std::to_string(part);
    parameters.push_back("const u8 *" + name);
    weights += (part ? ", " : "") + name;
  }
  // With the weight of the norm in the tokens, what is left are squares.
  if (hasNorm)
    parameters.push_back(fromFragments ? "const f32 *squares"
                                       : "const f32 *norm");
  if (hasResidual)
    parameters.push_back("const bf16 *residual");
  if (nextNorm)
    parameters.push_back("const f32 *nextNorm");
  for (int64_t part = 0; part < results && !isHead; ++part) {
    std::string name = "y" + std::to_string(part);
    parameters.push_back((getCudaTypeName(result) + " *" + name).str());
    outputs += (part ? ", " : "") + name;
  }
  if (nextNorm) {
    parameters.push_back("bf16 *next");
    parameters.push_back("f32 *nextSquares");
  }
  auto given = [](bool isGiven, const char *name) {
    return std::string(isGiven ? name : "nullptr") + ", ";
  };
  std::string layer =
      "{x, {" + weights + "}, " + given(hasNorm && !fromFragments, "norm") +
      given(hasResidual, "residual") + "{" + (isHead ? "nullptr" : outputs) +
      "}, " + given(hasNorm && fromFragments, "squares") +
      given(nextNorm, "nextNorm") + given(nextNorm, "next") +
      given(nextNorm, "nextSquares") + "0}";
  if (isHead) {
    parameters.push_back("f32 *logits");
    parameters.push_back("i32 *tokens");
    return call("headArgmax", layer + ", logits, tokens, live, rows, scratch");
  }
  call(spec.has("bits") ? "quantLinear" : "linear",
       layer + ", live, rows, scratch");
}
