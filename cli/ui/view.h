// View: all that the page of one gang shows, as JSON, in parts of which only those that changed are
// sent (docs/internals/page.md has every field). Pure: time comes in, text goes out. One thread.
//
//   View view(job, &history, began);
//   view.Update(gang, now, born);       // an answer of machine 0
//   view.AddEvent(now, text);          // a line of the run
//   if (view.version() > asked) Answer(view.Json(asked, now));
//   view.End(now, exit_code, topology);  // the same with logs and pictures, for the report
//
// A page of a cluster may not be allowed to ask machine 0. It then has machines and progress as the
// job's status has them (LearnMachines, LearnProgress), until an answer comes after all.
//
// A part is written when it is asked for, not when it changes, so a run that nobody looks at pays
// for its records alone.
//
// Bounded: 64 MiB of log lines (LogRing), 2,000 points of curves (Series), kMostEvents events of
// kMostOfEvent bytes, kMostGenerations generations of a few KiB, RankMeter::kMarks marks a rank for
// at most 512 ranks, else a machine; and the text of each part once: up to 1 MiB for 4,096
// machines.
#ifndef LOCKSTEP_CLI_UI_VIEW_H_
#define LOCKSTEP_CLI_UI_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "base/wall_time.h"
#include "cli/run/output/history.h"
#include "cli/ui/log_ring.h"
#include "cli/ui/rank_meter.h"
#include "cli/ui/series.h"
#include "core/gang/diagnosis/progress.h"
#include "core/gang/status/status_api.h"
#include "core/model/spec.h"
#include "core/status/status.h"

namespace lockstep::cli {

// What was asked for, and where it runs.
struct ViewJob {
  core::TrainingJob job;
  std::string where;               // host name, or "8 nodes"
  std::vector<std::string> nodes;  // of each machine, where they are other computers; else empty
  WallTime began{};
};

class View {
 public:
  static constexpr size_t kMostEvents = 2000;
  static constexpr size_t kMostOfEvent = 1024;
  static constexpr size_t kMostGenerations = 2000;
  static constexpr size_t kTailLines = 400;  // a rank, of what is kept after the end
  static constexpr size_t kTailBytes = size_t{4} << 20;

  // `history` must outlive this. `began` is when the run began, on the clock of all times here.
  // Versions ascend from `version`.
  View(const ViewJob& job, const History* history, Time began, LogRingLimits lines = {},
       uint64_t version = 1);

  // ---- what happens ----

  // `born`: when the answering agent was.
  void Update(const core::GangStatus& gang, Time now, Time born);
  // `history` may have changed without an answer.
  void LearnHistory();
  void SetStatus(const core::JobStatus& status);
  void SetJob(const ViewJob& job);
  // Columns of machines as docs/internals/page.md has them, shown while machine 0 is silent.
  void LearnMachines(std::string columns);
  // Of all ranks, as it was at `at`; likewise.
  void LearnProgress(const core::JobProgress& progress, Time at);
  // Machine 0 is there, and has nothing new to say.
  void Hear(Time now);
  // Machine 0 can't be asked any more.
  void LoseGang();
  // Since when nothing has been heard; absent: the source of the view is there.
  void SetSilent(std::optional<Time> since);
  // What the page does not show and why, a sentence each.
  void SetNotes(const std::vector<std::string>& notes);
  // JSON of the part `queue`; "null": it does not wait in one.
  void SetQueue(std::string queue);
  void AddEvent(Time now, std::string_view text);
  void AddLine(Time now, uint32_t rank, StdStream stream, std::string_view text);
  // A line of the machine's agent, without its end.
  void AddAgentLine(Time now, uint32_t machine, std::string_view line);
  // JSON of the parts `bindings` and `topology`; "" leaves a part out. Before the first answer.
  void SetBindings(std::string bindings) { Put(bindings_, std::move(bindings)); }
  // Nothing changes any more.
  void Finish(Time at, int exit_code);
  // The same, with logs and pictures. `topology`: by machine.
  void End(Time now, int exit_code, std::string topology);
  // From now on the view holds the last lines of each rank.
  void KeepLogs();

  // ---- what is known ----

  // Ascends with each change but lines.
  uint64_t version() const { return version_; }
  bool live() const { return !ended_; }
  // What has changed since version `after`; all with 0, or a version that never was.
  std::string Json(uint64_t after, Time now);
  std::string LogJson(std::optional<uint32_t> rank, uint64_t after) const;
  const core::TrainingJob& job() const { return job_; }
  size_t log_bytes() const { return log_.bytes(); }

 private:
  // One member of the view, as it was last written.
  struct Part {
    const char* name = "";
    std::string text;
    uint64_t version = 0;  // that it came with
  };
  struct Generation {
    std::string text;
    uint64_t version = 0;
  };
  struct Event {
    std::string text;  // its JSON
    uint64_t version = 0;
  };

  double At(Time time) const;
  void Put(Part& part, std::string text);
  void WriteParts(Time now);
  void WriteGenerations(Time now);
  void LearnSeries(const core::GangStatus& gang, Time now);
  void AddPoint(const core::GangProgress& progress, Time now);
  std::string GangJson() const;
  std::string MachinesJson() const;
  std::string RanksJson() const;
  std::string MachineRanksJson() const;

  core::TrainingJob job_;
  const History* history_;
  Time began_;
  uint64_t version_ = 1;
  uint64_t written_ = 0;  // the version of which all parts are written
  std::optional<Time> heard_;
  std::optional<Time> silent_;
  std::optional<Time> ended_;
  int exit_code_ = 0;

  core::GangStatus gang_;
  Time born_{};
  bool gang_known_ = false;
  std::string columns_;  // of machines, as the status has them
  core::JobStatus status_;
  RankMeter meter_;       // by rank, or by machine: of the rank that waits least
  RankMeter most_waits_;  // by machine: of the rank that waits most
  core::RateMeter rate_;
  core::Generation measured_;  // that the meters are about
  Series series_;
  LogRing log_;
  std::vector<Event> events_;
  size_t events_dropped_ = 0;
  std::vector<Generation> generations_;
  size_t generations_dropped_ = 0;

  Part asked_{"job", {}, 0};
  Part status_part_{"status", {}, 0};
  Part gang_part_{"gang", {}, 0};
  Part notes_{"notes", {}, 0};
  Part queue_{"queue", {}, 0};
  Part machines_{"machines", {}, 0};
  Part ranks_{"ranks", {}, 0};
  Part bindings_{"bindings", {}, 0};
  Part logs_{"logs", {}, 0};
  Part topology_{"topology", {}, 0};
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_UI_VIEW_H_
