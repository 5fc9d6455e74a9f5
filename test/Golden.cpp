//===- Golden.cpp - What a pair is known to compute -----------------------===//

#include "test/Golden.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>

using namespace tandem;
using namespace tandem::test;

static SafetensorsReader openTensors(const std::string &path) {
  StatusOr<SafetensorsReader> reader = SafetensorsReader::open(path);
  if (!reader.isOk()) {
    std::cerr << path << ": " << reader.status().message() << "\n";
    std::exit(1);
  }
  return std::move(*reader);
}

Golden::Golden(const std::string &directory)
    : tensors(openTensors(directory + "/golden.safetensors")) {
  std::ifstream file(directory + "/golden.json");
  nlohmann::json json = nlohmann::json::parse(file);
  for (const nlohmann::json &prompt : json["prompts"])
    all.push_back({prompt["text"], prompt["ids"], prompt["greedy"],
                   prompt["accept_lengths"],
                   prompt["accept_lengths_full_attention"]});
}

std::optional<std::vector<float>>
Golden::tensor(size_t prompt, const std::string &name) const {
  const SafetensorsReader::Tensor *found =
      tensors.find("p" + std::to_string(prompt) + "." + name);
  if (!found)
    return std::nullopt;
  std::vector<float> values(found->data.size() / sizeof(float));
  std::memcpy(values.data(), found->data.data(), found->data.size());
  return values;
}

testing::AssertionResult tandem::test::isClose(std::span<const float> actual,
                                               std::span<const float> golden) {
  if (actual.size() != golden.size())
    return testing::AssertionFailure() << actual.size() << " values, but "
                                       << golden.size() << " in the golden";
  float largest = 0;
  for (float value : golden)
    largest = std::max(largest, std::abs(value));
  size_t worst = 0;
  float worstDistance = -1;
  for (size_t i = 0; i < golden.size(); ++i) {
    float distance = std::abs(actual[i] - golden[i]);
    // Not a number is farther away than anything.
    if (!(distance <= worstDistance)) {
      worst = i;
      worstDistance = distance;
      if (std::isnan(distance))
        break;
    }
  }
  if (worstDistance <= 1e-3f * largest)
    return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << "value " << worst << " of " << golden.size() << " is "
         << actual[worst] << ", but " << golden[worst]
         << " in the golden, whose largest magnitude is " << largest;
}
