/* Kernels for CpuDeviceTest: an image as the compiler makes them. */

#include "runtime/KernelAbi.h"

int32_t tandem_kernel_abi = TANDEM_KERNEL_ABI_VERSION;

/* output[row] = input[row] + weight[0]: one item per row. */
void add_weight(const TandemKernelArgs *args) {
  const float *input = args->operands[0];
  const float *weight = args->operands[1];
  float *output = args->operands[2];
  for (int64_t row = args->begin; row < args->end; ++row)
    output[row] = input[row] + weight[0];
}

/* log[2 * item] = begin of the range it was in, log[2 * item + 1] = rows. */
void record(const TandemKernelArgs *args) {
  int32_t *log = args->operands[0];
  for (int64_t item = args->begin; item < args->end; ++item) {
    log[2 * item] = (int32_t)args->begin;
    log[2 * item + 1] = (int32_t)args->rows;
  }
}

/* state[0] += 1; output[0] = state[0]. */
void count_calls(const TandemKernelArgs *args) {
  int32_t *state = args->operands[0];
  int32_t *output = args->operands[1];
  output[0] = ++state[0];
}

/* Sums its items in its own scratch, 100 words of it, and checks that nobody
   else writes there. output[item] = 1 when all is well. */
void use_scratch(const TandemKernelArgs *args) {
  volatile int64_t *scratch = args->scratch;
  int32_t *output = args->operands[0];
  for (int64_t item = args->begin; item < args->end; ++item) {
    int good = (uintptr_t)scratch % 64 == 0;
    for (int word = 0; word < 100; ++word)
      scratch[word] = item;
    for (int word = 0; word < 100; ++word)
      good &= scratch[word] == item;
    output[item] = good;
  }
}
