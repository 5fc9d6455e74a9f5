//===- TruncatedFile.cpp - Files that shrink while they are mapped --------===//
//
// The handler runs in the middle of anything and calls only what is safe there.
// Which file lies at the address, the kernel says in /proc/self/maps.
//
//===----------------------------------------------------------------------===//

#include "tools/TruncatedFile.h"

#include <csignal>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

static const char *toolName = "";

/// Reads one character at a time from a descriptor, through a small buffer.
namespace {
class CharacterReader {
public:
  explicit CharacterReader(int file) : file(file) {}

  /// The next character, 0 at the end.
  char next() {
    if (at == size) {
      ssize_t count = read(file, buffer, sizeof(buffer));
      if (count <= 0)
        return 0;
      at = 0;
      size = size_t(count);
    }
    return buffer[at++];
  }

private:
  int file;
  char buffer[512];
  size_t at = 0, size = 0;
};
} // namespace

/// Reads hexadecimal digits and the character behind them, which goes to
/// \p end.
static uintptr_t readHex(CharacterReader &reader, char &end) {
  for (uintptr_t number = 0;;) {
    end = reader.next();
    if (end >= '0' && end <= '9')
      number = number * 16 + uintptr_t(end - '0');
    else if (end >= 'a' && end <= 'f')
      number = number * 16 + uintptr_t(end - 'a' + 10);
    else
      return number;
  }
}

/// Writes the path of the mapping that holds \p address to \p path. A line is
/// "begin-end flags offset device inode      path" (proc(5)).
static bool findMappedFile(uintptr_t address, char *path, size_t capacity) {
  int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return false;
  CharacterReader reader(file);
  size_t length = 0;
  for (char last = '\n'; last;) {
    uintptr_t begin = readHex(reader, last), end = readHex(reader, last);
    bool isHere = begin <= address && address < end, isPath = false;
    while (last && last != '\n') {
      last = reader.next();
      isPath |= last == '/';
      if (isHere && isPath && last && last != '\n' && length < capacity)
        path[length++] = last;
    }
    if (isHere)
      break;
  }
  close(file);
  path[length] = 0;
  return length != 0;
}

static void writeText(const char *text) {
  // A message that cannot be written has nobody to be told.
  [[maybe_unused]] ssize_t written =
      write(STDERR_FILENO, text, std::strlen(text));
}

static void reportFault(int, siginfo_t *info, void *) {
  char path[4097];
  bool isFile = findMappedFile(reinterpret_cast<uintptr_t>(info->si_addr), path,
                               sizeof(path) - 1);
  writeText(toolName);
  writeText(": ");
  writeText(isFile ? path : "a mapped file");
  writeText(": was truncated, or cannot be read, while it was in use\n");
  _exit(1);
}

void tandem::reportTruncatedFiles(const char *tool) {
  toolName = tool;
  struct sigaction action = {};
  action.sa_sigaction = reportFault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}
