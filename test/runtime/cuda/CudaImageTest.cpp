//===- CudaImageTest.cpp - What a code image says of itself ---------------===//

#include "runtime/cuda/CudaImage.h"
#include "test/runtime/cuda/TestPtx.h"

#include <gtest/gtest.h>

using namespace tandem;
using namespace tandem::test;
using artifact::ImageKind;
using cuda::imageNeeds;
using cuda::runsOn;

/// "sm_86, CUDA 13.0" or the problem.
static std::string needsOf(ImageKind kind, std::span<const std::byte> image) {
  auto needs = imageNeeds(kind, image);
  if (!needs.isOk())
    return needs.status().message();
  return concat("sm_", needs->architecture, ", CUDA ",
                cuda::cudaVersionText(needs->cudaVersion));
}

TEST(CudaImage, CubinsOfBothLayoutsAreRead) {
  EXPECT_EQ(needsOf(ImageKind::cubin, fakeCubin(86, {}, 8)),
            "sm_86, CUDA 13.0");
  EXPECT_EQ(needsOf(ImageKind::cubin, fakeCubin(90, {}, 7)),
            "sm_90, CUDA 11.4");
}

TEST(CudaImage, VersionsOfPtxAreThoseOfCuda) { // P7.02
  auto needs = [](std::string version) {
    return needsOf(ImageKind::ptx,
                   bytesOf("// made by hand\n.version " + version +
                           "\n.target sm_86, debug\n.address_size 64\n"));
  };
  EXPECT_EQ(needs("7.1"), "sm_86, CUDA 11.4");
  EXPECT_EQ(needs("8.0"), "sm_86, CUDA 12.0");
  EXPECT_EQ(needs("8.5"), "sm_86, CUDA 12.5");
  EXPECT_EQ(needs("8.6"), "sm_86, CUDA 12.7");
  EXPECT_EQ(needs("8.8"), "sm_86, CUDA 12.9");
  EXPECT_EQ(needs("9.0"), "sm_86, CUDA 13.0");
  for (const char *version : {"", "8", "8.", "x.y", "1000.0", "8.77", "-1.0"})
    EXPECT_EQ(needs(version).find("is not PTX"), 0u) << version;
}

TEST(CudaImage, LinesEndInAnyWay) {
  EXPECT_EQ(
      needsOf(ImageKind::ptx, bytesOf(".version 8.0\r\n.target sm_90a\r\n")),
      "sm_90, CUDA 12.0");
  EXPECT_EQ(needsOf(ImageKind::ptx, bytesOf(".target sm_80\n.version 8.0")),
            "sm_80, CUDA 12.0");
}

TEST(CudaImage, EveryBeginningOfAnImageIsAnswered) {
  std::vector<std::byte> cubin = fakeCubin(86, {"a"});
  for (size_t size = 0; size < 64; ++size)
    EXPECT_FALSE(
        imageNeeds(ImageKind::cubin, std::span(cubin).first(size)).isOk());
  std::vector<std::byte> ptx = bytesOf(".version 8.0\n.target sm_80\n");
  for (size_t size = 0; size < 24; ++size)
    EXPECT_FALSE(imageNeeds(ImageKind::ptx, std::span(ptx).first(size)).isOk())
        << size;
}

TEST(CudaImage, CubinsWantTheSameMajorPtxDoesNot) {
  EXPECT_TRUE(runsOn(ImageKind::cubin, 86, 86));
  EXPECT_TRUE(runsOn(ImageKind::cubin, 86, 89));
  EXPECT_FALSE(runsOn(ImageKind::cubin, 86, 80));
  EXPECT_FALSE(runsOn(ImageKind::cubin, 86, 90));
  EXPECT_TRUE(runsOn(ImageKind::ptx, 86, 90));
  EXPECT_TRUE(runsOn(ImageKind::ptx, 86, 120));
  EXPECT_FALSE(runsOn(ImageKind::ptx, 86, 80));
  EXPECT_FALSE(runsOn(ImageKind::shared_object, 86, 86));
}
