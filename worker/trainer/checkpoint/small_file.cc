#include "worker/trainer/checkpoint/small_file.h"

#include <span>

#include "worker/trainer/data/input_file.h"

namespace lockstep::trainer {

Result<std::string> ReadSmallFile(const std::string& path) {
  Result<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return file.error();
  if (file->size() > (1 << 20)) {
    return Error::TooLarge(path + " has " + std::to_string(file->size()) +
                           " bytes; it is not what its name says");
  }
  std::string text(file->size(), '\0');
  Status read = file->ReadAt(0, std::as_writable_bytes(std::span(text)));
  if (!read.ok()) return read.error();
  return text;
}

}  // namespace lockstep::trainer
