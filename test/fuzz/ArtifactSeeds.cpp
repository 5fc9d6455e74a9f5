//===- ArtifactSeeds.cpp - Seeds of the artefact fuzzer -------------------===//
//
// ArtifactSeeds FOLDER ARTEFACT...: writes artefacts without their blob
// sections, those given and a small one made here. Seeds are made, not kept:
// every change of the format would make them worthless.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/TestArtifact.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

using namespace tandem;
using namespace tandem::test;

static bool writeSeed(const std::string &path, const Artifact &artifact,
                      std::span<const std::byte> file) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char *>(file.data()),
            std::streamsize(artifact.header().flatbuffer_offset() +
                            artifact.header().flatbuffer_size()));
  return bool(out.flush());
}

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: ArtifactSeeds FOLDER ARTEFACT...\n");
    return 2;
  }
  std::string folder = argv[1];
  std::filesystem::create_directories(folder);
  ArtifactSpec spec;
  spec.tokenizer = byteTokenizer({"ab", "abc"});
  spec.tokenizer->merges = {{'a', 'b', 256, 0}, {256, 'c', 257, 1}};
  spec.tokenizer->addedIds = {257};
  spec.ports = {{.name = "x"}, {.name = "y", .shape = {4, 8}}};
  spec.states = {{.name = "keys", .size = 256}};
  FileBytes file = spec.write();
  StatusOr<Artifact> artifact = Artifact::view(file.bytes());
  if (!artifact.isOk() ||
      !writeSeed(folder + "/tokenizer", *artifact, file.bytes()))
    return 1;
  for (int index = 2; index < argc; ++index) {
    StatusOr<MappedFile> mapped = MappedFile::open(argv[index]);
    StatusOr<Artifact> given = Artifact::open(argv[index]);
    if (!mapped.isOk() || !given.isOk() ||
        !writeSeed(folder + "/" + std::to_string(index), *given,
                   mapped->bytes())) {
      std::fprintf(stderr, "ArtifactSeeds: cannot use %s\n", argv[index]);
      return 1;
    }
  }
  return 0;
}
