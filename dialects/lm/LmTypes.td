//===- LmTypes.td - Caches: state as values -------------------------------===//

#ifndef TANDEM_DIALECTS_LM_LMTYPES_TD
#define TANDEM_DIALECTS_LM_LMTYPES_TD

include "dialects/lm/LmDialect.td"
include "mlir/IR/AttrTypeBase.td"

class Lm_Type<string name, string typeMnemonic, list<Trait> traits = []>
    : TypeDef<Lm_Dialect, name, traits> {
  let mnemonic = typeMnemonic;
  let genVerifyDecl = 1;
}

def Lm_KvCacheType : Lm_Type<"KvCache", "kv_cache"> {
  let summary = "Keys and values by position.";
  let description = [{
    Holds one key and one value vector per head for up to `slots` positions. Position p lies in slot `p mod slots`: with
    `slots` at least the longest text it is a plain table, with fewer it is a ring that keeps the last `slots`
    positions written (`lm-lower-sliding-window` makes rings). Writing a position replaces what its slot held, so a
    text rolls back by writing the same positions again.

    ```mlir
    !lm.kv_cache<4112 x 2 x 64 x f32>        // slots x heads x head dimension
    !lm.kv_cache<ring 272 x 2 x 64 x f32>
    ```
  }];
  let parameters = (ins "int64_t":$slots, "int64_t":$heads, "int64_t":$dim,
                        "::mlir::Type":$elementType, "bool":$ring);
  let hasCustomAssemblyFormat = 1;
}

def Lm_ConvCacheType : Lm_Type<"ConvCache", "conv_cache"> {
  let summary = "The last inputs of a causal convolution.";
  let description = [{
    `taps - 1` committed rows of `channels` values, and up to `pending` rows of the last call, of which the next call keeps
    the accepted ones.

    ```mlir
    !lm.conv_cache<taps = 4, channels = 1024, pending = 16>
    ```
  }];
  let parameters = (ins "int64_t":$taps, "int64_t":$channels, "int64_t":$pending);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Lm_DeltaCacheType : Lm_Type<"DeltaCache", "delta_cache"> {
  let summary = "The recurrent state of a gated delta rule.";
  let description = [{
    One f32 matrix `key_dim x value_dim` per head, and the raw k, v, g and beta of up to `pending` rows of the last call.
    A recurrent state cannot be cropped, so rows that may still be rejected are not folded into it: the next call
    folds those that were accepted, stepping token by token exactly as decoding does.

    ```mlir
    !lm.delta_cache<heads = 8, key_heads = 4, key_dim = 64, value_dim = 64, pending = 16>
    ```
  }];
  let parameters = (ins "int64_t":$heads, "int64_t":$key_heads,
                        "int64_t":$key_dim, "int64_t":$value_dim,
                        "int64_t":$pending);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Lm_AnyCache : AnyTypeOf<[Lm_KvCacheType, Lm_ConvCacheType, Lm_DeltaCacheType]>;

#endif // TANDEM_DIALECTS_LM_LMTYPES_TD
