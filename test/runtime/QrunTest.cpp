//===- QrunTest.cpp - The command line of qrun ----------------------------===//
//
// Runs the tool itself on an artefact whose kernels are in PairKernels.c: what
// it prints, where, and how it exits.
//
//===----------------------------------------------------------------------===//

#include "runtime/SafetensorsIo.h"
#include "test/runtime/TemporaryFolder.h"
#include "test/runtime/TestArtifact.h"

#include <cstdio>
#include <cstring>
#include <gtest/gtest.h>
#include <sys/wait.h>

using namespace tandem;
using namespace tandem::test;
using artifact::Space;

namespace {

/// Ports of the pair, by index.
enum Port : uint32_t {
  Chunk,
  ChunkCount,
  Start,
  Accepted,
  Anchor,
  ContextStart,
  BlockCount,
  Block,
  Decided,
  ChunkFeatures,
  Features,
  ScoreTokens,
  ScoreCount,
  ScoreLogits,
  ScoreFeatures,
  DraftLogits,
};

Operand port(Port index) { return Operand(0, index, Space::port); }

/// The pair of PairKernels.c, which writes the alphabet.
ArtifactSpec alphabetSpec() {
  ArtifactSpec spec;
  constexpr ElementType i32 = ElementType::i32, f32 = ElementType::f32;
  spec.ports = {{"chunk", i32, {8}},
                {"chunk_count"},
                {"start"},
                {"accepted"},
                {"anchor"},
                {"context_start"},
                {"block_count"},
                {"block", i32, {4}},
                {"decided", i32, {4}},
                {"chunk_features", f32, {8, 1}},
                {"features", f32, {4, 1}},
                {"score_tokens", i32, {8}},
                {"score_count"},
                {"score_logits", f32, {8, 256}},
                {"score_features", f32, {8, 1}},
                {"draft_logits", f32, {3, 256}},
                {"step_features", f32, {1, 1}}};
  std::ifstream stream(TANDEM_TEST_PAIR_KERNELS, std::ios::binary);
  std::string image(std::istreambuf_iterator<char>(stream), {});
  auto *bytes = reinterpret_cast<const std::byte *>(image.data());
  spec.images = {{{bytes, bytes + image.size()}}};
  spec.kernels = {{"prefill"}, {"draft"}, {"verify"},
                  {"accept"},  {"step"},  {"score"}};
  spec.programs = {
      {"prefill",
       {Chunk, ChunkCount},
       {port(Anchor).index()},
       {{0, {port(Chunk), port(Anchor)}, 8, ChunkCount}}},
      {"step",
       {Anchor},
       {Anchor},
       {{4, {port(Anchor), port(Accepted), port(Start), port(ContextStart)}}}},
      {"context"},
      {"draft", {Anchor}, {Block}, {{1, {port(Anchor), port(Block)}, 4}}},
      {"verify",
       {Block},
       {Decided},
       {{2, {port(Block), port(Decided)}, 4, BlockCount, 1, true}}},
      {"accept",
       {Block, Decided},
       {Accepted},
       {{3,
         {port(Block), port(Decided), port(Accepted), port(Anchor), port(Start),
          port(ContextStart)},
         4,
         BlockCount}}},
      {"score",
       {ScoreTokens},
       {ScoreLogits},
       {{5, {port(ScoreTokens), port(ScoreLogits)}, 8, ScoreCount, 1, true}}},
      {"score_draft", {}, {}, {}}};
  LoopSpec loop = {.block = 4,
                   .chunk = 8,
                   .scoreChunk = 8,
                   .maxContext = 1 << 30,
                   .vocabulary = 256};
  loop.numberPrograms();
  spec.loop = loop;
  spec.tokenizer = byteTokenizer();
  return spec;
}

/// What a command did.
struct Outcome {
  int exitCode;
  /// Both streams, in order.
  std::string output;
};

class QrunTest : public testing::Test {
protected:
  TemporaryFolder folder;

  /// Writes an artefact into the folder.
  std::string save(const ArtifactSpec &spec, const char *name) {
    FileBytes file = spec.write();
    return folder.write(name,
                        {reinterpret_cast<const char *>(file.bytes().data()),
                         file.bytes().size()});
  }

  void SetUp() override { save(alphabetSpec(), "pair.tandem"); }

  /// Runs a shell command in the folder, where `qrun` is the tool.
  Outcome shell(const std::string &command) {
    std::string line =
        concat("cd ", folder.path(), " && { ", command, "; } 2>&1 </dev/null");
    size_t place;
    while ((place = line.find("$qrun")) != line.npos)
      line.replace(place, 5, TANDEM_QRUN);
    Outcome outcome = {-1, ""};
    FILE *pipe = popen(line.c_str(), "r");
    char buffer[4096];
    while (size_t size = fread(buffer, 1, sizeof(buffer), pipe))
      outcome.output.append(buffer, size);
    int status = pclose(pipe);
    if (WIFEXITED(status))
      outcome.exitCode = WEXITSTATUS(status);
    return outcome;
  }

  void expect(const std::string &arguments, int exitCode,
              const std::string &output) {
    Outcome outcome = shell("$qrun " + arguments);
    EXPECT_EQ(outcome.exitCode, exitCode) << arguments;
    EXPECT_EQ(outcome.output, output) << arguments;
  }

  /// expect(), for output that holds some text and no second line.
  void expectLineWith(const std::string &arguments, int exitCode,
                      const std::string &part) {
    Outcome outcome = shell("$qrun " + arguments);
    EXPECT_EQ(outcome.exitCode, exitCode) << arguments;
    EXPECT_NE(outcome.output.find(part), std::string::npos)
        << outcome.output << "does not say: " << part;
    EXPECT_EQ(outcome.output.find('\n'), outcome.output.size() - 1)
        << outcome.output;
  }
};

} // namespace

TEST_F(QrunTest, TextGoesToStdoutAndNothingElse) {
  expect("pair.tandem -p 'say abc' -n 10", 0, "defghijklm");
  expect("pair.tandem -p 'say abc' -n 10 --no-draft", 0, "defghijklm");
  expect("pair.tandem -p 'say abc' -n 10 --threads 3 --device cpu", 0,
         "defghijklm");
}

TEST_F(QrunTest, ArtefactMayStandInFrontOfACommand) {
  for (const char *command : {"tokenize -p abc", "inspect --json"}) {
    std::string behind = command;
    behind.insert(behind.find(' '), " pair.tandem");
    Outcome expected = shell("$qrun " + behind);
    EXPECT_EQ(expected.exitCode, 0) << expected.output;
    expect("pair.tandem " + std::string(command), 0, expected.output);
  }
}

TEST_F(QrunTest, PromptsComeFromFlagsAndFiles) {
  folder.write("prompt.txt", "xyz");
  folder.write("ids.json", "[97]");
  expect("pair.tandem --prompt-file prompt.txt -n 3", 0, "abc");
  expect("pair.tandem --ids ids.json -n 3", 0, "bcd");
}

TEST_F(QrunTest, JsonIsOneObject) { // P3.16
  Outcome outcome = shell("$qrun pair.tandem -p ab -n 9 --json --block 4");
  EXPECT_EQ(outcome.exitCode, 0);
  // 'd' (100) and 'i' (105) are divisible by 5: the draft behind them is wrong.
  std::string begin =
      R"({"ids":[99,100,101,102,103,104,105,106,107],"text":"cdefghijk",)"
      R"("finish_reason":"length","prompt_tokens":2,)"
      R"("accept_lengths":[2,4,1,1],"mean_accept_length":2.0,)"
      R"("timing":{"load_s":)";
  EXPECT_EQ(outcome.output.substr(0, begin.size()), begin);
  EXPECT_EQ(outcome.output.find('\n'), outcome.output.size() - 1);
}

TEST_F(QrunTest, StopTokensEndTheTextUnlessIgnored) {
  ArtifactSpec spec = alphabetSpec();
  spec.loop->stopTokens = {'f'};
  save(spec, "stop.tandem");
  expect("stop.tandem -p a -n 10", 0, "bcde");
  expect("stop.tandem -p a -n 10 --ignore-eos", 0, "bcdefghijk");
  Outcome outcome = shell("$qrun stop.tandem -p a --json");
  EXPECT_EQ(outcome.output.find(R"({"ids":[98,99,100,101,102],"text":"bcde",)"
                                R"("finish_reason":"stop",)"),
            0u);
}

TEST_F(QrunTest, StopStringsEndTheText) {
  expect("pair.tandem -p a --stop fgh --stop zz", 0, "bcde");
  Outcome outcome = shell("$qrun pair.tandem -p a --stop fgh --json");
  EXPECT_EQ(
      outcome.output.find(R"({"ids":[98,99,100,101,102,103,104],"text":"bcde",)"
                          R"("finish_reason":"stop",)"),
      0u)
      << outcome.output;
}

TEST_F(QrunTest, TextThatIsNotUtf8IsStillJson) { // P6.02
  ArtifactSpec spec = alphabetSpec();
  // The token of 'b' is the beginning of a character, that of 'c' its end.
  spec.tokenizer->bytes['b'] = char(0xc3);
  spec.tokenizer->bytes['c'] = char(0xa9);
  save(spec, "bytes.tandem");
  for (const char *mode : {"", " --no-draft"}) {
    Outcome cut = shell(concat("$qrun bytes.tandem -p a -n 1 --json", mode));
    EXPECT_NE(cut.output.find("\"text\":\"\xef\xbf\xbd\""), std::string::npos);
    expect(concat("bytes.tandem -p a -n 3", mode), 0, "\xc3\xa9\x64");
  }
}

TEST_F(QrunTest, UsageErrorsExitWith2AndOneLine) {
  expectLineWith("", 2, "qrun: an artifact is required");
  expectLineWith("pair.tandem", 2, "qrun: a prompt is required");
  expectLineWith("pair.tandem --nothing", 2, "--nothing");
  expectLineWith("pair.tandem -p a --prompt-file b", 2, "excludes");
  expectLineWith("pair.tandem -p a -n 0", 2, "not in range");
  expectLineWith("pair.tandem -p a -n x", 2, "qrun: ");
  expectLineWith("pair.tandem -p a -n -3", 2, "qrun: ");
  expectLineWith("pair.tandem -p a --threads 0", 2, "--threads");
  expectLineWith("pair.tandem -p a --stop ''", 2, "--stop");
  for (const char *rows : {"0", "-1", "4x", "all"})
    expectLineWith(std::string("pair.tandem -p a --block ") + rows, 2,
                   "--block: expected auto or a number of tokens");
  for (const char *device : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:0 "})
    expect("pair.tandem -p a --device '" + std::string(device) + "'", 2,
           "qrun: --device: unknown device '" + std::string(device) +
               "': expected cpu or cuda:N, as cuda:0\n");
  expectLineWith("bench pair.tandem --scenario 64", 2,
                 "--scenario: '64' is not of the form PROMPT/ANSWER");
  expectLineWith("pair.tandem -p a --chat --template x", 2,
                 "--template: unknown chat template 'x', expected qwen3, ");
  for (const char *timeout : {"nan", "-1", "1e7", "soon", "inf"})
    expectLineWith(
        concat("serve pair.tandem --timeout ", std::string_view(timeout)), 2,
        "--timeout: ");
  expectLineWith("serve pair.tandem --send-timeout nan", 2,
                 "expected a number from 0.01 to 1e+06, got 'nan'");
  for (const char *flag :
       {"--temperature -1", "--temperature nan", "--top-p 0", "--min-p 1.5",
        "--repetition-penalty 0", "--presence-penalty 3",
        "--frequency-penalty -3", "--logit-bias 7", "--logit-bias 7=101",
        "--logit-bias x=1"})
    expectLineWith(concat("pair.tandem -p a ", std::string_view(flag)), 2,
                   "qrun: ");
  // These are mistakes for this pair only.
  expectLineWith("pair.tandem -p a --logit-bias 300=1", 1, "out of range");
  expectLineWith("pair.tandem -p a --stop-token 300", 1, "out of range");
  for (const char *flag : {"--system x", "--template qwen3", "--no-thinking"})
    expectLineWith(concat("pair.tandem -p a ", std::string_view(flag)), 2,
                   "are about a --chat");
  expectLineWith("pair.tandem -p a --block 99", 1,
                 "pair.tandem: was compiled for blocks of");
  expectLineWith("score pair.tandem -o x", 2, "--ids is required");
  expectLineWith("exec pair.tandem --in x", 2, "-o is required");
  expectLineWith("tokenize -p x", 2, "an artifact is required");
  expectLineWith("a.tandem tokenize b.tandem -p x", 2,
                 "two artefacts, a.tandem and b.tandem");
  expectLineWith("-p x pair.tandem tokenize", 2,
                 "--prompt stands in front of tokenize, expected it behind");
  expectLineWith("pair.tandem --threads 2 bench", 2,
                 "--threads stands in front of bench");
}

TEST_F(QrunTest, BadInputExitsWith1AndNamesTheFile) {
  folder.write("text", "no artefact");
  folder.write("ids.json", "[1, 300]");
  folder.write("empty.json", "[]");
  folder.write("bad.json", "{}");
  expect("none.tandem -p a", 1,
         "qrun: none.tandem: cannot open: No such file or directory\n");
  expect("text -p a", 1, "qrun: text: not a Tandem artefact\n");
  expect("inspect .", 1, "qrun: .: is a directory, not a file\n");
  expect("pair.tandem -p a --device cuda:0", 1,
         "qrun: pair.tandem: compiled for native, not for a GPU\n");
  expect("pair.tandem --prompt-file none", 1,
         "qrun: none: cannot open: No such file or directory\n");
  expect("pair.tandem --ids bad.json", 1,
         "qrun: bad.json: is not a JSON array of token ids\n");
  expectLineWith("pair.tandem --ids ids.json", 1,
                 "token 300 at index 1 is out of range (256 tokens)");
  expectLineWith("pair.tandem -p a --stop-token 256", 1,
                 "--stop-token: token 256 is out of range (256 tokens)");
  expectLineWith("pair.tandem --ids empty.json", 1, "the prompt is empty");
  expectLineWith("pair.tandem -p ''", 1, "the prompt is empty");
  expectLineWith("score pair.tandem --ids ids.json -o out", 1,
                 "token 300 at index 1");
  // Nothing is left of what failed.
  EXPECT_EQ(folder.count(), 5u);
}

TEST_F(QrunTest, PromptLongerThanTheContextSaysBothCounts) {
  ArtifactSpec spec = alphabetSpec();
  spec.loop->maxContext = 4;
  save(spec, "short.tandem");
  expect("short.tandem -p abc", 0, "d");
  expectLineWith("short.tandem -p abcd", 1,
                 "short.tandem: the prompt has 4 tokens, prompt and answer "
                 "together can have 4");
}

TEST_F(QrunTest, InterruptFlushesTheTextAndExitsWith130) { // P7.12
  // Not before there is some text: a slow machine may still be loading.
  Outcome outcome =
      shell(": >text; $qrun pair.tandem -p z -n 1000000000 >text & "
            "until test $(stat -c %s text) -ge 30; do sleep 0.02; done; "
            "kill -INT $!; wait $!; "
            "code=$?; head -c 30 text; exit $code");
  EXPECT_EQ(outcome.exitCode, 130);
  EXPECT_EQ(outcome.output, "abcdefghijklmnopqrstuvwxyzabcd");
}

TEST_F(QrunTest, FileThatShrinksWhileItIsMappedIsNamed) {
  Outcome outcome =
      shell("cp pair.tandem shrinks.tandem; : >text; "
            "$qrun shrinks.tandem -p z -n 1000000000 >text 2>errors & "
            "until test $(stat -c %s text) -ge 30; do sleep 0.02; done; "
            "truncate -s 0 shrinks.tandem; wait $!; "
            "code=$?; grep -o 'qrun: .*' errors; exit $code");
  EXPECT_EQ(outcome.exitCode, 1);
  EXPECT_EQ(outcome.output,
            "qrun: " + folder.path() +
                "/shrinks.tandem: was truncated, or cannot be read, while it "
                "was in use\n");
}

TEST_F(QrunTest, VerifyFindsAChangedWeight) {
  expect("pair.tandem -p z -n 3 --verify", 0, "abc");
  shell("cp pair.tandem changed.tandem; size=$(stat -c %s changed.tandem); "
        "printf x | dd of=changed.tandem bs=1 seek=$((size - 1)) conv=notrunc "
        "2>/dev/null");
  expectLineWith("changed.tandem -p z -n 3 --verify", 1,
                 "changed.tandem: the hash of code and weights does not match: "
                 "the file is damaged");
}

TEST_F(QrunTest, ReaderThatGoesAwayIsNoError) { // P7.12
  Outcome outcome = shell("{ $qrun pair.tandem -p z -n 1000000000; "
                          "echo exit $? >&2; } | head -c 5");
  EXPECT_EQ(outcome.output, "abcdeexit 0\n");
}

TEST_F(QrunTest, FullDiskIsAnError) { // P7.07
  expect("pair.tandem -p z -n 5 >/dev/full", 1,
         "qrun: stdout: cannot write: No space left on device\n");
  expect("bench pair.tandem --scenario 5/9 --repeat 1 >/dev/full", 1,
         "qrun: stdout: cannot write: No space left on device\n");
  expect("inspect pair.tandem >/dev/full", 1,
         "qrun: stdout: cannot write: No space left on device\n");
  expect("serve --help >/dev/full", 1,
         "qrun: stdout: cannot write: No space left on device\n");
}

TEST_F(QrunTest, ScoreWritesLogitsFeaturesAndDraftLogits) {
  folder.write("ids.json", "[97, 98, 99, 100, 101, 102, 103, 104, 105, 106]");
  expect("score pair.tandem --ids ids.json -o out.safetensors", 0, "");
  auto file = SafetensorsReader::open(folder.path() + "/out.safetensors");
  ASSERT_TRUE(file.isOk()) << file.status().message();
  const auto *logits = file->find("logits");
  ASSERT_TRUE(logits);
  EXPECT_EQ(describe(*logits), "F32 [10, 256]");
  for (size_t row = 0; row < 10; ++row) {
    float value;
    std::memcpy(&value, logits->data.data() + (row * 256 + 98 + row) * 4, 4);
    EXPECT_EQ(value, 2) << row;
  }
  EXPECT_EQ(describe(*file->find("features")), "F32 [10, 1]");
  EXPECT_EQ(describe(*file->find("draft_logits")), "F32 [3, 256]");
}

TEST_F(QrunTest, ExecRunsOneProgramOnTensors) {
  std::vector<TensorInfo> inputs = {{"block", "I32", {4}}};
  auto writeInputs = [&](const std::vector<int32_t> &values) {
    auto writer = SafetensorsWriter::create(folder.path() + "/in", inputs);
    ASSERT_TRUE(writer.isOk());
    ASSERT_TRUE(writer->append(std::as_bytes(std::span(values))).isOk());
    ASSERT_TRUE(writer->finish().isOk());
  };
  // A single function: all rows are live.
  ArtifactSpec spec = alphabetSpec();
  spec.loop.reset();
  spec.programs = {{"f",
                    {Block},
                    {Decided},
                    {{2, {port(Block), port(Decided)}, 4, -1, 1, true}}}};
  save(spec, "op.tandem");
  writeInputs({'a', 'b', 'z', '?'});
  expect("exec op.tandem --in in -o out", 0, "");
  auto file = SafetensorsReader::open(folder.path() + "/out");
  ASSERT_TRUE(file.isOk()) << file.status().message();
  ASSERT_EQ(file->tensors().size(), 1u);
  int32_t decided[4];
  std::memcpy(decided, file->find("decided")->data.data(), 16);
  EXPECT_EQ(std::vector<int32_t>(decided, decided + 4),
            (std::vector<int32_t>{'b', 'c', 'a', 'a'}));
  expect("exec op.tandem --in in -o out --program f", 0, "");
  expect("exec op.tandem --in in -o out --program g", 1,
         "qrun: op.tandem: has no program 'g'\n");
  expectLineWith("op.tandem -p a", 1, "holds a single function");

  inputs[0].shape = {2, 2};
  writeInputs({1, 2, 3, 4});
  expect("exec op.tandem --in in -o out", 1,
         "qrun: in: tensor 'block' is I32 [2, 2], the program needs "
         "I32 [4]\n");
  inputs = {{"blocks", "I32", {4}}};
  writeInputs({1, 2, 3, 4});
  expect("exec op.tandem --in in -o out", 1,
         "qrun: in: there is no tensor 'block': the program needs I32 [4]\n");
  inputs = {{"block", "I32", {4}}, {"more", "I32", {1}}};
  writeInputs({1, 2, 3, 4, 5});
  expect("exec op.tandem --in in -o out", 1,
         "qrun: in: tensor 'more' is no input of the program 'f'\n");
}

TEST_F(QrunTest, TokenizePrintsIds) {
  expect("tokenize pair.tandem -p 'a b' --json", 0, "{\"ids\":[97,32,98]}\n");
  expect("tokenize pair.tandem -p 'a\"'", 0, "97\t\"a\"\n34\t\"\\\"\"\n");
}

TEST_F(QrunTest, InspectDescribesTheArtefact) {
  Outcome text = shell("$qrun inspect pair.tandem --deep");
  EXPECT_EQ(text.exitCode, 0);
  for (const char *part : {"block 4", "vocabulary 256", "verify", "prefill"})
    EXPECT_NE(text.output.find(part), std::string::npos) << part;
  Outcome json = shell("$qrun inspect pair.tandem --json");
  EXPECT_NE(json.output.find("\"max_context\": 1073741824"), std::string::npos);
  std::string file = folder.read("pair.tandem");
  file.back() ^= 1;
  folder.write("bad.tandem", file);
  EXPECT_EQ(shell("$qrun inspect bad.tandem").exitCode, 0);
  expectLineWith("inspect --deep bad.tandem", 1,
                 "qrun: bad.tandem: the hash of code and weights");
}

TEST_F(QrunTest, BenchMeasuresBothWaysOfDecoding) { // P4.08
  Outcome outcome = shell("$qrun bench pair.tandem --scenario 20/30,5/9 "
                          "--repeat 2 --json");
  EXPECT_EQ(outcome.exitCode, 0) << outcome.output;
  for (const char *part : {"\"prompt_tokens\":20", "\"new_tokens\":9",
                           "\"speculative\"", "\"same_ids\":true"})
    EXPECT_NE(outcome.output.find(part), std::string::npos) << part;
  outcome = shell("$qrun bench pair.tandem -p abc -n 40 --repeat 1");
  EXPECT_EQ(outcome.exitCode, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("prompt 3, answer 40"), std::string::npos)
      << outcome.output;
  outcome = shell("$qrun bench pair.tandem --scenario 20/31 --repeat 1 "
                  "--accept 3 --kernels --json");
  EXPECT_EQ(outcome.exitCode, 0) << outcome.output;
  for (const char *part : {"\"mean_accept_length\":3.0", "\"kernels\":[",
                           "\"program\":\"verify\"", "\"launches\":"})
    EXPECT_NE(outcome.output.find(part), std::string::npos) << outcome.output;
  ArtifactSpec spec = alphabetSpec();
  spec.loop->maxContext = 191;
  save(spec, "short.tandem");
  expectLineWith("bench short.tandem", 1,
                 "short.tandem: a context of 191 tokens is too short for the "
                 "usual scenarios");
}
