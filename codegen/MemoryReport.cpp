//===- MemoryReport.cpp - How much memory an artefact needs ---------------===//

#include "codegen/MemoryReport.h"
#include "dialects/plan/PlanOps.h"

#include "llvm/Support/Format.h"

#include <map>

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

namespace {

/// A line of the report: things of one kind.
struct Line {
  uint64_t count = 0;
  uint64_t bytes = 0;

  void add(mlir::Value memory) {
    auto type = mlir::cast<mlir::MemRefType>(memory.getType());
    ++count;
    bytes += type.getNumElements() * (type.getElementTypeBitWidth() / 8);
  }
};

void print(raw_ostream &os, StringRef name, uint64_t bytes,
           const Twine &details) {
  std::string text = details.str();
  os << format("  %-10s %12s", name.str().c_str(), formatBytes(bytes).c_str());
  if (!text.empty())
    os << "   " << text;
  os << "\n";
}

} // namespace

void codegen::printMemoryReport(const ArtifactContents &contents,
                                raw_ostream &os) {
  mlir::ModuleOp plan = contents.plan;
  Line weights, ports;
  // By kind, in the order of the alphabet.
  std::map<std::string, Line> caches;
  for (mlir::Operation &op : *plan.getBody()) {
    if (auto weight = mlir::dyn_cast<plan::WeightOp>(op))
      weights.add(weight.getResult());
    else if (auto port = mlir::dyn_cast<plan::PortOp>(op))
      ports.add(port.getResult());
    else if (auto state = mlir::dyn_cast<plan::StateOp>(op))
      caches[state.getKind().str()].add(state.getResult());
  }
  std::string kinds;
  for (const auto &[kind, line] : caches)
    kinds += (kinds.empty() ? "" : ", ") + std::to_string(line.count) + " " +
             kind + " " + formatBytes(line.bytes);
  uint64_t scratch = 0;
  for (const CpuKernel &kernel : contents.image.kernels)
    scratch = std::max(scratch, kernel.scratchBytes);

  auto sizeOf = [&](StringRef name) -> uint64_t {
    auto size = plan->getAttrOfType<mlir::IntegerAttr>(name);
    return size ? size.getInt() : 0;
  };
  using plan::PlanDialect;
  uint64_t stateBytes = sizeOf(PlanDialect::kStateSizeAttrName);
  uint64_t portBytes = sizeOf(PlanDialect::kPortSizeAttrName);
  uint64_t arenaBytes = sizeOf(PlanDialect::kArenaSizeAttrName);
  uint64_t codeBytes = contents.image.sharedObject.size();

  os << "memory plan for " << contents.target.level << "\n";
  print(os, "weights", weights.bytes,
        Twine(weights.count) + " packed, mapped from the file");
  print(os, "caches", stateBytes, kinds);
  print(os, "ports", portBytes, Twine(ports.count));
  print(os, "arena", arenaBytes, "shared by all programs");
  print(os, "code", codeBytes,
        Twine(contents.image.kernels.size()) + " kernels");
  print(os, "scratch", scratch, "for every thread");
  print(os, "total",
        weights.bytes + stateBytes + portBytes + arenaBytes + codeBytes +
            scratch,
        "with one thread");
}
