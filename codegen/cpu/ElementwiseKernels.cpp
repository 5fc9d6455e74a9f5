//===- ElementwiseKernels.cpp - silu, sigmoid, add, mul -------------------===//

#include "codegen/cpu/Kernels.h"
#include "codegen/cpu/VectorMath.h"

using namespace tandem;
using namespace tandem::codegen;
using plan::KernelFamily;

void tandem::codegen::buildElementwise(KernelBuilder &k) {
  KernelFamily family = k.spec().family();
  bool isBinary = family == KernelFamily::add || family == KernelFamily::mul;
  int64_t columns = k.spec().getInt("columns");
  Memory left = k.operand(0, k.f32());
  Memory right = isBinary ? k.operand(1, k.f32()) : Memory();
  Memory result = k.operand(isBinary ? 2 : 1, k.f32());

  k.loopItems([&](Var row) {
    Var base = row * columns;
    k.loopColumns(columns, [&](Var column, Var mask) {
      Var index = base + column;
      Var x = left.loadVector(index, mask);
      Var y;
      switch (family) {
      case KernelFamily::silu:
        y = silu(k, x);
        break;
      case KernelFamily::sigmoid:
        y = sigmoid(k, x);
        break;
      case KernelFamily::add:
        y = x + right.loadVector(index, mask);
        break;
      default:
        y = x * right.loadVector(index, mask);
        break;
      }
      result.storeVector(index, y, mask);
    });
  });
}
