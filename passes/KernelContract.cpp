//===- KernelContract.cpp - What a kernel expects of a launch -------------===//
//
// The order of the families is that of KernelFamilies.cpp, and so are the
// names of what they take. A layout that is one of two is that of the
// processor that the plan is for.
//
//===----------------------------------------------------------------------===//

#include "passes/KernelContract.h"
#include "dialects/plan/KernelFamilies.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace tandem;
using plan::KernelFamily;

namespace {

/// What an operand has to be: memory of a type, a weight of a packing, or
/// memory of so many bytes, whatever lies in it.
struct Operand {
  MemRefType memory = {};
  plan::PackingAttrInterface packing = {};
  int64_t bytes = 0;
};

/// What launches of a kernel look like.
struct Contract {
  SmallVector<Operand> inputs = {}, outputs = {};
  /// Items of a launch, or with `perRow` of a row.
  int64_t items = 1;
  bool perRow = false;
};

/// Makes the contract of a kernel for launches of some number of rows.
class ContractBuilder {
public:
  /// \p launch is the one that is looked at; it may be null.
  ContractBuilder(plan::KernelOp kernel, StringRef arch, int64_t rows,
                  plan::LaunchOp launch)
      : kernel(kernel), launch(launch), builder(kernel.getContext()),
        isGpu(plan::isGpu(arch)), rows(rows) {}

  /// Fails, with an error at the kernel, when there is none.
  FailureOr<Contract> build();

private:
  LogicalResult checkRelations();
  LogicalResult checkFragments();
  void addFamily();
  void addFusedLinear();
  void addDelta();
  void addAttentionInputs();
  void addAttentionLayer();

  //===-- Parameters ------------------------------------------------------===//

  Attribute parameter(StringRef name) {
    return kernel.getParameters().get(name);
  }
  int64_t number(StringRef name) {
    auto value = dyn_cast_or_null<IntegerAttr>(parameter(name));
    return value ? value.getInt() : 0;
  }
  Type type(StringRef name, Type otherwise) {
    auto value = dyn_cast_or_null<TypeAttr>(parameter(name));
    return value ? value.getValue() : otherwise;
  }
  ArrayRef<int64_t> widths() {
    return cast<DenseI64ArrayAttr>(parameter("widths")).asArrayRef();
  }
  Type f32() { return builder.getF32Type(); }
  Type activations() { return type("activations", f32()); }
  Type result() { return type("result", activations()); }

  /// A product that stops where no memory is that large. Parameters are below
  /// 2^31.
  static int64_t product(std::initializer_list<int64_t> factors) {
    constexpr int64_t most = plan::kMaxElements + 1;
    int64_t value = 1;
    for (int64_t factor : factors)
      value = factor != 0 && value > most / factor ? most : value * factor;
    return value;
  }
  static int64_t tiles(int64_t outputs) {
    return static_cast<int64_t>(llvm::divideCeil(outputs, plan::kTile));
  }

  LogicalResult expectMultiple(StringRef name, StringRef divisor) {
    if (number(name) % number(divisor) == 0)
      return success();
    return kernel.emitOpError("expects ")
           << name << " to be a multiple of " << divisor << ", but got "
           << number(name) << " and " << number(divisor);
  }
  LogicalResult expectSlotTiles() {
    if (number("slots") % plan::kTile == 0)
      return success();
    return kernel.emitOpError("expects slots to be a multiple of ")
           << plan::kTile << ", but got " << number("slots");
  }

  //===-- Operands --------------------------------------------------------===//

  Operand memory(ArrayRef<int64_t> shape, Type element) {
    return {MemRefType::get(shape, element)};
  }
  Operand matrix(int64_t columns, Type element) {
    return memory({rows, columns}, element);
  }
  Operand matrix(int64_t columns) { return matrix(columns, activations()); }
  /// Rows as products of up to 16 of them take them, and their squares.
  Operand fragments(int64_t columns) {
    return memory({number("row_tile"), columns}, activations());
  }
  Operand squares(int64_t columns) {
    return memory({columns / plan::kSquareColumns, number("row_tile")}, f32());
  }
  Operand tokens(int64_t count) {
    return memory({count}, builder.getI32Type());
  }
  Operand scalar() { return tokens(1); }

  /// A weight of the packing `Packing<arguments...>`.
  template <typename Packing, typename... Ts> Operand weight(Ts... arguments) {
    auto emitError = [&] { return kernel.emitOpError(); };
    Operand operand;
    if (auto packing =
            Packing::getChecked(emitError, kernel.getContext(), arguments...))
      operand.packing = packing;
    else
      hasFailed = true;
    return operand;
  }
  Operand vector(int64_t length) { return weight<plan::VectorAttr>(length); }
  Operand dense(int64_t outputs, int64_t columns) {
    Type element = type("element", f32());
    return isGpu ? weight<plan::RowsAttr>(outputs, columns, element)
                 : weight<plan::InterleavedAttr>(outputs, columns, element);
  }
  Operand codes(int64_t outputs) {
    int64_t columns = number("columns"), bits = number("bits");
    int64_t group = number("group");
    Type scale = type("scale", f32());
    bool zeroPoints = number("zero_points") != 0,
         floatCodes = number("float_codes") != 0;
    if (isGpu)
      return weight<plan::FragmentCodesAttr>(outputs, columns, bits, group,
                                             scale, zeroPoints, floatCodes);
    return weight<plan::InterleavedCodesAttr>(outputs, columns, bits, group,
                                              scale, zeroPoints, floatCodes);
  }
  Operand taps() {
    return weight<plan::TapsAttr>(number("taps"), number("channels"));
  }
  /// The tables that are input \p index.
  Operand ropeTable(size_t index);
  Operand tokenTable(size_t index);
  Operand keyValueCache() {
    return memory({2, number("heads"), number("slots"), number("dim")},
                  activations());
  }
  Operand convCache() {
    return memory({number("taps") - 1 + number("pending"), number("channels")},
                  activations());
  }
  Operand deltaCache();

  Value input(size_t index) {
    return launch && index < launch.getInputs().size()
               ? launch.getInputs()[index]
               : Value();
  }

  plan::KernelOp kernel;
  plan::LaunchOp launch;
  Builder builder;
  bool isGpu;
  int64_t rows;
  bool hasFailed = false;
  Contract contract;
};

} // namespace

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

/// Of fused layers: what may lie as products take it.
LogicalResult ContractBuilder::checkFragments() {
  bool from = number("from_fragments") != 0, to = number("to_fragments") != 0,
       next = number("next_norm") != 0;
  if (!from && !to && !next)
    return success();
  if (!isGpu)
    return kernel.emitOpError("expects a GPU for tokens in fragments");
  int64_t tile = number("row_tile");
  if (!parameter("row_tile") || tile > plan::kFragmentRows || rows > tile)
    return kernel.emitOpError("expects rows in a row_tile of up to ")
           << plan::kFragmentRows << " with tokens in fragments, but got "
           << rows << " and " << tile;
  if (from && !plan::canTakeFragments(kernel.getParameters()))
    return kernel.emitOpError("expects bf16 weights, or codes of 4 bits "
                              "without zero points in groups of 32, 64 or 128 "
                              "with scales in bf16, for bf16 tokens in "
                              "fragments");
  ArrayRef<int64_t> outputs = widths();
  if ((to || next) &&
      (outputs.front() % plan::kFragmentColumns != 0 || !result().isBF16()))
    return kernel.emitOpError("expects widths of a multiple of ")
           << plan::kFragmentColumns << " and bf16 results in fragments, but "
           << "got " << outputs.front() << " and " << result();
  if (to && ((outputs.size() != 1 && !number("gated")) || next))
    return kernel.emitOpError("expects a single result in fragments");
  if (next &&
      (!number("residual") || number("gated") || !parameter("next_offset")))
    return kernel.emitOpError("expects a residual, no gate and next_offset "
                              "where the next norm is prepared");
  return success();
}

LogicalResult ContractBuilder::checkRelations() {
  if (parameter("row_tile") &&
      !llvm::is_contained(plan::kRowTiles, number("row_tile")))
    return kernel.emitOpError(
               "expects a row_tile of 8, 16, 32, 64 or 128, but got ")
           << number("row_tile");
  switch (kernel.getFamily()) {
  case KernelFamily::rms_norm:
  case KernelFamily::gated_rms_norm:
  case KernelFamily::l2_norm:
    return expectMultiple("columns", "dim");
  case KernelFamily::split:
    for (int64_t width : widths())
      if (width % number("groups") != 0)
        return kernel.emitOpError("expects widths to be multiples of groups, "
                                  "but got ")
               << width << " and " << number("groups");
    return success();
  case KernelFamily::rope:
    if (number("dims") > number("head_dim"))
      return kernel.emitOpError("expects dims up to head_dim, but got ")
             << number("dims") << " and " << number("head_dim");
    return expectMultiple("columns", "head_dim");
  case KernelFamily::quant_head_argmax:
    if (number("bits") != 4 || !type("scale", f32()).isBF16())
      return kernel.emitOpError("expects 4 bits and scales in bf16, but got ")
             << number("bits") << " and " << type("scale", f32());
    return success();
  case KernelFamily::attention_inputs:
    if (number("dims") > number("dim"))
      return kernel.emitOpError("expects dims up to dim, but got ")
             << number("dims") << " and " << number("dim");
    if (number("query_heads") && number("caches") != 1)
      return kernel.emitOpError("expects one cache beside a query, but got ")
             << number("caches");
    if (number("gated") && !number("query_heads"))
      return kernel.emitOpError("expects a query beside its gate");
    return expectSlotTiles();
  case KernelFamily::cache_append:
    return expectSlotTiles();
  case KernelFamily::attention:
    if (failed(expectMultiple("query_heads", "heads")))
      return failure();
    for (StringRef name : {"eps", "offset", "positions"})
      if (number("dims") && !parameter(name))
        return kernel.emitOpError("expects ") << name << " beside dims";
    if (number("dims") > number("dim"))
      return kernel.emitOpError("expects dims up to dim, but got ")
             << number("dims") << " and " << number("dim");
    return expectSlotTiles();
  case KernelFamily::gated_delta:
    if (number("saves") && number("commit"))
      return kernel.emitOpError("expects rows to be saved or committed");
    if (number("normed") && (!number("saves") || !parameter("norm_eps")))
      return kernel.emitOpError("expects norm_eps, and rows to be saved, with "
                                "a norm");
    if (number("taps")) {
      int64_t channels = product({2, number("key_heads"), number("key_dim")}) +
                         product({number("heads"), number("value_dim")});
      if (!number("normed") || !parameter("eps"))
        return kernel.emitOpError("expects eps and a norm with taps");
      if (number("channels") != channels)
        return kernel.emitOpError("expects ")
               << channels << " channels, those of its heads, but got "
               << number("channels");
    }
    return expectMultiple("heads", "key_heads");
  case KernelFamily::delta_save:
    return expectMultiple("heads", "key_heads");
  case KernelFamily::unmask:
    if (number("size") < 2)
      return kernel.emitOpError("expects a slot behind the anchor, but got a "
                                "size of ")
             << number("size");
    return success();
  case KernelFamily::fused_linear:
  case KernelFamily::fused_quant_linear: {
    ArrayRef<int64_t> outputs = widths();
    bool isGated = number("gated") != 0;
    if (isGated && (outputs.size() != 2 || outputs[0] != outputs[1]))
      return kernel.emitOpError("expects two equal widths when gated, but "
                                "got ")
             << parameter("widths");
    if (number("residual") && !isGated && outputs.size() != 1)
      return kernel.emitOpError("expects one width when there is a residual, "
                                "but got ")
             << parameter("widths");
    return checkFragments();
  }
  case KernelFamily::delta_inputs: {
    int64_t keys = product({2, number("key_heads"), number("key_dim")});
    if (number("channels") <= keys)
      return kernel.emitOpError("expects channels behind the ")
             << keys << " of queries and keys, but got " << number("channels");
    return success();
  }
  default:
    return success();
  }
}

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

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// Compares the operands `given`, called `what`, with those of the contract.
static LogicalResult verifyOperands(plan::LaunchOp launch, StringRef what,
                                    ValueRange given,
                                    ArrayRef<Operand> expected) {
  if (given.size() != expected.size())
    return launch.emitOpError("expects ")
           << expected.size() << " " << what << "s of " << launch.getKernel()
           << ", but got " << given.size();
  for (auto [index, operand] : llvm::enumerate(expected)) {
    auto type = cast<MemRefType>(given[index].getType());
    if (operand.memory) {
      if (type != operand.memory)
        return launch.emitOpError("expects ")
               << what << " " << index << " to be " << operand.memory
               << ", but got " << type;
    } else if (operand.packing) {
      auto weight = given[index].getDefiningOp<plan::WeightOp>();
      if (!weight)
        return launch.emitOpError("expects ")
               << what << " " << index << " to be a weight, but got " << type;
      if (weight.getPacking() != operand.packing)
        return launch.emitOpError("expects ")
               << what << " " << index << " to be packed as " << operand.packing
               << ", but got " << weight.getPacking();
    } else {
      int64_t bytes =
          type.getNumElements() * (type.getElementTypeBitWidth() / 8);
      if (bytes != operand.bytes)
        return launch.emitOpError("expects ")
               << what << " " << index << " to have " << operand.bytes
               << " bytes, but got " << bytes;
    }
  }
  return success();
}

/// Items read what others write unless outputs are memory of their own. Only
/// `accept` reads everything before it writes.
static LogicalResult verifyApart(plan::LaunchOp launch, KernelFamily family) {
  for (auto [index, output] : llvm::enumerate(launch.getOutputs())) {
    if (llvm::is_contained(launch.getOutputs().take_front(index), output))
      return launch.emitOpError("writes output ")
             << index << " as another one, too";
    if (family != KernelFamily::accept &&
        (llvm::is_contained(launch.getInputs(), output) ||
         launch.getCount() == output))
      return launch.emitOpError("writes output ")
             << index << ", which it also reads";
  }
  return success();
}

/// Rows that are not committed wait in the cache, which has room for some.
static LogicalResult verifyPending(plan::LaunchOp launch,
                                   DictionaryAttr parameters) {
  auto pending = parameters.getAs<IntegerAttr>("pending");
  auto commit = parameters.getAs<IntegerAttr>("commit");
  if (!pending || (commit && commit.getInt() != 0))
    return success();
  auto rows = static_cast<int64_t>(launch.getRows());
  if (rows > pending.getInt())
    return launch.emitOpError("expects up to ")
           << pending.getInt() << " rows that are not committed, but got "
           << rows;
  return success();
}

LogicalResult tandem::verifyParameters(plan::KernelOp kernel, StringRef arch) {
  return ContractBuilder(kernel, arch, /*rows=*/1, nullptr).build();
}

LogicalResult tandem::verifyLaunch(plan::LaunchOp launch, plan::KernelOp kernel,
                                   StringRef arch) {
  auto rows = static_cast<int64_t>(launch.getRows());
  FailureOr<Contract> contract =
      ContractBuilder(kernel, arch, rows, launch).build();
  if (failed(contract) ||
      failed(verifyOperands(launch, "input", launch.getInputs(),
                            contract->inputs)) ||
      failed(verifyOperands(launch, "output", launch.getOutputs(),
                            contract->outputs)) ||
      failed(verifyApart(launch, kernel.getFamily())) ||
      failed(verifyPending(launch, kernel.getParameters())))
    return failure();
  // Grids of GPUs follow from the kernels.
  if (plan::isGpu(arch))
    return success();
  if (static_cast<int64_t>(launch.getItems()) != contract->items ||
      launch.getPerRow() != contract->perRow)
    return launch.emitOpError("expects ")
           << contract->items << " items"
           << (contract->perRow ? " per row" : "") << ", but got "
           << static_cast<int64_t>(launch.getItems())
           << (launch.getPerRow() ? " per row" : "");
  return success();
}
