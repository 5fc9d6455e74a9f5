//===- KernelEmitter.h - Writes one CUDA kernel -----------------*- C++ -*-===//

#ifndef TANDEM_CODEGEN_CUDA_KERNELEMITTER_H
#define TANDEM_CODEGEN_CUDA_KERNELEMITTER_H

#include "codegen/cpu/KernelSpec.h"
#include "codegen/cuda/CudaEmitter.h"
#include "codegen/cuda/LaunchOrder.h"

#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>

namespace tandem::codegen {

/// Name of \p kind in common.cuh.
llvm::StringRef getCudaTypeName(FloatKind kind);

/// \p value as a literal that reads back as the same number.
std::string getFloatLiteral(float value);

/// Bytes of scratch in front of everything else, for \p count counters of
/// blocks.
inline int64_t getTicketBytes(int64_t count) {
  return static_cast<int64_t>(llvm::alignTo(count * 4, 256));
}

/// Shared memory of a multiprocessor, and that which a block takes beside its
/// own (sm_90).
inline constexpr int64_t kAllSharedBytes = 228 * 1024, kBlockBytes = 1024;
/// Shared memory of a block that is more than half of all, and of one that has
/// room beside it.
inline constexpr int64_t kFirstHalfBytes =
    kAllSharedBytes / 2 - kBlockBytes + 128;
inline constexpr int64_t kSecondHalfBytes =
    kAllSharedBytes - kFirstHalfBytes - 2 * kBlockBytes;

/// Writes one kernel.
class KernelEmitter {
public:
  /// How the units of a layer lie.
  struct Units {
    /// Units of a tile, steps of 16 columns and bytes of one.
    int64_t count, steps, bytes;
    std::string name;
  };

  KernelEmitter(const KernelSpec &spec, mlir::DictionaryAttr given,
                const CudaTarget &target, const LaunchOrder &order,
                int64_t maxRows)
      : spec(spec), given(given), target(target), order(order),
        maxRows(maxRows) {
    kernel.symbol = spec.symbol().str();
    kernel.family = spec.family();
  }

  /// Appends the kernel to \p text.
  llvm::Expected<CudaKernel> emit(std::string &text);

private:
  void emitFamily();
  void emitEmbed();
  void emitLayer();
  void emitNorm();
  void emitElementwise();
  void emitSplit();
  void emitConcatFeatures();
  void emitRope();
  void emitUnmask();

  // HeadEmitter.cpp
  void emitHeadSearch();
  void emitHeadSettle();
  void emitHeadDraft();
  void emitDigits(int64_t units, int64_t unitBytes, int64_t mostAhead,
                  int64_t tokenBytes);

  // AttentionEmitter.cpp
  void emitCacheAppend();
  void emitAttention();
  void emitAttentionLayer();
  void emitAttentionInputs();

  // DeltaEmitter.cpp
  void emitShortConv();
  void emitDelta();
  void emitDeltaVerify(bool isNormed);
  void emitVerifyScratch(bool isNormed);
  void emitDeltaLayer();
  bool hasChunks() const;
  void emitDeltaChunks();
  void emitDeltaInputs();

  int64_t get(llvm::StringRef parameter) const {
    return spec.getInt(parameter);
  }
  /// The number \p name, \p otherwise when the plan does not say.
  int64_t getOr(llvm::StringRef name, int64_t otherwise) const {
    return spec.has(name) ? spec.getInt(name) : otherwise;
  }
  /// Whether the plan says that \p option is to be.
  bool has(llvm::StringRef option) const { return getOr(option, 0) != 0; }
  /// The type parameter \p name, \p otherwise when the plan does not say.
  FloatKind getKind(llvm::StringRef name, FloatKind otherwise) const {
    return given.contains(name) ? spec.getKind(name) : otherwise;
  }
  FloatKind activations() const {
    return getKind("activations", FloatKind::F32);
  }
  std::string activationType() const {
    return getCudaTypeName(activations()).str();
  }
  /// Numbers of the activations' type that are moved at once in rows of
  /// \p columns; packSize() of common.cuh.
  int64_t getPack(int64_t columns) const {
    int64_t count = 16 / getByteWidth(activations());
    while (columns % count != 0)
      count /= 2;
    return count;
  }

  void refuse(const llvm::Twine &message) {
    if (!problem.empty())
      return;
    problem = ("kernel '" + spec.symbol() + "': " + message).str();
  }
  void expectBf16() {
    if (activations() != FloatKind::BF16)
      refuse("expects bf16 activations, but got " +
             getCudaTypeName(activations()));
  }
  void expectF32() {
    if (activations() != FloatKind::F32)
      refuse("expects f32 activations, but got " +
             getCudaTypeName(activations()));
  }

  // Lines of the struct.
  void line(const llvm::Twine &text) { choices += ("  " + text + "\n").str(); }
  void numbers(llvm::ArrayRef<std::pair<llvm::StringRef, int64_t>> values) {
    std::string list;
    for (auto [name, value] : values)
      list += ((list.empty() ? "" : ", ") + name + " = " + llvm::Twine(value))
                  .str();
    line("static constexpr i32 " + list + ";");
  }
  void flag(llvm::StringRef name, bool value) {
    line("static constexpr bool " + name + " = " + (value ? "true" : "false") +
         ";");
  }
  void real(llvm::StringRef name, float value) {
    line("static constexpr f32 " + name + " = " + getFloatLiteral(value) + ";");
  }
  void type(llvm::StringRef name, FloatKind kind) {
    line("using " + name + " = " + getCudaTypeName(kind).str() + ";");
  }

  /// The operands, as `const bf16 *x`.
  void operands(std::initializer_list<std::string> list) {
    parameters.assign(list);
  }
  /// Adds a call of \p callee with \p arguments, and the choices in front of
  /// \p templateArguments.
  void call(const llvm::Twine &callee, const llvm::Twine &arguments,
            const llvm::Twine &templateArguments = "") {
    std::string more = templateArguments.str();
    std::string choice = hasChoices() ? getStruct() : "";
    if (!choice.empty() && !more.empty())
      choice += ", ";
    choice += more;
    calls +=
        ("  tandem::" + callee + (choice.empty() ? "" : "<" + choice + ">") +
         "(" + arguments + ");\n")
            .str();
  }
  bool hasChoices() const { return !choices.empty(); }
  std::string getStruct() const { return kernel.symbol + "_choices"; }

  // LinearEmitter.cpp
  Units emitWeight();
  /// The units of a dense weight.
  Units getDenseUnits(FloatKind element) const;
  /// Shared memory of few_rows.cuh for the squares of a norm.
  int64_t getNormBytes() const;
  /// Shared memory for sums and stages of a layer of few rows. The same with a
  /// norm and without, so that columns are cut alike.
  int64_t getFewRowsShared() const;
  void emitFewRows(const Units &units, int64_t tilesPerItem, int64_t tokens);
  void emitManyRows(const Units &units, int64_t tokens);
  void emitMediumRows(const Units &units);
  void emitMediumClusters(const Units &units);
  bool canBeWide(const Units &units) const;
  void emitWideRows(const Units &units);
  /// Tiles of 16 outputs of all parts.
  int64_t getTiles() const;
  void perRow(int64_t perRow = 1, int64_t divisor = 1) {
    kernel.grid.x = {1, perRow, divisor};
  }

  const KernelSpec &spec;
  /// The parameters as the plan has them.
  mlir::DictionaryAttr given;
  const CudaTarget &target;
  const LaunchOrder &order;
  int64_t maxRows;
  CudaKernel kernel;
  std::string problem;

  /// Outputs of the parts of a linear layer.
  std::vector<int64_t> widths;
  std::string choices, assertions, calls;
  /// Blocks that a multiprocessor has room for, where that is to bound the
  /// registers of a thread; 1 gives it as many as there are.
  int64_t residentBlocks = 0;
  /// Registers of a thread, in place of what follows from blocks and threads,
  /// and how many it has if it needs them or not.
  int64_t mostRegisters = 0, leastRegisters = 0;
  /// Blocks of a cluster, which follow each other in y.
  int64_t clusterBlocks = 1;
  /// Whether the kernel waits for those in front where it has to.
  bool waitsItself = false;
  std::vector<std::string> parameters;
};

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_CUDA_KERNELEMITTER_H
