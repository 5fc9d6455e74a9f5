//===- CudaDevice.cpp - Runs programs on a GPU ----------------------------===//

#include "runtime/cuda/CudaDevice.h"

#include "runtime/MemoryAdvice.h"
#include "runtime/cpu/Memory.h"
#include "runtime/cuda/CudaUpload.h"

#include <algorithm>
#include <limits>

namespace tandem {

using cuda::DevicePointer;

/// No two kernels share so many bytes.
static constexpr uint64_t scratchAlignment = 256;

/// What the code, the graphs and the stack of the kernels take, roughly. Beside
/// this the sizes are exact.
static constexpr uint64_t driverReserve = uint64_t(64) << 20;

/// The first one whose kernels can begin before those in front have ended.
static constexpr unsigned earlyArchitecture = 90;

static uint64_t roundUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// Bytes of scratch of all kernels. Each is at most 2^48 (Artifact::open), and
/// the table of a kernel takes more than 16 bytes of a file below 2^31.
static uint64_t scratchSize(const artifact::Artifact &root) {
  uint64_t size = 0;
  for (const artifact::Kernel *kernel : *root.kernels()) {
    uint64_t sum = 0;
    if (__builtin_add_overflow(
            size, roundUp(kernel->scratch(), scratchAlignment), &sum))
      return ~uint64_t(0);
    size = sum;
  }
  return size;
}

StatusOr<std::unique_ptr<CudaDevice>>
CudaDevice::create(const Artifact &artifact, const CudaOptions &options) {
  const artifact::Artifact &root = artifact.root();
  if (root.cpu())
    return failure(StatusCode::Unsupported, "compiled for ",
                   root.arch()->string_view(), ", not for a GPU");
  std::unique_ptr<CudaDevice> device(new CudaDevice);
  device->tables = &root;
  device->snapshotCount = options.snapshots;
  TANDEM_ASSIGN_OR_RETURN(device->api, cuda::CudaApi::load());
  const cuda::CudaApi &api = *device->api;
  TANDEM_ASSIGN_OR_RETURN(cuda::CudaContext context,
                          cuda::CudaContext::create(api, options.ordinal));
  device->context.emplace(std::move(context));
  cuda::DeviceLimits limits = {device->context->architecture(),
                               device->context->sharedBytes()};
  TANDEM_ASSIGN_OR_RETURN(cuda::CudaModules modules,
                          cuda::CudaModules::create(api, limits, artifact));
  device->modules.emplace(std::move(modules));

  cuda::Stream stream = nullptr;
  TANDEM_RETURN_IF_ERROR(api.status(
      api.streamCreate(&stream, cuda::streamNonBlocking), "cuStreamCreate"));
  device->stream = cuda::OwnedStream(api, stream);
  TANDEM_ASSIGN_OR_RETURN(device->clockBegin, createEvent(api, true));
  TANDEM_ASSIGN_OR_RETURN(device->clockEnd, createEvent(api, true));

  TANDEM_RETURN_IF_ERROR(device->allocate(artifact));
  TANDEM_RETURN_IF_ERROR(device->loadKernels(artifact));
  device->resolve(artifact);
  TANDEM_RETURN_IF_ERROR(device->checkParameters());
  device->startsLate =
      std::ranges::none_of(device->kernels, &Kernel::startsEarly);
  Status built = device->buildGraphs();
  if (!built.isOk() && !device->startsLate) {
    // Perhaps it is the edges between kernels that start early.
    device->startsLate = true;
    built = device->buildGraphs();
  }
  TANDEM_RETURN_IF_ERROR(built);
  if (root.loop() && options.loopOnDevice) {
    // The host can do it, too.
    auto loop = device->buildLoop(artifact);
    if (!loop.isOk() && !device->startsLate) {
      device->startsLate = true;
      loop = device->buildLoop(artifact);
    }
    device->whyNoLoop = loop.status();
    if (loop.isOk())
      device->loop = std::move(*loop);
  }
  TANDEM_RETURN_IF_ERROR(device->reset());
  TANDEM_RETURN_IF_ERROR(device->loadWeights(artifact, options));
  return device;
}

CudaDevice::~CudaDevice() {
  // What the members own is given back in the context it came from.
  if (context)
    (void)context->makeCurrent();
}

Status CudaDevice::checkMemory(const Artifact &artifact) const {
  const artifact::Artifact &root = artifact.root();
  uint64_t weightBytes = weightsEnd - firstWeight;
  uint64_t scratchBytes = scratchSize(root);
  uint64_t free = 0, total = 0;
  TANDEM_RETURN_IF_ERROR(context->memory(free, total));
  // The other sizes are far below 2^63 (Artifact::open).
  uint64_t work = root.arena_size() + root.port_size();
  uint64_t snapshots = snapshotCount * layout->size;
  uint64_t needed = 0;
  if (__builtin_add_overflow(weightBytes + root.state_size() + snapshots +
                                 work + driverReserve,
                             scratchBytes, &needed))
    needed = std::numeric_limits<uint64_t>::max();
  if (needed <= free)
    return Status();
  return failure(StatusCode::OutOfResources, "needs ", formatBytes(needed),
                 " of GPU memory: weights ", formatBytes(weightBytes), ", ",
                 describeCaches(artifact), ", ",
                 describeSnapshots(snapshotCount, layout->size), "arena ",
                 formatBytes(work), ", scratch ", formatBytes(scratchBytes),
                 "; ", formatBytes(free), " of ", formatBytes(total),
                 " are free on ", name(), ": ",
                 adviseMemory(artifact, needed - free));
}

Status CudaDevice::allocate(const Artifact &artifact) {
  const artifact::Artifact &root = artifact.root();
  // The file keeps code and weights apart, so little else lies in between. A
  // page boundary keeps every alignment that weights have in the file.
  firstWeight = ~uint64_t(0);
  for (const artifact::Weight *weight : *root.weights()) {
    firstWeight = std::min(firstWeight, weight->data()->offset() / 4096 * 4096);
    weightsEnd =
        std::max(weightsEnd, weight->data()->offset() + weight->data()->size());
  }
  firstWeight = std::min(firstWeight, weightsEnd);

  layout.emplace(artifact);
  TANDEM_RETURN_IF_ERROR(checkMemory(artifact));
  TANDEM_ASSIGN_OR_RETURN(
      weights,
      cuda::allocateDevice(*api, weightsEnd - firstWeight, "the weights"));
  TANDEM_ASSIGN_OR_RETURN(
      states, cuda::allocateDevice(*api, root.state_size(), "the caches"));
  TANDEM_ASSIGN_OR_RETURN(
      arena, cuda::allocateDevice(*api, root.arena_size(), "the arena"));
  TANDEM_ASSIGN_OR_RETURN(
      snapshotMemory, cuda::allocateDevice(*api, snapshotCount * layout->size,
                                           "the snapshots"));
  uint64_t scratchBytes = scratchSize(root);
  TANDEM_ASSIGN_OR_RETURN(
      scratch, cuda::allocateDevice(*api, scratchBytes, "the scratch"));
  if (scratchBytes > 0)
    TANDEM_RETURN_IF_ERROR(
        api->status(api->memset(scratch.get(), 0, scratchBytes, stream.get()),
                    "cuMemsetD8Async of the scratch"));
  TANDEM_ASSIGN_OR_RETURN(
      cuda::CudaPorts created,
      cuda::CudaPorts::create(*api, stream.get(), artifact));
  ports.emplace(std::move(created));
  return Status();
}

Status CudaDevice::loadKernels(const Artifact &artifact) {
  const artifact::Artifact &root = artifact.root();
  uint64_t offset = 0;
  for (uint32_t index = 0; index < root.kernels()->size(); ++index) {
    const artifact::Kernel &kernel = *root.kernels()->Get(index);
    TANDEM_ASSIGN_OR_RETURN(cuda::Function function,
                            modules->find(artifact, index));
    DevicePointer own = kernel.scratch() ? scratch.get() + offset : 0;
    offset += roundUp(kernel.scratch(), scratchAlignment);
    // Code for older GPUs does not wait, whatever the file says.
    bool startsEarly =
        kernel.starts_early() && context->architecture() >= earlyArchitecture;
    kernels.push_back(
        {function, kernel.block(), kernel.shared(), own, startsEarly});
  }
  return Status();
}

Status CudaDevice::loadWeights(const Artifact &artifact,
                               const CudaOptions &options) {
  return cuda::uploadWeights(
      *api, stream.get(),
      artifact.blobSection().subspan(firstWeight, weightsEnd - firstWeight),
      weights.get(), options.progress);
}

DevicePointer CudaDevice::address(const Artifact &artifact,
                                  const artifact::Operand &operand) const {
  const artifact::Artifact &root = artifact.root();
  DevicePointer base = 0;
  switch (operand.space()) {
  case artifact::Space::arena:
    base = arena.get();
    break;
  case artifact::Space::state:
    base = states.get() + root.states()->Get(operand.index())->offset();
    break;
  case artifact::Space::weight:
    base =
        weights.get() +
        (root.weights()->Get(operand.index())->data()->offset() - firstWeight);
    break;
  case artifact::Space::port:
    base = ports->address(operand.index());
    break;
  }
  return base + operand.offset();
}

void CudaDevice::resolve(const Artifact &artifact) {
  for (const artifact::Program *program : *artifact.root().programs()) {
    size_t begin = launches.size();
    for (const artifact::Launch *launch : *program->launches()) {
      size_t first = parameters.size();
      for (const artifact::Operand *operand : *launch->operands())
        parameters.push_back(address(artifact, *operand));
      int32_t rowsPort = launch->rows_port();
      parameters.push_back(rowsPort >= 0 ? ports->address(uint32_t(rowsPort))
                                         : 0);
      // Little-endian, so the i32 is the first half.
      parameters.push_back(launch->rows());
      parameters.push_back(kernels[launch->kernel()].scratch);
      std::string_view location =
          launch->location() ? launch->location()->string_view() : "a launch";
      launches.push_back({launch->kernel(), launch->grid_x(), launch->grid_y(),
                          launch->grid_z(), first, parameters.size() - first,
                          location});
    }
    programs.push_back({begin, launches.size(), cuda::OwnedGraphExec()});
  }
}

/// The driver reads as many parameters as the kernel has, so these must be all.
Status CudaDevice::checkParameters() const {
  if (!api->functionGetParamInfo)
    return Status();
  for (const Launch &launch : launches) {
    size_t count = launch.parameterCount;
    for (size_t index = 0; index <= count; ++index) {
      size_t offset = 0, size = 0;
      cuda::Result result = api->functionGetParamInfo(
          kernels[launch.kernel].function, index, &offset, &size);
      bool found = result == cuda::Result::Success;
      size_t expected = index + 2 == count ? 4 : 8;
      if (found == (index < count) && (!found || size == expected))
        continue;
      return invalidFile(
          "kernels[", launch.kernel, "] '",
          tables->kernels()->Get(launch.kernel)->symbol()->string_view(),
          "': parameter ", index, " has ", found ? size : 0,
          " bytes, the launch for ", launch.location, " gives it ",
          index < count ? expected : 0);
    }
  }
  return Status();
}

cuda::KernelLaunch CudaDevice::resolved(const Launch &launch) const {
  const Kernel &kernel = kernels[launch.kernel];
  return {kernel.function,
          launch.gridX,
          launch.gridY,
          launch.gridZ,
          kernel.block,
          kernel.shared,
          std::span(parameters)
              .subspan(launch.firstParameter, launch.parameterCount),
          kernel.startsEarly && !startsLate};
}

Status CudaDevice::addProgram(cuda::GraphChain &chain, uint32_t program) const {
  for (size_t index = programs[program].begin; index < programs[program].end;
       ++index)
    TANDEM_RETURN_IF_ERROR(
        chain.addKernel(resolved(launches[index]), launches[index].location));
  return Status();
}

StatusOr<std::unique_ptr<cuda::CudaLoop>>
CudaDevice::buildLoop(const Artifact &artifact) {
  if (!cuda::canRepeat(*api))
    return failure(StatusCode::Unsupported, "the driver is for CUDA ",
                   cuda::cudaVersionText(api->driverVersion()),
                   ", loops on the device came with 12.4");
  return cuda::CudaLoop::create(
      *api, *context, stream.get(), artifact, *ports,
      [this](cuda::GraphChain &chain, uint32_t program) {
        return addProgram(chain, program);
      });
}

Status CudaDevice::buildGraphs() {
  for (uint32_t index = 0; index < programs.size(); ++index) {
    Program &program = programs[index];
    if (program.begin == program.end)
      continue;
    TANDEM_ASSIGN_OR_RETURN(cuda::OwnedGraph graph, cuda::createGraph(*api));
    cuda::GraphChain chain(*api, graph.get());
    TANDEM_RETURN_IF_ERROR(addProgram(chain, index));
    TANDEM_ASSIGN_OR_RETURN(
        program.exec,
        cuda::instantiate(*api, graph.get(), stream.get(),
                          concat("program '", programName(index), "'")));
  }
  return Status();
}

std::string_view CudaDevice::programName(uint32_t program) const {
  return tables->programs()->Get(program)->name()->string_view();
}

Status CudaDevice::behindLastProgram(Status status) const {
  if (status.isOk() || lastProgram < 0)
    return status;
  return failure(status.code(), "program '", programName(uint32_t(lastProgram)),
                 "' or one before it: ", status.message());
}

Status CudaDevice::reset() {
  TANDEM_RETURN_IF_ERROR(context->makeCurrent());
  if (!states)
    return Status();
  return behindLastProgram(api->status(
      api->memset(states.get(), 0, tables->state_size(), stream.get()),
      "cuMemsetD8Async of the caches"));
}

Status CudaDevice::save(uint32_t snapshot) {
  return copyStates(snapshot, /*saves=*/true);
}

Status CudaDevice::restore(uint32_t snapshot) {
  return copyStates(snapshot, /*saves=*/false);
}

Status CudaDevice::copyStates(uint32_t snapshot, bool saves) {
  assert(snapshot < snapshotCount);
  TANDEM_RETURN_IF_ERROR(context->makeCurrent());
  DevicePointer copy = snapshotMemory.get() + snapshot * layout->size;
  for (const SnapshotLayout::Range &range : layout->ranges) {
    DevicePointer from = states.get() + range.stateOffset;
    DevicePointer to = copy + range.snapshotOffset;
    if (!saves)
      std::swap(from, to);
    TANDEM_RETURN_IF_ERROR(behindLastProgram(api->status(
        api->memcpyDeviceToDevice(to, from, range.size, stream.get()),
        "cuMemcpyDtoDAsync of a snapshot")));
  }
  return Status();
}

Status CudaDevice::run(uint32_t program) {
  assert(program < programs.size());
  TANDEM_RETURN_IF_ERROR(context->makeCurrent());
  if (!programs[program].exec)
    return Status();
  ports->changed();
  lastProgram = program;
  return behindLastProgram(
      api->status(api->graphLaunch(programs[program].exec.get(), stream.get()),
                  "cuGraphLaunch"));
}

Status CudaDevice::write(uint32_t port, std::span<const std::byte> data) {
  TANDEM_RETURN_IF_ERROR(context->makeCurrent());
  return behindLastProgram(ports->write(port, data));
}

Status CudaDevice::read(uint32_t port, std::span<std::byte> data) {
  TANDEM_RETURN_IF_ERROR(context->makeCurrent());
  // Reading nothing waits all the same, also when there are no ports.
  return behindLastProgram(data.empty() ? ports->synchronize()
                                        : ports->read(port, data));
}

Status CudaDevice::startClock() {
  TANDEM_RETURN_IF_ERROR(context->makeCurrent());
  return api->status(api->eventRecord(clockBegin.get(), stream.get()),
                     "cuEventRecord");
}

StatusOr<double> CudaDevice::stopClock() {
  TANDEM_RETURN_IF_ERROR(context->makeCurrent());
  TANDEM_RETURN_IF_ERROR(api->status(
      api->eventRecord(clockEnd.get(), stream.get()), "cuEventRecord"));
  TANDEM_RETURN_IF_ERROR(behindLastProgram(ports->synchronize()));
  float milliseconds = 0;
  TANDEM_RETURN_IF_ERROR(api->status(
      api->eventElapsedTime(&milliseconds, clockBegin.get(), clockEnd.get()),
      "cuEventElapsedTime"));
  return double(milliseconds) / 1e3;
}

StatusOr<std::vector<double>> CudaDevice::profile(uint32_t program) {
  assert(program < programs.size());
  TANDEM_RETURN_IF_ERROR(context->makeCurrent());
  auto [begin, end] = std::pair(programs[program].begin, programs[program].end);
  std::vector<double> seconds;
  if (begin == end)
    return seconds;
  std::vector<cuda::OwnedEvent> events(end - begin + 1);
  for (cuda::OwnedEvent &event : events) {
    TANDEM_ASSIGN_OR_RETURN(event, createEvent(*api, /*timing=*/true));
  }
  TANDEM_ASSIGN_OR_RETURN(cuda::OwnedGraph graph, cuda::createGraph(*api));
  cuda::GraphChain chain(*api, graph.get());
  TANDEM_RETURN_IF_ERROR(chain.addEvent(events[0].get()));
  for (size_t index = begin; index < end; ++index) {
    TANDEM_RETURN_IF_ERROR(
        chain.addKernel(resolved(launches[index]), launches[index].location));
    TANDEM_RETURN_IF_ERROR(chain.addEvent(events[index - begin + 1].get()));
  }
  TANDEM_ASSIGN_OR_RETURN(
      cuda::OwnedGraphExec exec,
      cuda::instantiate(*api, graph.get(), stream.get(), "measuring"));
  ports->changed();
  lastProgram = program;
  TANDEM_RETURN_IF_ERROR(
      api->status(api->graphLaunch(exec.get(), stream.get()), "cuGraphLaunch"));
  TANDEM_RETURN_IF_ERROR(behindLastProgram(ports->synchronize()));
  for (size_t index = 0; index + 1 < events.size(); ++index) {
    float milliseconds = 0;
    TANDEM_RETURN_IF_ERROR(
        api->status(api->eventElapsedTime(&milliseconds, events[index].get(),
                                          events[index + 1].get()),
                    "cuEventElapsedTime"));
    seconds.push_back(double(milliseconds) / 1e3);
  }
  return seconds;
}

StatusOr<double> CudaDevice::measureBandwidth() {
  TANDEM_RETURN_IF_ERROR(context->makeCurrent());
  uint64_t free = 0, total = 0;
  TANDEM_RETURN_IF_ERROR(context->memory(free, total));
  uint64_t half = std::min(uint64_t(512) << 20, free / 4) / 4096 * 4096;
  TANDEM_ASSIGN_OR_RETURN(
      cuda::DeviceMemory memory,
      cuda::allocateDevice(*api, std::max<uint64_t>(half, 4096) * 2,
                           "measuring the memory"));
  half = std::max<uint64_t>(half, 4096);
  TANDEM_RETURN_IF_ERROR(api->status(
      api->memset(memory.get(), 1, half * 2, stream.get()), "cuMemsetD8Async"));
  double best = 0;
  for (unsigned pass = 0; pass < 5; ++pass) {
    TANDEM_RETURN_IF_ERROR(startClock());
    TANDEM_RETURN_IF_ERROR(
        api->status(api->memcpyDeviceToDevice(memory.get() + half, memory.get(),
                                              half, stream.get()),
                    "cuMemcpyDtoDAsync"));
    TANDEM_ASSIGN_OR_RETURN(double seconds, stopClock());
    if (seconds > 0)
      best = std::max(best, double(half * 2) / seconds);
  }
  return best;
}

} // namespace tandem
