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
                        "Processor the plan is for">];
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
    - port names, state names and weight names are unique.
  }];
}

#endif // TANDEM_PASSES_PASSES_TD
