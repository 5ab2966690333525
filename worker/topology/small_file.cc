#include "worker/topology/small_file.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "base/file.h"

namespace lockstep::topology {
namespace {

constexpr size_t kMaxBytes = 16 << 20;

}  // namespace

std::optional<std::string> ReadSmallFile(const std::string& path) {
  // The kernel's files are no pipes, so they need not be looked at before they are opened.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return std::nullopt;
  Result<std::string> text = ReadToEnd(fd.get(), path, kMaxBytes);
  if (!text.ok()) return std::nullopt;
  text->erase(text->find_last_not_of(" \t\r\n") + 1);
  return std::move(*text);
}

std::optional<std::string> StatusField(const std::string& text, const std::string& name) {
  const std::string start = name + ":";
  for (size_t line = 0; line < text.size();) {
    const size_t end = std::min(text.find('\n', line), text.size());
    if (text.compare(line, start.size(), start) == 0) {
      const size_t value = std::min(text.find_first_not_of(" \t", line + start.size()), end);
      return text.substr(value, end - value);
    }
    line = end + 1;
  }
  return std::nullopt;
}

}  // namespace lockstep::topology
