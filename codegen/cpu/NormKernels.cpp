//===- NormKernels.cpp - rms_norm, gated_rms_norm, l2_norm ----------------===//

#include "codegen/cpu/Kernels.h"
#include "codegen/cpu/VectorMath.h"

using namespace tandem;
using namespace tandem::codegen;
using plan::KernelFamily;

void tandem::codegen::buildNorm(KernelBuilder &k) {
  const KernelSpec &spec = k.spec();
  bool isRms = spec.family() == KernelFamily::rms_norm;
  bool isGated = spec.family() == KernelFamily::gated_rms_norm;
  int64_t columns = spec.getInt("columns");
  int64_t dim = spec.getInt("dim");
  float eps = spec.getFloat("eps");
  float offset = isRms ? spec.getFloat("offset") : 0.0f;

  int64_t next = 0;
  Memory x = k.operand(next++, k.f32());
  Memory gate = isGated ? k.operand(next++, k.f32()) : Memory();
  Memory weight = isRms || isGated ? k.operand(next++, k.f32()) : Memory();
  Memory y = k.operand(next, k.f32());

  k.loopItems([&](Var row) {
    k.loop(0, columns, dim, [&](Var run) {
      Var base = row * columns + run;
      Vars sums = k.loopColumns(dim, {k.splat(0.0)},
                                [&](Var column, Var mask, const Vars &sum) {
                                  Var value = x.loadVector(base + column, mask);
                                  return Vars{k.fma(value, value, sum[0])};
                                });
      Var square = sumLanes(k, sums[0]);
      if (isRms || isGated)
        square = square / double(dim);
      Var factor = k.splat(1.0) / sqrt(k, k.broadcast(square + eps));

      k.loopColumns(dim, [&](Var column, Var mask) {
        Var value = x.loadVector(base + column, mask) * factor;
        if (isRms || isGated) {
          Var w = weight.loadVector(column, mask);
          value = value * (offset != 0.0f ? w + offset : w);
        }
        if (isGated)
          value = value * silu(k, gate.loadVector(base + column, mask));
        y.storeVector(base + column, value, mask);
      });
    });
  });
}
