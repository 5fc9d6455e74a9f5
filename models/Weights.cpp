//===- Weights.cpp - From tensors of a checkpoint to weights --------------===//

#include "models/Weights.h"
#include "models/JsonFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace tandem::models;

/// Element types that lm.weight has.
static bool isFloat(DType dtype) {
  return dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16;
}

/// "[512, 128]".
static std::string printShape(ArrayRef<int64_t> shape) {
  return "[" +
         join(map_range(shape, [](int64_t dim) { return itostr(dim); }), ", ") +
         "]";
}

/// Index of the first element of \p tensor, a float tensor, that is infinite or
/// not a number.
static std::optional<int64_t> findNonFinite(const TensorView &tensor) {
  // Exponents of all ones. Elements are scanned as the bits they are.
  auto scan = [&]<typename Bits>(Bits exponent) -> std::optional<int64_t> {
    const uint8_t *data = tensor.bytes.data();
    for (int64_t index = 0, size = tensor.getNumElements(); index < size;
         ++index) {
      Bits bits = support::endian::read<Bits>(data + index * sizeof(Bits),
                                              endianness::little);
      if ((bits & exponent) == exponent)
        return index;
    }
    return std::nullopt;
  };
  switch (tensor.dtype) {
  case DType::BF16:
    return scan(uint16_t(0x7f80));
  case DType::F16:
    return scan(uint16_t(0x7c00));
  default:
    return scan(uint32_t(0x7f800000));
  }
}

WeightReader::WeightReader(
    const Checkpoint &checkpoint, StringRef role,
    const std::optional<QuantizationConfig> &quantization, StringRef configPath,
    ArrayRef<StringRef> prefixes)
    : checkpoint(checkpoint), role(role), quantization(quantization),
      configPath(configPath), prefixes(prefixes) {}

void WeightReader::fail(const Twine &message) {
  if (problem.empty())
    problem = message.str();
}

void WeightReader::mismatch(const TensorView &tensor, const Twine &expected) {
  std::string found;
  raw_string_ostream(found) << tensor;
  fail(tensor.file + ": tensor " + quote(tensor.name) + " is " + found +
       ", expected " + expected);
}

bool WeightReader::has(const Twine &name) const {
  return checkpoint.find(name.str());
}

const TensorView *WeightReader::take(const Twine &name, const Twine &why) {
  const TensorView *tensor = checkpoint.find(name.str());
  if (!tensor)
    fail(checkpoint.getDirectory() + ": tensor " + quote(name.str()) +
         " is missing" + why);
  else
    used.insert(tensor->name);
  return tensor;
}

Weight WeightReader::makeWeight(const TensorView &tensor) const {
  return {role, tensor.name, tensor.dtype, tensor.shape};
}

Weight WeightReader::getDense(const Twine &name, ArrayRef<int64_t> shape) {
  bool packed = has(name + "_packed") && !has(name);
  const TensorView *tensor =
      take(name, packed ? "; it is packed, which is not supported here" : "");
  if (!tensor)
    return {role, name.str(), DType::F32, SmallVector<int64_t, 4>(shape)};
  if (!isFloat(tensor->dtype) || ArrayRef(tensor->shape) != shape)
    mismatch(*tensor, "F32, BF16 or F16 " + printShape(shape));
  statistics.parameters += tensor->getNumElements();
  return makeWeight(*tensor);
}

//===----------------------------------------------------------------------===//
// Linear layers
//===----------------------------------------------------------------------===//

std::vector<std::string> WeightReader::getAliases(StringRef module) const {
  std::vector<std::string> names = {module.str()};
  for (StringRef prefix : prefixes) {
    StringRef rest = module;
    if (!rest.consume_front(prefix))
      continue;
    for (StringRef other : prefixes)
      names.push_back((other + rest).str());
    names.push_back(rest.str());
    break;
  }
  return names;
}

LinearWeight WeightReader::getLinear(const Twine &moduleName, int64_t rows,
                                     int64_t columns) {
  LinearWeight linear;
  linear.module = moduleName.str();
  linear.rows = rows;
  linear.columns = columns;
  std::string name = linear.module + ".weight";
  for (StringRef suffix : {".qweight", ".weight_scale_inv"})
    if (has(linear.module + suffix))
      fail(checkpoint.getDirectory() + ": tensor " +
           quote(linear.module + suffix.str()) +
           " is of a quantized format that is not supported");
  if (has(linear.module + ".bias"))
    fail(checkpoint.getDirectory() + ": tensor " +
         quote(linear.module + ".bias") + " is a bias, which is not supported");

  if (has(name + "_packed")) {
    if (has(name))
      fail(checkpoint.getDirectory() + ": module " + quote(linear.module) +
           " has both weight and weight_packed");
    readPacked(linear);
    return linear;
  }
  linear.weight = getDense(name, {rows, columns});
  ++statistics.denseModules;
  if (quantization) {
    std::vector<std::string> names = getAliases(linear.module);
    if (quantization->find(names) && !quantization->isIgnored(names))
      unexpectedlyDense.push_back(linear.module);
  }
  return linear;
}

void WeightReader::readPacked(LinearWeight &linear) {
  std::string name = linear.module + ".weight";
  std::vector<std::string> names = getAliases(linear.module);
  const PackedFormat *format =
      quantization ? quantization->find(names) : nullptr;
  if (!format) {
    fail(configPath + ": quantization_config: says nothing of module " +
         quote(linear.module) + ", which is packed");
    return;
  }
  if (quantization->isIgnored(names))
    unexpectedlyPacked.push_back(linear.module);
  linear.format = {format->bits,
                   format->group ? format->group : linear.columns};
  const TensorView *codes = take(name + "_packed");
  const TensorView *scales =
      take(name + "_scale", ", but the module's weight is packed");
  if (!codes || !scales)
    return;
  linear.weight = makeWeight(*codes);
  linear.scales = makeWeight(*scales);

  int64_t group = linear.format.group;
  if (linear.columns % group != 0) {
    fail(configPath + ": quantization_config: groups of " + Twine(group) +
         " columns do not divide the " + Twine(linear.columns) +
         " columns of module " + quote(linear.module));
    return;
  }
  SmallVector<int64_t, 2> codeShape = {
      linear.rows, static_cast<int64_t>(divideCeil(
                       linear.columns * linear.format.bits, int64_t(32)))};
  SmallVector<int64_t, 2> scaleShape = {linear.rows, linear.columns / group};
  if (codes->dtype != DType::I32 ||
      ArrayRef(codes->shape) != ArrayRef(codeShape))
    mismatch(*codes, "I32 " + printShape(codeShape));
  if (!isFloat(scales->dtype) ||
      ArrayRef(scales->shape) != ArrayRef(scaleShape))
    mismatch(*scales, "F32, BF16 or F16 " + printShape(scaleShape));
  else
    checkFinite(*scales);
  checkShapeTensor(linear);
  checkGroupIndex(linear);
  if (has(name + "_zero_point"))
    fail(checkpoint.getDirectory() + ": tensor " + quote(name + "_zero_point") +
         " holds zero points, which are not supported");
  statistics.parameters += linear.rows * linear.columns;
  ++statistics.packedModules[{linear.format.bits, group}];
}

void WeightReader::checkFinite(const TensorView &scales) {
  if (std::optional<int64_t> index = findNonFinite(scales))
    fail(scales.file + ": tensor " + quote(scales.name) +
         " is infinite or not "
         "a number at [" +
         Twine(*index / scales.shape[1]) + ", " +
         Twine(*index % scales.shape[1]) + "]");
}

/// weight_shape repeats the shape of the weight that was packed.
void WeightReader::checkShapeTensor(const LinearWeight &linear) {
  const TensorView *tensor = take(linear.module + ".weight_shape",
                                  ", but the module's weight is packed");
  if (!tensor)
    return;
  bool isI64 = tensor->dtype == DType::I64;
  if ((!isI64 && tensor->dtype != DType::I32) ||
      ArrayRef(tensor->shape) != ArrayRef<int64_t>({2})) {
    mismatch(*tensor, "I64 [2]");
    return;
  }
  auto read = [&](unsigned index) -> int64_t {
    const uint8_t *data = tensor->bytes.data();
    return isI64 ? support::endian::read64le(data + 8 * index)
                 : static_cast<int32_t>(
                       support::endian::read32le(data + 4 * index));
  };
  if (read(0) != linear.rows || read(1) != linear.columns)
    fail(tensor->file + ": tensor " + quote(tensor->name) + " holds " +
         printShape({read(0), read(1)}) + ", expected " +
         printShape({linear.rows, linear.columns}));
}

/// weight_g_idx gives every column its group. What says no more than the order
/// of the columns does is let pass.
void WeightReader::checkGroupIndex(const LinearWeight &linear) {
  std::string name = linear.module + ".weight_g_idx";
  if (!has(name))
    return;
  const TensorView *tensor = take(name);
  if (tensor->dtype != DType::I32 ||
      ArrayRef(tensor->shape) != ArrayRef<int64_t>({linear.columns})) {
    mismatch(*tensor, "I32 " + printShape({linear.columns}));
    return;
  }
  bool unset = true, inOrder = true;
  for (int64_t column = 0; column < linear.columns; ++column) {
    int32_t group = static_cast<int32_t>(
        support::endian::read32le(tensor->bytes.data() + 4 * column));
    unset &= group == -1;
    inOrder &= group == column / linear.format.group;
  }
  if (!unset && !inOrder)
    fail(tensor->file + ": tensor " + quote(name) +
         " reorders columns, which is not supported");
}

//===----------------------------------------------------------------------===//
// What is left out
//===----------------------------------------------------------------------===//

void WeightReader::skip(StringRef name) {
  if (checkpoint.find(name) && used.insert(name).second)
    ++statistics.skippedTensors;
}

void WeightReader::skipPrefix(StringRef prefix) {
  for (const TensorView &tensor : checkpoint.getTensors())
    if (StringRef(tensor.name).starts_with(prefix))
      skip(tensor.name);
}

void WeightReader::skipSuffix(StringRef suffix) {
  for (const TensorView &tensor : checkpoint.getTensors())
    if (StringRef(tensor.name).ends_with(suffix))
      skip(tensor.name);
}

Error WeightReader::finish() {
  for (const TensorView &tensor : checkpoint.getTensors())
    if (!used.contains(tensor.name))
      fail(tensor.file + ": tensor " + quote(tensor.name) +
           " is not part of the model");
  if (!problem.empty())
    return createStringError(problem);
  if (!unexpectedlyDense.empty())
    warn(configPath + ": quantization_config: would pack " +
         Twine(unexpectedlyDense.size()) + " modules that are dense, such as " +
         quote(unexpectedlyDense.front()) + "; the tensors count");
  if (!unexpectedlyPacked.empty())
    warn(configPath + ": quantization_config: ignores " +
         Twine(unexpectedlyPacked.size()) +
         " modules that are packed, such as " +
         quote(unexpectedlyPacked.front()) + "; the tensors count");
  return Error::success();
}
