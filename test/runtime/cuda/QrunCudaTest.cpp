//===- QrunCudaTest.cpp - qrun with a GPU ---------------------------------===//
//
// Runs the tool itself; its driver is the fake one, a machine with sm_86.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/TemporaryFolder.h"
#include "test/runtime/cuda/TestPtx.h"

#include <cstdio>
#include <gtest/gtest.h>
#include <sys/wait.h>

using namespace tandem;
using namespace tandem::test;

namespace {

class QrunCudaTest : public testing::Test {
protected:
  TemporaryFolder folder;

  std::string write(const std::string &name, const ArtifactSpec &spec) {
    FileBytes file = spec.write();
    return folder.write(name,
                        {reinterpret_cast<const char *>(file.bytes().data()),
                         file.bytes().size()});
  }
  /// What qrun prints to both streams; \p code is how it is to exit.
  static std::string run(const std::string &arguments, int code) {
    std::string command = std::string(TANDEM_QRUN) + " " + arguments + " 2>&1";
    FILE *pipe = popen(command.c_str(), "r");
    std::string output;
    char buffer[4096];
    for (size_t size; (size = fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
      output.append(buffer, size);
    int status = pclose(pipe);
    EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, code)
        << command << "\n"
        << output;
    return output;
  }

  /// The ids in the JSON object \p output.
  static std::string idsOf(const std::string &output) {
    size_t begin = output.find("\"ids\":[");
    if (begin == output.npos)
      return output;
    return output.substr(begin, output.find(']', begin) - begin);
  }
};

} // namespace

TEST_F(QrunCudaTest, TheDeviceIsThatOfTheArtefact) {
  std::string pair = write("pair.tandem", pairSpec());
  std::string prompt = folder.write("ids.json", "[5, 60, 2]");
  std::string arguments = pair + " --ids " + prompt + " --json -n 40";
  std::string ids = idsOf(run(arguments, 0));
  EXPECT_NE(ids.find("\"ids\":["), ids.npos) << ids;
  EXPECT_EQ(idsOf(run(arguments + " --device cuda:0", 0)), ids);
  EXPECT_EQ(idsOf(run(arguments + " --device cuda", 0)), ids);
  EXPECT_EQ(idsOf(run(arguments + " --no-draft", 0)), ids);
}

TEST_F(QrunCudaTest, OtherDevicesAreRefusedInOneLine) {
  std::string prompt = folder.write("ids.json", "[5, 60, 2]");
  std::string pair = write("pair.tandem", pairSpec());
  EXPECT_EQ(run(pair + " --json --device cpu --ids " + prompt, 1),
            "qrun: " + pair + ": compiled for sm_80, not for a CPU\n");
  EXPECT_EQ(run(pair + " --json --device cuda:1 --ids " + prompt, 1),
            "qrun: " + pair +
                ": there is no device cuda:1: this machine has 1 GPU, "
                "cuda:0\n");
  ArtifactSpec spec = pairSpec();
  spec.arch = "sm_90";
  spec.images = {{fakeCubin(90, {}), artifact::ImageKind::cubin}};
  std::string other = write("other.tandem", spec);
  EXPECT_EQ(run(other + " --json --ids " + prompt, 1),
            "qrun: " + other + ": built for sm_90, device is sm_86\n");
}

TEST_F(QrunCudaTest, InspectShowsImagesAndTheNeededDriver) {
  ArtifactSpec spec = pairSpec();
  spec.images.push_back({fakeCubin(86, {}), artifact::ImageKind::cubin});
  spec.images.push_back({bytesOf("no image at all"), artifact::ImageKind::ptx});
  std::string output = run("inspect " + write("pair.tandem", spec), 0);
  for (const char *line :
       {"ptx for sm_80, ",
        "cubin for sm_86, 65 B, needs a driver for CUDA 13.0",
        "ptx, 15 B, is not PTX: "})
    EXPECT_NE(output.find(line), output.npos) << line << "\n" << output;
}

TEST_F(QrunCudaTest, BenchRunsOnTheGpu) {
  std::string pair = write("pair.tandem", pairSpec());
  std::string output = run("bench " + pair + " --scenario 20/30 --repeat 1", 0);
  EXPECT_NE(output.find("Fake GPU, memory at "), output.npos) << output;
  EXPECT_NE(output.find("rounds on the device"), output.npos) << output;
}
