//===- Var.h - Values and memory of a kernel --------------------*- C++ -*-===//
//
// Lets kernels be written as formulas: an operator on a Var appends the
// operation to the kernel under construction.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_CPU_VAR_H
#define TANDEM_CODEGEN_CPU_VAR_H

#include "mlir/IR/Value.h"

#include <concepts>

namespace tandem::codegen {

class KernelBuilder;
class Operand;

/// A value: i1, i32, i64, f32 or a vector of 16 of them. Integers are signed.
/// A default-made Var is no value; as a mask it means all lanes.
class Var {
public:
  Var() = default;
  Var(KernelBuilder &kernel, mlir::Value value)
      : builder(&kernel), content(value) {}

  explicit operator bool() const { return static_cast<bool>(content); }
  mlir::Value value() const { return content; }
  mlir::Type type() const { return content.getType(); }
  KernelBuilder &kernel() const { return *builder; }

  // On two numbers or vectors of one type; literals and scalars are made what
  // the left side is.
  Var operator+(const Operand &right) const;
  Var operator-(const Operand &right) const;
  Var operator*(const Operand &right) const;
  /// Integers are divided towards zero.
  Var operator/(const Operand &right) const;
  Var operator%(const Operand &right) const;
  // On integers.
  Var operator&(const Operand &right) const;
  Var operator|(const Operand &right) const;
  Var operator^(const Operand &right) const;
  Var operator<<(const Operand &right) const;
  /// Keeps the sign.
  Var operator>>(const Operand &right) const;
  // False when a side is not a number.
  Var operator<(const Operand &right) const;
  Var operator<=(const Operand &right) const;
  Var operator>(const Operand &right) const;
  Var operator>=(const Operand &right) const;
  Var isEqual(const Operand &right) const;
  Var operator-() const;

private:
  KernelBuilder *builder = nullptr;
  mlir::Value content;
};

/// Right side of an operator: a value or a literal.
class Operand {
public:
  Operand(Var value) : variable(value) {}
  template <std::integral T>
  Operand(T value) : integer(static_cast<int64_t>(value)) {}
  template <std::floating_point T>
  Operand(T value) : number(value), isNumber(true) {}

  /// The operand as a value of \p type.
  Var as(KernelBuilder &kernel, mlir::Type type) const;

private:
  Var variable;
  int64_t integer = 0;
  double number = 0;
  bool isNumber = false;
};

/// Typed memory. Indexes count elements and may be i64 values or literals;
/// a vector starts at its index. Nothing is known about alignment beyond that
/// of an element.
class Memory {
public:
  Memory() = default;
  Memory(KernelBuilder &kernel, mlir::Value base, mlir::Type element)
      : builder(&kernel), base(base), element(element) {}

  bool isValid() const { return builder != nullptr; }
  /// Where it begins, a pointer.
  mlir::Value start() const { return base; }
  /// The memory from element \p index on.
  Memory at(const Operand &index) const;
  /// The same bytes as elements of \p other.
  Memory as(mlir::Type other) const { return Memory(*builder, base, other); }

  Var load(const Operand &index) const;
  void store(const Operand &index, Var value) const;
  /// 16 elements; where \p mask is false nothing is read and \p otherwise (or
  /// zero) comes out.
  Var loadVector(const Operand &index, Var mask = {}, Var otherwise = {}) const;
  /// Writes the lanes where \p mask is true.
  void storeVector(const Operand &index, Var value, Var mask = {}) const;
  /// Writes 16 integers from byte \p index of the memory on, one byte each:
  /// their low eight bits.
  void storeBytes(const Operand &index, Var value) const;
  /// Asks for the cache line of an element; it need not exist.
  void prefetch(const Operand &index) const;
  /// One element in all lanes.
  Var loadSplat(const Operand &index) const;
  /// loadVector() and load() of bf16, f16 or f32, widened to f32.
  Var loadVectorAsF32(const Operand &index) const;
  Var loadAsF32(const Operand &index) const;

private:
  mlir::Value address(const Operand &index) const;
  unsigned alignment() const;

  KernelBuilder *builder = nullptr;
  mlir::Value base;
  mlir::Type element;
};

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CPU_VAR_H
