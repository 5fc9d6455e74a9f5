//===- SafetensorsFuzzer.cpp - Headers of safetensors files ---------------===//
//
// The input is a whole file. What is accepted is read to its last byte, as the
// packer would. P1.09.
//
//===----------------------------------------------------------------------===//

#include "models/Safetensors.h"

using namespace tandem::models;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::vector<std::string> warnings;
  llvm::Expected<std::vector<TensorView>> tensors =
      parseSafetensors({data, size}, "input", warnings);
  if (!tensors) {
    llvm::consumeError(tensors.takeError());
    return 0;
  }
  uint64_t total = 0;
  for (const TensorView &tensor : *tensors) {
    if (uint64_t(tensor.getNumElements()) * getByteWidth(tensor.dtype) !=
        tensor.bytes.size())
      __builtin_trap();
    for (uint8_t byte : tensor.bytes)
      total += byte;
  }
  // The ranges tile the data: no byte is in two tensors.
  if (total > size * 255)
    __builtin_trap();
  return 0;
}
