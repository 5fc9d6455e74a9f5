//===- Var.cpp - Values and memory of a kernel ----------------------------===//

#include "codegen/cpu/Var.h"

#include "codegen/cpu/KernelBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace tandem::codegen;

static bool isFloat(Type type) {
  return isa<FloatType>(getElementTypeOrSelf(type));
}

/// Appends FloatOp or IntOp, whichever is for the type of the left side.
template <typename FloatOp, typename IntOp>
static Var appendBinary(const Var &left, const Operand &right) {
  KernelBuilder &kernel = left.kernel();
  Value other = right.as(kernel, left.type()).value();
  Value result =
      isFloat(left.type())
          ? FloatOp::create(kernel.ops(), left.value(), other).getResult()
          : IntOp::create(kernel.ops(), left.value(), other).getResult();
  return Var(kernel, result);
}

template <typename IntOp>
static Var appendIntBinary(const Var &left, const Operand &right) {
  KernelBuilder &kernel = left.kernel();
  Value other = right.as(kernel, left.type()).value();
  return Var(kernel, IntOp::create(kernel.ops(), left.value(), other));
}

static Var appendCompare(const Var &left, const Operand &right,
                         arith::CmpFPredicate floatPredicate,
                         arith::CmpIPredicate intPredicate) {
  KernelBuilder &kernel = left.kernel();
  Value other = right.as(kernel, left.type()).value();
  if (isFloat(left.type()))
    return Var(kernel, arith::CmpFOp::create(kernel.ops(), floatPredicate,
                                             left.value(), other));
  return Var(kernel, arith::CmpIOp::create(kernel.ops(), intPredicate,
                                           left.value(), other));
}

Var Var::operator+(const Operand &right) const {
  return appendBinary<arith::AddFOp, arith::AddIOp>(*this, right);
}
Var Var::operator-(const Operand &right) const {
  return appendBinary<arith::SubFOp, arith::SubIOp>(*this, right);
}
Var Var::operator*(const Operand &right) const {
  return appendBinary<arith::MulFOp, arith::MulIOp>(*this, right);
}
Var Var::operator/(const Operand &right) const {
  return appendBinary<arith::DivFOp, arith::DivSIOp>(*this, right);
}
Var Var::operator%(const Operand &right) const {
  return appendIntBinary<arith::RemSIOp>(*this, right);
}
Var Var::operator&(const Operand &right) const {
  return appendIntBinary<arith::AndIOp>(*this, right);
}
Var Var::operator|(const Operand &right) const {
  return appendIntBinary<arith::OrIOp>(*this, right);
}
Var Var::operator^(const Operand &right) const {
  return appendIntBinary<arith::XOrIOp>(*this, right);
}
Var Var::operator<<(const Operand &right) const {
  return appendIntBinary<arith::ShLIOp>(*this, right);
}
Var Var::operator>>(const Operand &right) const {
  return appendIntBinary<arith::ShRSIOp>(*this, right);
}
Var Var::operator<(const Operand &right) const {
  return appendCompare(*this, right, arith::CmpFPredicate::OLT,
                       arith::CmpIPredicate::slt);
}
Var Var::operator<=(const Operand &right) const {
  return appendCompare(*this, right, arith::CmpFPredicate::OLE,
                       arith::CmpIPredicate::sle);
}
Var Var::operator>(const Operand &right) const {
  return appendCompare(*this, right, arith::CmpFPredicate::OGT,
                       arith::CmpIPredicate::sgt);
}
Var Var::operator>=(const Operand &right) const {
  return appendCompare(*this, right, arith::CmpFPredicate::OGE,
                       arith::CmpIPredicate::sge);
}
Var Var::isEqual(const Operand &right) const {
  return appendCompare(*this, right, arith::CmpFPredicate::OEQ,
                       arith::CmpIPredicate::eq);
}
Var Var::operator-() const {
  return Var(*builder, arith::NegFOp::create(builder->ops(), content));
}

Var Operand::as(KernelBuilder &kernel, Type type) const {
  if (variable) {
    if (variable.type() == type)
      return variable;
    assert(variable.type() == getElementTypeOrSelf(type) &&
           "operands of one type");
    return Var(kernel, vector::BroadcastOp::create(kernel.ops(), type,
                                                   variable.value()));
  }
  OpBuilder &ops = kernel.ops();
  Type element = getElementTypeOrSelf(type);
  TypedAttr attribute = isFloat(type)
                            ? TypedAttr(ops.getFloatAttr(
                                  element, isNumber ? number : double(integer)))
                            : TypedAttr(ops.getIntegerAttr(element, integer));
  if (auto shaped = dyn_cast<VectorType>(type))
    attribute = DenseElementsAttr::get(shaped, attribute);
  return kernel.constant(attribute);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

unsigned Memory::alignment() const {
  return isa<LLVM::LLVMPointerType>(element)
             ? 8
             : element.getIntOrFloatBitWidth() / 8;
}

Value Memory::address(const Operand &index) const {
  OpBuilder &ops = builder->ops();
  return LLVM::GEPOp::create(
      builder->ops(), base.getType(), element, base,
      ArrayRef<LLVM::GEPArg>{index.as(*builder, ops.getI64Type()).value()});
}

Memory Memory::at(const Operand &index) const {
  return Memory(*builder, address(index), element);
}

Var Memory::load(const Operand &index) const {
  return Var(*builder, LLVM::LoadOp::create(builder->ops(), element,
                                            address(index), alignment()));
}

void Memory::store(const Operand &index, Var value) const {
  LLVM::StoreOp::create(builder->ops(), value.value(), address(index),
                        alignment());
}

Var Memory::loadVector(const Operand &index, Var mask, Var otherwise) const {
  Type type = builder->vectorOf(element);
  if (!mask)
    return Var(*builder, LLVM::LoadOp::create(builder->ops(), type,
                                              address(index), alignment()));
  if (!otherwise)
    otherwise = Operand(0).as(*builder, type);
  return Var(*builder, LLVM::MaskedLoadOp::create(
                           builder->ops(), type, address(index), mask.value(),
                           otherwise.value(), alignment()));
}

void Memory::storeVector(const Operand &index, Var value, Var mask) const {
  if (!mask)
    return store(index, value);
  LLVM::MaskedStoreOp::create(builder->ops(), value.value(), address(index),
                              mask.value(), alignment());
}

void Memory::storeBytes(const Operand &index, Var value) const {
  OpBuilder &ops = builder->ops();
  Var bytes(*builder, arith::TruncIOp::create(
                          builder->ops(), builder->vectorOf(ops.getI8Type()),
                          value.value()));
  as(ops.getI8Type()).store(index, bytes);
}

void Memory::prefetch(const Operand &index) const {
  constexpr uint32_t forReading = 0, intoAllCaches = 3, data = 1;
  LLVM::Prefetch::create(builder->ops(), address(index), forReading,
                         intoAllCaches, data);
}

Var Memory::loadSplat(const Operand &index) const {
  return Operand(load(index)).as(*builder, builder->vectorOf(element));
}

/// Widens bf16 or f16 to f32. The bits of a bf16 are the upper half of those
/// of the same f32.
static Var widen(KernelBuilder &kernel, Var value, bool isBf16) {
  OpBuilder &ops = kernel.ops();
  Type f32 = ops.getF32Type(), i32 = ops.getI32Type();
  if (isa<VectorType>(value.type())) {
    f32 = kernel.vectorOf(f32);
    i32 = kernel.vectorOf(i32);
  }
  if (!isBf16)
    return Var(kernel, arith::ExtFOp::create(kernel.ops(), f32, value.value()));
  Var wide(kernel, arith::ExtUIOp::create(kernel.ops(), i32, value.value()));
  return Var(kernel,
             arith::BitcastOp::create(kernel.ops(), f32, (wide << 16).value()));
}

Var Memory::loadVectorAsF32(const Operand &index) const {
  if (element.isF32())
    return loadVector(index);
  if (element.isF16())
    return widen(*builder, loadVector(index), false);
  return widen(*builder, as(builder->ops().getI16Type()).loadVector(index),
               true);
}

Var Memory::loadAsF32(const Operand &index) const {
  if (element.isF32())
    return load(index);
  if (element.isF16())
    return widen(*builder, load(index), false);
  return widen(*builder, as(builder->ops().getI16Type()).load(index), true);
}
