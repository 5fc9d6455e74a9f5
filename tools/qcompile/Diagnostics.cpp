//===- Diagnostics.cpp - Messages of the compiler -------------------------===//

#include "tools/qcompile/Diagnostics.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/raw_ostream.h"

#include <utility>

using namespace mlir;
using namespace tandem::qcompile;

/// A place for people: a position in a file or the name of a tensor. Empty
/// when there is none.
static std::string toText(Location location) {
  return llvm::TypeSwitch<LocationAttr, std::string>(location)
      .Case([](FileLineColRange file) {
        return (file.getFilename().getValue() + ":" +
                llvm::Twine(file.getStartLine()) + ":" +
                llvm::Twine(file.getStartColumn()))
            .str();
      })
      .Case([](NameLoc name) { return name.getName().str(); })
      .Case([](CallSiteLoc call) { return toText(call.getCallee()); })
      .Case([](FusedLoc fused) {
        for (Location part : fused.getLocations())
          if (std::string text = toText(part); !text.empty())
            return text;
        return std::string();
      })
      .Default([](LocationAttr) { return std::string(); });
}

static std::string toText(Diagnostic &diagnostic) {
  std::string place = toText(diagnostic.getLocation());
  return place.empty() ? diagnostic.str() : place + ": " + diagnostic.str();
}

Diagnostics::Diagnostics(MLIRContext &context, Progress &progress)
    : progress(progress),
      handler(&context, [this](Diagnostic &diagnostic) { print(diagnostic); }) {
  // A whole function behind every message of a verifier helps nobody.
  context.printOpOnDiagnostic(false);
}

void Diagnostics::print(StringRef severity, StringRef text) {
  // What is wrong in many places is told by the first one.
  if (severity == "error" && std::exchange(hasErrors, true))
    return;
  progress.interrupt();
  llvm::errs() << "qcompile: " << severity << ": ";
  for (char c : text.rtrim())
    llvm::errs() << (c == '\n' ? ' ' : c);
  llvm::errs() << "\n";
}

void Diagnostics::print(Diagnostic &diagnostic) {
  StringRef severity;
  switch (diagnostic.getSeverity()) {
  case DiagnosticSeverity::Error:
    severity = "error";
    break;
  case DiagnosticSeverity::Warning:
    severity = "warning";
    break;
  case DiagnosticSeverity::Note:
    severity = "note";
    break;
  case DiagnosticSeverity::Remark:
    // What a pass has to say to those who work on it.
    return;
  }
  std::string text = toText(diagnostic);
  // All of a message on one line.
  for (Diagnostic &note : diagnostic.getNotes())
    text += " (" + toText(note) + ")";
  print(severity, text);
}

LogicalResult Diagnostics::report(llvm::Error error) {
  if (!error)
    return success();
  print("error", llvm::toString(std::move(error)));
  return failure();
}

LogicalResult Diagnostics::reportFailure(StringRef phase) {
  if (!hasErrors)
    print("error", (phase + " failed").str());
  return failure();
}
