//===- Metrics.h - What a server counts -------------------------*- C++ -*-===//

#ifndef TANDEM_RUNTIME_SERVER_METRICS_H
#define TANDEM_RUNTIME_SERVER_METRICS_H

#include "runtime/HeadCounts.h"
#include "runtime/Speculator.h"

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace tandem::server {

/// A histogram of Prometheus.
class Histogram {
public:
  /// \p bounds are the upper bounds of the buckets, rising; one without a
  /// bound is added.
  explicit Histogram(std::vector<double> bounds)
      : bounds(std::move(bounds)), counts(this->bounds.size() + 1) {}

  void add(double value);
  /// Appends the lines of the histogram called \p name.
  void write(std::string &out, const char *name, const char *help) const;

private:
  std::vector<double> bounds;
  /// [bounds + 1], each with its own values only.
  std::vector<uint64_t> counts;
  double sum = 0;
};

/// All calls may come from several threads at once.
class Metrics {
public:
  /// \p block is the largest accept length.
  explicit Metrics(uint32_t block);

  /// A request of \p endpoint has been answered with \p status after
  /// \p seconds.
  void addRequest(const std::string &endpoint, int status, double seconds);
  /// A text has been written behind \p promptTokens; its first token came
  /// \p firstTokenSeconds after the request, not at all when negative.
  void addText(const Generation &text, size_t promptTokens,
               double firstTokenSeconds);

  /// Searched heads have counted \p counts more; none are shown before.
  void addHeads(const HeadCounts &counts);

  /// All of it in the text format of Prometheus.
  std::string write(size_t running, size_t waiting) const;

private:
  mutable std::mutex mutex;
  std::map<std::pair<std::string, int>, uint64_t> requests;
  uint64_t promptTokens = 0, reusedTokens = 0, generatedTokens = 0;
  Histogram acceptLength, firstToken, duration, rate;

  /// HeadCounts that do not begin again.
  struct Heads {
    uint64_t searches = 0, rows = 0, tiles = 0, fullPasses = 0;
  };
  std::optional<Heads> heads;
};

} // namespace tandem::server

#endif // TANDEM_RUNTIME_SERVER_METRICS_H
