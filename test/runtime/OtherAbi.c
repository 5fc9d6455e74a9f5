/* An image for another version of KernelAbi.h. */

#include "runtime/KernelAbi.h"

int32_t tandem_kernel_abi = 77;
