//===- ObjectEmitter.cpp - From LLVM IR to an object file -----------------===//

#include "codegen/cpu/Lowering.h"

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/PassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/SubtargetFeature.h"

#include <mutex>

using namespace tandem::codegen;

/// The machine that \p target means. Nothing is fused or reordered: a product
/// that is rounded here and not there would give the same row other bits in
/// another register tile.
static llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
createMachine(const CpuTarget &target) {
  static std::once_flag initialized;
  std::call_once(initialized, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  llvm::Triple triple(target.triple);
  std::string message;
  const llvm::Target *backend =
      llvm::TargetRegistry::lookupTarget(triple, message);
  if (!backend)
    return llvm::createStringError(message);
  llvm::SubtargetFeatures features;
  for (const std::string &feature : target.features)
    features.AddFeature(feature);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(backend->createTargetMachine(
      triple, target.cpu, features.getString(), options, llvm::Reloc::PIC_,
      std::nullopt, llvm::CodeGenOptLevel::Default));
  if (!machine)
    return llvm::createStringError("LLVM has no machine for " + target.cpu);
  return machine;
}

/// Kernels are vectors and loops already; what is left to do is to share
/// addresses and constants and to move them out of loops.
static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  tuning.LoopUnrolling = false;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O1)
      .run(module, modules);
}

/// Fails when the object calls something that it does not hold: nothing is
/// there to give it when it is loaded.
static llvm::Error checkComplete(llvm::MemoryBufferRef object) {
  auto file = llvm::object::ObjectFile::createELFObjectFile(object);
  if (!file)
    return file.takeError();
  std::string missing;
  for (const llvm::object::SymbolRef &symbol : (*file)->symbols()) {
    llvm::Expected<uint32_t> flags = symbol.getFlags();
    if (!flags)
      return flags.takeError();
    llvm::Expected<llvm::StringRef> name = symbol.getName();
    if (!name)
      return name.takeError();
    if ((*flags & llvm::object::SymbolRef::SF_Undefined) && !name->empty())
      missing += (missing.empty() ? "" : ", ") + name->str();
  }
  if (missing.empty())
    return llvm::Error::success();
  return llvm::createStringError("expects code that calls no library, but it "
                                 "calls " +
                                 missing);
}

llvm::Expected<std::vector<char>>
tandem::codegen::compileToObject(llvm::Module &module,
                                 const CpuTarget &target) {
  auto machine = createMachine(target);
  if (!machine)
    return machine.takeError();
  module.setTargetTriple((*machine)->getTargetTriple());
  module.setDataLayout((*machine)->createDataLayout());
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", target.cpu);
    function.addFnAttr("target-features", (*machine)->getTargetFeatureString());
    // Some processors of a level are known to prefer narrower vectors.
    if (target.hasAvx512())
      function.addFnAttr("prefer-vector-width", "512");
    // No loop may become a call of memcpy or memset.
    function.addFnAttr("no-builtins");
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }
  optimize(module, **machine);

  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  if ((*machine)->addPassesToEmitFile(passes, stream, nullptr,
                                      llvm::CodeGenFileType::ObjectFile))
    return llvm::createStringError("LLVM cannot write objects for " +
                                   target.cpu);
  passes.run(module);
  if (llvm::Error error = checkComplete(llvm::MemoryBufferRef(
          llvm::StringRef(object.data(), object.size()), "kernel")))
    return error;
  return std::vector<char>(object.begin(), object.end());
}
