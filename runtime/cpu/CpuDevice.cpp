//===- CpuDevice.cpp - Runs programs on the processor ---------------------===//

#include "runtime/cpu/CpuDevice.h"

#include "runtime/MemoryAdvice.h"
#include "runtime/cpu/CpuFeatures.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <sys/mman.h>

namespace tandem {

StatusOr<std::unique_ptr<CpuDevice>>
CpuDevice::create(const Artifact &artifact, const CpuOptions &options) {
  const artifact::Artifact &root = artifact.root();
  if (!root.cpu())
    return failure(StatusCode::Unsupported, "compiled for ",
                   root.arch()->string_view(), ", not for a CPU");
  TANDEM_RETURN_IF_ERROR(checkCpuFeatures(*root.cpu()));

  unsigned threads = options.threads ? options.threads : usableCores();
  std::unique_ptr<CpuDevice> device(new CpuDevice);
  device->snapshotCount = options.snapshots;
  TANDEM_RETURN_IF_ERROR(device->allocate(artifact, threads));
  TANDEM_RETURN_IF_ERROR(device->loadKernels(artifact));
  TANDEM_ASSIGN_OR_RETURN(device->pool, ThreadPool::create(threads));
  device->resolve(artifact);
  device->readWeights(artifact, options);
  return device;
}

Status CpuDevice::checkMemory(const Artifact &artifact, uint64_t scratchSize,
                              unsigned threads) const {
  const artifact::Artifact &root = artifact.root();
  uint64_t weights = artifact.header().blob_size();
  // Each is far below 2^63 (Artifact::open), so the sum cannot overflow.
  uint64_t work = root.arena_size() + root.port_size() + scratchSize;
  uint64_t snapshots = snapshotCount * layout->size;
  uint64_t needed = weights + root.state_size() + snapshots + work;
  uint64_t available = availableMemory();
  if (needed <= available)
    return Status();
  return failure(StatusCode::OutOfResources, "needs ", formatBytes(needed),
                 " of memory: weights ", formatBytes(weights), ", ",
                 describeCaches(artifact), ", ",
                 describeSnapshots(snapshotCount, layout->size), "arena ",
                 formatBytes(work), " with ", threads, " threads; ",
                 formatBytes(available), " are available: ",
                 adviseMemory(artifact, needed - available));
}

Status CpuDevice::allocate(const Artifact &artifact, unsigned threads) {
  const artifact::Artifact &root = artifact.root();
  uint64_t largest = 0;
  for (const artifact::Kernel *kernel : *root.kernels())
    largest = std::max(largest, kernel->scratch());
  // Threads do not share cache lines, nor pairs of them that are prefetched
  // together.
  scratchStride = (largest + 127) / 128 * 128;
  uint64_t scratchSize = 0;
  if (__builtin_mul_overflow(scratchStride, uint64_t(threads), &scratchSize) ||
      scratchSize > (uint64_t(1) << 60))
    return failure(StatusCode::OutOfResources, "kernels need ",
                   formatBytes(scratchStride), " of scratch for each of ",
                   threads, " threads");
  layout.emplace(artifact);
  for (const artifact::State *state : *root.states()) {
    std::string_view kind = state->kind()->string_view();
    if (kind != "key_value" && kind != "window")
      carried.emplace_back(state->offset(), state->size());
  }
  TANDEM_RETURN_IF_ERROR(checkMemory(artifact, scratchSize, threads));
  TANDEM_ASSIGN_OR_RETURN(arena, PageMemory::create(root.arena_size()));
  TANDEM_ASSIGN_OR_RETURN(states, PageMemory::create(root.state_size()));
  TANDEM_ASSIGN_OR_RETURN(portMemory, PageMemory::create(root.port_size()));
  TANDEM_ASSIGN_OR_RETURN(scratch, PageMemory::create(scratchSize));
  TANDEM_ASSIGN_OR_RETURN(snapshotMemory,
                          PageMemory::create(snapshotCount * layout->size));
  return Status();
}

Status CpuDevice::loadKernels(const Artifact &artifact) {
  const artifact::Artifact &root = artifact.root();
  for (uint32_t index = 0; index < root.images()->size(); ++index) {
    const artifact::Image &image = *root.images()->Get(index);
    if (image.kind() != artifact::ImageKind::shared_object)
      return failure(StatusCode::Unsupported, "images[", index,
                     "]: is not a shared object, a CPU runs nothing else");
    TANDEM_ASSIGN_OR_RETURN(SharedObject object,
                            SharedObject::load(artifact.blob(*image.data())));
    const auto *version =
        static_cast<const int32_t *>(object.find("tandem_kernel_abi"));
    if (!version)
      return invalidFile("images[", index,
                         "]: does not export tandem_kernel_abi");
    if (*version != TANDEM_KERNEL_ABI_VERSION)
      return failure(StatusCode::Unsupported, "images[", index,
                     "]: kernel ABI ", *version, ", this qrun calls ",
                     TANDEM_KERNEL_ABI_VERSION,
                     ": recompile with this version of qcompile");
    images.push_back(std::move(object));
  }
  for (uint32_t index = 0; index < root.kernels()->size(); ++index) {
    const artifact::Kernel &kernel = *root.kernels()->Get(index);
    void *address = images[kernel.image()].find(kernel.symbol()->c_str());
    if (!address)
      return invalidFile("kernels[", index, "]: images[", kernel.image(),
                         "] does not export '", kernel.symbol()->string_view(),
                         "'");
    kernels.push_back(reinterpret_cast<TandemKernel>(address));
  }
  return Status();
}

/// Brings the weights into memory, so that the first token does not wait for
/// the disk. A failure means no more than that it will.
void CpuDevice::readWeights(const Artifact &artifact,
                            const CpuOptions &options) const {
  auto blobs = artifact.blobSection();
  constexpr size_t piece = size_t(64) << 20;
  for (size_t done = 0; done < blobs.size();) {
    size_t size = std::min(piece, blobs.size() - done);
    auto *begin = const_cast<std::byte *>(blobs.data() + done);
#ifdef MADV_POPULATE_READ
    int advice = MADV_POPULATE_READ;
#else
    int advice = MADV_WILLNEED;
#endif
    (void)madvise(begin, size, advice);
    done += size;
    if (options.progress)
      options.progress(done, blobs.size());
  }
}

std::byte *CpuDevice::address(const Artifact &artifact,
                              const artifact::Operand &operand) const {
  const artifact::Artifact &root = artifact.root();
  std::byte *base = nullptr;
  switch (operand.space()) {
  case artifact::Space::arena:
    base = arena.data();
    break;
  case artifact::Space::state:
    base = states.data() + root.states()->Get(operand.index())->offset();
    break;
  case artifact::Space::weight:
    // Kernels do not write to weights; the mapping would not let them.
    base = const_cast<std::byte *>(
        artifact.blob(*root.weights()->Get(operand.index())->data()).data());
    break;
  case artifact::Space::port:
    base = ports[operand.index()].data;
    break;
  }
  return base + operand.offset();
}

/// Into how many parts the items of \p launch are split: as many as there are
/// threads, and more where a part reads so much that one more call of the
/// kernel is nothing. Then a thread that lost its core costs less.
uint32_t CpuDevice::countParts(const Artifact &artifact,
                               const artifact::Launch &launch) const {
  constexpr uint64_t partBytes = uint64_t(256) << 10;
  constexpr uint64_t mostPerThread = 4;
  uint64_t bytes = 0;
  for (const artifact::Operand *operand : *launch.operands())
    if (operand->space() == artifact::Space::weight)
      bytes += artifact.root().weights()->Get(operand->index())->data()->size();
  uint64_t threads = pool->size();
  uint64_t parts =
      std::clamp<uint64_t>(bytes / partBytes, threads, threads * mostPerThread);
  return uint32_t(std::min<uint64_t>(parts, ThreadPool::maxParts));
}

void CpuDevice::resolve(const Artifact &artifact) {
  const artifact::Artifact &root = artifact.root();
  for (uint32_t index = 0; index < root.ports()->size(); ++index)
    ports.push_back({portMemory.data() + root.ports()->Get(index)->offset(),
                     artifact.portBytes(index)});
  for (const artifact::Program *program : *root.programs()) {
    size_t begin = launches.size();
    for (const artifact::Launch *launch : *program->launches()) {
      const int32_t *liveRows = nullptr;
      if (launch->rows_port() >= 0)
        liveRows =
            reinterpret_cast<const int32_t *>(ports[launch->rows_port()].data);
      launches.push_back({kernels[launch->kernel()], operands.size(), liveRows,
                          launch->rows(), launch->items(),
                          launch->items_per_row(),
                          countParts(artifact, *launch)});
      for (const artifact::Operand *operand : *launch->operands())
        operands.push_back(address(artifact, *operand));
    }
    programs.push_back({begin, launches.size()});
  }
}

Status CpuDevice::reset() {
  if (!statesAreZero)
    for (const auto &[offset, size] : carried)
      std::memset(states.data() + offset, 0, size);
  statesAreZero = true;
  return Status();
}

std::byte *CpuDevice::snapshotData(uint32_t snapshot) const {
  assert(snapshot < snapshotCount);
  return snapshotMemory.data() + snapshot * layout->size;
}

Status CpuDevice::save(uint32_t snapshot) {
  std::byte *data = snapshotData(snapshot);
  for (const SnapshotLayout::Range &range : layout->ranges)
    std::memcpy(data + range.snapshotOffset, states.data() + range.stateOffset,
                range.size);
  return Status();
}

Status CpuDevice::restore(uint32_t snapshot) {
  const std::byte *data = snapshotData(snapshot);
  statesAreZero = false;
  for (const SnapshotLayout::Range &range : layout->ranges)
    std::memcpy(states.data() + range.stateOffset, data + range.snapshotOffset,
                range.size);
  return Status();
}

void CpuDevice::runLaunch(const Launch &launch) {
  int64_t rows = launch.rows;
  // The port may hold anything: it is the host's, and the kernel trusts it.
  if (launch.liveRows)
    rows = std::clamp<int64_t>(*launch.liveRows, 0, rows);
  // Two factors of 32 bits.
  uint64_t items =
      uint64_t(launch.items) * (launch.itemsPerRow ? uint64_t(rows) : 1);
  if (items == 0)
    return;

  uint64_t parts = std::min<uint64_t>(items, launch.parts);
  uint64_t each = items / parts, larger = items % parts;
  pool->run(uint32_t(parts), [&](uint32_t part, unsigned thread) {
    uint64_t begin = part * each + std::min<uint64_t>(part, larger);
    uint64_t end = begin + each + (part < larger);
    TandemKernelArgs args = {operands.data() + launch.firstOperand, rows,
                             int64_t(begin), int64_t(end),
                             scratch.data() + thread * scratchStride};
    launch.kernel(&args);
  });
}

Status CpuDevice::run(uint32_t program) {
  assert(program < programs.size());
  statesAreZero = false;
  for (size_t index = programs[program].begin; index < programs[program].end;
       ++index)
    runLaunch(launches[index]);
  return Status();
}

StatusOr<std::vector<double>> CpuDevice::profile(uint32_t program) {
  assert(program < programs.size());
  std::vector<double> seconds;
  for (size_t index = programs[program].begin; index < programs[program].end;
       ++index) {
    auto begin = std::chrono::steady_clock::now();
    runLaunch(launches[index]);
    std::chrono::duration<double> duration =
        std::chrono::steady_clock::now() - begin;
    seconds.push_back(duration.count());
  }
  return seconds;
}

std::optional<double> CpuDevice::busySeconds() const {
  // Of all threads, since which of them takes how much of a launch is chance.
  std::optional<double> seconds = pool->processorSeconds();
  if (seconds)
    *seconds /= threads();
  return seconds;
}

Status CpuDevice::write(uint32_t port, std::span<const std::byte> data) {
  assert(port < ports.size() && data.size() <= ports[port].size);
  if (!data.empty())
    std::memcpy(ports[port].data, data.data(), data.size());
  return Status();
}

Status CpuDevice::read(uint32_t port, std::span<std::byte> data) {
  assert(port < ports.size() && data.size() <= ports[port].size);
  if (!data.empty())
    std::memcpy(data.data(), ports[port].data, data.size());
  return Status();
}

} // namespace tandem
