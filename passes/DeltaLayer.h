//===- DeltaLayer.h - What one launch of a delta layer can do ---*- C++ -*-===//

#ifndef TANDEM_PASSES_DELTALAYER_H
#define TANDEM_PASSES_DELTALAYER_H

#include "dialects/lm/LmOps.h"

namespace tandem {

/// The op that reads all that \p inputs makes, when one launch of a GPU can do
/// both; null when there is none.
lm::GatedDeltaOp findRuleThatMakesRows(lm::DeltaInputsOp inputs);

} // namespace tandem

#endif // TANDEM_PASSES_DELTALAYER_H
