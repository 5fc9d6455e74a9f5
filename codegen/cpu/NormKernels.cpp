//===- NormKernels.cpp - rms_norm, gated_rms_norm, l2_norm ----------------===//

#include "codegen/cpu/Kernels.h"
#include "codegen/cpu/VectorMath.h"

using namespace tandem;
using namespace tandem::codegen;
using plan::KernelFamily;

void tandem::codegen::emitNorm(KernelBuilder &k, Memory x, Memory y,
                               int64_t dim, const NormNumbers &norm) {
  Vars sums = k.loopColumns(dim, {k.splat(0.0)},
                            [&](Var column, Var mask, const Vars &sum) {
                              Var value = x.loadVector(column, mask);
                              return Vars{k.fma(value, value, sum[0])};
                            });
  Var square = sumLanes(k, sums[0]);
  if (norm.isMean)
    square = square / double(dim);
  Var factor = k.splat(1.0) / sqrt(k, k.broadcast(square + norm.eps));

  k.loopColumns(dim, [&](Var column, Var mask) {
    Var value = x.loadVector(column, mask) * factor;
    if (norm.weight.isValid()) {
      Var w = norm.weight.loadVector(column, mask);
      value = value * (norm.offset != 0.0f ? w + norm.offset : w);
    }
    if (norm.gate.isValid())
      value = value * silu(k, norm.gate.loadVector(column, mask));
    y.storeVector(column, value, mask);
  });
}

void tandem::codegen::buildNorm(KernelBuilder &k) {
  const KernelSpec &spec = k.spec();
  bool isRms = spec.family() == KernelFamily::rms_norm;
  bool isGated = spec.family() == KernelFamily::gated_rms_norm;
  int64_t columns = spec.getInt("columns");
  int64_t dim = spec.getInt("dim");

  int64_t next = 0;
  Memory x = k.operand(next++, k.f32());
  Memory gate = isGated ? k.operand(next++, k.f32()) : Memory();
  Memory weight = isRms || isGated ? k.operand(next++, k.f32()) : Memory();
  Memory y = k.operand(next, k.f32());

  k.loopItems([&](Var row) {
    k.loop(0, columns, dim, [&](Var run) {
      Var base = row * columns + run;
      emitNorm(k, x.at(base), y.at(base), dim,
               {isRms || isGated, spec.getFloat("eps"),
                isRms ? spec.getFloat("offset") : 0.0f, weight,
                isGated ? gate.at(base) : Memory()});
    });
  });
}
