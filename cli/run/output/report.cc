#include "cli/run/output/report.h"

#include "core/gang/status/fields.h"
#include "core/record/writer.h"
#include "core/status/status_fields.h"
#include "core/text/text.h"

namespace lockstep::core {

template <>
inline constexpr auto kFields<cli::Recovery> =
    std::tuple(Field{"seconds", &cli::Recovery::respawn, Always{}, InSeconds{}},
               Field{"detect", &cli::Recovery::detect, Always{}, InSeconds{}},
               Field{"stop", &cli::Recovery::stop, Always{}, InSeconds{}},
               Field{"wait", &cli::Recovery::wait, Always{}, InSeconds{}},
               Field{"spawn", &cli::Recovery::spawn, Always{}, InSeconds{}},
               Field{"firstStep", &cli::Recovery::first_step, Always{}, InSeconds{}},
               Field{"redone", &cli::Recovery::redone, Always{}, InSeconds{}},
               Field{"redoneSteps", &cli::Recovery::redone_steps, Always{}});

template <>
inline constexpr auto kFields<cli::GenerationReport> =
    std::tuple(Field{"", &cli::GenerationReport::generation, Inline{}},
               Field{"respawn", &cli::GenerationReport::respawn, Always{}});

template <>
inline constexpr auto kFields<cli::AgentReport> = std::tuple(
    Field{"machine", &cli::AgentReport::machine, Always{}},
    Field{"attempt", &cli::AgentReport::attempt, Always{}},
    Field{"ended", &cli::AgentReport::ended, Always{}},
    Field{"exitCode", &cli::AgentReport::exit_code}, Field{"signal", &cli::AgentReport::signal});

template <>
inline constexpr auto kFields<cli::Report> = std::tuple(
    Field{"job", &cli::Report::job, Always{}}, Field{"jobUID", &cli::Report::job_uid, Always{}},
    Field{"exitCode", &cli::Report::exit_code, Always{}},
    Field{"seconds", &cli::Report::took, Always{}, InSeconds{}},
    Field{"", &cli::Report::status, Inline{}},
    Field{"generations", &cli::Report::generations, Always{}},
    Field{"agents", &cli::Report::agents, Always{}});

}  // namespace lockstep::core

namespace lockstep::cli {

GenerationReport ReportOf(const History& history, size_t index, Time started,
                          std::optional<Time> until) {
  const GenerationEntry& entry = history.generations()[index];
  GenerationReport report{entry.Shifted(-started), std::nullopt};
  if (entry.failure.cause != core::Cause::kNone) report.respawn = history.RecoveryOf(index, until);
  return report;
}

std::string ToJson(const GenerationReport& report) {
  return core::WriteJson(core::WriteRecord(report));
}

std::vector<GenerationReport> ReportOf(const History& history, Time started) {
  std::vector<GenerationReport> generations;
  for (size_t i = 0; i < history.generations().size(); ++i) {
    generations.push_back(ReportOf(history, i, started, std::nullopt));
  }
  return generations;
}

std::string ToJson(Report report) {
  core::Trim(report.status);
  std::string json = core::WriteJson(core::WriteRecord(report));
  if (!report.view.empty()) {
    json.pop_back();
    json.append(",\"view\":").append(report.view).append("}");
  }
  return json + "\n";
}

}  // namespace lockstep::cli
