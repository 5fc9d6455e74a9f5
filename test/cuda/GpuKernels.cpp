//===- GpuKernels.cpp - Compiles the kernels of the checks ----------------===//
//
// TandemGpuKernels DIRECTORY [bench]
//
// Writes cubins for sm_90 and PTX for sm_86 of all kernels of the suite and of
// the benchmarks, and for each kind a table, one line a kernel: name, file,
// threads, shared memory, scratch, and for x, y and z of the grid the four
// numbers of CudaGridRule. bench: cubins of the benchmarks alone.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/CudaCompiler.h"
#include "dialects/plan/KernelFamilies.h"
#include "test/cuda/Benchmarks.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace tandem;

/// A plan with all kernels of \p suite that \p arch can run, each launched
/// once with its largest number of rows.
static std::string writePlan(gpucheck::Suite suite, StringRef arch) {
  if (!plan::hasClusters(arch))
    erase_if(suite.kernels, [](const gpucheck::KernelCase &kernel) {
      return kernel.needsClusters;
    });
  std::string text;
  raw_string_ostream os(text);
  for (const gpucheck::KernelCase &kernel : suite.kernels)
    os << "plan.kernel @" << kernel.name << " " << kernel.family << " "
       << kernel.parameters << "\n";
  os << "plan.program @program() -> () {\n"
     << "  %b = plan.buffer : memref<1xi32>\n";
  for (const gpucheck::KernelCase &kernel : suite.kernels) {
    const plan::KernelSignature &signature =
        plan::getKernelSignature(*plan::symbolizeKernelFamily(kernel.family));
    auto printOperands = [&](StringRef name, int count) {
      if (count == plan::kVariadic)
        count = 1;
      os << " " << name << "(";
      for (int i = 0; i < count; ++i)
        os << (i ? ", %b" : "%b");
      os << " : ";
      for (int i = 0; i < count; ++i)
        os << (i ? ", memref<1xi32>" : "memref<1xi32>");
      os << ")";
    };
    os << "  plan.launch @" << kernel.name;
    printOperands("ins", signature.inputs);
    printOperands("outs", signature.outputs);
    os << " rows " << kernel.maxRows << " items 1\n";
  }
  os << "}\n";
  return text;
}

static Error writeFile(const Twine &path, ArrayRef<char> bytes) {
  std::error_code error;
  raw_fd_ostream os(path.str(), error);
  if (!error) {
    os.write(bytes.data(), bytes.size());
    os.close();
    error = os.error();
    os.clear_error();
  }
  return error ? createStringError(path + ": " + error.message())
               : Error::success();
}

static Error compile(mlir::ModuleOp module, StringRef directory, StringRef arch,
                     StringRef kind) {
  Expected<codegen::CudaTarget> target = codegen::getCudaTarget(arch);
  if (!target)
    return target.takeError();
  Expected<codegen::CudaImage> image =
      codegen::compileCudaKernels(module, *target);
  if (!image)
    return image.takeError();
  std::string table;
  raw_string_ostream os(table);
  for (const codegen::CudaUnit &unit : image->units) {
    std::string file = unit.source.name + "." + kind.str();
    for (const codegen::CudaKernel &kernel : unit.source.kernels) {
      os << kernel.symbol << " " << file << " " << kernel.block << " "
         << kernel.shared << " " << kernel.scratch;
      for (const auto &direction :
           {kernel.grid.x, kernel.grid.y, kernel.grid.z}) {
        // All of them by name: what is not written here, Run.cpp cannot know.
        auto [fixed, perRow, divisor, most, mostRows] = direction;
        os << " " << fixed << " " << perRow << " " << divisor << " " << most
           << " " << mostRows;
      }
      os << "\n";
    }
    if (Error error = writeFile(directory + "/" + file,
                                kind == "cubin" ? unit.cubin : unit.ptx))
      return error;
    if (Error error = writeFile(
            directory + "/" + unit.source.name + "." + arch + ".log", unit.log))
      return error;
    if (Error error =
            writeFile(directory + "/" + unit.source.name + "." + arch + ".cu",
                      unit.source.text))
      return error;
  }
  return writeFile(directory + "/" + kind + ".txt", table);
}

int main(int argc, char **argv) {
  bool isBench = argc == 3 && StringRef(argv[2]) == "bench";
  if (argc != 2 && !isBench) {
    errs() << "usage: " << argv[0] << " DIRECTORY [bench]\n";
    return 2;
  }
  StringRef directory = argv[1];
  if (std::error_code error = sys::fs::create_directories(directory)) {
    errs() << directory << ": " << error.message() << "\n";
    return 1;
  }
  mlir::MLIRContext context;
  context.loadDialect<plan::PlanDialect>();
  gpucheck::Suite suite = isBench ? gpucheck::Suite() : gpucheck::makeSuite();
  gpucheck::addBenchmarks(suite);
  for (auto [arch, kind] :
       {std::pair<StringRef, StringRef>{"sm_90", "cubin"}, {"sm_86", "ptx"}}) {
    if (isBench && kind == "ptx")
      continue;
    mlir::OwningOpRef<mlir::ModuleOp> module =
        mlir::parseSourceString<mlir::ModuleOp>(writePlan(suite, arch),
                                                &context);
    if (!module)
      return 1;
    if (Error error = compile(*module, directory, arch, kind)) {
      errs() << toString(std::move(error)) << "\n";
      return 1;
    }
  }
  return 0;
}
