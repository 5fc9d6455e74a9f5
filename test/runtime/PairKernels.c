/* A pair in a few kernels, for QrunTest: the target writes the alphabet over
   and over, the drafter is right in all slots but every fifth. Ports hold all
   they need, so there are no caches. */

#include "runtime/KernelAbi.h"

int32_t tandem_kernel_abi = TANDEM_KERNEL_ABI_VERSION;

static int32_t next(int32_t token) {
  return token < 'a' || token >= 'z' ? 'a' : token + 1;
}

/* chunk, anchor; rows: the tokens of the chunk. */
void prefill(const TandemKernelArgs *args) {
  const int32_t *chunk = args->operands[0];
  int32_t *anchor = args->operands[1];
  anchor[0] = next(chunk[args->rows - 1]);
}

/* anchor, block; one item. */
void draft(const TandemKernelArgs *args) {
  const int32_t *anchor = args->operands[0];
  int32_t *block = args->operands[1];
  block[0] = anchor[0];
  for (int64_t slot = 1; slot < args->rows; ++slot)
    block[slot] = block[slot - 1] % 5 ? next(block[slot - 1]) : '?';
}

/* block, decided; one item per row. */
void verify(const TandemKernelArgs *args) {
  const int32_t *block = args->operands[0];
  int32_t *decided = args->operands[1];
  for (int64_t row = args->begin; row < args->end; ++row)
    decided[row] = next(block[row]);
}

/* block, decided, accepted, anchor, start, context_start. */
void accept(const TandemKernelArgs *args) {
  const int32_t *block = args->operands[0];
  const int32_t *decided = args->operands[1];
  int32_t *accepted = args->operands[2], *anchor = args->operands[3];
  int32_t *start = args->operands[4], *context_start = args->operands[5];
  int32_t count = 1;
  while (count < args->rows && block[count] == decided[count - 1])
    ++count;
  accepted[0] = count;
  anchor[0] = decided[count - 1];
  context_start[0] = start[0];
  start[0] += count;
}

/* anchor, accepted, start, context_start. */
void step(const TandemKernelArgs *args) {
  int32_t *anchor = args->operands[0], *accepted = args->operands[1];
  int32_t *start = args->operands[2], *context_start = args->operands[3];
  anchor[0] = next(anchor[0]);
  accepted[0] = 1;
  context_start[0] = start[0]++;
}

/* tokens, logits [rows, 256]; one item per row. */
void score(const TandemKernelArgs *args) {
  const int32_t *tokens = args->operands[0];
  float *logits = args->operands[1];
  for (int64_t row = args->begin; row < args->end; ++row)
    for (int32_t token = 0; token < 256; ++token)
      logits[row * 256 + token] = token == next(tokens[row]) ? 2.0f : -1.0f;
}
