//===- CodeLayout.h - Where packed codes lie --------------------*- C++ -*-===//
//
// Sizes of `#plan.interleaved_codes` as a kernel's parameters describe it.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_CPU_CODELAYOUT_H
#define TANDEM_CODEGEN_CPU_CODELAYOUT_H

#include "codegen/cpu/KernelSpec.h"

namespace tandem::codegen {

struct CodeLayout {
  /// For a kernel with the parameter `bits`.
  explicit CodeLayout(const KernelSpec &spec)
      : columns(spec.getInt("columns")), bits(spec.getInt("bits")),
        group(spec.getInt("group")), hasZeros(spec.has("zero_points")),
        hasFloats(spec.has("float_codes")), scaleKind(spec.getKind("scale")) {}

  int64_t columns, bits, group;
  bool hasZeros, hasFloats;
  FloatKind scaleKind;
  int64_t groups = columns / group;
  int64_t perWord = 32 / bits;
  int64_t wordsPerGroup = (group + perWord - 1) / perWord;
  /// Bytes of the scales of a tile, and of them and the zero points: where the
  /// words of a group begin.
  int64_t zeroOffset = plan::kTile * getByteWidth(scaleKind);
  int64_t scaleBytes = hasZeros ? 2 * zeroOffset : zeroOffset;
  int64_t groupBytes = scaleBytes + wordsPerGroup * plan::kTile * 4;
  int64_t tileBytes = groups * groupBytes;
};

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CPU_CODELAYOUT_H
