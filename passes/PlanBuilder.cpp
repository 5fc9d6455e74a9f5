//===- PlanBuilder.cpp - The module-level ops of a plan -------------------===//

#include "passes/PlanBuilder.h"
#include "dialects/plan/KernelFamilies.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;
using namespace tandem::plan;

void PlanBuilder::setInsertionPoint(Section section) {
  for (int index = section; index >= 0; --index)
    if (last[index])
      return builder.setInsertionPointAfter(last[index]);
  builder.setInsertionPointToStart(module.getBody());
}

void PlanBuilder::created(Section section, Operation *op) {
  last[section] = op;
  // An empty section ends where the one before it does.
  for (int index = section + 1; index < NumSections; ++index)
    if (!last[index] || last[index]->isBeforeInBlock(op))
      last[index] = op;
}

FailureOr<Value> PlanBuilder::getPort(Location loc, StringAttr name,
                                      RankedTensorType type) {
  auto memory = MemRefType::get(type.getShape(), type.getElementType());
  PortOp &port = ports[name];
  if (!port) {
    setInsertionPoint(Ports);
    port = PortOp::create(builder, loc, memory, name, IntegerAttr());
    created(Ports, port);
  } else if (port.getResult().getType() != memory) {
    emitError(loc) << "expects the port '" << name.getValue() << "' to be "
                   << port.getResult().getType() << " as before, but got "
                   << memory;
    return failure();
  }
  return Value(port.getResult());
}

/// Bytes of a delta cache on a GPU whose keys and values are of `element`.
static int64_t getGpuDeltaBytes(lm::DeltaCacheType cache, Type element) {
  int64_t width = element.getIntOrFloatBitWidth() / 8;
  int64_t values = cache.getHeads() * cache.getValueDim();
  auto pending = [&](int64_t columns, int64_t bytes) {
    return static_cast<int64_t>(
        llvm::alignTo(cache.getPending() * columns * bytes, 4));
  };
  return values * cache.getKeyDim() * 4 +
         pending(cache.getKeyHeads() * cache.getKeyDim(), width) +
         pending(values, width) + 2 * pending(cache.getHeads(), 4);
}

/// Kind and memory of a cache that is given rows of `element`; the layouts are
/// those of KernelFamilies.cpp.
static std::pair<StringRef, MemRefType> getCacheMemory(Type type, Type element,
                                                       bool forGpu) {
  Type f32 = Float32Type::get(type.getContext());
  Type byte = IntegerType::get(type.getContext(), 8);
  return llvm::TypeSwitch<Type, std::pair<StringRef, MemRefType>>(type)
      .Case([&](lm::KvCacheType cache) {
        int64_t slots = llvm::alignTo(cache.getSlots(), kTile);
        return std::pair<StringRef, MemRefType>(
            cache.getRing() ? "window" : "key_value",
            MemRefType::get({2, cache.getHeads(), slots, cache.getDim()},
                            cache.getElementType()));
      })
      .Case([&](lm::ConvCacheType cache) {
        return std::pair<StringRef, MemRefType>(
            "conv", MemRefType::get({cache.getTaps() - 1 + cache.getPending(),
                                     cache.getChannels()},
                                    forGpu ? element : f32));
      })
      .Case([&](lm::DeltaCacheType cache) {
        if (forGpu)
          return std::pair<StringRef, MemRefType>(
              "delta",
              MemRefType::get({getGpuDeltaBytes(cache, element)}, byte));
        int64_t tiles = llvm::divideCeil(cache.getValueDim(), kTile);
        int64_t state = cache.getHeads() * tiles * cache.getKeyDim() * kTile;
        int64_t row = cache.getKeyHeads() * cache.getKeyDim() +
                      cache.getHeads() * cache.getValueDim() +
                      2 * cache.getHeads();
        return std::pair<StringRef, MemRefType>(
            "delta", MemRefType::get({state + cache.getPending() * row}, f32));
      });
}

FailureOr<Value> PlanBuilder::getState(Location loc, StringAttr name, Type type,
                                       Type element) {
  auto &[state, stateType] = states[name];
  auto [kind, memory] = getCacheMemory(type, element, forGpu);
  if (!state) {
    setInsertionPoint(States);
    state = StateOp::create(builder, loc, memory, name,
                            builder.getStringAttr(kind), IntegerAttr());
    stateType = type;
    created(States, state);
  } else if (stateType != type) {
    emitError(loc) << "expects the state '" << name.getValue() << "' to be "
                   << stateType << " as before, but got " << type;
    return failure();
  } else if (state.getResult().getType() != memory) {
    emitError(loc) << "expects the state '" << name.getValue() << "' to be "
                   << state.getResult().getType() << " as before, but got "
                   << memory;
    return failure();
  }
  return Value(state.getResult());
}

Value PlanBuilder::createWeight(Location loc, StringRef name,
                                StringRef checkpoint,
                                ArrayRef<StringRef> sources,
                                PackingAttrInterface packing,
                                lm::SourceAttr repack, lm::TokenSetAttr rows) {
  std::string key;
  llvm::raw_string_ostream(key) << checkpoint << "|" << llvm::join(sources, "|")
                                << "|" << packing << "|" << rows;
  WeightOp &weight = weights[key];
  if (weight)
    return weight.getResult();
  // Names are for people; a tensor that is packed twice gets two.
  std::string unique = name.str();
  for (unsigned copy = 2;
       llvm::any_of(weights,
                    [&](auto &entry) {
                      return entry.second && entry.second.getName() == unique;
                    });
       ++copy)
    unique = (name + "#" + llvm::Twine(copy)).str();
  setInsertionPoint(Weights);
  auto memory =
      MemRefType::get({packing.getSizeInBytes()}, builder.getI8Type());
  weight =
      WeightOp::create(builder, loc, memory, builder.getStringAttr(unique),
                       builder.getStringAttr(checkpoint),
                       builder.getStrArrayAttr(sources), packing, repack, rows);
  created(Weights, weight);
  return weight.getResult();
}

FailureOr<Value> PlanBuilder::getWeight(Location loc,
                                        ArrayRef<lm::WeightOp> sources,
                                        PackingAttrInterface packing,
                                        lm::SourceAttr repack,
                                        lm::TokenSetAttr rows) {
  SmallVector<StringRef> names;
  for (lm::WeightOp source : sources) {
    if (source.getCheckpoint() != lm::WeightOp(sources[0]).getCheckpoint()) {
      emitError(loc) << "expects codes and scales of one checkpoint";
      return failure();
    }
    names.push_back(source.getName());
  }
  StringRef name = names.front(),
            checkpoint = lm::WeightOp(sources[0]).getCheckpoint();
  for (StringRef suffix : {".weight_packed", ".qweight", ".weight"})
    if (name.consume_back(suffix))
      break;
  return createWeight(loc, (checkpoint + ":" + name).str(), checkpoint, names,
                      packing, repack, rows);
}

Value PlanBuilder::getTokenTable(Location loc, lm::TokenSetAttr set) {
  return createWeight(loc, "draft tokens", "", {},
                      TokenTableAttr::get(loc.getContext(), set));
}

Value PlanBuilder::getRopeTable(Location loc, RopeTableAttr packing) {
  std::string name;
  llvm::raw_string_ostream(name) << "rope:" << packing.getDims();
  return createWeight(loc, name, "", {}, packing);
}

/// `quant_linear_768x384_g32_bf16` and the like: the family and its numbers.
static std::string getKernelName(KernelFamily family,
                                 DictionaryAttr parameters) {
  std::string name = stringifyKernelFamily(family).str();
  llvm::raw_string_ostream os(name);
  auto print = [&](StringRef prefix, StringRef parameter) {
    if (auto number = parameters.getAs<IntegerAttr>(parameter))
      os << prefix << number.getInt();
  };
  auto printType = [&](StringRef parameter) {
    if (auto type = parameters.getAs<TypeAttr>(parameter))
      os << "_" << type.getValue();
  };
  if (parameters.contains("outputs")) {
    print("_", "outputs");
    print("x", "columns");
    print("_q", "bits");
    print("_g", "group");
  } else {
    for (NamedAttribute parameter : parameters)
      if (isa<IntegerAttr>(parameter.getValue()))
        print(("_" + parameter.getName().strref().take_front(1)).str(),
              parameter.getName());
    if (auto widths = parameters.getAs<DenseI64ArrayAttr>("widths"))
      for (int64_t width : widths.asArrayRef())
        os << "_" << width;
    printType("activations");
  }
  printType("element");
  printType("scale");
  printType("result");
  return name;
}

FlatSymbolRefAttr PlanBuilder::getKernel(Location loc, KernelFamily family,
                                         DictionaryAttr parameters) {
  KernelOp &kernel =
      kernels[{static_cast<unsigned>(family), Attribute(parameters)}];
  if (!kernel) {
    std::string name = getKernelName(family, parameters);
    // Programs have their names already.
    if (module.lookupSymbol<func::FuncOp>(name) ||
        module.lookupSymbol<ProgramOp>(name))
      name += "_kernel";
    if (unsigned count = kernelNames[name]++)
      name += "_" + std::to_string(count);
    setInsertionPoint(Kernels);
    // A kernel is shared by launches of many places.
    kernel = KernelOp::create(builder, builder.getUnknownLoc(), name, family,
                              parameters);
    created(Kernels, kernel);
  }
  return FlatSymbolRefAttr::get(kernel.getSymNameAttr());
}
