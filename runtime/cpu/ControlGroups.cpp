//===- ControlGroups.cpp - What the groups of this process allow ----------===//

#include "runtime/cpu/ControlGroups.h"

#include "runtime/Status.h"

#include <algorithm>
#include <charconv>
#include <fcntl.h>
#include <unistd.h>

namespace tandem {

std::string readSmallFile(const std::string &path) {
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return "";
  std::string text(16384, '\0');
  ssize_t size = read(file, text.data(), text.size());
  close(file);
  text.resize(size > 0 ? size_t(size) : 0);
  return text;
}

/// Takes what stands before the next \p separator off the front of \p text.
static std::string_view takePart(std::string_view &text, char separator) {
  std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return part;
}

std::vector<std::string> controlGroups(std::string_view controller) {
  std::vector<std::string> folders;
  // Lines are `id:controllers:path`; version 2 has id 0 and no controllers.
  std::string groups = readSmallFile("/proc/self/cgroup");
  for (std::string_view rest = groups; !rest.empty();) {
    std::string_view path = takePart(rest, '\n');
    takePart(path, ':');
    std::string_view controllers = takePart(path, ':');
    std::string root = "/sys/fs/cgroup";
    bool isMeant = controllers.empty();
    while (!controllers.empty())
      if (takePart(controllers, ',') == controller) {
        root += concat("/", controller);
        isMeant = true;
        break;
      }
    if (!isMeant)
      continue;
    // Inside of a container the path may be that of the outside; the root is
    // the container's own.
    while (true) {
      folders.push_back(root + std::string(path));
      size_t slash = path.rfind('/');
      if (slash == path.npos)
        break;
      path = path.substr(0, slash);
    }
  }
  return folders;
}

/// The number that \p text begins with; 0 when it is none, as in "max" and
/// "-1".
static uint64_t numberOf(std::string_view text) {
  uint64_t number = 0;
  auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc() ? number : 0;
}

std::optional<unsigned> coresOfGroup(const std::string &folder) {
  // Microseconds of all cores together, and of the clock.
  std::string both = readSmallFile(folder + "/cpu.max");
  std::string_view rest = both;
  uint64_t quota = numberOf(takePart(rest, ' '));
  uint64_t period = numberOf(rest);
  if (both.empty()) {
    quota = numberOf(readSmallFile(folder + "/cpu.cfs_quota_us"));
    period = numberOf(readSmallFile(folder + "/cpu.cfs_period_us"));
  }
  if (quota == 0 || period == 0)
    return std::nullopt;
  constexpr uint64_t most = 1 << 20;
  return unsigned(std::min(quota / period + (quota % period != 0), most));
}

} // namespace tandem
