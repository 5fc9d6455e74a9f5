//===- Metrics.cpp - What a server counts ---------------------------------===//

#include "runtime/server/Metrics.h"

#include <algorithm>
#include <charconv>

namespace tandem::server {

/// As short as it can be, and never with a comma.
static std::string numberText(double value) {
  char buffer[40];
  auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  return std::string(buffer, end);
}

static void writeHead(std::string &out, const char *name, const char *type,
                      const char *help) {
  out += concat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
}

static void writeNumber(std::string &out, const char *name, const char *type,
                        const char *help, uint64_t value) {
  writeHead(out, name, type, help);
  out += concat(name, " ", value, "\n");
}

void Histogram::add(double value) {
  auto bucket = std::lower_bound(bounds.begin(), bounds.end(), value);
  ++counts[size_t(bucket - bounds.begin())];
  sum += value;
}

void Histogram::write(std::string &out, const char *name,
                      const char *help) const {
  writeHead(out, name, "histogram", help);
  uint64_t total = 0;
  for (size_t bucket = 0; bucket < counts.size(); ++bucket) {
    total += counts[bucket];
    std::string bound =
        bucket < bounds.size() ? numberText(bounds[bucket]) : "+Inf";
    out += concat(name, "_bucket{le=\"", bound, "\"} ", total, "\n");
  }
  out += concat(name, "_sum ", numberText(sum), "\n");
  out += concat(name, "_count ", total, "\n");
}

static std::vector<double> countsUpTo(uint32_t largest) {
  std::vector<double> bounds;
  for (uint32_t count = 1; count <= largest; ++count)
    bounds.push_back(count);
  return bounds;
}

Metrics::Metrics(uint32_t block)
    : acceptLength(countsUpTo(block)),
      firstToken({0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}),
      duration({0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300}),
      rate({1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000}) {}

void Metrics::addRequest(const std::string &endpoint, int status,
                         double seconds) {
  std::lock_guard lock(mutex);
  ++requests[{endpoint, status}];
  duration.add(seconds);
}

void Metrics::addText(const Generation &text, size_t tokens,
                      double firstTokenSeconds) {
  std::lock_guard lock(mutex);
  promptTokens += tokens;
  reusedTokens += text.reusedTokens;
  generatedTokens += text.ids.size();
  for (uint32_t length : text.acceptLengths)
    acceptLength.add(length);
  if (firstTokenSeconds >= 0)
    firstToken.add(firstTokenSeconds);
  if (text.tokensPerSecond() > 0)
    rate.add(text.tokensPerSecond());
}

void Metrics::addHeads(const HeadCounts &counts) {
  std::lock_guard lock(mutex);
  if (!heads)
    heads.emplace();
  heads->searches += counts.searches;
  heads->rows += counts.rows;
  heads->tiles += counts.tiles;
  heads->fullPasses += counts.fullPasses;
}

std::string Metrics::write(size_t running, size_t waiting) const {
  std::lock_guard lock(mutex);
  std::string out;
  writeHead(out, "tandem_requests_total", "counter",
            "Requests that were answered.");
  for (const auto &[key, count] : requests)
    out += concat("tandem_requests_total{endpoint=\"", key.first,
                  "\",status=\"", key.second, "\"} ", count, "\n");
  writeNumber(out, "tandem_requests_running", "gauge",
              "Requests that use the device.", running);
  writeNumber(out, "tandem_requests_waiting", "gauge", "Requests in the queue.",
              waiting);
  writeNumber(out, "tandem_prompt_tokens_total", "counter",
              "Tokens of prompts.", promptTokens);
  writeNumber(out, "tandem_prompt_tokens_reused_total", "counter",
              "Tokens of prompts that were in the caches.", reusedTokens);
  writeNumber(out, "tandem_generated_tokens_total", "counter",
              "Tokens of answers.", generatedTokens);
  acceptLength.write(out, "tandem_accept_length",
                     "Tokens that a round emitted.");
  firstToken.write(out, "tandem_time_to_first_token_seconds",
                   "From the request to the first token of its answer.");
  duration.write(out, "tandem_request_seconds",
                 "From the request to the end of its answer.");
  rate.write(out, "tandem_tokens_per_second",
             "Tokens of an answer behind the first, per second.");
  if (!heads)
    return out;
  writeNumber(out, "tandem_head_searches_total", "counter",
              "Searches for the likeliest tokens of some rows.",
              heads->searches);
  writeNumber(out, "tandem_head_rows_total", "counter",
              "Rows whose likeliest token was searched.", heads->rows);
  writeNumber(out, "tandem_head_tiles_total", "counter",
              "Tiles of 16 tokens that searches computed in full precision.",
              heads->tiles);
  writeNumber(out, "tandem_head_full_passes_total", "counter",
              "Searches that computed all tiles.", heads->fullPasses);
  return out;
}

} // namespace tandem::server
