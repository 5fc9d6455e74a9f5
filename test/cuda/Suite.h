//===- Suite.h - Kernels and what is checked of them ----------------------===//

#ifndef TANDEM_TEST_CUDA_SUITE_H
#define TANDEM_TEST_CUDA_SUITE_H

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace tandem::gpucheck {

class Run;

/// A `plan.kernel`.
struct KernelCase {
  std::string name, family;
  /// The dictionary, as MLIR spells it.
  std::string parameters;
  /// Rows of its largest launch.
  int maxRows = 64;
  /// Whether it takes clusters of blocks: sm_90.
  bool needsClusters = false;
};

/// All kernels, for the program that compiles them, and all checks, for the one
/// that runs them.
struct Suite {
  std::vector<KernelCase> kernels;
  std::vector<std::function<void(Run &)>> checks;

  /// Adds a kernel, and returns its name.
  std::string kernel(const std::string &name, const std::string &family,
                     const std::string &parameters, int maxRows = 64,
                     bool needsClusters = false) {
    kernels.push_back({name, family, parameters, maxRows, needsClusters});
    return name;
  }
  void check(std::function<void(Run &)> body) {
    checks.push_back(std::move(body));
  }
};

/// `name = value : i64` for a dictionary.
inline std::string number(const std::string &name, int64_t value) {
  return name + " = " + std::to_string(value) + " : i64";
}

void addLinearChecks(Suite &suite);
void addRowChecks(Suite &suite);
void addAttentionChecks(Suite &suite);
void addDeltaChecks(Suite &suite);
void addTokenChecks(Suite &suite);
void addFusedChecks(Suite &suite);
void addFragmentChecks(Suite &suite);
void addHeadChecks(Suite &suite);

/// Whether the checks \p name are asked for: with TANDEM_GPU_SUITES, a list of
/// names, only those in it.
inline bool isChosen(const char *name) {
  const char *chosen = std::getenv("TANDEM_GPU_SUITES");
  return !chosen || std::string(chosen).find(name) != std::string::npos;
}

inline Suite makeSuite() {
  Suite suite;
  struct {
    const char *name;
    void (*add)(Suite &);
  } parts[] = {
      {"rows", addRowChecks},           {"tokens", addTokenChecks},
      {"linear", addLinearChecks},      {"attention", addAttentionChecks},
      {"delta", addDeltaChecks},        {"fused", addFusedChecks},
      {"fragments", addFragmentChecks}, {"heads", addHeadChecks}};
  for (auto [name, add] : parts)
    if (isChosen(name))
      add(suite);
  return suite;
}

} // namespace tandem::gpucheck

#endif // TANDEM_TEST_CUDA_SUITE_H
