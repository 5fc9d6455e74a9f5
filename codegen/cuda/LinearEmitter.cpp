//===- LinearEmitter.cpp - Linear layers in CUDA --------------------------===//
//
// How a layer is cut: few_rows.cuh, many_rows.cuh and wide_rows.cuh draw it.
// How columns are is part of the order of sums, so it follows from the shape of
// the weights (of many_rows.cuh and wide_rows.cuh: and the architecture), never
// from the rows of a launch; but of wide_rows.cuh from the live rows.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/KernelEmitter.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

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
static constexpr int64_t kSumsBytes = 2 * 256 * 4, kBarrierBytes = 256;
/// Warps that add sums.
static constexpr int64_t kSumWarps = 4;

/// Cuts the columns of \p units units of \p steps steps: into the fewest slices
/// whose warps have registers for their tokens, and two stages of \p unitBytes
/// a unit in \p shared bytes; \p copiesTiles: a stage has all units of a warp.
/// It depends on nothing else, so layers of the same columns sum in the same
/// order, fused or not.
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
      int64_t needed = warps * (kSumsBytes + 2 * stage);
      if (warps <= mostWarps && (needed <= shared || warps == 1))
        return {slices, warps, perWarp};
    }
  }
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

void KernelEmitter::emitFewRows(const Units &units, int64_t tilesPerItem) {
  auto items = static_cast<int64_t>(divideCeil(getTiles(), tilesPerItem));
  bool copiesTiles =
      target.copiesStretches && spec.has("bits") && units.bytes % 16 == 0;
  Cut cut = cutColumns(units.count, units.steps, units.bytes, copiesTiles,
                       getFewRowsShared());
  int64_t ranges =
      std::clamp<int64_t>(target.processors / cut.slices, 1, items);
  // As few blocks as take no longer leave multiprocessors to the layer beside.
  if (order.hasBeside(kernel.symbol))
    ranges = static_cast<int64_t>(
        divideCeil(items, static_cast<int64_t>(divideCeil(items, ranges))));
  int64_t fixedBytes = kBarrierBytes + cut.warps * kSumsBytes;
  if (spec.has("norm") && get("norm"))
    fixedBytes += getNormBytes();
  int64_t stageBytes =
      cut.warps * units.bytes * (copiesTiles ? cut.unitsPerWarp : 1);
  int64_t stages = std::clamp<int64_t>(
      (target.sharedLimit - fixedBytes) / stageBytes, 2, 16);
  int64_t rowBlocks = static_cast<int64_t>(divideCeil(maxRows, kFewRows));
  int64_t ticketBytes = 0,
          rangeTiles =
              static_cast<int64_t>(divideCeil(items, ranges)) * tilesPerItem;
  if (cut.slices > 1) {
    ticketBytes = getTicketBytes(rowBlocks * ranges);
    kernel.scratch =
        ticketBytes + rowBlocks * ranges * cut.slices * rangeTiles * 256 * 4;
  }
  numbers({{"tokens", kFewRows},
           {"slices", cut.slices},
           {"warps", cut.warps},
           {"unitsPerWarp", cut.unitsPerWarp},
           {"stages", stages}});
  numbers({{"rangeTiles", rangeTiles}, {"ticketBytes", ticketBytes}});
  flag("copiesTiles", copiesTiles);
  kernel.block = (cut.warps + kSumWarps) * 32;
  residentBlocks = 1;
  kernel.shared = fixedBytes + stages * stageBytes;
  kernel.grid = {{ranges}, {cut.slices}, {1, 1, kFewRows}};
  StringRef name = spec.has("bits") ? "FewQuantUnits" : "DenseUnits";
  assertions += "static_assert(FewRows<" + getStruct() + ", " + name.str() +
                "<" + getStruct() +
                ">>::sharedBytes == " + std::to_string(kernel.shared) + ");\n";
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
  if (spec.has("norm") && get("norm"))
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
  auto has = [&](StringRef option) { return spec.has(option) && get(option); };
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
  bool isGated = isFused && get("gated"), hasNorm = isFused && get("norm"),
       hasResidual = isFused && get("residual");
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
  flag("hasNorm", hasNorm);
  flag("hasResidual", hasResidual);
  flag("isBeside", target.startsEarly && order.isBeside(kernel.symbol));
  if (hasNorm) {
    real("eps", spec.getFloat("eps"));
    real("offset", spec.getFloat("offset"));
  }
  type("Result", result);

  Units units = emitWeight();
  int64_t tokens = given.contains("row_tile") ? get("row_tile") : kFewRows;
  // Norms of so many rows have a kernel of their own.
  bool isWide = tokens == kWideRows && !isHead && !hasNorm && canBeWide(units);
  // The addresses of so many results take registers that a large tile has not.
  constexpr int64_t mostLargeParts = 8, fewerTokens = 32, largest = 64;
  if (!isWide)
    tokens = std::min(tokens, parts > mostLargeParts ? fewerTokens : largest);
  if (isWide) {
    emitWideRows(units);
  } else if (tokens <= kFewRows || isHead) {
    // Tiles that must stay together; the sinks of few_rows.cuh and head.cuh.
    emitFewRows(units, isHead ? 8 : isGated ? 2 : 1);
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
  if (hasNorm)
    parameters.push_back("const f32 *norm");
  if (hasResidual)
    parameters.push_back("const bf16 *residual");
  for (int64_t part = 0; part < results && !isHead; ++part) {
    std::string name = "y" + std::to_string(part);
    parameters.push_back((getCudaTypeName(result) + " *" + name).str());
    outputs += (part ? ", " : "") + name;
  }
  std::string layer = "{x, {" + weights + "}, " +
                      (hasNorm ? "norm, " : "nullptr, ") +
                      (hasResidual ? "residual, " : "nullptr, ") + "{" +
                      (isHead ? "nullptr" : outputs) + "}, 0}";
  if (isHead) {
    parameters.push_back("f32 *logits");
    parameters.push_back("i32 *tokens");
    return call("headArgmax", layer + ", logits, tokens, live, rows, scratch");
  }
  call(spec.has("bits") ? "quantLinear" : "linear",
       layer + ", live, rows, scratch");
}
