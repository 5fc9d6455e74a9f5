//===- HeadCountsJson.h - What heads computed, for --json -------*- C++ -*-===//

#ifndef TANDEM_TOOLS_QRUN_HEADCOUNTSJSON_H
#define TANDEM_TOOLS_QRUN_HEADCOUNTSJSON_H

#include "runtime/HeadCounts.h"

#include <nlohmann/json.hpp>

namespace tandem::qrun {

inline nlohmann::ordered_json toJson(const HeadCounts &counts) {
  return {{"searches", counts.searches},
          {"rows", counts.rows},
          {"tiles", counts.tiles},
          {"tiles_per_row", counts.tilesPerRow()},
          {"full_passes", counts.fullPasses}};
}

} // namespace tandem::qrun

#endif // TANDEM_TOOLS_QRUN_HEADCOUNTSJSON_H
