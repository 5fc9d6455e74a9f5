//===- ConvertDecodingOps.cpp - LmDecodingOps.td to launches ------------===//

#include "passes/FunctionConverter.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace tandem;
using plan::KernelFamily;

ConversionResult tandem::convertDecodingOp(FunctionConverter &c,
                                           Operation *op) {
  return llvm::TypeSwitch<Operation *, ConversionResult>(op)
      .Case([&](lm::ArgmaxOp argmax) {
        Launch launch{KernelFamily::argmax,
                      {c.number("columns", columnsOf(argmax.getLogits()))}};
        launch.inputs = {c.memory(argmax.getLogits())};
        launch.outputs = {c.createMemory(argmax.getResult())};
        launch.rows = rowsOf(argmax.getLogits());
        launch.count = c.count(argmax.getLogits());
        launch.perRow = true;
        c.emit(op, std::move(launch));
        return success();
      })
      .Case([&](lm::MaskBlockOp mask) {
        Launch launch{KernelFamily::mask_block,
                      {c.number("size", rowsOf(mask.getResult())),
                       c.number("mask_token", mask.getMaskToken())}};
        launch.inputs = {c.memory(mask.getAnchor())};
        launch.outputs = {c.createMemory(mask.getResult())};
        c.emit(op, std::move(launch));
        return success();
      })
      .Case([&](lm::UnmaskOp unmask) {
        Launch launch{KernelFamily::unmask,
                      {c.number("size", rowsOf(unmask.getBlock())),
                       c.number("columns", columnsOf(unmask.getLogits())),
                       c.number("mask_token", unmask.getMaskToken()),
                       c.number("fill", unmask.getFill())}};
        launch.inputs = {c.memory(unmask.getBlock()),
                         c.memory(unmask.getLogits())};
        launch.outputs = {c.createMemory(unmask.getResult())};
        c.emit(op, std::move(launch));
        return success();
      })
      .Case([&](lm::ConcatTokensOp concat) {
        Launch launch{KernelFamily::concat_tokens,
                      {c.number("left", rowsOf(concat.getLhs())),
                       c.number("right", rowsOf(concat.getRhs()))}};
        launch.inputs = {c.memory(concat.getLhs()), c.memory(concat.getRhs())};
        launch.outputs = {c.createMemory(concat.getResult())};
        c.emit(op, std::move(launch));
        return success();
      })
      .Case([&](lm::AcceptOp accept) {
        Launch launch{KernelFamily::accept, {}};
        launch.inputs = {c.memory(accept.getBlock()),
                         c.memory(accept.getDecided()),
                         c.memory(accept.getStart())};
        for (Value result : accept.getResults())
          launch.outputs.push_back(c.createMemory(result));
        launch.rows = rowsOf(accept.getBlock());
        launch.count =
            accept.getCount() ? c.memory(accept.getCount()) : Value();
        c.emit(op, std::move(launch));
        return success();
      })
      .Default([](Operation *) { return std::nullopt; });
}
