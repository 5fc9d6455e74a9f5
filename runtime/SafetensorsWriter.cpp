//===- SafetensorsWriter.cpp - Tensors to files ---------------------------===//

#include "runtime/SafetensorsIo.h"

#include <nlohmann/json.hpp>

namespace tandem {

using nlohmann::json;

StatusOr<SafetensorsWriter>
SafetensorsWriter::create(const std::string &path,
                          std::span<const TensorInfo> tensors) {
  json header = json::object();
  uint64_t end = 0;
  for (const TensorInfo &tensor : tensors) {
    TANDEM_ASSIGN_OR_RETURN(uint64_t size, tensorBytes(tensor));
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {end, end + size}}};
    end += size;
  }
  std::string text =
      header.dump(-1, ' ', false, json::error_handler_t::replace);
  // Data starts at a multiple of 8.
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t length = text.size();
  TANDEM_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path));
  TANDEM_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(&length, 1))));
  TANDEM_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(text))));
  return SafetensorsWriter(std::move(file), end);
}

Status SafetensorsWriter::append(std::span<const std::byte> data) {
  assert(data.size() <= left && "more data than the header says");
  left -= data.size();
  return file.write(data);
}

Status SafetensorsWriter::finish() {
  assert(left == 0 && "less data than the header says");
  return file.finish();
}

} // namespace tandem
