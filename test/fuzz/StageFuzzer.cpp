//===- StageFuzzer.cpp - .mlir input of qcompile --------------------------===//
//
// The input is a stage: it is parsed, verified, and taken through all phases up
// to the plan, as qcompile does. An error is fine. P7.14.
//
//===----------------------------------------------------------------------===//

#include "dialects/lm/LmOps.h"
#include "dialects/plan/PlanOps.h"
#include "passes/Pipelines.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/Regex.h"

using namespace tandem;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // A context of its own for every input: what one interned must not matter to
  // the next.
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context
      .loadDialect<lm::LmDialect, plan::PlanDialect, mlir::func::FuncDialect>();
  // MLIR's lexer looks at the character behind the text.
  std::string text(reinterpret_cast<const char *>(data), size);
  // On this the parser itself crashes; qcompile looks first, too.
  if (llvm::Regex("array<[[:space:]]*index").match(text))
    return 0;
  mlir::ScopedDiagnosticHandler silence(
      &context, [](mlir::Diagnostic &) { return mlir::success(); });
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module)
    return 0;
  PipelineOptions options = {.arch = "x86-64-v3"};
  mlir::PassManager manager(&context, mlir::ModuleOp::getOperationName());
  buildImportPipeline(manager);
  buildFusionPipeline(manager, options);
  buildLoweringPipeline(manager, options);
  buildPlanPipeline(manager, options);
  (void)manager.run(*module);
  return 0;
}
