//===- Passes.td - All passes, by phase -----------------------------------===//

#ifndef TANDEM_PASSES_PASSES_TD
#define TANDEM_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

/// Debian builds MLIR without pass statistics, so passes count for themselves.
def ReportOption
    : Option<"report", "report", "bool", "false",
             "Say in a remark how often the pass did what">;

//===----------------------------------------------------------------------===//
// Contract of the import
//===----------------------------------------------------------------------===//

def VerifyImportPass : Pass<"lm-verify-import", "::mlir::ModuleOp"> {
  let summary = "Check what the fusions may assume.";
  let description = [{
    Fails at the first op that breaks the contract between import and compiler:

    - functions hold ops of `lm` only, in one block;
    - every weight names a checkpoint of `lm.checkpoints`;
    - every argument and result of a program is a port or a state, no name stands twice in one list, and a name has one
      type in the whole module;
    - a state that goes in comes out.
  }];
}

//===----------------------------------------------------------------------===//
// Fusion
//===----------------------------------------------------------------------===//

def FuseDequantLinearPass : Pass<"lm-fuse-dequant-linear"> {
  let summary = "Fold a dequantized weight into the linear layer that reads it.";
  let description = [{
    ```mlir
    %w = lm.dequant %codes, %scales grouped<bits = 4, group = 32>
    %y = lm.linear %x, %w
    // becomes
    %y = lm.quant_linear %x, %codes, %scales grouped<bits = 4, group = 32>
    ```

    The weight is then read packed. Fires for every user of the dequantized weight that is a linear layer.
  }];
  let dependentDialects = ["::tandem::lm::LmDialect"];
  let options = [ReportOption];
}

def HoistLastRowPass : Pass<"lm-hoist-last-row"> {
  let summary = "Compute only the row that is used.";
  let description = [{
    ```mlir
    %y = lm.linear %x, %w : tensor<64x384xf32>, ...
    %last = lm.last_row %y, %count
    // becomes
    %row = lm.last_row %x, %count
    %last = lm.linear %row, %w : tensor<1x384xf32>, ...
    ```

    The row moves up through everything that is row by row and that nothing else reads, through a rotation and through the
    queries of an attention, which then stand at `lm.last_position`. In a prefill the last layer computes keys and values
    for all rows, and queries and MLP for one.
  }];
  let dependentDialects = ["::tandem::lm::LmDialect"];
  let options = [ReportOption];
}

def FuseGatedMlpPass : Pass<"lm-fuse-gated-mlp"> {
  let summary = "Gate, up, silu and mul in one layer.";
  let description = [{
    ```mlir
    %g = lm.quant_linear %x, %gate...
    %u = lm.quant_linear %x, %up...
    %s = lm.silu %g
    %y = lm.mul %s, %u
    // becomes
    %y = lm.fused_linear(%x) weights(%gate, %up) ... {gated}
    ```

    Both layers have the same input and format, and nothing else reads them.
  }];
  let dependentDialects = ["::tandem::lm::LmDialect"];
  let options = [ReportOption];
}

def FuseProjectionsPass : Pass<"lm-fuse-projections"> {
  let summary = "Linear layers of one input in one launch.";
  let description = [{
    ```mlir
    %q = lm.quant_linear %x, %wq...
    %k = lm.quant_linear %x, %wk...
    // becomes
    %q, %k = lm.fused_linear(%x) weights(%wq, %wk) ...
    ```

    All linear layers of a block that read the same input in the same format: query, key and value; the input
    projections of a delta layer; the keys and values that all layers of a drafter make of its context. Layers of
    another format, or whose results are of another type, stay apart.
  }];
  let dependentDialects = ["::tandem::lm::LmDialect"];
  let options = [ReportOption];
}

def FuseNormLinearPass : Pass<"lm-fuse-norm-linear"> {
  let summary = "Fold a norm into the layers that read it.";
  let description = [{
    ```mlir
    %n = lm.rms_norm %x, %w
    %y = lm.quant_linear %n, ...
    // becomes
    %y = lm.fused_linear(%x) ... norm(%w) ... {norm = #lm.norm<...>}
    ```

    Fires when the norm spans the row and only linear layers read it.
  }];
  let dependentDialects = ["::tandem::lm::LmDialect"];
  let options = [ReportOption];
}

def FuseResidualPass : Pass<"lm-fuse-residual"> {
  let summary = "Add the residual in the epilogue of a layer.";
  let description = [{
    ```mlir
    %y = lm.quant_linear %x, ...
    %h = lm.add %residual, %y
    // becomes
    %h = lm.fused_linear(%x) ... residual(%residual)
    ```

    Fires when the sum is the only reader of the layer.
  }];
  let dependentDialects = ["::tandem::lm::LmDialect"];
  let options = [ReportOption];
}

def FuseDeltaInputsPass : Pass<"lm-fuse-delta-inputs"> {
  let summary = "Conv, silu, norms and gates of a delta layer in one op.";
  let description = [{
    `lm.short_conv`, `lm.silu`, `lm.split`, two `lm.l2_norm`, `lm.delta_gate` and `lm.sigmoid` that feed a `lm.gated_delta`
    become one `lm.delta_inputs`, when nothing else reads what is between them.
  }];
  let dependentDialects = ["::tandem::lm::LmDialect"];
  let options = [ReportOption];
}

def FuseAttentionInputsPass : Pass<"lm-fuse-attention-inputs"> {
  let summary = "Norms, rotations and caches of attention in one op.";
  let description = [{
    ```mlir
    %q0, %g = lm.split %x {groups = 16 : i64}     // or a query without a gate
    %q = lm.rope (lm.rms_norm %q0) at %start
    %k = lm.rope (lm.rms_norm %k0) at %start
    %c = lm.cache_append %cache, %k, %v at %start
    %o = lm.attention %q, %c at %start
    // becomes
    %q, %g, %c = lm.attention_inputs query(%x, ..) keys(%k0) values(%v) norms(..) caches(%cache) at %start
    %o = lm.attention %q, %c at %start
    ```

    when nothing else reads what is between. Appended keys and values that no such query reads become an op of their own, and
    those of several layers for the same rows one op. Runs behind `lm-lower-sliding-window`, which follows caches through their
    ops. GPUs alone have a kernel for it.
  }];
  let dependentDialects = ["::tandem::lm::LmDialect"];
  let options = [ReportOption];
}

def FuseAttentionGatePass : Pass<"lm-fuse-attention-gate"> {
  let summary = "The output gate into attention.";
  let description = [{
    ```mlir
    %o = lm.attention %q, %cache at %start
    %y = lm.mul %o, (lm.sigmoid %gate)
    // becomes
    %y = lm.attention %q, %cache at %start gate %gate
    ```

    when nothing else reads what is between, and the gate is there before the attention. GPUs alone have a kernel for it.
  }];
  let dependentDialects = ["::tandem::lm::LmDialect"];
  let options = [ReportOption];
}

def FuseDeltaNormPass : Pass<"lm-fuse-delta-norm"> {
  let summary = "The gated norm into the delta rule.";
  let description = [{
    ```mlir
    %o, %c = lm.gated_delta %q, %k, %v, %g, %beta, %cache keep %n
    %y = lm.gated_rms_norm %o, %z, %w
    // becomes
    %y, %c = lm.gated_delta %q, %k, %v, %g, %beta, %cache keep %n norm(%z, %w)
    ```

    when nothing else reads the output, rows are not committed at once, and the gate is there before. GPUs alone have a kernel
    for it.
  }];
  let dependentDialects = ["::tandem::lm::LmDialect"];
  let options = [ReportOption];
}

def FuseDeltaLayerPass : Pass<"lm-fuse-delta-layer"> {
  let summary = "The delta rule makes what it reads.";
  let description = [{
    ```mlir
    %q, %k, %v, %g, %beta, %c1 = lm.delta_inputs %x, %a, %b, %w, %al, %dt, %c keep %n
    %y, %d1 = lm.gated_delta %q, %k, %v, %g, %beta, %d keep %n norm(%z, %norm)
    // becomes
    %q, %k, %v, %g, %beta, %c1 = lm.delta_inputs %x, %a, %b, %w, %al, %dt, %c keep %n
    %y, %d1 = lm.gated_delta %q, %k, %v, %g, %beta, %d keep %n norm(%z, %norm) {lm.makes_inputs}
    ```

    of which `convert-lm-to-plan` makes one launch, when nothing else reads what is between them, rows are not committed at once, and
    heads are short. GPUs alone have a kernel for it.
  }];
  let dependentDialects = ["::tandem::lm::LmDialect"];
  let options = [ReportOption];
}

def FuseHeadArgmaxPass : Pass<"lm-fuse-head-argmax"> {
  let summary = "Tokens without logits in memory.";
  let description = [{
    ```mlir
    %l = lm.linear %x, %head
    %t = lm.argmax %l
    // becomes
    %t = lm.head_argmax %x, %head
    ```

    Runs behind `lm-lower-denoise`, which makes the argmax of a drafter visible. Logits that a program returns stay.
  }];
  let dependentDialects = ["::tandem::lm::LmDialect"];
  let options = [ReportOption];
}

def SearchHeadsPass : Pass<"lm-search-heads", "::mlir::ModuleOp"> {
  let summary = "Heads that read half of their weight.";
  let description = [{
    ```mlir
    %t = lm.head_argmax %x, %head
    // becomes
    %t = lm.head_argmax %x, %head {search}
    ```

    The tokens are the same, to the bit. Fires for heads of bf16: with `target` in all programs but the one that drafts, with
    `draft` in that one. Which program drafts, `lm.speculate` says, so it runs before `lm-lower-speculate`.
  }];
  let dependentDialects = ["::tandem::lm::LmDialect"];
  let options = [Option<"target", "target", "bool", "true",
                        "Heads of all programs that do not draft">,
                 Option<"draft", "draft", "bool", "false",
                        "The head of the program that drafts">,
                 ReportOption];
}

def RoundDraftHeadPass : Pass<"lm-round-draft-head", "::mlir::ModuleOp"> {
  let summary = "A small head for drafts.";
  let description = [{
    ```mlir
    %t = lm.head_argmax %x, %head
    // becomes, in the program that drafts
    %t = lm.head_argmax %x, %head
        {rounding = #lm.grouped<bits = 4, group = 128>}
    ```

    A draft that is another one costs time and nothing else. Groups are of 128 columns, or of 64 where those do not divide
    a row. A drafter of several diffusion steps needs logits and keeps its head.
  }];
  let dependentDialects = ["::tandem::lm::LmDialect"];
  let options = [ReportOption];
}

def RestrictDraftVocabularyPass
    : Pass<"lm-restrict-draft-vocabulary", "::mlir::ModuleOp"> {
  let summary = "Drafts of some tokens of the vocabulary.";
  let description = [{
    ```mlir
    %t = lm.head_argmax %x, %head
    // becomes, in the program that drafts
    %rows = lm.select_rows %head[#lm.token_set<0, 3, 17>]
    %places = lm.head_argmax %x, %rows
    %t = lm.select_tokens %places[#lm.token_set<0, 3, 17>]
    ```

    A token that is never drafted costs time and nothing else. How the head is read is chosen behind it, by `lm-search-heads` and `lm-round-draft-head`. A drafter of several diffusion steps needs logits
    of all tokens: that is an error.
  }];
  let dependentDialects = ["::tandem::lm::LmDialect"];
  let options = [ListOption<"tokens", "tokens", "int64_t",
                            "Ids of the tokens that are drafted, ascending">,
                 ReportOption];
}

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

def LowerDenoisePass : Pass<"lm-lower-denoise"> {
  let summary = "Spell the diffusion steps of a block out.";
  let description = [{
    ```mlir
    %block, %logits, %c1 = lm.denoise %anchor caches(%c0) {mask_token, size, steps = 1} { body }
    // becomes
    %masked = lm.mask_block %anchor {mask_token}
    %logits, %c1 = body(%masked, %c0)
    %drafts = lm.argmax %logits
    %block = lm.concat_tokens %anchor, %drafts
    ```

    With more steps the body stands once per step, and `lm.unmask` between two of them fills the most confident slots.
  }];
  let dependentDialects = ["::tandem::lm::LmDialect"];
  let options = [ReportOption];
}

def LowerSlidingWindowPass
    : Pass<"lm-lower-sliding-window", "::mlir::ModuleOp"> {
  let summary = "Keep only the positions of a cache that a window can see.";
  let description = [{
    A cache that every attention of the module reads through a window needs no more slots than the longest window and
    the rows that are written before it is read. Its type becomes a ring in all programs:

    ```mlir
    !lm.kv_cache<4112x2x64xf32>   with window = 256 and 16 rows
    // becomes
    !lm.kv_cache<ring 272x2x64xf32>
    ```

    Slots are rounded up to a multiple of 16, the tile of keys. A cache that would not shrink stays as it is. A ring with
    fewer slots than the rows of one append keeps the last rows, which is all that later windows see.
  }];
  let dependentDialects = ["::tandem::lm::LmDialect"];
  let options = [ReportOption];
}

def LowerSpeculatePass : Pass<"lm-lower-speculate", "::mlir::ModuleOp"> {
  let summary = "Make the speculative loop a plan.loop.";
  let description = [{
    Checks that the programs of `lm.speculate` fit together as `runtime/README.md` describes: each has the ports the loop
    writes and reads, with the shapes that block, chunk and vocabulary ask for, and replaces the op by a `plan.loop`. A
    program that does not fit is an error at the loop.
  }];
  let dependentDialects = ["::tandem::plan::PlanDialect"];
  let options = [ReportOption];
}

//===----------------------------------------------------------------------===//
// To the machine
//===----------------------------------------------------------------------===//

def ConvertLmToPlanPass : Pass<"convert-lm-to-plan", "::mlir::ModuleOp"> {
  let summary = "Tensors to memory, ops to launches, functions to programs.";
  let description = [{
    ```mlir
    func.func @f(%x: tensor<16x1024xf32> {lm.port = "x"})
        -> (tensor<16x1024xf32> {lm.port = "y"}) {
      %y = lm.silu %x : tensor<16x1024xf32>
      return %y : tensor<16x1024xf32>
    }
    // becomes
    %x = plan.port "x" : memref<16x1024xf32>
    %y = plan.port "y" : memref<16x1024xf32>
    plan.kernel @silu_1024 silu {columns = 1024 : i64}
    plan.program @f(%x : ...) -> (%y : ...) {
      plan.launch @silu_1024 ins(%x : ...) outs(%y : ...) rows 16 items 1 per_row
    }
    ```

    A tensor becomes the port it is returned through, or a buffer. A cache becomes the state of its name and is updated
    in place; a use of a cache behind the op that updates it is an error. Weights are packed as the kernels that read
    them ask; `lm.live_rows` becomes the `live` operand of the launches that depend on it.
  }];
  let dependentDialects = ["::tandem::plan::PlanDialect"];
  let options = [Option<"arch", "arch", "std::string", "\"native\"",
                        "Processor the plan is for">,
                 ReportOption];
}

def FuseAttentionLayerPass : Pass<"plan-fuse-attention-layer", "::mlir::ModuleOp"> {
  let summary = "Attention makes what it reads.";
  let description = [{
    ```mlir
    plan.launch @attention_inputs ins(%x, %qn, %k, %v, %kn, %start, %table) outs(%q, %gate, %cache) rows 16
    plan.launch @attention ins(%q, %cache, %start, %gate) outs(%y) rows 16
    // becomes
    plan.launch @attention_inputs ins(%x, %qn, %k, %v, %kn, %start, %table) outs(%y, %cache) rows 16
    ```

    for up to 16 rows, when nothing else reads what is between and heads are of 128 or 256 numbers, a multiple of 64 of which
    turn. GPUs that have clusters of blocks, alone, have a kernel for it.
  }];
  let dependentDialects = ["::tandem::plan::PlanDialect"];
  let options = [ReportOption];
}

def SelectKernelsPass : Pass<"plan-select-kernels", "::mlir::ModuleOp"> {
  let summary = "Choose the tiles of kernels by the rows they are launched for, and what they multiply.";
  let description = [{
    ```mlir
    plan.kernel @quant_linear_384x1024_q4_g32_bf16 quant_linear {...}
    plan.launch @quant_linear_384x1024_q4_g32_bf16 ... rows 64 ...
    plan.launch @quant_linear_384x1024_q4_g32_bf16 ... rows 16 ...
    // becomes, for a GPU
    plan.kernel @quant_linear_384x1024_q4_g32_bf16_r16 quant_linear {..., row_tile = 16 : i64}
    plan.kernel @quant_linear_384x1024_q4_g32_bf16_r64 quant_linear {..., row_tile = 64 : i64}
    plan.launch @quant_linear_384x1024_q4_g32_bf16_r64 ... rows 64 ...
    plan.launch @quant_linear_384x1024_q4_g32_bf16_r16 ... rows 16 ...
    ```

    A block of a GPU computes a tile of rows, and reads the weights once for all of them: a large tile for the many rows of
    a prefill, a small one where a large one would multiply zeros. The tile is the smallest of 8, 16, 32, 64 and 128 that holds the rows
    of the launch, or 128. Each row is summed alone, in an order that depends on the tile. A kernel that has a tile keeps it.

    On processors there are no tiles to choose: their kernels have code for every number of rows and look at it when they run.
    There `arithmetic` says what linear layers multiply: rows stay f32 in memory and are rounded on the way. A kernel gets it when
    its weights allow it, and keeps one that it has:

    - `i8`: integer codes without zero points, in groups of a multiple of 32 columns, or of 16;
    - `bf16`: the same, and bf16 weights of a multiple of 16 columns. Where `i8` is asked for, these are multiplied in bf16.
  }];
  let dependentDialects = ["::tandem::plan::PlanDialect"];
  let options = [
    Option<"arithmetic", "arithmetic", "std::string", /*default=*/"\"f32\"",
           "What linear layers of a processor multiply: f32, bf16 or i8">,
    ReportOption
  ];
}

def ArrangeTokensPass : Pass<"plan-arrange-tokens", "::mlir::ModuleOp"> {
  let summary = "Have layers of codes write tokens as the next layer's products take them.";
  let description = [{
    ```mlir
    plan.launch @down_r16 ins(%x, %w0, %r : ...) outs(%y : memref<16x2560xbf16>) rows 16 ...
    plan.launch @gate_up_r16 ins(%y, %w1, %w2, %norm : ...) outs(%z : memref<16x9216xbf16>) rows 16 ...
    // becomes
    plan.launch @down_r16_next ins(%x, %w0, %r, %norm : ...)
                               outs(%y, %f, %s : memref<16x2560xbf16>, memref<16x2560xbf16>, memref<160x16xf32>) rows 16 ...
    plan.launch @gate_up_r16_from ins(%f, %w1, %w2, %s : ...) outs(%z : memref<16x9216xbf16>) rows 16 ...
    ```

    A layer of up to 16 rows whose warps read rows, normalize them and turn them in shared memory does all of that in front of its first
    product, with code that runs once. Here the layer in front does it for the few numbers that each of its threads has: it writes them
    times the weight of the norm, as they are to lie in registers (`fragments.cuh`), and the squares of its rows. The factors of rows
    follow from those while products run, and sums are multiplied by them. So a row is rounded once less, and the same in every launch of
    up to 16 rows.

    It applies to a launch of `fused_quant_linear` and those that read its result with the same rows, on GPUs whose blocks form clusters.
    Readers have bf16 weights or codes that are multiplied where they lie in their words. Either the writer adds a residual and they
    normalize its result (it keeps that, too, which others read), or it has a single result that they read as it is, and nobody else (the
    result lies so).
  }];
  let dependentDialects = ["::tandem::plan::PlanDialect"];
  let options = [ReportOption];
}

def AssignBuffersPass : Pass<"plan-assign-buffers", "::mlir::ModuleOp"> {
  let summary = "Give every port, state and buffer its offset.";
  let description = [{
    Buffers whose lifetimes do not meet share the arena: largest first, each at the lowest offset where it meets no other
    that lives at the same time. Programs do not run at the same time, so they share the arena too. Sets `plan.arena_size`,
    `plan.state_size` and `plan.port_size` on the module. Offsets are multiples of 64.
  }];
  let dependentDialects = ["::tandem::plan::PlanDialect"];
  let options = [ReportOption];
}

def VerifyPlanPass : Pass<"plan-verify", "::mlir::ModuleOp"> {
  let summary = "Check what codegen may assume.";
  let description = [{
    Fails at the first op that breaks the contract between compiler and codegen:

    - the module holds ops of `plan` only;
    - every port, state and buffer has an offset inside its space, and no two that live at the same time overlap;
    - every buffer is written before it is read;
    - port names, state names and weight names are unique;
    - the parameters of every kernel fit each other, and every launch has the operands, rows and items that its kernel asks
      for (the table in `KernelFamilies.cpp`, checked by `KernelContract.cpp`): shapes, element types, packings, room for rows that
      wait, outputs apart from what is read;
    - caches hold all positions that an attention sees in the longest text.
  }];
}

#endif // TANDEM_PASSES_PASSES_TD
