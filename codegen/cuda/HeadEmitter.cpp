//===- HeadEmitter.cpp - Heads in CUDA ------------------------------------===//
//
// How heads that are not read whole are cut: head_search.cuh, head_settle.cuh
// and head_draft.cuh draw it.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/ColumnCut.h"
#include "codegen/cuda/KernelEmitter.h"

#include <cmath>

using namespace llvm;
using namespace tandem;
using namespace tandem::codegen;

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
  ColumnCut cut = cutColumns(units.count, units.steps, units.bytes,
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
