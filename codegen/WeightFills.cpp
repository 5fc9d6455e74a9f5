//===- WeightFills.cpp - How synthetic weights are made -------------------===//

#include "codegen/WeightFills.h"
#include "dialects/lm/LmDialect.h"
#include "dialects/plan/KernelFamilies.h"
#include "models/Synthetic.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace llvm;
using namespace tandem;
using namespace tandem::codegen;
using artifact::ElementType;

/// The synthetic checkpoint that \p weight is made from. Tables without sources
/// are computed from their packing and lie in the file as ever.
static std::optional<models::SyntheticCheckpoint>
getCheckpoint(plan::WeightOp weight) {
  auto checkpoints = weight->getParentOfType<mlir::ModuleOp>()
                         ->getAttrOfType<mlir::DictionaryAttr>(
                             lm::LmDialect::kCheckpointsAttrName);
  if (!checkpoints || weight.getSources().empty())
    return std::nullopt;
  auto name = checkpoints.getAs<mlir::StringAttr>(weight.getCheckpoint());
  if (!name)
    return std::nullopt;
  return models::SyntheticCheckpoint::parse(name.getValue());
}

bool codegen::isSynthetic(plan::WeightOp weight) {
  return getCheckpoint(weight).has_value();
}

namespace {

/// The fields of artifact::Fill, but for the seed.
struct Fill {
  ElementType element;
  int64_t numbers, codes;
  double center, spread;
};

} // namespace

static ElementType getElement(mlir::Type type) {
  return type.isF32() ? ElementType::f32 : ElementType::bf16;
}

/// Outputs of \p columns products have the size of the inputs when weights have
/// this standard deviation.
static double getDeviation(int64_t columns) {
  return 1 / std::sqrt(double(columns));
}

/// \p numbers scales in front of \p codes bytes of codes.
static Fill makeCodes(mlir::Type scale, int64_t bits, int64_t columns,
                      int64_t numbers, int64_t codes) {
  // The deviation of codes that are spread evenly.
  double deviation = std::exp2(double(bits)) / std::sqrt(12);
  double center = getDeviation(columns) / deviation;
  return {getElement(scale), numbers, codes, center, center / 2};
}

/// Numbers alone, of any count.
static Fill makeNumbers(mlir::Type element, double center, double spread) {
  return {getElement(element), 1, 0, center, spread};
}

static std::optional<Fill> getFill(plan::PackingAttrInterface packing) {
  mlir::Type f32 = mlir::Float32Type::get(packing.getContext());
  return TypeSwitch<mlir::Attribute, std::optional<Fill>>(packing)
      .Case<plan::InterleavedAttr, plan::RowsAttr>([](auto dense) {
        // An even spread of s deviates by s / sqrt(3).
        return makeNumbers(dense.getElement(), 0,
                           std::sqrt(3) * getDeviation(dense.getColumns()));
      })
      .Case([](plan::InterleavedCodesAttr codes) {
        int64_t scaleBytes = codes.getScale().getIntOrFloatBitWidth() / 8;
        return makeCodes(codes.getScale(), codes.getBits(), codes.getColumns(),
                         codes.getScaleBytes() / scaleBytes,
                         codes.getGroupBytes() - codes.getScaleBytes());
      })
      .Case([](plan::FragmentCodesAttr codes) {
        int64_t scaleBytes = codes.getScale().getIntOrFloatBitWidth() / 8;
        return makeCodes(codes.getScale(), codes.getBits(), codes.getColumns(),
                         codes.getScaleBytes() / scaleBytes,
                         codes.getUnitBytes() - codes.getScaleBytes());
      })
      // Rows as above, whose largest entry is that of an even spread. Codes
      // and rows of a head that is searched have nothing to do with each
      // other, so what is found is no argmax; but as much is found.
      .Case([](plan::SearchCodesAttr codes) {
        return Fill{ElementType::f32, 0, codes.getTileBytes(), 0, 0};
      })
      .Case([&](plan::SearchScalesAttr search) {
        return makeNumbers(
            f32, std::sqrt(3) * getDeviation(search.getColumns()) / 127, 0);
      })
      .Case([&](plan::SearchErrorsAttr search) {
        double step = std::sqrt(3) * getDeviation(search.getColumns()) / 127;
        double columns = double(search.getColumns());
        double gamma = 2.5 * (columns + 32) * 0x1p-24;
        return makeNumbers(f32,
                           step * std::sqrt(columns / 12) + gamma + 0x1p-11, 0);
      })
      .Case([](plan::RoundedRowsAttr rows) {
        mlir::Type bf16 = mlir::BFloat16Type::get(rows.getContext());
        return makeCodes(bf16, 4, rows.getColumns(), plan::kTile,
                         rows.getGroupBytes() - plan::kTile * 2);
      })
      .Case([](plan::RoundedCodesAttr rounded) {
        plan::InterleavedCodesAttr codes = rounded.getCodes();
        return makeCodes(codes.getScale(), codes.getBits(), codes.getColumns(),
                         plan::kTile,
                         codes.getGroupBytes() - codes.getScaleBytes());
      })
      // Norms, with and without the offset of one, and the gates of the delta
      // rule.
      .Case([&](plan::VectorAttr) { return makeNumbers(f32, 0.5, 0.25); })
      .Case([&](plan::TapsAttr) { return makeNumbers(f32, 0.25, 0.25); })
      .Default([](mlir::Attribute) { return std::nullopt; });
}

Error codegen::checkFill(plan::WeightOp weight) {
  if (getFill(weight.getPacking()))
    return Error::success();
  std::string packing;
  raw_string_ostream(packing) << weight.getPacking();
  return createStringError("synthetic weights of packing " + packing +
                           " are not supported");
}

flatbuffers::Offset<artifact::Fill>
codegen::buildFill(flatbuffers::FlatBufferBuilder &builder,
                   plan::WeightOp weight) {
  Fill fill = *getFill(weight.getPacking());
  return artifact::CreateFill(builder, getCheckpoint(weight)->seed,
                              fill.element, fill.numbers, fill.codes,
                              float(fill.center), float(fill.spread));
}
