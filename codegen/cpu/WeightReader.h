//===- WeightReader.h - The columns of packed weights -----------*- C++ -*-===//
//
// Hides from a product how its weight is packed.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_CPU_WEIGHTREADER_H
#define TANDEM_CODEGEN_CPU_WEIGHTREADER_H

#include "codegen/cpu/KernelBuilder.h"

#include <memory>

namespace tandem::codegen {

/// Feeds the columns of some tiles of 16 outputs, in order, to a function that
/// adds them up.
class WeightReader {
public:
  /// add(column, weights, sums): the weights of one column, a vector for each
  /// tile; returns the new sums.
  using Add = llvm::function_ref<Vars(Var column, const Vars &weights,
                                      const Vars &sums)>;

  /// The reader for the weights that the kernel's parameters describe:
  /// `#plan.interleaved` of type `element`, or `#plan.interleaved_codes`.
  static std::unique_ptr<WeightReader> create(KernelBuilder &k);

  virtual ~WeightReader() = default;

  /// The weight at operand \p number.
  virtual Memory weight(const Operand &number) const = 0;
  /// Where tile \p number of \p weight begins.
  virtual Memory tile(Memory weight, const Operand &number) const = 0;
  /// Emits the loop over all columns of \p tiles.
  virtual Vars emitColumns(llvm::ArrayRef<Memory> tiles, Vars sums,
                           Add add) const = 0;
};

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CPU_WEIGHTREADER_H
