//===- MemoryReport.cpp - How much memory an artefact needs ---------------===//

#include "codegen/MemoryReport.h"
#include "dialects/plan/PlanOps.h"

#include "llvm/Support/Format.h"

using namespace llvm;
using namespace tandem;
using namespace tandem::codegen;

std::string codegen::formatBytes(uint64_t bytes) {
  if (bytes < 1024)
    return std::to_string(bytes) + " bytes";
  static constexpr const char *units[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = double(bytes) / 1024;
  size_t unit = 0;
  // As printed: 1023.96 would be "1024.0".
  for (; value >= 1023.95 && unit + 1 < std::size(units); ++unit)
    value /= 1024;
  std::string text;
  raw_string_ostream(text) << format("%.1f ", value) << units[unit];
  return text;
}

static void add(MemoryPlan::Kind &kind, mlir::Value memory) {
  auto type = mlir::cast<mlir::MemRefType>(memory.getType());
  ++kind.count;
  kind.bytes += type.getNumElements() * (type.getElementTypeBitWidth() / 8);
}

MemoryPlan::MemoryPlan(const ArtifactContents &contents)
    : target(contents.code.arch), forGpu(contents.code.isForGpu()) {
  mlir::ModuleOp plan = contents.plan;
  for (mlir::Operation &op : *plan.getBody()) {
    if (auto weight = mlir::dyn_cast<plan::WeightOp>(op))
      add(weights, weight.getResult());
    else if (auto port = mlir::dyn_cast<plan::PortOp>(op))
      add(ports, port.getResult());
    else if (auto state = mlir::dyn_cast<plan::StateOp>(op))
      add(caches[state.getKind().str()], state.getResult());
  }
  auto sizeOf = [&](StringRef name) -> uint64_t {
    auto size = plan->getAttrOfType<mlir::IntegerAttr>(name);
    return size ? size.getInt() : 0;
  };
  using plan::PlanDialect;
  for (const auto &[kind, cache] : caches)
    if (kind != "key_value")
      snapshotBytes += cache.bytes;
  stateBytes = sizeOf(PlanDialect::kStateSizeAttrName);
  portBytes = sizeOf(PlanDialect::kPortSizeAttrName);
  arenaBytes = sizeOf(PlanDialect::kArenaSizeAttrName);
  code = {contents.code.kernels.size(), contents.code.getSize()};
  for (const CodeKernel &kernel : contents.code.kernels)
    scratchBytes = forGpu ? scratchBytes + kernel.scratch
                          : std::max(scratchBytes, kernel.scratch);
  synthetic = BlobLayout(contents).filledSize != 0;
}

void MemoryPlan::print(raw_ostream &os) const {
  auto line = [&](StringRef name, uint64_t bytes, const Twine &details) {
    std::string text = details.str();
    os << format("  %-10s %12s", name.str().c_str(),
                 formatBytes(bytes).c_str());
    if (!text.empty())
      os << "   " << text;
    os << "\n";
  };
  std::string kinds;
  for (const auto &[kind, cache] : caches)
    kinds += (kinds.empty() ? "" : ", ") + std::to_string(cache.count) + " " +
             kind + " " + formatBytes(cache.bytes);
  os << "memory plan for " << target << "\n";
  line("weights", weights.bytes,
       Twine(weights.count) + (synthetic ? " packed, made at load"
                                         : " packed, mapped from the file"));
  line("caches", stateBytes, kinds);
  line("ports", portBytes, Twine(ports.count));
  line("arena", arenaBytes, "shared by all programs");
  line("code", code.bytes, Twine(code.count) + " kernels");
  line("scratch", scratchBytes, forGpu ? "of all kernels" : "for every thread");
  line("total", getTotal(), forGpu ? "" : "with one thread");
  if (snapshotBytes > 0)
    line("snapshot", snapshotBytes, "each, kept by qrun chat and serve");
}
