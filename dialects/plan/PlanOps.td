//===- PlanOps.td - Operations of the plan dialect ------------------------===//

#ifndef TANDEM_DIALECTS_PLAN_PLANOPS_TD
#define TANDEM_DIALECTS_PLAN_PLANOPS_TD

include "dialects/plan/PlanAttrs.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"

class Plan_Op<string mnemonic, list<Trait> traits = []>
    : Op<Plan_Dialect, mnemonic, traits>;

/// Memory of a known size: row-major, in the element types of `ElementType` in
/// runtime/Artifact.fbs.
def Plan_Memory
    : ConfinedType<MemRefOf<[F32, BF16, F16, I32, I8]>,
                   [CPred<"::tandem::plan::isPlainMemory("
                          "::llvm::cast<::mlir::MemRefType>($_self))">],
                   "row-major memory of known sizes">;

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

def Plan_PortOp : Plan_Op<"port", [HasParent<"::mlir::ModuleOp">]> {
  let summary = "An argument or result that programs exchange.";
  let description = [{
    Memory that the host writes and reads, and through which programs hand data to each other; table `Port`. The offset
    into the port memory is set by `plan-assign-buffers`.

    Example:

    ```mlir
    %start = plan.port "start" at 64 : memref<1xi32>
    ```

    Constraints:
    - (C1) an offset is a multiple of 64 between 0 and 2^48.
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<I64Attr>:$offset);
  let results = (outs Plan_Memory:$result);
  let assemblyFormat =
      "$name (`at` $offset^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Plan_StateOp : Plan_Op<"state", [HasParent<"::mlir::ModuleOp">]> {
  let summary = "A cache that outlives a program.";
  let description = [{
    Table `State`. `kind` is `key_value`, `window` (a ring of the last keys and values), `conv` or
    `delta`; all but the first lose what was before when a text goes on. Zero before the first prefill of
    a text, but for keys and values, of which no program reads a row that its text has not written.

    Example:

    ```mlir
    %kv = plan.state "layers.3.kv" kind "key_value" at 0
        : memref<2x2x4112x64xf32>
    ```

    Constraints:
    - (C1) kind is one of the four.
    - (C2) an offset is a multiple of 64 between 0 and 2^48.
  }];
  let arguments = (ins StrAttr:$name, StrAttr:$kind,
                       OptionalAttr<I64Attr>:$offset);
  let results = (outs Plan_Memory:$result);
  let assemblyFormat =
      "$name `kind` $kind (`at` $offset^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

/// `#lm.source`.
def Plan_Repack : Attr<CPred<"::llvm::isa<::tandem::lm::SourceAttr>($_self)">,
                       "order of packed codes"> {
  let storageType = "::tandem::lm::SourceAttr";
  let returnType = "::tandem::lm::SourceAttr";
  let convertFromStorage = "$_self";
}

/// `#lm.token_set`.
def Plan_TokenSet
    : Attr<CPred<"::llvm::isa<::tandem::lm::TokenSetAttr>($_self)">,
           "some tokens"> {
  let storageType = "::tandem::lm::TokenSetAttr";
  let returnType = "::tandem::lm::TokenSetAttr";
  let convertFromStorage = "$_self";
}

def Plan_WeightOp : Plan_Op<"weight", [HasParent<"::mlir::ModuleOp">]> {
  let summary = "Read-only bytes in the layout of the kernels.";
  let description = [{
    Made from tensors `sources` of the checkpoint `checkpoint` (a key of `lm.checkpoints`) by the packing; table `Weight`.
    Where the checkpoint has codes in an order other than that of `#lm.grouped`, `repack` says which: then the sources are
    the operands of `lm.repack`. With `rows` only those rows of the source are packed, in this order.

    Example:

    ```mlir
    %w = plan.weight "layers.0.mlp.down_proj" from "target"
        ["layers.0.mlp.down_proj.weight_packed",
         "layers.0.mlp.down_proj.weight_scale"]
        packing(#plan.interleaved_codes<outputs = 384, columns = 1024,
                                         bits = 4, group = 32, scale = bf16>)
        : memref<221184xi8>
    ```

    Constraints:
    - (C1) the memory is one dimension of i8, as many as the packing has bytes.
    - (C2) there are as many sources as the packing takes, or as `lm.repack` does.
    - (C3) what is repacked has the bits, columns, groups and zero points of its packing.
    - (C4) rows are as many as the outputs of the packing, which is one of a single matrix.
  }];
  let arguments = (ins StrAttr:$name, StrAttr:$checkpoint, StrArrayAttr:$sources,
                       Plan_PackingInterface:$packing,
                       OptionalAttr<Plan_Repack>:$repack,
                       OptionalAttr<Plan_TokenSet>:$rows);
  let results = (outs Plan_Memory:$result);
  let assemblyFormat = [{
    $name `from` $checkpoint $sources (`repack` `(` $repack^ `)`)?
    (`rows` `(` $rows^ `)`)? `packing` `(` $packing `)` attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
}

def Plan_BufferOp : Plan_Op<"buffer", [HasParent<"ProgramOp">]> {
  let summary = "Scratch of a program.";
  let description = [{
    Alive from the first launch that uses it to the last. The offset into the arena is set by `plan-assign-buffers`.

    Example:

    ```mlir
    %h = plan.buffer at 4096 : memref<16x384xf32>
    ```

    Constraints:
    - (C1) an offset is a multiple of 64 between 0 and 2^48.
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$offset);
  let results = (outs Plan_Memory:$result);
  let assemblyFormat = "(`at` $offset^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

def Plan_KernelOp : Plan_Op<"kernel", [HasParent<"::mlir::ModuleOp">, Symbol]> {
  let summary = "A kernel to be generated.";
  let description = [{
    An instance of the template `family` with the numbers in `parameters`; table `Kernel`. Launches of equal
    instances share one kernel. What a family is told, reads and writes is the table in `KernelFamilies.cpp`.

    Example:

    ```mlir
    plan.kernel @silu_1024 silu {columns = 1024 : i64}
    ```

    Constraints:
    - (C1) the parameters are those of the family; some may be absent (`activations`: f32).
    - (C2) sizes are between 1 and 2^31 - 1, types are float types, numbers are finite.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Plan_KernelFamily:$family,
                       DictionaryAttr:$parameters);
  let assemblyFormat =
      "$sym_name $family $parameters attr-dict";
  let hasVerifier = 1;
}

def Plan_ProgramOp
    : Plan_Op<"program", [HasParent<"::mlir::ModuleOp">, Symbol, NoTerminator,
                          SingleBlock, AttrSizedOperandSegments]> {
  let summary = "Launches in order.";
  let description = [{
    Reads the ports `inputs` and writes the ports `outputs`; table `Program`. Each launch starts when the one before has ended.

    Example:

    ```mlir
    plan.program @step(%anchor, %start : memref<1xi32>, memref<1xi32>)
        -> (%anchor : memref<1xi32>) {
      ...
    }
    ```

    Constraints:
    - (C1) inputs and outputs are ports.
    - (C2) the body has no arguments and holds buffers and launches only.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Variadic<Plan_Memory>:$inputs,
                       Variadic<Plan_Memory>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `(` ($inputs^ `:` type($inputs))? `)`
    `->` `(` ($outputs^ `:` type($outputs))? `)` attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
}

def Plan_LaunchOp
    : Plan_Op<"launch", [HasParent<"ProgramOp">, AttrSizedOperandSegments,
                         DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Run a kernel.";
  let description = [{
    The kernel reads `inputs` and writes `outputs` (caches are read and written). The tensors have `rows` rows; with `live` the i32
    at `count` says how many of them carry meaning, and the kernel leaves the others alone. The work is `items` pieces, or
    with `per_row` as many for every live row, which the machine splits among its processors as it likes: items write disjoint
    memory and a row's result does not depend on the split. Table `Launch`.

    Example:

    ```mlir
    plan.launch @silu_1024 ins(%x : memref<64x1024xf32>)
        outs(%y : memref<64x1024xf32>) rows 64 live %count : memref<1xi32>
        items 1 per_row
    ```

    Constraints:
    - (C1) the kernel is one of the module.
    - (C2) inputs and outputs are as many as the family of the kernel takes.
    - (C3) rows and items are between 1 and 2^31 - 1.
    - (C4) count is one i32.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<Plan_Memory>:$inputs,
                       Variadic<Plan_Memory>:$outputs, I64Attr:$rows,
                       Optional<Plan_Memory>:$count, I64Attr:$items,
                       UnitAttr:$per_row);
  let assemblyFormat = [{
    $kernel (`ins` `(` $inputs^ `:` type($inputs) `)`)?
    (`outs` `(` $outputs^ `:` type($outputs) `)`)?
    `rows` $rows (`live` $count^ `:` type($count))?
    `items` $items (`per_row` $per_row^)? attr-dict
  }];
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
}

def Plan_LoopOp
    : Plan_Op<"loop", [HasParent<"::mlir::ModuleOp">,
                       DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The speculative loop.";
  let description = [{
    The programs of a text and what the loop has to know; table `Loop`. A round runs draft, verify and accept, which hand
    data to each other through ports of the same name.

    Example:

    ```mlir
    plan.loop {prefill = @prefill, step = @step, block = 1 : i64,
               chunk = 64 : i64, score_chunk = 16 : i64,
               max_context = 4096 : i64, vocabulary = 6144 : i64,
               stop_tokens = array<i32: 6115>}
    ```

    Constraints:
    - (C1) every program is a `plan.program` of the module.
    - (C2) sizes are between 1 and 2^31 - 1.
    - (C3) short_prefill and a short_chunk below the chunk are given together.
  }];
  let arguments = (ins FlatSymbolRefAttr:$prefill, FlatSymbolRefAttr:$step,
                       OptionalAttr<FlatSymbolRefAttr>:$context,
                       OptionalAttr<FlatSymbolRefAttr>:$draft,
                       OptionalAttr<FlatSymbolRefAttr>:$verify,
                       OptionalAttr<FlatSymbolRefAttr>:$accept,
                       OptionalAttr<FlatSymbolRefAttr>:$score,
                       OptionalAttr<FlatSymbolRefAttr>:$score_draft,
                       I64Attr:$block, I64Attr:$chunk, I64Attr:$score_chunk,
                       I64Attr:$max_context, I64Attr:$vocabulary,
                       DenseI32ArrayAttr:$stop_tokens,
                       OptionalAttr<FlatSymbolRefAttr>:$prefill_logits,
                       OptionalAttr<FlatSymbolRefAttr>:$step_logits,
                       OptionalAttr<FlatSymbolRefAttr>:$verify_logits,
                       OptionalAttr<I64Attr>:$short_chunk,
                       OptionalAttr<FlatSymbolRefAttr>:$short_prefill,
                       OptionalAttr<FlatSymbolRefAttr>:$short_context,
                       OptionalAttr<FlatSymbolRefAttr>:$short_prefill_logits);
  let assemblyFormat = "attr-dict";
  let hasVerifier = 1;
}

#endif // TANDEM_DIALECTS_PLAN_PLANOPS_TD
