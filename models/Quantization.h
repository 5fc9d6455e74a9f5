//===- Quantization.h - What quantization_config says -----------*- C++ -*-===//
//
// The section of a config.json that says how the linear layers of a checkpoint
// are packed (docs/formats.md has the table): compressed-tensors'
// `pack-quantized` (https://github.com/vllm-project/compressed-tensors),
// AutoAWQ's gemm (https://github.com/casper-hansen/AutoAWQ), GPTQ
// (https://github.com/ModelCloud/GPTQModel) and FP8 with a scale per block.
// Which modules are packed is decided by the tensors that exist; the section
// says only how.
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
  /// Whose tensors hold it.
  enum class Method { CompressedTensors, Awq, Gptq, Float8 };

  Method method;
  /// Bits of a code.
  int64_t bits;
  /// Consecutive columns that share a scale; 0 is a whole row.
  int64_t group;
  /// Consecutive rows that share a scale; 0 is all of them.
  int64_t blockRows;
  /// Whether codes have zero points of their own.
  bool zeroPoints;
  /// Stored zero points are less by it: 1 in the first version of GPTQ.
  int64_t zeroOffset;
  /// Whether columns may belong to groups in any order.
  bool reorders;

  bool operator==(const PackedFormat &) const = default;
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

  /// Whose tensors the packed modules have.
  PackedFormat::Method getMethod() const { return method; }
  /// What `quant_method` says.
  llvm::StringRef getMethodName() const { return methodName; }

  /// The format of a linear layer that goes by any of \p names; null when no
  /// group targets it. Ignores the ignore list.
  const PackedFormat *find(llvm::ArrayRef<std::string> names) const;

  /// Whether the list of what is not packed has it.
  bool isIgnored(llvm::ArrayRef<std::string> names) const;

private:
  struct Group {
    std::vector<ModulePattern> targets;
    PackedFormat format;
  };

  void readCompressedTensors(const ConfigObject &section);
  void readAwq(const ConfigObject &section);
  void readGptq(const ConfigObject &section);
  void readFloat8(const ConfigObject &section);
  /// Reads a list of module names, whole or some components of them.
  void readExcluded(const ConfigObject &section, llvm::StringRef key);

  PackedFormat::Method method = PackedFormat::Method::CompressedTensors;
  std::string methodName;
  std::vector<Group> groups;
  /// The format of all modules, where there are no groups.
  std::optional<PackedFormat> format;
  std::vector<ModulePattern> ignored;
  std::vector<std::string> excluded;
};

} // namespace tandem::models

#endif // TANDEM_MODELS_QUANTIZATION_H
