//===- Layers.h - Builders that models share --------------------*- C++ -*-===//
//
// A layer is a struct of its weights and a function that appends its ops. All
// activations are [rows, columns] tensors of one element type. Every op gets
// the name of the tensor or module that it comes from as its location, so that
// whatever goes wrong later points into the checkpoint.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_MODELS_LAYERS_H
#define TANDEM_MODELS_LAYERS_H

#include "models/Config.h"
#include "models/Weights.h"

#include "dialects/lm/LmOps.h"

#include "mlir/IR/Builders.h"

namespace tandem::models {

/// gate_proj, up_proj [intermediate, hidden] and down_proj [hidden,
/// intermediate].
struct MlpWeights {
  std::string module;
  LinearWeight gate, up, down;
};

/// Finds the weights of an MLP called \p module.
MlpWeights readMlp(WeightReader &reader, const llvm::Twine &module,
                   const TransformerConfig &config);

/// The projections and norms of an attention layer. `query` has twice the rows
/// when each head's gate stands behind its query.
struct AttentionWeights {
  std::string module;
  LinearWeight query, key, value, output;
  /// [head dimension], applied to every head.
  Weight queryNorm, keyNorm;
};

/// Finds the weights of an attention layer called \p module; \p gated says
/// whether q_proj holds gates.
AttentionWeights readAttention(WeightReader &reader, const llvm::Twine &module,
                               const TransformerConfig &config, bool gated);

/// A location that is called \p name.
mlir::Location getNameLoc(mlir::OpBuilder &builder, llvm::StringRef name);

/// Appends ops at the insertion point of an OpBuilder.
class LayerBuilder {
public:
  /// Activations are of \p elementType: f32 or bf16.
  LayerBuilder(mlir::OpBuilder &builder, mlir::Type elementType)
      : builder(builder), elementType(elementType) {}

  mlir::OpBuilder &getBuilder() { return builder; }
  /// The type of \p rows x \p columns activations.
  mlir::RankedTensorType getRowsType(int64_t rows, int64_t columns) const;

  /// The tensor as the checkpoint holds it.
  mlir::Value weight(const Weight &weight);

  /// [rows, columns of the table], each row times \p scale.
  mlir::Value embed(mlir::Value tokens, const Weight &table, double scale);
  /// [rows, rows of the weight].
  mlir::Value linear(mlir::Value input, const LinearWeight &weight);
  /// The same in f32, whatever the activations are: for logits and for what is
  /// exponentiated.
  mlir::Value linearF32(mlir::Value input, const LinearWeight &weight);
  /// Norm of runs of the weight's length; \p offset is added to the weight.
  mlir::Value rmsNorm(mlir::Value input, const Weight &weight, double eps,
                      double offset);
  /// down(silu(gate(x)) * up(x)).
  mlir::Value mlp(mlir::Value input, const MlpWeights &weights);
  /// \p lhs + \p rhs; \p name says what was added.
  mlir::Value add(mlir::Value lhs, mlir::Value rhs, llvm::StringRef name);
  /// RoPE of every head, row 0 at position \p start; \p name is the module's.
  mlir::Value rope(mlir::Value input, mlir::Value start,
                   const TransformerConfig &config, llvm::StringRef name);
  /// Keys of \p input: projected, normed and rotated, row 0 at \p start.
  mlir::Value keys(mlir::Value input, mlir::Value start,
                   const AttentionWeights &weights,
                   const TransformerConfig &config, double normOffset);
  /// \p cache with the keys and values of \p input from position \p start on;
  /// only the first \p count rows (all when null).
  mlir::Value appendKeysAndValues(mlir::Value cache, mlir::Value input,
                                  mlir::Value start, mlir::Value count,
                                  const AttentionWeights &weights,
                                  const TransformerConfig &config,
                                  double normOffset);

private:
  mlir::Value linear(mlir::Value input, const LinearWeight &weight,
                     mlir::Type resultElement);

  mlir::OpBuilder &builder;
  mlir::Type elementType;
};

} // namespace tandem::models

#endif // TANDEM_MODELS_LAYERS_H
