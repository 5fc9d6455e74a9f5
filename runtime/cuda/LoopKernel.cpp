//===- LoopKernel.cpp - The kernel that ends a round ----------------------===//

#include "runtime/cuda/LoopKernel.h"

#include <cstddef>

namespace tandem::cuda {

// The kernel has the offsets as numbers.
static_assert(offsetof(LoopControl, rounds) == 0 &&
              offsetof(LoopControl, tokens) == 4 &&
              offsetof(LoopControl, budget) == 8 &&
              offsetof(LoopControl, vocabulary) == 12 &&
              offsetof(LoopControl, block) == 16 &&
              offsetof(LoopControl, stopTokens) == 20 &&
              sizeof(LoopControl) == 24);
static_assert(offsetof(LoopMailbox, progress) == 0 &&
              offsetof(LoopMailbox, stop) == 8);

/// Thread t takes the tokens t, t + 32, ... Reading what the host wants takes
/// the longest, so it comes first. The release at the end makes all tokens
/// visible to a host that acquires the progress.
static constexpr std::string_view text = R"(
.version 7.0
.target sm_80
.address_size 64

.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);

.visible .entry tandem_round_end(
    .param .u64 count_address, .param .u64 tokens_address,
    .param .u64 control_address, .param .u64 mailbox_address,
    .param .u64 log_counts, .param .u64 log_tokens,
    .param .u64 condition)
{
  .reg .pred %ended, %p;
  .reg .b32 %lane, %stop, %count, %live, %rounds, %decided, %budget;
  .reg .b32 %vocabulary, %block, %stops, %i, %s, %token, %other;
  .reg .b64 %tokens, %control, %mailbox, %counts, %log, %at, %progress;
  .reg .b64 %handle;

  ld.param.u64 %mailbox, [mailbox_address];
  ld.relaxed.sys.global.u32 %stop, [%mailbox + 8];
  ld.param.u64 %at, [count_address];
  ld.global.u32 %count, [%at];
  ld.param.u64 %control, [control_address];
  ld.global.u32 %rounds, [%control];
  ld.global.u32 %decided, [%control + 4];
  ld.global.u32 %budget, [%control + 8];
  ld.global.u32 %vocabulary, [%control + 12];
  ld.global.u32 %block, [%control + 16];
  ld.global.u32 %stops, [%control + 20];
  ld.param.u64 %tokens, [tokens_address];
  ld.param.u64 %counts, [log_counts];
  ld.param.u64 %log, [log_tokens];
  mov.u32 %lane, %tid.x;

  // A count that is not in 1 .. block stands for no tokens; the host sees it.
  sub.u32 %live, %count, 1;
  setp.ge.u32 %ended, %live, %block;
  selp.u32 %live, 0, %count, %ended;

  mov.u32 %i, %lane;
TOKEN:
  setp.ge.u32 %p, %i, %live;
  @%p bra TOKENS_DONE;
  mad.wide.u32 %at, %i, 4, %tokens;
  ld.global.u32 %token, [%at];
  add.u32 %other, %decided, %i;
  mad.wide.u32 %at, %other, 4, %log;
  st.global.u32 [%at], %token;
  setp.ge.or.u32 %ended, %token, %vocabulary, %ended;
  mov.u32 %s, 0;
STOP:
  setp.ge.u32 %p, %s, %stops;
  @%p bra STOPS_DONE;
  mad.wide.u32 %at, %s, 4, %control;
  ld.global.u32 %other, [%at + 24];
  setp.eq.or.u32 %ended, %token, %other, %ended;
  add.u32 %s, %s, 1;
  bra STOP;
STOPS_DONE:
  add.u32 %i, %i, 32;
  bra TOKEN;
TOKENS_DONE:
  bar.warp.sync 0xffffffff;
  vote.sync.any.pred %ended, %ended, 0xffffffff;
  setp.ne.u32 %p, %lane, 0;
  @%p ret;

  mad.wide.u32 %at, %rounds, 4, %counts;
  st.global.u32 [%at], %count;
  add.u32 %rounds, %rounds, 1;
  add.u32 %decided, %decided, %live;
  st.global.u32 [%control], %rounds;
  st.global.u32 [%control + 4], %decided;
  mov.b64 %progress, {%rounds, %decided};
  st.release.sys.global.u64 [%mailbox], %progress;

  setp.ge.or.u32 %ended, %decided, %budget, %ended;
  setp.ne.or.u32 %ended, %stop, 0, %ended;
  selp.u32 %other, 0, 1, %ended;
  ld.param.u64 %handle, [condition];
  {
    .param .b64 handle;
    .param .b32 value;
    st.param.b64 [handle], %handle;
    st.param.b32 [value], %other;
    call.uni cudaGraphSetConditional, (handle, value);
  }
  ret;
}
)";

std::string_view loopKernelPtx() { return text; }

} // namespace tandem::cuda
