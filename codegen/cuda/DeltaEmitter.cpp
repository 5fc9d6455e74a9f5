//===- DeltaEmitter.cpp - The gated delta rule in CUDA --------------------===//
//
// Row by row (gated_delta.cuh), a verified block and what is in front of it
// (delta_verify.cuh, delta_layer.cuh), and the chunks of a prefill
// (delta_chunk.cuh).
//
//===----------------------------------------------------------------------===//

#include "codegen/cuda/KernelEmitter.h"
#include "dialects/plan/SavedRows.h"

using namespace llvm;
using namespace tandem;
using namespace tandem::codegen;
using plan::KernelFamily;

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
  if (!plan::canSaveRows(get("pending"), get("key_dim")) || get("commit"))
    refuse("expects few pending rows of short keys, not committed, but got " +
           Twine(get("pending")) + " of " + Twine(get("key_dim")));
  if (isNormed &&
      !plan::canNormRows(get("value_dim"), getByteWidth(activations())))
    refuse("expects a value_dim that a warp reads at once, but got " +
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
  // Few registers, so that a block has room beside one of a layer of codes;
  // weights of more taps would not fit into them.
  constexpr int64_t fewTaps = 4;
  if (get("taps") <= fewTaps)
    residentBlocks = 2;
  call("deltaLayer",
       "{x, decayInput, betaInput, taps, logRate, bias, convCache}, accepted, "
       "gate, weight, output, cache, live, rows, scratch",
       "bf16");
}

/// What kernels of delta_verify.cuh have in common.
void KernelEmitter::emitVerifyScratch(bool isNormed) {
  constexpr int64_t mostRows = 16, values = 32;
  int64_t ticketBytes = getTicketBytes(get("key_heads"));
  numbers({{"ticketBytes", ticketBytes}});
  flag("normed", isNormed);
  real("eps", isNormed ? spec.getFloat("norm_eps") : 0.0f);
  kernel.scratch = ticketBytes;
  auto blocks = static_cast<int64_t>(divideCeil(get("value_dim"), values));
  // Each block leaves something for each.
  if (isNormed && blocks > 1)
    kernel.scratch += get("heads") * blocks * blocks * mostRows *
                      (values / getPack(get("value_dim"))) * 4;
  // Blocks of a head wait for each other: their numbers are consecutive.
  kernel.grid.x = {blocks};
  kernel.grid.y = {get("heads")};
  waitsItself = true;
}

/// Whether delta_chunk.cuh has the kernel: rows of a prefill, in bf16, and dims
/// that tensor cores multiply.
bool KernelEmitter::hasChunks() const {
  constexpr int64_t fewestRows = 33, mostKeys = 128, step = 16;
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
  waitsItself = true;
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
