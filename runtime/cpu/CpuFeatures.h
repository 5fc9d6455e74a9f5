//===- CpuFeatures.h - What this processor can do ---------------*- C++ -*-===//

#ifndef TANDEM_RUNTIME_CPU_CPUFEATURES_H
#define TANDEM_RUNTIME_CPU_CPUFEATURES_H

#include "runtime/Artifact_generated.h"
#include "runtime/Status.h"

namespace tandem {

/// Success when this processor has all features that \p needed names, as in
/// `__builtin_cpu_supports`. A name that this runtime does not know is an
/// error too: running code that needs it could end in an illegal instruction.
/// Asks the system for tile registers where they are needed; what is asked for
/// here, all threads have.
Status checkCpuFeatures(const artifact::Cpu &needed);

} // namespace tandem

#endif // TANDEM_RUNTIME_CPU_CPUFEATURES_H
