//===- ContractBuilder.h - Makes the contract of a kernel -------*- C++ -*-===//
//
// What KernelContract.cpp makes of the parameters of a kernel and
// VerifyLaunch.cpp holds launches to.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_PASSES_CONTRACTBUILDER_H
#define TANDEM_PASSES_CONTRACTBUILDER_H

#include "dialects/plan/KernelFamilies.h"
#include "dialects/plan/PlanOps.h"

#include "llvm/Support/MathExtras.h"

namespace tandem::contract {

/// What an operand has to be: memory of a type, a weight of a packing, or
/// memory of so many bytes, whatever lies in it.
struct Operand {
  mlir::MemRefType memory = {};
  plan::PackingAttrInterface packing = {};
  int64_t bytes = 0;
};

/// What launches of a kernel look like.
struct Contract {
  llvm::SmallVector<Operand> inputs = {}, outputs = {};
  /// Items of a launch, or with `perRow` of a row.
  int64_t items = 1;
  bool perRow = false;
};

/// Makes the contract of a kernel for launches of some number of rows.
class ContractBuilder {
public:
  /// \p launch is the one that is looked at; it may be null.
  ContractBuilder(plan::KernelOp kernel, llvm::StringRef arch, int64_t rows,
                  plan::LaunchOp launch)
      : kernel(kernel), launch(launch), builder(kernel.getContext()),
        isGpu(plan::isGpu(arch)), rows(rows) {}

  /// Fails, with an error at the kernel, when there is none.
  mlir::FailureOr<Contract> build();

private:
  mlir::LogicalResult checkRelations();
  mlir::LogicalResult checkFragments();
  void addFamily();
  void addFusedLinear();
  void addDelta();
  void addAttentionInputs();
  void addAttentionLayer();

  //===-- Parameters ------------------------------------------------------===//

  mlir::Attribute parameter(llvm::StringRef name) {
    return kernel.getParameters().get(name);
  }
  int64_t number(llvm::StringRef name) {
    auto value = llvm::dyn_cast_or_null<mlir::IntegerAttr>(parameter(name));
    return value ? value.getInt() : 0;
  }
  mlir::Type type(llvm::StringRef name, mlir::Type otherwise) {
    auto value = llvm::dyn_cast_or_null<mlir::TypeAttr>(parameter(name));
    return value ? value.getValue() : otherwise;
  }
  llvm::ArrayRef<int64_t> widths() {
    return llvm::cast<mlir::DenseI64ArrayAttr>(parameter("widths"))
        .asArrayRef();
  }
  mlir::Type f32() { return builder.getF32Type(); }
  mlir::Type activations() { return type("activations", f32()); }
  mlir::Type result() { return type("result", activations()); }

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

  mlir::LogicalResult expectMultiple(llvm::StringRef name,
                                     llvm::StringRef divisor) {
    if (number(name) % number(divisor) == 0)
      return mlir::success();
    return kernel.emitOpError("expects ")
           << name << " to be a multiple of " << divisor << ", but got "
           << number(name) << " and " << number(divisor);
  }
  mlir::LogicalResult expectSlotTiles() {
    if (number("slots") % plan::kTile == 0)
      return mlir::success();
    return kernel.emitOpError("expects slots to be a multiple of ")
           << plan::kTile << ", but got " << number("slots");
  }

  //===-- Operands --------------------------------------------------------===//

  Operand memory(llvm::ArrayRef<int64_t> shape, mlir::Type element) {
    return {mlir::MemRefType::get(shape, element)};
  }
  Operand matrix(int64_t columns, mlir::Type element) {
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
    mlir::Type element = type("element", f32());
    return isGpu ? weight<plan::RowsAttr>(outputs, columns, element)
                 : weight<plan::InterleavedAttr>(outputs, columns, element);
  }
  Operand codes(int64_t outputs) {
    int64_t columns = number("columns"), bits = number("bits");
    int64_t group = number("group");
    mlir::Type scale = type("scale", f32());
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

  mlir::Value input(size_t index) {
    return launch && index < launch.getInputs().size()
               ? launch.getInputs()[index]
               : mlir::Value();
  }

  plan::KernelOp kernel;
  plan::LaunchOp launch;
  mlir::Builder builder;
  bool isGpu;
  int64_t rows;
  bool hasFailed = false;
  Contract contract;
};

} // namespace tandem::contract

#endif // TANDEM_PASSES_CONTRACTBUILDER_H
