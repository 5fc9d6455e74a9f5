//===- ArtifactTest.cpp - What opening an artefact checks -----------------===//

#include "runtime/Artifact.h"
#include "runtime/KernelAbi.h"
#include "test/runtime/TemporaryFolder.h"
#include "test/runtime/TestArtifact.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <unistd.h>

using namespace tandem;
using namespace tandem::test;

namespace {

/// An artefact with something in every table.
ArtifactSpec fullSpec() {
  ArtifactSpec spec;
  spec.arenaSize = 256;
  spec.ports = {{"x", ElementType::f32, {3, 5}},
                {"count"},
                {"y", ElementType::bf16, {7}}};
  spec.states = {{"cache", 100}, {"more", 64}};
  spec.weights = {{"w", std::vector<std::byte>(70)},
                  {"v", std::vector<std::byte>(1)}};
  spec.images = {{std::vector<std::byte>(10)}};
  spec.kernels = {{"k0"}, {"k1", 0, 1000}};
  std::vector<Operand> operands = {Operand(64, 0, artifact::Space::arena),
                                   Operand(0, 1, artifact::Space::state),
                                   Operand(0, 1, artifact::Space::weight),
                                   Operand(0, 2, artifact::Space::port)};
  spec.programs = {{"one", {0, 1}, {2}, {{0, operands}, {1, operands, 3, 1}}},
                   {"two"}};
  spec.tokenizer = byteTokenizer({"ab", "abc"});
  spec.tokenizer->merges = {{'a', 'b', 256, 0}, {256, 'c', 257, 1}};
  spec.tokenizer->addedIds = {257};
  return spec;
}

/// The loop of a pair, with all programs and ports.
ArtifactSpec loopSpec() {
  ArtifactSpec spec;
  LoopSpec loop = {.block = 4, .stopTokens = {99}};
  constexpr ElementType f32 = ElementType::f32;
  spec.ports = {{"chunk", ElementType::i32, {8}},
                {"chunk_count"},
                {"start"},
                {"accepted"},
                {"anchor"},
                {"context_start"},
                {"block_count"},
                {"block", ElementType::i32, {4}},
                {"decided", ElementType::i32, {4}},
                {"chunk_features", f32, {8, 6}},
                {"features", f32, {4, 6}},
                {"score_tokens", ElementType::i32, {8}},
                {"score_count"},
                {"score_logits", f32, {8, 100}},
                {"score_features", f32, {8, 6}},
                {"draft_logits", f32, {3, 100}},
                {"step_features", f32, {1, 6}}};
  for (const char *name : {"prefill", "step", "context", "draft", "verify",
                           "accept", "score", "score_draft"})
    spec.programs.push_back({name});
  loop.numberPrograms();
  spec.loop = loop;
  return spec;
}

/// What opening \p spec says; "" when it opens.
std::string problemOf(const ArtifactSpec &spec) {
  FileBytes file = spec.write();
  return Artifact::view(file.bytes()).status().message();
}

/// problemOf() after one change.
std::string problemAfter(ArtifactSpec spec,
                         const std::function<void(ArtifactSpec &)> &change) {
  change(spec);
  return problemOf(spec);
}

/// fullSpec() with two weights that are made behind the 256 bytes of the file.
ArtifactSpec filledSpec() {
  ArtifactSpec spec = fullSpec();
  spec.filledBlobSize = 512;
  // Ten records of two numbers and three bytes of codes, and 5 numbers.
  spec.weights.push_back({"codes",
                          {},
                          artifact::Blob(256, 70),
                          FillSpec{.numbers = 2, .codes = 3, .center = 3}});
  spec.weights.push_back({"numbers",
                          {},
                          artifact::Blob(384, 20),
                          FillSpec{.element = ElementType::f32}});
  return spec;
}

LaunchSpec &firstLaunch(ArtifactSpec &spec) {
  return spec.programs[0].launches[0];
}

} // namespace

TEST(Artifact, OpensAndFindsByName) {
  FileBytes file = fullSpec().write();
  auto artifact = Artifact::view(file.bytes());
  ASSERT_TRUE(artifact.isOk()) << artifact.status().message();
  EXPECT_EQ(artifact->findPort("count"), 1u);
  EXPECT_EQ(artifact->findPort("nothing"), std::nullopt);
  EXPECT_EQ(artifact->findProgram("two"), 1u);
  EXPECT_EQ(artifact->portBytes(0), 60u);
  EXPECT_EQ(artifact->portBytes(2), 14u);
  EXPECT_EQ(artifact->blob(*artifact->root().weights()->Get(0)->data()).size(),
            70u);
  EXPECT_TRUE(artifact->verifyBlobs().isOk());
}

TEST(Artifact, OpensALoop) { EXPECT_EQ(problemOf(loopSpec()), ""); }

TEST(Artifact, FilesThatAreNoArtefactsAreNamed) { // P7.08
  TemporaryFolder folder;
  auto problem = [&](const std::string &content) {
    return Artifact::open(folder.write("file", content)).status().message();
  };
  EXPECT_EQ(problem(""), "the file is empty, not a Tandem artefact");
  EXPECT_EQ(problem("hello"), "not a Tandem artefact");
  EXPECT_EQ(problem(std::string(10000, 'x')), "not a Tandem artefact");
  EXPECT_EQ(problem("TANDEM\x1a\n and so on"),
            "the file ends inside its header (18 bytes, the header has 64)");
  EXPECT_EQ(Artifact::open(folder.path()).status().message(),
            "is a directory, not a file");
  EXPECT_EQ(Artifact::open("/dev/zero").status().message(),
            "is not a regular file");
  EXPECT_EQ(Artifact::open(folder.path() + "/none").status().message(),
            "cannot open: No such file or directory");
}

TEST(Artifact, OtherVersionIsRefusedWithBothNumbers) { // P7.08
  FileBytes file = fullSpec().write();
  for (uint32_t version : {0u, TANDEM_ARTIFACT_VERSION + 1, ~0u}) {
    std::memcpy(file.bytes().data() + 8, &version, 4);
    sealTables(file);
    EXPECT_EQ(Artifact::view(file.bytes()).status().message(),
              concat("artefact format ", version, ", this qrun reads ",
                     TANDEM_ARTIFACT_VERSION,
                     ": recompile with this version of "
                     "qcompile"));
  }
}

TEST(Artifact, EveryTruncationIsAnError) {
  FileBytes file = fullSpec().write();
  for (size_t size = 0; size < file.bytes().size(); size += 1 + size / 200) {
    FileBytes part(file.bytes().first(size));
    EXPECT_FALSE(Artifact::view(part.bytes()).isOk()) << size;
  }
}

TEST(Artifact, EveryChangedByteOfHeaderAndTablesIsAnError) {
  FileBytes file = fullSpec().write();
  const auto &header =
      *reinterpret_cast<artifact::FileHeader *>(file.bytes().data());
  // The hash of the blobs, the last eight bytes of the header, is for
  // verifyBlobs().
  size_t end = 64 + header.flatbuffer_size();
  for (size_t position = 0; position < end; ++position) {
    if (position >= 56 && position < 64)
      continue;
    FileBytes changed(file.bytes());
    changed.bytes()[position] ^= std::byte(0x10);
    EXPECT_FALSE(Artifact::view(changed.bytes()).isOk()) << position;
  }
}

TEST(Artifact, ChangedByteOfABlobIsFoundOnRequest) {
  FileBytes file = fullSpec().write();
  file.bytes().back() ^= std::byte(1);
  auto artifact = Artifact::view(file.bytes());
  ASSERT_TRUE(artifact.isOk());
  EXPECT_EQ(artifact->verifyBlobs().message(),
            "the hash of code and weights does not match: the file is damaged");
}

// With a right hash, any bytes at all must be refused or be safe to use.
TEST(Artifact, RandomChangesWithARightHashNeverCrash) {
  std::mt19937 random(7);
  unsigned opened = 0;
  for (const ArtifactSpec &spec : {fullSpec(), loopSpec()}) {
    FileBytes file = spec.write();
    const auto &header =
        *reinterpret_cast<artifact::FileHeader *>(file.bytes().data());
    size_t size = header.flatbuffer_size();
    for (unsigned round = 0; round < 20000; ++round) {
      FileBytes changed(file.bytes());
      for (unsigned flips = 1 + random() % 3; flips > 0; --flips)
        changed.bytes()[64 + random() % size] = std::byte(random());
      sealTables(changed);
      auto artifact = Artifact::view(changed.bytes());
      if (!artifact.isOk())
        continue;
      // Touch what a device would.
      ++opened;
      for (uint32_t port = 0; port < artifact->root().ports()->size(); ++port)
        (void)artifact->portBytes(port);
      for (const auto *weight : *artifact->root().weights())
        EXPECT_LE(artifact->blob(*weight->data()).size(),
                  artifact->blobSection().size());
    }
  }
  EXPECT_GT(opened, 0u);
}

TEST(Artifact, HeaderRangesAreChecked) {
  struct Case {
    size_t field;
    uint64_t value;
    const char *problem;
  };
  for (const Case &change : {
           Case{16, 60, "flatbuffer at 60 is not aligned to 64"},
           Case{16, 0, "flatbuffer (offset 0"},
           Case{24, ~uint64_t(0), "flatbuffer (offset 64"},
           Case{32, 4097, "blob section at 4097 is not aligned to 4096"},
           Case{32, 0, "blob section (offset 0"},
           Case{32, uint64_t(1) << 60, "is not inside the file"},
           Case{40, ~uint64_t(0), "blob section"},
           Case{24, 4200, "begins before the flatbuffer ends"},
       }) {
    FileBytes file = fullSpec().write();
    std::memcpy(file.bytes().data() + change.field, &change.value, 8);
    std::string problem = Artifact::view(file.bytes()).status().message();
    EXPECT_NE(problem.find(change.problem), problem.npos)
        << problem << " does not say: " << change.problem;
  }
}

TEST(Artifact, RangesOfTablesAreChecked) {
  auto problem = [](auto change) { return problemAfter(fullSpec(), change); };
  EXPECT_EQ(problem([](auto &spec) { spec.ports[1].offset = 65; }),
            "ports[1]: offset 65 is not a multiple of 64");
  EXPECT_EQ(problem([](auto &spec) { spec.portSize = 128; }),
            "ports[2]: offset 128 with 14 bytes is outside the port memory of "
            "128 bytes");
  EXPECT_EQ(problem([](auto &spec) {
              spec.portSize = 192;
              spec.ports[1].offset = uint64_t(0) - 64;
            }),
            "ports[1]: offset 18446744073709551552 with 4 bytes is outside the "
            "port memory of 192 bytes");
  EXPECT_EQ(problem([](auto &spec) {
              spec.portSize = 192;
              spec.ports[0].shape = {1u << 31, 1u << 31, 1u << 31};
            }),
            "ports[0]: shape is too large");
  EXPECT_EQ(problem([](auto &spec) { spec.ports[0].element = ElementType(9); }),
            "ports[0]: unknown element type 9");
  EXPECT_EQ(problem([](auto &spec) { spec.stateSize = 128; }),
            "states[1]: offset 128 with 64 bytes is outside the state memory "
            "of 128 bytes");
  EXPECT_EQ(problem([](auto &spec) {
              spec.weights[1].blob = artifact::Blob(128, 200);
            }),
            "weights[1]: offset 128 with 200 bytes is outside the blob section "
            "of 256 bytes");
  EXPECT_EQ(
      problem([](auto &spec) { spec.weights[1].blob = artifact::Blob(1, 1); }),
      "weights[1]: offset 1 is not a multiple of 64");
  EXPECT_EQ(problem([](auto &spec) { spec.cpuFeatures.reset(); }),
            "images[0]: is a shared object, but the processor it needs is not "
            "described");
  EXPECT_EQ(
      problem([](auto &spec) { spec.images[0].kind = artifact::ImageKind(7); }),
      "images[0]: unknown kind 7");
  EXPECT_EQ(problem([](auto &spec) {
              spec.arenaSize = uint64_t(1) << 60;
            }).find("memory of 1152921504606846976"),
            0u);
}

TEST(Artifact, WeightsAreMade) {
  FileBytes file = filledSpec().write();
  auto artifact = Artifact::view(file.bytes());
  ASSERT_TRUE(artifact.isOk()) << artifact.status().message();
  EXPECT_EQ(artifact->blobSection().size(), 512u);
  EXPECT_TRUE(artifact->verifyBlobs().isOk());
  const auto &weights = *artifact->root().weights();
  auto codes = artifact->blob(*weights.Get(2)->data());
  auto numbers = artifact->blob(*weights.Get(3)->data());
  ASSERT_EQ(codes.size(), 70u);
  ASSERT_EQ(numbers.size(), 20u);
  for (size_t record = 0; record < 10; ++record)
    for (size_t number = 0; number < 2; ++number) {
      uint16_t upper;
      std::memcpy(&upper, &codes[record * 7 + number * 2], 2);
      float value = std::bit_cast<float>(uint32_t(upper) << 16);
      EXPECT_TRUE(value >= 2 && value <= 4) << value;
    }
  for (size_t index = 0; index < 5; ++index) {
    float value;
    std::memcpy(&value, &numbers[index * 4], 4);
    EXPECT_TRUE(value >= -1 && value <= 1) << value;
  }
  // What the file holds is there as it was.
  EXPECT_EQ(artifact->blob(*weights.Get(0)->data()).size(), 70u);

  // The seed and the place decide, nothing else.
  auto again = Artifact::view(file.bytes());
  ASSERT_TRUE(again.isOk());
  EXPECT_TRUE(
      std::ranges::equal(artifact->blobSection(), again->blobSection()));
  ArtifactSpec other = filledSpec();
  other.weights[2].fill->seed = 2;
  FileBytes otherFile = other.write();
  auto changed = Artifact::view(otherFile.bytes());
  ASSERT_TRUE(changed.isOk());
  EXPECT_FALSE(std::ranges::equal(
      codes, changed->blob(*changed->root().weights()->Get(2)->data())));
}

TEST(Artifact, FillsAreChecked) {
  auto problem = [](auto change) { return problemAfter(filledSpec(), change); };
  EXPECT_EQ(problem([](auto &spec) { spec.filledBlobSize = 100; }),
            "filled blob section of 100 bytes, expected 256 to "
            "281474976710656");
  EXPECT_EQ(problem([](auto &spec) { spec.filledBlobSize = ~uint64_t(0); }),
            "filled blob section of 18446744073709551615 bytes, expected 256 "
            "to 281474976710656");
  // Without a size nothing is made, so there is no room.
  EXPECT_EQ(problem([](auto &spec) { spec.filledBlobSize = 0; }),
            "weights[2]: offset 256 with 70 bytes is outside the filled blob "
            "section of 0 bytes");
  // More than any machine has.
  EXPECT_NE(problem([](auto &spec) {
              spec.filledBlobSize = uint64_t(1) << 48;
            }).find("its synthetic weights need"),
            std::string::npos);
  ArtifactSpec large = filledSpec();
  large.filledBlobSize = uint64_t(1) << 48;
  FileBytes file = large.write();
  EXPECT_TRUE(Artifact::view(file.bytes(), SyntheticWeights::Leave).isOk());
  auto fill = [&](auto change) {
    return problem([&](auto &spec) { change(spec.weights[2]); });
  };
  EXPECT_EQ(fill([](auto &weight) { weight.blob = artifact::Blob(192, 70); }),
            "weights[2]: is made at 192, inside the 256 bytes of the file's "
            "blob section");
  EXPECT_EQ(fill([](auto &weight) { weight.blob = artifact::Blob(448, 70); }),
            "weights[2]: offset 448 with 70 bytes is outside the filled blob "
            "section of 512 bytes");
  EXPECT_EQ(fill([](auto &weight) { weight.blob = artifact::Blob(257, 70); }),
            "weights[2]: offset 257 is not a multiple of 64");
  EXPECT_EQ(fill([](auto &weight) { weight.fill.reset(); }),
            "weights[2]: offset 256 with 70 bytes is outside the blob section "
            "of 256 bytes");
  EXPECT_EQ(fill([](auto &weight) { weight.fill->element = ElementType::i32; }),
            "weights[2]: fill: makes numbers of element type " +
                std::to_string(static_cast<unsigned>(ElementType::i32)) +
                ", expected f32 or bf16");
  EXPECT_EQ(fill([](auto &weight) { weight.fill->element = ElementType(77); }),
            "weights[2]: fill: makes numbers of element type 77, expected f32 "
            "or bf16");
  for (float bad : {std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_EQ(fill([&](auto &weight) { weight.fill->center = bad; }),
              "weights[2]: fill: center or spread is not finite");
    EXPECT_EQ(fill([&](auto &weight) { weight.fill->spread = bad; }),
              "weights[2]: fill: center or spread is not finite");
  }
  EXPECT_EQ(fill([](auto &weight) { weight.fill->codes = 4; }),
            "weights[2]: fill: records of 8 bytes do not make 70 bytes");
  EXPECT_EQ(fill([](auto &weight) {
              weight.fill->codes = 0;
              weight.fill->numbers = 0;
            }),
            "weights[2]: fill: records of 0 bytes do not make 70 bytes");
  EXPECT_EQ(fill([](auto &weight) {
              weight.fill->codes = ~uint32_t(0);
              weight.fill->numbers = ~uint32_t(0);
            }),
            "weights[2]: fill: records of 12884901885 bytes do not make 70 "
            "bytes");
}

TEST(Artifact, IndexesAreChecked) {
  auto problem = [](auto change) { return problemAfter(fullSpec(), change); };
  EXPECT_EQ(problem([](auto &spec) { spec.kernels[1].image = 1; }),
            "kernels[1]: image index 1 is out of range (1 images)");
  EXPECT_EQ(problem([](auto &spec) { spec.kernels[0].symbol = ""; }),
            "kernels[0]: has no symbol");
  EXPECT_EQ(
      problem([](auto &spec) { spec.programs[0].launches[1].kernel = 9; }),
      "programs[0]: program 'one': launches[1]: kernel index 9 is out of "
      "range (2 kernels)");
  EXPECT_EQ(problem([](auto &spec) { spec.programs[0].outputs = {3}; }),
            "programs[0]: program 'one': port index 3 is out of range (3 "
            "ports)");
  EXPECT_EQ(problem([](auto &spec) { firstLaunch(spec).rowsPort = 3; }),
            "programs[0]: program 'one': launches[0]: port index 3 is out of "
            "range (3 ports)");
  EXPECT_EQ(problem([](auto &spec) { firstLaunch(spec).rowsPort = 0; }),
            "programs[0]: program 'one': launches[0]: rows come from port 'x', "
            "which is not an i32 of shape [1]");
  EXPECT_EQ(problem([](auto &spec) { spec.ports[2].name = "x"; }),
            "ports: two are called 'x'");
  EXPECT_EQ(problem([](auto &spec) { spec.programs[1].name = "one"; }),
            "programs: two are called 'one'");
}

TEST(Artifact, BlocksAndGridsOfAGpuAreChecked) {
  auto problem = [](const std::function<void(ArtifactSpec &)> &change) {
    ArtifactSpec spec = fullSpec();
    spec.arch = "sm_86";
    spec.cpuFeatures.reset();
    spec.images[0].kind = artifact::ImageKind::cubin;
    return problemAfter(spec, change);
  };
  EXPECT_EQ(problem([](ArtifactSpec &) {}), "");
  EXPECT_EQ(problem([](ArtifactSpec &spec) {
              spec.kernels[1].block = 1024;
              spec.kernels[1].shared = 227 << 10;
              firstLaunch(spec).grid = {0x7fffffff, 65535, 65535};
            }),
            "");
  EXPECT_EQ(problem([](ArtifactSpec &spec) { spec.kernels[1].block = 0; }),
            "kernels[1]: block of 0 threads, expected 1 to 1024");
  EXPECT_EQ(problem([](ArtifactSpec &spec) { spec.kernels[1].block = 1025; }),
            "kernels[1]: block of 1025 threads, expected 1 to 1024");
  EXPECT_EQ(
      problem([](ArtifactSpec &spec) { spec.kernels[1].shared = 232449; }),
      "kernels[1]: shared memory of 232449 bytes, the limit is 232448");
  for (unsigned axis = 0; axis < 3; ++axis)
    for (uint32_t size : {0u, 0x80000000u}) {
      std::string found = problem(
          [&](ArtifactSpec &spec) { firstLaunch(spec).grid[axis] = size; });
      EXPECT_EQ(found.find("programs[0]: program 'one': launches[0]: grid of "),
                0u)
          << found;
    }
  // A processor has neither.
  EXPECT_EQ(problemAfter(fullSpec(),
                         [](ArtifactSpec &spec) {
                           spec.kernels[0].block = 0;
                           firstLaunch(spec).grid = {0, 0, 0};
                         }),
            "");
  EXPECT_EQ(problemAfter(fullSpec(),
                         [](ArtifactSpec &spec) {
                           spec.images[0].kind = artifact::ImageKind::ptx;
                         }),
            "images[0]: is code for a GPU, the artefact is for native");
}

TEST(Artifact, OperandsAreChecked) {
  auto problem = [](Operand operand) {
    return problemAfter(fullSpec(), [&](ArtifactSpec &spec) {
      firstLaunch(spec).operands[2] = operand;
    });
  };
  std::string place = "programs[0]: program 'one': launches[0]: operands[2]: ";
  using artifact::Space;
  EXPECT_EQ(problem(Operand(192, 5, Space::arena)), "");
  EXPECT_EQ(problem(Operand(256, 0, Space::arena)),
            place + "offset 256 is not a multiple of 64 inside 256 bytes");
  EXPECT_EQ(problem(Operand(4, 0, Space::arena)),
            place + "offset 4 is not a multiple of 64 inside 256 bytes");
  EXPECT_EQ(problem(Operand(0, 2, Space::state)),
            place + "state index 2 is out of range (2 states)");
  EXPECT_EQ(problem(Operand(0, 2, Space::weight)),
            place + "weight index 2 is out of range (2 weights)");
  EXPECT_EQ(problem(Operand(0, 3, Space::port)),
            place + "port index 3 is out of range (3 ports)");
  EXPECT_EQ(problem(Operand(64, 2, Space::port)),
            place + "offset 64 is not a multiple of 64 inside 14 bytes");
  EXPECT_EQ(problem(Operand(0, 0, Space(4))), place + "unknown space 4");
}

TEST(Artifact, TokenizerTablesAreChecked) {
  auto problem = [](auto change) {
    return problemAfter(fullSpec(),
                        [&](ArtifactSpec &spec) { change(*spec.tokenizer); });
  };
  EXPECT_EQ(problem([](auto &spec) { spec.offsets.clear(); }),
            "tokenizer: token_offsets does not start with 0");
  EXPECT_EQ(problem([](auto &spec) { spec.offsets[9] = 300; }),
            "tokenizer: token_offsets[10] is smaller than the one before");
  EXPECT_EQ(problem([](auto &spec) { spec.offsets.back() = 262; }),
            "tokenizer: token_offsets end at 262, token_bytes has 261");
  EXPECT_EQ(problem([](auto &spec) { spec.byteTokens.pop_back(); }),
            "tokenizer: byte_tokens has 255 entries, expected 256");
  EXPECT_EQ(problem([](auto &spec) { spec.byteTokens[3] = 258; }),
            "tokenizer: byte_tokens[3]: token 258 is out of range (258 "
            "tokens)");
  EXPECT_EQ(problem([](auto &spec) {
              spec.merges[1] = artifact::Merge(256, 'c', 258, 1);
            }),
            "tokenizer: merges[1]: token 258 is out of range (258 tokens)");
  EXPECT_EQ(
      problem([](auto &spec) { std::swap(spec.merges[0], spec.merges[1]); }),
      "tokenizer: merges[1] is not sorted behind the one before");
  EXPECT_EQ(problem([](auto &spec) { spec.addedIds = {1000}; }),
            "tokenizer: added[0]: token 1000 is out of range (258 tokens)");
}

TEST(Artifact, LoopIsChecked) {
  auto problem = [](auto change) {
    return problemAfter(loopSpec(),
                        [&](ArtifactSpec &spec) { change(*spec.loop); });
  };
  EXPECT_EQ(problem([](auto &loop) { loop.prefill = -1; }),
            "loop: there is no program for 'prefill'");
  EXPECT_EQ(problem([](auto &loop) { loop.verify = -1; }),
            "loop: there is no program for 'verify'");
  EXPECT_EQ(problem([](auto &loop) { loop.step = 8; }),
            "loop: step: program index 8 is out of range (8 programs)");
  EXPECT_EQ(problem([](auto &loop) { loop.stopTokens = {1, 100}; }),
            "loop: stop_tokens[1]: token 100 is out of range (100 tokens)");
  EXPECT_EQ(problem([](auto &loop) { loop.maxContext = 0; }),
            "loop: block 4, chunk 8, max_context 0 and vocabulary 100 must all "
            "be at least 1");
  EXPECT_EQ(problem([](auto &loop) { loop.maxContext = 0x7ffffffe; }),
            "loop: a number is larger than 2147483647");
  EXPECT_EQ(problem([](auto &loop) { loop.shortChunk = 8; }),
            "loop: short_chunk is 8, expected less than the chunk, 8");
  EXPECT_EQ(problem([](auto &loop) { loop.shortChunk = 4; }),
            "loop: there is no program for 'short_prefill'");
  EXPECT_EQ(problem([](auto &loop) {
              loop.shortChunk = 4;
              loop.shortPrefill = loop.prefill;
            }),
            "loop: there is no program for 'short_context'");
  EXPECT_EQ(problem([](auto &loop) {
              loop.shortChunk = 4;
              loop.shortPrefill = loop.prefill;
              loop.shortContext = loop.context;
            }),
            "loop: there is no port 'short_chunk'");
  EXPECT_EQ(problem([](auto &loop) { loop.score = -1; }),
            "loop: 'score_draft' needs the programs 'score' and 'draft'");
}

TEST(Artifact, SelfTestIsChecked) {
  auto problem = [](auto change) {
    return problemAfter(loopSpec(), [&](ArtifactSpec &spec) {
      spec.tokenizer = byteTokenizer();
      spec.selfTest.emplace();
      change(spec);
    });
  };
  EXPECT_EQ(problem([](auto &spec) {}), "");
  EXPECT_EQ(problem([](auto &spec) { spec.tokenizer.reset(); }),
            "self_test: needs a drafter and a tokenizer");
  EXPECT_EQ(problem([](auto &spec) { spec.selfTest->prompt = ""; }),
            "self_test: the prompt is empty");
  EXPECT_EQ(problem([](auto &spec) { spec.selfTest->newTokens = 65; }),
            "self_test: new_tokens is 65, expected 1 to 64");
  EXPECT_EQ(problem([](auto &spec) { spec.selfTest->floor = NAN; }),
            "self_test: floor is nan, expected 1 to 4");
}

TEST(Artifact, PortsOfTheLoopAreChecked) {
  auto problem = [](auto change) { return problemAfter(loopSpec(), change); };
  EXPECT_EQ(problem([](auto &spec) { spec.ports[4].name = "anker"; }),
            "loop: there is no port 'anchor'");
  EXPECT_EQ(problem([](auto &spec) { spec.ports[0].shape = {7}; }),
            "loop: port 'chunk' is not i32 of shape [8]");
  EXPECT_EQ(problem([](auto &spec) { spec.ports[7].shape = {4, 1}; }),
            "loop: port 'block' is not i32 of shape [4]");
  EXPECT_EQ(problem([](auto &spec) { spec.ports[10].shape = {4, 7}; }),
            "loop: port 'features' is not f32 of shape [4, n*H]");
  // Nobody could count rows of nothing.
  EXPECT_EQ(problem([](auto &spec) {
              for (uint32_t port : {9, 10, 14})
                spec.ports[port].shape[1] = 0;
            }),
            "loop: port 'chunk_features' is not f32 of shape [8, n*H]");
  EXPECT_EQ(
      problem([](auto &spec) { spec.ports[13].element = ElementType::i32; }),
      "loop: port 'score_logits' is not f32 of shape [8, 100]");
  // Without programs that use them, ports may be missing.
  EXPECT_EQ(problem([](auto &spec) {
              LoopSpec &loop = *spec.loop;
              loop.context = loop.draft = loop.verify = loop.accept = -1;
              loop.score = loop.scoreDraft = -1;
              spec.ports.resize(5);
            }),
            "");
}
