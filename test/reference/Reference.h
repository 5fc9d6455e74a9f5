//===- Reference.h - What every lm op computes, as plain loops --*- C++ -*-===//
//
// One function per op of the lm dialect, written from its description alone:
// nothing is tiled, fused or fast. Values are kept in f32, sums run in f64.
// This is what kernels and passes are judged by.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_REFERENCE_REFERENCE_H
#define TANDEM_TEST_REFERENCE_REFERENCE_H

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace tandem::reference {

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// Row-major numbers; activations are rows x columns.
struct Tensor {
  std::vector<int64_t> shape;
  std::vector<float> data;

  Tensor() = default;
  /// All zero.
  explicit Tensor(std::vector<int64_t> shape);

  int64_t rows() const { return shape[0]; }
  int64_t columns() const { return shape[1]; }
  float &at(int64_t row, int64_t column) {
    return data[row * columns() + column];
  }
  float at(int64_t row, int64_t column) const {
    return data[row * columns() + column];
  }
};

/// Row-major 32-bit integers: token ids, counts, packed codes.
struct IntTensor {
  std::vector<int64_t> shape;
  std::vector<int32_t> data;

  IntTensor() = default;
  /// All zero.
  explicit IntTensor(std::vector<int64_t> shape);
  /// One row of \p values.
  static IntTensor of(std::vector<int32_t> values);
};

/// `!lm.kv_cache`. Remembers which position lies in which slot, so that reading
/// a position that a ring has lost is noticed.
struct KvCache {
  int64_t slots, heads, dim;
  /// slots x (heads * dim)
  Tensor keys, values;
  /// The position in every slot; -1 when there is none.
  std::vector<int64_t> positions;

  KvCache(int64_t slots, int64_t heads, int64_t dim);
};

/// `!lm.conv_cache`: the committed rows, then the pending ones.
struct ConvCache {
  int64_t taps, channels, pending;
  /// (taps - 1) x channels
  Tensor committed;
  /// pending x channels
  Tensor rows;

  ConvCache(int64_t taps, int64_t channels, int64_t pending);
};

/// `!lm.delta_cache`: a state per head, and the inputs of the pending rows.
struct DeltaCache {
  int64_t heads, keyHeads, keyDim, valueDim, pending;
  /// heads x (key_dim * value_dim)
  Tensor state;
  /// pending x columns
  Tensor key, value, decay, beta;

  DeltaCache(int64_t heads, int64_t keyHeads, int64_t keyDim, int64_t valueDim,
             int64_t pending);
};

//===----------------------------------------------------------------------===//
// Weights and linear layers
//===----------------------------------------------------------------------===//

/// What `#lm.grouped` says.
struct Grouped {
  int64_t bits, group;
  bool zeroPoints = false, floatCodes = false;
};

/// What `#lm.source` says; orders by their numbers in `lm::PackOrder`.
struct Source {
  enum Order { ByRow, ByColumn, Interleaved };

  Order order;
  int64_t bits, columns, group, blockRows = 1, zeroOffset = 0;
  bool floatCodes = false;
};

Tensor dequant(const IntTensor &codes, const Tensor &scales,
               const Grouped &format, int64_t columns);
/// Codes of 8-bit floats are their bits. \p zeros may be null. Returns the
/// codes and the scales.
std::pair<IntTensor, Tensor> repack(const IntTensor &codes,
                                    const Tensor &scales,
                                    const IntTensor *zeros,
                                    const Source &source, int64_t rows);
Tensor embed(const IntTensor &tokens, const Tensor &table, float scale);
Tensor linear(const Tensor &input, const Tensor &weight);

/// \p weight, in groups of \p group columns rounded to codes of 4 bits:
/// `rounding` of `lm.head_argmax`.
Tensor roundGroups(const Tensor &weight, int64_t group);
Tensor quantLinear(const Tensor &input, const IntTensor &codes,
                   const Tensor &scales, const Grouped &format);

//===----------------------------------------------------------------------===//
// Norms and elementwise ops
//===----------------------------------------------------------------------===//

Tensor rmsNorm(const Tensor &input, const Tensor &weight, float eps,
               float offset);
Tensor gatedRmsNorm(const Tensor &input, const Tensor &gate,
                    const Tensor &weight, float eps);
Tensor l2Norm(const Tensor &input, int64_t dim, float eps);
Tensor silu(const Tensor &input);
Tensor sigmoid(const Tensor &input);
Tensor add(const Tensor &lhs, const Tensor &rhs);
Tensor mul(const Tensor &lhs, const Tensor &rhs);

//===----------------------------------------------------------------------===//
// Rows and columns
//===----------------------------------------------------------------------===//

Tensor liveRows(const Tensor &input, int64_t count);
IntTensor liveRows(const IntTensor &input, int64_t count);
Tensor lastRow(const Tensor &input, int64_t count);
Tensor dropRows(const Tensor &input, int64_t first);
/// Parts of the widths \p columns.
std::vector<Tensor> split(const Tensor &input, int64_t groups,
                          const std::vector<int64_t> &columns);
Tensor concatFeatures(const std::vector<Tensor> &inputs);

//===----------------------------------------------------------------------===//
// Ops that know positions or carry state. \p count: nothing means all rows.
//===----------------------------------------------------------------------===//

Tensor rope(const Tensor &input, int64_t start, int64_t headDim, int64_t dims,
            double theta);

KvCache cacheAppend(KvCache cache, const Tensor &keys, const Tensor &values,
                    int64_t start, std::optional<int64_t> count);

/// A row that should see a position that is not in the cache is NaN; one that
/// sees nothing is zero.
Tensor attention(const Tensor &query, const KvCache &cache, int64_t start,
                 std::optional<int64_t> count, bool causal,
                 std::optional<int64_t> window, float scale);

/// Returns the output and makes \p cache the new one.
Tensor shortConv(const Tensor &input, const Tensor &weight, ConvCache &cache,
                 int64_t accepted, std::optional<int64_t> count, bool commit);

Tensor deltaGate(const Tensor &input, const Tensor &aLog, const Tensor &dtBias);

/// Returns the output and makes \p cache the new one.
Tensor gatedDelta(const Tensor &query, const Tensor &key, const Tensor &value,
                  const Tensor &decay, const Tensor &beta, DeltaCache &cache,
                  int64_t accepted, std::optional<int64_t> count, bool commit,
                  float scale);

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

IntTensor argmax(const Tensor &logits);
IntTensor maskBlock(int32_t anchor, int32_t maskToken, int64_t size);
IntTensor unmask(const IntTensor &block, const Tensor &logits,
                 int32_t maskToken, int64_t fill);
IntTensor concatTokens(const IntTensor &lhs, const IntTensor &rhs);

/// Results of lm.accept.
struct Accepted {
  int32_t accepted, anchor, nextStart, contextStart;
};
Accepted accept(const IntTensor &block, const IntTensor &decided, int32_t start,
                std::optional<int64_t> count);

} // namespace tandem::reference

#endif // TANDEM_TEST_REFERENCE_REFERENCE_H
