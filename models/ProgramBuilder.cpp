//===- ProgramBuilder.cpp - A function with ports and caches --------------===//

#include "models/ProgramBuilder.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace mlir;
using namespace tandem;
using namespace tandem::models;

/// The attributes of an argument or result: \p kind = \p name.
static DictionaryAttr makeAttributes(OpBuilder &builder, StringRef kind,
                                     StringRef name) {
  return builder.getDictionaryAttr(
      builder.getNamedAttr(kind, builder.getStringAttr(name)));
}

ProgramBuilder::ProgramBuilder(ModuleOp module, StringRef name,
                               ArrayRef<Port> inputs, ArrayRef<State> states,
                               Type elementType)
    : builder(OpBuilder::atBlockEnd(module.getBody())),
      layerBuilder(builder, elementType), inputs(inputs), states(states) {
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  for (const Port &port : inputs) {
    types.push_back(port.type);
    attributes.push_back(
        makeAttributes(builder, lm::LmDialect::kPortAttrName, port.name));
  }
  for (const State &state : states) {
    types.push_back(state.type);
    attributes.push_back(
        makeAttributes(builder, lm::LmDialect::kStateAttrName, state.name));
  }
  function = func::FuncOp::create(builder, getNameLoc(builder, name), name,
                                  builder.getFunctionType(types, {}));
  function.setAllArgAttrs(attributes);
  Block *body = function.addEntryBlock();
  builder.setInsertionPointToStart(body);
  llvm::append_range(caches, body->getArguments().drop_front(inputs.size()));
}

Value ProgramBuilder::getInput(StringRef name) {
  auto found = llvm::find_if(
      inputs, [&](const Port &port) { return port.name == name; });
  assert(found != inputs.end() && "the program has no such port");
  return function.getArgument(found - inputs.begin());
}

void ProgramBuilder::finish(ArrayRef<std::pair<StringRef, Value>> outputs) {
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> attributes;
  for (const auto &[port, value] : outputs) {
    results.push_back(value);
    attributes.push_back(
        makeAttributes(builder, lm::LmDialect::kPortAttrName, port));
  }
  for (const auto &[state, value] : llvm::zip_equal(states, caches)) {
    results.push_back(value);
    attributes.push_back(
        makeAttributes(builder, lm::LmDialect::kStateAttrName, state.name));
  }
  func::ReturnOp::create(builder, function.getLoc(), results);
  function.setFunctionType(
      builder.getFunctionType(function.getArgumentTypes(),
                              llvm::to_vector(ValueRange(results).getTypes())));
  function.setAllResultAttrs(attributes);
}
