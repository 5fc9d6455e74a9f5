//===- TargetOptions.cpp - What a pair is compiled for --------------------===//

#include "tools/qcompile/TargetOptions.h"

#include "codegen/cpu/CpuTarget.h"
#include "codegen/cuda/CudaTarget.h"
#include "dialects/plan/PlanDialect.h"

using namespace llvm;
using namespace tandem;
using namespace tandem::qcompile;

std::string TargetOptions::getArch() const {
  if (!options.arch.empty())
    return options.arch;
  auto planned = module ? (*module)->getAttrOfType<mlir::StringAttr>(
                              plan::PlanDialect::kArchAttrName)
                        : mlir::StringAttr();
  return planned ? planned.str() : "native";
}

std::string TargetOptions::getActivations() const {
  if (!options.activations.empty())
    return options.activations;
  if (auto planned = module ? (*module)->getAttrOfType<mlir::StringAttr>(
                                  kActivationsAttrName)
                            : mlir::StringAttr())
    return planned.str();
  std::string arch = getArch();
  if (plan::isGpu(arch))
    return "bf16";
  // In vectors bf16 is no faster than f32. check() tells of errors.
  Expected<codegen::CpuTarget> target = codegen::getCpuTarget(arch);
  if (!target)
    consumeError(target.takeError());
  else if (target->hasBf16Tiles())
    return "bf16";
  return "f32";
}

std::string TargetOptions::getVerifyHead() const {
  if (!options.verifyHead.empty())
    return options.verifyHead;
  // Who asks for narrow products of a processor wants fewer bytes.
  bool isNarrow = plan::isGpu(getArch()) || getActivations() == "int8";
  return isNarrow ? "int8" : "bf16";
}

std::string TargetOptions::getDraftHead() const {
  if (!options.draftHead.empty())
    return options.draftHead;
  return plan::isGpu(getArch()) ? "int4" : "bf16";
}

PipelineOptions TargetOptions::getPipeline() const {
  // What `--activations` calls int8 is a type.
  std::string activations = getActivations();
  PipelineOptions pipeline;
  pipeline.arch = getArch();
  pipeline.arithmetic = activations == "int8" ? "i8" : activations;
  pipeline.searchesTarget = getVerifyHead() == "int8";
  pipeline.searchesDraft = getDraftHead() == "int8";
  pipeline.roundsDraft = getDraftHead() == "int4";
  pipeline.disabledPasses = options.disabledPasses;
  return pipeline;
}

Error TargetOptions::check() const {
  std::string arch = getArch(), activations = getActivations();
  bool forGpu = plan::isGpu(arch);
  if (forGpu && activations != "bf16")
    return createStringError(
        "--activations " + activations +
        ": expected bf16, there are no other kernels for " + arch);
  if (options.emit == (forGpu ? Stage::Cpu : Stage::Cuda))
    return createStringError(Twine("--emit ") + (forGpu ? "cpu" : "cuda") +
                             ": expected " + (forGpu ? "cuda" : "cpu") +
                             ", which is what " + arch + " runs");
  if (forGpu)
    return codegen::getCudaTarget(arch).takeError();
  return codegen::getCpuTarget(arch).takeError();
}

Error TargetOptions::checkEarlierFlags(Stage stage) const {
  StringRef flag;
  if (!options.verifyHead.empty())
    flag = "--verify-head";
  else if (!options.draftHead.empty())
    flag = "--draft-head";
  else if (options.draftVocabulary)
    flag = "--draft-vocab";
  else if (!options.disabledPasses.empty())
    flag = "--disable-pass";
  if (stage >= Stage::Lowered && !flag.empty())
    return createStringError(options.input + ": is past the stage that " +
                             flag + " is about");
  auto planned =
      (*module)->getAttrOfType<mlir::StringAttr>(kActivationsAttrName);
  if (stage == Stage::Plan && planned && !options.activations.empty() &&
      planned != options.activations)
    return createStringError(
        options.input + ": is planned for activations of " +
        planned.getValue() + ", --activations " + options.activations +
        " needs a plan of its own: go on from an earlier stage");
  return Error::success();
}
