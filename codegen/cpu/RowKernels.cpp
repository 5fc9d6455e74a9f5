//===- RowKernels.cpp - Kernels that move rows and columns ----------------===//

#include "codegen/cpu/Kernels.h"

using namespace tandem::codegen;

/// Copies \p count numbers.
static void copyColumns(KernelBuilder &k, Memory from, Memory to,
                        int64_t count) {
  k.loopColumns(count, [&](Var column, Var mask) {
    to.storeVector(column, from.loadVector(column, mask), mask);
  });
}

void tandem::codegen::buildLastRow(KernelBuilder &k) {
  int64_t columns = k.spec().getInt("columns");
  Memory x = k.operand(0, k.f32());
  Memory count = k.operand(1, k.i32());
  Memory y = k.operand(2, k.f32());
  k.loopItems([&](Var) {
    Var row = k.max(k.min(k.toIndex(count.load(0)) - 1, k.rows() - 1), 0);
    copyColumns(k, x.at(row * columns), y, columns);
  });
}

void tandem::codegen::buildDropRows(KernelBuilder &k) {
  int64_t columns = k.spec().getInt("columns");
  int64_t first = k.spec().getInt("first");
  Memory x = k.operand(0, k.f32());
  Memory y = k.operand(1, k.f32());
  k.loopItems([&](Var row) {
    copyColumns(k, x.at((row + first) * columns), y.at(row * columns), columns);
  });
}

void tandem::codegen::buildSplit(KernelBuilder &k) {
  const std::vector<int64_t> &widths = k.spec().widths();
  int64_t groups = k.spec().getInt("groups");
  int64_t columns = 0;
  for (int64_t width : widths)
    columns += width;
  Memory x = k.operand(0, k.f32());

  k.loopItems([&](Var row) {
    int64_t offset = 0;
    for (size_t part = 0; part < widths.size(); ++part) {
      int64_t run = widths[part] / groups;
      Memory y = k.operand(1 + static_cast<int64_t>(part), k.f32());
      k.loop(0, groups, 1, [&](Var group) {
        copyColumns(k,
                    x.at(row * columns + group * (columns / groups) + offset),
                    y.at(row * widths[part] + group * run), run);
      });
      offset += run;
    }
  });
}

void tandem::codegen::buildConcatFeatures(KernelBuilder &k) {
  const std::vector<int64_t> &widths = k.spec().widths();
  int64_t columns = 0;
  for (int64_t width : widths)
    columns += width;
  Memory y = k.operand(static_cast<int64_t>(widths.size()), k.f32());

  k.loopItems([&](Var row) {
    int64_t offset = 0;
    for (size_t part = 0; part < widths.size(); ++part) {
      Memory x = k.operand(static_cast<int64_t>(part), k.f32());
      copyColumns(k, x.at(row * widths[part]), y.at(row * columns + offset),
                  widths[part]);
      offset += widths[part];
    }
  });
}

void tandem::codegen::buildCopy(KernelBuilder &k) {
  int64_t bytes = k.spec().getInt("bytes");
  mlir::Type i8 = k.ops().getI8Type();
  Memory from = k.operand(0, i8);
  Memory to = k.operand(1, i8);
  k.loopItems([&](Var) {
    int64_t words = bytes / 4;
    copyColumns(k, from.as(k.i32()), to.as(k.i32()), words);
    for (int64_t byte = words * 4; byte < bytes; ++byte)
      to.store(byte, from.load(byte));
  });
}
