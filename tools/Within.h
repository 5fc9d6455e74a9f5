//===- Within.h - Numbers of a flag that lie between two --------*- C++ -*-===//

#ifndef TANDEM_TOOLS_WITHIN_H
#define TANDEM_TOOLS_WITHIN_H

#include <CLI/CLI.hpp>
#include <sstream>
#include <string>

namespace tandem {

/// Takes numbers from \p low to \p high. CLI::Range takes NaN as well, which
/// is neither less than one nor more than the other.
inline CLI::Validator within(double low, double high) {
  auto format = [](double value) {
    std::ostringstream text;
    text << value;
    return text.str();
  };
  std::string range = format(low) + " to " + format(high);
  return CLI::Validator(
      [=](std::string &text) {
        double value = 0;
        bool isNumber = CLI::detail::lexical_cast(text, value);
        if (isNumber && value >= low && value <= high)
          return std::string();
        return "expected a number from " + range + ", got '" + text + "'";
      },
      "from " + range);
}

} // namespace tandem

#endif // TANDEM_TOOLS_WITHIN_H
