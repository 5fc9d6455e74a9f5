//===- CpuFeatures.cpp - What this processor can do -----------------------===//

#include "runtime/cpu/CpuFeatures.h"

#include "runtime/cpu/TilePermission.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace tandem {

namespace {

struct Feature {
  std::string_view name;
  bool (*isSupported)();
};

// The builtin takes literals only, hence a table of functions.
#define TANDEM_FEATURE(name)                                                   \
  Feature {                                                                    \
    name, [] { return __builtin_cpu_supports(name) != 0; }                     \
  }

#if defined(__x86_64__)
constexpr Feature features[] = {
    TANDEM_FEATURE("adx"),
    TANDEM_FEATURE("aes"),
    TANDEM_FEATURE("amx-bf16"),
    TANDEM_FEATURE("amx-int8"),
    TANDEM_FEATURE("amx-tile"),
    TANDEM_FEATURE("avx"),
    TANDEM_FEATURE("avx2"),
    TANDEM_FEATURE("avx512bf16"),
    TANDEM_FEATURE("avx512bitalg"),
    TANDEM_FEATURE("avx512bw"),
    TANDEM_FEATURE("avx512cd"),
    TANDEM_FEATURE("avx512dq"),
    TANDEM_FEATURE("avx512f"),
    TANDEM_FEATURE("avx512ifma"),
    TANDEM_FEATURE("avx512vbmi"),
    TANDEM_FEATURE("avx512vbmi2"),
    TANDEM_FEATURE("avx512vl"),
    TANDEM_FEATURE("avx512vnni"),
    TANDEM_FEATURE("avx512vp2intersect"),
    TANDEM_FEATURE("avx512vpopcntdq"),
    TANDEM_FEATURE("avxvnni"),
    TANDEM_FEATURE("bmi"),
    TANDEM_FEATURE("bmi2"),
    TANDEM_FEATURE("cmov"),
    TANDEM_FEATURE("f16c"),
    TANDEM_FEATURE("fma"),
    TANDEM_FEATURE("fma4"),
    TANDEM_FEATURE("gfni"),
    TANDEM_FEATURE("lzcnt"),
    TANDEM_FEATURE("mmx"),
    TANDEM_FEATURE("movbe"),
    TANDEM_FEATURE("pclmul"),
    TANDEM_FEATURE("popcnt"),
    TANDEM_FEATURE("sha"),
    TANDEM_FEATURE("sse"),
    TANDEM_FEATURE("sse2"),
    TANDEM_FEATURE("sse3"),
    TANDEM_FEATURE("sse4.1"),
    TANDEM_FEATURE("sse4.2"),
    TANDEM_FEATURE("sse4a"),
    TANDEM_FEATURE("ssse3"),
    TANDEM_FEATURE("vaes"),
    TANDEM_FEATURE("vpclmulqdq"),
    TANDEM_FEATURE("x86-64-v2"),
    TANDEM_FEATURE("x86-64-v3"),
    TANDEM_FEATURE("x86-64-v4"),
    TANDEM_FEATURE("xop"),
};
#else
constexpr Feature features[] = {{"", [] { return true; }}};
#endif

} // namespace

Status checkCpuFeatures(const artifact::Cpu &needed) {
#if defined(__x86_64__)
  __builtin_cpu_init();
#endif
  std::string missing;
  for (const flatbuffers::String *name : *needed.features()) {
    const auto *feature =
        std::find_if(std::begin(features), std::end(features),
                     [&](const Feature &candidate) {
                       return candidate.name == name->string_view();
                     });
    if (feature == std::end(features))
      return failure(StatusCode::Unsupported,
                     "the code needs the processor "
                     "feature '",
                     name->string_view(), "', which this qrun does not know");
    if (!feature->isSupported())
      missing += concat(missing.empty() ? "" : ", ", name->string_view());
  }
  if (!missing.empty())
    return failure(StatusCode::Unsupported, "compiled for ",
                   needed.level()->string_view(),
                   ", this processor lacks: ", missing,
                   " (recompile with --arch native on this machine)");
  bool needsTiles = std::any_of(
      needed.features()->begin(), needed.features()->end(),
      [](const auto *name) { return name->string_view() == "amx-tile"; });
  if (int error = needsTiles ? requestTilePermission() : 0)
    return failure(StatusCode::Unsupported, "compiled for ",
                   needed.level()->string_view(),
                   ", but the system does not let this process use the "
                   "processor's tile registers: ",
                   systemError("arch_prctl", error).message(),
                   " (recompile with --arch x86-64-v4)");
  return Status();
}

} // namespace tandem
