// Lines of the progress socket: any bytes give a message with finite numbers, or an error.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <variant>

#include "worker/agent/rank_socket/progress_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using lockstep::agent::CommitQuestion;
  using lockstep::agent::ProgressReport;
  auto message = lockstep::agent::ParseProgressMessage(
      std::string_view(reinterpret_cast<const char*>(data), size));
  if (!message.ok()) return 0;
  if (const auto* report = std::get_if<ProgressReport>(&*message)) {
    bool sound = report->step >= 0 && report->total_steps >= 0 && report->tokens >= 0 &&
                 report->metrics.size() <= lockstep::agent::kMaxMetrics &&
                 !std::isinf(report->loss);
    if (!sound) std::abort();
  } else if (const auto* commit = std::get_if<CommitQuestion>(&*message)) {
    if (commit->name.find('/') != std::string_view::npos) std::abort();
  }
  return 0;
}
