#include "worker/agent/ranks/local_ranks.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <utility>

#include "core/exit_codes.h"
#include "core/failure/last_words.h"
#include "core/failure/peer_loss.h"
#include "core/failure/signals.h"
#include "core/model/launch.h"
#include "worker/agent/processes/descendants.h"
#include "worker/agent/processes/process_environment.h"
#include "worker/agent/storage/compile_caches.h"

namespace lockstep::agent {

namespace {

// The loop stands still as long, and so does the next generation.
constexpr Duration kClearCachesWithin = milliseconds(200);
constexpr Duration kOrphansLook = milliseconds(2);
// How long a rank that has said why it fails may clean up before a stop signals it.
constexpr Duration kEndsWithin = milliseconds(300);

int ExitCodeOf(const SpawnFailure& failure) {
  return failure.not_found() ? core::kExitCommandNotFound : core::kExitNotExecutable;
}

using core::Generation;

// Signals by which a process ends itself. Others come from outside.
bool IsCrash(int signal) {
  constexpr auto kCrashes = std::to_array({SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP});
  return std::ranges::find(kCrashes, signal) != kCrashes.end();
}

// On disk, where the agent has a folder there.
std::string TemporaryBase(const core::AgentConfig& config) {
  const std::filesystem::path disk = std::filesystem::path(config.cache_dir).parent_path();
  return config.cache_dir.empty() ? config.run_dir + "/tmp" : (disk / "tmp").string();
}

}  // namespace

LocalRanks::LocalRanks(EventLoop* loop, Spawner* spawner, LiveTable* table, LogPump* logs,
                       const core::AgentConfig* config, topology::Machine machine,
                       std::string socket_path, Owner* owner, LogFn log)
    : loop_(loop),
      spawner_(spawner),
      table_(table),
      logs_(logs),
      config_(config),
      owner_(owner),
      log_(std::move(log)),
      environment_(config, std::move(socket_path), &bindings_, &temporary_, &mpi_),
      temporary_(loop, TemporaryBase(*config), log_),
      shared_memory_(HasOwnSharedMemory(*config)),
      bindings_(
          loop, config, std::move(machine), environment_.inherited(), &views_,
          [this](core::Binding binding, const std::string& reason) {
            owner_->OnBound(generation_, binding, reason);
          },
          log_),
      processes_(loop, table, this),
      parked_(loop, spawner, &processes_,
              {.prestart = core::PrestartOf(config->job.spec),
               .exclude = config->job.spec.prestart_exclude,
               .folder = config->run_dir + "/prestart",
               .on_change =
                   [this] {
                     loop_->Post(lifetime_.Guard([this] {
                       if (generation_.exists()) owner_->OnParked(generation_, parked_.told());
                     }));
                   }},
              log_),
      mpi_(loop, spawner, &processes_, *config, this, log_),
      down_timer_(loop, [this] { StartThoseDown(); }) {
  oom_kills_.Count();
  environment_.FindNetwork();
  std::error_code ignored;
  std::filesystem::create_directories(config->run_dir + "/local", ignored);
  std::filesystem::create_directories(config->run_dir + "/errors", ignored);
  MakeCompileCaches(environment_.cache_dir());
  if (config->checkpoint_path.empty()) return;
  kept_ = std::make_unique<KeptCaches>(
      loop, environment_.cache_dir(), config->checkpoint_path,
      [rank = environment_.AnyRequest(), gpus = bindings_.machine().gpus]() -> Result<std::string> {
        if (!rank.ok()) return rank.error();
        return CacheIdentity(*rank, gpus);
      },
      [this] { owner_->OnKept(); }, log_);
}

void LocalRanks::KillRank(uint32_t local_rank) {
  if (local_rank < views_.size() && views_[local_rank].pid != 0) {
    kill(-views_[local_rank].pid, SIGKILL);
  }
}

// ---- starting ----

void LocalRanks::Reset() {
  const auto count = static_cast<size_t>(core::ProcessesStarted(config_->job.spec));
  views_.resize(count);
  for (size_t l = 0; l < count; ++l) {
    const uint32_t rank = RankOf(static_cast<int>(l));
    views_[l].stepped = false;
    if (known_.contains(rank)) continue;
    views_[l] = {};
    views_[l].rank = rank;
  }
}

void LocalRanks::Start(const core::Start& start, Time lease_end,
                       const std::vector<uint32_t>& kept) {
  known_.clear();
  for (const uint32_t rank : kept) {
    known_[rank] = environment_.RequestFor(static_cast<int>(rank - RankOf(0))).env;
  }
  environment_.BeginGeneration(start);
  environment_.RunIn(code_.ok() ? *code_ : "");
  generation_ = start.generation;
  runs_.clear();
  down_.clear();
  done_.clear();
  warm_ = 0;
  parked_.BeginGeneration();
  bindings_.BeginGeneration();
  Reset();
  processes_.TakeInSpared();
  logs_->StartGeneration(generation_.ToString(), {kept.begin(), kept.end()});
  temporary_.Begin(generation_, kept);
  shared_memory_.BeginGeneration();
  // Another machine may have the space or memory that this one lacks.
  if (!code_.ok()) {
    return Fail(RankOf(0), core::kExitBroken, code_.error().message, core::Cause::kProcessExit);
  }
  if (const Status made = environment_.MakeLauncher(); !made.ok()) {
    return Fail(0, core::kExitNotExecutable, made.error().message);
  }
  const Status begun = mpi_.Begin(generation_);
  if (begun.ok()) {
    if (!mpi_.has_helper()) LaunchRanks(lease_end);
    return;
  }
  const bool missing = begun.error().kind == ErrorKind::kNotFound;
  Fail(mpi_.has_helper() ? -1 : RankOf(0),
       missing ? core::kExitCommandNotFound : core::kExitNotExecutable, begun.error().message);
}

void LocalRanks::OnReady(Generation generation) {
  if (generation == generation_) LaunchRanks(table_->lease_end());
}

void LocalRanks::OnFence(Generation generation, std::vector<core::TableEntry> entries) {
  owner_->OnFence(generation, std::move(entries));
}

void LocalRanks::OnLost(Generation generation, core::Failure death) {
  owner_->OnDied(generation, std::move(death));
}

Result<std::string> LocalRanks::Secret(Generation generation) { return owner_->Secret(generation); }

void LocalRanks::LaunchRanks(Time lease_end) {
  const bool none = core::StartsFromMachine0(config_->job.spec) && config_->machine != 0;
  const int started = none ? 0 : static_cast<int>(views_.size());
  for (int l = 0; l < started; ++l) {
    if (BootTime() >= lease_end) return;
    const uint32_t rank = RankOf(l);
    if (const auto known = known_.find(rank); known != known_.end()) {
      owner_->OnTakenIn(rank, environment_.ChangesSince(known->second, l));
      continue;
    }
    int exit_code = 0;
    std::string failure = LaunchRank(l, &exit_code);
    if (!failure.empty()) return Fail(rank, exit_code, failure);
  }
  const size_t anew = views_.size() - known_.size();
  const bool warm = warm_ == anew;
  known_.clear();
  if (anew > 0) {
    parked_.OnStarted(warm);
  } else {
    parked_.OnKept();
  }
  loop_->Post(lifetime_.Guard([this, warm, generation = generation_] {
    if (generation != generation_) return;
    owner_->OnParked(generation, parked_.told());
    owner_->OnSpawned(generation, warm);
    bindings_.Read();
  }));
}

std::string LocalRanks::LaunchRank(int local_rank, int* exit_code) {
  auto index = static_cast<size_t>(local_rank);
  SpawnRequest request = environment_.RequestFor(local_rank);
  if (const auto failure = RankEnvironment::SetPath(&request)) {
    *exit_code = ExitCodeOf(*failure);
    return failure->message;
  }
  if (LaunchParked(index, request)) return "";
  parked_.Record(index, &request);
  return LaunchCold(index, std::move(request), exit_code);
}

std::string LocalRanks::LaunchCold(size_t local_rank, SpawnRequest request, int* exit_code) {
  bindings_.Hook(local_rank, &request);
  SpawnResult result = spawner_->Spawn(request);
  if (const auto* failure = std::get_if<SpawnFailure>(&result)) {
    *exit_code = ExitCodeOf(*failure);
    return failure->message;
  }
  Status added = Adopt(local_rank, std::move(std::get<SpawnedProcess>(result)));
  if (added.ok()) return "";
  *exit_code = core::kExitNotExecutable;
  return added.error().message;
}

Status LocalRanks::Adopt(size_t local_rank, SpawnedProcess process) {
  const int rank = static_cast<int>(RankOf(static_cast<int>(local_rank)));
  views_[local_rank].pid = process.pid;
  logs_->Add(rank, std::move(process.stdout_fd), std::move(process.stderr_fd));
  return processes_.Add(rank, process.pid, std::move(process.pidfd));
}

// The guard knows it before it runs.
bool LocalRanks::LaunchParked(size_t local_rank, SpawnRequest request) {
  bindings_.HookParked(local_rank, &request);
  const topology::BindingErrno bound = bindings_.result_of_parked(local_rank);
  std::optional<ParkedRanks::Interpreter> parked = parked_.Take(local_rank, request);
  if (!parked) return false;
  const pid_t pid = parked->process.pid;
  if (Adopt(local_rank, std::move(parked->process)).ok() && parked->Go()) {
    bindings_.TakeParked(local_rank, bound);
    ++warm_;
    return true;
  }
  log_("prestart: a parked interpreter died when it was released; the rank starts cold");
  processes_.Discard(pid);
  views_[local_rank].pid = 0;
  return false;
}

// ---- ranks that are started again alone ----

void LocalRanks::StartAgain(Generation generation, uint32_t rank, Time lease_end) {
  if (generation != generation_) return;
  down_[rank] = lease_end;
  StartThoseDown();
}

void LocalRanks::StartThoseDown() {
  bool started = false;
  for (auto down = down_.begin(); down != down_.end();) {
    const auto [rank, lease_end] = *down;
    const auto index = static_cast<size_t>(rank - RankOf(0));
    const auto whose = [own = std::to_string(rank)](pid_t pid) {
      const ProcessEnvironment environment(pid);
      // One that ends gives its memory back before its files and ports.
      const bool hidden = environment.hidden() || (environment.empty() && IsEnding(pid));
      if (hidden) return ProcessSet::Whose::kUnknown;
      const bool meant = environment.FirstOf({"RANK"}) == own;
      return meant ? ProcessSet::Whose::kMeant : ProcessSet::Whose::kOthers;
    };
    const bool lives = BootTime() < std::max(lease_end, table_->lease_end());
    if (lives && processes_.KillOrphans(whose)) {
      ++down;  // they are gone in a moment
      continue;
    }
    down = down_.erase(down);
    if (!lives || index >= views_.size() || views_[index].pid != 0) continue;
    int exit_code = 0;
    SpawnRequest request = environment_.RequestFor(static_cast<int>(index));
    std::string failure;
    if (const auto missing = RankEnvironment::SetPath(&request)) {
      exit_code = ExitCodeOf(*missing);
      failure = missing->message;
    } else {
      failure = LaunchCold(index, std::move(request), &exit_code);
    }
    if (!failure.empty()) {
      Fail(rank, exit_code, failure);
      continue;
    }
    started = true;
    views_[index].stepped = false;
    log_("rank " + std::to_string(rank) + " is started again, alone");
  }
  if (!down_.empty()) down_timer_.WakeAt(BootTime() + kOrphansLook);
  if (!started) return;
  // What the kernel killed beside a rank that is dead explains no later death.
  oom_kills_.Count();
  bindings_.Read();
}

// ---- for a launcher on machine 0 ----

void LocalRanks::Run(const core::Run& run) {
  runs_.push_back(run);
  if (runs_.size() == 1) return RunNext();
  log_("the launcher's command waits until its earlier command on this machine has ended");
}

void LocalRanks::RunNext() {
  while (!runs_.empty()) {
    const core::Run& run = runs_.front();
    const std::string problem = LaunchCommand(run);
    if (problem.empty()) return bindings_.Read();
    core::Ran ran{run.generation, run.id, run.machine, core::kExitNeverBegan, problem};
    runs_.pop_front();
    log_("the launcher's command cannot run: " + problem);
    loop_->Post(lifetime_.Guard([this, ran = std::move(ran)] { owner_->OnRan(ran); }));
  }
}

std::string LocalRanks::LaunchCommand(const core::Run& run) {
  SpawnRequest request = environment_.RequestFor(0);
  request.path = "/bin/sh";
  request.argv = {"sh", "-c", run.command};
  bindings_.Hook(0, &request);
  SpawnResult result = spawner_->Spawn(request);
  if (const auto* failure = std::get_if<SpawnFailure>(&result)) return failure->message;
  const Status added = Adopt(0, std::move(std::get<SpawnedProcess>(result)));
  return added.ok() ? "" : added.error().message;
}

void LocalRanks::OnCommandEnded(core::Failure death) {
  if (runs_.empty()) return;
  const core::Run run = std::move(runs_.front());
  runs_.pop_front();
  core::Ran ran{run.generation, run.id, run.machine, 0, {}};
  ran.exit_code = static_cast<uint32_t>(death.signal != 0 ? 128 + death.signal : death.exit_code);
  if (ran.exit_code != 0) ran.problem = death.stderr_tail;
  owner_->OnRan(std::move(ran));
  if (death.exit_code > 0) {
    death.stderr_tail.insert(
        0, std::string(core::kDaemonExited) + std::to_string(death.exit_code) + "\n");
  }
  if (death.exit_code != 0) owner_->OnDied(generation_, std::move(death));
  if (!processes_.stopping()) RunNext();
}

void LocalRanks::OnStep(uint32_t rank) {
  parked_.OnStep();
  bindings_.OnStep(rank - RankOf(0));
}

void LocalRanks::OnDone(const DoneReport& report) {
  if (report.generation != generation_.ToString()) return;
  const auto own = [&](const RankView& view) {
    return view.rank == report.rank && view.pid != 0 && view.pid == report.pid;
  };
  if (std::ranges::any_of(views_, own)) done_.insert(static_cast<pid_t>(report.pid));
}

// ---- ending ----

void LocalRanks::Stop(Generation generation, Time kill_at, const std::set<uint32_t>& spared,
                      bool sure) {
  down_.clear();
  if (generation == generation_ && generation_.exists()) {
    mpi_.Stop();
    std::set<pid_t> pids;
    EndingLeaders ending{.until = std::min(BootTime() + kEndsWithin, table_->lease_end())};
    for (const RankView& view : views_) {
      if (view.pid == 0) continue;
      if (spared.contains(view.rank)) {
        pids.insert(view.pid);
      } else if (!sure && SaysWhyItFails(static_cast<int>(view.rank))) {
        ending.pids.insert(view.pid);
      }
    }
    return processes_.Stop(kill_at, pids, ending);
  }
  loop_->Post(lifetime_.Guard([this, generation] { owner_->OnAllDead(generation); }));
}

// It may be the reason for this stop, though a peer of it was gone before it.
bool LocalRanks::SaysWhyItFails(int rank) {
  const Time began = logs_->WordsBegan(rank);
  return began != kNever && BootTime() - began <= core::kWordsBeforeEnd;
}

bool LocalRanks::CanKeep(uint32_t rank) const {
  const uint32_t local = rank - RankOf(0);
  return core::LaunchOf(config_->job.spec) == core::Launch::kPerProcess && !mpi_.any() &&
         local < views_.size() && views_[local].pid != 0;
}

void LocalRanks::ClearCaches() {
  const int removed = ClearHalfMade(
      environment_.cache_dir(), std::filesystem::file_time_type::clock::now(), kClearCachesWithin);
  if (removed > 0) log_("cleared of compile caches, half-made: " + std::to_string(removed));
  if (kept_ && config_->machine == 0) kept_->Keep();
}

void LocalRanks::SweepSharedMemory() {
  const int removed = shared_memory_.Sweep({getpid(), guard_});
  if (removed > 0) log_("files of the ranks removed from /dev/shm: " + std::to_string(removed));
}

void LocalRanks::OnGone() {
  if (processes_.spared() == 0) {
    ClearCaches();
    temporary_.End();
    SweepSharedMemory();
  }
  mpi_.End();
  owner_->OnAllDead(generation_);
  oom_kills_.Count();
}

void LocalRanks::OnUnkillable(const std::string& processes) {
  log_("still alive 30 s after SIGKILL: " + processes);
  owner_->OnUnkillable(generation_);
}

void LocalRanks::OnDeath(core::Failure death) {
  const auto rank = static_cast<uint32_t>(death.rank);
  death.stderr_tail = logs_->Finish(death.rank);
  const pid_t pid = std::exchange(views_[rank - RankOf(0)].pid, 0);
  if (done_.erase(pid) > 0 && IsCrash(death.signal)) {
    log_("rank " + std::to_string(rank) + " died of " + core::SignalName(death.signal) +
         " while its interpreter exited; its program had ended, so it counts as finished");
    death.signal = 0;
    death.exit_code = 0;
  }
  death.at = core::BeganToDie(death, logs_->WordsBegan(death.rank));
  const core::Spec& spec = environment_.job().spec;
  const bool has_peers = spec.num_machines * core::ProcessesStarted(spec) > 1;
  logs_->ShowHeld(death.rank, has_peers && core::NamesLostPeer(death.stderr_tail));
  const bool commanded = core::StartsFromMachine0(config_->job.spec) && config_->machine != 0;
  const bool failed = mpi_.Judge(rank - RankOf(0), &death);
  if (death.signal == SIGKILL && death.by_itself && oom_kills_.TakeOne()) {
    death.cause = core::Cause::kOutOfMemory;
  }
  if (commanded) return OnCommandEnded(std::move(death));
  if (!failed) return owner_->OnFinished(generation_, rank, death.by_itself);
  if (death.by_itself) logs_->ShowFailed(death.rank);
  owner_->OnDied(generation_, std::move(death));
}

void LocalRanks::Fail(int64_t rank, int exit_code, const std::string& message, core::Cause cause) {
  log_((rank < 0 ? "" : "rank " + std::to_string(rank) + ": ") + message);
  core::Failure death;
  death.rank = static_cast<int>(rank);
  death.cause = cause;
  death.exit_code = exit_code;
  death.at = BootTime();
  death.by_itself = true;
  death.stderr_tail = message;
  loop_->Post(lifetime_.Guard([this, generation = generation_, death = std::move(death)] {
    owner_->OnDied(generation, death);
  }));
}

}  // namespace lockstep::agent
