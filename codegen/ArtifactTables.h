//===- ArtifactTables.h - A plan as the flatbuffer --------------*- C++ -*-===//
//
// The part of the serializer that is a walk: each op of the plan becomes the
// table of runtime/Artifact.fbs that it is named after. Everything follows the
// order of the module, so equal plans give equal bytes.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_CODEGEN_ARTIFACTTABLES_H
#define TANDEM_CODEGEN_ARTIFACTTABLES_H

#include "codegen/Code.h"
#include "models/ChatData.h"
#include "models/TokenizerData.h"
#include "runtime/Artifact_generated.h"

#include <optional>

namespace tandem::codegen {

/// Blobs start at multiples of this, a line of a GPU's caches: what is copied
/// from the middle of a line takes one line more each time.
constexpr uint64_t kBlobAlignment = 128;

/// All that an artefact is made of, but the weights, which stay in their
/// checkpoints.
/// Tokens that a self-test writes, and the shortest context that it and its
/// prompt are sure to fit into.
constexpr int64_t kSelfTestTokens = 64, kSelfTestContext = 256;

/// The self-test of Artifact.fbs.
struct SelfTest {
  std::string prompt;
  float floor;
};

struct ArtifactContents {
  /// A plan that plan-verify has passed.
  mlir::ModuleOp plan;
  Code code;
  /// Type of the activations, as `--activations`.
  std::string activations = "f32";
  /// None for a single compiled function.
  std::optional<models::TokenizerData> tokenizer;
  /// Left out of a file without a drafter, without a tokenizer, or with a
  /// context that is shorter than kSelfTestContext.
  std::optional<SelfTest> selfTest;
  models::ChatData chat;
  /// For people; must not depend on when and where the compiler runs.
  std::string compilerVersion;
  std::string commandLine;
  /// One line per source file; see SourceFiles.h.
  std::vector<std::string> sources;
};

/// Where the large bytes lie, relative to the blob section.
struct BlobLayout {
  /// In the order of the images of the code.
  std::vector<artifact::Blob> images;
  /// In the order of the `plan.weight`s.
  std::vector<artifact::Blob> weights;
  /// Bytes of the section in the file.
  uint64_t size = 0;
  /// Bytes of the section when synthetic weights are made; 0: there are none.
  uint64_t filledSize = 0;

  /// Puts the images and then the weights one behind the other, those that are
  /// synthetic last.
  explicit BlobLayout(const ArtifactContents &contents);
};

/// Builds the flatbuffer of \p contents. Errors: numbers that the file has no
/// room for, a flatbuffer of 2 GiB or more.
llvm::Error buildTables(const ArtifactContents &contents,
                        const BlobLayout &layout,
                        flatbuffers::FlatBufferBuilder &builder);

} // namespace tandem::codegen

#endif // TANDEM_CODEGEN_ARTIFACTTABLES_H
