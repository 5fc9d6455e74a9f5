//===- CudaEmitter.cpp - plan.kernel to CUDA C++ --------------------------===//
//
// Numbers that a template could work out for itself but that the compiler has
// to know too (shared memory, scratch) are worked out here and compared by a
// static_assert in the generated file.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/KernelEmitter.h"
#include "dialects/plan/KernelFamilies.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <map>

using namespace llvm;
using namespace tandem;
using namespace tandem::codegen;
using plan::KernelFamily;

int64_t CudaGridRule::Direction::get(int64_t rows) const {
  if (mostRows && rows > mostRows)
    return 1;
  if (perRow == 0)
    return fixed;
  int64_t blocks = fixed * static_cast<int64_t>(
                               divideCeil(uint64_t(perRow) * rows, divisor));
  return most ? std::min(blocks, most) : blocks;
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
  case KernelFamily::fused_linear:
    return "linear.cuh";
  case KernelFamily::quant_linear:
  case KernelFamily::fused_quant_linear:
    return "quant_linear.cuh";
  case KernelFamily::head_argmax:
  case KernelFamily::quant_head_argmax:
    return "head.cuh";
  case KernelFamily::head_search:
    return "head_search.cuh";
  case KernelFamily::head_settle:
    return "head_settle.cuh";
  case KernelFamily::head_draft:
    return "head_draft.cuh";
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
  case KernelFamily::delta_save:
  case KernelFamily::gated_delta:
    return "gated_delta.cuh";
  case KernelFamily::delta_inputs:
    return "delta_inputs.cuh";
  case KernelFamily::attention_inputs:
    return "attention_inputs.cuh";
  case KernelFamily::argmax:
  case KernelFamily::argmax_parts:
  case KernelFamily::settled_argmax:
  case KernelFamily::mask_block:
  case KernelFamily::unmask:
  case KernelFamily::concat_tokens:
  case KernelFamily::select_tokens:
  case KernelFamily::accept:
  case KernelFamily::last_position:
    return "tokens.cuh";
  }
  llvm_unreachable("unknown family");
}

/// The same for families with more than one template.
SmallVector<StringRef> getHeaders(KernelFamily family) {
  // Of a prefill, and of a verified block with what is in front of it; they
  // know the others.
  if (family == KernelFamily::gated_delta)
    return {"delta_chunk.cuh", "delta_layer.cuh"};
  if (family == KernelFamily::attention)
    return {"attention.cuh", "attention_layer.cuh"};
  return {getHeader(family)};
}

} // namespace

StringRef tandem::codegen::getCudaTypeName(FloatKind kind) {
  return kind == FloatKind::F32    ? "f32"
         : kind == FloatKind::BF16 ? "bf16"
                                   : "f16";
}

std::string tandem::codegen::getFloatLiteral(float value) {
  char text[32];
  snprintf(text, sizeof(text), "%.9g", value);
  std::string literal = text;
  if (literal.find_first_of(".e") == literal.npos)
    literal += ".0";
  return literal + "f";
}

/// A C++ identifier that NVRTC does not mangle.
static bool isIdentifier(StringRef name) {
  return !name.empty() && !isDigit(name.front()) &&
         llvm::all_of(name, [](char c) { return isAlnum(c) || c == '_'; });
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
            ("const " + getCudaTypeName(element) + " *table").str(),
            activationType() + " *y"});
  call("embed", "tokens, table, y, live, rows");
}

void KernelEmitter::emitNorm() {
  int64_t columns = get("columns"), dim = get("dim");
  // Rows and long runs take a block, heads a warp.
  bool isRow = kernel.family == KernelFamily::rms_norm && columns == dim;
  bool isLong = dim > 1024;
  kernel.block = isLong ? 256 : 128;
  waitsItself = true;
  int64_t threadsPerRun = isRow || isLong ? kernel.block : 32;
  numbers({{"columns", columns}, {"dim", dim}});
  numbers({{"threads", kernel.block}, {"threadsPerRun", threadsPerRun}});
  real("eps", spec.getFloat("eps"));
  if (kernel.family == KernelFamily::rms_norm)
    real("offset", spec.getFloat("offset"));
  perRow();
  kernel.grid.y = {static_cast<int64_t>(
      divideCeil(columns / dim, kernel.block / threadsPerRun))};
  // As many as run at once, twice.
  constexpr int64_t threads = 2 * 2048;
  kernel.grid.x.most = static_cast<int64_t>(divideCeil(
      target.processors * threads / kernel.block, kernel.grid.y.fixed));
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
  case KernelFamily::quant_linear:
  case KernelFamily::fused_linear:
  case KernelFamily::fused_quant_linear:
  case KernelFamily::head_argmax:
    return emitLayer();
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
    return call("lastRow", "x, count, y, rows");
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
  case KernelFamily::delta_inputs:
    return emitDeltaInputs();
  case KernelFamily::attention_inputs:
    return emitAttentionInputs();
  case KernelFamily::argmax_parts:
    kernel.block = 256;
    perRow();
    numbers({{"parts", get("parts")}, {"threads", kernel.block}});
    operands({"const f32 *logits", "const i32 *tokens", "i32 *result"});
    return call("argmaxParts", "logits, tokens, result, live, rows");
  case KernelFamily::head_search:
    return emitHeadSearch();
  case KernelFamily::head_settle:
    return emitHeadSettle();
  case KernelFamily::head_draft:
    return emitHeadDraft();
  case KernelFamily::settled_argmax:
    kernel.block = 256;
    perRow();
    numbers({{"parts", get("parts")},
             {"tiles", get("tiles")},
             {"threads", kernel.block}});
    operands({"const f32 *logits", "const i32 *tokens", "const i32 *settled",
              "i32 *result", "i32 *counts"});
    return call("settledArgmax",
                "logits, tokens, settled, result, counts, live, rows");
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
  case KernelFamily::select_tokens:
    numbers({{"entries", get("entries")}});
    kernel.block = 32;
    operands({"const i32 *places", "const i32 *table", "i32 *result"});
    return call("selectTokens", "places, table, result, live, rows");
  case KernelFamily::quant_head_argmax:
    return refuse("quant_head_argmax is a family of processors");
  case KernelFamily::accept:
    kernel.block = 32;
    operands({"const i32 *block", "const i32 *decided", "const i32 *start",
              "i32 *accepted", "i32 *anchor", "i32 *nextStart",
              "i32 *contextStart"});
    return call("accept", "block, decided, start, accepted, anchor, nextStart, "
                          "contextStart, live, rows");
  case KernelFamily::last_position:
    kernel.block = 32;
    operands({"const i32 *start", "const i32 *count", "i32 *result"});
    return call("lastPosition", "start, count, result");
  }
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

/// Whether kernels of \p family wait themselves for those in front.
static bool isLayer(KernelFamily family) {
  return family == KernelFamily::linear ||
         family == KernelFamily::quant_linear ||
         family == KernelFamily::fused_linear ||
         family == KernelFamily::fused_quant_linear ||
         family == KernelFamily::head_argmax ||
         family == KernelFamily::head_search ||
         family == KernelFamily::head_settle ||
         family == KernelFamily::head_draft;
}

Expected<CudaKernel> KernelEmitter::emit(std::string &text) {
  if (!isIdentifier(kernel.symbol))
    refuse("expects a name of letters, digits and underscores");
  emitFamily();
  kernel.startsEarly = target.startsEarly && order.hasState(kernel.symbol);
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
  os << "extern \"C\" __global__ void ";
  if (clusterBlocks > 1)
    os << "__cluster_dims__(1, " << clusterBlocks << ", 1) ";
  if (mostRegisters > 0) {
    os << "__block_size__((" << kernel.block << ", 1, 1)) __maxnreg__("
       << mostRegisters;
  } else {
    os << "__launch_bounds__(" << kernel.block;
    if (residentBlocks > 0)
      os << ", " << residentBlocks;
  }
  os << ")\n" << kernel.symbol << "(";
  for (StringRef parameter : parameters)
    os << parameter << ", ";
  os << "const i32 *live, i32 rows, u8 *scratch) {\n";
  if (leastRegisters > 0)
    os << "  if (rows < 0)\n    tandem::needRegisters<" << leastRegisters
       << ">(scratch);\n";
  // Some do something before.
  if (!waitsItself && !isLayer(kernel.family))
    os << "  tandem::waitForEarlierKernels();\n";
  os << calls << "}\n";
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

  LaunchOrder order(planModule);
  std::map<KernelFamily, CudaSource> sources;
  for (auto op : planModule.getOps<plan::KernelOp>()) {
    Expected<KernelSpec> spec = KernelSpec::create(op);
    if (!spec)
      return spec.takeError();
    CudaSource &source = sources[op.getFamily()];
    if (source.text.empty()) {
      source.name = stringifyKernelFamily(op.getFamily()).str();
      source.text = "// " + source.name + " for " + target.arch +
                    ": the choices; the template has the drawing.\n";
      for (StringRef header : getHeaders(op.getFamily()))
        source.text += ("#include \"" + header + "\"\n").str();
      source.text += "\nusing namespace tandem;\n";
    }
    int64_t rows = std::max<int64_t>(maxRows.lookup(op.getSymName()), 1);
    Expected<CudaKernel> kernel =
        KernelEmitter(*spec, op.getParameters(), target, order, rows)
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
