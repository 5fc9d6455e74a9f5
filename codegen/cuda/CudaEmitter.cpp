//===- CudaEmitter.cpp - plan.kernel to CUDA C++ --------------------------===//
//
// Numbers that a template could work out for itself but that the compiler has
// to know too (shared memory, scratch) are worked out here and compared by a
// static_assert in the generated file.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/CudaEmitter.h"
#include "codegen/cpu/KernelSpec.h"
#include "dialects/plan/KernelFamilies.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <map>

using namespace llvm;
using namespace tandem;
using namespace tandem::codegen;
using plan::KernelFamily;

int64_t CudaGridRule::Direction::get(int64_t rows) const {
  return perRow ? fixed * static_cast<int64_t>(
                              divideCeil(uint64_t(perRow) * rows, divisor))
                : fixed;
}

CudaGrid CudaGridRule::get(int64_t rows) const {
  return {static_cast<uint32_t>(x.get(rows)),
          static_cast<uint32_t>(y.get(rows)),
          static_cast<uint32_t>(z.get(rows))};
}

namespace {

/// The file that holds the template of each family.
StringRef getHeader(KernelFamily family) {
  switch (family) {
  case KernelFamily::embed:
    return "embed.cuh";
  case KernelFamily::linear:
    return "linear.cuh";
  case KernelFamily::quant_linear:
    return "quant_linear.cuh";
  case KernelFamily::rms_norm:
  case KernelFamily::gated_rms_norm:
  case KernelFamily::l2_norm:
    return "norm.cuh";
  case KernelFamily::silu:
  case KernelFamily::sigmoid:
  case KernelFamily::add:
  case KernelFamily::mul:
    return "elementwise.cuh";
  case KernelFamily::last_row:
  case KernelFamily::drop_rows:
  case KernelFamily::split:
  case KernelFamily::concat_features:
  case KernelFamily::copy:
    return "rows.cuh";
  case KernelFamily::rope:
    return "rope.cuh";
  case KernelFamily::cache_append:
    return "cache_append.cuh";
  case KernelFamily::attention:
    return "attention.cuh";
  case KernelFamily::short_conv:
    return "short_conv.cuh";
  case KernelFamily::delta_gate:
  case KernelFamily::gated_delta:
  case KernelFamily::delta_save:
    return "gated_delta.cuh";
  case KernelFamily::argmax:
  case KernelFamily::mask_block:
  case KernelFamily::unmask:
  case KernelFamily::concat_tokens:
  case KernelFamily::accept:
    return "tokens.cuh";
  default:
    return "common.cuh";
  }
}

StringRef getTypeName(FloatKind kind) {
  return kind == FloatKind::F32    ? "f32"
         : kind == FloatKind::BF16 ? "bf16"
                                   : "f16";
}

/// \p value as a literal that reads back as the same number.
std::string getLiteral(float value) {
  char text[32];
  snprintf(text, sizeof(text), "%.9g", value);
  std::string literal = text;
  if (literal.find_first_of(".e") == literal.npos)
    literal += ".0";
  return literal + "f";
}

/// A C++ identifier that NVRTC does not mangle.
bool isIdentifier(StringRef name) {
  return !name.empty() && !isDigit(name.front()) &&
         llvm::all_of(name, [](char c) { return isAlnum(c) || c == '_'; });
}

/// Bytes of scratch in front of everything else, for \p count counters of
/// blocks.
int64_t getTicketBytes(int64_t count) { return alignTo(count * 4, 256); }

/// Writes one kernel.
class KernelEmitter {
public:
  KernelEmitter(const KernelSpec &spec, mlir::DictionaryAttr given,
                const CudaTarget &target, int64_t maxRows)
      : spec(spec), given(given), target(target), maxRows(maxRows) {
    kernel.symbol = spec.symbol().str();
    kernel.family = spec.family();
  }

  /// Appends the kernel to \p text.
  Expected<CudaKernel> emit(std::string &text);

private:
  void emitFamily();
  void emitEmbed();
  void emitLinear();
  void emitQuantLinear();
  void emitNorm();
  void emitElementwise();
  void emitSplit();
  void emitConcatFeatures();
  void emitRope();
  void emitCacheAppend();
  void emitAttention();
  void emitShortConv();
  void emitDelta();
  void emitUnmask();

  int64_t get(StringRef parameter) const { return spec.getInt(parameter); }
  /// The type parameter \p name, \p otherwise when the plan does not say.
  FloatKind getKind(StringRef name, FloatKind otherwise) const {
    return given.contains(name) ? spec.getKind(name) : otherwise;
  }
  FloatKind activations() const {
    return getKind("activations", FloatKind::F32);
  }
  std::string activationType() const {
    return getTypeName(activations()).str();
  }
  /// Numbers of the activations' type that are moved at once in rows of
  /// \p columns; packSize() of common.cuh.
  int64_t getPack(int64_t columns) const {
    int64_t count = 16 / getByteWidth(activations());
    while (columns % count != 0)
      count /= 2;
    return count;
  }

  void refuse(const Twine &message) {
    if (!problem.empty())
      return;
    problem = ("kernel '" + spec.symbol() + "': " + message).str();
  }
  void expectBf16() {
    if (activations() != FloatKind::BF16)
      refuse("expects bf16 activations, but got " + getTypeName(activations()));
  }
  void expectF32() {
    if (activations() != FloatKind::F32)
      refuse("expects f32 activations, but got " + getTypeName(activations()));
  }

  // Lines of the struct.
  void line(const Twine &text) { choices += ("  " + text + "\n").str(); }
  void numbers(ArrayRef<std::pair<StringRef, int64_t>> values) {
    std::string list;
    for (auto [name, value] : values)
      list += ((list.empty() ? "" : ", ") + name + " = " + Twine(value)).str();
    line("static constexpr i32 " + list + ";");
  }
  void flag(StringRef name, bool value) {
    line("static constexpr bool " + name + " = " + (value ? "true" : "false") +
         ";");
  }
  void real(StringRef name, float value) {
    line("static constexpr f32 " + name + " = " + getLiteral(value) + ";");
  }
  void type(StringRef name, FloatKind kind) {
    line("using " + name + " = " + getTypeName(kind) + ";");
  }

  /// The operands, as `const bf16 *x`.
  void operands(std::initializer_list<std::string> list) {
    parameters.assign(list);
  }
  /// Adds a call of \p callee with \p arguments, and the choices in front of
  /// \p templateArguments.
  void call(const Twine &callee, const Twine &arguments,
            const Twine &templateArguments = "") {
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

  /// How many slices the columns of a linear layer are cut into, where they are
  /// \p stages stages long.
  int64_t getSlices(int64_t outputs, int64_t stages) const;
  /// How many stages of \p bytes fit into shared memory.
  int64_t getStages(int64_t bytes) const {
    return std::clamp<int64_t>(target.sharedLimit / bytes, 2, 5);
  }
  /// What the two linear families have in common, behind their choices.
  void finishLinear(StringRef callee, StringRef weightType, int64_t tokens,
                    int64_t slices, int64_t stages, int64_t stageBytes);
  int64_t getTokens() const;
  void perRow(int64_t perRow = 1, int64_t divisor = 1) {
    kernel.grid.x = {1, perRow, divisor};
  }

  const KernelSpec &spec;
  /// The parameters as the plan has them.
  mlir::DictionaryAttr given;
  const CudaTarget &target;
  int64_t maxRows;
  CudaKernel kernel;
  std::string problem;

  std::string choices, assertions, calls;
  std::vector<std::string> parameters;
};

/// Outputs of a block of a linear layer, and its threads; outputs.cuh.
constexpr int64_t kLinearOutputs = 128;
constexpr int64_t kLinearThreads = 256;

} // namespace

//===----------------------------------------------------------------------===//
// Linear layers
//===----------------------------------------------------------------------===//

int64_t KernelEmitter::getSlices(int64_t outputs, int64_t stages) const {
  int64_t blocks = divideCeil(outputs, kLinearOutputs);
  int64_t wanted = divideCeil(target.processors, blocks);
  // A slice of less than two stages costs more than it brings.
  return std::clamp<int64_t>(std::min<int64_t>(wanted, stages / 2), 1, 16);
}

int64_t KernelEmitter::getTokens() const {
  return given.contains("row_tile") ? get("row_tile") : 16;
}

void KernelEmitter::finishLinear(StringRef callee, StringRef weightType,
                                 int64_t tokens, int64_t slices, int64_t stages,
                                 int64_t stageBytes) {
  int64_t outputs = get("outputs");
  FloatKind result = getKind("result", activations());
  numbers({{"tokens", tokens}, {"slices", slices}, {"stages", stages}});
  type("Result", result);
  int64_t blocks = divideCeil(outputs, kLinearOutputs);
  int64_t tiles = blocks * divideCeil(maxRows, tokens);
  kernel.block = kLinearThreads;
  kernel.shared = stages * stageBytes;
  kernel.grid = {{blocks}, {slices}, {1, 1, tokens}};
  int64_t ticketBytes = 0;
  if (slices > 1) {
    ticketBytes = getTicketBytes(tiles);
    kernel.scratch = ticketBytes + tiles * slices * tokens * kLinearOutputs * 4;
  }
  operands({"const bf16 *x", ("const " + weightType + " *weight").str(),
            (getTypeName(result) + " *y").str()});
  call(callee, "x, weight, y, live, rows, reinterpret_cast<f32 *>(scratch + " +
                   Twine(ticketBytes) + "), reinterpret_cast<u32 *>(scratch)");
}

void KernelEmitter::emitLinear() {
  expectBf16();
  FloatKind element = spec.getKind("element");
  int64_t width = getByteWidth(element), columns = get("columns");
  int64_t tokens = getTokens(), stageColumns = 128 / width;
  int64_t stageBytes =
      kLinearOutputs * (128 + 16) + tokens * (stageColumns + 8) * 2;
  int64_t stages = getStages(stageBytes);
  numbers({{"outputs", get("outputs")}, {"columns", columns}});
  type("Element", element);
  finishLinear("linear", getTypeName(element), tokens,
               getSlices(get("outputs"), divideCeil(columns, stageColumns)),
               stages, stageBytes);
  assertions += "static_assert(Linear<" + getStruct() +
                ">::sharedBytes == " + std::to_string(kernel.shared) + ");\n";
}

void KernelEmitter::emitQuantLinear() {
  expectBf16();
  for (StringRef option : {"zero_points", "float_codes"})
    if (spec.has(option))
      refuse(Twine("expects integer codes without zero points, but got ") +
             option);
  auto packing = plan::FragmentCodesAttr::get(
      given.getContext(), get("outputs"), get("columns"), get("bits"),
      get("group"), given.getAs<mlir::TypeAttr>("scale").getValue());
  // With a scale for every step, 64 tokens take more registers than there are.
  int64_t tokens = getTokens();
  if (packing.getUnitGroups() > 4)
    tokens = std::min<int64_t>(tokens, 32);
  int64_t unitBytes = packing.getUnitBytes();
  int64_t stageBytes = kLinearOutputs / 16 * unitBytes +
                       tokens * (packing.getUnitSteps() * 16 + 8) * 2;
  int64_t stages = getStages(stageBytes);
  numbers({{"outputs", get("outputs")}, {"columns", get("columns")}});
  numbers({{"bits", get("bits")}, {"group", get("group")}});
  type("Scale", spec.getKind("scale"));
  finishLinear("quantLinear", "u8", tokens,
               getSlices(get("outputs"), packing.getUnits()), stages,
               stageBytes);
  assertions += "static_assert(QuantLinear<" + getStruct() +
                ">::sharedBytes == " + std::to_string(kernel.shared) + ");\n";
  assertions += "static_assert(UnitLayout<" + getStruct() +
                ">::bytes == " + std::to_string(unitBytes) + ");\n";
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void KernelEmitter::emitEmbed() {
  FloatKind element = spec.getKind("element");
  numbers({{"columns", get("columns")}, {"vocabulary", get("vocabulary")}});
  type("Element", element);
  type("Result", activations());
  real("scaleBy", spec.getFloat("scale_by"));
  kernel.block = 256;
  perRow();
  operands({"const i32 *tokens",
            ("const " + getTypeName(element) + " *table").str(),
            activationType() + " *y"});
  call("embed", "tokens, table, y, live, rows");
}

void KernelEmitter::emitNorm() {
  int64_t columns = get("columns"), dim = get("dim");
  // Long runs take a block, short ones a warp.
  bool isLong = dim > 1024;
  kernel.block = isLong ? 256 : 128;
  int64_t threadsPerRun = isLong ? kernel.block : 32;
  numbers({{"columns", columns}, {"dim", dim}});
  numbers({{"threads", kernel.block}, {"threadsPerRun", threadsPerRun}});
  real("eps", spec.getFloat("eps"));
  if (kernel.family == KernelFamily::rms_norm)
    real("offset", spec.getFloat("offset"));
  perRow();
  kernel.grid.y = {static_cast<int64_t>(
      divideCeil(columns / dim, kernel.block / threadsPerRun))};
  std::string type = activationType();
  std::string x = "const " + type + " *x", y = type + " *y";
  if (kernel.family == KernelFamily::l2_norm) {
    operands({x, y});
    call("l2Norm", "x, y, live, rows");
  } else if (kernel.family == KernelFamily::rms_norm) {
    operands({x, "const f32 *weight", y});
    call("rmsNorm", "x, weight, y, live, rows");
  } else {
    operands({x, "const " + type + " *gate", "const f32 *weight", y});
    call("gatedRmsNorm", "x, gate, weight, y, live, rows");
  }
}

void KernelEmitter::emitElementwise() {
  int64_t columns = get("columns");
  numbers({{"columns", columns}});
  kernel.block = 256;
  perRow(columns, kernel.block * getPack(columns));
  std::string type = activationType();
  if (kernel.family == KernelFamily::silu ||
      kernel.family == KernelFamily::sigmoid) {
    operands({"const " + type + " *x", type + " *y"});
    call("unary", "x, y, live, rows",
         kernel.family == KernelFamily::silu ? "Silu" : "Sigmoid");
    return;
  }
  operands({"const " + type + " *a", "const " + type + " *b", type + " *y"});
  call("binary", "a, b, y, live, rows",
       kernel.family == KernelFamily::add ? "Add" : "Mul");
}

void KernelEmitter::emitSplit() {
  std::string type = activationType();
  int64_t columns = 0, offset = 0, groups = get("groups");
  for (int64_t width : spec.widths())
    columns += width;
  numbers({{"columns", columns}, {"groups", groups}});
  kernel.block = 256;
  perRow();
  parameters.push_back("const " + type + " *x");
  for (auto [index, width] : enumerate(spec.widths())) {
    std::string part = "part" + std::to_string(index);
    parameters.push_back(type + " *" + part);
    call("splitPart", "x, " + part + ", live, rows",
         Twine(offset) + ", " + Twine(width));
    offset += width / groups;
  }
}

void KernelEmitter::emitConcatFeatures() {
  std::string type = activationType();
  int64_t columns = 0, offset = 0;
  for (int64_t width : spec.widths())
    columns += width;
  numbers({{"columns", columns}});
  kernel.block = 256;
  perRow();
  for (auto [index, width] : enumerate(spec.widths())) {
    std::string part = "part" + std::to_string(index);
    parameters.push_back("const " + type + " *" + part);
    call("concatPart", part + ", y, live, rows",
         Twine(offset) + ", " + Twine(width));
    offset += width;
  }
  parameters.push_back(type + " *y");
}

void KernelEmitter::emitRope() {
  numbers({{"columns", get("columns")}, {"headDim", get("head_dim")}});
  numbers({{"dims", get("dims")}, {"positions", get("positions")}});
  kernel.block = 256;
  perRow();
  std::string type = activationType();
  operands({"const " + type + " *x", "const i32 *start", "const f32 *table",
            type + " *y"});
  call("rope", "x, start, table, y, live, rows");
}

//===----------------------------------------------------------------------===//
// Caches
//===----------------------------------------------------------------------===//

void KernelEmitter::emitCacheAppend() {
  numbers(
      {{"dim", get("dim")}, {"heads", get("heads")}, {"slots", get("slots")}});
  kernel.block = 256;
  perRow();
  std::string type = activationType();
  operands({"const " + type + " *keys", "const " + type + " *values",
            "const i32 *start", type + " *cache"});
  call("cacheAppend", "keys, values, start, cache, live, rows");
}

void KernelEmitter::emitAttention() {
  expectBf16();
  // The items of a block, and the keys of a tile; attention.cuh.
  constexpr int64_t items = 64, keys = 32;
  int64_t dim = get("dim"), heads = get("heads"), slots = get("slots");
  int64_t group = get("query_heads") / heads;
  if (dim > 256)
    refuse("expects a dim up to 256, but got " + Twine(dim));
  // About 64 spans of a full cache, of at least two tiles.
  int64_t span = alignTo(divideCeil(slots, 64), 2 * keys);
  numbers({{"dim", dim}, {"heads", heads}, {"queryHeads", get("query_heads")}});
  numbers({{"slots", slots}, {"window", get("window")}, {"span", span}});
  flag("causal", get("causal") != 0);
  real("scaleBy", spec.getFloat("scale_by"));

  // What a row sees may begin and end inside a span.
  int64_t spans = divideCeil(slots, span) + 1;
  kernel.block = 128;
  kernel.shared = (items + 2 * keys) * (alignTo(dim, 16) + 8) * 2;
  kernel.grid = {{spans}, {1, group, items}, {heads}};
  int64_t tiles = heads * divideCeil(group * maxRows, items);
  int64_t ticketBytes = getTicketBytes(tiles);
  kernel.scratch = ticketBytes + tiles * spans * items * (dim + 2) * 4;
  operands({"const bf16 *query", "const bf16 *cache", "const i32 *start",
            "bf16 *output"});
  call("attention",
       "query, cache, start, output, live, rows, reinterpret_cast<f32 *>"
       "(scratch + " +
           Twine(ticketBytes) + "), reinterpret_cast<u32 *>(scratch)");
  assertions += "static_assert(Attention<" + getStruct() +
                ">::sharedBytes == " + std::to_string(kernel.shared) + ");\n";
}

void KernelEmitter::emitShortConv() {
  numbers({{"channels", get("channels")},
           {"taps", get("taps")},
           {"pending", get("pending")}});
  flag("commit", get("commit") != 0);
  kernel.block = 128;
  kernel.grid.x = {
      static_cast<int64_t>(divideCeil(get("channels"), kernel.block))};
  std::string type = activationType();
  operands({"const " + type + " *x", "const f32 *weight", "const i32 *accepted",
            type + " *y", type + " *cache"});
  call("shortConv", "x, weight, accepted, y, cache, live, rows");
}

void KernelEmitter::emitDelta() {
  std::string type = activationType();
  if (kernel.family == KernelFamily::delta_gate) {
    numbers({{"columns", get("columns")}});
    kernel.block = 256;
    perRow(get("columns"), kernel.block);
    operands({"const " + type + " *x", "const f32 *logRate", "const f32 *bias",
              "f32 *y"});
    call("deltaGate", "x, logRate, bias, y, live, rows");
    return;
  }
  numbers({{"heads", get("heads")}, {"keyHeads", get("key_heads")}});
  numbers({{"keyDim", get("key_dim")},
           {"valueDim", get("value_dim")},
           {"pending", get("pending")}});
  std::string key = "const " + type + " *key";
  std::string value = "const " + type + " *value";
  if (kernel.family == KernelFamily::delta_save) {
    kernel.block = 256;
    perRow();
    operands({key, value, "const f32 *decay", "const f32 *beta", "u8 *cache"});
    call("deltaSave", "key, value, decay, beta, cache, live, rows");
    return;
  }
  // Registers hold the keys of a column, four lanes a column.
  if (get("key_dim") > 256)
    refuse("expects a key_dim up to 256, but got " + Twine(get("key_dim")));
  flag("commit", get("commit") != 0);
  real("scaleBy", spec.getFloat("scale_by"));
  kernel.block = 128;
  kernel.grid.x = {get("heads")};
  kernel.grid.y = {
      static_cast<int64_t>(divideCeil(get("value_dim"), kernel.block / 4))};
  operands({"const " + type + " *query", key, value, "const f32 *decay",
            "const f32 *beta", "const i32 *accepted", type + " *output",
            "u8 *cache"});
  call("gatedDelta", "query, key, value, decay, beta, accepted, output, cache, "
                     "live, rows");
}

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

void KernelEmitter::emitUnmask() {
  expectF32();
  int64_t slots = get("size") - 1;
  kernel.block = 1024;
  kernel.grid.x = {slots};
  int64_t ticketBytes = getTicketBytes(1);
  kernel.scratch = ticketBytes + slots * 8;
  numbers({{"columns", get("columns")}, {"size", get("size")}});
  numbers({{"fill", get("fill")},
           {"maskToken", get("mask_token")},
           {"threads", kernel.block}});
  operands({"const i32 *block", "const f32 *logits", "i32 *result"});
  call("unmask", "block, logits, result, scratch + " + Twine(ticketBytes) +
                     ", reinterpret_cast<u32 *>(scratch)");
}

void KernelEmitter::emitFamily() {
  std::string type = activationType();
  switch (kernel.family) {
  case KernelFamily::embed:
    return emitEmbed();
  case KernelFamily::linear:
    return emitLinear();
  case KernelFamily::quant_linear:
    return emitQuantLinear();
  case KernelFamily::rms_norm:
  case KernelFamily::gated_rms_norm:
  case KernelFamily::l2_norm:
    return emitNorm();
  case KernelFamily::silu:
  case KernelFamily::sigmoid:
  case KernelFamily::add:
  case KernelFamily::mul:
    return emitElementwise();
  case KernelFamily::last_row:
    numbers({{"columns", get("columns")}});
    kernel.block = 256;
    operands({"const " + type + " *x", "const i32 *count", type + " *y"});
    return call("lastRow", "x, count, y");
  case KernelFamily::drop_rows:
    numbers({{"columns", get("columns")}, {"first", get("first")}});
    kernel.block = 256;
    perRow();
    operands({"const " + type + " *x", type + " *y"});
    return call("dropRows", "x, y, live, rows");
  case KernelFamily::split:
    return emitSplit();
  case KernelFamily::concat_features:
    return emitConcatFeatures();
  case KernelFamily::copy:
    line("static constexpr u64 bytes = " + Twine(get("bytes")) + ";");
    kernel.block = 256;
    kernel.grid.x = {std::clamp<int64_t>(
        divideCeil(get("bytes"), 16 * kernel.block), 1, 1024)};
    operands({"const u8 *from", "u8 *to"});
    return call("copyBytes", "from, to");
  case KernelFamily::rope:
    return emitRope();
  case KernelFamily::cache_append:
    return emitCacheAppend();
  case KernelFamily::attention:
    return emitAttention();
  case KernelFamily::short_conv:
    return emitShortConv();
  case KernelFamily::delta_gate:
  case KernelFamily::gated_delta:
  case KernelFamily::delta_save:
    return emitDelta();
  case KernelFamily::argmax:
    expectF32();
    kernel.block = 1024;
    perRow();
    numbers({{"columns", get("columns")}, {"threads", kernel.block}});
    operands({"const f32 *logits", "i32 *tokens"});
    return call("argmax", "logits, tokens, live, rows");
  case KernelFamily::mask_block:
    numbers({{"size", get("size")}, {"maskToken", get("mask_token")}});
    kernel.block = 32;
    operands({"const i32 *anchor", "i32 *block"});
    return call("maskBlock", "anchor, block");
  case KernelFamily::unmask:
    return emitUnmask();
  case KernelFamily::concat_tokens:
    numbers({{"left", get("left")}, {"right", get("right")}});
    kernel.block = 32;
    operands({"const i32 *left", "const i32 *right", "i32 *result"});
    return call("concatTokens", "left, right, result");
  case KernelFamily::accept:
    kernel.block = 32;
    operands({"const i32 *block", "const i32 *decided", "const i32 *start",
              "i32 *accepted", "i32 *anchor", "i32 *nextStart",
              "i32 *contextStart"});
    return call("accept", "block, decided, start, accepted, anchor, nextStart, "
                          "contextStart, live, rows");
  default:
    return refuse("is of a family that GPUs have no template of");
  }
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

Expected<CudaKernel> KernelEmitter::emit(std::string &text) {
  if (!isIdentifier(kernel.symbol))
    refuse("expects a name of letters, digits and underscores");
  emitFamily();
  // Limits of a grid.
  constexpr int64_t most = 65535;
  const CudaGridRule &grid = kernel.grid;
  if (grid.x.get(maxRows) > INT32_MAX || grid.y.get(maxRows) > most ||
      grid.z.get(maxRows) > most)
    refuse("needs more blocks for " + Twine(maxRows) +
           " rows than a grid can have");
  if (!problem.empty())
    return createStringError(problem);

  raw_string_ostream os(text);
  os << "\n";
  if (hasChoices())
    os << "struct " << getStruct() << " {\n" << choices << "};\n" << assertions;
  os << "extern \"C\" __global__ void __launch_bounds__(" << kernel.block
     << ")\n"
     << kernel.symbol << "(";
  for (StringRef parameter : parameters)
    os << parameter << ", ";
  os << "const i32 *live, i32 rows, u8 *scratch) {\n" << calls << "}\n";
  return kernel;
}

Expected<std::vector<CudaSource>>
tandem::codegen::emitCudaKernels(mlir::ModuleOp planModule,
                                 const CudaTarget &target) {
  StringMap<int64_t> maxRows;
  planModule.walk([&](plan::LaunchOp launch) {
    int64_t &rows = maxRows[launch.getKernel()];
    rows = std::max<int64_t>(rows, launch.getRows());
  });

  std::map<KernelFamily, CudaSource> sources;
  for (auto op : planModule.getOps<plan::KernelOp>()) {
    Expected<KernelSpec> spec = KernelSpec::create(op);
    if (!spec)
      return spec.takeError();
    CudaSource &source = sources[op.getFamily()];
    if (source.text.empty()) {
      source.name = stringifyKernelFamily(op.getFamily()).str();
      source.text =
          ("// " + source.name + " for " + target.arch +
           ": the choices; the template has the drawing.\n" + "#include \"" +
           getHeader(op.getFamily()) + "\"\n\nusing namespace tandem;\n")
              .str();
    }
    int64_t rows = std::max<int64_t>(maxRows.lookup(op.getSymName()), 1);
    Expected<CudaKernel> kernel =
        KernelEmitter(*spec, op.getParameters(), target, rows)
            .emit(source.text);
    if (!kernel)
      return kernel.takeError();
    source.kernels.push_back(std::move(*kernel));
  }
  std::vector<CudaSource> result;
  for (auto &[family, source] : sources)
    result.push_back(std::move(source));
  return result;
}
