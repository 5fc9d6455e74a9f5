//===- qopt.cpp - mlir-opt with our dialects, passes and pipelines --------===//

#include "dialects/lm/LmDialect.h"
#include "dialects/plan/PlanDialect.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  tandem::registerTandemPasses();
  tandem::registerPipelines();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerSymbolDCEPass();
  mlir::DialectRegistry registry;
  registry.insert<tandem::lm::LmDialect, tandem::plan::PlanDialect,
                  mlir::func::FuncDialect>();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Tandem optimizer driver\n", registry));
}
