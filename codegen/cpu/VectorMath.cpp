//===- VectorMath.cpp - Functions of 16 numbers ---------------------------===//

#include "codegen/cpu/VectorMath.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace tandem::codegen;

/// 2^n for n in [-126, 127], by writing the exponent.
static Var powerOfTwo(KernelBuilder &k, Var n) {
  return k.bitcast((n + 127) << 23, k.f32());
}

/// The polynomial with \p coefficients, highest power first.
static Var polynomial(KernelBuilder &k, Var x,
                      llvm::ArrayRef<double> coefficients) {
  Var result = k.splat(coefficients.front());
  for (double coefficient : coefficients.drop_front())
    result = k.fma(result, x, k.splat(coefficient));
  return result;
}

Var tandem::codegen::exp(KernelBuilder &k, Var x) {
  // Beyond these the result is 0 or infinity anyway. Not a number stays.
  x = k.select(x < -104.0, k.splat(-104.0), x);
  x = k.select(x > 89.0, k.splat(89.0), x);
  // x = n log(2) + r with |r| <= log(2) / 2. Adding 1.5 * 2^23 rounds to an
  // integer and leaves it in the low bits.
  constexpr double shift = 12582912.0;
  Var shifted = k.fma(x, k.splat(1.44269504088896341), k.splat(shift));
  Var n = shifted - shift;
  // log(2) in two parts: its nearest f32 and what is missing.
  Var r = k.fma(n, k.splat(-0.693147182464599609375), x);
  r = k.fma(n, k.splat(1.904654299957768e-9), r);
  Var p = polynomial(
      k, r,
      {1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 1.0 / 2, 1.0, 1.0});
  // 2^n in two factors, since it may lie outside the exponents of f32.
  Var exponent =
      k.bitcast(shifted, k.i32()) - k.bitcast(k.splat(shift), k.i32());
  Var half = exponent >> 1;
  return p * powerOfTwo(k, half) * powerOfTwo(k, exponent - half);
}

Var tandem::codegen::sigmoid(KernelBuilder &k, Var x) {
  return k.splat(1.0) / (exp(k, -x) + 1.0);
}

Var tandem::codegen::silu(KernelBuilder &k, Var x) {
  return x / (exp(k, -x) + 1.0);
}

Var tandem::codegen::softplus(KernelBuilder &k, Var x) {
  // max(x, 0) + log(1 + u) with u = e^-|x| in (0, 1], and
  // log(1 + u) = 2 artanh(s) with s = u / (2 + u) <= 1/3.
  Var absolute = k.select(x < 0.0, -x, x);
  Var u = exp(k, -absolute);
  Var s = u / (u + 2.0);
  Var series = polynomial(k, s * s,
                          {2.0 / 17, 2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9,
                           2.0 / 7, 2.0 / 5, 2.0 / 3, 2.0});
  return k.fma(s, series, k.select(x < 0.0, k.splat(0.0), x));
}

Var tandem::codegen::sqrt(KernelBuilder &k, Var x) {
  return Var(k, mlir::LLVM::SqrtOp::create(k.ops(), x.type(), x.value()));
}

Var tandem::codegen::roundToBf16(KernelBuilder &k, Var x) {
  Var bits = k.bitcast(x, k.i32());
  Var isOdd = (bits >> 16) & 1;
  return (bits + 0x7fff + isOdd) & int32_t(0xffff0000);
}

/// Combines lane i with lane i + 8, then i + 4 .. until one is left.
template <typename Combine>
static Var reduceLanes(KernelBuilder &k, Var x, Combine combine) {
  for (int64_t distance = KernelBuilder::lanes / 2; distance > 0;
       distance /= 2) {
    llvm::SmallVector<int64_t> rotated;
    for (int64_t lane = 0; lane < KernelBuilder::lanes; ++lane)
      rotated.push_back((lane + distance) % KernelBuilder::lanes);
    x = combine(x, k.shuffle(x, x, rotated));
  }
  return k.extract(x, 0);
}

Var tandem::codegen::sumLanes(KernelBuilder &k, Var x) {
  return reduceLanes(k, x, [](Var a, Var b) { return a + b; });
}

Var tandem::codegen::maxLanes(KernelBuilder &k, Var x) {
  return reduceLanes(k, x, [&](Var a, Var b) { return k.max(a, b); });
}

Var tandem::codegen::minLanes(KernelBuilder &k, Var x) {
  return reduceLanes(k, x, [&](Var a, Var b) { return k.min(a, b); });
}
