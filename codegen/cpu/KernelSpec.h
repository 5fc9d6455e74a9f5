//===- KernelSpec.h - One kernel to be generated ----------------*- C++ -*-===//
//
// A `plan.kernel` outside of its MLIR context, so that kernels can be compiled
// by several threads, each with a context of its own.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_CPU_KERNELSPEC_H
#define TANDEM_CODEGEN_CPU_KERNELSPEC_H

#include "dialects/plan/KernelFamilies.h"
#include "dialects/plan/PlanOps.h"

#include "llvm/Support/Error.h"

#include <map>
#include <string>
#include <vector>

namespace tandem::codegen {

/// Element type of a weight in memory.
enum class FloatKind { F32, BF16, F16 };

/// What products are computed with.
enum class Arithmetic { F32, BF16, I8 };

/// Bytes of an element.
inline int64_t getByteWidth(FloatKind kind) {
  return kind == FloatKind::F32 ? 4 : 2;
}

/// Name and parameters of a kernel. Parameters are those of its family
/// (KernelFamilies.cpp).
class KernelSpec {
public:
  /// Copies \p kernel. Errors: parameters no kernel can be made for.
  static llvm::Expected<KernelSpec> create(plan::KernelOp kernel);
  /// Says what of a kernel that GPUs can have processors cannot: activations
  /// that are not f32.
  llvm::Error checkForProcessor() const;

  llvm::StringRef symbol() const { return name; }
  plan::KernelFamily family() const { return kernelFamily; }

  int64_t getInt(llvm::StringRef parameter) const;
  float getFloat(llvm::StringRef parameter) const;
  FloatKind getKind(llvm::StringRef parameter) const;
  /// The parameter `arithmetic`; f32 where it is absent.
  Arithmetic arithmetic() const { return productArithmetic; }
  /// The parameter `widths`.
  const std::vector<int64_t> &widths() const { return partWidths; }
  /// Whether the family takes the integer \p parameter.
  bool has(llvm::StringRef parameter) const {
    return integers.find(parameter) != integers.end();
  }

private:
  KernelSpec() = default;
  llvm::Error verify() const;
  llvm::Error verifyArithmetic() const;

  std::string name;
  plan::KernelFamily kernelFamily = plan::KernelFamily::copy;
  std::map<std::string, int64_t, std::less<>> integers;
  std::map<std::string, float, std::less<>> floats;
  std::map<std::string, FloatKind, std::less<>> kinds;
  std::vector<int64_t> partWidths;
  Arithmetic productArithmetic = Arithmetic::F32;
};

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CPU_KERNELSPEC_H
