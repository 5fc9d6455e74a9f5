//===- InspectCommand.cpp - qrun inspect ----------------------------------===//

#include "tools/qrun/Commands.h"

#include "runtime/ChatTemplate.h"
#include "runtime/SamplingDefaults.h"
#include "runtime/SelfTest.h"
#include "runtime/Snapshot.h"
#include "runtime/WeightTraffic.h"
#include "runtime/cpu/Memory.h"
#include "runtime/cuda/CudaImage.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

namespace tandem::qrun {

namespace {

using Json = nlohmann::ordered_json;

/// "" for a string that the file does not have.
std::string textOf(const flatbuffers::String *string) {
  return string ? string->str() : "";
}

std::vector<std::string> linesOf(
    const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>> *list) {
  std::vector<std::string> lines;
  for (uint32_t index = 0; list && index < list->size(); ++index)
    lines.push_back(list->Get(index)->str());
  return lines;
}

/// The sizes of the artefact's memory, by kind.
Json memoryOf(const Artifact &artifact) {
  const artifact::Artifact &root = artifact.root();
  uint64_t weights = 0, code = 0;
  for (const artifact::Weight *weight : *root.weights())
    weights += weight->data()->size();
  for (const artifact::Image *image : *root.images())
    code += image->data()->size();
  std::map<std::string, uint64_t> caches;
  for (const artifact::State *state : *root.states())
    caches[state->kind()->str()] += state->size();
  Json memory = {{"weights", weights},          {"code", code},
                 {"caches", root.state_size()}, {"caches_by_kind", caches},
                 {"arena", root.arena_size()},  {"ports", root.port_size()}};
  if (root.loop())
    memory["snapshots"] = conversationSnapshots * SnapshotLayout(artifact).size;
  return memory;
}

/// The code images. Those for a GPU say themselves what they need.
Json imagesOf(const Artifact &artifact) {
  Json images = Json::array();
  for (const artifact::Image *image : *artifact.root().images()) {
    auto data = artifact.blob(*image->data());
    Json object = {{"kind", EnumNameImageKind(image->kind())},
                   {"bytes", data.size()}};
    if (image->kind() != artifact::ImageKind::shared_object) {
      auto needs = cuda::imageNeeds(image->kind(), data);
      if (needs.isOk()) {
        object["arch"] = concat("sm_", needs->architecture);
        object["needs_cuda"] = cuda::cudaVersionText(needs->cudaVersion);
      } else {
        object["problem"] = needs.status().message();
      }
    }
    images.push_back(std::move(object));
  }
  return images;
}

Json programsOf(const Artifact &artifact) {
  const artifact::Artifact &root = artifact.root();
  Json programs = Json::array();
  for (uint32_t index = 0; index < root.programs()->size(); ++index) {
    const artifact::Program &program = *root.programs()->Get(index);
    std::map<std::string, uint32_t> families;
    for (const artifact::Launch *launch : *program.launches())
      ++families[root.kernels()->Get(launch->kernel())->family()->str()];
    auto portNames = [&](const flatbuffers::Vector<uint32_t> *ports) {
      Json names = Json::array();
      for (uint32_t port = 0; ports && port < ports->size(); ++port)
        names.push_back(root.ports()->Get(ports->Get(port))->name()->str());
      return names;
    };
    programs.push_back({{"name", program.name()->str()},
                        {"inputs", portNames(program.inputs())},
                        {"outputs", portNames(program.outputs())},
                        {"launches", program.launches()->size()},
                        {"launches_by_family", families},
                        {"weight_bytes", weightBytesRead(artifact, index)}});
  }
  return programs;
}

/// How the programs of the loop read their heads, as qcompile's flags call it.
Json headsOf(const Artifact &artifact) {
  const artifact::Artifact &root = artifact.root();
  auto headOf = [&](int32_t program) -> std::string {
    for (const artifact::Launch *launch :
         *root.programs()->Get(uint32_t(program))->launches()) {
      std::string family =
          root.kernels()->Get(launch->kernel())->family()->str();
      if (family == "head_search")
        return "int8";
      if (family == "head_draft" || family == "quant_head_argmax")
        return "int4";
    }
    return "bf16";
  };
  Json heads = {{"verify", headOf(root.loop()->step())}};
  if (root.loop()->draft() < 0)
    return heads;
  heads["draft"] = headOf(root.loop()->draft());
  heads["draft_tokens"] = root.loop()->vocabulary();
  for (const artifact::Launch *launch :
       *root.programs()->Get(uint32_t(root.loop()->draft()))->launches())
    if (root.kernels()->Get(launch->kernel())->family()->str() ==
        "select_tokens") {
      // The second operand holds the ids.
      const artifact::Operand *table = launch->operands()->Get(1);
      heads["draft_tokens"] =
          root.weights()->Get(table->index())->data()->size() / 4;
    }
  return heads;
}

Json portsOf(const Artifact &artifact) {
  Json ports = Json::array();
  for (const artifact::Port *port : *artifact.root().ports())
    ports.push_back({{"name", port->name()->str()},
                     {"element", EnumNameElementType(port->element())},
                     {"shape", std::vector<uint32_t>(port->shape()->begin(),
                                                     port->shape()->end())}});
  return ports;
}

Json loopOf(const artifact::Loop &loop) {
  std::vector<uint32_t> stops;
  if (loop.stop_tokens())
    stops.assign(loop.stop_tokens()->begin(), loop.stop_tokens()->end());
  return {{"block", loop.block()},
          {"drafter", loop.draft() >= 0},
          {"sampling", loop.prefill_logits() >= 0},
          {"chunk", loop.chunk()},
          {"short_chunk", loop.short_chunk()},
          {"score_chunk", loop.score_chunk()},
          {"max_context", loop.max_context()},
          {"vocabulary", loop.vocabulary()},
          {"stop_tokens", stops}};
}

/// The chat template by name; by the reason why there is none otherwise.
Json chatOf(const artifact::Artifact &root) {
  auto chat = ChatTemplate::find(root.chat(), std::nullopt);
  if (!chat.isOk())
    return {{"template", nullptr}, {"problem", chat.status().message()}};
  return {{"template", std::string(chat->name())},
          {"thinking", chat->thinksByDefault()}};
}

/// What `--sample` does when nothing else is given.
Json samplingOf(const artifact::GenerationDefaults &defaults) {
  SamplingOptions options = defaultSampling(&defaults);
  return {{"temperature", options.temperature},
          {"top_k", options.topK},
          {"top_p", options.topP},
          {"min_p", options.minP},
          {"repetition_penalty", options.repetitionPenalty}};
}

/// A number of a few digits.
std::string shortText(const Json &number) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%.4g", number.get<double>());
  return buffer;
}

/// What multiplies in linear layers of a processor, and why that.
std::string productsOf(const artifact::Artifact &root) {
  auto has = [&](std::string_view feature) {
    return std::any_of(
        root.cpu()->features()->begin(), root.cpu()->features()->end(),
        [&](const auto *name) { return name->string_view() == feature; });
  };
  std::string activations = textOf(root.activations());
  std::string usual = has("amx-bf16") ? "bf16" : "f32";
  std::string how;
  if (activations == "bf16")
    how = has("amx-bf16") ? "tile registers (amx-bf16), 16, 8 or 1 rows at once"
          : has("avx512bf16") ? "vectors of pairs (avx512bf16)"
                              : "vectors of f32, of rows rounded to bf16";
  else if (activations == "int8")
    how = has("avx512vnni") ? "vectors of bytes (avx512vnni)"
          : has("avxvnni")  ? "vectors of bytes (avxvnni)"
                            : "vectors of bytes (avx2)";
  else
    how = has("avx512f") ? "vectors of f32 (avx512f)" : "vectors of f32 (avx2)";
  return how + (activations == usual ? ", the default for these features"
                                     : ", asked for; the default is " + usual);
}

Json describe(const Artifact &artifact) {
  const artifact::Artifact &root = artifact.root();
  Json object = {{"format", artifact.header().version()},
                 {"arch", root.arch()->str()},
                 {"activations", textOf(root.activations())}};
  if (root.cpu() && root.activations())
    object["products"] = productsOf(root);
  if (root.cpu())
    object["cpu"] = {{"level", root.cpu()->level()->str()},
                     {"features", linesOf(root.cpu()->features())}};
  if (const artifact::Build *build = root.build())
    object["build"] = {{"compiler_version", textOf(build->compiler_version())},
                       {"command_line", textOf(build->command_line())},
                       {"facts", linesOf(build->facts())},
                       {"sources", linesOf(build->sources())}};
  object["images"] = imagesOf(artifact);
  object["memory"] = memoryOf(artifact);
  object["programs"] = programsOf(artifact);
  object["ports"] = portsOf(artifact);
  if (root.loop())
    object["loop"] = loopOf(*root.loop());
  if (root.loop())
    object["heads"] = headsOf(artifact);
  if (root.loop())
    object["chat"] = chatOf(root);
  if (root.generation())
    object["generation"] = samplingOf(*root.generation());
  if (const artifact::SelfTest *test = root.self_test())
    object["self_test"] = {{"prompt", test->prompt()->str()},
                           {"new_tokens", test->new_tokens()},
                           {"floor", test->floor()}};
  if (const artifact::Tokenizer *tokenizer = root.tokenizer())
    object["tokenizer"] = {
        {"tokens", tokenizer->token_offsets()->size() - 1},
        {"merges", tokenizer->merges()->size()},
        {"added", tokenizer->added() ? tokenizer->added()->size() : 0}};
  return object;
}

/// One line of `key  value`; nothing for an empty value.
void printLine(const char *key, const std::string &value) {
  if (!value.empty())
    std::printf("%-13s %s\n", key, value.c_str());
}

std::string join(const Json &array, const char *separator) {
  std::string text;
  for (const Json &element : array)
    text += (text.empty() ? "" : separator) +
            (element.is_string() ? element.get<std::string>() : element.dump());
  return text;
}

std::string bytesOf(const Json &number) {
  return formatBytes(number.get<uint64_t>());
}

/// "cubin for sm_86, 1.2 MiB, needs a driver for CUDA 13.0".
std::string textOfImage(const Json &image) {
  std::string text = image["kind"].get<std::string>();
  if (image.contains("arch"))
    text += " for " + image["arch"].get<std::string>();
  text += ", " + bytesOf(image["bytes"]);
  if (image.contains("needs_cuda"))
    text +=
        ", needs a driver for CUDA " + image["needs_cuda"].get<std::string>();
  if (image.contains("problem"))
    text += ", " + image["problem"].get<std::string>();
  return text;
}

std::string textOfSelfTest(const Json &test) {
  if (test.contains("result"))
    return test["result"];
  char floor[32];
  std::snprintf(floor, sizeof(floor), "%.2f", test["floor"].get<double>());
  return concat(
      "mean accept length of at least ", floor, " behind ",
      test["prompt"].dump(-1, ' ', false, Json::error_handler_t::replace));
}

void printText(const Json &object) {
  printLine("format", object["format"].dump());
  printLine("arch", object["arch"]);
  printLine("activations", object["activations"]);
  if (object.contains("products"))
    printLine("products", object["products"]);
  if (object.contains("cpu"))
    printLine("cpu features", join(object["cpu"]["features"], " "));
  for (const Json &image : object["images"])
    printLine("image", textOfImage(image));
  if (object.contains("build")) {
    const Json &build = object["build"];
    printLine("compiler", build["compiler_version"]);
    printLine("command", build["command_line"]);
    printLine("facts", join(build["facts"], "\n              "));
    printLine("sources", join(build["sources"], "\n              "));
  }
  if (object.contains("tokenizer"))
    printLine("tokenizer", object["tokenizer"]["tokens"].dump() + " tokens, " +
                               object["tokenizer"]["merges"].dump() +
                               " merges, " +
                               object["tokenizer"]["added"].dump() + " added");
  if (object.contains("loop")) {
    const Json &loop = object["loop"];
    printLine("loop", (loop["drafter"] ? "block " + loop["block"].dump()
                                       : std::string("no drafter")) +
                          ", prefill chunk " + loop["chunk"].dump() +
                          (loop["short_chunk"] == 0
                               ? ""
                               : " or " + loop["short_chunk"].dump()) +
                          ", context " + loop["max_context"].dump() +
                          ", vocabulary " + loop["vocabulary"].dump() +
                          ", stop tokens [" + join(loop["stop_tokens"], " ") +
                          "]");
  }
  if (object.contains("heads")) {
    const Json &heads = object["heads"];
    std::string line = "verify " + heads["verify"].get<std::string>();
    if (heads.contains("draft"))
      line += ", draft " + heads["draft"].get<std::string>();
    if (heads.contains("draft_tokens") &&
        heads["draft_tokens"] != object["loop"]["vocabulary"])
      line += " of " + heads["draft_tokens"].dump() + " tokens";
    printLine("heads", line);
  }
  if (object.contains("chat")) {
    const Json &chat = object["chat"];
    if (chat["template"].is_null())
      printLine("chat", chat["problem"]);
    else
      printLine("chat", chat["template"].get<std::string>() +
                            (chat["thinking"] ? ", thinks unless told not to"
                                              : ", thinks when told to"));
  }
  if (object.contains("generation")) {
    std::string line;
    for (const auto &[name, value] : object["generation"].items())
      line += (line.empty() ? "" : ", ") + name + " " + shortText(value);
    printLine("generation", line);
  }
  if (object.contains("self_test"))
    printLine("self-test", textOfSelfTest(object["self_test"]));

  const Json &memory = object["memory"];
  std::printf("\nmemory\n");
  std::string kinds;
  for (const auto &[kind, bytes] : memory["caches_by_kind"].items())
    kinds += (kinds.empty() ? "  " : ", ") + kind + " " + bytesOf(bytes);
  for (const char *part : {"weights", "code", "caches", "arena", "ports"})
    std::printf("  %-11s %10s%s\n", part, bytesOf(memory[part]).c_str(),
                part == std::string_view("caches") ? kinds.c_str() : "");
  if (memory.contains("snapshots"))
    std::printf("  %-11s %10s  %u of them, in chat and serve\n", "snapshots",
                bytesOf(memory["snapshots"]).c_str(), conversationSnapshots);

  std::printf("\nprograms\n");
  for (const Json &program : object["programs"]) {
    std::string families;
    for (const auto &[family, count] : program["launches_by_family"].items())
      families += (families.empty() ? "" : ", ") + count.dump() + " " + family;
    std::printf("  %-14s %10s of weights, %u launches: %s\n",
                program["name"].get_ref<const std::string &>().c_str(),
                bytesOf(program["weight_bytes"]).c_str(),
                program["launches"].get<unsigned>(), families.c_str());
  }
}

/// Runs the self-test, if the artefact brings one and this machine can run it.
Status testItself(const Artifact &artifact, const std::string &path,
                  Json &object) {
  if (!artifact.root().self_test())
    return Status();
  StatusOr<ChosenDevice> device = chooseDevice(artifact, /*device=*/"", {});
  if (!device.isOk()) {
    object["self_test"]["result"] = "not run: " + device.status().message();
    return Status();
  }
  TANDEM_ASSIGN_OR_RETURN(Tokenizer tokenizer, makeTokenizer(artifact, path));
  auto result = runSelfTest(artifact, *device->device, tokenizer);
  QRUN_RETURN_IF_ERROR(path, result.status());
  object["self_test"]["result"] = result->describe();
  if (result->isPassed())
    return Status();
  return failure(StatusCode::InvalidFile, path,
                 ": self-test: ", result->describe());
}

} // namespace

Status inspect(const InspectFlags &flags) {
  auto artifact =
      Artifact::open(flags.artifact, flags.deep ? SyntheticWeights::Make
                                                : SyntheticWeights::Leave);
  if (!artifact.isOk())
    return inFile(flags.artifact, artifact.status());
  if (flags.deep)
    QRUN_RETURN_IF_ERROR(flags.artifact, artifact->verifyBlobs());
  Json object = describe(*artifact);
  if (flags.deep) {
    object["blobs"] = "verified";
    TANDEM_RETURN_IF_ERROR(testItself(*artifact, flags.artifact, object));
  }
  // Names come from checkpoints and may hold any bytes.
  if (flags.json)
    std::printf(
        "%s\n",
        object.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  else
    printText(object);
  return Status();
}

} // namespace tandem::qrun
