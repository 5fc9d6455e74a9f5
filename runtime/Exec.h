//===- Exec.h - Files as arguments and results of a program ------*- C++
//-*-===//

#ifndef TANDEM_RUNTIME_EXEC_H
#define TANDEM_RUNTIME_EXEC_H

#include "runtime/Artifact.h"
#include "runtime/Device.h"
#include "runtime/SafetensorsIo.h"

#include <string>

namespace tandem {

/// Copies the tensors of \p inputs to the input ports of program \p program of
/// \p artifact, by name. Errors: an input is missing, is not of the port's type
/// and shape, or is no input of the program.
Status writeInputs(const Artifact &artifact, Device &device, uint32_t program,
                   const SafetensorsReader &inputs);

/// Writes the output ports of program \p program to the file \p path, by name.
Status writeOutputs(const Artifact &artifact, Device &device, uint32_t program,
                    const std::string &path);

} // namespace tandem

#endif // TANDEM_RUNTIME_EXEC_H
