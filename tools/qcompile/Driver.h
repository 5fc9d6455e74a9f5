//===- Driver.h - From options to an artefact -------------------*- C++ -*-===//
//
// Calls the libraries one after the other: import or read a stage, run the
// phases that are left, compile the kernels, write the file.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TOOLS_QCOMPILE_DRIVER_H
#define TANDEM_TOOLS_QCOMPILE_DRIVER_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tandem::qcompile {

/// The stages between checkpoint and artefact, in order; the last two are the
/// kernels of a processor and those of a GPU.
enum class Stage { Import, Fused, Lowered, Plan, Cpu, Cuda };

/// What the command line says. Empty strings are flags that were not given.
struct Options {
  /// Checkpoint directories; or a stage that was dumped, and neither of them.
  std::string target;
  std::string drafter;
  std::string input;

  std::string arch;
  /// Empty: bf16 on a GPU and on a processor with tile registers for it, else
  /// f32.
  std::string activations;
  /// How heads read their weight: bf16, int8. Empty: int8 on a GPU, bf16 on a
  /// processor. The tokens are the same.
  std::string verifyHead;
  /// The same for the drafter; or int4, for which drafts may be others. Empty:
  /// int4 on a GPU, bf16 on a processor.
  std::string draftHead;
  /// How many tokens are drafted; none: all. They are those that the text file
  /// has most often, or without one the first.
  std::optional<int64_t> draftVocabulary;
  std::string draftVocabularyText;
  /// As in models/Importer.h; for checkpoints only.
  std::optional<int64_t> block;
  std::optional<int64_t> draftWindow;
  std::optional<int64_t> maxContext;
  std::optional<int64_t> chunk, shortChunk;
  std::optional<int64_t> denoiseSteps;
  /// What `qrun --self-test` writes about, and how often the drafter has to be
  /// right there: a mean accept length. None: it counts, and has to be right
  /// now and then, as any trained drafter is; one that is broken is never
  /// right, which is 1.
  std::optional<std::string> selfTestPrompt;
  std::optional<double> selfTestFloor;
  /// The checkpoints are configurations; see models/Synthetic.h.
  std::optional<uint64_t> syntheticSeed;

  /// Stop when it is known that the input can be compiled; write nothing.
  bool check = false;
  std::string output;
  /// Print this stage and stop.
  std::optional<Stage> emit;
  /// Write all stages to this folder.
  std::string dumpDir;
  /// Print memory, bytes, operations and floors.
  bool report = false;
  /// The machine of the floors, as codegen/CostModel.h names it; empty: one
  /// that the architecture suggests.
  std::string machine;
  /// The report as JSON.
  bool json = false;
  /// Flags of optional passes to leave out.
  std::vector<std::string> disabledPasses;
};

/// Does what \p options say and prints what goes wrong, one line each. Returns
/// the exit code: 0, or 1 when there is no output.
int compile(const Options &options);

/// Name, version and the versions of what it is made of, on one line.
std::string getVersion();

} // namespace tandem::qcompile

#endif // TANDEM_TOOLS_QCOMPILE_DRIVER_H
