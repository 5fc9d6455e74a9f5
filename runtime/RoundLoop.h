//===- RoundLoop.h - Rounds that a device runs by itself --------*- C++ -*-===//
//
// A device may be able to run round after round without the host between
// them. The host then only takes the tokens that it finds decided.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_ROUNDLOOP_H
#define TANDEM_RUNTIME_ROUNDLOOP_H

#include "runtime/Status.h"

#include <span>

namespace tandem {

class RoundLoop {
public:
  virtual ~RoundLoop() = default;

  /// Starts rounds (draft, verify and accept, or step without the drafter)
  /// behind the work given before. They go on up to the one that decides token
  /// number \p budget, a stop token unless \p ignoreStopTokens, or something
  /// that is no token. Until stop() nothing else may use the device.
  virtual Status start(bool withDrafter, uint32_t budget,
                       bool ignoreStopTokens) = 0;

  /// Waits for the next round and returns its tokens, which stay there until
  /// stop(). They may be no tokens. Empty: there are no more rounds.
  virtual StatusOr<std::span<const uint32_t>> next() = 0;

  /// Ends the rounds, waits for it, and returns how many of them next() did
  /// not return. Fine without start().
  virtual StatusOr<uint32_t> stop() = 0;
};

} // namespace tandem

#endif // TANDEM_RUNTIME_ROUNDLOOP_H
