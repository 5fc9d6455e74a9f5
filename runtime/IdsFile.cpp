//===- IdsFile.cpp - Token ids in a file ----------------------------------===//

#include "runtime/IdsFile.h"

#include "runtime/TextFile.h"

#include <limits>
#include <nlohmann/json.hpp>

namespace tandem {

StatusOr<std::vector<uint32_t>> readIdsFile(const std::string &path) {
  TANDEM_ASSIGN_OR_RETURN(std::string text, readTextFile(path));
  auto array = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!array.is_array())
    return invalidFile("is not a JSON array of token ids");
  std::vector<uint32_t> ids;
  ids.reserve(array.size());
  for (const auto &id : array) {
    if (!id.is_number_unsigned() ||
        id.get<uint64_t>() > std::numeric_limits<uint32_t>::max())
      return invalidFile("element ", ids.size(), " is not a token id");
    ids.push_back(id.get<uint32_t>());
  }
  return ids;
}

} // namespace tandem
