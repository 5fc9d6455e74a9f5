//===- KernelBuilder.h - A kernel under construction ------------*- C++ -*-===//
//
// What all kernels share: their arguments (KernelAbi.h), loops, conditions and
// the tails of loops over columns.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_CPU_KERNELBUILDER_H
#define TANDEM_CODEGEN_CPU_KERNELBUILDER_H

#include "codegen/cpu/CpuTarget.h"
#include "codegen/cpu/KernelSpec.h"
#include "codegen/cpu/Var.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/DenseMap.h"

namespace tandem::codegen {

/// Values that a loop hands from one iteration to the next.
using Vars = llvm::SmallVector<Var>;

/// Builds one function `void symbol(const TandemKernelArgs *)`.
class KernelBuilder {
public:
  /// Lanes of a vector: the width of a tile in every packing.
  static constexpr int64_t lanes = plan::kTile;

  /// Starts the function of \p spec at the end of \p module.
  KernelBuilder(mlir::ModuleOp module, const KernelSpec &spec,
                const CpuTarget &target);
  /// Ends the function.
  void finish();

  const KernelSpec &spec() const { return kernelSpec; }
  const CpuTarget &target() const { return cpuTarget; }
  mlir::ImplicitLocOpBuilder &ops() { return builder; }

  //===--- Types and constants ---===//

  mlir::Type f32() { return builder.getF32Type(); }
  mlir::Type i32() { return builder.getI32Type(); }
  mlir::Type i64() { return builder.getI64Type(); }
  mlir::Type typeOf(FloatKind kind);
  mlir::VectorType vectorOf(mlir::Type element) {
    return mlir::VectorType::get({lanes}, element);
  }
  /// A constant at the start of the function, made once.
  Var constant(mlir::TypedAttr value);
  Var index(int64_t value) { return Operand(value).as(*this, i64()); }
  Var number(float value) { return Operand(value).as(*this, f32()); }
  /// A number in all lanes.
  Var splat(const Operand &value) { return value.as(*this, vectorOf(f32())); }
  /// i32 0, 1, .. 15.
  Var laneNumbers();
  /// True in the first \p count lanes; nothing (all lanes) for a literal of
  /// 16 or more.
  Var firstLanes(int64_t count);
  Var firstLanes(Var count);

  //===--- Arguments ---===//

  /// Operand \p number of the launch; inputs come first.
  Memory operand(const Operand &number, mlir::Type element);
  Var rows() { return liveRows; }
  Var begin() { return firstItem; }
  Var end() { return endItem; }
  /// Scratch of at least \p bytes; a kernel asks once.
  Memory scratch(int64_t bytes, mlir::Type element);
  uint64_t scratchBytes() const { return neededScratch; }

  //===--- Control ---===//

  using Body = llvm::function_ref<void(Var)>;
  using CarryingBody = llvm::function_ref<Vars(Var, const Vars &)>;

  /// for (i = lower; i < upper; i += step) body(i)
  void loop(const Operand &lower, const Operand &upper, int64_t step,
            Body body);
  /// The same, with values carried from one iteration to the next; returns
  /// what the last one left.
  Vars loop(const Operand &lower, const Operand &upper, int64_t step,
            const Vars &initial, CarryingBody body);
  /// Items of this call.
  void loopItems(Body body) { loop(begin(), end(), 1, body); }

  /// Runs over \p count columns by vectors: body(column, mask), the mask being
  /// nothing except for a last vector that is not full.
  void loopColumns(int64_t count, llvm::function_ref<void(Var, Var)> body);
  Vars loopColumns(
      int64_t count, const Vars &initial,
      llvm::function_ref<Vars(Var column, Var mask, const Vars &)> body);

  void ifThen(Var condition, llvm::function_ref<void()> then);
  Vars ifElse(Var condition, llvm::function_ref<Vars()> then,
              llvm::function_ref<Vars()> otherwise);

  //===--- Operations without an operator ---===//

  Var select(Var condition, Var yes, const Operand &no);
  /// left * right + addend, rounded once.
  Var fma(Var left, Var right, Var addend);
  Var min(Var left, const Operand &right);
  Var max(Var left, const Operand &right);
  /// i32 to i64 and back.
  Var toIndex(Var value);
  Var toInt32(Var value);
  /// i32 to f32.
  Var toFloat(Var value);
  Var bitcast(Var value, mlir::Type element);
  /// Lanes of \p left (0 to 15) and \p right (16 to 31) in the order \p picks.
  Var shuffle(Var left, Var right, llvm::ArrayRef<int64_t> picks);
  /// Lane i of the result is the lane of \p table whose number are the low four
  /// bits of lane i of \p picks. AVX-512 only.
  Var permute(Var table, Var picks);
  /// The same for halves of words: half i of the result is the half of
  /// \p table, [32] i16, whose number are the low five bits of half i of
  /// \p picks, [16] i32. AVX-512 only.
  Var permuteHalves(Var table, Var picks);
  /// Halves of the words \p words in the order \p picks, [32] i16. AVX-512
  /// only.
  Var pickHalves(Var words, Var picks);
  /// Adds to every lane of \p sum (i32) the products of its four bytes in
  /// \p left, unsigned and below \p limit, and \p right, signed, from -127 on.
  Var dotBytes(Var sum, Var left, Var right, int64_t limit);
  /// Adds to every lane of \p sum (f32) the products of its two bf16 in \p left
  /// and \p right, [16] i32 each. Only where the processor hasBf16Dots().
  Var dotBf16(Var sum, Var left, Var right);
  /// The numbers of \p first and then of \p second, f32, as the nearest bf16,
  /// in the order \p picks, [32] i16. Only where the processor hasBf16Dots().
  Var narrowToBf16(Var first, Var second, Var picks);
  Var extract(Var vector, int64_t lane);
  Var broadcast(Var scalar);
  /// Calls an intrinsic of LLVM that has no result.
  void callIntrinsic(llvm::StringRef name,
                     llvm::ArrayRef<mlir::Value> arguments);

private:
  mlir::Value callIntrinsic(llvm::StringRef name, mlir::Type type,
                            llvm::ArrayRef<mlir::Value> arguments);
  mlir::Value bitcastTo(mlir::Value value, int64_t count, mlir::Type element);

  const KernelSpec &kernelSpec;
  const CpuTarget &cpuTarget;
  mlir::ImplicitLocOpBuilder builder;
  mlir::Block *entry = nullptr;
  /// Last constant at the start of the function.
  mlir::Operation *lastConstant = nullptr;
  llvm::DenseMap<mlir::Attribute, mlir::Value> constants;
  Memory operandTable;
  Memory scratchMemory;
  Var liveRows, firstItem, endItem;
  uint64_t neededScratch = 0;
};

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CPU_KERNELBUILDER_H
