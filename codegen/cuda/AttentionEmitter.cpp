//===- AttentionEmitter.cpp - Attention and its caches in CUDA ------------===//
//
// How positions are cut: attention.cuh draws it.
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/KernelEmitter.h"
#include "dialects/plan/AttentionLayer.h"

using namespace llvm;
using namespace tandem;
using namespace tandem::codegen;

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
  if (spec.has("dims"))
    return emitAttentionLayer();
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
  flag("knowsStart", target.startsEarly && order.knowsStart(kernel.symbol));
  waitsItself = true;
  real("scaleBy", spec.getFloat("scale_by"));

  kernel.block = 256;
  if (resident > 1)
    residentBlocks = resident;
  kernel.shared = stages * tileBytes + otherBytes;
  // More blocks of items have no chunks.
  int64_t mostRows = fewBlocks * items / group;
  kernel.grid = {{blocks, 0, 1, 0, mostRows}, {1, group, items}, {heads}};
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

/// Registers of a thread of attention_layer.cuh, so that a block has room
/// beside a layer of codes of either half.
static constexpr int64_t kLayerRegisters = 120;

void KernelEmitter::emitAttentionLayer() {
  int64_t dim = get("dim"), heads = get("heads"), slots = get("slots");
  int64_t group = get("query_heads") / heads, window = get("window");
  bool isCausal = get("causal") != 0, isGated = getOr("gated", 0) != 0;
  if (!target.copiesStretches)
    refuse("expects clusters of blocks for attention that makes its inputs");
  if (!plan::canMakeQueries(dim, heads, get("query_heads"), slots, get("dims")))
    return refuse("cannot make the inputs of attention of this shape");
  // Two-sided attention reads as many positions in all rows: then longer spans
  // are one for each chunk of a window.
  bool isLong = !isCausal && dim <= 128;
  int64_t rows = getOr("row_tile", 16), span = isLong ? 96 : 64;
  if (rows > 16 || maxRows > rows)
    return refuse("expects up to 16 rows in attention that makes its inputs");
  int64_t itemTiles = !isLong && rows * group <= 32 ? 2 : 4;
  // Clusters that have room at once, of every head.
  constexpr int64_t cluster = 4, mostClusters = 8;
  int64_t clusters = std::clamp<int64_t>(
      target.processors * 10 / 11 / cluster / heads, 1, mostClusters);
  constexpr int64_t warps = 8;
  int64_t parts = warps / itemTiles, items = itemTiles * 16;
  numbers({{"dim", dim}, {"heads", heads}, {"queryHeads", get("query_heads")}});
  numbers({{"slots", slots}, {"window", window}, {"rows", rows}});
  numbers({{"span", span}, {"itemTiles", itemTiles}});
  numbers({{"cluster", cluster}, {"clusters", clusters}});
  numbers({{"dims", get("dims")}, {"positions", get("positions")}});
  flag("causal", isCausal);
  flag("gated", isGated);
  flag("knowsStart", target.startsEarly && order.knowsStart(kernel.symbol));
  waitsItself = true;
  real("scaleBy", spec.getFloat("scale_by"));
  real("eps", spec.getFloat("eps"));
  real("offset", spec.getFloat("offset"));

  kernel.block = warps * 32;
  mostRegisters = kLayerRegisters;
  clusterBlocks = cluster;
  int64_t weightBytes = (2 * dim + rows * get("dims")) * 4;
  kernel.shared = (items + 2 * span) * (dim + 8) * 2 +
                  std::max(items * (span + 8) * 2, weightBytes) +
                  (parts + span / 16) * items * 4 + 16;
  if (kernel.shared > kSecondHalfBytes)
    refuse("needs more shared memory than half of a multiprocessor has");
  kernel.grid = {{clusters}, {1}, {heads}};
  // Units of 4 columns of an item, each with maximum and sum.
  kernel.scratch = heads * clusters * items * (dim / 4) * (16 + 8);
  operands({"const bf16 *query", "const f32 *queryNorm", "const bf16 *keys",
            "const bf16 *values", "const f32 *keyNorm", "const i32 *start",
            "const f32 *table", "bf16 *output", "bf16 *cache"});
  call("attentionLayer", "query, queryNorm, keys, values, keyNorm, start, "
                         "table, output, cache, live, rows, scratch");
  assertions += "static_assert(AttentionLayer<" + getStruct() +
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
  flag("knowsStart", target.startsEarly && order.knowsStart(kernel.symbol));
  flag("writesFirst", order.writesFirst(kernel.symbol));
  waitsItself = true;
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
