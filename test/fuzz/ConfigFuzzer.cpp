//===- ConfigFuzzer.cpp - config.json of targets and drafters -------------===//
//
// The input is a config.json. It is read as both kinds of model; what is
// accepted is asked about modules, as the import does.
//
//===----------------------------------------------------------------------===//

#include "models/Config.h"
#include "models/StopTokens.h"
#include "test/fuzz/InputFolder.h"

using namespace tandem::models;

static void askAboutModules(const TransformerConfig &config) {
  // Products of any three sizes fit into 63 bits.
  int64_t product;
  if (__builtin_mul_overflow(config.hiddenSize, config.intermediateSize,
                             &product) ||
      __builtin_mul_overflow(product, config.layers, &product))
    __builtin_trap();
  if (!config.quantization)
    return;
  const std::string names[] = {"model.layers.10.self_attn.q_proj",
                               "layers.10.self_attn.q_proj", "Linear"};
  (void)config.quantization->find(names);
  (void)config.quantization->isIgnored(names);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static tandem::fuzz::InputFolder folder;
  folder.write("config.json", data, size);
  llvm::Expected<TargetConfig> target = TargetConfig::read(folder.getPath());
  if (target) {
    askAboutModules(*target);
    llvm::consumeError(readStopTokens(folder.getPath(), *target).takeError());
  } else {
    llvm::consumeError(target.takeError());
  }
  llvm::Expected<DrafterConfig> drafter = DrafterConfig::read(folder.getPath());
  if (drafter)
    askAboutModules(*drafter);
  else
    llvm::consumeError(drafter.takeError());
  return 0;
}
