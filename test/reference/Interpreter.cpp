//===- Interpreter.cpp - Runs lm functions on the reference ops -----------===//

#include "test/reference/Interpreter.h"
#include "dialects/lm/LmOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"

#include <cstring>

using namespace tandem;
using namespace tandem::reference;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

template <typename... Parts> static Error makeError(const Parts &...parts) {
  std::string text;
  llvm::raw_string_ostream os(text);
  (os << ... << parts);
  return llvm::createStringError(text);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Value tandem::reference::makeZero(mlir::Type type) {
  return llvm::TypeSwitch<mlir::Type, Value>(type)
      .Case([](lm::KvCacheType cache) {
        return KvCache(cache.getSlots(), cache.getHeads(), cache.getDim());
      })
      .Case([](lm::ConvCacheType cache) {
        return ConvCache(cache.getTaps(), cache.getChannels(),
                         cache.getPending());
      })
      .Case([](lm::DeltaCacheType cache) {
        return DeltaCache(cache.getHeads(), cache.getKeyHeads(),
                          cache.getKeyDim(), cache.getValueDim(),
                          cache.getPending());
      })
      .Default([](mlir::Type other) -> Value {
        auto tensor = llvm::cast<mlir::RankedTensorType>(other);
        if (tensor.getElementType().isInteger(32))
          return IntTensor(tensor.getShape().vec());
        return Tensor(tensor.getShape().vec());
      });
}

static float decodeFloat(const llvm::fltSemantics &semantics, uint64_t bits) {
  llvm::APFloat value(
      semantics,
      llvm::APInt(llvm::APFloat::semanticsSizeInBits(semantics), bits));
  bool losesInfo;
  value.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven,
                &losesInfo);
  return value.convertToFloat();
}

/// Rounds \p value to what \p type can hold.
static void roundTo(mlir::Type type, Value &value) {
  auto tensorType = llvm::dyn_cast<mlir::RankedTensorType>(type);
  if (!tensorType || tensorType.getElementType().isF32() ||
      !std::holds_alternative<Tensor>(value))
    return;
  const llvm::fltSemantics &semantics =
      llvm::cast<mlir::FloatType>(tensorType.getElementType())
          .getFloatSemantics();
  for (float &x : std::get<Tensor>(value).data) {
    llvm::APFloat rounded(x);
    bool losesInfo;
    rounded.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &losesInfo);
    rounded.convert(llvm::APFloat::IEEEsingle(),
                    llvm::APFloat::rmNearestTiesToEven, &losesInfo);
    x = rounded.convertToFloat();
  }
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

/// The type that a tensor of a checkpoint has in lm.
static mlir::Type getElementType(mlir::MLIRContext *context,
                                 models::DType dtype) {
  switch (dtype) {
  case models::DType::F32:
    return mlir::Float32Type::get(context);
  case models::DType::F16:
    return mlir::Float16Type::get(context);
  case models::DType::BF16:
    return mlir::BFloat16Type::get(context);
  case models::DType::I32:
    return mlir::IntegerType::get(context, 32);
  case models::DType::F8E4M3:
    return mlir::Float8E4M3FNType::get(context);
  default:
    return mlir::NoneType::get(context);
  }
}

static Value decode(const models::TensorView &view, mlir::Type elementType) {
  std::vector<int64_t> shape(view.shape.begin(), view.shape.end());
  if (elementType.isInteger(32)) {
    IntTensor result(shape);
    std::memcpy(result.data.data(), view.bytes.data(), view.bytes.size());
    return result;
  }
  if (mlir::isa<mlir::Float8E4M3FNType>(elementType)) {
    // Codes, whose values are lm.dequant's to know.
    IntTensor result(shape);
    llvm::copy(view.bytes, result.data.begin());
    return result;
  }
  Tensor result(shape);
  const llvm::fltSemantics &semantics =
      llvm::cast<mlir::FloatType>(elementType).getFloatSemantics();
  unsigned width = elementType.getIntOrFloatBitWidth() / 8;
  for (size_t i = 0; i < result.data.size(); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, view.bytes.data() + i * width, width);
    result.data[i] = decodeFloat(semantics, bits);
  }
  return result;
}

/// What a weight is kept under.
static std::string getWeightKey(StringRef checkpoint, StringRef name) {
  return (checkpoint + ":" + name).str();
}

void Interpreter::setWeight(StringRef checkpoint, StringRef name, Value value) {
  weights.insert_or_assign(getWeightKey(checkpoint, name), std::move(value));
}

Expected<Value> Interpreter::loadWeight(mlir::Operation *op) {
  auto weight = llvm::cast<lm::WeightOp>(op);
  StringRef checkpoint = weight.getCheckpoint(), name = weight.getName();
  std::string key = getWeightKey(checkpoint, name);
  if (auto it = weights.find(key); it != weights.end())
    return it->second;

  auto opened = checkpoints.find(checkpoint);
  if (opened == checkpoints.end())
    return makeError("no checkpoint '", checkpoint, "'");
  const models::TensorView *view = opened->second.find(name);
  if (!view)
    return makeError("no tensor '", name, "' in '", checkpoint, "'");
  mlir::Type element = getElementType(weight.getContext(), view->dtype);
  mlir::Type type = mlir::RankedTensorType::get(view->shape, element);
  if (type != weight.getType())
    return makeError("tensor '", name, "' is ", *view, ", not ",
                     weight.getType());
  return weights.try_emplace(key, decode(*view, element)).first->second;
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

static Grouped getGrouped(lm::GroupedAttr format) {
  return {format.getBits(), format.getGroup(), format.getZeroPoints(),
          format.getFloatCodes()};
}

static IntTensor getTokens(lm::TokenSetAttr set) {
  return IntTensor::of(set.getTokens());
}

/// One call of a function: the values of its SSA names.
class Interpreter::Frame {
public:
  explicit Frame(Interpreter &interpreter) : interpreter(interpreter) {}

  /// Runs \p block on \p arguments; returns the operands of its terminator.
  Expected<std::vector<Value>> runBlock(mlir::Block &block,
                                        std::vector<Value> arguments);

private:
  Error runOp(mlir::Operation &op);
  Error runDenoise(lm::DenoiseOp op);
  void runFusedLinear(lm::FusedLinearOp op);
  void runDeltaInputs(lm::DeltaInputsOp op);
  void runAttentionInputs(lm::AttentionInputsOp op);

  const Value &get(mlir::Value value) const { return values.at(value); }
  const Tensor &tensor(mlir::Value value) const {
    return std::get<Tensor>(get(value));
  }
  const IntTensor &ints(mlir::Value value) const {
    return std::get<IntTensor>(get(value));
  }
  template <typename T> const T &cache(mlir::Value value) const {
    return std::get<T>(get(value));
  }
  int32_t scalar(mlir::Value value) const { return ints(value).data[0]; }
  std::optional<int64_t> optional(mlir::Value value) const {
    return value ? std::optional<int64_t>(scalar(value)) : std::nullopt;
  }

  void set(mlir::Value name, Value value) {
    roundTo(name.getType(), value);
    values.insert_or_assign(name, std::move(value));
  }

  Interpreter &interpreter;
  llvm::DenseMap<mlir::Value, Value> values;
};

Error Interpreter::Frame::runDenoise(lm::DenoiseOp op) {
  int64_t slots = op.getSize() - 1, steps = op.getSteps(), filled = 0;
  auto maskToken = static_cast<int32_t>(op.getMaskToken());
  IntTensor block = maskBlock(scalar(op.getAnchor()), maskToken, op.getSize());
  std::vector<Value> state;
  for (mlir::Value cache : op.getCaches())
    state.push_back(get(cache));

  Value logits;
  for (int64_t step = 1; step <= steps; ++step) {
    std::vector<Value> arguments = {block};
    llvm::append_range(arguments, state);
    Expected<std::vector<Value>> yielded =
        runBlock(op.getBody().front(), std::move(arguments));
    if (!yielded)
      return yielded.takeError();
    logits = (*yielded)[0];
    state.assign(yielded->begin() + 1, yielded->end());
    // At least step / steps of the slots are filled after this step.
    int64_t wanted = llvm::divideCeil(slots * step, steps);
    block = unmask(block, std::get<Tensor>(logits), maskToken, wanted - filled);
    filled = wanted;
  }
  set(op.getBlock(), block);
  set(op.getLogits(), logits);
  for (auto [result, value] : llvm::zip_equal(op.getNewCaches(), state))
    set(result, std::move(value));
  return Error::success();
}

/// A step inside of a fused op, rounded as if it were an op with results like
/// \p like.
static Tensor step(mlir::Value like, Tensor tensor) {
  Value value = std::move(tensor);
  roundTo(like.getType(), value);
  return std::get<Tensor>(std::move(value));
}

void Interpreter::Frame::runFusedLinear(lm::FusedLinearOp op) {
  mlir::Value like = op.getInput();
  Tensor input = tensor(op.getInput());
  if (std::optional<lm::NormAttr> norm = op.getNorm())
    input = step(like, rmsNorm(input, tensor(op.getNormWeight()),
                               norm->getEps().getValue().convertToFloat(),
                               norm->getOffset().getValue().convertToFloat()));
  std::vector<Tensor> results;
  for (auto [index, weight] : llvm::enumerate(op.getWeights())) {
    std::optional<lm::GroupedAttr> format = op.getQuantization();
    results.push_back(
        step(like, format ? quantLinear(input, ints(weight),
                                        tensor(op.getScales()[index]),
                                        getGrouped(*format))
                          : linear(input, tensor(weight))));
  }
  if (op.getGated())
    results = {step(like, mul(step(like, silu(results[0])), results[1]))};
  if (op.getResidual())
    results[0] = add(tensor(op.getResidual()), results[0]);
  for (auto [name, result] : llvm::zip_equal(op.getResults(), results))
    set(name, std::move(result));
}

void Interpreter::Frame::runDeltaInputs(lm::DeltaInputsOp op) {
  ConvCache state = cache<ConvCache>(op.getCache());
  Tensor convolved =
      step(op.getInput(),
           silu(step(op.getInput(),
                     shortConv(tensor(op.getInput()), tensor(op.getWeight()),
                               state, scalar(op.getAccepted()),
                               optional(op.getCount()), op.getCommit()))));
  std::vector<int64_t> columns;
  for (mlir::Value part : {op.getQuery(), op.getKey(), op.getValue()})
    columns.push_back(
        llvm::cast<mlir::RankedTensorType>(part.getType()).getDimSize(1));
  std::vector<Tensor> parts = split(convolved, /*groups=*/1, columns);
  float eps = op.getEps().convertToFloat();
  set(op.getQuery(), l2Norm(parts[0], op.getKeyDim(), eps));
  set(op.getKey(), l2Norm(parts[1], op.getKeyDim(), eps));
  set(op.getValue(), parts[2]);
  set(op.getDecay(), deltaGate(tensor(op.getDecayInput()), tensor(op.getALog()),
                               tensor(op.getDtBias())));
  set(op.getBeta(), sigmoid(tensor(op.getBetaInput())));
  set(op.getResult(), std::move(state));
}

void Interpreter::Frame::runAttentionInputs(lm::AttentionInputsOp op) {
  auto type = llvm::cast<lm::KvCacheType>(op.getCaches()[0].getType());
  float eps = op.getNorm().getEps().getValue().convertToFloat();
  float offset = op.getNorm().getOffset().getValue().convertToFloat();
  auto rotate = [&](mlir::Value like, const Tensor &rows, mlir::Value norm) {
    Tensor normed = step(like, rmsNorm(rows, tensor(norm), eps, offset));
    return step(like, rope(normed, scalar(op.getStart()), type.getDim(),
                           static_cast<int64_t>(op.getDims()),
                           op.getTheta().convertToDouble()));
  };
  for (auto [i, result] : llvm::enumerate(op.getResults()))
    set(result, cacheAppend(cache<KvCache>(op.getCaches()[i]),
                            rotate(op.getKeys()[i], tensor(op.getKeys()[i]),
                                   op.getKeyNorms()[i]),
                            tensor(op.getValues()[i]), scalar(op.getStart()),
                            optional(op.getCount())));
  if (!op.getQuery())
    return;
  Tensor query = tensor(op.getQuery());
  if (op.getGate()) {
    int64_t columns = op.getRotated().getType().getDimSize(1);
    std::vector<Tensor> parts =
        split(query, columns / type.getDim(), {columns, columns});
    query = parts[0];
    set(op.getGate(), parts[1]);
  }
  set(op.getRotated(), rotate(op.getQuery(), query, op.getQueryNorm()));
}

Error Interpreter::Frame::runOp(mlir::Operation &operation) {
  bool known = true;
  Error error = Error::success();
  llvm::TypeSwitch<mlir::Operation *>(&operation)
      .Case([&](lm::WeightOp op) {
        Expected<Value> value = interpreter.loadWeight(op);
        if (value)
          set(op, *value);
        else
          error = llvm::joinErrors(std::move(error), value.takeError());
      })
      .Case([&](lm::DenoiseOp op) {
        error = llvm::joinErrors(std::move(error), runDenoise(op));
      })
      .Case([&](lm::DequantOp op) {
        set(op, dequant(ints(op.getCodes()), tensor(op.getScales()),
                        getGrouped(op.getQuantization()),
                        op.getType().getDimSize(1)));
      })
      .Case([&](lm::RepackOp op) {
        lm::SourceAttr source = op.getSource();
        auto codes =
            llvm::cast<mlir::RankedTensorType>(op.getCodes().getType());
        auto [newCodes, newScales] = repack(
            ints(op.getCodes()), tensor(op.getScales()),
            op.getZeros() ? &ints(op.getZeros()) : nullptr,
            {static_cast<Source::Order>(source.getOrder()), source.getBits(),
             source.getColumns(), source.getGroup(), source.getBlockRows(),
             source.getZeroOffset(), !codes.getElementType().isInteger()},
            op.getNewCodes().getType().getDimSize(0));
        set(op.getNewCodes(), std::move(newCodes));
        set(op.getNewScales(), std::move(newScales));
      })
      .Case([&](lm::SelectRowsOp op) {
        // As an embedding looks rows up.
        set(op, embed(getTokens(op.getSet()), tensor(op.getWeight()), 1));
      })
      .Case([&](lm::SelectTokensOp op) {
        IntTensor result = getTokens(op.getSet()),
                  places = ints(op.getPlaces());
        for (int32_t &place : places.data)
          place = result.data.at(place);
        set(op, std::move(places));
      })
      .Case([&](lm::EmbedOp op) {
        set(op, embed(ints(op.getTokens()), tensor(op.getTable()),
                      op.getScale().convertToFloat()));
      })
      .Case([&](lm::LinearOp op) {
        set(op, linear(tensor(op.getInput()), tensor(op.getWeight())));
      })
      .Case([&](lm::QuantLinearOp op) {
        set(op, quantLinear(tensor(op.getInput()), ints(op.getCodes()),
                            tensor(op.getScales()),
                            getGrouped(op.getQuantization())));
      })
      .Case([&](lm::RmsNormOp op) {
        set(op, rmsNorm(tensor(op.getInput()), tensor(op.getWeight()),
                        op.getEps().convertToFloat(),
                        op.getOffset().convertToFloat()));
      })
      .Case([&](lm::GatedRmsNormOp op) {
        set(op,
            gatedRmsNorm(tensor(op.getInput()), tensor(op.getGate()),
                         tensor(op.getWeight()), op.getEps().convertToFloat()));
      })
      .Case([&](lm::L2NormOp op) {
        set(op, l2Norm(tensor(op.getInput()), op.getDim(),
                       op.getEps().convertToFloat()));
      })
      .Case([&](lm::SiluOp op) { set(op, silu(tensor(op.getInput()))); })
      .Case([&](lm::SigmoidOp op) { set(op, sigmoid(tensor(op.getInput()))); })
      .Case([&](lm::AddOp op) {
        set(op, add(tensor(op.getLhs()), tensor(op.getRhs())));
      })
      .Case([&](lm::MulOp op) {
        set(op, mul(tensor(op.getLhs()), tensor(op.getRhs())));
      })
      .Case([&](lm::LiveRowsOp op) {
        int64_t count = scalar(op.getCount());
        if (std::holds_alternative<IntTensor>(get(op.getInput())))
          set(op, liveRows(ints(op.getInput()), count));
        else
          set(op, liveRows(tensor(op.getInput()), count));
      })
      .Case([&](lm::LastRowOp op) {
        set(op, lastRow(tensor(op.getInput()), scalar(op.getCount())));
      })
      .Case([&](lm::DropRowsOp op) {
        set(op, dropRows(tensor(op.getInput()), op.getFirst()));
      })
      .Case([&](lm::SplitOp op) {
        std::vector<int64_t> columns;
        for (mlir::Value part : op.getParts())
          columns.push_back(
              llvm::cast<mlir::RankedTensorType>(part.getType()).getDimSize(1));
        std::vector<Tensor> parts =
            split(tensor(op.getInput()), op.getGroups(), columns);
        for (auto [result, part] : llvm::zip_equal(op.getParts(), parts))
          set(result, part);
      })
      .Case([&](lm::ConcatFeaturesOp op) {
        std::vector<Tensor> inputs;
        for (mlir::Value input : op.getInputs())
          inputs.push_back(tensor(input));
        set(op, concatFeatures(inputs));
      })
      .Case([&](lm::RopeOp op) {
        set(op,
            rope(tensor(op.getInput()), scalar(op.getStart()), op.getHeadDim(),
                 op.getDims(), op.getTheta().convertToDouble()));
      })
      .Case([&](lm::CacheAppendOp op) {
        set(op, cacheAppend(cache<KvCache>(op.getCache()), tensor(op.getKeys()),
                            tensor(op.getValues()), scalar(op.getStart()),
                            optional(op.getCount())));
      })
      .Case([&](lm::AttentionOp op) {
        Tensor output = attention(
            tensor(op.getQuery()), cache<KvCache>(op.getCache()),
            scalar(op.getStart()), optional(op.getCount()), op.getCausal(),
            op.getWindow(), op.getScale().convertToFloat());
        if (op.getGate())
          output = mul(step(op.getGate(), std::move(output)),
                       step(op.getGate(), sigmoid(tensor(op.getGate()))));
        set(op, std::move(output));
      })
      .Case([&](lm::ShortConvOp op) {
        ConvCache state = cache<ConvCache>(op.getCache());
        set(op.getOutput(),
            shortConv(tensor(op.getInput()), tensor(op.getWeight()), state,
                      scalar(op.getAccepted()), optional(op.getCount()),
                      op.getCommit()));
        set(op.getResult(), std::move(state));
      })
      .Case([&](lm::DeltaGateOp op) {
        set(op, deltaGate(tensor(op.getInput()), tensor(op.getALog()),
                          tensor(op.getDtBias())));
      })
      .Case([&](lm::GatedDeltaOp op) {
        DeltaCache state = cache<DeltaCache>(op.getCache());
        Tensor output = gatedDelta(
            tensor(op.getQuery()), tensor(op.getKey()), tensor(op.getValue()),
            tensor(op.getDecay()), tensor(op.getBeta()), state,
            scalar(op.getAccepted()), optional(op.getCount()), op.getCommit(),
            op.getScale().convertToFloat());
        if (op.getGate())
          output = gatedRmsNorm(
              step(op.getGate(), std::move(output)), tensor(op.getGate()),
              tensor(op.getNormWeight()), op.getNormEps()->convertToFloat());
        set(op.getOutput(), std::move(output));
        set(op.getResult(), std::move(state));
      })
      .Case([&](lm::FusedLinearOp op) { runFusedLinear(op); })
      .Case([&](lm::DeltaInputsOp op) { runDeltaInputs(op); })
      .Case([&](lm::AttentionInputsOp op) { runAttentionInputs(op); })
      .Case([&](lm::HeadArgmaxOp op) {
        Tensor weight = tensor(op.getWeight());
        if (std::optional<lm::GroupedAttr> rounding = op.getRounding())
          weight = roundGroups(weight, rounding->getGroup());
        set(op,
            argmax(step(op.getInput(), linear(tensor(op.getInput()), weight))));
      })
      .Case([&](lm::LastPositionOp op) {
        set(op,
            IntTensor::of({scalar(op.getStart()) +
                           std::max<int32_t>(scalar(op.getCount()) - 1, 0)}));
      })
      .Case([&](lm::ArgmaxOp op) { set(op, argmax(tensor(op.getLogits()))); })
      .Case([&](lm::MaskBlockOp op) {
        set(op, maskBlock(scalar(op.getAnchor()),
                          static_cast<int32_t>(op.getMaskToken()),
                          op.getType().getDimSize(0)));
      })
      .Case([&](lm::UnmaskOp op) {
        set(op.getResult(),
            unmask(ints(op.getBlock()), tensor(op.getLogits()),
                   static_cast<int32_t>(op.getMaskToken()), op.getFill()));
      })
      .Case([&](lm::ConcatTokensOp op) {
        set(op, concatTokens(ints(op.getLhs()), ints(op.getRhs())));
      })
      .Case([&](lm::AcceptOp op) {
        Accepted result =
            accept(ints(op.getBlock()), ints(op.getDecided()),
                   scalar(op.getStart()), optional(op.getCount()));
        set(op.getAccepted(), IntTensor::of({result.accepted}));
        set(op.getAnchor(), IntTensor::of({result.anchor}));
        set(op.getNextStart(), IntTensor::of({result.nextStart}));
        set(op.getContextStart(), IntTensor::of({result.contextStart}));
      })
      .Default([&](mlir::Operation *) { known = false; });
  if (!known)
    return llvm::joinErrors(std::move(error),
                            makeError("cannot run ", operation.getName()));
  return error;
}

Expected<std::vector<Value>>
Interpreter::Frame::runBlock(mlir::Block &block, std::vector<Value> arguments) {
  for (auto [argument, value] :
       llvm::zip_equal(block.getArguments(), arguments))
    values.insert_or_assign(argument, std::move(value));
  for (mlir::Operation &op : block.without_terminator())
    if (Error error = runOp(op))
      return error;
  std::vector<Value> results;
  for (mlir::Value operand : block.getTerminator()->getOperands())
    results.push_back(get(operand));
  return results;
}

//===----------------------------------------------------------------------===//
// Functions and programs
//===----------------------------------------------------------------------===//

Expected<Interpreter> Interpreter::create(mlir::ModuleOp module,
                                          StringRef root) {
  Interpreter result(module);
  auto directories = module->getAttrOfType<mlir::DictionaryAttr>(
      lm::LmDialect::kCheckpointsAttrName);
  if (!directories)
    return result;
  for (mlir::NamedAttribute entry : directories) {
    llvm::SmallString<128> path(root);
    StringRef directory = llvm::cast<mlir::StringAttr>(entry.getValue());
    if (llvm::sys::path::is_absolute(directory))
      path = directory;
    else
      llvm::sys::path::append(path, directory);
    Expected<models::Checkpoint> checkpoint = models::Checkpoint::open(path);
    if (!checkpoint)
      return checkpoint.takeError();
    result.checkpoints.try_emplace(entry.getName(), std::move(*checkpoint));
  }
  return result;
}

Expected<std::vector<Value>> Interpreter::call(StringRef name,
                                               std::vector<Value> arguments) {
  auto function = module.lookupSymbol<mlir::func::FuncOp>(name);
  if (!function || function.isExternal())
    return makeError("no function '", name, "'");
  if (arguments.size() != function.getNumArguments())
    return makeError("'", name, "' takes ", function.getNumArguments(),
                     " arguments, not ", arguments.size());
  return Frame(*this).runBlock(function.getBody().front(),
                               std::move(arguments));
}

/// The port or the state that \p attributes name.
static StringRef getMemoryName(mlir::DictionaryAttr attributes) {
  for (StringRef kind :
       {lm::LmDialect::kPortAttrName, lm::LmDialect::kStateAttrName})
    if (auto name =
            attributes ? attributes.getAs<mlir::StringAttr>(kind) : nullptr)
      return name;
  return "";
}

Error Interpreter::run(StringRef name, Memory &memory) {
  auto function = module.lookupSymbol<mlir::func::FuncOp>(name);
  if (!function)
    return makeError("no program '", name, "'");
  std::vector<Value> arguments;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    StringRef port = getMemoryName(function.getArgAttrDict(i));
    arguments.push_back(
        memory.try_emplace(port, makeZero(function.getArgumentTypes()[i]))
            .first->second);
  }
  Expected<std::vector<Value>> results = call(name, std::move(arguments));
  if (!results)
    return results.takeError();
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    memory.insert_or_assign(getMemoryName(function.getResultAttrDict(i)),
                            std::move((*results)[i]));
  return Error::success();
}
