//===- PlanAttrs.td - How weights are packed, what kernels there are ------===//

#ifndef TANDEM_DIALECTS_PLAN_PLANATTRS_TD
#define TANDEM_DIALECTS_PLAN_PLANATTRS_TD

include "dialects/plan/PlanDialect.td"
include "dialects/plan/PlanInterfaces.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

class Plan_Family<string name, int value> : I32EnumAttrCase<name, value>;

/// The templates that kernels are made from. What each one reads, writes and
/// is told is the table in KernelFamilies.cpp.
def Plan_KernelFamily
    : I32EnumAttr<"KernelFamily", "template of a kernel", [
        Plan_Family<"embed", 0>, Plan_Family<"linear", 1>,
        Plan_Family<"quant_linear", 2>, Plan_Family<"rms_norm", 3>,
        Plan_Family<"gated_rms_norm", 4>, Plan_Family<"l2_norm", 5>,
        Plan_Family<"silu", 6>, Plan_Family<"sigmoid", 7>,
        Plan_Family<"add", 8>, Plan_Family<"mul", 9>,
        Plan_Family<"last_row", 10>, Plan_Family<"drop_rows", 11>,
        Plan_Family<"split", 12>, Plan_Family<"concat_features", 13>,
        Plan_Family<"rope", 14>, Plan_Family<"cache_append", 15>,
        Plan_Family<"attention", 16>, Plan_Family<"short_conv", 17>,
        Plan_Family<"delta_gate", 18>, Plan_Family<"gated_delta", 19>,
        Plan_Family<"delta_save", 20>, Plan_Family<"argmax", 21>,
        Plan_Family<"mask_block", 22>, Plan_Family<"unmask", 23>,
        Plan_Family<"concat_tokens", 24>, Plan_Family<"accept", 25>,
        Plan_Family<"copy", 26>, Plan_Family<"fused_linear", 27>,
        Plan_Family<"fused_quant_linear", 28>,
        Plan_Family<"delta_inputs", 29>, Plan_Family<"head_argmax", 30>,
        Plan_Family<"argmax_parts", 31>, Plan_Family<"last_position", 32>,
        Plan_Family<"attention_inputs", 33>,
        Plan_Family<"head_search", 34>, Plan_Family<"head_settle", 35>,
        Plan_Family<"settled_argmax", 36>, Plan_Family<"head_draft", 37>,
        Plan_Family<"quant_head_argmax", 38>, Plan_Family<"select_tokens", 39>
      ]> {
  let cppNamespace = "::tandem::plan";
}

//===----------------------------------------------------------------------===//
// Packings
//===----------------------------------------------------------------------===//

class Plan_Packing<string name, string attrMnemonic>
    : AttrDef<Plan_Dialect, name,
              [DeclareAttrInterfaceMethods<Plan_PackingInterface>]> {
  let mnemonic = attrMnemonic;
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Plan_InterleavedAttr : Plan_Packing<"Interleaved", "interleaved"> {
  let summary = "A dense matrix, 16 outputs side by side.";
  let description = [{
    One source: `outputs x columns`. Tiles of 16 outputs (the last one filled up with zeros), columns inside a tile,
    the 16 outputs of a column adjacent:

    ```
    tile 0:  [w(0,0) w(1,0) .. w(15,0)] [w(0,1) .. w(15,1)] ... [w(0,K-1) .. w(15,K-1)]
    tile 1:  [w(16,0) .. w(31,0)] ...
    ```

    A vector of 16 outputs takes one load and one broadcast of the activation per column, and sums over
    columns in order without a horizontal reduction.
  }];
  let parameters = (ins "int64_t":$outputs, "int64_t":$columns,
                        "::mlir::Type":$element);
}

def Plan_InterleavedCodesAttr
    : Plan_Packing<"InterleavedCodes", "interleaved_codes"> {
  let summary = "Integer codes with their scales, 16 outputs side by side.";
  let description = [{
    Two sources: codes and scales of `#lm.grouped`. Tiles of 16 outputs as in `#plan.interleaved`; inside a tile one record
    per group of columns: 16 scales, with `zero_points` 16 zero points, then the words of the group, each word of 16
    outputs adjacent:

    ```
    group g:  [s(0,g) .. s(15,g)]                       16 scales of type `scale`
              [z(0,g) .. z(15,g)]                       16 zero points of type `scale`, if any
              [word 0 of outputs 0..15] [word 1 ...]    ceil(group * bits / 32) x 16 words of 32 bits
    ```

    A word holds `32 / bits` consecutive columns of one output, lowest bits first, as two's complement of `bits` bits
    (the checkpoint's code minus `2^(bits-1)`), or with `float_codes` as f8E4M3FN; what is left of the last word of a group is
    zero. A tile is one contiguous stream.
  }];
  let parameters = (ins "int64_t":$outputs, "int64_t":$columns, "int64_t":$bits,
                        "int64_t":$group, "::mlir::Type":$scale,
                        DefaultValuedParameter<"bool", "false">:$zero_points,
                        DefaultValuedParameter<"bool", "false">:$float_codes);
  let builders = [AttrBuilder<(ins "int64_t":$outputs, "int64_t":$columns,
                                   "int64_t":$bits, "int64_t":$group,
                                   "::mlir::Type":$scale), [{
    return $_get($_ctxt, outputs, columns, bits, group, scale, false, false);
  }]>];
  let extraClassDeclaration = [{
    /// Numbers of type `scale` of one output in a group.
    int64_t getScalesPerGroup() const { return getZeroPoints() ? 2 : 1; }
    /// 32-bit words of one output in a group.
    int64_t getWordsPerGroup() const {
      int64_t perWord = 32 / getBits();
      return (getGroup() + perWord - 1) / perWord;
    }
    /// Bytes of the scales, and zero points, of 16 outputs in a group.
    int64_t getScaleBytes() const;
    /// Bytes of the record of one group: scales and words of 16 outputs.
    int64_t getGroupBytes() const;
    /// Bytes of a tile of 16 outputs.
    int64_t getTileBytes() const {
      return getColumns() / getGroup() * getGroupBytes();
    }
  }];
}

def Plan_RowsAttr : Plan_Packing<"Rows", "rows"> {
  let summary = "A dense matrix, row after row.";
  let description = [{
    One source: `outputs x columns`. Rows as in the checkpoint, filled up with zeros to a multiple of 16 bytes:

    ```
    [w(0,0) w(0,1) .. w(0,K-1) 0 ..] [w(1,0) ..] ...
    ```

    What GPUs read: asynchronous copies of 16 bytes bring rows to where tensor cores take them from, and an embedding
    reads a row as it lies.
  }];
  let parameters = (ins "int64_t":$outputs, "int64_t":$columns,
                        "::mlir::Type":$element);
  let extraClassDeclaration = [{
    /// Bytes from one row to the next.
    int64_t getRowBytes() const;
  }];
}

def Plan_FragmentCodesAttr : Plan_Packing<"FragmentCodes", "fragment_codes"> {
  let summary = "Integer codes with their scales, as tensor cores take them.";
  let description = [{
    Two sources: codes and scales of `#lm.grouped`. Tiles of 16 outputs (the last one filled up with scales of zero), each
    one contiguous stream of units along the columns:

    ```
    tile 0:  [unit 0] [unit 1] ...        unit:  [scales] [words]
    tile 1:  [unit 0] ...
    ```

    A unit is a number of steps of 16 columns. A group takes `ceil(group / 16)` steps, its last step filled up with codes
    of value zero. Where 8 steps are whole groups, a unit is 8 steps (the last unit of a tile filled up with scales of zero);
    otherwise it is the largest number of steps up to 8 that divides the steps of a group, and each unit has the scale
    of its group.

    ```
    scales   for g = 0..7:  [output g: a scale per group of the unit] [output g + 8: the same]
    zeros    zero points in the order of scales and of their type, with `zero_points`
    words    those of lane 0..31 for each step of the unit, `vector` words of a lane side by side:
             [lane 0: w0 .. ] [lane 1: w0 ..] .. [lane 31: w0 ..] [lane 0: w(vector) ..] ..
             where vector is 4, 2 or 1, the largest that divides the words of a lane
    ```

    A lane's words of a step are its part of the A operand of `mma.m16n8k16`. With g = lane / 4 and t = lane % 4 it holds the
    columns 2 t, 2 t + 1 of output g in register 0 and of output g + 8 in register 1, and the columns 2 t + 8, 2 t + 9 of the
    two in registers 2 and 3. Codes are those of the checkpoint, value plus `2^(bits-1)`:

    ```
    4 bits   one word; bits 4 i .. and 4 i + 16 .. are the lower and the higher column of register i
    8 bits   two words; bytes 0, 1 of word 0 are register 0, bytes 2, 3 register 1, word 1 the others
    ```

    With `float_codes` the bytes are f8E4M3FN. A warp reads a unit in a few loads of 16 bytes a lane and has the operand
    after two instructions a register.
  }];
  let parameters = (ins "int64_t":$outputs, "int64_t":$columns, "int64_t":$bits,
                        "int64_t":$group, "::mlir::Type":$scale,
                        DefaultValuedParameter<"bool", "false">:$zero_points,
                        DefaultValuedParameter<"bool", "false">:$float_codes);
  let builders = [AttrBuilder<(ins "int64_t":$outputs, "int64_t":$columns,
                                   "int64_t":$bits, "int64_t":$group,
                                   "::mlir::Type":$scale), [{
    return $_get($_ctxt, outputs, columns, bits, group, scale, false, false);
  }]>];
  let extraClassDeclaration = [{
    /// Numbers of type `scale` of one output in a group.
    int64_t getScalesPerGroup() const { return getZeroPoints() ? 2 : 1; }
    /// Steps of 16 columns that a group takes.
    int64_t getGroupSteps() const { return (getGroup() + 15) / 16; }
    /// Steps of a unit.
    int64_t getUnitSteps() const;
    /// Groups that a unit has scales of.
    int64_t getUnitGroups() const;
    /// Units of a tile.
    int64_t getUnits() const;
    /// Words of a lane in a unit.
    int64_t getUnitWords() const { return getUnitSteps() * getBits() / 4; }
    /// Bytes of the scales and zero points of a unit, and of all of it.
    int64_t getScaleBytes() const;
    int64_t getUnitBytes() const { return getScaleBytes() + getUnitWords() * 128; }
  }];
}

def Plan_SearchCodesAttr : Plan_Packing<"SearchCodes", "search_codes"> {
  let summary = "Rounded rows of a matrix, to look for the largest product in.";
  let description = [{
    One source: `outputs x columns` in bf16. Every row n is rounded to whole multiples of its scale s(n), a step of the largest
    entry of the row in 127:

    ```
    w(n, k)  is about  s(n) * c(n, k),   c(n, k) = -127 .. 127
    ```

    Scales are in `#plan.search_scales`, and how far the products of the two can be apart in `#plan.search_errors`; the page
    [heads](../heads.md) has the proof. Tiles of 16 outputs (the last one filled up with zeros), each one stream of steps along
    the columns (the last one filled up with zeros). For a processor a step is 4 columns: a word of each of 16 outputs, the
    lowest byte first; bytes are codes plus 128.

    ```
    tile 0:  [c(0,0..3) c(1,0..3) .. c(15,0..3)] [c(0,4..7) .. c(15,4..7)] ...
    ```

    With `fragments` a step is 32 columns, the A operand of `mma.m16n8k32`: 16 bytes of each of 32 lanes. With g = lane / 4 and
    t = lane % 4 those of a lane are

    ```
    word 0   columns 4 t .. 4 t + 3 of output g        word 2   columns 4 t + 16 .. 4 t + 19 of output g
    word 1   the same of output g + 8                  word 3   the same of output g + 8
    ```
  }];
  let parameters = (ins "int64_t":$outputs, "int64_t":$columns,
                        DefaultValuedParameter<"bool", "false">:$fragments);
  let extraClassDeclaration = [{
    /// Columns of a step.
    int64_t getStepColumns() const { return getFragments() ? 32 : 4; }
    /// Steps of a tile, and its bytes.
    int64_t getSteps() const {
      return (getColumns() + getStepColumns() - 1) / getStepColumns();
    }
    int64_t getTileBytes() const { return getSteps() * getStepColumns() * 16; }
  }];
}

def Plan_SearchScalesAttr : Plan_Packing<"SearchScales", "search_scales"> {
  let summary = "Scales of rounded rows.";
  let description = [{
    The source of `#plan.search_codes`; f32, a scale of each row, filled up with zeros to a multiple of 16.
  }];
  let parameters = (ins "int64_t":$outputs, "int64_t":$columns);
}

def Plan_SearchErrorsAttr : Plan_Packing<"SearchErrors", "search_errors"> {
  let summary = "How far rounded rows are from their matrix.";
  let description = [{
    The source of `#plan.search_codes`; f32, a number of each row, filled up with zeros to a multiple of 16. Times the length of
    a token it is more than a product of the rounded row can differ from what a kernel computes with the row itself:

    ```
    |w - s c| + gamma |w| + (2^-11 + 2^-20) |s c|      gamma = 2.5 (columns + 32) 2^-24
    ```

    The page [heads](../heads.md) says why.
  }];
  let parameters = (ins "int64_t":$outputs, "int64_t":$columns);
}

def Plan_RoundedRowsAttr : Plan_Packing<"RoundedRows", "rounded_rows"> {
  let summary = "A matrix, rounded to 4 bits, as GPUs read it.";
  let description = [{
    One source: `outputs x columns` in bf16, rounded to codes of 4 bits with a scale in bf16 for every `group` columns, as `rounding` of `lm.head_argmax` says. Tiles of 16 outputs (the last one filled up with scales
    of zero), each one stream of groups; a group is its scales and then blocks of 64 columns, 16 bytes of each of 32 lanes:

    ```
    tile 0:  [group 0] [group 1] ...        group:  [scales] [block 0] [block 1] ...
    scales   bf16, for g = 0..7: output g, output g + 8
    ```

    A block is twice the A operand of `mma.m16n8k32`, codes plus 8. With g = lane / 4 and t = lane % 4 word 2 s + i of a lane holds of step s,
    32 columns, of output g + 8 i,

    ```
    lower halves of bytes 0..3    columns 4 t .. 4 t + 3
    upper halves of bytes 0..3    columns 4 t + 16 .. 4 t + 19
    ```
  }];
  let parameters = (ins "int64_t":$outputs, "int64_t":$columns,
                        "int64_t":$group);
  let extraClassDeclaration = [{
    /// Bytes of a group of a tile.
    int64_t getGroupBytes() const { return 16 * 2 + getGroup() * 8; }
    /// Bytes of a tile.
    int64_t getTileBytes() const {
      return getColumns() / getGroup() * getGroupBytes();
    }
  }];
}

def Plan_RoundedCodesAttr : Plan_Packing<"RoundedCodes", "rounded_codes"> {
  let summary = "A matrix, rounded to 4 bits, as processors read it.";
  let description = [{
    One source: `outputs x columns` in bf16, rounded as `#plan.rounded_rows` says. The codes and scales lie as those of
    `#plan.interleaved_codes` with 4 bits and scales in bf16.
  }];
  let parameters = (ins "int64_t":$outputs, "int64_t":$columns,
                        "int64_t":$group);
  let extraClassDeclaration = [{
    /// What they are packed as.
    InterleavedCodesAttr getCodes() const;
  }];
}

def Plan_TokenTableAttr : Plan_Packing<"TokenTable", "token_table"> {
  let summary = "The ids of some tokens.";
  let description = [{
    No source: the tokens of a `#lm.token_set` in i32, in order.
  }];
  let parameters = (ins "::tandem::lm::TokenSetAttr":$set);
}

def Plan_VectorAttr : Plan_Packing<"Vector", "vector"> {
  let summary = "A vector in f32.";
  let description = [{
    One source of any float type and any shape with `length` entries, in its own order.
  }];
  let parameters = (ins "int64_t":$length);
}

def Plan_TapsAttr : Plan_Packing<"Taps", "taps"> {
  let summary = "Convolution weights, channels adjacent.";
  let description = [{
    One source `channels x 1 x taps`; f32, `[taps][channels]`.
  }];
  let parameters = (ins "int64_t":$taps, "int64_t":$channels);
}

def Plan_RopeTableAttr : Plan_Packing<"RopeTable", "rope_table"> {
  let summary = "Cosines and sines by position.";
  let description = [{
    No source. f32, `[positions][2][dims / 2]`: for position p the cosines of `p * theta^(-2 j / dims)`, then the sines.
    The frequency and the angle are rounded to f32 as in the models' reference implementation, cosine and sine are those
    of the rounded angle.
  }];
  let parameters = (ins "int64_t":$positions, "int64_t":$dims,
                        "::mlir::FloatAttr":$theta);
}

#endif // TANDEM_DIALECTS_PLAN_PLANATTRS_TD
