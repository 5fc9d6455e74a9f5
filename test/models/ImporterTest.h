//===- ImporterTest.h - Imports of the tiny pair, edited or not -*- C++ -*-===//

#ifndef TANDEM_TEST_MODELS_IMPORTERTEST_H
#define TANDEM_TEST_MODELS_IMPORTERTEST_H

#include "models/Importer.h"
#include "test/models/TestFiles.h"

#include "mlir/IR/Verifier.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace tandem::models {

inline const std::string TinyDir =
    std::string(TANDEM_SOURCE_DIR) + "/test/Inputs/tiny/";
/// Of the names of the target's tensors.
inline const std::string Prefix = "model.language_model.";

using Strings = std::vector<std::string>;

/// Imports the tiny pair, or what a test makes of it.
class ImporterTest : public testing::Test {
protected:
  ImporterTest() {
    context.getDiagEngine().registerHandler(
        [this](mlir::Diagnostic &diagnostic) {
          warnings.push_back(strip(diagnostic.str()));
        });
    options.targetDir = TinyDir + "target-w4a16";
    options.drafterDir = TinyDir + "drafter-w4a16";
  }

  /// Imports what the options say; null, with a failure, on an error.
  mlir::OwningOpRef<mlir::ModuleOp> import() {
    llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> module =
        importPair(context, options);
    if (!module) {
      ADD_FAILURE() << llvm::toString(module.takeError());
      return nullptr;
    }
    EXPECT_TRUE(succeeded(mlir::verify(**module)));
    return std::move(*module);
  }
  /// The error that the options give, without the paths of the directories.
  std::string message() {
    llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> module =
        importPair(context, options);
    return module ? "" : strip(llvm::toString(module.takeError()));
  }

  /// Imports the edited files from now on.
  void useTarget(const EditableCheckpoint &files) {
    files.write(targetDirectory);
    options.targetDir = targetDirectory.getPath();
  }
  void useDrafter(const EditableCheckpoint &files) {
    files.write(drafterDirectory);
    options.drafterDir = drafterDirectory.getPath();
  }

  std::string strip(std::string text) const {
    for (const auto &[path, name] : {std::pair(targetDirectory.getPath(), "T"),
                                     std::pair(drafterDirectory.getPath(), "D"),
                                     std::pair(TinyDir + "target-w4a16", "T"),
                                     std::pair(TinyDir + "drafter-w4a16", "D")})
      for (size_t at; (at = text.find(path)) != std::string::npos;)
        text.replace(at, path.size(), name);
    return text;
  }

  mlir::MLIRContext context;
  ImportOptions options;
  Strings warnings;
  TempDirectory targetDirectory, drafterDirectory;
  EditableCheckpoint target = EditableCheckpoint::readTiny("target-w4a16");
  EditableCheckpoint drafter = EditableCheckpoint::readTiny("drafter-w4a16");
};

} // namespace tandem::models

#endif // TANDEM_TEST_MODELS_IMPORTERTEST_H
