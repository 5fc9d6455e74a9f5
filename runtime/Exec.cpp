//===- Exec.cpp - Files as arguments and results of a program ------------===//

#include "runtime/Exec.h"

#include "runtime/ElementTypes.h"

namespace tandem {

/// Port \p index as a tensor of a file.
static TensorInfo tensorOfPort(const Artifact &artifact, uint32_t index) {
  const artifact::Port &port = *artifact.root().ports()->Get(index);
  TensorInfo tensor;
  tensor.name = port.name()->str();
  tensor.dtype = safetensorsName(port.element());
  tensor.shape.assign(port.shape()->begin(), port.shape()->end());
  return tensor;
}

Status writeInputs(const Artifact &artifact, Device &device,
                   uint32_t programIndex, const SafetensorsReader &inputs) {
  const artifact::Program &program =
      *artifact.root().programs()->Get(programIndex);
  size_t used = 0;
  uint32_t count = program.inputs() ? program.inputs()->size() : 0;
  for (uint32_t index = 0; index < count; ++index) {
    uint32_t port = program.inputs()->Get(index);
    TensorInfo expected = tensorOfPort(artifact, port);
    const SafetensorsReader::Tensor *given = inputs.find(expected.name);
    if (!given)
      return invalidArgument("there is no tensor '", expected.name,
                             "': the program needs ", describe(expected));
    if (given->dtype != expected.dtype || given->shape != expected.shape)
      return invalidArgument("tensor '", expected.name, "' is ",
                             describe(*given), ", the program needs ",
                             describe(expected));
    TANDEM_RETURN_IF_ERROR(device.write(port, given->data));
    ++used;
  }
  if (used == inputs.tensors().size())
    return Status();
  for (const SafetensorsReader::Tensor &tensor : inputs.tensors()) {
    bool known = false;
    for (uint32_t index = 0; index < count; ++index)
      known |= artifact.root()
                   .ports()
                   ->Get(program.inputs()->Get(index))
                   ->name()
                   ->string_view() == tensor.name;
    if (!known)
      return invalidArgument("tensor '", tensor.name,
                             "' is no input of the program '",
                             program.name()->string_view(), "'");
  }
  return Status();
}

Status writeOutputs(const Artifact &artifact, Device &device,
                    uint32_t programIndex, const std::string &path) {
  const artifact::Program &program =
      *artifact.root().programs()->Get(programIndex);
  std::vector<TensorInfo> outputs;
  uint32_t count = program.outputs() ? program.outputs()->size() : 0;
  for (uint32_t index = 0; index < count; ++index)
    outputs.push_back(tensorOfPort(artifact, program.outputs()->Get(index)));
  TANDEM_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                          SafetensorsWriter::create(path, outputs));
  std::vector<std::byte> data;
  for (uint32_t index = 0; index < count; ++index) {
    uint32_t port = program.outputs()->Get(index);
    data.resize(artifact.portBytes(port));
    TANDEM_RETURN_IF_ERROR(device.read(port, data));
    TANDEM_RETURN_IF_ERROR(writer.append(data));
  }
  return writer.finish();
}

} // namespace tandem
