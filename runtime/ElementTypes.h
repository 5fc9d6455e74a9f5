//===- ElementTypes.h - Sizes and names of element types --------*- C++ -*-===//

#ifndef TANDEM_RUNTIME_ELEMENTTYPES_H
#define TANDEM_RUNTIME_ELEMENTTYPES_H

#include "runtime/Artifact_generated.h"

#include <string_view>

namespace tandem {

/// Bytes of one element; 0 for a value that is no element type.
inline uint32_t elementSize(artifact::ElementType type) {
  switch (type) {
  case artifact::ElementType::f32:
  case artifact::ElementType::i32:
    return 4;
  case artifact::ElementType::bf16:
  case artifact::ElementType::f16:
    return 2;
  case artifact::ElementType::i8:
    return 1;
  }
  return 0;
}

/// The name that the safetensors format has for it.
inline std::string_view safetensorsName(artifact::ElementType type) {
  switch (type) {
  case artifact::ElementType::f32:
    return "F32";
  case artifact::ElementType::bf16:
    return "BF16";
  case artifact::ElementType::f16:
    return "F16";
  case artifact::ElementType::i32:
    return "I32";
  case artifact::ElementType::i8:
    return "I8";
  }
  return "";
}

} // namespace tandem

#endif // TANDEM_RUNTIME_ELEMENTTYPES_H
