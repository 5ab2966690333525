#include "cli/run/output/prestart_text.h"

#include "cli/run/output/history.h"

namespace lockstep::cli {

std::string PrestartLine(const core::JobStatus& status) {
  if (!status.prestart) return "";
  const core::PrestartStatus& prestart = *status.prestart;
  std::string line = "parked interpreters: ";
  if (status.state == core::JobState::kRunning) {
    line += std::to_string(prestart.ready) + " of " + std::to_string(status.processes) + " ready";
    if (!prestart.reason.empty()) line += " (" + prestart.reason + ")";
    line += "; ";
  }
  line += "generations begun: " + std::to_string(prestart.warm) + " warm, " +
          std::to_string(prestart.cold) + " cold";
  if (prestart.saved_milliseconds > 0) {
    line += "; " + Brief(milliseconds(prestart.saved_milliseconds)) + " of imports saved";
  }
  return line;
}

}  // namespace lockstep::cli
