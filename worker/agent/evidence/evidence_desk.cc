#include "worker/agent/evidence/evidence_desk.h"

#include <filesystem>
#include <utility>

#include "base/file.h"
#include "base/text/json.h"
#include "worker/agent/evidence/armed_stacks.h"
#include "worker/agent/evidence/ask.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxWaiting = 4;
constexpr Duration kAnswerPatience = seconds(5);

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

EvidenceDesk::EvidenceDesk(EventLoop* loop, const core::AgentConfig* config, LogFn log,
                           Duration sweep)
    : loop_(loop), config_(config), log_(std::move(log)), sweep_(sweep), sweep_timer_(loop, [this] {
        Sweep();
      }) {
  std::error_code ignored;
  fs::create_directories(StacksFolder(*config_), ignored);
  sweep_timer_.WakeAt(BootTime() + sweep_);
}

void EvidenceDesk::Sweep() {
  sweep_timer_.WakeAt(BootTime() + sweep_);
  FileWorker* worker = Enter(questions_);
  if (worker == nullptr) return;
  worker->Run(
      [folder = StacksFolder(*config_)] {
        RemoveLeftoverStacks(folder);
        return true;
      },
      [this](bool) { --questions_.waiting; });
}

FileWorker* EvidenceDesk::Enter(Queue& queue) {
  if (queue.waiting >= kMaxWaiting) return nullptr;
  if (!queue.worker) {
    Result<std::unique_ptr<FileWorker>> worker = FileWorker::Create(loop_);
    if (!worker.ok()) return nullptr;
    queue.worker = std::move(*worker);
  }
  ++queue.waiting;
  return queue.worker.get();
}

void EvidenceDesk::Collect(core::Generation generation, std::vector<RankProcess> ranks, Time until,
                           OnPlaces done) {
  FileWorker* worker = Enter(hangs_);
  if (worker == nullptr) return loop_->Post([done = std::move(done)] { done({}); });
  worker->Run([ranks = std::move(ranks), folder = StacksFolder(*config_),
               until] { return LookAtRanks(ranks, folder, until); },
              [this, generation, done = std::move(done)](std::vector<RankEvidence> found) {
                --hangs_.waiting;
                done(PlacesOf(found));
                Keep(generation, std::move(found));
              });
}

void EvidenceDesk::Keep(core::Generation generation, std::vector<RankEvidence> found) {
  FileWorker* worker = Enter(hangs_);
  if (worker == nullptr) return;
  const std::string root = config_->log_path.empty() ? config_->run_dir : config_->log_path;
  const std::string folder = root + "/" + generation.ToString() + "/evidence";
  worker->Run([folder, found = std::move(found)] { return WriteRanks(folder, found); },
              [this, folder](const Status& wrote) {
                --hangs_.waiting;
                log_(wrote.ok()
                         ? "where the ranks hung stands in " + folder
                         : "where the ranks hung could not be kept: " + wrote.error().message);
              });
}

void EvidenceDesk::Answer(core::Generation generation, std::vector<RankProcess> ranks,
                          OnAnswer done) {
  FileWorker* worker = Enter(questions_);
  if (worker == nullptr) {
    return done(Error::Unavailable("evidence is being collected already: ask again in a moment"));
  }
  worker->Run(
      [ranks = std::move(ranks), config = config_, generation]() -> Result<std::string> {
        const auto found = LookAtRanks(ranks, StacksFolder(*config), BootTime() + kAnswerPatience);
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
