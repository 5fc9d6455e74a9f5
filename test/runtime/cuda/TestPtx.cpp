//===- TestPtx.cpp - Artefacts for a GPU, written by hand -----------------===//

#include "test/runtime/cuda/TestPtx.h"

#include <cstring>
#include <elf.h>

namespace tandem::test {

using artifact::Space;

/// Kernels without much sense for parallelism: one thread does the work where
/// the order of it matters.
static constexpr std::string_view ptxHead = R"(.version 7.0
.target sm_80
.address_size 64
)";

static constexpr std::string_view basicKernels = R"(
// output[row] = input[row] + weight[0] for the live rows.
.visible .entry add_weight(.param .u64 input, .param .u64 weight,
    .param .u64 output, .param .u64 live, .param .u32 rows,
    .param .u64 scratch)
{
  .reg .pred %p;
  .reg .b32 %row, %rows, %count, %block;
  .reg .b64 %live, %at, %in, %out, %w;
  .reg .f32 %x, %y;
  ld.param.u32 %rows, [rows];
  ld.param.u64 %live, [live];
  setp.eq.u64 %p, %live, 0;
  @%p bra ALL;
  ld.global.s32 %count, [%live];
  min.s32 %rows, %rows, %count;
ALL:
  mov.u32 %row, %ctaid.x;
  mov.u32 %block, %ntid.x;
  mov.u32 %count, %tid.x;
  mad.lo.s32 %row, %row, %block, %count;
  setp.ge.s32 %p, %row, %rows;
  @%p ret;
  ld.param.u64 %in, [input];
  ld.param.u64 %w, [weight];
  ld.param.u64 %out, [output];
  mul.wide.s32 %at, %row, 4;
  add.u64 %in, %in, %at;
  add.u64 %out, %out, %at;
  ld.global.f32 %x, [%in];
  ld.global.f32 %y, [%w];
  add.f32 %x, %x, %y;
  st.global.f32 [%out], %x;
  ret;
}

// output[0] = state[0] += 1.
.visible .entry count_calls(.param .u64 state, .param .u64 output,
    .param .u64 live, .param .u32 rows, .param .u64 scratch)
{
  .reg .b32 %n;
  .reg .b64 %at;
  ld.param.u64 %at, [state];
  ld.global.u32 %n, [%at];
  add.u32 %n, %n, 1;
  st.global.u32 [%at], %n;
  ld.param.u64 %at, [output];
  st.global.u32 [%at], %n;
  ret;
}

// output[0] = scratch[0] += 1.
.visible .entry count_in_scratch(.param .u64 output, .param .u64 live,
    .param .u32 rows, .param .u64 scratch)
{
  .reg .b32 %n;
  .reg .b64 %at;
  ld.param.u64 %at, [scratch];
  ld.global.u32 %n, [%at];
  add.u32 %n, %n, 1;
  st.global.u32 [%at], %n;
  ld.param.u64 %at, [output];
  st.global.u32 [%at], %n;
  ret;
}

// output[thread] = 3 * (threads - 1 - thread), which the thread at the other
// end of the block has put at the end of 64 KiB.
.extern .shared .align 16 .b8 dynamic[];
.visible .entry reverse_in_shared(.param .u64 output, .param .u64 live,
    .param .u32 rows, .param .u64 scratch)
{
  .reg .b32 %t, %n, %other, %value, %at;
  .reg .b64 %out, %offset;
  mov.u32 %t, %tid.x;
  mov.u32 %n, %ntid.x;
  sub.u32 %other, %n, %t;
  sub.u32 %other, %other, 1;
  mov.u32 %at, dynamic;
  mad.lo.u32 %value, %t, 4, %at;
  add.u32 %value, %value, 64512;
  mul.lo.u32 %at, %t, 3;
  st.shared.u32 [%value], %at;
  bar.sync 0;
  mov.u32 %at, dynamic;
  mad.lo.u32 %at, %other, 4, %at;
  ld.shared.u32 %value, [%at + 64512];
  ld.param.u64 %out, [output];
  mul.wide.u32 %offset, %t, 4;
  add.u64 %out, %out, %offset;
  st.global.u32 [%out], %value;
  ret;
}

// output[block] = block * 1000 + threads.
.visible .entry log_blocks(.param .u64 output, .param .u64 live,
    .param .u32 rows, .param .u64 scratch)
{
  .reg .pred %p;
  .reg .b32 %b, %n, %other;
  .reg .b64 %out, %offset;
  mov.u32 %b, %tid.x;
  setp.ne.u32 %p, %b, 0;
  @%p ret;
  mov.u32 %b, %ctaid.z;
  mov.u32 %n, %nctaid.y;
  mov.u32 %other, %ctaid.y;
  mad.lo.u32 %b, %b, %n, %other;
  mov.u32 %n, %nctaid.x;
  mov.u32 %other, %ctaid.x;
  mad.lo.u32 %b, %b, %n, %other;
  ld.param.u64 %out, [output];
  mul.wide.u32 %offset, %b, 4;
  add.u64 %out, %out, %offset;
  mov.u32 %n, %ntid.x;
  mad.lo.u32 %b, %b, 1000, %n;
  st.global.u32 [%out], %b;
  ret;
}
)";

static constexpr std::string_view pairKernels = R"(
// What the target says behind a token at a position.
.func (.reg .b32 %right) next_token(.reg .b32 %token, .reg .b32 %position)
{
  .reg .b32 %sum;
  mul.lo.s32 %sum, %token, 31;
  mad.lo.s32 %sum, %position, 7, %sum;
  add.s32 %sum, %sum, 3;
  rem.s32 %right, %sum, 97;
  ret;
}

// anchor = the token behind the live rows of the chunk.
.visible .entry prefill(.param .u64 chunk, .param .u64 count,
    .param .u64 start, .param .u64 anchor, .param .u64 live,
    .param .u32 rows, .param .u64 scratch)
{
  .reg .b32 %n, %position, %token;
  .reg .b64 %at, %offset;
  ld.param.u64 %at, [count];
  ld.global.u32 %n, [%at];
  sub.u32 %n, %n, 1;
  ld.param.u64 %at, [start];
  ld.global.u32 %position, [%at];
  add.u32 %position, %position, %n;
  ld.param.u64 %at, [chunk];
  mul.wide.u32 %offset, %n, 4;
  add.u64 %at, %at, %offset;
  ld.global.u32 %token, [%at];
  call (%token), next_token, (%token, %position);
  ld.param.u64 %at, [anchor];
  st.global.u32 [%at], %token;
  ret;
}

// block = the anchor, and behind it what the drafter thinks; it is wrong where
// (position * 5 + token) % 4 is 0.
.visible .entry draft(.param .u64 anchor, .param .u64 start,
    .param .u64 block, .param .u64 live, .param .u32 rows,
    .param .u64 scratch)
{
  .reg .pred %p;
  .reg .b32 %rows, %position, %token, %right, %hash;
  .reg .b64 %at;
  ld.param.u32 %rows, [rows];
  ld.param.u64 %at, [anchor];
  ld.global.u32 %token, [%at];
  ld.param.u64 %at, [start];
  ld.global.u32 %position, [%at];
  ld.param.u64 %at, [block];
NEXT:
  st.global.u32 [%at], %token;
  sub.u32 %rows, %rows, 1;
  setp.eq.u32 %p, %rows, 0;
  @%p ret;
  call (%right), next_token, (%token, %position);
  mad.lo.s32 %hash, %position, 5, %token;
  and.b32 %hash, %hash, 3;
  setp.ne.u32 %p, %hash, 0;
  @%p bra RIGHT;
  add.u32 %right, %right, 1;
  rem.u32 %right, %right, 97;
RIGHT:
  mov.u32 %token, %right;
  add.u32 %position, %position, 1;
  add.u64 %at, %at, 4;
  bra NEXT;
}

// decided[row] = the token behind block[row], for the live rows.
.visible .entry verify(.param .u64 block, .param .u64 start,
    .param .u64 decided, .param .u64 live, .param .u32 rows,
    .param .u64 scratch)
{
  .reg .pred %p;
  .reg .b32 %row, %position, %token;
  .reg .b64 %at, %offset;
  mov.u32 %row, %tid.x;
  ld.param.u64 %at, [live];
  ld.global.u32 %position, [%at];
  setp.ge.s32 %p, %row, %position;
  @%p ret;
  mul.wide.u32 %offset, %row, 4;
  ld.param.u64 %at, [start];
  ld.global.u32 %position, [%at];
  add.u32 %position, %position, %row;
  ld.param.u64 %at, [block];
  add.u64 %at, %at, %offset;
  ld.global.u32 %token, [%at];
  call (%token), next_token, (%token, %position);
  ld.param.u64 %at, [decided];
  add.u64 %at, %at, %offset;
  st.global.u32 [%at], %token;
  ret;
}

// Counts the drafts that were right, and moves on.
.visible .entry accept(.param .u64 block, .param .u64 decided,
    .param .u64 start, .param .u64 accepted, .param .u64 anchor,
    .param .u64 context_start, .param .u64 live, .param .u32 rows,
    .param .u64 scratch)
{
  .reg .pred %p;
  .reg .b32 %n, %rows, %drafted, %said;
  .reg .b64 %block, %decided, %at;
  ld.param.u64 %at, [live];
  ld.global.u32 %rows, [%at];
  ld.param.u64 %block, [block];
  ld.param.u64 %decided, [decided];
  mov.u32 %n, 0;
NEXT:
  add.u32 %n, %n, 1;
  ld.global.u32 %said, [%decided];
  setp.ge.u32 %p, %n, %rows;
  @%p bra DONE;
  ld.global.u32 %drafted, [%block + 4];
  setp.ne.u32 %p, %drafted, %said;
  @%p bra DONE;
  add.u64 %block, %block, 4;
  add.u64 %decided, %decided, 4;
  bra NEXT;
DONE:
  ld.param.u64 %at, [accepted];
  st.global.u32 [%at], %n;
  ld.param.u64 %at, [anchor];
  st.global.u32 [%at], %said;
  ld.param.u64 %at, [start];
  ld.global.u32 %rows, [%at];
  add.u32 %n, %n, %rows;
  st.global.u32 [%at], %n;
  ld.param.u64 %at, [context_start];
  st.global.u32 [%at], %rows;
  ret;
}

// One row without the drafter.
.visible .entry step(.param .u64 anchor, .param .u64 start,
    .param .u64 accepted, .param .u64 context_start, .param .u64 live,
    .param .u32 rows, .param .u64 scratch)
{
  .reg .b32 %token, %position, %one;
  .reg .b64 %anchor, %at;
  ld.param.u64 %anchor, [anchor];
  ld.global.u32 %token, [%anchor];
  ld.param.u64 %at, [context_start];
  ld.param.u64 %at, [start];
  ld.global.u32 %position, [%at];
  call (%token), next_token, (%token, %position);
  st.global.u32 [%anchor], %token;
  add.u32 %one, %position, 1;
  st.global.u32 [%at], %one;
  ld.param.u64 %at, [context_start];
  st.global.u32 [%at], %position;
  mov.u32 %one, 1;
  ld.param.u64 %at, [accepted];
  st.global.u32 [%at], %one;
  ret;
}
)";

std::string testPtx() {
  return std::string(ptxHead) + std::string(basicKernels) +
         std::string(pairKernels);
}

std::vector<std::byte> bytesOf(std::string_view text) {
  auto *begin = reinterpret_cast<const std::byte *>(text.data());
  return {begin, begin + text.size()};
}

std::vector<std::byte> fakeCubin(unsigned architecture,
                                 const std::vector<std::string> &names,
                                 uint8_t abiVersion) {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_ABIVERSION] = abiVersion;
  header.e_machine = 190;
  header.e_flags = abiVersion >= 8 ? architecture << 8 | 4 : architecture;
  std::string text(reinterpret_cast<const char *>(&header), sizeof(header));
  for (const std::string &name : names)
    text += name + "\n";
  return bytesOf(text + '\0');
}

/// An artefact of the kernels above, and nothing else yet.
static ArtifactSpec emptySpec() {
  ArtifactSpec spec;
  spec.arch = "sm_80";
  spec.cpuFeatures.reset();
  spec.images = {{bytesOf(testPtx()), artifact::ImageKind::ptx}};
  return spec;
}

ArtifactSpec programsSpec() {
  ArtifactSpec spec = emptySpec();
  spec.arenaSize = 4096;
  spec.ports = {{"input", ElementType::f32, {1000}},
                {"output", ElementType::f32, {1000}},
                {"count"},
                {"log", ElementType::i32, {256}},
                {"calls"},
                {"large", ElementType::i32, {600000}}};
  spec.states = {{"state", 4}};
  float weight = 2.5f;
  spec.weights = {
      {"unused", std::vector<std::byte>(5)},
      {"weight", bytesOf({reinterpret_cast<char *>(&weight), sizeof(weight)})}};
  spec.kernels = {
      {.symbol = "add_weight", .block = 64},
      {.symbol = "count_calls"},
      {.symbol = "count_in_scratch", .scratch = 4},
      {.symbol = "reverse_in_shared", .block = 256, .shared = 64 << 10},
      {.symbol = "log_blocks", .block = 32}};
  Operand input(0, 0, Space::port), output(0, 1, Space::port);
  Operand log(0, 3, Space::port), calls(0, 4, Space::port);
  Operand weightAt(0, 1, Space::weight), state(0, 0, Space::state);
  Operand arena(64, 0, Space::arena);
  auto add = [&](Operand from, Operand to) {
    return LaunchSpec{.kernel = 0,
                      .operands = {from, weightAt, to},
                      .rows = 1000,
                      .rowsPort = 2,
                      .grid = {16, 1, 1}};
  };
  spec.programs = {
      {"add", {0, 2}, {1}, {add(input, arena), add(arena, output)}},
      {"calls", {}, {4}, {{.kernel = 1, .operands = {state, calls}}}},
      {"scratch", {}, {4}, {{.kernel = 2, .operands = {calls}}}},
      {"shared", {}, {3}, {{.kernel = 3, .operands = {log}}}},
      {"grid", {}, {3}, {{.kernel = 4, .operands = {log}, .grid = {3, 2, 2}}}},
      {"nothing"}};
  return spec;
}

ArtifactSpec pairSpec(uint32_t block) {
  ArtifactSpec spec = emptySpec();
  LoopSpec loop = {.block = block,
                   .chunk = 8,
                   .maxContext = 4000,
                   .vocabulary = uint32_t(pairVocabulary)};
  spec.ports = {{"chunk_count"},
                {"start"},
                {"accepted"},
                {"anchor"},
                {"context_start"},
                {"block_count"},
                {"chunk", ElementType::i32, {loop.chunk}},
                {"block", ElementType::i32, {block}},
                {"decided", ElementType::i32, {block}},
                {"chunk_features", ElementType::f32, {loop.chunk, 2}},
                {"features", ElementType::f32, {block, 2}},
                {"step_features", ElementType::f32, {1, 2}}};
  for (const char *name : {"prefill", "step", "draft", "verify", "accept"})
    spec.kernels.push_back({.symbol = name});
  spec.kernels[3].block = block;
  auto launch = [&](uint32_t kernel, const std::vector<uint32_t> &ports) {
    LaunchSpec result{.kernel = kernel, .rows = block};
    for (uint32_t port : ports)
      result.operands.push_back(Operand(0, port, Space::port));
    if (kernel >= 3)
      result.rowsPort = 5;
    return result;
  };
  // Inputs and outputs are for people and for qrun exec.
  spec.programs = {{"prefill", {}, {}, {launch(0, {6, 0, 1, 3})}},
                   {"step", {}, {}, {launch(1, {3, 1, 2, 4})}},
                   {"context"},
                   {"draft", {}, {}, {launch(2, {3, 1, 7})}},
                   {"verify", {}, {}, {launch(3, {7, 1, 8})}},
                   {"accept", {}, {}, {launch(4, {7, 8, 1, 2, 3, 4})}}};
  loop.prefill = 0;
  loop.step = 1;
  loop.context = 2;
  loop.draft = 3;
  loop.verify = 4;
  loop.accept = 5;
  spec.loop = loop;
  return spec;
}

} // namespace tandem::test
