//===- Weights.h - From tensors of a checkpoint to weights ------*- C++ -*-===//
//
// Finding the weights of a model and building its IR are two steps, so that the
// second cannot fail. A WeightReader is asked for every weight once, by name
// and shape; it keeps the first problem, answers with placeholders from then
// on, and at the end also refuses tensors nobody asked for.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_MODELS_WEIGHTS_H
#define TANDEM_MODELS_WEIGHTS_H

#include "models/Quantization.h"
#include "models/Safetensors.h"

#include "llvm/ADT/StringSet.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tandem::models {

/// A tensor of a checkpoint that IR refers to.
struct Weight {
  /// What `lm.checkpoints` calls the checkpoint: `target` or `drafter`.
  std::string checkpoint;
  std::string name;
  DType dtype = DType::F32;
  llvm::SmallVector<int64_t, 4> shape;
};

/// The weight of a linear layer: rows of the output by columns of the input.
struct LinearWeight {
  /// Module name: the tensor's without `.weight`.
  std::string module;
  int64_t rows = 0, columns = 0;
  /// The matrix itself, or its packed codes.
  Weight weight;
  /// With packed codes: their scales, and zero points if there are some.
  std::optional<Weight> scales, zeros;
  /// With packed codes: how. `group` and `blockRows` are numbers here, never 0,
  /// and `zeroPoints` says whether there are `zeros`.
  PackedFormat format{};
};

/// Counts for people.
struct WeightStatistics {
  /// Numbers of the model, a packed code counting as one.
  int64_t parameters = 0;
  int64_t denseModules = 0;
  /// Packed modules by what their format is called.
  std::map<std::string, int64_t> packedModules;
  int64_t skippedTensors = 0;
};

/// Whether elements are of a type that dense weights and scales may have.
bool isFloat(DType dtype);
/// "[512, 128]".
std::string printShape(llvm::ArrayRef<int64_t> shape);

class WeightReader {
public:
  /// Reads from \p checkpoint, which IR will call \p role. Names given to the
  /// methods are those of the file. Patterns of \p quantization are tried with
  /// every one of \p prefixes in the place of the one that the file uses:
  /// exporters do not agree on it. \p configPath is for messages.
  WeightReader(const Checkpoint &checkpoint, llvm::StringRef role,
               const std::optional<QuantizationConfig> &quantization,
               llvm::StringRef configPath,
               llvm::ArrayRef<llvm::StringRef> prefixes);

  /// A floating-point tensor \p name of \p shape.
  Weight getDense(const llvm::Twine &name, llvm::ArrayRef<int64_t> shape);

  /// The weight of linear layer \p module, packed or not, as the tensors
  /// beside it say.
  LinearWeight getLinear(const llvm::Twine &module, int64_t rows,
                         int64_t columns);

  /// Marks every tensor whose name starts with \p prefix as one that is left
  /// out on purpose.
  void skipPrefix(llvm::StringRef prefix);
  /// The same for names that end with \p suffix.
  void skipSuffix(llvm::StringRef suffix);
  /// Marks tensor \p name as one that is not needed.
  void skip(llvm::StringRef name);

  /// Whether the checkpoint has a weight of linear layer \p module.
  bool hasLinear(const llvm::Twine &module) const;
  /// Whether the checkpoint has tensor \p name.
  bool has(const llvm::Twine &name) const;
  const Checkpoint &getCheckpoint() const { return checkpoint; }

  /// Keeps \p message, unless there is a problem already.
  void fail(const llvm::Twine &message);
  /// Adds a line for the user.
  void warn(const llvm::Twine &message) { warnings.push_back(message.str()); }

  /// The first problem, or a tensor that was neither asked for nor skipped.
  llvm::Error finish();

  const WeightStatistics &getStatistics() const { return statistics; }
  llvm::ArrayRef<std::string> getWarnings() const { return warnings; }

private:
  /// The tensor \p name, marked as used; a problem and null when it is not
  /// there. \p why ends the message.
  const TensorView *take(const llvm::Twine &name, const llvm::Twine &why = "");
  Weight makeWeight(const TensorView &tensor) const;
  /// Keeps "is <found>, expected <expected>".
  void mismatch(const TensorView &tensor, const llvm::Twine &expected);
  /// All names that patterns may call \p module by.
  std::vector<std::string> getAliases(llvm::StringRef module) const;

  /// What getDense() and getLinear() find in a synthetic checkpoint.
  Weight inventDense(const std::string &name, llvm::ArrayRef<int64_t> shape);
  void inventLinear(LinearWeight &linear);

  // PackedWeights.cpp.

  /// The format of \p module, which has the tensors of \p method; a problem and
  /// null when the configuration says nothing of it.
  const PackedFormat *findFormat(llvm::StringRef module,
                                 PackedFormat::Method method);
  void readPacked(LinearWeight &linear, PackedFormat::Method method);
  /// Expects a whole number of groups in a row, and of words.
  bool checkSizes(const LinearWeight &linear);
  void readCompressedTensors(LinearWeight &linear);
  void readTransposed(LinearWeight &linear);
  void readFloat8(LinearWeight &linear);
  /// The tensor \p name as scales of \p shape.
  void readScales(LinearWeight &linear, const llvm::Twine &name,
                  llvm::ArrayRef<int64_t> shape);
  /// The tensor \p name as words of \p shape.
  const TensorView *takeWords(const llvm::Twine &name,
                              llvm::ArrayRef<int64_t> shape,
                              const llvm::Twine &why = "");
  /// Whether the zero points of symmetric GPTQ are all in the middle.
  void checkMiddle(const LinearWeight &linear, const TensorView &zeros);
  void checkShapeTensor(const LinearWeight &linear);
  void checkGroupIndex(const LinearWeight &linear, const llvm::Twine &name);
  void checkFinite(const TensorView &tensor);

  const Checkpoint &checkpoint;
  std::string role;
  const std::optional<QuantizationConfig> &quantization;
  std::string configPath;
  llvm::ArrayRef<llvm::StringRef> prefixes;

  llvm::StringSet<> used;
  std::string problem;
  std::vector<std::string> warnings;
  WeightStatistics statistics;
  /// Modules about which tensors and configuration disagree; tensors rule.
  std::vector<std::string> unexpectedlyDense, unexpectedlyPacked;
  /// Symmetric modules with the zero points of the other version of GPTQ.
  std::vector<std::string> otherVersion;
};

} // namespace tandem::models

#endif // TANDEM_MODELS_WEIGHTS_H
