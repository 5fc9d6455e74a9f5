//===- CpuTarget.h - Which processor code is made for -----------*- C++ -*-===//

#ifndef TANDEM_CODEGEN_CPU_CPUTARGET_H
#define TANDEM_CODEGEN_CPU_CPUTARGET_H

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace tandem::codegen {

/// A processor, as LLVM and as the loader of an artefact know it.
struct CpuTarget {
  /// `x86-64-v3`, `x86-64-v4`, `sapphirerapids` or `native`.
  std::string level;
  /// LLVM triple and processor name.
  std::string triple;
  std::string cpu;
  /// Features beyond those of `cpu`, in LLVM's spelling, without a sign.
  std::vector<std::string> features;
  /// Everything the code may use, in the spelling of
  /// `__builtin_cpu_supports`: what the loader checks.
  std::vector<std::string> requiredFeatures;

  /// True when vectors of 512 bits are one register and there are 32 of them.
  bool hasAvx512() const { return cpu == "x86-64-v4"; }
  /// Whether there are instructions that multiply four bytes, or two bf16, and
  /// add them up.
  bool hasByteDots() const { return has("avx512vnni"); }
  bool hasShortByteDots() const { return has("avxvnni"); }
  bool hasBf16Dots() const { return has("avx512bf16"); }
  /// Whether there are tile registers (TileRegisters.h), and instructions that
  /// multiply those of bf16.
  bool hasTiles() const { return has("amx-tile"); }
  bool hasBf16Tiles() const { return has("amx-bf16"); }

private:
  bool has(llvm::StringRef feature) const {
    return llvm::is_contained(features, feature);
  }
};

/// The target that `--arch` calls \p arch. `native` is the highest level this
/// processor has, with those of its further features that kernels may use:
/// tile registers among them where the system lets this process have them,
/// which it is asked for. `sapphirerapids` is x86-64-v4 with all of those.
/// Errors: another name; a processor below `x86-64-v3`.
llvm::Expected<CpuTarget> getCpuTarget(llvm::StringRef arch);

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CPU_CPUTARGET_H
