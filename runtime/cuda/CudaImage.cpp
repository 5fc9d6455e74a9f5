//===- CudaImage.cpp - What a code image says of itself -------------------===//

#include "runtime/cuda/CudaImage.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <elf.h>

namespace tandem::cuda {

std::string cudaVersionText(int version) {
  return concat(version / 1000, ".", version % 1000 / 10);
}

/// ELF machine of a cubin.
static constexpr uint16_t cudaMachine = 190;
/// ELF ABI version of the cubins that CUDA 13 makes; it moved the architecture
/// in the flags, and older drivers do not load it.
static constexpr uint8_t cuda13AbiVersion = 8;

static StatusOr<ImageNeeds> cubinNeeds(std::span<const std::byte> image) {
  Elf64_Ehdr header;
  if (image.size() < sizeof(header))
    return invalidFile("is too short for a cubin (", image.size(), " bytes)");
  std::memcpy(&header, image.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_machine != cudaMachine)
    return invalidFile("is not a cubin");
  if (header.e_ident[EI_ABIVERSION] >= cuda13AbiVersion)
    return ImageNeeds{header.e_flags >> 8 & 0xff, 13000};
  return ImageNeeds{header.e_flags & 0xff, oldestCudaVersion};
}

/// The word behind the directive \p name, which starts a line of \p text.
static std::string_view directive(std::string_view text,
                                  std::string_view name) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.starts_with(name))
      continue;
    line.remove_prefix(name.size());
    size_t begin = line.find_first_not_of(" \t");
    if (begin == 0 || begin == line.npos)
      continue;
    line.remove_prefix(begin);
    return line.substr(0, line.find_first_of(" \t\r,"));
  }
  return "";
}

/// The version of CUDA that brought a version of PTX: major * 10 + minor.
static int cudaOfPtx(unsigned ptx) {
  // Up to 8.5 the minor numbers are the same. CUDA 12.6 brought none.
  unsigned major = ptx / 10 + 4, minor = ptx % 10;
  if (ptx / 10 == 8 && minor > 5)
    ++minor;
  return int(major * 1000 + minor * 10);
}

/// Parses all of \p text.
static bool parse(std::string_view text, unsigned &number) {
  const char *end = text.data() + text.size();
  auto parsed = std::from_chars(text.data(), end, number);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

static StatusOr<ImageNeeds> ptxNeeds(std::span<const std::byte> image) {
  // Only the head matters.
  std::string_view text(reinterpret_cast<const char *>(image.data()),
                        std::min<size_t>(image.size(), 1 << 16));
  std::string_view version = directive(text, ".version");
  std::string_view target = directive(text, ".target");
  unsigned major = 0, minor = 0, architecture = 0;
  size_t point = std::min(version.find('.'), version.size());
  bool good =
      parse(version.substr(0, point), major) &&
      parse(version.substr(std::min(point + 1, version.size())), minor) &&
      major < 100 && minor < 10 && target.starts_with("sm_");
  // Behind the number may stand a letter.
  if (good && std::isalpha(static_cast<unsigned char>(target.back())))
    target.remove_suffix(1);
  good = good && parse(target.substr(3), architecture);
  if (!good)
    return invalidFile("is not PTX: expected lines '.version N.N' and "
                       "'.target sm_N' at its head");
  return ImageNeeds{architecture,
                    std::max(cudaOfPtx(major * 10 + minor), oldestCudaVersion)};
}

StatusOr<ImageNeeds> imageNeeds(artifact::ImageKind kind,
                                std::span<const std::byte> image) {
  return kind == artifact::ImageKind::cubin ? cubinNeeds(image)
                                            : ptxNeeds(image);
}

bool runsOn(artifact::ImageKind kind, unsigned architecture, unsigned device) {
  if (kind == artifact::ImageKind::ptx)
    return architecture <= device;
  return kind == artifact::ImageKind::cubin &&
         architecture / 10 == device / 10 && architecture <= device;
}

} // namespace tandem::cuda
