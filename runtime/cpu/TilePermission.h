//===- TilePermission.h - May this process use tile registers? --*- C++ -*-===//
//
// Linux lets a process use the tile registers of AMX only when it has asked:
// their 8 KiB make its signal frames larger. One permission is for all threads.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CPU_TILEPERMISSION_H
#define TANDEM_RUNTIME_CPU_TILEPERMISSION_H

#include <cerrno>

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tandem {

/// Asks for the permission; 0 when it is given, and as often as it is asked
/// for again, or what errno says. Says nothing about the processor's features.
inline int requestTilePermission() {
#if defined(__x86_64__) && defined(__linux__)
  // ARCH_REQ_XCOMP_PERM of asm/prctl.h, which older headers lack, and the
  // number of the state of the tiles' numbers, XTILEDATA.
  constexpr long request = 0x1023, tileData = 18;
  return syscall(SYS_arch_prctl, request, tileData) == 0 ? 0 : errno;
#else
  return ENOSYS;
#endif
}

} // namespace tandem

#endif // TANDEM_RUNTIME_CPU_TILEPERMISSION_H
