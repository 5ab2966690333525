#include "worker/topology/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/unique_fd.h"

namespace lockstep::topology {
namespace {

constexpr size_t kMaxBytes = 1 << 20;

}  // namespace

std::optional<std::string> ReadSmallFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return std::nullopt;
  std::string text;
  char buffer[4096];
  ssize_t n = 0;
  while (text.size() < kMaxBytes && (n = read(fd.get(), buffer, sizeof buffer)) > 0) {
    text.append(buffer, static_cast<size_t>(n));
  }
  if (n < 0) return std::nullopt;
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text;
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
