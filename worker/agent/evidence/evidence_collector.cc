#include "worker/agent/evidence/evidence_collector.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/text/json.h"
#include "worker/agent/evidence/armed_stacks.h"
#include "worker/agent/evidence/ask.h"
#include "worker/agent/processes/process_environment.h"
#include "worker/ras/nccl_ras.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxWaiting = 4;
constexpr Duration kAnswerPatience = seconds(5);
constexpr Duration kRasPatience = milliseconds(1500);
// Before the time of a hang's evidence is up: what was found is told, and no file is waited for.
constexpr Duration kToTell = milliseconds(300);
constexpr Duration kToFind = milliseconds(600);

std::string StacksFolder(const core::AgentConfig& config) { return config.run_dir + "/stacks"; }

Status WriteRanks(const std::string& folder, const std::vector<RankEvidence>& found) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return ErrnoError("create " + folder, error.value());
  for (const RankEvidence& rank : found) {
    const Status wrote = WriteFileAtomically(
        folder + "/rank-" + std::to_string(rank.rank) + ".txt",
        "rank " + std::to_string(rank.rank) + " is in " +
            (rank.place.empty() ? "no known place" : rank.place) + "\n" + rank.text,
        {.mode = 0600});
    if (!wrote.ok()) return wrote;
  }
  return {};
}

// "" where no process of the ranks listens for RAS's clients.
std::string AskNcclRas(const std::vector<RankProcess>& ranks, Time until) {
  for (const RankProcess& rank : ranks) {
    for (const pid_t pid : ProcessesOf(rank)) {
      const std::string named = ProcessEnvironment(pid).FirstOf({"NCCL_RAS_ADDR"});
      const auto address = ras::ListenerOf(pid, named);
      if (!address) continue;
      const std::string where = "NCCL's RAS at " + address->ToString();
      const auto answer = ras::Ask(*address, until);
      if (!answer) return where + " does not answer as such\n";
      return where + ":\n" + answer->text +
             (answer->whole ? "" : "\n(the rest was too long or too late)\n");
    }
  }
  return "";
}

std::string AnswerJson(const core::AgentConfig& config, core::Generation generation,
                       const std::vector<RankEvidence>& found) {
  Json ranks = Json::array();
  for (const RankEvidence& rank : found) {
    ranks.push_back({{"rank", rank.rank}, {"place", rank.place}, {"evidence", rank.text}});
  }
  return DumpJson(Json{{"job", config.job.metadata.name},
                       {"machine", config.machine},
                       {"generation", generation.ToString()},
                       {"ranks", std::move(ranks)}}) +
         "\n";
}

}  // namespace

EvidenceCollector::EvidenceCollector(EventLoop* loop, const core::AgentConfig* config, LogFn log,
                                     Duration sweep)
    : loop_(loop),
      config_(config),
      log_(std::move(log)),
      sweep_(sweep),
      hang_timer_(loop, [this] { TellPlaces(); }),
      sweep_timer_(loop, [this] { Sweep(); }) {
  std::error_code ignored;
  fs::create_directories(StacksFolder(*config_), ignored);
  sweep_timer_.WakeAt(BootTime() + sweep_);
}

void EvidenceCollector::Sweep() {
  sweep_timer_.WakeAt(BootTime() + sweep_);
  const Result<FileWorker*> worker = Enter(questions_);
  if (!worker.ok()) return;
  (*worker)->Run(
      [folder = StacksFolder(*config_)] {
        RemoveLeftoverStacks(folder);
        return true;
      },
      [this](bool) { --questions_.waiting; });
}

Result<FileWorker*> EvidenceCollector::Enter(Queue& queue) {
  if (queue.waiting >= kMaxWaiting) {
    return Error::Unavailable("evidence is already being collected: ask again in a moment");
  }
  if (!queue.worker) {
    Result<std::unique_ptr<FileWorker>> worker = FileWorker::Create(loop_);
    if (!worker.ok()) return worker.error();
    queue.worker = std::move(*worker);
  }
  ++queue.waiting;
  return queue.worker.get();
}

void EvidenceCollector::Collect(core::Generation generation, std::vector<RankProcess> ranks,
                                Time until, OnPlaces done) {
  TellPlaces();  // of an earlier one
  const Result<FileWorker*> worker = Enter(hangs_);
  if (!worker.ok()) {
    log_("no stacks of the hanging ranks: " + worker.error().message);
    return loop_->Post([done = std::move(done)] { done({}); });
  }
  hang_ = {generation, {}, std::move(done)};
  hang_timer_.WakeAt(until - kToTell);
  const Ranks shared = std::make_shared<const std::vector<RankProcess>>(std::move(ranks));
  (*worker)->Run(
      [shared, config = config_, until] {
        // First, for torch takes its time to write, and ranks leave when their peers are killed.
        auto flights = std::make_shared<FlightSearch>(*shared, config->run_dir);
        return Looked{LookAtRanks(*shared, StacksFolder(*config), until), std::move(flights)};
      },
      [this, generation, shared, until](Looked looked) {
        --hangs_.waiting;
        if (hang_.generation == generation) hang_.places = PlacesOf(looked.found);
        FindRecorders(generation, shared, until - kToFind, std::move(looked));
      });
}

void EvidenceCollector::FindRecorders(core::Generation generation, Ranks ranks, Time until,
                                      Looked looked) {
  const Result<FileWorker*> worker = Enter(hangs_);
  if (!worker.ok()) return TellPlaces();
  (*worker)->Run(
      [ranks = std::move(ranks), flights = std::move(looked.flights), until] {
        std::string ras = AskNcclRas(*ranks, std::min(until, BootTime() + kRasPatience));
        return Recorders{flights->Find(until), std::move(ras)};
      },
      [this, generation, found = std::move(looked.found)](Recorders recorders) mutable {
        --hangs_.waiting;
        if (hang_.generation == generation) TellPlaces();
        Keep(generation, std::move(found), std::move(recorders));
      });
}

void EvidenceCollector::TellPlaces() {
  hang_timer_.Cancel();
  if (!hang_.done) return;
  const OnPlaces done = std::exchange(hang_.done, nullptr);
  done(std::move(hang_.places));
}

void EvidenceCollector::Keep(core::Generation generation, std::vector<RankEvidence> found,
                             Recorders recorders) {
  const Result<FileWorker*> worker = Enter(hangs_);
  if (!worker.ok()) return;
  const std::string root = config_->log_path.empty() ? config_->run_dir : config_->log_path;
  const std::string folder = root + "/" + generation.ToString() + "/evidence";
  (*worker)->Run(
      [folder, machine = config_->machine, found = std::move(found),
       recorders = std::move(recorders)]() -> Result<std::string> {
        Status wrote = WriteRanks(folder, found);
        if (wrote.ok() && !recorders.ras.empty()) {
          wrote =
              WriteFileAtomically(folder + "/nccl-ras-machine-" + std::to_string(machine) + ".txt",
                                  recorders.ras, {.mode = 0600});
        }
        if (!wrote.ok()) return wrote.error();
        return CopyFlightFiles(recorders.files, folder);
      },
      [this, folder](const Result<std::string>& kept) {
        --hangs_.waiting;
        if (!kept.ok()) {
          return log_("the stacks of the hanging ranks could not be saved: " +
                      kept.error().message);
        }
        log_("the stacks of the hanging ranks are in " + folder +
             (kept->empty() ? "" : ", without " + *kept));
      });
}

void EvidenceCollector::AnswerGang(std::string text, OnAnswer done) {
  const Result<FileWorker*> worker = Enter(gang_);
  if (!worker.ok()) return done(worker.error());
  (*worker)->Run(
      [text = std::move(text), path = GangFile(config_->run_dir)]() -> Result<std::string> {
        const Status wrote = WriteFileAtomically(path, text, {.mode = 0600});
        if (!wrote.ok()) return wrote.error();
        return path;
      },
      [this, done = std::move(done)](Result<std::string> file) {
        --gang_.waiting;
        done(std::move(file));
      });
}

void EvidenceCollector::Answer(core::Generation generation, std::vector<RankProcess> ranks,
                               OnAnswer done) {
  const Result<FileWorker*> worker = Enter(questions_);
  if (!worker.ok()) return done(worker.error());
  (*worker)->Run(
      [ranks = std::move(ranks), config = config_, generation]() -> Result<std::string> {
        const Time until = BootTime() + kAnswerPatience;
        auto found = LookAtRanks(ranks, StacksFolder(*config), until);
        const std::string ras = AskNcclRas(ranks, std::min(until, BootTime() + kRasPatience));
        if (!found.empty()) found.front().text += ras;
        const std::string path = EvidenceFile(config->run_dir);
        const Status wrote =
            WriteFileAtomically(path, AnswerJson(*config, generation, found), {.mode = 0600});
        if (!wrote.ok()) return wrote.error();
        return path;
      },
      [this, done = std::move(done)](Result<std::string> file) {
        --questions_.waiting;
        done(std::move(file));
      });
}

}  // namespace lockstep::agent
