//===- Device.h - What runs the programs of an artefact ---------*- C++ -*-===//
//
// The seam between the loop and the machine. A device is made from an
// artefact, allocates everything then, and owns the states, the ports and the
// arena; the artefact outlives it. Programs and ports are named by their
// index in the artefact. One thread at a time uses a device.
//
// The loop calls nothing else, so a test may put a scripted device here.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_DEVICE_H
#define TANDEM_RUNTIME_DEVICE_H

#include "runtime/RoundLoop.h"
#include "runtime/Status.h"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace tandem {

class Device {
public:
  virtual ~Device() = default;

  /// The next program starts a new text: states are zero. Keys and values, of
  /// the kinds `key_value` and `window`, may stay: programs read no row of them
  /// that their text has not written. Ports keep their content.
  virtual Status reset() = 0;

  /// Snapshots that the device can hold (Snapshot.h), numbered from 0.
  virtual uint32_t snapshots() const { return 0; }

  /// Copies the states that cannot go back into snapshot \p snapshot, behind
  /// the work given before.
  virtual Status save(uint32_t snapshot) {
    return failure(StatusCode::Unsupported, "this device has no snapshots");
  }

  /// Brings the states that cannot go back to where they were at the save()
  /// of snapshot \p snapshot, behind the work given before. The key/value rows
  /// of that time are the caller's affair.
  virtual Status restore(uint32_t snapshot) {
    return failure(StatusCode::Unsupported, "this device has no snapshots");
  }

  /// Starts a program behind the work given before. It may still run on
  /// return; read() waits for it.
  virtual Status run(uint32_t program) = 0;

  /// Copies \p data to the start of port \p port, behind the work given
  /// before. At most the size of the port; the rest of it stays as it is.
  virtual Status write(uint32_t port, std::span<const std::byte> data) = 0;

  /// Waits for all work and copies the start of port \p port to \p data, which
  /// is at most as large as the port. Errors of programs also arrive here.
  virtual Status read(uint32_t port, std::span<std::byte> data) = 0;

  /// Runs a program and returns the seconds that each of its launches took, in
  /// their order. Waits for each, so the sum is more than run() takes. Fails
  /// with Unsupported on a device that cannot tell.
  virtual StatusOr<std::vector<double>> profile(uint32_t program) {
    return failure(StatusCode::Unsupported,
                   "this device cannot measure launches");
  }

  /// Seconds that the threads of the device have computed so far, their mean,
  /// where programs run on the host's processor: what others take from it does
  /// not count.
  /// None where only a clock can tell how long a program takes.
  virtual std::optional<double> busySeconds() const { return std::nullopt; }

  /// How the device runs the rounds of a text by itself; null when it cannot.
  virtual RoundLoop *roundLoop() { return nullptr; }
};

} // namespace tandem

#endif // TANDEM_RUNTIME_DEVICE_H
