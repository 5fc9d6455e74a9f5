//===- Memory.cpp - Memory of a CPU device --------------------------------===//

#include "runtime/cpu/Memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <sys/mman.h>
#include <unistd.h>

namespace tandem {

static constexpr uint64_t unlimited = std::numeric_limits<uint64_t>::max();

/// The text of a small file of /proc or /sys; empty when it cannot be read.
static std::string readSmallFile(const std::string &path) {
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return "";
  std::string text(16384, '\0');
  ssize_t size = read(file, text.data(), text.size());
  close(file);
  text.resize(size > 0 ? size_t(size) : 0);
  return text;
}

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

/// The smallest that the group \p path and all above it leave.
static uint64_t availableUpwards(std::string_view root, std::string path,
                                 std::string_view limitName,
                                 std::string_view usageName) {
  uint64_t available = unlimited;
  while (true) {
    available = std::min(
        available, availableInGroup(concat(root, path), limitName, usageName));
    size_t slash = path.rfind('/');
    if (slash == std::string::npos || path.empty())
      return available;
    path.resize(slash);
  }
}

uint64_t availableMemory() {
  uint64_t available = unlimited;
  uint64_t kibibytes =
      numberAfter(readSmallFile("/proc/meminfo"), "MemAvailable:", unlimited);
  if (kibibytes != unlimited)
    available = kibibytes * 1024;
  // Lines are `id:controllers:path`; version 2 has id 0 and no controllers.
  std::string groups = readSmallFile("/proc/self/cgroup");
  for (std::string_view rest = groups; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    size_t first = line.find(':');
    size_t second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos)
      continue;
    std::string_view controllers = line.substr(first + 1, second - first - 1);
    std::string path(line.substr(second + 1));
    if (controllers.empty())
      available =
          std::min(available, availableUpwards("/sys/fs/cgroup", path,
                                               "memory.max", "memory.current"));
    if (controllers == "memory")
      available =
          std::min(available, availableUpwards("/sys/fs/cgroup/memory", path,
                                               "memory.limit_in_bytes",
                                               "memory.usage_in_bytes"));
  }
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

void PageMemory::zero() {
  // Dropped pages read as zero.
  if (madvise(address, size, MADV_DONTNEED) != 0)
    std::memset(address, 0, size);
}

} // namespace tandem
