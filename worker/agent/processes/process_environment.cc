#include "worker/agent/processes/process_environment.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "base/file.h"
#include "base/unique_fd.h"
#include "worker/topology/small_file.h"

namespace lockstep::agent {
namespace {

constexpr size_t kMaxEnvironment = size_t{4} << 20;  // bytes

}  // namespace

ProcessEnvironment::ProcessEnvironment(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/environ";
  const auto status = topology::ReadSmallFile("/proc/" + std::to_string(pid) + "/status");
  const auto state = status ? topology::StatusField(*status, "State") : std::nullopt;
  if (!state || state->starts_with('D')) return;
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    hidden_ = errno != EACCES && errno != EPERM;
    return;
  }
  const Result<std::string> text = ReadToEnd(fd.get(), path, kMaxEnvironment);
  hidden_ = !text.ok();
  if (!text.ok()) return;
  for (std::string_view rest = *text; !rest.empty();) {
    const std::string_view entry = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    variables_.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
}

std::string ProcessEnvironment::FirstOf(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names) {
    const auto found = variables_.find(name);
    if (found != variables_.end() && !found->second.empty()) return found->second;
  }
  return "";
}

}  // namespace lockstep::agent
