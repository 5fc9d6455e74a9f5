//===- ExecCommand.cpp - qrun exec ----------------------------------------===//

#include "tools/qrun/Commands.h"

#include "runtime/Exec.h"

namespace tandem::qrun {

Status exec(const ExecFlags &flags) {
  auto inputs = SafetensorsReader::open(flags.input);
  if (!inputs.isOk())
    return inFile(flags.input, inputs.status());
  TANDEM_ASSIGN_OR_RETURN(Session session, load(flags));
  if (session.artifact.root().programs()->size() == 0)
    return invalidArgument(flags.artifact, ": has no programs");
  uint32_t program = 0;
  if (!flags.program.empty()) {
    auto found = session.artifact.findProgram(flags.program);
    if (!found)
      return invalidArgument(flags.artifact, ": has no program '",
                             flags.program, "'");
    program = *found;
  }
  Device &device = session.device();
  QRUN_RETURN_IF_ERROR(flags.input,
                       writeInputs(session.artifact, device, program, *inputs));
  QRUN_RETURN_IF_ERROR(flags.artifact, device.reset());
  QRUN_RETURN_IF_ERROR(flags.artifact, device.run(program));
  return inFile(flags.output,
                writeOutputs(session.artifact, device, program, flags.output));
}

} // namespace tandem::qrun
