//===- Code.cpp - Compiled kernels, as an artefact holds them -------------===//

#include "codegen/Code.h"

using namespace tandem;
using namespace tandem::codegen;

uint64_t Code::getSize() const {
  uint64_t size = 0;
  for (const CodeImage &image : images)
    size += image.bytes.size();
  return size;
}

Code codegen::makeCode(const CpuTarget &target, CpuImage image) {
  Code code;
  code.arch = target.level;
  code.cpuFeatures = target.requiredFeatures;
  code.images.push_back(
      {artifact::ImageKind::shared_object, std::move(image.sharedObject)});
  for (CpuKernel &kernel : image.kernels) {
    CodeKernel &added = code.kernels.emplace_back();
    added.symbol = std::move(kernel.symbol);
    added.family = std::move(kernel.family);
    added.scratch = kernel.scratchBytes;
  }
  return code;
}

Code codegen::makeCode(CudaImage image) {
  Code code;
  code.arch = image.target.arch;
  for (CudaUnit &unit : image.units) {
    auto index = static_cast<uint32_t>(code.images.size());
    code.images.push_back({artifact::ImageKind::cubin, std::move(unit.cubin)});
    code.images.push_back({artifact::ImageKind::ptx, std::move(unit.ptx)});
    for (CudaKernel &kernel : unit.source.kernels)
      code.kernels.push_back({std::move(kernel.symbol), unit.source.name, index,
                              kernel.scratch, kernel.block, kernel.shared,
                              kernel.grid, kernel.startsEarly});
  }
  return code;
}
