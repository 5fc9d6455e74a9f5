//===- CudaEmitter.cpp - plan.kernel to CUDA C++ --------------------------===//
//
// Numbers that a template could work out for itself but that the compiler has
// to know too (shared memory, scratch) are worked out here and compared by a
// static_assert in the generated file.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/KernelEmitter.h"
#include "dialects/plan/KernelFamilies.h"
#include "dialects/plan/SavedRows.h"

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
}

/// The same for families with more than one template.
SmallVector<StringRef> getHeaders(KernelFamily family) {
  // Of a prefill, and of a verified block with what is in front of it; they
  // know the others.
  if (family == KernelFamily::gated_delta)
    return {"delta_chunk.cuh", "delta_layer.cuh"};
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
  // The items of a block, the positions of a span, and the blocks that add
  // chunks up; attention.cuh. Launches of up to 16 rows are those of few
  // blocks.
  constexpr int64_t items = 64, span = 64, adders = 16, fewRows = 16;
  int64_t dim = get("dim"), heads = get("heads"), slots = get("slots");
  int64_t group = get("query_heads") / heads, window = get("window");
  if (dim > 256)
    refuse("expects a dim up to 256, but got " + Twine(dim));
  bool isCausal = get("causal") != 0, isGated = getOr("gated", 0) != 0;
  auto ceilDiv = [](int64_t a, int64_t b) {
    return static_cast<int64_t>(divideCeil(a, b));
  };
  // What a row sees may begin and end inside a span.
  int64_t mostSpans = ceilDiv(slots, span) + 1;
  int64_t fewBlocks = ceilDiv(group * fewRows, items);
  int64_t places = heads * fewBlocks;
  // Two blocks fit on a multiprocessor unless heads are long.
  int64_t resident = dim > 128 ? 1 : 2;
  int64_t blocks = std::max(
      std::min(target.processors * resident / places, mostSpans), adders);
  // Without a window chunks grow with the text.
  int64_t chunkSpans = 0, mostChunks = std::min(blocks, mostSpans);
  if (window > 0) {
    int64_t seen = isCausal ? window : 2 * window - 1;
    chunkSpans =
        ceilDiv(std::min(ceilDiv(seen - 1, span) + 1, mostSpans), blocks);
    mostChunks = ceilDiv(mostSpans, chunkSpans) + 1;
  }
  auto paddedDim = static_cast<int64_t>(alignTo(dim, 32));
  int64_t tileBytes = span * (paddedDim + 8) * 2;
  int64_t otherBytes = items * (span + 8) * 2 + 4 * items * 4;
  int64_t stages = std::clamp<int64_t>(
      (target.sharedLimit / resident - otherBytes) / tileBytes, 2, 4);
  int64_t ticketBytes = getTicketBytes(places * 2);
  numbers({{"dim", dim}, {"heads", heads}, {"queryHeads", get("query_heads")}});
  numbers({{"slots", slots}, {"window", window}});
  numbers({{"blocks", blocks},
           {"chunkSpans", chunkSpans},
           {"mostChunks", mostChunks}});
  numbers({{"fewBlocks", fewBlocks},
           {"stages", stages},
           {"ticketBytes", ticketBytes}});
  flag("causal", isCausal);
  flag("gated", isGated);
  real("scaleBy", spec.getFloat("scale_by"));

  kernel.block = 256;
  if (resident > 1)
    residentBlocks = resident;
  kernel.shared = stages * tileBytes + otherBytes;
  kernel.grid = {{blocks}, {1, group, items}, {heads}};
  kernel.scratch =
      ticketBytes + places * mostChunks * items * (paddedDim + 2) * 4;
  operands({"const bf16 *query", "const bf16 *cache", "const i32 *start"});
  if (isGated)
    parameters.push_back("const bf16 *gate");
  parameters.push_back("bf16 *output");
  call("attention", Twine("query, cache, start, ") +
                        (isGated ? "gate" : "nullptr") +
                        ", output, live, rows, scratch");
  assertions += "static_assert(Attention<" + getStruct() +
                ">::sharedBytes == " + std::to_string(kernel.shared) + ");\n";
}

void KernelEmitter::emitAttentionInputs() {
  // A warp a head.
  constexpr int64_t warps = 8, mostDim = 1024;
  int64_t heads = get("heads"), queryHeads = get("query_heads");
  int64_t caches = get("caches");
  if (get("dim") > mostDim)
    refuse("expects a dim up to 1024, but got " + Twine(get("dim")));
  bool isGated = get("gated") != 0;
  numbers({{"dim", get("dim")}, {"heads", heads}, {"queryHeads", queryHeads}});
  numbers({{"slots", get("slots")},
           {"dims", get("dims")},
           {"positions", get("positions")}});
  flag("gated", isGated);
  real("eps", spec.getFloat("eps"));
  real("offset", spec.getFloat("offset"));
  kernel.block = warps * 32;
  kernel.grid = {
      {static_cast<int64_t>(divideCeil(queryHeads + 2 * heads, warps))},
      {1, 1, 1},
      {caches}};
  std::string type = activationType();
  std::string input = "const " + type + " *", output = type + " *";
  auto add = [&](const std::string &type, StringRef name) {
    for (int64_t cache = 0; cache < caches; ++cache)
      parameters.push_back(type + name.str() + std::to_string(cache));
  };
  if (queryHeads)
    parameters = {input + "query", "const f32 *queryNorm"};
  add(input, "keys");
  add(input, "values");
  add("const f32 *", "norm");
  parameters.push_back("const i32 *start");
  parameters.push_back("const f32 *table");
  if (queryHeads)
    parameters.push_back(output + "rotated");
  if (isGated)
    parameters.push_back(output + "gate");
  add(output, "cache");
  // Nothing says the type of what is not there.
  StringRef query = queryHeads ? "query, queryNorm" : "nullptr, nullptr";
  StringRef results = isGated      ? "rotated, gate"
                      : queryHeads ? "rotated, nullptr"
                                   : "nullptr, nullptr";
  for (int64_t cache = 0; cache < caches; ++cache) {
    if (caches > 1)
      calls += "  if (blockIdx.z == " + std::to_string(cache) + ")\n  ";
    std::string index = std::to_string(cache);
    call("attentionInputs",
         query + ", keys" + index + ", values" + index + ", norm" + index +
             ", start, table, " + results + ", cache" + index + ", live, rows",
         type);
  }
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
  // Registers hold the keys of a column, eight lanes a column.
  if (get("key_dim") > 256)
    refuse("expects a key_dim up to 256, but got " + Twine(get("key_dim")));
  flag("commit", get("commit") != 0);
  real("scaleBy", spec.getFloat("scale_by"));
  kernel.block = 256;
  kernel.grid.x = {get("heads")};
  if (hasChunks())
    return emitDeltaChunks();
  kernel.grid.y = {static_cast<int64_t>(divideCeil(get("value_dim"), 32))};
  if (getOr("taps", 0))
    return emitDeltaLayer();
  operands({"const " + type + " *query", key, value, "const f32 *decay",
            "const f32 *beta", "const i32 *accepted"});
  bool isNormed = getOr("normed", 0) != 0;
  if (isNormed) {
    parameters.push_back("const " + type + " *gate");
    parameters.push_back("const f32 *weight");
  }
  parameters.push_back(type + " *output");
  parameters.push_back("u8 *cache");
  if (getOr("saves", 0)) {
    emitDeltaVerify(isNormed);
    return;
  }
  call("gatedDelta", "query, key, value, decay, beta, accepted, output, cache, "
                     "live, rows");
}

void KernelEmitter::emitDeltaVerify(bool isNormed) {
  // Norms of longer runs take a block.
  constexpr int64_t mostDim = 1024;
  if (!plan::canSaveRows(get("pending"), get("key_dim")) || get("commit"))
    refuse("expects few pending rows of short keys, not committed, but got " +
           Twine(get("pending")) + " of " + Twine(get("key_dim")));
  if (isNormed && get("value_dim") > mostDim)
    refuse("expects a value_dim up to 1024, but got " +
           Twine(get("value_dim")));
  emitVerifyScratch(isNormed);
  call("deltaVerify",
       Twine("query, key, value, decay, beta, accepted, ") +
           (isNormed ? "gate, weight" : "nullptr, nullptr") +
           ", output, cache, live, rows, scratch",
       activationType());
}

void KernelEmitter::emitDeltaLayer() {
  expectBf16();
  if (!plan::canMakeRows(get("pending"), get("heads"), get("key_heads"),
                         get("key_dim"), get("value_dim"), get("taps")))
    refuse("expects few pending rows and short heads of eights, but got " +
           Twine(get("pending")) + " rows of " + Twine(get("key_dim")) +
           " keys and " + Twine(get("value_dim")) + " values");
  numbers({{"taps", get("taps")}});
  real("inputEps", spec.getFloat("eps"));
  operands({"const bf16 *x", "const f32 *decayInput", "const f32 *betaInput",
            "const f32 *taps", "const f32 *logRate", "const f32 *bias",
            "const i32 *accepted", "const bf16 *gate", "const f32 *weight",
            "bf16 *output", "bf16 *convCache", "u8 *cache"});
  emitVerifyScratch(/*isNormed=*/true);
  call("deltaLayer",
       "{x, decayInput, betaInput, taps, logRate, bias, convCache}, accepted, "
       "gate, weight, output, cache, live, rows, scratch",
       "bf16");
}

/// What kernels of delta_verify.cuh have in common.
void KernelEmitter::emitVerifyScratch(bool isNormed) {
  constexpr int64_t mostRows = 16;
  int64_t ticketBytes = getTicketBytes(get("key_heads") + get("heads"));
  numbers({{"ticketBytes", ticketBytes}});
  flag("normed", isNormed);
  real("eps", isNormed ? spec.getFloat("norm_eps") : 0.0f);
  kernel.scratch = ticketBytes;
  if (isNormed)
    kernel.scratch += mostRows * get("heads") * get("value_dim") *
                      getByteWidth(activations());
  waitsItself = true;
}

/// Whether delta_chunk.cuh has the kernel: rows of a prefill, in bf16, and dims
/// that tensor cores multiply.
bool KernelEmitter::hasChunks() const {
  constexpr int64_t fewestRows = 65, mostKeys = 128, step = 16;
  return maxRows >= fewestRows && get("commit") != 0 &&
         activations() == FloatKind::BF16 && get("key_dim") % step == 0 &&
         get("key_dim") <= mostKeys && get("value_dim") % step == 0;
}

void KernelEmitter::emitDeltaChunks() {
  constexpr int64_t rows = 32, stages = 3;
  int64_t keyDim = get("key_dim");
  // Few values of many blocks, as long as all blocks run at once.
  int64_t values = 32;
  auto blocks = [&] {
    return get("heads") *
           static_cast<int64_t>(divideCeil(get("value_dim"), values));
  };
  if (blocks() > target.processors)
    values = 64;
  numbers({{"chunkValues", values}});
  kernel.grid.y = {static_cast<int64_t>(divideCeil(get("value_dim"), values))};
  // As delta_chunk.cuh draws it: three matrices of 16 x 16 and one of 32 x 32
  // in two parts, three vectors; two diagonal blocks in f32.
  int64_t stage = rows * (2 * (keyDim + 8) + values + 8) * 2;
  int64_t made =
      3 * 2 * 16 * (16 + 8) * 2 + 2 * rows * (rows + 8) * 2 + 3 * rows * 4;
  kernel.shared = stages * stage + 2 * made + 2 * 16 * 20 * 4;
  operands({"const bf16 *query", "const bf16 *key", "const bf16 *value",
            "const f32 *decay", "const f32 *beta", "const i32 *accepted",
            "bf16 *output", "u8 *cache"});
  call("deltaChunks",
       "query, key, value, decay, beta, accepted, output, cache, "
       "live, rows");
  assertions += "static_assert(DeltaChunks<" + getStruct() +
                ">::sharedBytes == " + std::to_string(kernel.shared) + ");\n";
}

void KernelEmitter::emitDeltaInputs() {
  // What a block of rows reads of those in front is its own tokens.
  constexpr int64_t rowsOfBlock = 16;
  if (get("taps") > rowsOfBlock)
    refuse("expects up to 16 taps, but got " + Twine(get("taps")));
  int64_t channels = get("channels"), keyHeads = get("key_heads");
  int64_t valueColumns = channels - 2 * keyHeads * get("key_dim");
  int64_t pack = std::min(getPack(get("key_dim")), getPack(valueColumns));
  numbers({{"channels", channels}, {"taps", get("taps")}});
  numbers({{"heads", get("heads")}, {"keyHeads", keyHeads}});
  numbers({{"keyDim", get("key_dim")}, {"pending", get("pending")}});
  flag("commit", get("commit") != 0);
  real("eps", spec.getFloat("eps"));
  kernel.block = 256;
  kernel.grid.x = {2 * keyHeads +
                   static_cast<int64_t>(divideCeil(valueColumns, 32 * pack)) +
                   1};
  kernel.grid.y = {1, 1, rowsOfBlock};
  std::string type = activationType();
  operands({"const " + type + " *x", "const f32 *decayInput",
            "const f32 *betaInput", "const f32 *weight", "const f32 *logRate",
            "const f32 *bias", "const i32 *accepted", type + " *query",
            type + " *key", type + " *value", "f32 *decay", "f32 *beta",
            type + " *cache"});
  call("deltaInputs",
       "x, decayInput, betaInput, weight, logRate, bias, accepted, query, key, "
       "value, decay, beta, cache, live, rows");
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
  os << "extern \"C\" __global__ void __launch_bounds__(" << kernel.block;
  if (residentBlocks > 0)
    os << ", " << residentBlocks;
  os << ")\n" << kernel.symbol << "(";
  for (StringRef parameter : parameters)
    os << parameter << ", ";
  os << "const i32 *live, i32 rows, u8 *scratch) {\n";
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
