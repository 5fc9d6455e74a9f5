//===- LinearEmitter.cpp - Linear layers in CUDA --------------------------===//
//
// How a layer is cut: few_rows.cuh, many_rows.cuh, medium_rows.cuh,
// medium_clusters.cuh and wide_rows.cuh draw it. How columns are is part of the
// order of sums, so it follows from the shape of the weights (of those but
// few_rows.cuh: and the architecture), never from the rows of a launch; but of
// wide_rows.cuh from the live rows.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/ColumnCut.h"
#include "codegen/cuda/KernelEmitter.h"

using namespace llvm;
using namespace tandem;
using namespace tandem::codegen;
using plan::KernelFamily;

int64_t KernelEmitter::getTiles() const {
  int64_t tiles = 0;
  for (int64_t width : widths)
    tiles += static_cast<int64_t>(divideCeil(width, kTileOutputs));
  return tiles;
}

//===----------------------------------------------------------------------===//
// Up to 16 rows
//===----------------------------------------------------------------------===//

/// Shared memory for the barriers of a block of few_rows.cuh.
static constexpr int64_t kBarrierBytes = 256;
/// A multiprocessor has four parts with 64 times 256 registers each, in which a
/// warp takes as many for every eight of a thread. What a block of the first
/// half may take of a part, and more than half of it: few_rows.cuh.
static constexpr int64_t kParts = 4, kPartPieces = 64, kFirstHalfPieces = 30,
                         kSecondHalfPieces = 33;

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
  std::optional<ColumnCut> ofCluster;
  if (copiesTiles)
    ofCluster = cutForCluster(units.count, units.steps, units.bytes,
                              getFewRowsShared());
  ColumnCut cut = ofCluster ? *ofCluster
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

/// What tokens that warps multiply together begin at multiples of, in bytes
/// (warpgroup.cuh).
static constexpr int64_t kProductAlignment = 1024;

/// Tokens and outputs of medium_rows.cuh.
static constexpr int64_t kMediumRows = 64, kMediumOutputs = 128;

/// Bytes of the tokens of a unit in a stage.
static int64_t getMediumTokenBytes(const KernelEmitter::Units &units) {
  return kMediumRows * units.steps * 16 * 2;
}

void KernelEmitter::emitMediumRows(const Units &units) {
  constexpr int64_t tiles = kMediumOutputs / kTileOutputs, threads = 256;
  auto outputBlocks = static_cast<int64_t>(divideCeil(getTiles(), tiles));
  int64_t stageBytes = getMediumTokenBytes(units) + tiles * units.bytes;
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

/// Tiles and blocks of a cluster of medium_clusters.cuh.
struct MediumCut {
  int64_t tiles, slices;
};

/// The cut of \p tiles tiles for which a multiprocessor moves the fewest bytes.
static MediumCut cutMedium(const KernelEmitter::Units &units, int64_t tiles,
                           int64_t together, int64_t processors,
                           int64_t mostTiles) {
  // Blocks finish eights of the tokens.
  constexpr int64_t mostSlices = kMediumRows / 8;
  int64_t tokenBytes = getMediumTokenBytes(units);
  MediumCut best = {};
  int64_t fewest = 0;
  for (int64_t slices = 1; slices <= std::min(mostSlices, units.count);
       slices *= 2) {
    int64_t clusters = getClusterProcessors(processors, slices) / slices;
    auto ofCluster = std::min(
        mostTiles,
        static_cast<int64_t>(alignTo(divideCeil(tiles, clusters), together)));
    auto turns = static_cast<int64_t>(
        divideCeil(divideCeil(tiles, ofCluster), clusters));
    auto sliceUnits = static_cast<int64_t>(divideCeil(units.count, slices));
    // Sums are sent and read.
    int64_t sumBytes = 2 * ofCluster * kTileOutputs * kMediumRows * 4;
    int64_t bytes =
        turns *
        (sliceUnits * (tokenBytes + ofCluster * units.bytes) + sumBytes);
    if (slices == 1 || bytes < fewest) {
      best = {ofCluster, slices};
      fewest = bytes;
    }
  }
  return best;
}

void KernelEmitter::emitMediumClusters(const Units &units) {
  // So many that threads have registers enough, and three stages fit.
  constexpr int64_t mostTiles = 20, fewestStages = 3, mostStages = 8;
  int64_t tokenBytes = getMediumTokenBytes(units),
          stageLimit = target.sharedLimit / fewestStages - kProductAlignment,
          fitting = (stageLimit - tokenBytes) / units.bytes;
  int64_t together = has("gated") ? 2 : 1;
  MediumCut cut = cutMedium(
      units, getTiles(), together, target.processors,
      std::min(mostTiles, static_cast<int64_t>(alignDown(fitting, together))));
  auto stageBytes = static_cast<int64_t>(
      alignTo(tokenBytes + cut.tiles * units.bytes, kProductAlignment));
  constexpr int64_t barrierBytes = 16;
  int64_t stages = std::clamp<int64_t>((target.sharedLimit - barrierBytes) /
                                           (stageBytes + barrierBytes),
                                       fewestStages, mostStages);
  numbers({{"tokens", kMediumRows}, {"stages", stages}});
  numbers({{"blockTiles", cut.tiles}, {"slices", cut.slices}});
  residentBlocks = 1;
  clusterBlocks = cut.slices;
  constexpr int64_t groupWarps = 4;
  kernel.block =
      static_cast<int64_t>(alignTo(cut.tiles, groupWarps) + groupWarps) * 32;
  kernel.shared = stages * (stageBytes + barrierBytes) + barrierBytes;
  kernel.grid = {{static_cast<int64_t>(divideCeil(getTiles(), cut.tiles))},
                 {cut.slices},
                 {1}};
  assertions += "static_assert(MediumClusters<" + getStruct() +
                ", QuantUnits<" + getStruct() + ">, CodeStage<" + getStruct() +
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
  // Two blocks on a multiprocessor; warps that multiply together are as fast as
  // the L2, so there one block of twice as many outputs reads its tokens once.
  int64_t resident = target.multipliesInGroups ? 1 : 2;
  int64_t tiles = 16 / resident, threads = tiles * 16;
  auto outputBlocks = static_cast<int64_t>(divideCeil(getTiles(), tiles));
  auto tokenBlocks = static_cast<int64_t>(divideCeil(maxRows, kWideRows));
  // Scales as a whole and half of the words.
  int64_t tileBytes =
      units.bytes - kTileOutputs * kWideColumns * get("bits") / 8;
  auto stageBytes = static_cast<int64_t>(alignTo(
      tiles * tileBytes + kWideRows * kWideColumns * 2, kProductAlignment));
  constexpr int64_t fewest = 2;
  int64_t most = 8 / resident;
  // Where two stages of each fit.
  int64_t shared = target.sharedLimit / resident;
  if (shared < fewest * stageBytes)
    shared = target.sharedLimit;
  int64_t stages = std::clamp<int64_t>(shared / stageBytes, fewest, most);
  // A slice of few stages costs more than it brings.
  constexpr int64_t fewestOfSlice = 4;
  auto count = static_cast<int64_t>(divideCeil(get("columns"), kWideColumns));
  int64_t mostSlices = std::clamp<int64_t>(count / fewestOfSlice, 1, 16);
  int64_t slots = resident * target.processors;
  int64_t ticketBytes = 0;
  if (mostSlices > 1 && slots / outputBlocks > 1) {
    ticketBytes = getTicketBytes(slots);
    kernel.scratch = ticketBytes + slots * kWideRows * tiles * kTileOutputs * 4;
  }
  numbers({{"tokens", kWideRows}, {"blockTiles", tiles}, {"stages", stages}});
  numbers({{"slots", slots}, {"mostSlices", mostSlices}});
  numbers({{"ticketBytes", ticketBytes}});
  residentBlocks = resident;
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
  bool inClusters = isMedium && target.multipliesInGroups;
  if (spec.has("bits")) {
    flag("isMedium", isMedium);
    flag("inClusters", inClusters);
  }
  if (!isWide && !isMedium)
    tokens = std::min(tokens, parts > mostLargeParts ? fewerTokens : largest);
  // So few outputs of dozens of rows are more blocks of few rows.
  constexpr int64_t fewTiles = 8;
  if (!spec.has("bits") && !isHead && maxRows <= kMediumRows &&
      getTiles() <= fewTiles)
    tokens = std::min(tokens, kFewRows);
  if (isWide) {
    emitWideRows(units);
  } else if (inClusters) {
    emitMediumClusters(units);
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
