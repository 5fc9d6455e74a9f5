//===- PackedWeights.cpp - The tensors of packed linear layers ------------===//
//
// docs/formats.md says what each format looks like; the shapes are those that
// `#lm.source` draws.
//
//===----------------------------------------------------------------------===//

#include "models/JsonFile.h"
#include "models/Weights.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;
using namespace tandem::models;
using Method = PackedFormat::Method;

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

/// Index of the first element of \p tensor, a tensor of floats, that is
/// infinite or not a number.
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
  case DType::F8E4M3: {
    // No infinities, and a NaN of each sign.
    const uint8_t *nan = llvm::find_if(
        tensor.bytes, [](uint8_t bits) { return (bits & 0x7f) == 0x7f; });
    if (nan == tensor.bytes.end())
      return std::nullopt;
    return nan - tensor.bytes.begin();
  }
  default:
    return scan(uint32_t(0x7f800000));
  }
}

void WeightReader::checkFinite(const TensorView &tensor) {
  std::optional<int64_t> index = findNonFinite(tensor);
  if (!index)
    return;
  int64_t columns = tensor.shape.back();
  std::string place = tensor.shape.size() == 1
                          ? printShape({*index})
                          : printShape({*index / columns, *index % columns});
  fail(tensor.file + ": tensor " + quote(tensor.name) +
       " is infinite or not a number at " + place);
}

/// Entry \p index of a tensor of 32-bit words.
static uint32_t readWord(const TensorView &tensor, int64_t index) {
  return support::endian::read32le(tensor.bytes.data() + 4 * index);
}

//===----------------------------------------------------------------------===//
// Formats
//===----------------------------------------------------------------------===//

const PackedFormat *WeightReader::findFormat(StringRef module, Method method) {
  std::vector<std::string> names = getAliases(module);
  const PackedFormat *format =
      quantization ? quantization->find(names) : nullptr;
  if (!format) {
    fail(configPath + ": quantization_config: says nothing of module " +
         quote(module) + ", which is packed");
    return nullptr;
  }
  if (format->method != method) {
    fail(configPath + ": quantization_config.quant_method: is " +
         quote(quantization->getMethodName()) + ", but module " +
         quote(module) + " has tensors of another method");
    return nullptr;
  }
  if (quantization->isIgnored(names))
    unexpectedlyPacked.push_back(module.str());
  return format;
}

/// "int4 with zero points, groups of 32".
static std::string describeFormat(const PackedFormat &format) {
  if (format.method == Method::Float8)
    return "float8, blocks of " + std::to_string(format.blockRows) + " x " +
           std::to_string(format.group);
  return "int" + std::to_string(format.bits) +
         (format.zeroPoints ? " with zero points" : "") + ", groups of " +
         std::to_string(format.group);
}

void WeightReader::readPacked(LinearWeight &linear, Method method) {
  const PackedFormat *format = findFormat(linear.module, method);
  if (!format)
    return;
  linear.format = *format;
  if (format->group == 0)
    linear.format.group = linear.columns;
  if (format->blockRows == 0)
    linear.format.blockRows = linear.rows;
  if (!checkSizes(linear))
    return;
  switch (method) {
  case Method::CompressedTensors:
    readCompressedTensors(linear);
    break;
  case Method::Awq:
  case Method::Gptq:
    readTransposed(linear);
    break;
  case Method::Float8:
    readFloat8(linear);
    break;
  }
  statistics.parameters += linear.rows * linear.columns;
  ++statistics.packedModules[describeFormat(linear.format)];
}

bool WeightReader::checkSizes(const LinearWeight &linear) {
  const PackedFormat &format = linear.format;
  if (format.method == Method::Float8)
    return true; // blocks need not be whole
  if (linear.columns % format.group != 0) {
    fail(configPath + ": quantization_config: groups of " +
         Twine(format.group) + " columns do not divide the " +
         Twine(linear.columns) + " columns of module " + quote(linear.module));
    return false;
  }
  int64_t perWord = 32 / format.bits;
  if (format.method != Method::CompressedTensors &&
      (linear.rows % perWord != 0 || linear.columns % perWord != 0)) {
    fail(checkpoint.getDirectory() + ": module " + quote(linear.module) +
         " of " + Twine(linear.rows) + " x " + Twine(linear.columns) +
         " does not fill words of " + Twine(perWord) + " codes");
    return false;
  }
  return true;
}

void WeightReader::readScales(LinearWeight &linear, const Twine &name,
                              ArrayRef<int64_t> shape) {
  const TensorView *scales = take(name, ", but the module's weight is packed");
  if (!scales)
    return;
  linear.scales = makeWeight(*scales);
  // One scale in all need not be a matrix.
  bool isOne = shape == ArrayRef<int64_t>({1, 1}) &&
               ArrayRef(scales->shape) == ArrayRef<int64_t>({1});
  if (!isFloat(scales->dtype) || (ArrayRef(scales->shape) != shape && !isOne))
    mismatch(*scales, "F32, BF16 or F16 " + printShape(shape));
  else
    checkFinite(*scales);
}

const TensorView *WeightReader::takeWords(const Twine &name,
                                          ArrayRef<int64_t> shape,
                                          const Twine &why) {
  const TensorView *tensor = take(name, why);
  if (!tensor)
    return nullptr;
  if (tensor->dtype == DType::I32 && ArrayRef(tensor->shape) == shape)
    return tensor;
  mismatch(*tensor, "I32 " + printShape(shape));
  return nullptr;
}

/// weight_packed, weight_scale, weight_shape, weight_zero_point, weight_g_idx.
void WeightReader::readCompressedTensors(LinearWeight &linear) {
  std::string name = linear.module + ".weight";
  const PackedFormat &format = linear.format;
  int64_t perWord = 32 / format.bits;
  int64_t groups = linear.columns / format.group;
  if (const TensorView *codes =
          takeWords(name + "_packed",
                    {linear.rows, divideCeilSigned(linear.columns, perWord)}))
    linear.weight = makeWeight(*codes);
  readScales(linear, name + "_scale",
             {divideCeilSigned(linear.rows, format.blockRows), groups});
  checkShapeTensor(linear);
  std::string index = name + "_g_idx";
  if (has(index))
    checkGroupIndex(linear, index);
  else if (format.reorders)
    fail(checkpoint.getDirectory() + ": tensor " + quote(index) +
         " is missing, but actorder in " + configPath + " is 'group'");
  std::string zeros = name + "_zero_point";
  if (!format.zeroPoints) {
    if (has(zeros))
      fail(checkpoint.getDirectory() + ": tensor " + quote(zeros) +
           " holds zero points, but " + configPath +
           ": quantization_config says symmetric");
    return;
  }
  if (const TensorView *tensor =
          takeWords(zeros, {divideCeilSigned(linear.rows, perWord), groups},
                    ", but the module is not symmetric"))
    linear.zeros = makeWeight(*tensor);
}

/// qweight, scales, qzeros, g_idx of AutoAWQ and GPTQ.
void WeightReader::readTransposed(LinearWeight &linear) {
  const std::string &module = linear.module;
  PackedFormat &format = linear.format;
  int64_t perWord = 32 / format.bits;
  int64_t groups = linear.columns / format.group;
  bool isAwq = format.method == Method::Awq;
  SmallVector<int64_t, 2> shape = {linear.columns, linear.rows / perWord};
  if (!isAwq)
    shape = {linear.columns / perWord, linear.rows};
  if (const TensorView *codes = takeWords(module + ".qweight", shape))
    linear.weight = makeWeight(*codes);
  readScales(linear, module + ".scales", {groups, linear.rows});
  if (has(module + ".g_idx"))
    checkGroupIndex(linear, module + ".g_idx");
  else if (format.reorders)
    fail(checkpoint.getDirectory() + ": tensor " + quote(module + ".g_idx") +
         " is missing, but desc_act in " + configPath + " is true");
  const TensorView *zeros =
      takeWords(module + ".qzeros", {groups, linear.rows / perWord},
                ", but the module's weight is packed");
  if (!zeros)
    return;
  if (format.zeroPoints)
    linear.zeros = makeWeight(*zeros);
  else
    checkMiddle(linear, *zeros);
}

void WeightReader::checkMiddle(const LinearWeight &linear,
                               const TensorView &zeros) {
  // Files are known that say one version and store the other's zero points.
  // Either way it is the code in the middle: 8 of 16.
  uint32_t middle = linear.format.bits == 4 ? 0x88888888 : 0x80808080;
  uint32_t lessOne = linear.format.bits == 4 ? 0x77777777 : 0x7f7f7f7f;
  uint32_t first = readWord(zeros, 0);
  bool known = first == middle || first == lessOne;
  for (int64_t index = 0; known && index < zeros.getNumElements(); ++index)
    known = readWord(zeros, index) == first;
  if (!known) {
    fail(zeros.file + ": tensor " + quote(zeros.name) +
         " holds zero points other than " +
         Twine(int64_t(1) << (linear.format.bits - 1)) + ", but sym in " +
         configPath + " is true");
    return;
  }
  if ((first == lessOne) != (linear.format.zeroOffset == 1))
    otherVersion.push_back(linear.module);
}

/// weight in e4m3 and weight_scale_inv, which is multiplied with despite its
/// name.
void WeightReader::readFloat8(LinearWeight &linear) {
  std::string name = linear.module + ".weight";
  const TensorView *codes = take(name);
  if (!codes)
    return;
  linear.weight = makeWeight(*codes);
  SmallVector<int64_t, 2> shape = {linear.rows, linear.columns};
  if (ArrayRef(codes->shape) != ArrayRef(shape))
    mismatch(*codes, "F8_E4M3 " + printShape(shape));
  else
    checkFinite(*codes);
  readScales(linear, name + "_scale_inv",
             {divideCeilSigned(linear.rows, linear.format.blockRows),
              divideCeilSigned(linear.columns, linear.format.group)});
}

//===----------------------------------------------------------------------===//
// What stands beside codes and scales
//===----------------------------------------------------------------------===//

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

/// Gives every column its group. What says no more than the order of the
/// columns does is let pass.
void WeightReader::checkGroupIndex(const LinearWeight &linear,
                                   const Twine &name) {
  const TensorView *tensor = takeWords(name, {linear.columns});
  if (!tensor)
    return;
  int64_t groups = linear.columns / linear.format.group;
  bool unset = true, inOrder = true;
  for (int64_t column = 0; column < linear.columns; ++column) {
    auto group = static_cast<int32_t>(readWord(*tensor, column));
    if (group < -1 || group >= groups) {
      fail(tensor->file + ": tensor " + quote(tensor->name) + " gives column " +
           Twine(column) + " group " + Twine(group) + ", expected 0 to " +
           Twine(groups - 1));
      return;
    }
    unset &= group == -1;
    inOrder &= group == column / linear.format.group;
  }
  if (!unset && !inOrder)
    fail(tensor->file + ": tensor " + quote(tensor->name) +
         " reorders columns, which is not supported");
}
