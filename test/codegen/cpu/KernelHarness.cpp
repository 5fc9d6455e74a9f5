//===- KernelHarness.cpp - Compile kernels and call them ------------------===//

#include "test/codegen/cpu/KernelHarness.h"

#include "dialects/plan/PlanOps.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <cstdlib>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace tandem;
using namespace tandem::test;

static constexpr std::byte guard{0xa5};

Buffer::Buffer(size_t bytes) : bytes(bytes) {
  size_t padded = (bytes + 63) / 64 * 64;
  block =
      static_cast<std::byte *>(std::aligned_alloc(64, padded + 2 * guardBytes));
  std::memset(block, static_cast<int>(guard), padded + 2 * guardBytes);
  start = block + guardBytes;
}

Buffer::~Buffer() {
  for (size_t i = 0; i < guardBytes; ++i) {
    EXPECT_EQ(block[i], guard)
        << "written " << guardBytes - i << " bytes before an operand";
    EXPECT_EQ(start[bytes + i], guard)
        << "written " << i << " bytes behind an operand of " << bytes;
    if (block[i] != guard || start[bytes + i] != guard)
      break;
  }
  std::free(block);
}

Kernels::~Kernels() {
  if (handle)
    dlclose(handle);
  if (file >= 0)
    close(file);
}

void Kernels::add(const std::string &symbol, const std::string &family,
                  const std::map<std::string, std::string> &parameters) {
  if (!known.emplace(symbol, nullptr).second)
    return;
  text += "plan.kernel @" + symbol + " " + family + " {";
  const char *separator = "";
  for (const auto &[name, value] : parameters) {
    bool isInteger = value.find_first_not_of("-0123456789") == value.npos;
    text += separator + name + " = " + value + (isInteger ? " : i64" : "");
    separator = ", ";
  }
  text += "}\n";
}

void *tandem::test::loadImage(const std::vector<char> &image, int &file) {
  file = memfd_create("kernels", MFD_CLOEXEC);
  if (file < 0 || write(file, image.data(), image.size()) !=
                      static_cast<ssize_t>(image.size())) {
    ADD_FAILURE() << "cannot write the image";
    return nullptr;
  }
  std::string path = "/proc/self/fd/" + std::to_string(file);
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    ADD_FAILURE() << dlerror();
  return handle;
}

void Kernels::compile() {
  mlir::MLIRContext context;
  context.loadDialect<plan::PlanDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  ASSERT_TRUE(module) << text;
  auto target = codegen::getCpuTarget(arch);
  ASSERT_TRUE(static_cast<bool>(target)) << toString(target.takeError());
  auto image = codegen::compileCpuKernels(*module, *target);
  ASSERT_TRUE(static_cast<bool>(image)) << toString(image.takeError());
  handle = loadImage(image->sharedObject, file);
  ASSERT_TRUE(handle);
  for (const codegen::CpuKernel &kernel : image->kernels) {
    void *address = dlsym(handle, kernel.symbol.c_str());
    ASSERT_TRUE(address) << kernel.symbol;
    known[kernel.symbol] = reinterpret_cast<TandemKernel>(address);
    scratchBytes[kernel.symbol] = kernel.scratchBytes;
  }
}

void Kernels::call(const std::string &symbol,
                   const std::vector<void *> &operands, int64_t rows,
                   int64_t begin, int64_t end) {
  TandemKernel kernel = known[symbol];
  ASSERT_TRUE(kernel) << symbol;
  // What a call finds in its scratch must not matter.
  Buffer scratch(scratchBytes[symbol]);
  std::memset(scratch.data(), 0xff, scratch.size());
  TandemKernelArgs arguments = {operands.data(), rows, begin, end,
                                scratch.data()};
  kernel(&arguments);
}

void Kernels::run(const std::string &symbol,
                  const std::vector<Buffer *> &operands, int64_t rows,
                  int64_t items) {
  std::vector<void *> pointers;
  std::vector<std::vector<std::byte>> before;
  for (Buffer *operand : operands) {
    pointers.push_back(operand->data());
    before.push_back(operand->save());
  }
  auto restore = [&] {
    for (size_t i = 0; i < operands.size(); ++i)
      operands[i]->restore(before[i]);
  };
  call(symbol, pointers, rows, 0, items);
  std::vector<std::vector<std::byte>> atOnce;
  for (Buffer *operand : operands)
    atOnce.push_back(operand->save());
  for (int64_t piece : {int64_t(1), (items + 1) / 2, int64_t(3)}) {
    if (piece == 0 || piece >= items)
      continue;
    restore();
    for (int64_t begin = (items - 1) / piece * piece; begin >= 0;
         begin -= piece)
      call(symbol, pointers, rows, begin, std::min(begin + piece, items));
    for (size_t i = 0; i < operands.size(); ++i)
      EXPECT_TRUE(operands[i]->save() == atOnce[i])
          << symbol << ": operand " << i << " depends on the split into pieces "
          << "of " << piece << ", rows " << rows;
  }
}

std::vector<std::string> tandem::test::getTestedLevels() {
  std::vector<std::string> levels = {"x86-64-v3"};
  auto native = codegen::getCpuTarget("native");
  if (!native) {
    llvm::consumeError(native.takeError());
    return {};
  }
  // `native` is that level, and further features.
  if (native->cpu != levels[0])
    levels.push_back("native");
  return levels;
}
