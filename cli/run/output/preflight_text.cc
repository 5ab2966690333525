#include "cli/run/output/preflight_text.h"

#include "core/text/limited_text.h"

namespace lockstep::cli {
namespace {

const char* InWords(core::PreflightState state) {
  switch (state) {
    case core::PreflightState::kWaiting:
      return "waits for machines";
    case core::PreflightState::kMeasuring:
      return "machines are measured";
    case core::PreflightState::kPassed:
      return "passed";
    case core::PreflightState::kSlow:
      return "the job continues with slow machines";
  }
  return "";
}

}  // namespace

std::vector<std::string> PreflightLines(const core::JobStatus& status) {
  if (!status.preflight) return {};
  const core::PreflightStatus& preflight = *status.preflight;
  std::string line = std::string("preflight: ") + InWords(preflight.state);
  if (!preflight.typical.empty()) line += "; medians " + preflight.typical;
  std::vector<std::string> lines = {core::OneLine(line)};
  for (const core::SlowMachine& slow : preflight.slow) {
    lines.push_back(core::OneLine(
        "  machine " + std::to_string(slow.machine) + ", attempt " + std::to_string(slow.attempt) +
        (slow.replaced ? ", was slow and replaced: " : ", is slow: ") + slow.because));
  }
  return lines;
}

}  // namespace lockstep::cli
