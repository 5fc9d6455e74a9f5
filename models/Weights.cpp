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

bool tandem::models::isFloat(DType dtype) {
  return dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16;
}

std::string tandem::models::printShape(ArrayRef<int64_t> shape) {
  return "[" +
         join(map_range(shape, [](int64_t dim) { return itostr(dim); }), ", ") +
         "]";
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
  if (checkpoint.isSynthetic())
    return inventDense(name.str(), shape);
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

bool WeightReader::hasLinear(const Twine &module) const {
  for (StringRef suffix : {".weight", ".weight_packed", ".qweight"})
    if (has(module + suffix))
      return true;
  return false;
}

LinearWeight WeightReader::getLinear(const Twine &moduleName, int64_t rows,
                                     int64_t columns) {
  LinearWeight linear;
  linear.module = moduleName.str();
  linear.rows = rows;
  linear.columns = columns;
  if (checkpoint.isSynthetic()) {
    inventLinear(linear);
    return linear;
  }
  std::string name = linear.module + ".weight";
  if (has(linear.module + ".bias"))
    fail(checkpoint.getDirectory() + ": tensor " +
         quote(linear.module + ".bias") + " is a bias, which is not supported");

  // The tensors say whether it is packed, and whose way.
  using Method = PackedFormat::Method;
  bool packed = has(name + "_packed"), words = has(linear.module + ".qweight");
  auto failTwice = [&](StringRef first, StringRef second) {
    fail(checkpoint.getDirectory() + ": module " + quote(linear.module) +
         " has both " + first + " and " + second);
  };
  if (packed && words)
    failTwice("weight_packed", "qweight");
  if (has(name) && (packed || words))
    failTwice("weight", packed ? "weight_packed" : "qweight");
  const TensorView *own = checkpoint.find(name);
  if (packed) {
    readPacked(linear, Method::CompressedTensors);
    return linear;
  }
  if (words) {
    bool isAwq = quantization && quantization->getMethod() == Method::Awq;
    readPacked(linear, isAwq ? Method::Awq : Method::Gptq);
    return linear;
  }
  if (own && own->dtype == DType::F8E4M3) {
    readPacked(linear, Method::Float8);
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
  if (!otherVersion.empty())
    warn(configPath + ": quantization_config: " + Twine(otherVersion.size()) +
         " symmetric modules, such as " + quote(otherVersion.front()) +
         ", hold the zero points of another checkpoint_format; they are in "
         "the middle all the same");
  return Error::success();
}
