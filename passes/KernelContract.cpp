//===- KernelContract.cpp - What a kernel expects of a launch -------------===//
//
// The order of the families is that of KernelFamilies.cpp, and so are the
// names of what they take. A layout that is one of two is that of the
// processor that the plan is for.
//
//===----------------------------------------------------------------------===//

#include "passes/ContractBuilder.h"

#include <numeric>

using namespace mlir;
using namespace tandem;
using namespace tandem::contract;
using plan::KernelFamily;

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// Any tokens will do, as long as there are so many.
Operand ContractBuilder::tokenTable(size_t index) {
  lm::TokenSetAttr set;
  if (Value table = input(index))
    if (auto given = table.getDefiningOp<plan::WeightOp>())
      if (auto packing = dyn_cast<plan::TokenTableAttr>(given.getPacking()))
        set = packing.getSet();
  Operand operand;
  operand.bytes = 4 * number("entries");
  if (set && set.size() == number("entries"))
    operand.packing = plan::TokenTableAttr::get(kernel.getContext(), set);
  return operand;
}

/// Any theta will do: it is in the numbers of the table alone.
Operand ContractBuilder::ropeTable(size_t index) {
  FloatAttr theta = builder.getF64FloatAttr(1);
  if (Value table = input(index))
    if (auto given = table.getDefiningOp<plan::WeightOp>())
      if (auto packing = dyn_cast<plan::RopeTableAttr>(given.getPacking()))
        theta = packing.getTheta();
  return weight<plan::RopeTableAttr>(number("positions"), number("dims"),
                                     theta);
}

Operand ContractBuilder::deltaCache() {
  int64_t heads = number("heads"), pending = number("pending");
  int64_t keyDim = number("key_dim"), valueDim = number("value_dim");
  int64_t keys = product({pending, number("key_heads"), keyDim});
  int64_t values = product({pending, heads, valueDim});
  int64_t gates = product({2, pending, heads});
  if (!isGpu)
    return memory({product({heads, tiles(valueDim), keyDim, plan::kTile}) +
                   keys + values + gates},
                  f32());
  int64_t width = activations().getIntOrFloatBitWidth() / 8;
  Operand operand;
  operand.bytes = 4 * product({heads, valueDim, keyDim}) +
                  static_cast<int64_t>(llvm::alignTo(width * keys, 4)) +
                  static_cast<int64_t>(llvm::alignTo(width * values, 4)) +
                  4 * gates;
  return operand;
}

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

void ContractBuilder::addFusedLinear() {
  bool isQuantized = kernel.getFamily() == KernelFamily::fused_quant_linear;
  int64_t columns = number("columns");
  SmallVector<int64_t> results(widths());
  if (number("gated"))
    results.pop_back();
  bool fromFragments = number("from_fragments") != 0;
  contract.inputs.push_back(fromFragments ? fragments(columns)
                                          : matrix(columns));
  for (int64_t width : widths())
    contract.inputs.push_back(isQuantized ? codes(width)
                                          : dense(width, columns));
  if (number("norm"))
    contract.inputs.push_back(fromFragments ? squares(columns)
                                            : vector(columns));
  if (number("residual"))
    contract.inputs.push_back(matrix(results[0]));
  contract.items = 0;
  for (int64_t width : results) {
    contract.outputs.push_back(
        number("to_fragments") ? fragments(width) : matrix(width, result()));
    contract.items += tiles(width);
  }
  if (number("next_norm")) {
    contract.inputs.push_back(vector(results[0]));
    contract.outputs.push_back(fragments(results[0]));
    contract.outputs.push_back(squares(results[0]));
  }
}

/// gated_delta, and delta_save, which takes what it leaves waiting.
void ContractBuilder::addDelta() {
  int64_t heads = number("heads");
  int64_t keys = product({number("key_heads"), number("key_dim")});
  int64_t values = product({heads, number("value_dim")});
  contract.inputs = {matrix(keys), matrix(values), matrix(heads, f32()),
                     matrix(heads, f32())};
  if (kernel.getFamily() == KernelFamily::delta_save) {
    contract.outputs = {deltaCache()};
    contract.perRow = true;
    return;
  }
  contract.inputs.insert(contract.inputs.begin(), matrix(keys));
  contract.inputs.push_back(scalar());
  if (number("normed")) {
    contract.inputs.push_back(matrix(values));
    contract.inputs.push_back(vector(number("value_dim")));
  }
  contract.outputs = {matrix(values), deltaCache()};
  if (number("taps")) {
    // What delta_inputs would make is made here.
    Operand gates = matrix(heads, f32());
    SmallVector<Operand> behind(llvm::drop_begin(contract.inputs, 5));
    contract.inputs = {matrix(number("channels")),
                       gates,
                       gates,
                       taps(),
                       vector(heads),
                       vector(heads)};
    llvm::append_range(contract.inputs, behind);
    contract.outputs.insert(contract.outputs.begin() + 1, convCache());
  }
  contract.items = product({heads, tiles(number("value_dim"))});
}

/// Queries, then what every cache takes, all of one kind together.
void ContractBuilder::addAttentionInputs() {
  auto caches = static_cast<size_t>(number("caches"));
  Operand keys = matrix(product({number("heads"), number("dim")}));
  int64_t queries = product({number("query_heads"), number("dim")});
  if (queries) {
    contract.inputs = {matrix(product({number("gated") ? 2 : 1, queries})),
                       vector(number("dim"))};
    contract.outputs.assign(number("gated") ? 2 : 1, matrix(queries));
  }
  contract.inputs.append(2 * caches, keys);
  contract.inputs.append(caches, vector(number("dim")));
  contract.inputs.push_back(scalar());
  contract.inputs.push_back(ropeTable(contract.inputs.size()));
  contract.outputs.append(caches, keyValueCache());
  contract.perRow = true;
}

/// What attention_inputs takes of one cache, which is written, too.
void ContractBuilder::addAttentionLayer() {
  Operand keys = matrix(product({number("heads"), number("dim")}));
  int64_t queries = product({number("query_heads"), number("dim")});
  Operand norm = vector(number("dim"));
  contract.inputs = {matrix(product({number("gated") ? 2 : 1, queries})),
                     norm,
                     keys,
                     keys,
                     norm,
                     scalar()};
  contract.inputs.push_back(ropeTable(contract.inputs.size()));
  contract.outputs = {matrix(queries), keyValueCache()};
}

void ContractBuilder::addFamily() {
  int64_t columns = number("columns"), outputs = number("outputs");
  Contract &c = contract;
  switch (kernel.getFamily()) {
  case KernelFamily::embed:
    c = {{tokens(rows), dense(number("vocabulary"), columns)},
         {matrix(columns)},
         1,
         true};
    return;
  case KernelFamily::linear:
    c = {{matrix(columns), dense(outputs, columns)},
         {matrix(outputs, result())},
         tiles(outputs)};
    return;
  case KernelFamily::quant_linear:
    c = {{matrix(columns), codes(outputs)},
         {matrix(outputs, result())},
         tiles(outputs)};
    return;
  case KernelFamily::rms_norm:
    c = {{matrix(columns), vector(number("dim"))}, {matrix(columns)}, 1, true};
    return;
  case KernelFamily::gated_rms_norm:
    c = {{matrix(columns), matrix(columns), vector(number("dim"))},
         {matrix(columns)},
         1,
         true};
    return;
  case KernelFamily::l2_norm:
  case KernelFamily::silu:
  case KernelFamily::sigmoid:
    c = {{matrix(columns)}, {matrix(columns)}, 1, true};
    return;
  case KernelFamily::add:
  case KernelFamily::mul:
    c = {{matrix(columns), matrix(columns)}, {matrix(columns)}, 1, true};
    return;
  case KernelFamily::last_row:
    c = {{matrix(columns), scalar()}, {memory({1, columns}, activations())}};
    return;
  case KernelFamily::drop_rows:
    c = {{memory({rows + number("first"), columns}, activations())},
         {matrix(columns)},
         1,
         true};
    return;
  case KernelFamily::split:
  case KernelFamily::concat_features: {
    SmallVector<Operand> parts;
    for (int64_t width : widths())
      parts.push_back(matrix(width));
    ArrayRef<int64_t> all = widths();
    SmallVector<Operand> whole = {
        matrix(std::accumulate(all.begin(), all.end(), int64_t(0)))};
    bool isSplit = kernel.getFamily() == KernelFamily::split;
    c = {isSplit ? whole : parts, isSplit ? parts : whole, 1, true};
    return;
  }
  case KernelFamily::rope:
    c = {{matrix(columns), scalar(), ropeTable(2)}, {matrix(columns)}, 1, true};
    return;
  case KernelFamily::cache_append: {
    Operand keys = matrix(product({number("heads"), number("dim")}));
    c = {{keys, keys, scalar()}, {keyValueCache()}, number("heads")};
    return;
  }
  case KernelFamily::attention: {
    Operand query = matrix(product({number("query_heads"), number("dim")}));
    c = {{query, keyValueCache(), scalar()},
         {query},
         number("query_heads"),
         true};
    if (number("gated"))
      c.inputs.push_back(query);
    if (number("dims"))
      addAttentionLayer();
    return;
  }
  case KernelFamily::short_conv:
    c = {{matrix(number("channels")), taps(), scalar()},
         {matrix(number("channels")), convCache()},
         tiles(number("channels"))};
    return;
  case KernelFamily::delta_gate:
    c = {{matrix(columns), vector(columns), vector(columns)},
         {matrix(columns, f32())},
         1,
         true};
    return;
  case KernelFamily::gated_delta:
  case KernelFamily::delta_save:
    return addDelta();
  case KernelFamily::argmax:
    c = {{matrix(columns, f32())}, {tokens(rows)}, 1, true};
    return;
  case KernelFamily::mask_block:
    c = {{scalar()}, {tokens(number("size"))}};
    return;
  case KernelFamily::unmask:
    c = {{tokens(number("size")), memory({number("size") - 1, columns}, f32())},
         {tokens(number("size"))}};
    return;
  case KernelFamily::concat_tokens:
    c = {{tokens(number("left")), tokens(number("right"))},
         {tokens(number("left") + number("right"))}};
    return;
  case KernelFamily::accept:
    c = {{tokens(rows), tokens(rows), scalar()},
         {scalar(), scalar(), scalar(), scalar()}};
    return;
  case KernelFamily::copy: {
    Operand any;
    any.bytes = number("bytes");
    c = {{any}, {any}};
    return;
  }
  case KernelFamily::fused_linear:
  case KernelFamily::fused_quant_linear:
    return addFusedLinear();
  case KernelFamily::delta_inputs: {
    int64_t keys = product({number("key_heads"), number("key_dim")});
    int64_t values = number("channels") - 2 * keys;
    // What is exponentiated is f32, whatever the activations are.
    Operand gate = matrix(number("heads"), f32());
    c = {{matrix(number("channels")), gate, gate, taps(),
          vector(number("heads")), vector(number("heads")), scalar()},
         {matrix(keys), matrix(keys), matrix(values), gate, gate, convCache()},
         2 * number("key_heads") + tiles(values) + 1};
    return;
  }
  case KernelFamily::head_argmax: {
    auto parts =
        static_cast<int64_t>(llvm::divideCeil(outputs, plan::kHeadPart));
    c = {{matrix(columns), dense(outputs, columns)},
         {matrix(parts, f32()), matrix(parts, builder.getI32Type())},
         parts};
    return;
  }
  case KernelFamily::quant_head_argmax: {
    auto parts =
        static_cast<int64_t>(llvm::divideCeil(outputs, plan::kHeadPart));
    c = {{matrix(columns),
          weight<plan::RoundedCodesAttr>(outputs, columns, number("group"))},
         {matrix(parts, f32()), matrix(parts, builder.getI32Type())},
         parts};
    return;
  }
  case KernelFamily::select_tokens:
    c = {{tokens(rows), tokenTable(1)}, {tokens(rows)}, 1, true};
    return;
  case KernelFamily::argmax_parts:
    c = {{matrix(number("parts"), f32()),
          matrix(number("parts"), builder.getI32Type())},
         {tokens(rows)},
         1,
         true};
    return;
  case KernelFamily::last_position:
    c = {{scalar(), scalar()}, {scalar()}};
    return;
  case KernelFamily::attention_inputs:
    return addAttentionInputs();
  case KernelFamily::head_search: {
    int64_t parts = plan::getHeadParts(outputs, isGpu);
    c = {{matrix(columns),
          weight<plan::SearchCodesAttr>(outputs, columns, isGpu),
          weight<plan::SearchScalesAttr>(outputs, columns),
          weight<plan::SearchErrorsAttr>(outputs, columns)},
         {matrix(tiles(outputs), f32()), matrix(parts, f32())},
         parts};
    return;
  }
  case KernelFamily::head_settle: {
    int64_t parts = plan::getHeadParts(outputs, isGpu);
    Type i32 = builder.getI32Type();
    c = {{matrix(columns), dense(outputs, columns),
          matrix(tiles(outputs), f32()), matrix(parts, f32())},
         {matrix(parts, f32()), matrix(parts, i32), matrix(parts, i32)},
         parts};
    return;
  }
  case KernelFamily::head_draft:
    c = {{matrix(columns),
          weight<plan::RoundedRowsAttr>(outputs, columns, number("group"))},
         {tokens(rows)}};
    return;
  case KernelFamily::settled_argmax: {
    Type i32 = builder.getI32Type();
    Operand parts = matrix(number("parts"), i32);
    c = {{matrix(number("parts"), f32()), parts, parts},
         {tokens(rows), tokens(plan::kHeadCounts)},
         1,
         true};
    return;
  }
  }
}

FailureOr<Contract> ContractBuilder::build() {
  if (failed(checkRelations()))
    return failure();
  addFamily();
  if (hasFailed)
    return failure();
  return std::move(contract);
}
