//===- LmOps.td - Operations of the lm dialect, by group ------------------===//

#ifndef TANDEM_DIALECTS_LM_LMOPS_TD
#define TANDEM_DIALECTS_LM_LMOPS_TD

include "dialects/lm/LmFusedOps.td"
include "dialects/lm/LmTensorOps.td"
include "dialects/lm/LmStateOps.td"
include "dialects/lm/LmDecodingOps.td"

#endif // TANDEM_DIALECTS_LM_LMOPS_TD
