//===- Connection.h - Whether a client is still there -----------*- C++ -*-===//

#ifndef TANDEM_TOOLS_QRUN_CONNECTION_H
#define TANDEM_TOOLS_QRUN_CONNECTION_H

#include <string>

namespace tandem::qrun {

/// The socket of this process whose other end is \p address (numeric) and
/// \p port, -1 when there is none. cpp-httplib keeps its sockets to itself and
/// tells only who is at the other end.
int findSocket(const std::string &address, int port);

/// Whether the other end of \p socket has not been closed, as far as this
/// machine knows. True for -1.
bool isConnected(int socket);

/// Ends the connection of \p socket, and the writes that wait for it. Nothing
/// for -1.
void disconnect(int socket);

} // namespace tandem::qrun

#endif // TANDEM_TOOLS_QRUN_CONNECTION_H
