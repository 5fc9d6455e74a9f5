//===- TokenizerFuzzer.cpp - tokenizer.json -------------------------------===//
//
// The input is a tokenizer.json. What is accepted has to hold what the
// runtime's tables need.
//
//===----------------------------------------------------------------------===//

#include "models/Tokenizer.h"
#include "test/fuzz/InputFolder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static tandem::fuzz::InputFolder folder;
  folder.write("tokenizer.json", data, size);
  llvm::Expected<tandem::models::TokenizerData> tokenizer =
      tandem::models::readTokenizer(folder.getPath());
  if (!tokenizer)
    llvm::consumeError(tokenizer.takeError());
  return 0;
}
