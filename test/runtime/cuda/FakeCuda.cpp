//===- FakeCuda.cpp - A CUDA driver without a GPU -------------------------===//

#include "test/runtime/cuda/FakeCuda.h"

#include "runtime/cuda/CudaApi.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <elf.h>
#include <memory>
#include <optional>
#include <set>

using namespace tandem::cuda;
using namespace tandem::test;

// What the pointers of the interface point to.
namespace tandem::cuda {

struct ContextObject {};

struct ModuleObject {
  std::set<std::string> names;
};

struct FunctionObject {
  std::string name;
  const FakeKernel *kernel;
  int sharedAllowed = 48 << 10;
};

struct EventObject {
  /// Where it was recorded last, if that is still to come.
  Stream pending = nullptr;
  double milliseconds = 0;
};

struct GraphNodeObject {};

struct GraphObject {
  struct Node {
    Function function = nullptr;
    FakeLaunch launch = {};
    Event event = nullptr;
    std::optional<ConditionHandle> condition;
    std::shared_ptr<GraphObject> body;
    Graph bodyHandle = nullptr;
    bool isEarly = false;
  };
  std::vector<Node> nodes;
  std::vector<std::unique_ptr<GraphNodeObject>> handles;
  /// Whether the last node still has to be put behind the one before.
  bool isLoose = false;
  /// Conditions and their values at the begin of a launch.
  std::map<ConditionHandle, uint32_t> defaults;
};

struct GraphExecObject {
  GraphObject graph;
};

/// Work that is done step by step; a step returns whether it was the last.
struct StreamObject {
  std::deque<std::function<bool()>> work;
};

} // namespace tandem::cuda

namespace {

/// Where the memory of the device seems to lie.
constexpr uint64_t firstAddress = uint64_t(1) << 60;

struct Range {
  size_t size;
  std::unique_ptr<std::byte[]> bytes;
};

struct State {
  FakeMachine machine;
  ContextObject context;
  Context current = nullptr;
  std::map<uint64_t, Range> device;
  std::map<uint64_t, Range> pinned;
  uint64_t nextAddress = firstAddress;
  std::map<ConditionHandle, uint32_t> conditions;
  ConditionHandle nextCondition = 100;
  std::vector<std::unique_ptr<FunctionObject>> functions;
  /// Stays, as it does on a device.
  Result broken = Result::Success;
  double milliseconds = 0;
};

State &state() {
  static State *instance = new State;
  return *instance;
}

/// Counts a call, and says what it is to fail with.
Result enter(const char *name) {
  FakeMachine &machine = state().machine;
  unsigned count = machine.calls[name]++;
  if (machine.failingCall == name && count >= machine.callsBeforeFailure)
    return machine.failure;
  return state().broken;
}

#define ENTER(name)                                                            \
  do {                                                                         \
    if (Result result = enter(name); result != Result::Success)                \
      return result;                                                           \
  } while (false)

/// What needs a context.
#define ENTER_CONTEXT(name)                                                    \
  ENTER(name);                                                                 \
  if (!state().current)                                                        \
  return Result(201)

void *findIn(std::map<uint64_t, Range> &ranges, uint64_t address, size_t size) {
  auto range = ranges.upper_bound(address);
  if (range == ranges.begin())
    return nullptr;
  --range;
  uint64_t offset = address - range->first;
  if (offset > range->second.size || size > range->second.size - offset)
    return nullptr;
  return range->second.bytes.get() + offset;
}

void *onDevice(uint64_t address, size_t size) {
  if (void *found = findIn(state().device, address, size))
    return found;
  return findIn(state().pinned, address, size);
}

bool isPinned(const void *pointer, size_t size) {
  return findIn(state().pinned, reinterpret_cast<uint64_t>(pointer), size);
}

void breakDevice() { state().broken = Result::IllegalAddress; }

template <typename T> void destroy(T *object) {
  delete object;
  --state().machine.liveObjects;
}

template <typename T> T *create(T *object) {
  ++state().machine.liveObjects;
  return object;
}

void later(Stream stream, std::function<void()> function) {
  stream->work.push_back([function = std::move(function)] {
    function();
    return true;
  });
}

/// Does one step.
void step(Stream stream) {
  if (stream->work.front()())
    stream->work.pop_front();
}

void drain(Stream stream) {
  while (!stream->work.empty() && state().broken == Result::Success)
    step(stream);
  stream->work.clear();
}

void runKernel(const GraphObject::Node &node) {
  State &now = state();
  if (now.broken != Result::Success)
    return;
  const std::string &name = node.function->name;
  now.machine.kernelsRun.push_back(name);
  now.milliseconds += 1;
  if (name == now.machine.failingKernel)
    return breakDevice();
  node.function->kernel->function(node.launch);
}

/// Does nodes one at a time; a turn of a loop is a step of its own.
struct GraphWalk {
  std::shared_ptr<GraphObject> graph;
  size_t index = 0;

  bool step() {
    if (index >= graph->nodes.size())
      return true;
    GraphObject::Node &node = graph->nodes[index];
    if (node.function)
      runKernel(node);
    if (node.event) {
      node.event->milliseconds = state().milliseconds;
      node.event->pending = nullptr;
    }
    if (node.condition && state().broken == Result::Success &&
        state().conditions[*node.condition] != 0) {
      GraphWalk body{node.body};
      while (!body.step())
        ;
      return false;
    }
    return ++index >= graph->nodes.size();
  }
};

/// A deep copy: what a graph becomes by being instantiated.
std::shared_ptr<GraphObject> copyOf(const GraphObject &graph) {
  auto copy = std::make_shared<GraphObject>();
  copy->defaults = graph.defaults;
  for (const GraphObject::Node &node : graph.nodes) {
    GraphObject::Node twin;
    twin.function = node.function;
    twin.launch = node.launch;
    twin.event = node.event;
    twin.condition = node.condition;
    if (node.body)
      twin.body = copyOf(*node.body);
    copy->nodes.push_back(std::move(twin));
  }
  return copy;
}

/// Only chains are built: the one dependency is the node before.
Result addNode(GraphNode *out, Graph graph, const GraphNode *dependencies,
               size_t count, GraphObject::Node node) {
  bool isFirst = graph->handles.empty();
  if (graph->isLoose || count > 1 || (isFirst && count == 1) ||
      (count == 1 && *dependencies != graph->handles.back().get()))
    return Result::InvalidValue;
  graph->isLoose = !isFirst && count == 0;
  graph->nodes.push_back(std::move(node));
  graph->handles.push_back(std::make_unique<GraphNodeObject>());
  *out = graph->handles.back().get();
  return Result::Success;
}

} // namespace

void *FakeLaunch::find(uint64_t address, size_t size) {
  void *found = onDevice(address, size);
  if (!found)
    breakDevice();
  return found;
}

void FakeLaunch::setCondition(ConditionHandle handle, uint32_t value) {
  state().conditions[handle] = value;
}

extern "C" {

FakeMachine *fakeCudaMachine(bool reset) {
  if (reset)
    state() = State();
  return &state().machine;
}

Result cuInit(uint32_t) {
  ENTER("cuInit");
  return state().machine.devices == 0 ? Result::NoDevice : Result::Success;
}

Result cuDriverGetVersion(int *version) {
  *version = state().machine.driverVersion;
  return Result::Success;
}

Result cuGetErrorName(Result result, const char **name) {
  *name = result == Result::OutOfMemory      ? "CUDA_ERROR_OUT_OF_MEMORY"
          : result == Result::NoDevice       ? "CUDA_ERROR_NO_DEVICE"
          : result == Result::IllegalAddress ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : result == Result::InvalidPtx     ? "CUDA_ERROR_INVALID_PTX"
          : result == Result::UnsupportedPtxVersion
              ? "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
              : nullptr;
  return *name ? Result::Success : Result::InvalidValue;
}

Result cuGetErrorString(Result result, const char **text) {
  *text = result == Result::OutOfMemory ? "out of memory"
          : result == Result::NoDevice  ? "no CUDA-capable device is detected"
          : result == Result::IllegalAddress
              ? "an illegal memory access was encountered"
          : result == Result::InvalidPtx ? "a PTX JIT compilation failed"
          : result == Result::UnsupportedPtxVersion
              ? "the provided PTX was compiled with an unsupported toolchain."
              : nullptr;
  return *text ? Result::Success : Result::InvalidValue;
}

Result cuDeviceGetCount(int *count) {
  ENTER("cuDeviceGetCount");
  *count = state().machine.devices;
  return Result::Success;
}

Result cuDeviceGet(DeviceNumber *device, int ordinal) {
  ENTER("cuDeviceGet");
  *device = ordinal;
  return Result::Success;
}

Result cuDeviceGetName(char *name, int size, DeviceNumber device) {
  ENTER("cuDeviceGetName");
  std::strncpy(name, "Fake GPU", size_t(size));
  return Result::Success;
}

Result cuDeviceGetAttribute(int *value, DeviceAttribute attribute,
                            DeviceNumber) {
  ENTER("cuDeviceGetAttribute");
  const FakeMachine &machine = state().machine;
  *value = attribute == DeviceAttribute::ComputeCapabilityMajor ? machine.major
           : attribute == DeviceAttribute::ComputeCapabilityMinor
               ? machine.minor
           : attribute == DeviceAttribute::MaxSharedMemoryPerBlockOptIn
               ? machine.sharedBytes
               : 1;
  return Result::Success;
}

Result cuDevicePrimaryCtxRetain(Context *context, DeviceNumber) {
  ENTER("cuDevicePrimaryCtxRetain");
  *context = &state().context;
  ++state().machine.liveObjects;
  return Result::Success;
}

Result cuDevicePrimaryCtxRelease_v2(DeviceNumber) {
  --state().machine.liveObjects;
  return Result::Success;
}

Result cuCtxSetCurrent(Context context) {
  ENTER("cuCtxSetCurrent");
  state().current = context;
  return Result::Success;
}

Result cuMemGetInfo_v2(size_t *free, size_t *total) {
  ENTER_CONTEXT("cuMemGetInfo_v2");
  const FakeMachine &machine = state().machine;
  *free = machine.freeBytes - machine.allocatedBytes;
  *total = machine.totalBytes;
  return Result::Success;
}

Result cuMemAlloc_v2(DevicePointer *pointer, size_t size) {
  ENTER_CONTEXT("cuMemAlloc_v2");
  State &now = state();
  if (size == 0)
    return Result::InvalidValue;
  if (size > now.machine.freeBytes - now.machine.allocatedBytes)
    return Result::OutOfMemory;
  auto bytes = std::make_unique<std::byte[]>(size);
  std::memset(bytes.get(), 0xcd, size);
  *pointer = now.nextAddress;
  // Never side by side, so that what runs over the end is seen.
  now.nextAddress += (size + 4095) / 4096 * 4096 + 4096;
  now.device.emplace(*pointer, Range{size, std::move(bytes)});
  now.machine.allocatedBytes += size;
  ++now.machine.liveObjects;
  return Result::Success;
}

Result cuMemFree_v2(DevicePointer pointer) {
  State &now = state();
  auto range = now.device.find(pointer);
  if (range == now.device.end())
    return Result::InvalidValue;
  now.machine.allocatedBytes -= range->second.size;
  now.device.erase(range);
  --now.machine.liveObjects;
  return Result::Success;
}

Result cuMemHostAlloc(void **pointer, size_t size, uint32_t) {
  ENTER_CONTEXT("cuMemHostAlloc");
  auto bytes = std::make_unique<std::byte[]>(size);
  std::memset(bytes.get(), 0xcd, size);
  *pointer = bytes.get();
  state().pinned.emplace(reinterpret_cast<uint64_t>(*pointer),
                         Range{size, std::move(bytes)});
  ++state().machine.liveObjects;
  return Result::Success;
}

Result cuMemFreeHost(void *pointer) {
  state().pinned.erase(reinterpret_cast<uint64_t>(pointer));
  --state().machine.liveObjects;
  return Result::Success;
}

Result cuMemHostGetDevicePointer_v2(DevicePointer *pointer, void *host,
                                    uint32_t) {
  ENTER_CONTEXT("cuMemHostGetDevicePointer_v2");
  *pointer = reinterpret_cast<DevicePointer>(host);
  return Result::Success;
}

Result cuMemcpyHtoDAsync_v2(DevicePointer to, const void *from, size_t size,
                            Stream stream) {
  ENTER_CONTEXT("cuMemcpyHtoDAsync_v2");
  // Pinned memory is read when the copy is done, other memory right now.
  auto kept = std::make_shared<std::vector<std::byte>>();
  if (!isPinned(from, size)) {
    kept->resize(size);
    std::memcpy(kept->data(), from, size);
  }
  later(stream, [=] {
    if (void *target = FakeLaunch::find(to, size))
      std::memcpy(target, kept->empty() ? from : kept->data(), size);
  });
  return Result::Success;
}

Result cuMemcpyDtoHAsync_v2(void *to, DevicePointer from, size_t size,
                            Stream stream) {
  ENTER_CONTEXT("cuMemcpyDtoHAsync_v2");
  later(stream, [=] {
    if (void *source = FakeLaunch::find(from, size))
      std::memcpy(to, source, size);
  });
  return Result::Success;
}

Result cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t size,
                            Stream stream) {
  ENTER_CONTEXT("cuMemcpyDtoDAsync_v2");
  later(stream, [=] {
    void *source = FakeLaunch::find(from, size);
    void *target = FakeLaunch::find(to, size);
    if (source && target)
      std::memcpy(target, source, size);
    state().milliseconds += 1;
  });
  return Result::Success;
}

Result cuMemsetD8Async(DevicePointer to, unsigned char value, size_t size,
                       Stream stream) {
  ENTER_CONTEXT("cuMemsetD8Async");
  later(stream, [=] {
    if (void *target = FakeLaunch::find(to, size))
      std::memset(target, value, size);
  });
  return Result::Success;
}

Result cuStreamCreate(Stream *stream, uint32_t) {
  ENTER_CONTEXT("cuStreamCreate");
  *stream = create(new StreamObject);
  return Result::Success;
}

Result cuStreamDestroy_v2(Stream stream) {
  destroy(stream);
  return Result::Success;
}

Result cuStreamSynchronize(Stream stream) {
  ENTER_CONTEXT("cuStreamSynchronize");
  drain(stream);
  return state().broken;
}

Result cuStreamQuery(Stream stream) {
  ENTER_CONTEXT("cuStreamQuery");
  if (stream->work.empty())
    return Result::Success;
  step(stream);
  return state().broken != Result::Success ? state().broken : Result::NotReady;
}

Result cuEventCreate(Event *event, uint32_t) {
  ENTER_CONTEXT("cuEventCreate");
  *event = create(new EventObject);
  return Result::Success;
}

Result cuEventDestroy_v2(Event event) {
  destroy(event);
  return Result::Success;
}

Result cuEventRecord(Event event, Stream stream) {
  ENTER_CONTEXT("cuEventRecord");
  event->pending = stream;
  later(stream, [=] {
    event->pending = nullptr;
    event->milliseconds = state().milliseconds;
  });
  return Result::Success;
}

Result cuEventSynchronize(Event event) {
  ENTER_CONTEXT("cuEventSynchronize");
  if (event->pending)
    drain(event->pending);
  return state().broken;
}

Result cuEventElapsedTime(float *milliseconds, Event begin, Event end) {
  ENTER_CONTEXT("cuEventElapsedTime");
  if (begin->pending || end->pending)
    return Result::NotReady;
  *milliseconds = float(end->milliseconds - begin->milliseconds);
  return Result::Success;
}

Result cuModuleLoadDataEx(Module *module, const void *image, uint32_t count,
                          JitOption *options, void **values) {
  ENTER_CONTEXT("cuModuleLoadDataEx");
  const State &now = state();
  auto result = std::make_unique<ModuleObject>();
  const char *text = static_cast<const char *>(image);
  if (std::memcmp(text, ELFMAG, SELFMAG) == 0) {
    // The test's cubins: a header, and lines of names up to a zero.
    unsigned architecture =
        static_cast<const Elf64_Ehdr *>(image)->e_flags >> 8 & 0xff;
    if (architecture / 10 != unsigned(now.machine.major) ||
        architecture % 10 > unsigned(now.machine.minor))
      return Result::NoBinaryForGpu;
    std::string names = text + sizeof(Elf64_Ehdr);
    for (size_t begin = 0; begin < names.size();) {
      size_t end = names.find('\n', begin);
      result->names.insert(names.substr(begin, end - begin));
      begin = end == names.npos ? end : end + 1;
    }
  } else {
    std::string ptx = text;
    if (ptx.find("a mistake") != ptx.npos) {
      if (count == 2 && options[0] == JitOption::ErrorLogBuffer)
        std::strcpy(static_cast<char *>(values[0]),
                    "\nptxas application ptx input, line 9; error   : Not a "
                    "name of any known instruction\nmore\n");
      return Result::InvalidPtx;
    }
    for (size_t at = ptx.find(".entry "); at != ptx.npos;
         at = ptx.find(".entry ", at + 1)) {
      size_t begin = at + 7;
      result->names.insert(
          ptx.substr(begin, ptx.find_first_of("( \n", begin) - begin));
    }
  }
  *module = create(result.release());
  return Result::Success;
}

Result cuModuleUnload(Module module) {
  destroy(module);
  return Result::Success;
}

Result cuModuleGetFunction(Function *function, Module module,
                           const char *name) {
  ENTER_CONTEXT("cuModuleGetFunction");
  auto kernel = fakeKernels().find(name);
  if (!module->names.contains(name) || kernel == fakeKernels().end())
    return Result::NotFound;
  state().functions.push_back(
      std::make_unique<FunctionObject>(FunctionObject{name, &kernel->second}));
  *function = state().functions.back().get();
  return Result::Success;
}

Result cuFuncGetAttribute(int *value, FunctionAttribute attribute,
                          Function function) {
  ENTER_CONTEXT("cuFuncGetAttribute");
  *value = attribute == FunctionAttribute::MaxThreadsPerBlock
               ? function->kernel->maxThreads
               : function->kernel->declaredShared;
  return Result::Success;
}

Result cuFuncSetAttribute(Function function, FunctionAttribute attribute,
                          int value) {
  ENTER_CONTEXT("cuFuncSetAttribute");
  if (attribute == FunctionAttribute::PreferredSharedMemoryCarveout) {
    if (state().machine.refusesCarveouts || value < -1 || value > 100)
      return Result::InvalidValue;
    state().machine.carveouts[function->name] = value;
    return Result::Success;
  }
  if (attribute != FunctionAttribute::MaxDynamicSharedSizeBytes ||
      value + function->kernel->declaredShared > state().machine.sharedBytes)
    return Result::InvalidValue;
  function->sharedAllowed = value;
  state().machine.sharedAsked[function->name] = value;
  return Result::Success;
}

Result cuFuncGetParamInfo(Function function, size_t index, size_t *offset,
                          size_t *size) {
  ENTER_CONTEXT("cuFuncGetParamInfo");
  if (index >= function->kernel->parameterSizes.size())
    return Result::InvalidValue;
  *offset = 0;
  *size = function->kernel->parameterSizes[index];
  return Result::Success;
}

Result cuGraphCreate(Graph *graph, uint32_t) {
  ENTER_CONTEXT("cuGraphCreate");
  *graph = create(new GraphObject);
  return Result::Success;
}

Result cuGraphDestroy(Graph graph) {
  destroy(graph);
  return Result::Success;
}

Result cuGraphAddKernelNode(GraphNode *node, Graph graph,
                            const GraphNode *dependencies, size_t count,
                            const KernelNodeParams *params) {
  ENTER_CONTEXT("cuGraphAddKernelNode");
  Function function = params->function;
  if (params->gridX == 0 || params->gridY == 0 || params->gridZ == 0 ||
      params->blockX == 0 || params->blockY != 1 || params->blockZ != 1 ||
      int(params->blockX) > function->kernel->maxThreads ||
      int(params->sharedBytes) > function->sharedAllowed)
    return Result::InvalidValue;
  GraphObject::Node added;
  added.function = function;
  added.launch = {params->gridX,  params->gridY,       params->gridZ,
                  params->blockX, params->sharedBytes, {}};
  for (size_t index = 0; index < function->kernel->parameterSizes.size();
       ++index) {
    uint64_t value = 0;
    std::memcpy(&value, params->parameters[index],
                function->kernel->parameterSizes[index]);
    added.launch.parameters.push_back(value);
  }
  return addNode(node, graph, dependencies, count, std::move(added));
}

Result cuGraphAddDependencies_v2(Graph graph, const GraphNode *from,
                                 const GraphNode *to,
                                 const GraphEdgeData *edges, size_t count) {
  ENTER_CONTEXT("cuGraphAddDependencies_v2");
  size_t nodes = graph->nodes.size();
  if (!graph->isLoose || count != 1 ||
      *from != graph->handles[nodes - 2].get() ||
      *to != graph->handles[nodes - 1].get())
    return Result::InvalidValue;
  bool isEarly = edges->type == graphEdgeProgrammatic;
  if (isEarly &&
      (edges->fromPort != graphPortProgrammatic ||
       !graph->nodes[nodes - 2].function || !graph->nodes[nodes - 1].function ||
       state().machine.refusesEarlyEdges))
    return Result::InvalidValue;
  graph->nodes.back().isEarly = isEarly;
  graph->isLoose = false;
  return Result::Success;
}

Result cuGraphAddEventRecordNode(GraphNode *node, Graph graph,
                                 const GraphNode *dependencies, size_t count,
                                 Event event) {
  ENTER_CONTEXT("cuGraphAddEventRecordNode");
  GraphObject::Node added;
  added.event = event;
  return addNode(node, graph, dependencies, count, std::move(added));
}

Result cuGraphConditionalHandleCreate(ConditionHandle *handle, Graph graph,
                                      Context, uint32_t value, uint32_t flags) {
  ENTER_CONTEXT("cuGraphConditionalHandleCreate");
  *handle = state().nextCondition++;
  if (flags == graphConditionAssignDefault)
    graph->defaults[*handle] = value;
  return Result::Success;
}

Result cuGraphAddNode(GraphNode *node, Graph graph,
                      const GraphNode *dependencies, size_t count,
                      GraphNodeParams *params) {
  ENTER_CONTEXT("cuGraphAddNode");
  if (params->type != graphNodeConditional ||
      params->conditional.type != conditionalWhile ||
      params->conditional.size != 1 ||
      !graph->defaults.contains(params->conditional.handle))
    return Result::InvalidValue;
  GraphObject::Node added;
  added.condition = params->conditional.handle;
  added.body = std::make_shared<GraphObject>();
  Graph body = added.body.get();
  Result result = addNode(node, graph, dependencies, count, std::move(added));
  if (result == Result::Success) {
    // The driver's memory, as long as the node lives.
    graph->nodes.back().bodyHandle = body;
    for (GraphObject::Node &candidate : graph->nodes)
      if (candidate.bodyHandle == body)
        params->conditional.bodies = &candidate.bodyHandle;
  }
  return result;
}

Result cuGraphInstantiateWithFlags(GraphExec *exec, Graph graph,
                                   unsigned long long) {
  ENTER_CONTEXT("cuGraphInstantiateWithFlags");
  auto early = [](const GraphObject::Node &node) { return node.isEarly; };
  if (graph->isLoose || (state().machine.refusesEarlyGraphs &&
                         std::ranges::any_of(graph->nodes, early)))
    return Result::InvalidValue;
  for (const GraphObject::Node &node : graph->nodes)
    if (node.isEarly)
      state().machine.kernelsEarly.push_back(node.function->name);
  *exec = create(new GraphExecObject{std::move(*copyOf(*graph))});
  return Result::Success;
}

Result cuGraphUpload(GraphExec, Stream) {
  ENTER_CONTEXT("cuGraphUpload");
  return Result::Success;
}

Result cuGraphLaunch(GraphExec exec, Stream stream) {
  ENTER_CONTEXT("cuGraphLaunch");
  auto walk = std::make_shared<GraphWalk>(GraphWalk{copyOf(exec->graph)});
  later(stream, [walk] {
    for (const auto &[handle, value] : walk->graph->defaults)
      state().conditions[handle] = value;
  });
  stream->work.push_back([walk] { return walk->step(); });
  return Result::Success;
}

Result cuGraphExecDestroy(GraphExec exec) {
  destroy(exec);
  return Result::Success;
}

} // extern "C"
