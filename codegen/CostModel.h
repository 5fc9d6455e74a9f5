//===- CostModel.h - What launches move and compute -------------*- C++ -*-===//
//
// Bytes and operations of every launch of a plan, from the plan alone, and the
// least time that a machine can take for them. Counted is what no kernel can
// avoid: each byte of weights and caches once a launch, and the multiplications
// and additions of the formulas in dialects/lm. Activations are counted apart,
// because a processor's caches hold those of a block.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_COSTMODEL_H
#define TANDEM_CODEGEN_COSTMODEL_H

#include "dialects/plan/PlanOps.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace tandem::codegen {

/// A processor, by what bounds its kernels.
struct Machine {
  /// As `--machine` names it.
  llvm::StringLiteral name;
  /// Bytes per second that reading memory reaches.
  double bandwidth;
  /// Operations per second in the type that weights are multiplied in.
  double operations;
  /// Where the two numbers come from.
  llvm::StringLiteral source;
};

/// All machines there are numbers of.
llvm::ArrayRef<Machine> getMachines();
/// The machine called \p name, or null.
const Machine *findMachine(llvm::StringRef name);
/// The machine that plans for \p arch are compared with.
const Machine &getDefaultMachine(llvm::StringRef arch);

/// What launches do, all together.
struct Cost {
  int64_t launches = 0;
  /// Bytes of weights read: a row of an embedding, all of any other.
  double weights = 0;
  /// Bytes of keys and values read and written.
  double keyValues = 0;
  /// Bytes of the other states read and written.
  double states = 0;
  /// Bytes of activations read and written. Not part of the floor.
  double activations = 0;
  /// Multiplications and additions; those of linear layers, of attention and of
  /// the delta rule are also counted apart.
  double operations = 0;
  double linearOperations = 0;
  double attentionOperations = 0;
  double deltaOperations = 0;
  /// Seconds that the launches take one after the other when each takes as long
  /// as its bytes or its operations, whichever is longer.
  double floor = 0;

  /// Bytes that memory moves.
  double bytes() const { return weights + keyValues + states; }
  Cost &operator+=(const Cost &other);
};

/// The moment at which a program runs.
struct Situation {
  /// Tokens before the first row.
  int64_t context = 0;
  /// Rows that carry meaning where a count says how many; all when absent.
  std::optional<int64_t> rows;
};

/// Costs by kernel family, in the order in which families first appear.
using FamilyCosts = llvm::MapVector<llvm::StringRef, Cost>;

/// Adds the cost of one run of \p program to \p costs.
void addProgram(plan::ProgramOp program, const Situation &situation,
                const Machine &machine, FamilyCosts &costs);

/// The sum of \p costs.
Cost getTotal(const FamilyCosts &costs);

/// The cost of what the host runs, by kernel family. Programs that the plan
/// lacks cost nothing.
class PlanCosts {
public:
  /// \p plan is a plan with a loop.
  PlanCosts(mlir::ModuleOp plan, const Machine &machine);

  const Machine &getMachine() const { return machine; }
  /// Tokens of the longest text.
  int64_t getMaxContext() { return loop.getMaxContext(); }
  int64_t getBlock() { return loop.getBlock(); }

  /// One run of the program \p name of the loop (`draft`, `verify`, `step` or
  /// `accept`) behind \p context tokens, with full blocks.
  FamilyCosts getRound(llvm::StringRef name, int64_t context);
  /// A prompt of \p tokens: all chunks, in the target and in the drafter.
  FamilyCosts getPrefill(int64_t tokens);

private:
  plan::ProgramOp find(std::optional<llvm::StringRef> name);

  mlir::ModuleOp plan;
  const Machine &machine;
  plan::LoopOp loop;
};

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_COSTMODEL_H
