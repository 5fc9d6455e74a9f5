//===- CudaMachine.h - A GPU with an artefact on it -------------*- C++ -*-===//

#ifndef TANDEM_TEST_RUNTIME_CUDA_CUDAMACHINE_H
#define TANDEM_TEST_RUNTIME_CUDA_CUDAMACHINE_H

#include "runtime/cuda/CudaDevice.h"
#include "test/runtime/TestArtifact.h"

#include <gtest/gtest.h>

namespace tandem::test {

/// A device and what it stands on.
struct CudaMachine {
  FileBytes file;
  std::optional<Artifact> artifact;
  std::unique_ptr<CudaDevice> device;
  /// Why there is no device.
  std::string problem;

  explicit CudaMachine(const ArtifactSpec &spec,
                       const CudaOptions &options = {})
      : file(spec.write()) {
    auto opened = Artifact::view(file.bytes());
    EXPECT_TRUE(opened.isOk()) << opened.status().message();
    if (!opened.isOk())
      return;
    artifact = std::move(*opened);
    auto created = CudaDevice::create(*artifact, options);
    if (created.isOk())
      device = std::move(*created);
    else
      problem = created.status().message();
  }

  template <typename T>
  void write(const char *port, const std::vector<T> &data) {
    Status status = device->write(*artifact->findPort(port),
                                  std::as_bytes(std::span(data)));
    EXPECT_TRUE(status.isOk()) << status.message();
  }
  template <typename T> std::vector<T> read(const char *port, size_t size) {
    std::vector<T> data(size);
    Status status = device->read(*artifact->findPort(port),
                                 std::as_writable_bytes(std::span(data)));
    EXPECT_TRUE(status.isOk()) << status.message();
    return data;
  }
  void run(const char *program) {
    Status status = device->run(*artifact->findProgram(program));
    EXPECT_TRUE(status.isOk()) << status.message();
  }
};

} // namespace tandem::test

#endif // TANDEM_TEST_RUNTIME_CUDA_CUDAMACHINE_H
