//===- SyntheticWeights.cpp - Weights of a checkpoint without tensors -----===//

#include "models/Weights.h"

#include "llvm/Support/MathExtras.h"

using namespace llvm;
using namespace tandem::models;

Weight WeightReader::inventDense(const std::string &name,
                                 ArrayRef<int64_t> shape) {
  int64_t elements = 1;
  for (int64_t dim : shape)
    elements *= dim;
  statistics.parameters += elements;
  return {role, name, DType::BF16, SmallVector<int64_t, 4>(shape)};
}

/// A module is packed when the configuration says so: there is nothing else to
/// go by.
void WeightReader::inventLinear(LinearWeight &linear) {
  std::string name = linear.module + ".weight";
  std::vector<std::string> names = getAliases(linear.module);
  const PackedFormat *format = quantization && !quantization->isIgnored(names)
                                   ? quantization->find(names)
                                   : nullptr;
  if (!format) {
    linear.weight = inventDense(name, {linear.rows, linear.columns});
    ++statistics.denseModules;
    return;
  }
  if (format->method != PackedFormat::Method::CompressedTensors ||
      format->zeroPoints)
    return fail(configPath + ": quantization_config: synthetic weights are "
                             "those of compressed-tensors without zero points");
  int64_t group = format->group ? format->group : linear.columns;
  if (linear.columns % group != 0)
    return fail(configPath + ": quantization_config: groups of " +
                Twine(group) + " columns do not divide the " +
                Twine(linear.columns) + " columns of module '" + linear.module +
                "'");
  linear.format = {PackedFormat::Method::CompressedTensors,
                   format->bits,
                   group,
                   /*blockRows=*/1,
                   /*zeroPoints=*/false,
                   /*zeroOffset=*/0,
                   /*reorders=*/false};
  int64_t words = divideCeil(linear.columns * format->bits, int64_t(32));
  linear.weight = {role, name + "_packed", DType::I32, {linear.rows, words}};
  linear.scales = Weight{role,
                         name + "_scale",
                         DType::BF16,
                         {linear.rows, linear.columns / group}};
  statistics.parameters += linear.rows * linear.columns;
  ++statistics.packedModules["int" + std::to_string(format->bits) +
                             ", groups of " + std::to_string(group)];
}
