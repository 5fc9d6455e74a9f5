//===- Reference.cpp - What every lm op computes, as plain loops ----------===//

#include "test/reference/Reference.h"

#include "llvm/ADT/bit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace tandem::reference;

static int64_t product(const std::vector<int64_t> &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t(1),
                         std::multiplies<int64_t>());
}

Tensor::Tensor(std::vector<int64_t> shape)
    : shape(std::move(shape)), data(product(this->shape)) {}

IntTensor::IntTensor(std::vector<int64_t> shape)
    : shape(std::move(shape)), data(product(this->shape)) {}

IntTensor IntTensor::of(std::vector<int32_t> values) {
  IntTensor result;
  result.shape = {static_cast<int64_t>(values.size())};
  result.data = std::move(values);
  return result;
}

KvCache::KvCache(int64_t slots, int64_t heads, int64_t dim)
    : slots(slots), heads(heads), dim(dim), keys({slots, heads * dim}),
      values({slots, heads * dim}), positions(slots, -1) {}

ConvCache::ConvCache(int64_t taps, int64_t channels, int64_t pending)
    : taps(taps), channels(channels), pending(pending),
      committed({taps - 1, channels}), rows({pending, channels}) {}

DeltaCache::DeltaCache(int64_t heads, int64_t keyHeads, int64_t keyDim,
                       int64_t valueDim, int64_t pending)
    : heads(heads), keyHeads(keyHeads), keyDim(keyDim), valueDim(valueDim),
      pending(pending), state({heads, keyDim * valueDim}),
      key({pending, keyHeads * keyDim}), value({pending, heads * valueDim}),
      decay({pending, heads}), beta({pending, heads}) {}

//===----------------------------------------------------------------------===//
// Weights and linear layers
//===----------------------------------------------------------------------===//

/// The value of the bits of an f8E4M3FN.
static float decodeFloat8(uint32_t bits) {
  int exponent = static_cast<int>(bits >> 3 & 15), fraction = bits & 7;
  float value = exponent == 0 ? std::ldexp(float(fraction), -9)
                              : std::ldexp(float(8 + fraction), exponent - 10);
  return bits & 0x80 ? -value : value;
}

/// The code in part \p slot of \p word.
static int64_t getPart(int32_t word, int64_t slot, int64_t bits) {
  return static_cast<uint32_t>(word) >> (slot * bits) & ((1u << bits) - 1);
}

Tensor tandem::reference::dequant(const IntTensor &codes, const Tensor &scales,
                                  const Grouped &format, int64_t columns) {
  int64_t rows = codes.shape[0], words = codes.shape[1];
  int64_t perWord = 32 / format.bits, parts = format.zeroPoints ? 2 : 1;
  Tensor result({rows, columns});
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      int64_t code = getPart(codes.data[r * words + c / perWord], c % perWord,
                             format.bits);
      int64_t g = c / format.group * parts;
      float value =
          static_cast<float>(code - (int64_t(1) << (format.bits - 1)));
      if (format.floatCodes)
        value = decodeFloat8(code);
      if (format.zeroPoints)
        value -= scales.at(r, g + 1);
      result.at(r, c) = value * scales.at(r, g);
    }
  return result;
}

std::pair<IntTensor, Tensor> tandem::reference::repack(const IntTensor &codes,
                                                       const Tensor &scales,
                                                       const IntTensor *zeros,
                                                       const Source &source,
                                                       int64_t rows) {
  int64_t bits = source.bits, perWord = 32 / bits, columns = source.columns;
  constexpr int64_t interleaved[] = {0, 2, 4, 6, 1, 3, 5, 7};
  int64_t inGroup = std::gcd(source.group, columns);
  int64_t groups = columns / inGroup, parts = zeros ? 2 : 1;
  int64_t words = (columns + perWord - 1) / perWord;
  IntTensor newCodes({rows, words});
  Tensor newScales({rows, groups * parts});

  // Where row r is, when words hold rows.
  auto getSlot = [&](int64_t r) -> int64_t {
    if (source.order != Source::Interleaved)
      return r % perWord;
    return std::find(interleaved, interleaved + 8, r % 8) - interleaved;
  };
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      int64_t code;
      if (source.floatCodes)
        code = codes.data[r * columns + c];
      else if (source.order == Source::ByRow)
        code = getPart(codes.data[r * words + c / perWord], c % perWord, bits);
      else if (source.order == Source::ByColumn)
        code = getPart(codes.data[c / perWord * rows + r], c % perWord, bits);
      else
        code = getPart(codes.data[(c * rows + r) / perWord], getSlot(r), bits);
      newCodes.data[r * words + c / perWord] |= static_cast<int32_t>(
          static_cast<uint32_t>(code) << (c % perWord * bits));
    }
  int64_t blocks = (columns + source.group - 1) / source.group;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t g = 0; g < groups; ++g) {
      int64_t from = g * inGroup / source.group, block = r / source.blockRows;
      bool byRow = source.order == Source::ByRow;
      newScales.at(r, g * parts) =
          scales.data[byRow ? block * blocks + from : from * rows + r];
      if (!zeros)
        continue;
      int32_t word = zeros->data[byRow ? r / perWord * blocks + from
                                       : (from * rows + r) / perWord];
      int64_t zero = getPart(word, getSlot(r), bits) + source.zeroOffset;
      newScales.at(r, g * parts + 1) = static_cast<float>(
          zero % (int64_t(1) << bits) - (int64_t(1) << (bits - 1)));
    }
  return {std::move(newCodes), std::move(newScales)};
}

Tensor tandem::reference::embed(const IntTensor &tokens, const Tensor &table,
                                float scale) {
  int64_t rows = tokens.shape[0];
  Tensor result({rows, table.columns()});
  for (int64_t r = 0; r < rows; ++r) {
    int64_t token = tokens.data[r];
    if (token < 0 || token >= table.rows())
      token = 0;
    for (int64_t c = 0; c < table.columns(); ++c)
      result.at(r, c) = scale * table.at(token, c);
  }
  return result;
}

Tensor tandem::reference::roundGroups(const Tensor &weight, int64_t group) {
  Tensor result(weight.shape);
  auto count = static_cast<int64_t>(weight.data.size());
  for (int64_t first = 0; first < count; first += group) {
    float largest = 0;
    for (int64_t i = first; i < first + group; ++i)
      if (std::fabs(weight.data[i]) > std::fabs(largest))
        largest = weight.data[i];
    // A bf16 has the upper 16 bits of an f32: what is below goes to the
    // nearest, or to the even one of two.
    auto bits = llvm::bit_cast<uint32_t>(-largest / 8);
    uint32_t half = bits & 0xffff, upper = bits >> 16;
    if (half > 0x8000 || (half == 0x8000 && upper % 2 == 1))
      ++upper;
    auto scale = llvm::bit_cast<float>(upper << 16);
    for (int64_t i = first; i < first + group; ++i) {
      float code = scale == 0 ? 0 : std::nearbyint(weight.data[i] / scale);
      result.data[i] = scale * std::min(std::max(code, -8.0f), 7.0f);
    }
  }
  return result;
}

Tensor tandem::reference::linear(const Tensor &input, const Tensor &weight) {
  Tensor result({input.rows(), weight.rows()});
  for (int64_t r = 0; r < input.rows(); ++r)
    for (int64_t n = 0; n < weight.rows(); ++n) {
      double sum = 0;
      for (int64_t k = 0; k < input.columns(); ++k)
        sum += static_cast<double>(input.at(r, k)) * weight.at(n, k);
      result.at(r, n) = sum;
    }
  return result;
}

Tensor tandem::reference::quantLinear(const Tensor &input,
                                      const IntTensor &codes,
                                      const Tensor &scales,
                                      const Grouped &format) {
  return linear(input, dequant(codes, scales, format, input.columns()));
}

//===----------------------------------------------------------------------===//
// Norms and elementwise ops
//===----------------------------------------------------------------------===//

/// `1 / sqrt(divisor * sum(x^2) + eps)` of the columns [begin, begin + dim).
static double inverseNorm(const Tensor &input, int64_t row, int64_t begin,
                          int64_t dim, double factor, double eps) {
  double sum = 0;
  for (int64_t c = begin; c < begin + dim; ++c)
    sum += static_cast<double>(input.at(row, c)) * input.at(row, c);
  return 1 / std::sqrt(factor * sum + eps);
}

static double sigmoidOf(double x) { return 1 / (1 + std::exp(-x)); }

Tensor tandem::reference::rmsNorm(const Tensor &input, const Tensor &weight,
                                  float eps, float offset) {
  int64_t dim = weight.shape[0];
  Tensor result(input.shape);
  for (int64_t r = 0; r < input.rows(); ++r)
    for (int64_t begin = 0; begin < input.columns(); begin += dim) {
      double inverse = inverseNorm(input, r, begin, dim, 1.0 / dim, eps);
      for (int64_t i = 0; i < dim; ++i)
        result.at(r, begin + i) =
            input.at(r, begin + i) * inverse *
            (static_cast<double>(weight.data[i]) + offset);
    }
  return result;
}

Tensor tandem::reference::gatedRmsNorm(const Tensor &input, const Tensor &gate,
                                       const Tensor &weight, float eps) {
  Tensor result = rmsNorm(input, weight, eps, /*offset=*/0);
  for (size_t i = 0; i < result.data.size(); ++i)
    result.data[i] *= gate.data[i] * sigmoidOf(gate.data[i]);
  return result;
}

Tensor tandem::reference::l2Norm(const Tensor &input, int64_t dim, float eps) {
  Tensor result(input.shape);
  for (int64_t r = 0; r < input.rows(); ++r)
    for (int64_t begin = 0; begin < input.columns(); begin += dim) {
      double inverse = inverseNorm(input, r, begin, dim, 1, eps);
      for (int64_t i = begin; i < begin + dim; ++i)
        result.at(r, i) = input.at(r, i) * inverse;
    }
  return result;
}

Tensor tandem::reference::silu(const Tensor &input) {
  Tensor result = input;
  for (float &x : result.data)
    x *= sigmoidOf(x);
  return result;
}

Tensor tandem::reference::sigmoid(const Tensor &input) {
  Tensor result = input;
  for (float &x : result.data)
    x = sigmoidOf(x);
  return result;
}

Tensor tandem::reference::add(const Tensor &lhs, const Tensor &rhs) {
  Tensor result = lhs;
  for (size_t i = 0; i < result.data.size(); ++i)
    result.data[i] += rhs.data[i];
  return result;
}

Tensor tandem::reference::mul(const Tensor &lhs, const Tensor &rhs) {
  Tensor result = lhs;
  for (size_t i = 0; i < result.data.size(); ++i)
    result.data[i] *= rhs.data[i];
  return result;
}

//===----------------------------------------------------------------------===//
// Rows and columns
//===----------------------------------------------------------------------===//

Tensor tandem::reference::liveRows(const Tensor &input, int64_t count) {
  Tensor result(input.shape);
  std::copy_n(input.data.begin(), count * input.columns(), result.data.begin());
  return result;
}

IntTensor tandem::reference::liveRows(const IntTensor &input, int64_t count) {
  IntTensor result(input.shape);
  std::copy_n(input.data.begin(), count, result.data.begin());
  return result;
}

Tensor tandem::reference::lastRow(const Tensor &input, int64_t count) {
  Tensor result({1, input.columns()});
  int64_t row = std::clamp<int64_t>(count - 1, 0, input.rows() - 1);
  for (int64_t c = 0; c < input.columns(); ++c)
    result.at(0, c) = input.at(row, c);
  return result;
}

Tensor tandem::reference::dropRows(const Tensor &input, int64_t first) {
  Tensor result({input.rows() - first, input.columns()});
  for (int64_t r = 0; r < result.rows(); ++r)
    for (int64_t c = 0; c < input.columns(); ++c)
      result.at(r, c) = input.at(r + first, c);
  return result;
}

std::vector<Tensor>
tandem::reference::split(const Tensor &input, int64_t groups,
                         const std::vector<int64_t> &columns) {
  std::vector<Tensor> parts;
  for (int64_t partColumns : columns)
    parts.emplace_back(std::vector<int64_t>{input.rows(), partColumns});
  for (int64_t r = 0; r < input.rows(); ++r) {
    int64_t c = 0;
    for (int64_t g = 0; g < groups; ++g)
      for (Tensor &part : parts) {
        int64_t width = part.columns() / groups;
        for (int64_t i = 0; i < width; ++i)
          part.at(r, g * width + i) = input.at(r, c++);
      }
  }
  return parts;
}

Tensor tandem::reference::concatFeatures(const std::vector<Tensor> &inputs) {
  int64_t columns = 0;
  for (const Tensor &input : inputs)
    columns += input.columns();
  Tensor result({inputs[0].rows(), columns});
  for (int64_t r = 0; r < result.rows(); ++r) {
    int64_t begin = 0;
    for (const Tensor &input : inputs)
      for (int64_t c = 0; c < input.columns(); ++c)
        result.at(r, begin++) = input.at(r, c);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

Tensor tandem::reference::rope(const Tensor &input, int64_t start,
                               int64_t headDim, int64_t dims, double theta) {
  Tensor result = input;
  int64_t half = dims / 2;
  for (int64_t r = 0; r < input.rows(); ++r)
    for (int64_t head = 0; head < input.columns(); head += headDim)
      for (int64_t j = 0; j < half; ++j) {
        // Frequency and angle are f32 in the models' own implementation.
        auto frequency = static_cast<float>(
            std::pow(theta, -2.0 * static_cast<double>(j) / dims));
        float angle = static_cast<float>(start + r) * frequency;
        double cosine = std::cos(static_cast<double>(angle));
        double sine = std::sin(static_cast<double>(angle));
        double x = input.at(r, head + j), y = input.at(r, head + j + half);
        result.at(r, head + j) = x * cosine - y * sine;
        result.at(r, head + j + half) = y * cosine + x * sine;
      }
  return result;
}

KvCache tandem::reference::cacheAppend(KvCache cache, const Tensor &keys,
                                       const Tensor &values, int64_t start,
                                       std::optional<int64_t> count) {
  for (int64_t r = 0; r < count.value_or(keys.rows()); ++r) {
    int64_t slot = (start + r) % cache.slots;
    cache.positions[slot] = start + r;
    for (int64_t c = 0; c < keys.columns(); ++c) {
      cache.keys.at(slot, c) = keys.at(r, c);
      cache.values.at(slot, c) = values.at(r, c);
    }
  }
  return cache;
}

/// One head of one row of lm.attention: `out[0..dim)`.
static void attendHead(const float *query, const KvCache &cache,
                       const std::vector<int64_t> &seen, int64_t head,
                       float scale, float *out) {
  if (seen.empty())
    return;
  int64_t first = head * cache.dim;
  std::vector<double> scores;
  for (int64_t position : seen) {
    int64_t slot = position % cache.slots;
    double dot = 0;
    for (int64_t i = 0; i < cache.dim; ++i)
      dot += static_cast<double>(query[i]) * cache.keys.at(slot, first + i);
    scores.push_back(scale * dot);
  }
  double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double &score : scores)
    sum += score = std::exp(score - largest);
  for (int64_t i = 0; i < cache.dim; ++i) {
    double value = 0;
    for (size_t p = 0; p < seen.size(); ++p)
      value +=
          scores[p] / sum * cache.values.at(seen[p] % cache.slots, first + i);
    out[i] = value;
  }
}

Tensor tandem::reference::attention(const Tensor &query, const KvCache &cache,
                                    int64_t start, std::optional<int64_t> count,
                                    bool causal, std::optional<int64_t> window,
                                    float scale) {
  Tensor result(query.shape);
  int64_t queryHeads = query.columns() / cache.dim;
  int64_t perHead = queryHeads / cache.heads;
  int64_t end = start + count.value_or(query.rows());
  for (int64_t r = 0; r < query.rows(); ++r) {
    int64_t q = start + r;
    std::vector<int64_t> seen;
    bool lost = false;
    for (int64_t p = 0; p < end; ++p) {
      if ((causal && p > q) || (window && std::abs(q - p) >= *window))
        continue;
      seen.push_back(p);
      lost |= cache.positions[p % cache.slots] != p;
    }
    float *out = &result.at(r, 0);
    if (lost)
      std::fill_n(out, query.columns(),
                  std::numeric_limits<float>::quiet_NaN());
    else
      for (int64_t h = 0; h < queryHeads; ++h)
        attendHead(&query.data[r * query.columns() + h * cache.dim], cache,
                   seen, h / perHead, scale, out + h * cache.dim);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// The gated delta net
//===----------------------------------------------------------------------===//

/// Appends row \p row of \p from to \p rows.
static void appendRow(std::vector<std::vector<float>> &rows, const Tensor &from,
                      int64_t row) {
  auto begin = from.data.begin() + row * from.columns();
  rows.emplace_back(begin, begin + from.columns());
}

/// Makes the first rows of \p to those of \p from.
static void copyRows(const Tensor &from, int64_t count, Tensor &to) {
  std::copy_n(from.data.begin(), count * from.columns(), to.data.begin());
}

Tensor tandem::reference::shortConv(const Tensor &input, const Tensor &weight,
                                    ConvCache &cache, int64_t accepted,
                                    std::optional<int64_t> count, bool commit) {
  int64_t before = cache.taps - 1;
  std::vector<std::vector<float>> u;
  for (int64_t r = 0; r < before; ++r)
    appendRow(u, cache.committed, r);
  for (int64_t r = 0; r < accepted; ++r)
    appendRow(u, cache.rows, r);
  int64_t first = u.size();
  for (int64_t r = 0; r < input.rows(); ++r)
    appendRow(u, input, r);

  Tensor output(input.shape);
  for (int64_t r = 0; r < input.rows(); ++r)
    for (int64_t c = 0; c < input.columns(); ++c) {
      double sum = 0;
      for (int64_t j = 0; j < cache.taps; ++j)
        sum += static_cast<double>(weight.data[c * cache.taps + j]) *
               u[first + r + j - before][c];
      output.at(r, c) = sum;
    }

  int64_t end = first + (commit ? count.value_or(input.rows()) : 0);
  for (int64_t r = 0; r < before; ++r)
    std::copy(u[end - before + r].begin(), u[end - before + r].end(),
              &cache.committed.at(r, 0));
  if (!commit)
    copyRows(input, input.rows(), cache.rows);
  return output;
}

Tensor tandem::reference::deltaGate(const Tensor &input, const Tensor &aLog,
                                    const Tensor &dtBias) {
  Tensor result(input.shape);
  for (int64_t r = 0; r < input.rows(); ++r)
    for (int64_t h = 0; h < input.columns(); ++h) {
      double x = static_cast<double>(input.at(r, h)) + dtBias.data[h];
      double softplus = x > 20 ? x : std::log1p(std::exp(x));
      result.at(r, h) = -std::exp(static_cast<double>(aLog.data[h])) * softplus;
    }
  return result;
}

/// Steps the states of \p cache by one token: row \p row of the inputs.
static void stepDelta(DeltaCache &cache, const Tensor &key, const Tensor &value,
                      const Tensor &decay, const Tensor &beta, int64_t row) {
  int64_t perKeyHead = cache.heads / cache.keyHeads;
  for (int64_t h = 0; h < cache.heads; ++h) {
    const float *k =
        &key.data[row * key.columns() + h / perKeyHead * cache.keyDim];
    const float *v = &value.data[row * value.columns() + h * cache.valueDim];
    float *state = &cache.state.at(h, 0);
    double keep = std::exp(static_cast<double>(decay.at(row, h)));
    for (int64_t j = 0; j < cache.valueDim; ++j) {
      double remembered = 0;
      for (int64_t i = 0; i < cache.keyDim; ++i)
        remembered += keep * state[i * cache.valueDim + j] * k[i];
      double delta = beta.at(row, h) * (v[j] - remembered);
      for (int64_t i = 0; i < cache.keyDim; ++i) {
        float &s = state[i * cache.valueDim + j];
        s = keep * s + k[i] * delta;
      }
    }
  }
}

Tensor tandem::reference::gatedDelta(const Tensor &query, const Tensor &key,
                                     const Tensor &value, const Tensor &decay,
                                     const Tensor &beta, DeltaCache &cache,
                                     int64_t accepted,
                                     std::optional<int64_t> count, bool commit,
                                     float scale) {
  for (int64_t r = 0; r < accepted; ++r)
    stepDelta(cache, cache.key, cache.value, cache.decay, cache.beta, r);

  Tensor output(value.shape);
  DeltaCache running = cache;
  int64_t perKeyHead = cache.heads / cache.keyHeads;
  for (int64_t r = 0; r < query.rows(); ++r) {
    stepDelta(running, key, value, decay, beta, r);
    for (int64_t h = 0; h < cache.heads; ++h)
      for (int64_t j = 0; j < cache.valueDim; ++j) {
        double sum = 0;
        for (int64_t i = 0; i < cache.keyDim; ++i)
          sum +=
              static_cast<double>(running.state.at(h, i * cache.valueDim + j)) *
              scale * query.at(r, h / perKeyHead * cache.keyDim + i);
        output.at(r, h * cache.valueDim + j) = sum;
      }
    if (commit && r + 1 == count.value_or(query.rows()))
      cache.state = running.state;
  }
  if (!commit) {
    copyRows(key, key.rows(), cache.key);
    copyRows(value, value.rows(), cache.value);
    copyRows(decay, decay.rows(), cache.decay);
    copyRows(beta, beta.rows(), cache.beta);
  }
  return output;
}

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

static int64_t argmaxOf(const Tensor &logits, int64_t row) {
  int64_t best = 0;
  for (int64_t c = 1; c < logits.columns(); ++c)
    if (logits.at(row, c) > logits.at(row, best))
      best = c;
  return best;
}

IntTensor tandem::reference::argmax(const Tensor &logits) {
  IntTensor result({logits.rows()});
  for (int64_t r = 0; r < logits.rows(); ++r)
    result.data[r] = argmaxOf(logits, r);
  return result;
}

IntTensor tandem::reference::maskBlock(int32_t anchor, int32_t maskToken,
                                       int64_t size) {
  IntTensor result({size});
  std::fill(result.data.begin(), result.data.end(), maskToken);
  result.data[0] = anchor;
  return result;
}

IntTensor tandem::reference::unmask(const IntTensor &block,
                                    const Tensor &logits, int32_t maskToken,
                                    int64_t fill) {
  struct Slot {
    int64_t row;
    double confidence;
  };
  std::vector<Slot> masked;
  for (int64_t r = 0; r < logits.rows(); ++r) {
    if (block.data[r + 1] != maskToken)
      continue;
    double best = logits.at(r, argmaxOf(logits, r)), sum = 0;
    for (int64_t c = 0; c < logits.columns(); ++c)
      sum += std::exp(logits.at(r, c) - best);
    masked.push_back({r, 1 / sum});
  }
  // The lower slot wins a tie.
  std::sort(masked.begin(), masked.end(), [](Slot a, Slot b) {
    return a.confidence != b.confidence ? a.confidence > b.confidence
                                        : a.row < b.row;
  });
  IntTensor result = block;
  for (int64_t i = 0; i < std::min<int64_t>(fill, masked.size()); ++i)
    result.data[masked[i].row + 1] = argmaxOf(logits, masked[i].row);
  return result;
}

IntTensor tandem::reference::concatTokens(const IntTensor &lhs,
                                          const IntTensor &rhs) {
  std::vector<int32_t> values = lhs.data;
  values.insert(values.end(), rhs.data.begin(), rhs.data.end());
  return IntTensor::of(std::move(values));
}

Accepted tandem::reference::accept(const IntTensor &block,
                                   const IntTensor &decided, int32_t start,
                                   std::optional<int64_t> count) {
  int64_t rows = count.value_or(block.data.size());
  int32_t accepted = 1;
  while (accepted < rows && block.data[accepted] == decided.data[accepted - 1])
    ++accepted;
  return {accepted, decided.data[accepted - 1], start + accepted, start};
}
