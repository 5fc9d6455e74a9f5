//===- CpuTarget.cpp - Which processor code is made for -------------------===//

#include "codegen/cpu/CpuTarget.h"

#include "runtime/cpu/TilePermission.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"

using namespace tandem::codegen;
using llvm::StringRef;

// LLVM and `__builtin_cpu_supports` spell all of these alike, and qrun's table
// (runtime/cpu/CpuFeatures.cpp) knows them.
static constexpr llvm::StringLiteral levelThree[] = {
    "cmov", "sse",  "sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt",
    "avx",  "avx2", "bmi",  "bmi2", "f16c",  "fma",    "lzcnt",  "movbe"};
static constexpr llvm::StringLiteral levelFour[] = {
    "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"};
// Beyond the levels: what `native` uses where it is there.
static constexpr llvm::StringLiteral extrasOfFour[] = {
    "avx512vnni", "avx512bf16", "avx512vbmi", "avx512vbmi2"};
// The tile registers, where the system lets this process use them.
static constexpr llvm::StringLiteral tileExtras[] = {"amx-tile", "amx-bf16",
                                                     "amx-int8"};
static constexpr llvm::StringLiteral extras[] = {"avxvnni"};

// Intel's processors with all of them, for who compiles on another machine.
static constexpr llvm::StringLiteral kSapphireRapids = "sapphirerapids";

static bool hasAll(const llvm::StringMap<bool> &host,
                   llvm::ArrayRef<llvm::StringLiteral> names) {
  return llvm::all_of(names, [&](StringRef name) { return host.lookup(name); });
}

llvm::Expected<CpuTarget> tandem::codegen::getCpuTarget(StringRef arch) {
  CpuTarget target;
  target.level = arch.str();
  target.triple = "x86_64-unknown-linux-gnu";
  bool isNative = arch == "native", isSapphireRapids = arch == kSapphireRapids;
  llvm::StringMap<bool> host;
  if (isNative) {
    host = llvm::sys::getHostCPUFeatures();
    if (!hasAll(host, levelThree))
      return llvm::createStringError(
          "expects a processor of level x86-64-v3 or x86-64-v4 for native, but "
          "this one is " +
          llvm::sys::getHostCPUName());
    target.cpu = hasAll(host, levelFour) ? "x86-64-v4" : "x86-64-v3";
  } else if (isSapphireRapids) {
    target.cpu = "x86-64-v4";
  } else if (arch == "x86-64-v3" || arch == "x86-64-v4") {
    target.cpu = arch.str();
  } else {
    return llvm::createStringError("expects x86-64-v3, x86-64-v4, "
                                   "sapphirerapids or native as CPU, but got "
                                   "'" +
                                   arch + "'");
  }

  auto require = [&](llvm::ArrayRef<llvm::StringLiteral> names) {
    target.requiredFeatures.insert(target.requiredFeatures.end(), names.begin(),
                                   names.end());
  };
  auto requireExtras = [&](llvm::ArrayRef<llvm::StringLiteral> names) {
    for (StringRef name : names)
      if (isSapphireRapids || host.lookup(name)) {
        target.features.push_back(name.str());
        target.requiredFeatures.push_back(name.str());
      }
  };
  require(levelThree);
  if (target.hasAvx512()) {
    require(levelFour);
    requireExtras(extrasOfFour);
    if (isSapphireRapids ||
        (hasAll(host, tileExtras) && requestTilePermission() == 0))
      requireExtras(tileExtras);
  }
  requireExtras(extras);
  return target;
}
