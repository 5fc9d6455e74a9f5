//===- Connection.cpp - Whether a client is still there -------------------===//

#include "tools/qrun/Connection.h"

#include <charconv>
#include <cstring>
#include <dirent.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

namespace tandem::qrun {

/// Whether the other end of \p socket, if it is one, is \p address and \p port.
static bool leadsTo(int socket, const std::string &address, int port) {
  sockaddr_storage peer = {};
  socklen_t size = sizeof(peer);
  char host[NI_MAXHOST], service[NI_MAXSERV];
  return getpeername(socket, reinterpret_cast<sockaddr *>(&peer), &size) == 0 &&
         getnameinfo(reinterpret_cast<sockaddr *>(&peer), size, host,
                     sizeof(host), service, sizeof(service),
                     NI_NUMERICHOST | NI_NUMERICSERV) == 0 &&
         address == host && std::to_string(port) == service;
}

int findSocket(const std::string &address, int port) {
  DIR *directory = opendir("/proc/self/fd");
  if (!directory)
    return -1;
  int found = -1;
  while (dirent *entry = readdir(directory)) {
    int descriptor = -1;
    const char *name = entry->d_name;
    auto parsed = std::from_chars(name, name + std::strlen(name), descriptor);
    if (parsed.ec == std::errc() && leadsTo(descriptor, address, port)) {
      found = descriptor;
      break;
    }
  }
  closedir(directory);
  return found;
}

bool isConnected(int socket) {
  if (socket < 0)
    return true;
  pollfd state = {socket, POLLRDHUP, 0};
  return poll(&state, 1, 0) <= 0 ||
         (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0;
}

void disconnect(int socket) {
  if (socket >= 0)
    shutdown(socket, SHUT_RDWR);
}

} // namespace tandem::qrun
