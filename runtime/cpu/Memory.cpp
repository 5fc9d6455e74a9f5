//===- Memory.cpp - Memory of a CPU device --------------------------------===//

#include "runtime/cpu/Memory.h"

#include "runtime/cpu/ControlGroups.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <sys/mman.h>

namespace tandem {

static constexpr uint64_t unlimited = std::numeric_limits<uint64_t>::max();

/// The number behind \p key, which starts a line of \p text; \p missing when
/// there is none.
static uint64_t numberAfter(std::string_view text, std::string_view key,
                            uint64_t missing) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.starts_with(key))
      continue;
    line.remove_prefix(key.size());
    line.remove_prefix(std::min(line.size(), line.find_first_not_of(" \t")));
    uint64_t number = 0;
    auto parsed =
        std::from_chars(line.data(), line.data() + line.size(), number);
    return parsed.ec == std::errc() ? number : missing;
  }
  return missing;
}

/// What one control group leaves. The page cache of the group counts as used,
/// but is given back on demand.
static uint64_t availableInGroup(const std::string &folder,
                                 std::string_view limitName,
                                 std::string_view usageName) {
  uint64_t limit =
      numberAfter(readSmallFile(concat(folder, "/", limitName)), "", unlimited);
  if (limit == unlimited)
    return unlimited;
  uint64_t usage =
      numberAfter(readSmallFile(concat(folder, "/", usageName)), "", 0);
  std::string statistics = readSmallFile(folder + "/memory.stat");
  uint64_t cached = numberAfter(statistics, "inactive_file ", 0) +
                    numberAfter(statistics, "active_file ", 0);
  usage -= std::min(usage, cached);
  return limit - std::min(limit, usage);
}

uint64_t availableMemory() {
  uint64_t available = unlimited;
  uint64_t kibibytes =
      numberAfter(readSmallFile("/proc/meminfo"), "MemAvailable:", unlimited);
  if (kibibytes != unlimited)
    available = kibibytes * 1024;
  for (const std::string &group : controlGroups("memory"))
    available = std::min(
        {available, availableInGroup(group, "memory.max", "memory.current"),
         availableInGroup(group, "memory.limit_in_bytes",
                          "memory.usage_in_bytes")});
  return available;
}

std::string formatBytes(uint64_t bytes) {
  static constexpr std::string_view units[] = {"B", "KiB", "MiB", "GiB"};
  unsigned unit = 0;
  // Tenths of the unit, rounded.
  uint64_t tenths = std::min(bytes, unlimited / 16) * 10;
  while (tenths >= 10240 && unit < 3) {
    tenths = (tenths + 512) / 1024;
    ++unit;
  }
  if (unit == 0 || tenths >= 1000)
    return concat((tenths + 5) / 10, " ", units[unit]);
  return concat(tenths / 10, ".", tenths % 10, " ", units[unit]);
}

StatusOr<PageMemory> PageMemory::create(uint64_t size) {
  PageMemory result;
  result.size = std::max<uint64_t>(size, 1);
  void *address = mmap(nullptr, result.size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED)
    return failure(StatusCode::OutOfResources, "cannot allocate ",
                   formatBytes(size), ": ",
                   systemError("mmap", errno).message());
  result.address = static_cast<std::byte *>(address);
  // Only a wish: caches are read in long runs.
  if (size >= (uint64_t(4) << 20))
    (void)madvise(address, result.size, MADV_HUGEPAGE);
  return result;
}

PageMemory::~PageMemory() {
  if (address)
    munmap(address, size);
}

} // namespace tandem
