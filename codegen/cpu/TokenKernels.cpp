//===- TokenKernels.cpp - From logits to tokens ---------------------------===//

#include "codegen/cpu/Kernels.h"
#include "codegen/cpu/VectorMath.h"

#include <limits>

using namespace tandem::codegen;

Largest tandem::codegen::findLargestLane(KernelBuilder &k, Var numbers,
                                         Var columns) {
  Var value = maxLanes(k, numbers);
  Var none =
      Operand(std::numeric_limits<int32_t>::max()).as(k, k.vectorOf(k.i32()));
  return {value, minLanes(k, k.select(numbers.isEqual(value), columns, none))};
}

/// Finds the largest of \p columns numbers at \p row; what is not a number is
/// passed over.
static Largest findLargest(KernelBuilder &k, Memory row, int64_t columns) {
  Var noColumns = Operand(0).as(k, k.vectorOf(k.i32()));
  // Every lane keeps the first of its own largest.
  Vars best =
      k.loopColumns(columns, {k.splat(-infinity), noColumns},
                    [&](Var column, Var mask, const Vars &best) {
                      Var x = row.loadVector(column, mask, k.splat(-infinity));
                      Var at = k.laneNumbers() + k.toInt32(column);
                      Var larger = x > best[0];
                      return Vars{k.select(larger, x, best[0]),
                                  k.select(larger, at, best[1])};
                    });
  return findLargestLane(k, best[0], best[1]);
}

void tandem::codegen::buildArgmax(KernelBuilder &k) {
  int64_t columns = k.spec().getInt("columns");
  Memory logits = k.operand(0, k.f32());
  Memory tokens = k.operand(1, k.i32());
  k.loopItems([&](Var row) {
    tokens.store(row, findLargest(k, logits.at(row * columns), columns).column);
  });
}

void tandem::codegen::buildMaskBlock(KernelBuilder &k) {
  Memory anchor = k.operand(0, k.i32());
  Memory block = k.operand(1, k.i32());
  Var mask = Operand(k.spec().getInt("mask_token")).as(k, k.i32());
  k.loopItems([&](Var) {
    block.store(0, anchor.load(0));
    k.loop(1, k.spec().getInt("size"), 1,
           [&](Var slot) { block.store(slot, mask); });
  });
}

void tandem::codegen::buildUnmask(KernelBuilder &k) {
  int64_t columns = k.spec().getInt("columns");
  int64_t slots = k.spec().getInt("size") - 1;
  Memory block = k.operand(0, k.i32());
  Memory logits = k.operand(1, k.f32());
  Memory result = k.operand(2, k.i32());
  Var maskToken = Operand(k.spec().getInt("mask_token")).as(k, k.i32());
  // By slot behind the anchor: its candidate, and how sure the model is of it,
  // -1 for a slot that is not to be filled (any more).
  Memory candidates = k.scratch(slots * 8, k.i32());
  Memory confidences = candidates.at(slots).as(k.f32());

  k.loopItems([&](Var) {
    k.loop(0, slots, 1, [&](Var slot) {
      Memory row = logits.at(slot * columns);
      Largest largest = findLargest(k, row, columns);
      candidates.store(slot, largest.column);
      Vars sums = k.loopColumns(
          columns, {k.splat(0.0)}, [&](Var column, Var mask, const Vars &sum) {
            Var x = row.loadVector(column, mask, k.splat(-infinity));
            return Vars{sum[0] + exp(k, x - largest.value)};
          });
      // The softmax probability of the largest.
      Var confidence = k.number(1.0) / sumLanes(k, sums[0]);
      confidence = k.select(confidence >= 0.0, confidence, k.number(0.0));
      Var isMasked = block.load(slot + 1).isEqual(maskToken);
      confidences.store(slot, k.select(isMasked, confidence, k.number(-1.0)));
    });
    k.loop(0, slots + 1, 1,
           [&](Var slot) { result.store(slot, block.load(slot)); });

    int64_t fill = std::min(k.spec().getInt("fill"), slots);
    k.loop(0, fill, 1, [&](Var) {
      Vars best = k.loop(0, slots, 1, {k.number(-1.0), k.index(0)},
                         [&](Var slot, const Vars &best) {
                           Var confidence = confidences.load(slot);
                           Var better = confidence > best[0];
                           return Vars{k.select(better, confidence, best[0]),
                                       k.select(better, slot, best[1])};
                         });
      k.ifThen(best[0] >= 0.0, [&] {
        result.store(best[1] + 1, candidates.load(best[1]));
        confidences.store(best[1], k.number(-1.0));
      });
    });
  });
}

void tandem::codegen::buildConcatTokens(KernelBuilder &k) {
  int64_t leftCount = k.spec().getInt("left");
  Memory left = k.operand(0, k.i32());
  Memory right = k.operand(1, k.i32());
  Memory result = k.operand(2, k.i32());
  k.loopItems([&](Var) {
    k.loop(0, leftCount, 1, [&](Var i) { result.store(i, left.load(i)); });
    k.loop(0, k.spec().getInt("right"), 1,
           [&](Var i) { result.store(i + leftCount, right.load(i)); });
  });
}

void tandem::codegen::buildAccept(KernelBuilder &k) {
  Memory block = k.operand(0, k.i32());
  Memory decided = k.operand(1, k.i32());
  Memory start = k.operand(2, k.i32());
  k.loopItems([&](Var) {
    // Counts on as long as every draft so far was right.
    Var one = k.index(1);
    Vars agreed = k.loop(1, k.rows(), 1, {k.min(one, k.rows()), one},
                         [&](Var row, const Vars &carried) {
                           Var equal =
                               block.load(row).isEqual(decided.load(row - 1));
                           Var still = k.select(equal, carried[1], 0);
                           return Vars{carried[0] + still, still};
                         });
    Var accepted = agreed[0];
    // Everything is read before anything is written: results may lie on
    // operands.
    Var position = start.load(0);
    Var anchor = decided.load(k.max(accepted - 1, 0));
    Var count = k.toInt32(accepted);
    k.operand(3, k.i32()).store(0, count);
    k.ifThen(accepted > 0, [&] { k.operand(4, k.i32()).store(0, anchor); });
    k.operand(5, k.i32()).store(0, position + count);
    k.operand(6, k.i32()).store(0, position);
  });
}

void tandem::codegen::buildArgmaxParts(KernelBuilder &k) {
  buildArgmaxParts(k, k.operand(2, k.i32()));
}

void tandem::codegen::buildArgmaxParts(KernelBuilder &k, Memory result) {
  int64_t parts = k.spec().getInt("parts");
  Memory logits = k.operand(0, k.f32());
  Memory tokens = k.operand(1, k.i32());
  k.loopItems([&](Var row) {
    Var part = findLargest(k, logits.at(row * parts), parts).column;
    result.store(row, tokens.load(row * parts + k.toIndex(part)));
  });
}

void tandem::codegen::buildSelectTokens(KernelBuilder &k) {
  int64_t entries = k.spec().getInt("entries");
  Memory places = k.operand(0, k.i32());
  Memory table = k.operand(1, k.i32());
  Memory result = k.operand(2, k.i32());
  k.loopItems([&](Var row) {
    Var place = k.toIndex(places.load(row));
    Var exists = (place >= 0) & (place < entries);
    result.store(row, table.load(k.select(exists, place, 0)));
  });
}

void tandem::codegen::buildLastPosition(KernelBuilder &k) {
  Var start = k.operand(0, k.i32()).load(0);
  Var count = k.operand(1, k.i32()).load(0);
  Memory result = k.operand(2, k.i32());
  k.loopItems([&](Var) { result.store(0, start + k.max(count - 1, 0)); });
}
