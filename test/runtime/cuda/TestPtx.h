//===- TestPtx.h - Artefacts for a GPU, written by hand ---------*- C++ -*-===//
//
// PTX and the artefacts around it, which do not come from the compiler: they
// run on any GPU from sm_80 on, and on the fake driver.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_RUNTIME_CUDA_TESTPTX_H
#define TANDEM_TEST_RUNTIME_CUDA_TESTPTX_H

#include "test/runtime/TestArtifact.h"

namespace tandem::test {

/// Tokens of the pair below.
inline constexpr int32_t pairVocabulary = 97;

/// What its target says behind token \p token at position \p position.
inline int32_t nextToken(int32_t token, int32_t position) {
  return (token * 31 + position * 7 + 3) % pairVocabulary;
}

/// What its drafter thinks that the target says.
inline int32_t draftedToken(int32_t token, int32_t position) {
  int32_t right = nextToken(token, position);
  return (position * 5 + token) % 4 == 0 ? (right + 1) % pairVocabulary : right;
}

/// The kernels as PTX.
std::string testPtx();

/// Bytes of \p text.
std::vector<std::byte> bytesOf(std::string_view text);

/// A cubin for the fake driver: a header for sm_\p architecture and names of
/// kernels.
std::vector<std::byte> fakeCubin(unsigned architecture,
                                 const std::vector<std::string> &names,
                                 uint8_t abiVersion = 8);

/// Programs that try one thing each:
///   add      output = input + 2 * weight, through the arena, on live rows
///   calls    counts its runs in a state
///   scratch  counts its runs in its scratch
///   shared   goes through 64 KiB of shared memory
///   grid     every block of a grid of 3 * 2 * 2 writes its number
///   nothing  has no launches
ArtifactSpec programsSpec();

/// A pair with a drafter that is often right, in blocks of \p block rows.
ArtifactSpec pairSpec(uint32_t block = 4);

} // namespace tandem::test

#endif // TANDEM_TEST_RUNTIME_CUDA_TESTPTX_H
