//===- JsonFile.h - JSON files of a checkpoint ------------------*- C++ -*-===//
//
// Reads the small files beside the weights. They come from anywhere, so
// nothing in them is taken for granted, and every message names the file.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_MODELS_JSONFILE_H
#define TANDEM_MODELS_JSONFILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace tandem::models {

/// Reads the file \p path, whose root must be an object, at most 256 MiB and
/// 64 levels deep. Errors start with \p path; a missing file, an empty one, a
/// Git LFS pointer and a web page in place of the file are told apart. A key
/// that stands twice in one object is an error: who reads the first and who
/// reads the last would see two different files.
llvm::Expected<nlohmann::json> readJsonFile(llvm::StringRef path);

/// What \p contents is instead of the file that was wanted: a Git LFS pointer
/// or a web page. Empty when it is neither.
llvm::StringRef describeWrongDownload(llvm::StringRef contents);

/// Text from a file for a message: in single quotes, control characters
/// escaped, cut when long.
std::string quote(llvm::StringRef text);

/// \p value for a message: one line of ASCII, cut when long; arrays and objects
/// by their size only.
std::string describe(const nlohmann::json &value);

} // namespace tandem::models

#endif // TANDEM_MODELS_JSONFILE_H
