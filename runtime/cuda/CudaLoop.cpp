//===- CudaLoop.cpp - The speculative loop as one graph -------------------===//

#include "runtime/cuda/CudaLoop.h"

#include "runtime/cuda/CudaModules.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

namespace tandem::cuda {

/// How long the host sleeps when there is nothing to read: much less than a
/// round takes.
static constexpr std::chrono::microseconds pause(20);

/// Room for the mailbox, so that the counts do not share its cache line.
static constexpr uint64_t mailboxRoom = 64;

static std::atomic_ref<uint64_t> progressOf(LoopMailbox &mailbox) {
  return std::atomic_ref<uint64_t>(mailbox.progress);
}
static std::atomic_ref<uint32_t> stopOf(LoopMailbox &mailbox) {
  return std::atomic_ref<uint32_t>(mailbox.stop);
}

StatusOr<std::unique_ptr<CudaLoop>>
CudaLoop::create(const CudaApi &api, const CudaContext &context, Stream stream,
                 const Artifact &artifact, CudaPorts &ports,
                 const AddProgram &addProgram) {
  assert(canRepeat(api));
  const artifact::Loop &tables = *artifact.root().loop();
  std::unique_ptr<CudaLoop> loop(
      new CudaLoop(api, context, stream, tables, ports));
  std::string_view ptx = loopKernelPtx();
  TANDEM_ASSIGN_OR_RETURN(
      loop->module,
      loadModule(api, artifact::ImageKind::ptx, std::as_bytes(std::span(ptx))));
  TANDEM_RETURN_IF_ERROR(
      api.status(api.moduleGetFunction(&loop->function, loop->module.get(),
                                       loopKernelName),
                 "cuModuleGetFunction of ", loopKernelName));
  TANDEM_RETURN_IF_ERROR(loop->allocate());

  int32_t step[] = {tables.step()};
  TANDEM_ASSIGN_OR_RETURN(loop->plain,
                          loop->build(artifact, step, "anchor", addProgram));
  if (tables.draft() >= 0) {
    int32_t round[] = {tables.draft(), tables.verify(), tables.accept()};
    TANDEM_ASSIGN_OR_RETURN(
        loop->drafted, loop->build(artifact, round, "decided", addProgram));
  }
  return loop;
}

CudaLoop::~CudaLoop() {
  // A device that writes to memory that is gone would be worse than waiting.
  (void)stop();
}

Status CudaLoop::allocate() {
  // A text has at most as many rounds as the context has tokens, and the last
  // round may decide more than were wanted.
  uint64_t context = tables.max_context();
  uint64_t stops = tables.stop_tokens() ? tables.stop_tokens()->size() : 0;
  uint64_t controlSize = sizeof(LoopControl) + stops * sizeof(uint32_t);
  countsOffset = mailboxRoom;
  tokensOffset = countsOffset + context * sizeof(uint32_t);
  controlOffset = tokensOffset + (context + tables.block()) * sizeof(uint32_t);
  TANDEM_ASSIGN_OR_RETURN(
      memory, allocatePinned(api, controlOffset + controlSize, "the loop"));
  TANDEM_RETURN_IF_ERROR(
      api.status(api.memHostGetDevicePointer(&deviceMemory, memory.get(), 0),
                 "cuMemHostGetDevicePointer for the loop"));
  std::memset(memory.get(), 0, controlOffset + controlSize);
  TANDEM_ASSIGN_OR_RETURN(control,
                          allocateDevice(api, controlSize, "the loop"));
  return Status();
}

StatusOr<OwnedGraphExec> CudaLoop::build(const Artifact &artifact,
                                         std::span<const int32_t> programs,
                                         std::string_view tokensPort,
                                         const AddProgram &addProgram) {
  TANDEM_ASSIGN_OR_RETURN(OwnedGraph graph, createGraph(api));
  ConditionHandle condition = 0;
  TANDEM_RETURN_IF_ERROR(api.status(
      api.graphConditionalHandleCreate(&condition, graph.get(), context.get(),
                                       1, graphConditionAssignDefault),
      "cuGraphConditionalHandleCreate"));
  GraphChain outer(api, graph.get());
  Graph body = nullptr;
  TANDEM_RETURN_IF_ERROR(outer.addWhile(condition, context.get(), body));
  GraphChain chain(api, body);
  for (int32_t program : programs)
    TANDEM_RETURN_IF_ERROR(addProgram(chain, uint32_t(program)));
  uint64_t parameters[] = {ports.address(*artifact.findPort("accepted")),
                           ports.address(*artifact.findPort(tokensPort)),
                           control.get(),
                           deviceMemory,
                           deviceMemory + countsOffset,
                           deviceMemory + tokensOffset,
                           condition};
  KernelLaunch last = {function, 1, 1, 1, loopKernelThreads, 0, parameters};
  TANDEM_RETURN_IF_ERROR(chain.addKernel(last, "the end of a round"));
  return instantiate(api, graph.get(), stream, "the loop");
}

Status CudaLoop::start(bool withDrafter, uint32_t budget,
                       bool ignoreStopTokens) {
  assert(!running && budget >= 1 && budget <= tables.max_context());
  assert(!withDrafter || drafted);
  TANDEM_RETURN_IF_ERROR(context.makeCurrent());
  roundsTaken = tokensTaken = 0;
  roundLimit = withDrafter ? tables.block() : 1;
  progressOf(mailbox()).store(0);
  stopOf(mailbox()).store(0);

  const auto *stops = ignoreStopTokens ? nullptr : tables.stop_tokens();
  LoopControl begin = {};
  begin.budget = budget;
  begin.vocabulary = tables.vocabulary();
  begin.block = roundLimit;
  begin.stopTokens = stops ? stops->size() : 0;
  std::memcpy(pinned<std::byte>(controlOffset), &begin, sizeof(begin));
  auto *tokens = pinned<uint32_t>(controlOffset + sizeof(begin));
  for (uint32_t index = 0; index < begin.stopTokens; ++index)
    tokens[index] = stops->Get(index);
  uint64_t size = sizeof(begin) + begin.stopTokens * sizeof(uint32_t);
  TANDEM_RETURN_IF_ERROR(api.status(
      api.memcpyHostToDevice(control.get(), pinned<std::byte>(controlOffset),
                             size, stream),
      "cuMemcpyHtoDAsync for the loop"));
  ports.changed();
  running = true;
  return api.status(
      api.graphLaunch((withDrafter ? drafted : plain).get(), stream),
      "cuGraphLaunch of the loop");
}

uint32_t CudaLoop::readyRounds() const {
  return uint32_t(progressOf(mailbox()).load(std::memory_order_acquire));
}

StatusOr<std::span<const uint32_t>> CudaLoop::next() {
  if (running)
    TANDEM_RETURN_IF_ERROR(context.makeCurrent());
  bool ended = !running;
  while (readyRounds() == roundsTaken) {
    if (ended)
      return std::span<const uint32_t>();
    Result result = api.streamQuery(stream);
    // What came between the two looks is still to be taken.
    ended = result == Result::Success;
    if (ended)
      continue;
    if (result != Result::NotReady)
      return api.status(result, "cuStreamQuery of the loop");
    std::this_thread::sleep_for(pause);
  }
  uint32_t count = pinned<uint32_t>(countsOffset)[roundsTaken];
  if (count < 1 || count > roundLimit)
    return invalidFile("the programs count ", int32_t(count),
                       " accepted rows, expected 1 to ", roundLimit);
  std::span<const uint32_t> tokens(pinned<uint32_t>(tokensOffset) + tokensTaken,
                                   count);
  ++roundsTaken;
  tokensTaken += count;
  return tokens;
}

StatusOr<uint32_t> CudaLoop::stop() {
  if (!running)
    return uint32_t(0);
  TANDEM_RETURN_IF_ERROR(context.makeCurrent());
  stopOf(mailbox()).store(1);
  running = false;
  ports.changed();
  TANDEM_RETURN_IF_ERROR(ports.synchronize());
  return readyRounds() - roundsTaken;
}

} // namespace tandem::cuda
