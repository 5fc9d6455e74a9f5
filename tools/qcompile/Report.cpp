//===- Report.cpp - What --report prints ----------------------------------===//

#include "tools/qcompile/Report.h"
#include "codegen/MemoryReport.h"
#include "dialects/plan/PlanOps.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

using namespace llvm;
using namespace tandem;
using namespace tandem::qcompile;
using codegen::Cost;
using codegen::FamilyCosts;
using codegen::Machine;
using codegen::MemoryPlan;
using codegen::PlanCosts;

namespace {

/// What the host runs, by name.
struct Scene {
  std::string name;
  /// As JSON has it.
  StringRef program;
  int64_t context, tokens;
  FamilyCosts costs;
};

} // namespace

/// Prompts that are reported.
static constexpr int64_t kPrompts[] = {64, 2048, 8192};

/// How the head of \p program is read, as the flags call it; and of how many
/// tokens, where those are not all.
static std::pair<StringRef, std::optional<int64_t>>
findHead(mlir::ModuleOp plan, StringRef program) {
  std::pair<StringRef, std::optional<int64_t>> head = {"bf16", std::nullopt};
  plan.lookupSymbol(program)->walk([&](plan::LaunchOp launch) {
    auto kernel = plan.lookupSymbol<plan::KernelOp>(launch.getKernel());
    switch (kernel.getFamily()) {
    case plan::KernelFamily::head_search:
      head.first = "int8";
      break;
    case plan::KernelFamily::head_draft:
    case plan::KernelFamily::quant_head_argmax:
      head.first = "int4";
      break;
    case plan::KernelFamily::select_tokens:
      head.second =
          kernel.getParameters().getAs<mlir::IntegerAttr>("entries").getInt();
      break;
    default:
      break;
    }
  });
  return head;
}

/// Rounds behind every prompt, then the prompts themselves.
static std::vector<Scene> makeScenes(PlanCosts plan) {
  std::vector<Scene> scenes;
  auto fits = [&](int64_t tokens) { return tokens <= plan.getMaxContext(); };
  for (int64_t context : make_filter_range(kPrompts, fits))
    for (StringRef program : {"verify", "draft", "step"})
      if (FamilyCosts costs = plan.getRound(program, context); !costs.empty())
        scenes.push_back(
            {(program + " behind " + Twine(context)).str(), program, context,
             program == "step" ? 1 : plan.getBlock(), std::move(costs)});
  for (int64_t tokens : make_filter_range(kPrompts, fits))
    scenes.push_back({("prefill of " + Twine(tokens)).str(), "prefill", 0,
                      tokens, plan.getPrefill(tokens)});
  return scenes;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static void printCost(StringRef name, const Cost &cost, raw_ostream &os) {
  os << format("  %-20s %8lld %10.2f %10.2f %10.2f %11.2f %11.4f %10.3f\n",
               name.str().c_str(), (long long)cost.launches, cost.weights / 1e6,
               cost.keyValues / 1e6, cost.states / 1e6, cost.activations / 1e6,
               cost.operations / 1e9, cost.floor * 1e3);
}

static void print(const Scene &scene, raw_ostream &os) {
  os << "\n"
     << scene.name << " tokens, " << scene.tokens << " rows\n"
     << "  kernel               launches  weights MB      kv MB  states MB  "
        "activ. MB  operations G  floor ms\n";
  for (const auto &[family, cost] : scene.costs)
    printCost(family, cost, os);
  printCost("total", codegen::getTotal(scene.costs), os);
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static json::Object toJson(const Cost &cost) {
  return json::Object{{"launches", cost.launches},
                      {"weight_bytes", cost.weights},
                      {"key_value_bytes", cost.keyValues},
                      {"state_bytes", cost.states},
                      {"activation_bytes", cost.activations},
                      {"operations", cost.operations},
                      {"floor_s", cost.floor}};
}

static json::Object toJson(const Scene &scene) {
  json::Object kernels;
  for (const auto &[family, cost] : scene.costs)
    kernels[family] = toJson(cost);
  return json::Object{{"program", scene.program},
                      {"context", scene.context},
                      {"rows", scene.tokens},
                      {"kernels", std::move(kernels)},
                      {"total", toJson(codegen::getTotal(scene.costs))}};
}

static json::Object toJson(const MemoryPlan &plan) {
  auto kind = [](const MemoryPlan::Kind &kind) {
    return json::Object{{"count", int64_t(kind.count)},
                        {"bytes", int64_t(kind.bytes)}};
  };
  json::Object caches;
  for (const auto &[name, cache] : plan.caches)
    caches[name] = kind(cache);
  return json::Object{
      {"weights", kind(plan.weights)},
      {"caches", std::move(caches)},
      {"cache_bytes", int64_t(plan.stateBytes)},
      {"port_bytes", int64_t(plan.portBytes)},
      {"arena_bytes", int64_t(plan.arenaBytes)},
      {"code", kind(plan.code)},
      {plan.forGpu ? "scratch_bytes" : "scratch_bytes_per_thread",
       int64_t(plan.scratchBytes)},
      {"total_bytes", int64_t(plan.getTotal())},
      {"snapshot_bytes", int64_t(plan.snapshotBytes)}};
}

void qcompile::printReport(const codegen::ArtifactContents &contents,
                           const Machine &machine, bool asJson,
                           raw_ostream &os) {
  MemoryPlan memory(contents);
  mlir::ModuleOp plan = contents.plan;
  std::vector<Scene> scenes;
  if (!plan.getOps<plan::LoopOp>().empty())
    scenes = makeScenes(PlanCosts(plan, machine));
  if (asJson) {
    json::Array list;
    for (const Scene &scene : scenes)
      list.push_back(toJson(scene));
    json::Object heads;
    for (auto loop : plan.getOps<plan::LoopOp>()) {
      heads["verify"] = findHead(plan, loop.getStep()).first;
      if (std::optional<StringRef> draft = loop.getDraft()) {
        auto [how, tokens] = findHead(plan, *draft);
        heads["draft"] = how;
        heads["draft_tokens"] =
            tokens.value_or(static_cast<int64_t>(loop.getVocabulary()));
      }
    }
    json::Object object{
        {"arch", memory.target},
        {"memory", toJson(memory)},
        {"heads", std::move(heads)},
        {"machine", json::Object{{"name", machine.name},
                                 {"bytes_per_s", machine.bandwidth},
                                 {"operations_per_s", machine.operations}}},
        {"programs", std::move(list)}};
    os << formatv("{0}\n", json::Value(std::move(object)));
    return;
  }
  memory.print(os);
  for (auto loop : plan.getOps<plan::LoopOp>()) {
    os << "heads: verify " << findHead(plan, loop.getStep()).first;
    if (std::optional<StringRef> draft = loop.getDraft()) {
      auto [how, tokens] = findHead(plan, *draft);
      os << ", draft " << how;
      if (tokens)
        os << " of " << *tokens << " tokens";
    }
    os << "\n";
  }
  if (scenes.empty())
    return;
  os << "\nfloors on " << machine.name
     << format(": %.1f GB/s, %.2f Tops (", machine.bandwidth / 1e9,
               machine.operations / 1e12)
     << machine.source << ")\n";
  for (const Scene &scene : scenes)
    print(scene, os);
}
