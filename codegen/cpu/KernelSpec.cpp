//===- KernelSpec.cpp - One kernel to be generated ------------------------===//

#include "codegen/cpu/KernelSpec.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::codegen;
using llvm::Twine;
using plan::KernelFamily;

/// Sizes up to this multiply in 64 bits whatever a kernel does with them.
static constexpr int64_t maxSize = int64_t(1) << 24;

int64_t KernelSpec::getInt(StringRef parameter) const {
  auto found = integers.find(parameter);
  assert(found != integers.end() && "not a parameter of the family");
  return found->second;
}

float KernelSpec::getFloat(StringRef parameter) const {
  auto found = floats.find(parameter);
  assert(found != floats.end() && "not a parameter of the family");
  return found->second;
}

FloatKind KernelSpec::getKind(StringRef parameter) const {
  auto found = kinds.find(parameter);
  assert(found != kinds.end() && "not a parameter of the family");
  return found->second;
}

static llvm::Error makeError(StringRef symbol, const Twine &message) {
  return llvm::createStringError("kernel '" + Twine(symbol) + "': " + message);
}

static std::string print(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << "'" << type << "'";
  return text;
}

llvm::Expected<KernelSpec> KernelSpec::create(plan::KernelOp kernel) {
  KernelSpec spec;
  spec.name = kernel.getSymName().str();
  spec.kernelFamily = kernel.getFamily();
  for (NamedAttribute parameter : kernel.getParameters()) {
    std::string name = parameter.getName().str();
    Attribute value = parameter.getValue();
    if (auto integer = dyn_cast<IntegerAttr>(value)) {
      spec.integers[name] = integer.getInt();
    } else if (auto number = dyn_cast<FloatAttr>(value)) {
      spec.floats[name] = static_cast<float>(number.getValueAsDouble());
    } else if (auto widths = dyn_cast<DenseI64ArrayAttr>(value)) {
      spec.partWidths = widths.asArrayRef().vec();
    } else if (auto type = dyn_cast<TypeAttr>(value)) {
      Type element = type.getValue();
      if (name == "arithmetic") {
        spec.productArithmetic = element.isBF16()       ? Arithmetic::BF16
                                 : element.isInteger(8) ? Arithmetic::I8
                                                        : Arithmetic::F32;
        continue;
      }
      if (!element.isF32() && !element.isBF16() && !element.isF16())
        return makeError(spec.name, "expects f32, bf16 or f16 as " + name +
                                        ", but got " + print(element));
      spec.kinds[name] = element.isF32()    ? FloatKind::F32
                         : element.isBF16() ? FloatKind::BF16
                                            : FloatKind::F16;
    }
  }
  if (llvm::Error error = spec.verify())
    return error;
  return spec;
}

llvm::Error KernelSpec::checkForProcessor() const {
  if (kernelFamily == KernelFamily::head_draft)
    return makeError(name, "only GPUs have a kernel of head_draft");
  // Absent: f32.
  for (const char *parameter : {"activations", "result"}) {
    auto found = kinds.find(parameter);
    if (found != kinds.end() && found->second != FloatKind::F32)
      return makeError(name,
                       Twine("expects f32 as ") + parameter +
                           " on a processor, but got " +
                           (found->second == FloatKind::BF16 ? "bf16" : "f16"));
  }
  if (kernelFamily == KernelFamily::attention && has("gated") &&
      getInt("gated") != 0)
    return makeError(name, "expects attention without a gate on a processor");
  if (kernelFamily == KernelFamily::attention && has("dims"))
    return makeError(name, "expects attention alone on a processor");
  if (kernelFamily == KernelFamily::gated_delta &&
      (has("saves") || has("normed") || has("taps")))
    return makeError(name, "expects a delta rule alone on a processor");
  if (kernelFamily == KernelFamily::attention_inputs)
    return makeError(name, "attention_inputs is a family of GPUs");
  return llvm::Error::success();
}

/// Narrow products take whole vectors of columns, and codes that are integers
/// without zero points.
llvm::Error KernelSpec::verifyArithmetic() const {
  if (productArithmetic == Arithmetic::F32)
    return llvm::Error::success();
  StringRef wanted = productArithmetic == Arithmetic::I8 ? "i8" : "bf16";
  if (has("bits")) {
    int64_t group = getInt("group");
    if (has("zero_points") || has("float_codes"))
      return makeError(name, "expects codes that are integers without zero "
                             "points for products in " +
                                 wanted);
    if (group % 16 != 0 || (group > 32 && group % 32 != 0))
      return makeError(name,
                       "expects groups of whole vectors for products in " +
                           wanted + ", but got " + Twine(group));
    return llvm::Error::success();
  }
  if (productArithmetic == Arithmetic::I8)
    return makeError(name, "expects codes for products in i8");
  // Rows are rounded to bf16 before they are to bytes.
  if (kernelFamily == KernelFamily::head_search)
    return llvm::Error::success();
  if (getKind("element") != FloatKind::BF16 || getInt("columns") % 16 != 0)
    return makeError(name, "expects bf16 weights and a multiple of 16 columns "
                           "for products in bf16, but got " +
                               Twine(getInt("columns")) + " columns");
  return llvm::Error::success();
}

llvm::Error KernelSpec::verify() const {
  // Numbers that are no sizes; all others are.
  auto mayBeAnything = [](StringRef parameter) {
    return parameter == "mask_token";
  };
  auto mayBeZero = [&](StringRef parameter) {
    return parameter == "causal" || parameter == "commit" ||
           parameter == "window" || parameter == "first" ||
           parameter == "left" || parameter == "right" ||
           parameter == "pending" || parameter == "norm" ||
           parameter == "residual" || parameter == "gated" ||
           parameter == "saves" || parameter == "normed" ||
           (parameter == "query_heads" &&
            kernelFamily == KernelFamily::attention_inputs);
  };
  for (const auto &[parameter, value] : integers) {
    if (mayBeAnything(parameter))
      continue;
    int64_t least = mayBeZero(parameter) ? 0 : 1;
    // The bytes of a copy can be a whole cache.
    int64_t most = parameter == "bytes" ? int64_t(1) << 40 : maxSize;
    if (value < least || value > most)
      return makeError(name, "expects " + parameter + " between " +
                                 Twine(least) + " and " + Twine(most) +
                                 ", but got " + Twine(value));
  }
  for (int64_t width : partWidths)
    if (width < 1 || width > maxSize)
      return makeError(name,
                       "expects positive widths, but got " + Twine(width));

  auto divides = [&](StringRef divisor, StringRef whole) -> llvm::Error {
    if (getInt(whole) % getInt(divisor) == 0)
      return llvm::Error::success();
    return makeError(name, "expects " + Twine(divisor) + " to divide " +
                               Twine(getInt(whole)) + " " + whole +
                               ", but got " + Twine(getInt(divisor)));
  };
  auto verifyGate = [&]() -> llvm::Error {
    if (!getInt("gated") ||
        (partWidths.size() == 2 && partWidths[0] == partWidths[1]))
      return llvm::Error::success();
    return makeError(name, "expects two equal widths when gated");
  };
  if (llvm::Error error = verifyArithmetic())
    return error;
  switch (kernelFamily) {
  case KernelFamily::fused_linear:
    return verifyGate();
  case KernelFamily::fused_quant_linear:
    if (llvm::Error error = verifyGate())
      return error;
    [[fallthrough]];
  case KernelFamily::quant_linear:
    if (getInt("bits") != 4 && getInt("bits") != 8)
      return makeError(name,
                       "expects 4 or 8 bits, but got " + Twine(getInt("bits")));
    return divides("group", "columns");
  case KernelFamily::rms_norm:
  case KernelFamily::gated_rms_norm:
  case KernelFamily::l2_norm:
    return divides("dim", "columns");
  case KernelFamily::split:
    for (int64_t width : partWidths)
      if (width % getInt("groups") != 0)
        return makeError(name, "expects groups to divide the width " +
                                   Twine(width) + ", but got " +
                                   Twine(getInt("groups")));
    return llvm::Error::success();
  case KernelFamily::rope:
    if (getInt("dims") % 2 != 0 || getInt("dims") > getInt("head_dim"))
      return makeError(name, "expects even dims up to head_dim, but got " +
                                 Twine(getInt("dims")));
    return divides("head_dim", "columns");
  case KernelFamily::attention_inputs:
    if (getInt("dims") % 2 != 0 || getInt("dims") > getInt("dim"))
      return makeError(name, "expects even dims up to dim, but got " +
                                 Twine(getInt("dims")));
    [[fallthrough]];
  case KernelFamily::cache_append:
  case KernelFamily::attention:
    if (getInt("slots") % plan::kTile != 0)
      return makeError(name, "expects slots to be a multiple of " +
                                 Twine(plan::kTile) + ", but got " +
                                 Twine(getInt("slots")));
    return kernelFamily == KernelFamily::attention
               ? divides("heads", "query_heads")
               : llvm::Error::success();
  case KernelFamily::gated_delta:
  case KernelFamily::delta_save:
    return divides("key_heads", "heads");
  case KernelFamily::unmask:
  case KernelFamily::mask_block:
    if (getInt("size") < (kernelFamily == KernelFamily::unmask ? 2 : 1))
      return makeError(name, "expects a larger size, but got " +
                                 Twine(getInt("size")));
    return llvm::Error::success();
  default:
    return llvm::Error::success();
  }
}
