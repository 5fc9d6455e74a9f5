//===- MemoryReport.h - How much memory an artefact needs -------*- C++ -*-===//

#ifndef TANDEM_CODEGEN_MEMORYREPORT_H
#define TANDEM_CODEGEN_MEMORYREPORT_H

#include "codegen/ArtifactTables.h"

#include "llvm/Support/raw_ostream.h"

#include <map>

namespace tandem::codegen {

/// \p bytes in the unit that people would use, as in "12.3 MiB".
std::string formatBytes(uint64_t bytes);

/// The memory that running an artefact takes, by the spaces of
/// runtime/README.md. All of it is planned: nothing is added at run time but
/// the scratch of further threads, and what the driver of a GPU takes.
struct MemoryPlan {
  /// Things of one kind.
  struct Kind {
    uint64_t count = 0;
    uint64_t bytes = 0;
  };

  explicit MemoryPlan(const ArtifactContents &contents);

  /// Processor that it is for.
  std::string target;
  Kind weights, ports;
  /// By kind of state, in the order of the alphabet.
  std::map<std::string, Kind> caches;
  /// Sizes of the spaces, in which things are aligned.
  uint64_t stateBytes, portBytes, arenaBytes;
  /// Of one copy of the caches that cannot go back, of which conversations keep
  /// some.
  uint64_t snapshotBytes = 0;
  /// Machine code.
  Kind code;
  /// Bytes for every thread of a processor, or of all kernels of a GPU.
  uint64_t scratchBytes = 0;
  bool forGpu;
  /// Whether weights are made at load.
  bool synthetic;

  /// With one thread of a processor.
  uint64_t getTotal() const {
    return weights.bytes + stateBytes + portBytes + arenaBytes + code.bytes +
           scratchBytes;
  }

  /// One line for each space, and the total.
  void print(llvm::raw_ostream &os) const;
};

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_MEMORYREPORT_H
