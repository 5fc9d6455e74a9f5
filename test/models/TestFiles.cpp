//===- TestFiles.cpp - Checkpoints made by tests --------------------------===//

#include "test/models/TestFiles.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"

#include <gtest/gtest.h>

#include <fstream>

using namespace tandem::models;

TempDirectory::TempDirectory() {
  llvm::SmallString<128> created;
  EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("tandem-test", created));
  path = created.str().str();
}

TempDirectory::~TempDirectory() {
  (void)llvm::sys::fs::remove_directories(path);
}

void TempDirectory::write(const std::string &name,
                          const std::string &contents) const {
  std::ofstream file(getPath(name), std::ios::binary);
  file.write(contents.data(), contents.size());
  EXPECT_TRUE(file.good()) << name;
}

std::string tandem::models::makeSafetensors(const std::string &header,
                                            const std::string &data) {
  std::string file(8, '\0');
  for (int byte = 0; byte < 8; ++byte)
    file[byte] = static_cast<char>(uint64_t(header.size()) >> (8 * byte));
  return file + header + data;
}

EditableCheckpoint EditableCheckpoint::readTiny(const std::string &name) {
  std::string directory =
      std::string(TANDEM_SOURCE_DIR) + "/test/Inputs/tiny/" + name;
  EditableCheckpoint result;
  llvm::Expected<Checkpoint> checkpoint = Checkpoint::open(directory);
  if (!checkpoint) {
    ADD_FAILURE() << llvm::toString(checkpoint.takeError());
    return result;
  }
  for (const TensorView &tensor : checkpoint->getTensors())
    result.tensors[tensor.name] = {
        toString(tensor.dtype).str(),
        {tensor.shape.begin(), tensor.shape.end()},
        std::string(tensor.bytes.begin(), tensor.bytes.end())};
  for (const char *file : {"config.json", "generation_config.json",
                           "tokenizer.json", "tokenizer_config.json"}) {
    std::ifstream stream(directory + "/" + file);
    if (stream)
      result.files[file] = nlohmann::json::parse(stream, nullptr, false);
  }
  return result;
}

void EditableCheckpoint::write(const TempDirectory &directory) const {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto &[name, tensor] : tensors) {
    size_t begin = data.size();
    data += tensor.bytes;
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {begin, data.size()}}};
  }
  directory.write("model.safetensors", makeSafetensors(header.dump(), data));
  for (const auto &[name, file] : files)
    directory.write(name, file.dump());
}
