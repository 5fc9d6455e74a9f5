//===- CpuCompiler.cpp - plan.kernel to a shared object -------------------===//
//
// Every kernel is compiled alone, in a context of its own, to an object file
// of its own: threads share nothing, and what comes out of one kernel does not
// depend on the others.
//
//===----------------------------------------------------------------------===//

#include "codegen/cpu/CpuCompiler.h"

#include "codegen/cpu/Kernels.h"
#include "codegen/cpu/Linker.h"
#include "codegen/cpu/Lowering.h"
#include "runtime/KernelAbi.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "llvm/IR/Constants.h"
#include "llvm/Support/Threading.h"

#include <atomic>
#include <thread>

using namespace mlir;
using namespace tandem;
using namespace tandem::codegen;

namespace {
/// What becomes of one kernel.
struct CompiledKernel {
  uint64_t scratchBytes = 0;
  std::string mlirText;
  std::vector<char> object;
  /// Empty when all went well.
  std::string error;
};

/// Compiles kernels one after the other, in one MLIR context.
class Worker {
public:
  Worker(const CpuTarget &target, bool keepMlir)
      : target(target), keepMlir(keepMlir),
        context(MLIRContext::Threading::DISABLED) {
    DialectRegistry registry;
    registerKernelDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  CompiledKernel compile(const KernelSpec &spec);

private:
  llvm::Expected<std::vector<char>> compileTo(const KernelSpec &spec,
                                              CompiledKernel &result);

  const CpuTarget &target;
  bool keepMlir;
  MLIRContext context;
};
} // namespace

CompiledKernel Worker::compile(const KernelSpec &spec) {
  CompiledKernel result;
  // What the passes complain about belongs into the error, not on a terminal.
  std::string diagnostics;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    diagnostics += ": " + diagnostic.str();
    return success();
  });
  llvm::Expected<std::vector<char>> object = compileTo(spec, result);
  if (object)
    result.object = std::move(*object);
  else
    result.error = "kernel '" + spec.symbol().str() +
                   "': " + llvm::toString(object.takeError()) + diagnostics;
  return result;
}

llvm::Expected<std::vector<char>> Worker::compileTo(const KernelSpec &spec,
                                                    CompiledKernel &result) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  KernelBuilder builder(*module, spec, target);
  buildKernel(builder);
  builder.finish();
  result.scratchBytes = builder.scratchBytes();
  if (failed(verify(*module)))
    return llvm::createStringError("the generated code is wrong");
  if (keepMlir) {
    llvm::raw_string_ostream stream(result.mlirText);
    stream << "// " << plan::stringifyKernelFamily(spec.family()) << "\n";
    module->print(stream);
    stream << "\n";
  }
  llvm::LLVMContext llvmContext;
  auto llvmModule = lowerToLlvm(*module, llvmContext);
  if (!llvmModule)
    return llvmModule.takeError();
  return compileToObject(**llvmModule, target);
}

/// The object that exports `tandem_kernel_abi`.
static llvm::Expected<std::vector<char>>
compileAbiVersion(const CpuTarget &target) {
  llvm::LLVMContext context;
  llvm::Module module("abi", context);
  llvm::Type *type = llvm::Type::getInt32Ty(context);
  new llvm::GlobalVariable(
      module, type, /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage,
      llvm::ConstantInt::get(type, TANDEM_KERNEL_ABI_VERSION),
      "tandem_kernel_abi");
  return compileToObject(module, target);
}

static std::vector<CompiledKernel> compileAll(llvm::ArrayRef<KernelSpec> specs,
                                              const CpuTarget &target,
                                              const CpuOptions &options) {
  std::vector<CompiledKernel> results(specs.size());
  std::atomic<size_t> next = 0;
  auto work = [&] {
    Worker worker(target, options.keepMlir);
    for (size_t i = next++; i < specs.size(); i = next++)
      results[i] = worker.compile(specs[i]);
  };
  size_t threads = options.threads != 0
                       ? options.threads
                       : llvm::hardware_concurrency().compute_thread_count();
  threads = std::min(threads, specs.size());
  std::vector<std::thread> others;
  for (size_t i = 1; i < threads; ++i)
    others.emplace_back(work);
  work();
  for (std::thread &other : others)
    other.join();
  return results;
}

llvm::Expected<CpuImage>
tandem::codegen::compileCpuKernels(ModuleOp planModule, const CpuTarget &target,
                                   const CpuOptions &options) {
  std::vector<KernelSpec> specs;
  for (plan::KernelOp kernel : planModule.getOps<plan::KernelOp>()) {
    llvm::Expected<KernelSpec> spec = KernelSpec::create(kernel);
    if (!spec)
      return spec.takeError();
    if (llvm::Error error = spec->checkForProcessor())
      return error;
    specs.push_back(std::move(*spec));
  }

  CpuImage image;
  std::vector<std::vector<char>> objects;
  llvm::Expected<std::vector<char>> version = compileAbiVersion(target);
  if (!version)
    return version.takeError();
  objects.push_back(std::move(*version));
  std::vector<CompiledKernel> results = compileAll(specs, target, options);
  for (auto [spec, result] : llvm::zip_equal(specs, results)) {
    if (!result.error.empty())
      return llvm::createStringError(result.error);
    image.kernels.push_back({spec.symbol().str(),
                             plan::stringifyKernelFamily(spec.family()).str(),
                             result.scratchBytes});
    image.mlirText += result.mlirText;
    objects.push_back(std::move(result.object));
  }
  llvm::Expected<std::vector<char>> linked = linkSharedObject(objects);
  if (!linked)
    return linked.takeError();
  image.sharedObject = std::move(*linked);
  return image;
}
