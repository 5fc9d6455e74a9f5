//===- Benchmarks.cpp - What kernels cost ---------------------------------===//
//
// A launch is measured in a graph of many, each with a copy of its own of what
// has to come from the memory, so that caches do not help; in the plain order
// of a stream and with programmatic stream serialization. Of the times of some
// runs of the graph the median is taken.
//
//===----------------------------------------------------------------------===//

#include "test/cuda/Benchmarks.h"
#include "test/cuda/Packing.h"
#include "test/cuda/Run.h"

#include <memory>

using namespace tandem::gpucheck;

namespace {

constexpr int64_t kCopyBytes = int64_t(512) << 20;
/// More than caches hold.
constexpr int64_t kRotated = int64_t(320) << 20;

//===----------------------------------------------------------------------===//
// The kernels
//===----------------------------------------------------------------------===//

class Builder {
public:
  explicit Builder(Suite &suite) : suite(suite) {}

  std::string kernel(const std::string &family, const std::string &parameters,
                     int rows, bool needsClusters = false) {
    return suite.kernel("bench" + std::to_string(kernels++), family,
                        "{" + parameters + "}", rows, needsClusters);
  }

  /// A fused layer of codes (group > 0) or of bf16. \p more are parameters that
  /// take clusters of blocks and change the size of no operand.
  void layer(const std::string &title, std::vector<int64_t> widths,
             int64_t columns, int64_t group, bool norm, bool gated,
             bool residual, int rows = 16, const std::string &more = "") {
    if (!isChosen("linear"))
      return;
    std::string list;
    for (int64_t width : widths)
      list += (list.empty() ? "" : ", ") + std::to_string(width);
    std::string format =
        group ? "bits = 4 : i64, scale = bf16, " + number("group", group)
              : "result = f32, element = bf16";
    std::string name = kernel(
        group ? "fused_quant_linear" : "fused_linear",
        "activations = bf16, " + format + ", " + number("columns", columns) +
            ", widths = array<i64: " + list + ">, eps = 1.0e-6 : f32, offset " +
            "= 1.0 : f32, " + number("norm", norm) + ", " +
            number("gated", gated) + ", " + number("residual", residual) +
            ", " + number("row_tile", rows <= 16 ? 16 : 64) + more,
        rows, /*needsClusters=*/!more.empty());
    Benchmark bench = {title + ", " + std::to_string(rows) + " rows",
                       name,
                       rows,
                       {{rows * columns * 2}},
                       0};
    for (int64_t width : widths) {
      int64_t bytes = group ? Fragments{width, columns, 4, group, 2}.bytes()
                            : width * columns * 2;
      bench.operands.push_back({bytes, true});
      bench.bytes += bytes;
    }
    if (norm)
      bench.operands.push_back({columns * 4});
    if (residual)
      bench.operands.push_back({rows * widths[0] * 2});
    for (size_t part = 0; part < (gated ? 1 : widths.size()); ++part)
      bench.operands.push_back({rows * widths[part] * (group ? 2 : 4)});
    benchmarks.push_back(std::move(bench));
  }

  void head(int64_t outputs, int64_t columns) {
    if (!isChosen("linear"))
      return;
    int64_t parts = (outputs + 127) / 128;
    std::string name = kernel("head_argmax",
                              "activations = bf16, element = bf16, " +
                                  number("outputs", outputs) + ", " +
                                  number("columns", columns),
                              16);
    benchmarks.push_back({"head, bf16, 16 rows",
                          name,
                          16,
                          {{16 * columns * 2},
                           {outputs * columns * 2, true},
                           {16 * parts * 4},
                           {16 * parts * 4}},
                          outputs * columns * 2});
    name = kernel("argmax_parts", number("parts", parts), 16);
    benchmarks.push_back({"argmax of its parts",
                          name,
                          16,
                          {{16 * parts * 4}, {16 * parts * 4}, {64}},
                          16 * parts * 4});
  }

  /// The search of a head; then what it leaves: \p live says of how many tokens
  /// all tiles.
  void search(int64_t outputs, int64_t columns, int rows) {
    int64_t tiles = (outputs + 15) / 16;
    std::string sizes = "activations = bf16, " + number("outputs", outputs) +
                        ", " + number("columns", columns);
    std::string ofRows = ", " + std::to_string(rows) + " rows";
    std::string name = kernel("head_search", sizes, rows);
    benchmarks.push_back({"head, search" + ofRows,
                          name,
                          rows,
                          {{rows * columns * 2},
                           {tiles * columns * 16, true},
                           {tiles * 64, true},
                           {tiles * 64, true},
                           {rows * tiles * 4},
                           {rows * 4}},
                          tiles * (columns * 16 + 128)});
    name = kernel("head_settle", sizes + ", element = bf16", rows);
    // Bytes of every value: as numbers, some of them are above the last.
    for (int part : {0, 1})
      benchmarks.push_back(
          {(part ? "head, all tiles settled" : "head, no tile settled") +
               ofRows,
           name,
           rows,
           {{rows * columns * 2},
            {outputs * columns * 2, true},
            {rows * tiles * 4, false, 0, false, part ? 0x7f : 0xc0},
            {rows * 4, false, 0, false, part ? 0xc0 : 0x7e},
            {rows * 4},
            {rows * 4},
            {rows * 4}},
           part ? outputs * columns * 2 : 0});
  }

  void draft(int64_t outputs, int64_t columns, int64_t group) {
    int64_t bytes = (outputs + 15) / 16 * (columns / group) * (32 + group * 8);
    std::string name =
        kernel("head_draft",
               "activations = bf16, " + number("outputs", outputs) + ", " +
                   number("columns", columns) + ", " + number("group", group),
               16);
    benchmarks.push_back({"head, drafts of " + std::to_string(outputs) +
                              ", group " + std::to_string(group),
                          name,
                          16,
                          {{16 * columns * 2}, {bytes, true}, {64}},
                          bytes});
  }

  void attention(int64_t start, int64_t slots, int64_t queryHeads,
                 int64_t heads, int64_t dim, int64_t window) {
    std::string name = kernel(
        "attention",
        "activations = bf16, " + number("causal", window == 0) + ", " +
            number("dim", dim) + ", " + number("heads", heads) + ", " +
            number("query_heads", queryHeads) + ", scale_by = 0.0625 : f32, " +
            number("slots", slots) + ", " + number("window", window),
        16);
    int64_t seen = window ? std::min(window + 16, start + 16) : start + 16;
    benchmarks.push_back(
        {"attention at " + std::to_string(start) +
             (window ? ", window " + std::to_string(window) : ""),
         name,
         16,
         {{16 * queryHeads * dim * 2},
          {2 * heads * slots * dim * 2, true},
          {4, false, int32_t(start), true},
          {16 * queryHeads * dim * 2}},
         2 * heads * seen * dim * 2});
  }

  /// Attention that makes its inputs, of a target with gates or a drafter.
  void attentionLayer(int64_t start, int64_t slots, int64_t queryHeads,
                      int64_t heads, int64_t dim, int64_t dims, int64_t window,
                      int rows) {
    bool gated = window == 0;
    std::string name = kernel(
        "attention",
        "activations = bf16, eps = 1.0e-6 : f32, offset = 1.0 : f32, " +
            number("causal", gated) + ", " + number("gated", gated) + ", " +
            number("dim", dim) + ", " + number("heads", heads) + ", " +
            number("query_heads", queryHeads) + ", scale_by = 0.0625 : f32, " +
            number("slots", slots) + ", " + number("window", window) + ", " +
            number("dims", dims) + ", " + number("positions", 8464) + ", " +
            number("row_tile", rows > 8 ? 16 : 8),
        rows, /*needsClusters=*/true);
    int64_t queries = rows * queryHeads * dim * 2,
            keys = rows * heads * dim * 2;
    int64_t seen =
        window ? std::min(window + rows, start + rows) : start + rows;
    benchmarks.push_back(
        {"attention and its inputs at " + std::to_string(start) +
             (window ? ", window " + std::to_string(window) : "") + ", " +
             std::to_string(rows) + " rows",
         name,
         rows,
         {{(gated ? 2 : 1) * queries},
          {dim * 4},
          {keys},
          {keys},
          {dim * 4},
          {4, false, int32_t(start), true},
          {8464 * dims * 4},
          {queries},
          {2 * heads * slots * dim * 2, true}},
         2 * heads * seen * dim * 2});
  }

  void attentionInputs(int64_t queryHeads, int64_t heads, int64_t dim,
                       int64_t dims, bool gated, int64_t caches) {
    constexpr int64_t slots = 8464;
    int64_t queries = 16 * queryHeads * dim * 2, keys = 16 * heads * dim * 2;
    Benchmark bench = {
        "attention_inputs, " + std::to_string(queryHeads) + "/" +
            std::to_string(heads) + " heads of " + std::to_string(dim) +
            (caches > 1 ? ", " + std::to_string(caches) + " layers" : ""),
        kernel("attention_inputs",
               "activations = bf16, eps = 1.0e-6 : f32, offset = 1.0 : f32, " +
                   number("query_heads", queryHeads) + ", " +
                   number("heads", heads) + ", " + number("dim", dim) + ", " +
                   number("dims", dims) + ", " + number("gated", gated) + ", " +
                   number("caches", caches) + ", " + number("slots", slots) +
                   ", " + number("positions", slots),
               16),
        16,
        {},
        (gated ? 4 : 2) * queries + 4 * caches * keys};
    if (queryHeads)
      bench.operands = {{(gated ? 2 : 1) * queries}, {dim * 4}};
    for (int64_t i = 0; i < 2 * caches; ++i)
      bench.operands.push_back({keys});
    for (int64_t i = 0; i < caches; ++i)
      bench.operands.push_back({dim * 4});
    bench.operands.push_back({4, false, 2160, true});
    bench.operands.push_back({slots * dims * 4});
    for (int64_t i = 0; i < (queryHeads ? 1 : 0) + (gated ? 1 : 0); ++i)
      bench.operands.push_back({queries});
    for (int64_t i = 0; i < caches; ++i)
      bench.operands.push_back({2 * slots * heads * dim * 2, true});
    benchmarks.push_back(std::move(bench));
  }

  /// A verify of a delta layer, kernel by kernel and in one, where \p accepted
  /// rows of the verify before are kept.
  void delta(int accepted) {
    constexpr int64_t heads = 32, keyHeads = 16, dim = 128, pending = 16,
                      channels = 8192, windowRows = 19, rows = 16;
    const std::string inputSizes =
        number("channels", channels) + ", taps = 4 : i64, eps = 1.0e-6 : f32";
    const std::string headSizes =
        number("heads", heads) + ", " + number("key_heads", keyHeads) + ", " +
        number("key_dim", dim) + ", " + number("pending", pending);
    const std::string sizes = headSizes + ", " + number("value_dim", dim);
    const std::string rule = "commit = 0 : i64, scale_by = 0.08838834 : f32";
    const std::string norm = number("saves", 1) + ", " + number("normed", 1) +
                             ", norm_eps = 1.0e-6 : f32";
    int64_t state = heads * dim * dim * 4;
    int64_t cache =
        state + pending * (keyHeads * dim * 2 + heads * dim * 2 + heads * 8);
    int64_t stateBytes = accepted ? 2 * state : state;

    using List = std::vector<BenchOperand>;
    const List layerInputs = {{rows * channels * 2}, {rows * heads * 4},
                              {rows * heads * 4},    {4 * channels * 4, true},
                              {heads * 4},           {heads * 4}};
    const List madeRows = {{rows * keyHeads * dim * 2},
                           {rows * keyHeads * dim * 2},
                           {rows * heads * dim * 2},
                           {rows * heads * 4},
                           {rows * heads * 4}};
    const List count = {{4, false, accepted, true}};
    const List gate = {{rows * heads * dim * 2}, {dim * 4}};
    const List output = {{rows * heads * dim * 2}};
    const List window = {{windowRows * channels * 2, true}};
    const List caches = {{cache, true}};
    auto add = [&](const std::string &title, const std::string &family,
                   std::initializer_list<std::string> parameters,
                   std::initializer_list<List> operands, int64_t bytes) {
      std::string text = "activations = bf16";
      for (const std::string &parameter : parameters)
        text += ", " + parameter;
      Benchmark bench = {title, kernel(family, text, rows), rows, {}, bytes};
      for (const List &list : operands)
        bench.operands.insert(bench.operands.end(), list.begin(), list.end());
      benchmarks.push_back(std::move(bench));
    };
    std::string kept = ", " + std::to_string(accepted) + " kept";
    add("gated_delta" + kept, "gated_delta", {sizes, rule},
        {madeRows, count, output, caches}, stateBytes);
    add("gated_delta, saved and normed" + kept, "gated_delta",
        {sizes, rule, norm}, {madeRows, count, gate, output, caches},
        stateBytes);
    add("delta_save", "delta_save", {sizes},
        {{madeRows.begin() + 1, madeRows.end()}, caches}, 2 * (cache - state));
    add("delta_inputs", "delta_inputs",
        {headSizes, inputSizes, "commit = 0 : i64"},
        {layerInputs, count, madeRows, window},
        (rows * 2 + 4 * 2 + windowRows * 2) * channels * 2);
    add("gated_delta of inputs" + kept, "gated_delta",
        {sizes, rule, norm, inputSizes},
        {layerInputs, count, gate, output, window, caches}, stateBytes);
  }

  /// A kernel of rows that reads and writes \p columns bf16.
  void rows(const std::string &family, int64_t columns,
            const std::string &parameters, std::vector<BenchOperand> between) {
    std::string name = kernel(
        family,
        "activations = bf16, " + number("columns", columns) + parameters, 16);
    Benchmark bench = {
        family, name, 16, {{16 * columns * 2}}, 2 * 16 * columns * 2};
    bench.operands.insert(bench.operands.end(), between.begin(), between.end());
    bench.operands.push_back({16 * columns * 2});
    benchmarks.push_back(std::move(bench));
  }

  std::vector<Benchmark> benchmarks;

private:
  Suite &suite;
  int kernels = 0;
};

} // namespace

std::vector<Benchmark> tandem::gpucheck::addBenchmarks(Suite &suite) {
  Builder builder(suite);
  std::string copy = builder.kernel("copy", number("bytes", kCopyBytes), 1);
  builder.benchmarks.push_back(
      {"copy", copy, 1, {{kCopyBytes}, {kCopyBytes}}, 2 * kCopyBytes});
  // A delta layer, an attention layer, the MLP.
  builder.layer("gate, up: 2 x 9216 x 2560, norm", {9216, 9216}, 2560, 32, true,
                true, false);
  builder.layer("gate, up", {9216, 9216}, 2560, 32, true, true, false, 1);
  builder.layer("gate, up: without norm", {9216, 9216}, 2560, 32, false, true,
                false);
  // As others leave tokens to them.
  const std::string from = ", " + number("from_fragments", 1),
                    to = ", " + number("to_fragments", 1);
  builder.layer("gate, up: norm, tokens in fragments", {9216, 9216}, 2560, 32,
                true, true, false, 16, from + to);
  builder.layer("down: residual, tokens in fragments", {2560}, 9216, 32, false,
                false, true, 16, from);
  builder.layer("qkv, z: norm, tokens in fragments", {8192, 4096}, 2560, 32,
                true, false, false, 16, from);
  builder.layer("down: 2560 x 9216, residual", {2560}, 9216, 32, false, false,
                true);
  builder.layer("qkv, z: 12288 x 2560, norm", {8192, 4096}, 2560, 32, true,
                false, false);
  builder.layer("a, b: 64 x 2560, bf16, norm", {32, 32}, 2560, 0, true, false,
                false);
  builder.layer("q, k, v: 10240 x 2560, norm", {8192, 1024, 1024}, 2560, 32,
                true, false, false);
  builder.layer("o: 2560 x 4096, residual", {2560}, 4096, 32, false, false,
                true);
  builder.layer("gate, up", {9216, 9216}, 2560, 32, true, true, false, 64);
  // The drafter.
  builder.layer("draft fc: 2560 x 12800", {2560}, 12800, 128, false, false,
                false);
  builder.layer("draft q, k, v: 6144 x 2560, norm", {4096, 1024, 1024}, 2560,
                128, true, false, false);
  builder.layer("draft gate, up: 2 x 9728 x 2560, norm", {9728, 9728}, 2560,
                128, true, true, false);
  builder.layer("draft down: 2560 x 9728, residual", {2560}, 9728, 128, false,
                false, true);
  builder.head(248320, 2560);
  builder.search(248320, 2560, 16);
  builder.search(248320, 2560, 1);
  builder.draft(248320, 2560, 128);
  builder.draft(131072, 2560, 128);
  builder.attention(2160, 16384, 16, 4, 256, 0);
  builder.attention(8304, 16384, 16, 4, 256, 0);
  builder.attention(2160, 1040, 32, 8, 128, 1024);
  for (int rows : {16, 1}) {
    builder.attentionLayer(2160, 16384, 16, 4, 256, 64, 0, rows);
    builder.attentionLayer(8304, 16384, 16, 4, 256, 64, 0, rows);
  }
  builder.attentionLayer(2160, 1040, 32, 8, 128, 128, 1024, 16);
  builder.attentionInputs(16, 4, 256, 64, true, 1);
  builder.attentionInputs(32, 8, 128, 128, false, 1);
  builder.attentionInputs(0, 8, 128, 128, false, 5);
  builder.delta(8);
  builder.rows("rms_norm", 2560,
               ", dim = 2560 : i64, eps = 1.0e-6 : f32, offset = 1.0 : f32",
               {{2560 * 4}});
  builder.rows("gated_rms_norm", 4096, ", dim = 128 : i64, eps = 1.0e-6 : f32",
               {{16 * 4096 * 2}, {128 * 4}});
  builder.rows("add", 2560, "", {{16 * 2560 * 2}});
  return builder.benchmarks;
}

//===----------------------------------------------------------------------===//
// Measuring
//===----------------------------------------------------------------------===//

namespace {

/// Memory of a benchmark's operands, copies of those that rotate.
class Operands {
public:
  Operands(Run &run, const Benchmark &bench, const std::vector<char> &random)
      : run(run) {
    int64_t cold = 0;
    for (const BenchOperand &operand : bench.operands)
      cold += operand.isCold ? operand.bytes : 0;
    copies = cold ? int(std::clamp<int64_t>(kRotated / cold + 1, 2, 64)) : 1;
    for (const BenchOperand &operand : bench.operands) {
      auto &list = memory.emplace_back();
      for (int i = 0; i < (operand.isCold ? copies : 1); ++i) {
        DevicePointer pointer = 0;
        run.driver.expect(run.driver.memAlloc(&pointer, operand.bytes + 256),
                          "cuMemAlloc");
        list.push_back(pointer);
        if (operand.fill >= 0) {
          std::vector<char> same(operand.bytes, char(operand.fill));
          run.driver.expect(
              run.driver.copyToDevice(pointer, same.data(), operand.bytes),
              "cuMemcpyHtoD");
          continue;
        }
        if (operand.isNumber) {
          run.driver.expect(
              run.driver.copyToDevice(pointer, &operand.number, 4),
              "cuMemcpyHtoD");
          continue;
        }
        for (int64_t done = 0; done < operand.bytes;
             done += int64_t(random.size()))
          run.driver.expect(
              run.driver.copyToDevice(
                  pointer + done, random.data(),
                  std::min<int64_t>(random.size(), operand.bytes - done)),
              "cuMemcpyHtoD");
      }
    }
  }
  ~Operands() {
    for (auto &list : memory)
      for (DevicePointer pointer : list)
        run.driver.memFree(pointer);
  }

  std::vector<DevicePointer> get(int launch) const {
    std::vector<DevicePointer> pointers;
    for (auto &list : memory)
      pointers.push_back(list[launch % list.size()]);
    return pointers;
  }

  int copies = 1;

private:
  Run &run;
  std::vector<std::vector<DevicePointer>> memory;
};

/// Microseconds of a launch, the median of some runs of a graph.
double measure(Run &run, const Benchmark &bench, const Operands &operands,
               bool isProgrammatic) {
  const Driver &driver = run.driver;
  int launches = std::max(operands.copies, bench.bytes > kRotated ? 4 : 24);
  void *stream = nullptr, *graph = nullptr, *executable = nullptr;
  driver.expect(driver.streamCreate(&stream, 1), "cuStreamCreate");
  driver.expect(driver.streamBeginCapture(stream, 2), "cuStreamBeginCapture");
  for (int i = 0; i < launches; ++i)
    run.enqueue(bench.kernel, operands.get(i), bench.rows, stream,
                isProgrammatic && i > 0);
  driver.expect(driver.streamEndCapture(stream, &graph), "cuStreamEndCapture");
  driver.expect(driver.graphInstantiate(&executable, graph, 0),
                "cuGraphInstantiate");
  std::vector<double> times;
  void *begin = nullptr, *end = nullptr;
  driver.expect(driver.eventCreate(&begin, 0), "cuEventCreate");
  driver.expect(driver.eventCreate(&end, 0), "cuEventCreate");
  for (int i = 0; i < 23; ++i) {
    driver.expect(driver.eventRecord(begin, stream), "cuEventRecord");
    driver.expect(driver.graphLaunch(executable, stream), "cuGraphLaunch");
    driver.expect(driver.eventRecord(end, stream), "cuEventRecord");
    driver.expect(driver.eventSynchronize(end), "cuEventSynchronize");
    float milliseconds = 0;
    driver.expect(driver.eventElapsedTime(&milliseconds, begin, end),
                  "cuEventElapsedTime");
    // The first ones warm up.
    if (i >= 3)
      times.push_back(milliseconds * 1000 / launches);
  }
  driver.graphExecDestroy(executable);
  driver.graphDestroy(graph);
  driver.streamDestroy(stream);
  std::nth_element(times.begin(), times.begin() + times.size() / 2,
                   times.end());
  return times[times.size() / 2];
}

} // namespace

void tandem::gpucheck::runBenchmarks(Run &run,
                                     const std::vector<Benchmark> &benchmarks) {
  std::vector<char> random(int64_t(32) << 20);
  Random numbers(1);
  parallelFor(int64_t(random.size()) / 8, [&](int64_t i) {
    // As bf16 and f32 between 1/128 and 1/32, of both signs: a division takes
    // longer for results of a size that no model has.
    uint64_t bits = (numbers.bits(i) & 0x80ff80ff80ff80ff) | 0x3c003c003c003c00;
    std::memcpy(random.data() + i * 8, &bits, 8);
  });
  std::printf("%-44s %9s %9s %9s %8s %7s %7s\n", "launch", "MB", "us",
              "us, early", "GB/s", "% copy", "% early");
  double copyRate = 0;
  for (const Benchmark &bench : benchmarks) {
    if (!run.has(bench.kernel))
      continue;
    Operands operands(run, bench, random);
    double plain = measure(run, bench, operands, false);
    double early = measure(run, bench, operands, true);
    double rate = double(bench.bytes) / plain / 1000;
    if (copyRate == 0)
      copyRate = rate;
    std::printf("%-44s %9.3f %9.2f %9.2f %8.0f %7.1f %7.1f\n",
                bench.title.c_str(), double(bench.bytes) / 1e6, plain, early,
                rate, 100 * rate / copyRate,
                100 * double(bench.bytes) / early / 1000 / copyRate);
  }
}
