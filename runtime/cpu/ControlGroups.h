//===- ControlGroups.h - What the groups of this process allow --*- C++ -*-===//
//
// Linux limits what a container or a service may use by control groups: folders
// of small files, in one tree for everything (version 2) or in one for every
// controller (version 1).
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_RUNTIME_CPU_CONTROLGROUPS_H
#define TANDEM_RUNTIME_CPU_CONTROLGROUPS_H

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// The text of a small file of /proc or /sys; empty when it cannot be read.
std::string readSmallFile(const std::string &path);

/// Folders of the groups of this process that may limit what \p controller
/// (`memory`, `cpu`) is about: its own ones and all above them. Not all of them
/// need to exist.
std::vector<std::string> controlGroups(std::string_view controller);

/// Cores whose time the group \p folder may use, rounded up; none where it may
/// use all.
std::optional<unsigned> coresOfGroup(const std::string &folder);

} // namespace tandem

#endif // TANDEM_RUNTIME_CPU_CONTROLGROUPS_H
