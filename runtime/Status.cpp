//===- Status.cpp - How the runtime reports failure -----------------------===//

#include "runtime/Status.h"

#include <system_error>

namespace tandem {

Status systemError(std::string_view what, int error) {
  return failure(StatusCode::System, what, ": ",
                 std::generic_category().message(error));
}

} // namespace tandem
