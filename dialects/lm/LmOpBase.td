//===- LmOpBase.td - Base class and operand types of lm ops ---------------===//

#ifndef TANDEM_DIALECTS_LM_LMOPBASE_TD
#define TANDEM_DIALECTS_LM_LMOPBASE_TD

include "dialects/lm/LmAttrs.td"
include "dialects/lm/LmDialect.td"
include "dialects/lm/LmTypes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Lm_Op<string mnemonic, list<Trait> traits = []>
    : Op<Lm_Dialect, mnemonic, traits>;

/// What every verifier may assume: sizes that are known, positive and small
/// enough to add and multiply, and no encoding.
def Lm_SaneShapePred : And<[
    HasStaticShapePred,
    CPred<"::tandem::lm::areSaneSizes("
          "::llvm::cast<::mlir::RankedTensorType>($_self).getShape())">,
    CPred<"!::llvm::cast<::mlir::RankedTensorType>($_self).getEncoding()">]>;

/// Activations: rows x columns.
def Lm_Rows : ConfinedType<2DTensorOf<[F32, BF16]>, [Lm_SaneShapePred],
                           "rows x columns of f32 or bf16">;

/// One token id per row.
def Lm_Tokens : ConfinedType<1DTensorOf<[I32]>, [Lm_SaneShapePred],
                             "one i32 token id per row">;

/// A weight in floating point.
def Lm_Dense : ConfinedType<TensorOf<[F32, BF16, F16]>, [Lm_SaneShapePred],
                            "a dense weight">;

/// A weight matrix in floating point.
def Lm_Matrix : ConfinedType<2DTensorOf<[F32, BF16, F16]>,
                             [Lm_SaneShapePred], "a dense weight matrix">;

/// Packed codes: rows x 32-bit words.
def Lm_Codes : ConfinedType<2DTensorOf<[I32]>, [Lm_SaneShapePred],
                            "packed codes, rows x words">;

/// Codes that are 8-bit floats: rows x columns.
def Lm_FloatCodes : ConfinedType<2DTensorOf<[F8E4M3FN]>, [Lm_SaneShapePred],
                                 "a matrix of f8E4M3FN">;

/// A position or a count that is known at run time.
def Lm_Scalar
    : Type<CPred<"$_self == ::mlir::RankedTensorType::get({1}, "
                 "::mlir::IntegerType::get($_self.getContext(), 32))">,
           "tensor<1xi32>", "::mlir::RankedTensorType">,
      BuildableType<"::mlir::RankedTensorType::get({1}, "
                    "$_builder.getI32Type())">;

#endif // TANDEM_DIALECTS_LM_LMOPBASE_TD
