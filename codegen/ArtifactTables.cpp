//===- ArtifactTables.cpp - A plan as the flatbuffer ----------------------===//

#include "codegen/ArtifactTables.h"
#include "codegen/TokenizerTable.h"
#include "codegen/WeightFills.h"
#include "dialects/lm/LmDialect.h"
#include "dialects/plan/PlanOps.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace tandem;
using namespace tandem::codegen;
using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

BlobLayout::BlobLayout(const ArtifactContents &contents) {
  uint64_t end = 0;
  auto place = [&](uint64_t bytes) {
    artifact::Blob blob(alignTo(end, kBlobAlignment), bytes);
    end = blob.offset() + bytes;
    return blob;
  };
  for (const CodeImage &image : contents.code.images)
    images.push_back(place(image.bytes.size()));
  auto ops =
      llvm::to_vector(mlir::ModuleOp(contents.plan).getOps<plan::WeightOp>());
  weights.resize(ops.size());
  for (bool synthetic : {false, true}) {
    for (auto [op, blob] : zip_equal(ops, weights))
      if (isSynthetic(op) == synthetic)
        blob = place(op.getPacking().getSizeInBytes());
    (synthetic ? filledSize : size) = end;
  }
  if (llvm::none_of(ops, isSynthetic))
    filledSize = 0;
}

namespace {

artifact::ElementType getElementType(mlir::Type type) {
  if (type.isF32())
    return artifact::ElementType::f32;
  if (type.isBF16())
    return artifact::ElementType::bf16;
  if (type.isF16())
    return artifact::ElementType::f16;
  return type.isInteger(32) ? artifact::ElementType::i32
                            : artifact::ElementType::i8;
}

uint64_t getSizeInBytes(mlir::Value memory) {
  auto type = mlir::cast<mlir::MemRefType>(memory.getType());
  return type.getNumElements() * (type.getElementTypeBitWidth() / 8);
}

/// What an attribute says, without the quotes and types of MLIR.
std::string toText(mlir::Attribute value) {
  if (auto text = mlir::dyn_cast<mlir::StringAttr>(value))
    return text.str();
  std::string result;
  raw_string_ostream os(result);
  value.print(os, /*elideType=*/true);
  return result;
}

/// \p packing for people: of a table of tokens, how many they are.
std::string describe(plan::PackingAttrInterface packing) {
  if (auto table = mlir::dyn_cast<plan::TokenTableAttr>(packing))
    return ("token table of " + Twine(table.getSet().size())).str();
  return toText(packing);
}

class TableBuilder {
public:
  TableBuilder(const ArtifactContents &contents, const BlobLayout &layout,
               FlatBufferBuilder &builder)
      : contents(contents), plan(contents.plan), layout(layout),
        builder(builder) {}

  Error build();

private:
  template <typename Table> using Tables = std::vector<Offset<Table>>;

  /// Each fills the vector of its table, and the indexes that later tables
  /// refer to.
  Expected<Tables<artifact::Port>> buildPorts();
  Tables<artifact::State> buildStates();
  Tables<artifact::Weight> buildWeights();
  Tables<artifact::Kernel> buildKernels();
  Error buildPrograms(Tables<artifact::Program> &programs);

  Expected<Offset<artifact::Launch>> buildLaunch(plan::LaunchOp launch);
  artifact::Operand buildOperand(mlir::Value memory);
  Offset<artifact::Loop> buildLoop(plan::LoopOp loop);
  Offset<artifact::Chat> buildChat();
  Offset<artifact::GenerationDefaults> buildGeneration();
  Offset<artifact::Build> buildBuild();
  /// Null when the file gets none.
  Expected<Offset<artifact::SelfTest>> buildSelfTest();

  Offset<flatbuffers::String> text(StringRef value) {
    return builder.CreateString(value.data(), value.size());
  }

  uint64_t getModuleSize(StringRef name) {
    auto size = plan->getAttrOfType<mlir::IntegerAttr>(name);
    return size ? size.getInt() : 0;
  }

  const ArtifactContents &contents;
  mlir::ModuleOp plan;
  const BlobLayout &layout;
  FlatBufferBuilder &builder;

  /// Index of the table of each port, state and weight.
  DenseMap<mlir::Value, uint32_t> indexes;
  StringMap<uint32_t> kernelIndexes;
  StringMap<int32_t> programIndexes;
};

} // namespace

Expected<TableBuilder::Tables<artifact::Port>> TableBuilder::buildPorts() {
  Tables<artifact::Port> ports;
  for (auto port : plan.getOps<plan::PortOp>()) {
    indexes[port.getResult()] = ports.size();
    auto type = mlir::cast<mlir::MemRefType>(port.getResult().getType());
    std::vector<uint32_t> shape;
    for (int64_t size : type.getShape()) {
      if (!isUInt<32>(size))
        return createStringError("port '" + port.getName() +
                                 "' has a dimension of " + Twine(size) +
                                 ", expected less than 2^32");
      shape.push_back(static_cast<uint32_t>(size));
    }
    auto name = text(port.getName());
    auto shapeVector = builder.CreateVector(shape);
    ports.push_back(artifact::CreatePort(
        builder, name, getElementType(type.getElementType()), shapeVector,
        port.getOffset().value_or(0)));
  }
  return ports;
}

TableBuilder::Tables<artifact::State> TableBuilder::buildStates() {
  Tables<artifact::State> states;
  for (auto state : plan.getOps<plan::StateOp>()) {
    indexes[state.getResult()] = states.size();
    auto name = text(state.getName());
    auto kind = text(state.getKind());
    states.push_back(artifact::CreateState(builder, name, kind,
                                           state.getOffset().value_or(0),
                                           getSizeInBytes(state.getResult())));
  }
  return states;
}

TableBuilder::Tables<artifact::Weight> TableBuilder::buildWeights() {
  Tables<artifact::Weight> weights;
  for (auto weight : plan.getOps<plan::WeightOp>()) {
    uint32_t index = weights.size();
    indexes[weight.getResult()] = index;
    auto name = text(weight.getName());
    auto packing = text(describe(weight.getPacking()));
    Offset<artifact::Fill> fill;
    if (isSynthetic(weight))
      fill = buildFill(builder, weight);
    weights.push_back(artifact::CreateWeight(builder, name, packing,
                                             &layout.weights[index], fill));
  }
  return weights;
}

TableBuilder::Tables<artifact::Kernel> TableBuilder::buildKernels() {
  Tables<artifact::Kernel> kernels;
  for (const CodeKernel &kernel : contents.code.kernels) {
    kernelIndexes[kernel.symbol] = kernels.size();
    auto symbol = text(kernel.symbol);
    auto family = text(kernel.family);
    kernels.push_back(artifact::CreateKernel(
        builder, symbol, family, kernel.image, kernel.scratch, kernel.block,
        kernel.shared, kernel.startsEarly));
  }
  return kernels;
}

artifact::Operand TableBuilder::buildOperand(mlir::Value memory) {
  mlir::Operation *op = memory.getDefiningOp();
  if (auto buffer = mlir::dyn_cast<plan::BufferOp>(op))
    return artifact::Operand(buffer.getOffset().value_or(0), 0,
                             artifact::Space::arena);
  artifact::Space space = mlir::isa<plan::PortOp>(op) ? artifact::Space::port
                          : mlir::isa<plan::StateOp>(op)
                              ? artifact::Space::state
                              : artifact::Space::weight;
  return artifact::Operand(0, indexes.lookup(memory), space);
}

/// The weight that \p launch reads, else the cache it uses: what people know
/// it by. Not its location in MLIR, which a plan that was printed and read
/// again has lost.
static StringRef getLocation(plan::LaunchOp launch) {
  for (mlir::Value operand : launch->getOperands())
    if (auto weight = operand.getDefiningOp<plan::WeightOp>())
      if (!weight.getSources().empty())
        return weight.getName();
  for (mlir::Value operand : launch->getOperands())
    if (auto state = operand.getDefiningOp<plan::StateOp>())
      return state.getName();
  return "";
}

Expected<Offset<artifact::Launch>>
TableBuilder::buildLaunch(plan::LaunchOp launch) {
  auto kernel = kernelIndexes.find(launch.getKernel());
  if (kernel == kernelIndexes.end())
    return createStringError("the code has no kernel '" + launch.getKernel() +
                             "'");
  if (!isUInt<32>(launch.getRows()) || !isUInt<32>(launch.getItems()))
    return createStringError("a launch of '" + launch.getKernel() + "' has " +
                             Twine(launch.getRows()) + " rows and " +
                             Twine(launch.getItems()) +
                             " items, expected less than 2^32");
  int32_t rowsPort = -1;
  if (mlir::Value count = launch.getCount()) {
    if (!count.getDefiningOp<plan::PortOp>())
      return createStringError("a launch of '" + launch.getKernel() +
                               "' counts its rows in memory that is no port");
    rowsPort = static_cast<int32_t>(indexes.lookup(count));
  }
  std::vector<artifact::Operand> operands;
  for (mlir::Value memory : launch.getInputs())
    operands.push_back(buildOperand(memory));
  for (mlir::Value memory : launch.getOutputs())
    operands.push_back(buildOperand(memory));
  auto operandVector = builder.CreateVectorOfStructs(operands);
  // Many launches share a weight.
  StringRef location = getLocation(launch);
  auto locationText =
      builder.CreateSharedString(location.data(), location.size());
  artifact::LaunchBuilder table(builder);
  table.add_kernel(kernel->second);
  table.add_operands(operandVector);
  table.add_rows(launch.getRows());
  table.add_rows_port(rowsPort);
  table.add_items(launch.getItems());
  table.add_items_per_row(launch.getPerRow());
  if (contents.code.isForGpu()) {
    const CodeKernel &code = contents.code.kernels[kernel->second];
    CudaGrid grid = code.grid.get(static_cast<int64_t>(launch.getRows()));
    table.add_grid_x(grid.x);
    table.add_grid_y(grid.y);
    table.add_grid_z(grid.z);
  }
  table.add_location(locationText);
  return table.Finish();
}

Error TableBuilder::buildPrograms(Tables<artifact::Program> &programs) {
  for (auto program : plan.getOps<plan::ProgramOp>()) {
    programIndexes[program.getSymName()] = programs.size();
    Tables<artifact::Launch> launches;
    for (auto launch : program.getBody().getOps<plan::LaunchOp>()) {
      Expected<Offset<artifact::Launch>> table = buildLaunch(launch);
      if (!table)
        return createStringError("program '" + program.getSymName() +
                                 "': " + toString(table.takeError()));
      launches.push_back(*table);
    }
    auto toIndexes = [&](mlir::ValueRange ports) {
      std::vector<uint32_t> result;
      for (mlir::Value port : ports)
        result.push_back(indexes.lookup(port));
      return builder.CreateVector(result);
    };
    auto name = text(program.getSymName());
    auto inputs = toIndexes(program.getInputs());
    auto outputs = toIndexes(program.getOutputs());
    auto launchVector = builder.CreateVector(launches);
    programs.push_back(
        artifact::CreateProgram(builder, name, inputs, outputs, launchVector));
  }
  return Error::success();
}

Offset<artifact::Chat> TableBuilder::buildChat() {
  if (!contents.chat.templateHash)
    return 0;
  return artifact::CreateChat(builder, *contents.chat.templateHash,
                              contents.chat.thinking);
}

Offset<artifact::GenerationDefaults> TableBuilder::buildGeneration() {
  if (!contents.chat.generation)
    return 0;
  const models::ChatData::Generation &given = *contents.chat.generation;
  auto number = [](std::optional<double> value) {
    return static_cast<float>(value.value_or(-1));
  };
  return artifact::CreateGenerationDefaults(
      builder, given.sample, number(given.temperature),
      static_cast<int32_t>(given.topK.value_or(-1)), number(given.topP),
      number(given.minP), number(given.repetitionPenalty));
}

Offset<artifact::Loop> TableBuilder::buildLoop(plan::LoopOp loop) {
  auto indexOf = [&](std::optional<StringRef> program) {
    auto found = program ? programIndexes.find(*program) : programIndexes.end();
    return found == programIndexes.end() ? -1 : found->second;
  };
  std::vector<uint32_t> stops(loop.getStopTokens().begin(),
                              loop.getStopTokens().end());
  return artifact::CreateLoop(
      builder, loop.getBlock(), loop.getChunk(), loop.getScoreChunk(),
      loop.getMaxContext(), loop.getVocabulary(), builder.CreateVector(stops),
      indexOf(loop.getPrefill()), indexOf(loop.getStep()),
      indexOf(loop.getContext()), indexOf(loop.getDraft()),
      indexOf(loop.getVerify()), indexOf(loop.getAccept()),
      indexOf(loop.getScore()), indexOf(loop.getScoreDraft()),
      indexOf(loop.getPrefillLogits()), indexOf(loop.getStepLogits()),
      indexOf(loop.getVerifyLogits()), loop.getShortChunk().value_or(0),
      indexOf(loop.getShortPrefill()), indexOf(loop.getShortContext()),
      indexOf(loop.getShortPrefillLogits()));
}

Offset<artifact::Build> TableBuilder::buildBuild() {
  std::vector<std::string> facts;
  if (auto dictionary = plan->getAttrOfType<mlir::DictionaryAttr>(
          lm::LmDialect::kFactsAttrName))
    for (mlir::NamedAttribute fact : dictionary)
      facts.push_back(fact.getName().str() + " " + toText(fact.getValue()));
  auto version = text(contents.compilerVersion);
  auto commandLine = text(contents.commandLine);
  auto sources = builder.CreateVectorOfStrings(contents.sources);
  auto factVector = builder.CreateVectorOfStrings(facts);
  return artifact::CreateBuild(builder, version, commandLine, sources,
                               factVector);
}

Expected<Offset<artifact::SelfTest>> TableBuilder::buildSelfTest() {
  if (!contents.selfTest || !contents.tokenizer)
    return Offset<artifact::SelfTest>();
  const SelfTest &test = *contents.selfTest;
  for (auto loop : plan.getOps<plan::LoopOp>()) {
    if (!loop.getDraft() || loop.getMaxContext() < kSelfTestContext)
      break;
    if (!(test.floor >= 1 && test.floor <= double(loop.getBlock())))
      return createStringError(
          formatv("self-test: the floor is {0}, expected 1 to {1}, the block",
                  test.floor, loop.getBlock()));
    return artifact::CreateSelfTest(builder, text(test.prompt), kSelfTestTokens,
                                    test.floor);
  }
  return Offset<artifact::SelfTest>();
}

Error TableBuilder::build() {
  // A flatbuffer is written from the leaves to the root.
  Expected<Tables<artifact::Port>> portTables = buildPorts();
  if (!portTables)
    return portTables.takeError();
  auto ports = builder.CreateVector(*portTables);
  auto states = builder.CreateVector(buildStates());
  auto weights = builder.CreateVector(buildWeights());
  auto kernels = builder.CreateVector(buildKernels());
  Tables<artifact::Program> programTables;
  if (Error error = buildPrograms(programTables))
    return error;
  auto programs = builder.CreateVector(programTables);
  Tables<artifact::Image> imageTables;
  for (auto [image, blob] : zip_equal(contents.code.images, layout.images))
    imageTables.push_back(artifact::CreateImage(builder, image.kind, &blob));
  auto images = builder.CreateVector(imageTables);

  Offset<artifact::Loop> loop;
  for (auto op : plan.getOps<plan::LoopOp>())
    loop = buildLoop(op);
  Offset<artifact::Tokenizer> tokenizer;
  if (contents.tokenizer)
    tokenizer = serializeTokenizer(builder, *contents.tokenizer);
  auto build = buildBuild();
  auto chat = buildChat();
  auto generation = buildGeneration();
  Offset<artifact::Cpu> cpu;
  if (!contents.code.isForGpu()) {
    auto level = text(contents.code.arch);
    auto features = builder.CreateVectorOfStrings(*contents.code.cpuFeatures);
    cpu = artifact::CreateCpu(builder, level, features);
  }
  Expected<Offset<artifact::SelfTest>> selfTest = buildSelfTest();
  if (!selfTest)
    return selfTest.takeError();
  auto arch = text(contents.code.arch);
  auto activations = text(contents.activations);

  using plan::PlanDialect;
  artifact::FinishArtifactBuffer(
      builder, artifact::CreateArtifact(
                   builder, arch, cpu, activations,
                   getModuleSize(PlanDialect::kArenaSizeAttrName),
                   getModuleSize(PlanDialect::kStateSizeAttrName),
                   getModuleSize(PlanDialect::kPortSizeAttrName), ports, states,
                   weights, images, kernels, programs, loop, tokenizer, build,
                   chat, generation, layout.filledSize, *selfTest));
  // Without assertions the builder goes past its limit in silence.
  if (builder.GetSize() >= FLATBUFFERS_MAX_BUFFER_SIZE)
    return createStringError("the tables have " + Twine(builder.GetSize()) +
                             " bytes, the limit is " +
                             Twine(FLATBUFFERS_MAX_BUFFER_SIZE));
  return Error::success();
}

Error codegen::buildTables(const ArtifactContents &contents,
                           const BlobLayout &layout,
                           FlatBufferBuilder &builder) {
  return TableBuilder(contents, layout, builder).build();
}
