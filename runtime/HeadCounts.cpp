//===- HeadCounts.cpp - What searched heads had to compute ----------------===//

#include "runtime/HeadCounts.h"

#include <array>

namespace tandem {

StatusOr<std::optional<HeadCounts>> readHeadCounts(const Artifact &artifact,
                                                   Device &device) {
  std::array<uint32_t, 4> numbers = {};
  std::optional<uint32_t> port = artifact.findPort("head_counts");
  if (!port)
    return std::optional<HeadCounts>();
  const artifact::Port &counts = *artifact.root().ports()->Get(*port);
  if (counts.element() != artifact::ElementType::i32 ||
      counts.shape()->size() != 1 || counts.shape()->Get(0) != numbers.size())
    return invalidFile("the port 'head_counts' is expected to be ",
                       numbers.size(), " numbers of type i32");
  TANDEM_RETURN_IF_ERROR(
      device.read(*port, std::as_writable_bytes(std::span(numbers))));
  return std::optional(
      HeadCounts{numbers[0], numbers[1], numbers[2], numbers[3]});
}

} // namespace tandem
