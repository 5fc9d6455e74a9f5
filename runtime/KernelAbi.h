/*===- KernelAbi.h - How a compiled CPU kernel is called ------------------===*
 *
 * One of the two contracts between compiler and runtime (the other is
 * Artifact.fbs). Plain C, no includes but <stdint.h>. Any change raises a
 * version below.
 *
 * A kernel is a function `void kernel(const TandemKernelArgs *)` exported by a
 * shared object that has no undefined symbols. The runtime splits the items of
 * a launch into ranges, one per thread; kernels of one launch write disjoint
 * memory. A kernel allocates nothing, keeps nothing and cannot fail: shapes
 * were verified when it was compiled, sizes when the artefact was opened.
 *
 *===----------------------------------------------------------------------===*/

#ifndef TANDEM_RUNTIME_KERNELABI_H
#define TANDEM_RUNTIME_KERNELABI_H

#include <stdint.h>

/** Version of Artifact.fbs, in the file header. */
#define TANDEM_ARTIFACT_VERSION 6u

/** Version of this file; every shared object exports it as the int32_t
 * `tandem_kernel_abi`. */
#define TANDEM_KERNEL_ABI_VERSION 1

/** First eight bytes of an artefact: "TANDEM\x1a\n". */
#define TANDEM_MAGIC UINT64_C(0x0a1a4d45444e4154)

/** What a kernel gets. All pointers are at least 64-byte aligned. */
typedef struct TandemKernelArgs {
  /** Operands of the launch: inputs, then outputs. */
  void *const *operands;
  /** Live rows; rows behind them are neither read nor written. */
  int64_t rows;
  /** Items to do: [begin, end). */
  int64_t begin;
  int64_t end;
  /** Scratch of this thread, as large as the kernel asked for. */
  void *scratch;
} TandemKernelArgs;

typedef void (*TandemKernel)(const TandemKernelArgs *args);

#endif /* TANDEM_RUNTIME_KERNELABI_H */
