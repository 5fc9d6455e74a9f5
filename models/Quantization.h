//===- Quantization.h - What quantization_config says -----------*- C++ -*-===//
//
// The section of a config.json that says how the linear layers of a checkpoint
// are packed. Supported is compressed-tensors' `pack-quantized` format with
// symmetric 4-bit integers, in groups of columns or one scale per row
// (https://github.com/vllm-project/compressed-tensors). Which modules are
// packed is decided by the tensors that exist; the section says only how.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_MODELS_QUANTIZATION_H
#define TANDEM_MODELS_QUANTIZATION_H

#include "models/ConfigFile.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tandem::models {

/// How the weight of a linear layer is packed.
struct PackedFormat {
  /// Bits of a code.
  int64_t bits;
  /// Consecutive columns that share a scale; 0 is a whole row.
  int64_t group;
};

/// A `targets` or `ignore` entry: an exact module name, a class name, or
/// `re:PATTERN`, a regular expression matched from the start of a module name.
class ModulePattern {
public:
  /// How specific a match is; the most specific group counts.
  enum class Match { None, Class, Regex, Exact };

  /// Keeps a problem with \p key of \p object when the pattern is malformed.
  ModulePattern(llvm::StringRef text, const ConfigObject &object,
                llvm::StringRef key);
  ModulePattern(ModulePattern &&);
  ~ModulePattern();

  /// How the pattern matches a linear layer that goes by any of \p names.
  Match match(llvm::ArrayRef<std::string> names) const;

private:
  struct Regex;

  std::string text;
  std::unique_ptr<Regex> regex;
};

/// A checked quantization_config.
class QuantizationConfig {
public:
  /// Reads the section from the first of \p places that has it, under the name
  /// `quantization_config` or `compression_config`; nothing when none has.
  /// What is not supported is kept as a problem of the file.
  static std::optional<QuantizationConfig>
  read(llvm::ArrayRef<ConfigObject> places);

  /// The format of a linear layer that goes by any of \p names; null when no
  /// group targets it. Ignores the ignore list.
  const PackedFormat *find(llvm::ArrayRef<std::string> names) const;

  /// Whether the ignore list has it.
  bool isIgnored(llvm::ArrayRef<std::string> names) const;

private:
  struct Group {
    std::vector<ModulePattern> targets;
    PackedFormat format;
  };

  std::vector<Group> groups;
  std::vector<ModulePattern> ignored;
};

} // namespace tandem::models

#endif // TANDEM_MODELS_QUANTIZATION_H
