//===- Comparison.cpp - Whether two functions computed the same -----------===//

#include "test/passes/Comparison.h"
#include "passes/Passes.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

#include <cstring>

using namespace tandem;
using namespace tandem::reference;
using testing::AssertionFailure;
using testing::AssertionResult;
using testing::AssertionSuccess;

template <typename T>
static AssertionResult isSame(const std::vector<T> &actual,
                              const std::vector<T> &expected) {
  if (actual.size() != expected.size())
    return AssertionFailure()
           << actual.size() << " numbers, expected " << expected.size();
  for (size_t i = 0; i < actual.size(); ++i)
    if (std::memcmp(&actual[i], &expected[i], sizeof(T)) != 0)
      return AssertionFailure() << "number " << i << " is " << actual[i]
                                << ", expected " << expected[i];
  return AssertionSuccess();
}

/// The numbers that a value consists of, one vector for each of its parts.
static std::vector<std::vector<float>> getFloats(const Value &value) {
  if (const auto *tensor = std::get_if<Tensor>(&value))
    return {tensor->data};
  if (const auto *cache = std::get_if<KvCache>(&value))
    return {cache->keys.data, cache->values.data};
  if (const auto *cache = std::get_if<ConvCache>(&value))
    return {cache->committed.data, cache->rows.data};
  if (const auto *cache = std::get_if<DeltaCache>(&value))
    return {cache->state.data, cache->key.data, cache->value.data,
            cache->decay.data, cache->beta.data};
  return {};
}

AssertionResult test::isSame(const Value &actual, const Value &expected) {
  if (actual.index() != expected.index())
    return AssertionFailure() << "is a value of another kind";
  if (const auto *ints = std::get_if<IntTensor>(&actual))
    return ::isSame(ints->data, std::get<IntTensor>(expected).data);
  if (const auto *cache = std::get_if<KvCache>(&actual))
    if (AssertionResult same =
            ::isSame(cache->positions, std::get<KvCache>(expected).positions);
        !same)
      return same << " (positions)";
  std::vector<std::vector<float>> parts = getFloats(actual),
                                  expectedParts = getFloats(expected);
  for (size_t part = 0; part < parts.size(); ++part)
    if (AssertionResult same = ::isSame(parts[part], expectedParts[part]);
        !same)
      return same << " (part " << part << ")";
  return AssertionSuccess();
}

AssertionResult test::runPasses(mlir::ModuleOp module, llvm::StringRef passes) {
  static bool isRegistered = [] {
    registerTandemPasses();
    mlir::registerTransformsPasses();
    return true;
  }();
  (void)isRegistered;
  mlir::PassManager manager(module.getContext());
  std::string problem;
  llvm::raw_string_ostream os(problem);
  if (failed(mlir::parsePassPipeline(passes, manager, os)))
    return AssertionFailure() << problem;
  if (failed(manager.run(module)))
    return AssertionFailure() << passes.str() << " failed";
  return AssertionSuccess();
}
