//===- ReadBandwidth.h - How fast memory can be read ------------*- C++ -*-===//

#ifndef TANDEM_RUNTIME_CPU_READBANDWIDTH_H
#define TANDEM_RUNTIME_CPU_READBANDWIDTH_H

#include "runtime/Status.h"

namespace tandem {

/// Bytes per second that \p threads threads read from memory together: the
/// best of a few passes of a plain loop over \p size bytes, less when little
/// memory is available. The bound that decoding is compared with, if no cache
/// holds the buffer; 512 MiB take some tenths of a second.
StatusOr<double> measureReadBandwidth(unsigned threads, uint64_t size);

} // namespace tandem

#endif // TANDEM_RUNTIME_CPU_READBANDWIDTH_H
