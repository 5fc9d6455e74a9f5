//===- KernelBuilder.cpp - A kernel under construction --------------------===//

#include "codegen/cpu/KernelBuilder.h"

#include "runtime/KernelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/STLExtras.h"

#include <cstddef>

using namespace mlir;
using namespace tandem::codegen;

KernelBuilder::KernelBuilder(ModuleOp module, const KernelSpec &spec,
                             const CpuTarget &target)
    : kernelSpec(spec), cpuTarget(target),
      builder(UnknownLoc::get(module.getContext()), module.getContext()) {
  builder.setInsertionPointToEnd(module.getBody());
  auto pointer = LLVM::LLVMPointerType::get(module.getContext());
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(module.getContext()), {pointer});
  auto function = LLVM::LLVMFuncOp::create(builder, spec.symbol(), type);
  entry = function.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);

  Memory arguments(*this, entry->getArgument(0), builder.getI8Type());
  auto field = [&](size_t offset, Type type) {
    return arguments.at(offset).as(type).load(0);
  };
  operandTable = Memory(
      *this, field(offsetof(TandemKernelArgs, operands), pointer).value(),
      pointer);
  liveRows = field(offsetof(TandemKernelArgs, rows), i64());
  firstItem = field(offsetof(TandemKernelArgs, begin), i64());
  endItem = field(offsetof(TandemKernelArgs, end), i64());
  scratchMemory =
      Memory(*this, field(offsetof(TandemKernelArgs, scratch), pointer).value(),
             builder.getI8Type());
}

void KernelBuilder::finish() { LLVM::ReturnOp::create(builder, ValueRange{}); }

//===----------------------------------------------------------------------===//
// Types, constants, arguments
//===----------------------------------------------------------------------===//

Type KernelBuilder::typeOf(FloatKind kind) {
  switch (kind) {
  case FloatKind::F32:
    return builder.getF32Type();
  case FloatKind::BF16:
    return builder.getBF16Type();
  case FloatKind::F16:
    return builder.getF16Type();
  }
  llvm_unreachable("a kind");
}

Var KernelBuilder::constant(TypedAttr value) {
  Value &known = constants[value];
  if (!known) {
    OpBuilder::InsertionGuard guard(builder);
    if (lastConstant)
      builder.setInsertionPointAfter(lastConstant);
    else
      builder.setInsertionPointToStart(entry);
    auto made = arith::ConstantOp::create(builder, value);
    lastConstant = made;
    known = made;
  }
  return Var(*this, known);
}

Var KernelBuilder::laneNumbers() {
  auto numbers = llvm::to_vector(llvm::seq<int32_t>(0, lanes));
  return constant(
      DenseElementsAttr::get(vectorOf(i32()), ArrayRef<int32_t>(numbers)));
}

Var KernelBuilder::firstLanes(int64_t count) {
  if (count >= lanes)
    return Var();
  SmallVector<bool> bits;
  for (int64_t lane = 0; lane < lanes; ++lane)
    bits.push_back(lane < count);
  return constant(DenseElementsAttr::get(vectorOf(builder.getI1Type()),
                                         ArrayRef<bool>(bits)));
}

Var KernelBuilder::firstLanes(Var count) {
  return laneNumbers() < toInt32(min(max(count, 0), lanes));
}

Memory KernelBuilder::operand(const Operand &number, Type element) {
  return Memory(*this, operandTable.load(number).value(), element);
}

Memory KernelBuilder::scratch(int64_t bytes, Type element) {
  assert(neededScratch == 0 && "a kernel asks once");
  neededScratch = static_cast<uint64_t>(bytes);
  return scratchMemory.as(element);
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

static SmallVector<Value> getValues(const Vars &vars) {
  return llvm::map_to_vector(vars, [](const Var &var) { return var.value(); });
}

static Vars makeVars(KernelBuilder &kernel, ValueRange values) {
  return llvm::map_to_vector(values,
                             [&](Value value) { return Var(kernel, value); });
}

Vars KernelBuilder::loop(const Operand &lower, const Operand &upper,
                         int64_t step, const Vars &initial, CarryingBody body) {
  Value first = lower.as(*this, i64()).value();
  Value last = upper.as(*this, i64()).value();
  auto op = scf::ForOp::create(builder, first, last, index(step).value(),
                               getValues(initial));
  {
    OpBuilder::InsertionGuard guard(builder);
    Block *block = op.getBody();
    // Without carried values the loop comes with its terminator.
    if (block->mightHaveTerminator())
      builder.setInsertionPoint(block->getTerminator());
    else
      builder.setInsertionPointToEnd(block);
    Vars left = body(Var(*this, op.getInductionVar()),
                     makeVars(*this, op.getRegionIterArgs()));
    if (!initial.empty())
      scf::YieldOp::create(builder, getValues(left));
  }
  return makeVars(*this, op.getResults());
}

void KernelBuilder::loop(const Operand &lower, const Operand &upper,
                         int64_t step, Body body) {
  loop(lower, upper, step, {}, [&](Var i, const Vars &) {
    body(i);
    return Vars();
  });
}

Vars KernelBuilder::loopColumns(
    int64_t count, const Vars &initial,
    llvm::function_ref<Vars(Var, Var, const Vars &)> body) {
  int64_t full = count / lanes * lanes;
  Vars carried = initial;
  if (full == lanes)
    carried = body(index(0), Var(), carried);
  else if (full > 0)
    carried = loop(0, full, lanes, carried, [&](Var column, const Vars &left) {
      return body(column, Var(), left);
    });
  if (count > full)
    carried = body(index(full), firstLanes(count - full), carried);
  return carried;
}

void KernelBuilder::loopColumns(int64_t count,
                                llvm::function_ref<void(Var, Var)> body) {
  loopColumns(count, {}, [&](Var column, Var mask, const Vars &) {
    body(column, mask);
    return Vars();
  });
}

void KernelBuilder::ifThen(Var condition, llvm::function_ref<void()> then) {
  auto op = scf::IfOp::create(builder, condition.value(),
                              /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(op.thenBlock());
  then();
}

Vars KernelBuilder::ifElse(Var condition, llvm::function_ref<Vars()> then,
                           llvm::function_ref<Vars()> otherwise) {
  // The types of the results are known when a side is built.
  auto fill = [&](Block &block, llvm::function_ref<Vars()> body) {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(&block);
    Vars vars = body();
    scf::YieldOp::create(builder, getValues(vars));
    return vars;
  };
  Region thenRegion, elseRegion;
  Vars vars = fill(thenRegion.emplaceBlock(), then);
  fill(elseRegion.emplaceBlock(), otherwise);
  SmallVector<Type> types;
  for (const Var &var : vars)
    types.push_back(var.type());
  auto op = scf::IfOp::create(builder, types, condition.value(),
                              /*addThenBlock=*/false, /*addElseBlock=*/false);
  op.getThenRegion().takeBody(thenRegion);
  op.getElseRegion().takeBody(elseRegion);
  return makeVars(*this, op.getResults());
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

Var KernelBuilder::select(Var condition, Var yes, const Operand &no) {
  return Var(*this,
             arith::SelectOp::create(builder, condition.value(), yes.value(),
                                     no.as(*this, yes.type()).value()));
}

Var KernelBuilder::fma(Var left, Var right, Var addend) {
  // Not vector.fma: that becomes llvm.intr.fmuladd, which may round twice.
  return Var(*this, LLVM::FMAOp::create(builder, left.type(), left.value(),
                                        right.value(), addend.value()));
}

Var KernelBuilder::min(Var left, const Operand &right) {
  Var other = right.as(*this, left.type());
  return select(left < other, left, other);
}

Var KernelBuilder::max(Var left, const Operand &right) {
  Var other = right.as(*this, left.type());
  return select(left > other, left, other);
}

Var KernelBuilder::toIndex(Var value) {
  return Var(*this, arith::ExtSIOp::create(builder, i64(), value.value()));
}

Var KernelBuilder::toInt32(Var value) {
  return Var(*this, arith::TruncIOp::create(builder, i32(), value.value()));
}

Var KernelBuilder::toFloat(Var value) {
  Type type = isa<VectorType>(value.type()) ? Type(vectorOf(f32())) : f32();
  return Var(*this, arith::SIToFPOp::create(builder, type, value.value()));
}

Var KernelBuilder::bitcast(Var value, Type element) {
  Type type = isa<VectorType>(value.type()) ? Type(vectorOf(element)) : element;
  return Var(*this, arith::BitcastOp::create(builder, type, value.value()));
}

Var KernelBuilder::shuffle(Var left, Var right, ArrayRef<int64_t> picks) {
  return Var(*this, vector::ShuffleOp::create(builder, left.value(),
                                              right.value(), picks));
}

Value KernelBuilder::callIntrinsic(StringRef name, Type type,
                                   ArrayRef<Value> arguments) {
  return LLVM::CallIntrinsicOp::create(builder, type,
                                       builder.getStringAttr(name), arguments)
      .getResult(0);
}

void KernelBuilder::callIntrinsic(StringRef name, ArrayRef<Value> arguments) {
  LLVM::CallIntrinsicOp::create(builder, builder.getStringAttr(name),
                                arguments);
}

Value KernelBuilder::bitcastTo(Value value, int64_t count, Type element) {
  return LLVM::BitcastOp::create(builder, VectorType::get({count}, element),
                                 value);
}

Var KernelBuilder::permute(Var table, Var picks) {
  assert(cpuTarget.hasAvx512());
  return Var(*this,
             callIntrinsic("llvm.x86.avx512.permvar.sf.512", table.type(),
                           {table.value(), picks.value()}));
}

Var KernelBuilder::permuteHalves(Var table, Var picks) {
  assert(cpuTarget.hasAvx512());
  Type i16 = builder.getI16Type();
  Value result =
      callIntrinsic("llvm.x86.avx512.permvar.hi.512", table.type(),
                    {table.value(), bitcastTo(picks.value(), 2 * lanes, i16)});
  return Var(*this, bitcastTo(result, lanes, i32()));
}

Var KernelBuilder::pickHalves(Var words, Var picks) {
  assert(cpuTarget.hasAvx512());
  Type i16 = builder.getI16Type();
  Value result =
      callIntrinsic("llvm.x86.avx512.permvar.hi.512", picks.type(),
                    {bitcastTo(words.value(), 2 * lanes, i16), picks.value()});
  return Var(*this, bitcastTo(result, lanes, i32()));
}

Var KernelBuilder::dotBytes(Var sum, Var left, Var right, int64_t limit) {
  Type i8 = builder.getI8Type(), i16 = builder.getI16Type();
  if (cpuTarget.hasByteDots())
    return Var(*this, callIntrinsic("llvm.x86.avx512.vpdpbusd.512", sum.type(),
                                    {sum.value(),
                                     bitcastTo(left.value(), 4 * lanes, i8),
                                     bitcastTo(right.value(), 4 * lanes, i8)}));
  bool addsInShorts = cpuTarget.hasAvx512() || !cpuTarget.hasShortByteDots();
  if (addsInShorts && limit > 128) {
    // Two products of 8 bits might not fit 16: the upper seven bits count
    // twice.
    Var upper = (left >> 1) & 0x7f7f7f7f;
    Var lowest = left & 0x01010101;
    for (Var part : {upper, upper, lowest})
      sum = dotBytes(sum, part, right, 128);
    return sum;
  }
  // Products of neighbours are added in 16 bits, those sums in 32.
  auto addPairs = [&](Value leftBytes, Value rightBytes, int64_t words,
                      StringRef bytesName, StringRef pairsName) {
    Value pairs = callIntrinsic(bytesName, VectorType::get({2 * words}, i16),
                                {leftBytes, rightBytes});
    auto halves = VectorType::get({2 * words}, i16);
    Value ones =
        constant(DenseElementsAttr::get(halves, builder.getI16IntegerAttr(1)))
            .value();
    return callIntrinsic(pairsName, VectorType::get({words}, i32()),
                         {pairs, ones});
  };
  if (cpuTarget.hasAvx512())
    return sum + Var(*this, addPairs(bitcastTo(left.value(), 4 * lanes, i8),
                                     bitcastTo(right.value(), 4 * lanes, i8),
                                     lanes, "llvm.x86.avx512.pmaddubs.w.512",
                                     "llvm.x86.avx512.pmaddw.d.512"));
  constexpr int64_t half = lanes / 2;
  Value sums[2];
  for (int64_t part = 0; part < 2; ++part) {
    auto picks =
        llvm::to_vector(llvm::seq<int64_t>(part * half, (part + 1) * half));
    auto halfOf = [&](Var vector) {
      return vector::ShuffleOp::create(builder, vector.value(), vector.value(),
                                       picks)
          .getResult();
    };
    Value bytes[] = {bitcastTo(halfOf(left), 4 * half, i8),
                     bitcastTo(halfOf(right), 4 * half, i8)};
    Value before = halfOf(sum);
    if (cpuTarget.hasShortByteDots())
      sums[part] =
          callIntrinsic("llvm.x86.avx512.vpdpbusd.256", before.getType(),
                        {before, bytes[0], bytes[1]});
    else
      sums[part] = arith::AddIOp::create(builder, before,
                                         addPairs(bytes[0], bytes[1], half,
                                                  "llvm.x86.avx2.pmadd.ub.sw",
                                                  "llvm.x86.avx2.pmadd.wd"));
  }
  auto all = llvm::to_vector(llvm::seq<int64_t>(0, lanes));
  return Var(*this, vector::ShuffleOp::create(builder, sums[0], sums[1], all));
}

Var KernelBuilder::dotBf16(Var sum, Var left, Var right) {
  assert(cpuTarget.hasBf16Dots());
  Type bf16 = builder.getBF16Type();
  return Var(*this, callIntrinsic(
                        "llvm.x86.avx512bf16.dpbf16ps.512", sum.type(),
                        {sum.value(), bitcastTo(left.value(), 2 * lanes, bf16),
                         bitcastTo(right.value(), 2 * lanes, bf16)}));
}

Var KernelBuilder::narrowToBf16(Var first, Var second, Var picks) {
  assert(cpuTarget.hasBf16Dots());
  Value narrow =
      callIntrinsic("llvm.x86.avx512bf16.cvtne2ps2bf16.512",
                    VectorType::get({2 * lanes}, builder.getBF16Type()),
                    {second.value(), first.value()});
  return pickHalves(Var(*this, bitcastTo(narrow, lanes, i32())), picks);
}

Var KernelBuilder::extract(Var vector, int64_t lane) {
  return Var(*this, vector::ExtractOp::create(builder, vector.value(), lane));
}

Var KernelBuilder::broadcast(Var scalar) {
  return Operand(scalar).as(*this, vectorOf(scalar.type()));
}
