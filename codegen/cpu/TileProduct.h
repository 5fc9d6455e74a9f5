//===- TileProduct.h - Products in tile registers ---------------*- C++ -*-===//

#ifndef TANDEM_CODEGEN_CPU_TILEPRODUCT_H
#define TANDEM_CODEGEN_CPU_TILEPRODUCT_H

#include "codegen/cpu/DotProduct.h"

namespace tandem::codegen {

/// Products in bf16 for a processor that hasBf16Tiles(): 16 outputs and a few
/// rows at a time. A number of the result has one order of sums, however many
/// rows there are.
std::unique_ptr<DotProduct> createTileProduct(KernelBuilder &k);

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CPU_TILEPRODUCT_H
