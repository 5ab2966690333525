#include "worker/trainer/collectives/nccl/nccl_log.h"

#include <sys/mman.h>

#include <cstdlib>

#include "base/file.h"
#include "base/text/ascii.h"

namespace lockstep::collectives {
namespace {

constexpr std::string_view kDescriptors = "/proc/self/fd/";
constexpr size_t kMaxLog = size_t{16} << 20;
constexpr size_t kMaxConfiguration = size_t{64} << 10;

std::string ValueOf(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// NCCL reads one of these files too, and a variable wins over it.
bool ConfigurationHasLog() {
  for (const std::string& file : {ValueOf("NCCL_CONF_FILE"), ValueOf("HOME") + "/.nccl.conf",
                                  std::string("/etc/nccl.conf")}) {
    const Result<std::string> text = ReadFile(file, kMaxConfiguration);
    if (text.ok() && text->find("NCCL_DEBUG") != std::string::npos) return true;
  }
  return false;
}

// The rest of the line that begins at `from`.
std::string_view LineFrom(std::string_view text, size_t from) {
  return Trim(text.substr(from, text.find('\n', from) - from));
}

}  // namespace

void KeepNcclLog() {
  if (!ValueOf("NCCL_DEBUG").empty() || !ValueOf("NCCL_DEBUG_FILE").empty()) return;
  if (ConfigurationHasLog()) return;
  // Open for the life of the process, as NCCL's threads are.
  const int file = memfd_create("nccl-log", MFD_CLOEXEC);
  if (file < 0) return;
  setenv("NCCL_DEBUG", "INFO", 1);
  setenv("NCCL_DEBUG_SUBSYS", "INIT,NET", 1);
  setenv("NCCL_DEBUG_FILE", (std::string(kDescriptors) + std::to_string(file)).c_str(), 1);
}

std::string NcclLogText() {
  const std::string file = ValueOf("NCCL_DEBUG_FILE");
  if (!file.starts_with(kDescriptors)) return "";
  const Result<std::string> text = ReadFile(file, kMaxLog);
  return text.ok() ? *text : "";
}

MachineNetwork NetworkInLog(std::string_view log) {
  constexpr std::string_view kChosen = "Using network ";
  constexpr std::string_view kConnected = " via NET/";
  MachineNetwork network;
  const size_t chosen = log.rfind(kChosen);
  if (chosen == std::string_view::npos) return network;
  network.name = LineFrom(log, chosen + kChosen.size());
  for (size_t at = log.find(kConnected, chosen); at != std::string_view::npos;
       at = log.find(kConnected, at + 1)) {
    const bool direct = LineFrom(log, at).find("/GDRDMA") != std::string_view::npos;
    network.direct = network.direct.value_or(false) || direct;
  }
  const size_t refused = log.rfind("NET/IB : ", chosen);
  if (network.by_tcp() && refused != std::string_view::npos) {
    network.why_tcp = LineFrom(log, refused);
  }
  return network;
}

}  // namespace lockstep::collectives
