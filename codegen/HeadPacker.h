//===- HeadPacker.h - Heads that are rounded --------------------*- C++ -*-===//
//
// Part of packWeight(): the packings that are made of a head in bf16. What they
// are for, docs/heads.md says.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_HEADPACKER_H
#define TANDEM_CODEGEN_HEADPACKER_H

#include "codegen/WeightPacker.h"

namespace tandem::codegen {

// Each writes \p matrix, which checkSources() has found good, as \p packing
// says. Errors: what \p sink returns, and numbers that are not finite.
llvm::Error packSearchCodes(plan::SearchCodesAttr packing,
                            const models::TensorView &matrix, ByteSink sink);
llvm::Error packSearchScales(plan::SearchScalesAttr packing,
                             const models::TensorView &matrix, ByteSink sink);
llvm::Error packSearchErrors(plan::SearchErrorsAttr packing,
                             const models::TensorView &matrix, ByteSink sink);
llvm::Error packRoundedRows(plan::RoundedRowsAttr packing,
                            const models::TensorView &matrix, ByteSink sink);
llvm::Error packRoundedCodes(plan::RoundedCodesAttr packing,
                             const models::TensorView &matrix, ByteSink sink);

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_HEADPACKER_H
