//===- Report.h - What a pass did, in a remark ------------------*- C++ -*-===//
//
// MLIR's pass statistics exist only in builds with assertions; Debian's library
// has none, and its Pass::Statistic must not be used by code that is compiled
// with assertions (the two disagree about the size of the class).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_REPORT_H
#define TANDEM_PASSES_REPORT_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/Pass.h"

namespace tandem {

/// Emits the remark `<pass>: <count> <what>` at `op`, the op the pass ran on,
/// when `report` is set.
inline void reportCount(mlir::Pass &pass, mlir::Operation *op, bool report,
                        int64_t count, llvm::StringRef what) {
  if (report)
    mlir::emitRemark(op->getLoc())
        << pass.getArgument() << ": " << count << " " << what;
}

} // namespace tandem

#endif // TANDEM_PASSES_REPORT_H
