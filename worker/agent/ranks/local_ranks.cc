#include "worker/agent/ranks/local_ranks.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <utility>

#include "base/net/free_port.h"
#include "base/text/endpoint.h"
#include "core/exit_codes.h"
#include "core/failure/last_words.h"
#include "core/failure/peer_loss.h"
#include "core/failure/signals.h"
#include "core/model/launch.h"
#include "worker/agent/processes/descendants.h"
#include "worker/agent/processes/process_environment.h"
#include "worker/agent/processes/program.h"
#include "worker/agent/rank_socket/launcher_folder.h"
#include "worker/agent/storage/checkpoint_volume.h"
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

std::string Variable(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& entry : environment) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return "";
}

// On disk, where the agent has a folder there.
std::string TemporaryBase(const core::AgentConfig& config) {
  const std::filesystem::path disk = std::filesystem::path(config.cache_dir).parent_path();
  return config.cache_dir.empty() ? config.run_dir + "/tmp" : (disk / "tmp").string();
}

// What ranks find of the environment that the agent has. Of the shell that `lockstep run` was
// started in, TMPDIR is where the ranks' own ones are (worker/place/run_folder.h), and HOSTNAME may
// not be this machine's name (worker/place/spawn.h).
std::vector<std::string> Inherited(const core::AgentConfig& config) {
  std::vector<std::string> environment = OwnEnvironment();
  if (config.shares_computer) {
    std::erase_if(environment,
                  [](const std::string& entry) { return entry.starts_with("TMPDIR="); });
    for (std::string& entry : environment) {
      if (entry.starts_with("HOSTNAME=")) entry = "HOSTNAME=" + OwnHostName();
    }
  }
  return environment;
}

// IP:PORT of each rank, where there are ports for them.
std::vector<std::string> Endpoints(const core::Start& start, int processes) {
  std::vector<std::string> endpoints;
  for (const core::MachinePorts& machine : start.ports) {
    for (uint32_t l = 0; l < static_cast<uint32_t>(processes); ++l) {
      endpoints.push_back(EndpointText(machine.address, static_cast<uint16_t>(machine.first + l)));
    }
  }
  return endpoints;
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
      job_(config->job),
      socket_path_(std::move(socket_path)),
      owner_(owner),
      log_(std::move(log)),
      interface_(config->interface),
      cache_dir_(config->cache_dir.empty() ? config->run_dir + "/caches" : config->cache_dir),
      temporary_(loop, TemporaryBase(*config), log_),
      shared_memory_(HasOwnSharedMemory(*config)),
      inherited_(Inherited(*config)),
      bindings_(
          loop, config, std::move(machine), inherited_, &views_,
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
  oom_kills_ = stats_.ReadOomKills();
  // NCCL's processes share its default port with those of other jobs on the node's network.
  const Result<uint32_t> port = FindFreePort(static_cast<uint64_t>(BootTime().count()));
  if (port.ok()) ras_address_ = "127.0.0.1:" + std::to_string(*port);
  const std::vector<topology::Nic> near = bindings_.NearNics();
  const topology::Machine& own = bindings_.machine();
  if (interface_.empty()) interface_ = topology::SocketInterface(near);
  // To NCCL all machines with one host name are one, which must be told one thing.
  if (!config->shares_computer) rdma_devices_ = topology::RdmaDevices(own.nics, near);
  std::error_code ignored;
  std::filesystem::create_directories(config->run_dir + "/local", ignored);
  std::filesystem::create_directories(config->run_dir + "/errors", ignored);
  MakeCompileCaches(cache_dir_);
  if (config->checkpoint_path.empty()) return;
  kept_ = std::make_unique<KeptCaches>(
      loop, cache_dir_, config->checkpoint_path,
      [rank = AnyRequest(), gpus = own.gpus]() -> Result<std::string> {
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

uint32_t LocalRanks::RankOf(int local_rank) const {
  return start_.PlaceOf(config_->machine) *
             static_cast<uint32_t>(core::ProcessesStarted(config_->job.spec)) +
         static_cast<uint32_t>(local_rank);
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

Json LocalRanks::ChangesSince(const std::vector<std::string>& old, int local_rank) const {
  Json changes = Json::object();
  const auto name = [](const std::string& entry) { return entry.substr(0, entry.find('=')); };
  for (const std::string& entry : old) changes[name(entry)] = nullptr;
  for (const std::string& entry : RequestFor(start_, local_rank).env) {
    if (std::ranges::find(old, entry) != old.end()) {
      changes.erase(name(entry));
    } else {
      changes[name(entry)] = entry.substr(entry.find('=') + 1);
    }
  }
  return changes;
}

void LocalRanks::Start(const core::Start& start, Time lease_end,
                       const std::vector<uint32_t>& kept) {
  known_.clear();
  for (const uint32_t rank : kept) {
    known_[rank] = RequestFor(start_, static_cast<int>(rank - RankOf(0))).env;
  }
  start_ = start;
  generation_ = start.generation;
  if (!start.members.empty()) job_.spec.num_machines = static_cast<int32_t>(start.members.size());
  runs_.clear();
  down_.clear();
  done_.clear();
  const bool launched = core::StartsFromMachine0(config_->job.spec);
  warm_ = 0;
  parked_.BeginGeneration();
  bindings_.BeginGeneration();
  Reset();
  processes_.TakeInSpared();
  logs_->StartGeneration(generation_.ToString(), {kept.begin(), kept.end()});
  temporary_.Begin(generation_, kept);
  shared_memory_.BeginGeneration();
  if (launched && config_->machine == 0) {
    const Result<std::string> own = OwnProgram();
    Result<std::string> folder = !own.ok() ? own
                                           : MakeLauncherFolder(config_->run_dir, generation_,
                                                                config_->job, *own, socket_path_);
    if (!folder.ok()) return Fail(0, core::kExitNotExecutable, folder.error().message);
    launcher_dir_ = std::move(*folder);
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
      owner_->OnTakenIn(rank, ChangesSince(known->second, l));
      continue;
    }
    int exit_code = 0;
    std::string failure = LaunchRank(start_, l, &exit_code);
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

core::ProcessIdentity LocalRanks::Identity(const core::Start& start, int local_rank) const {
  const topology::BindingPlan& plan = bindings_.plan();
  const topology::RankBinding& binding = plan.ranks[static_cast<size_t>(local_rank)];
  core::ProcessIdentity id;
  id.machine = static_cast<int>(start.PlaceOf(config_->machine));
  id.local_rank = local_rank;
  id.attempt = start.generation.attempt;
  id.n = start.generation.n;
  id.epoch = config_->epoch;
  id.restarts = start.restarts;
  id.job_uid = config_->job_uid;
  id.master_addr = start.master_address;
  id.master_port = static_cast<int>(start.master_port);
  id.endpoints = Endpoints(start, core::ProcessesStarted(config_->job.spec));
  id.socket_path = socket_path_;
  if (!config_->checkpoint_path.empty()) {
    CheckpointVolume volume(config_->checkpoint_path, config_->job_uid);
    id.checkpoint_dir = volume.CheckpointDir(start.generation);
  }
  id.resume_dir = start.resume;
  id.local_dir = config_->run_dir + "/local";
  id.cache_dir = cache_dir_;
  id.error_file = config_->run_dir + "/errors/" + start.generation.ToString() + "-" +
                  std::to_string(RankOf(local_rank)) + ".json";
  id.temporary_dir = temporary_.Of(RankOf(local_rank));
  id.launcher_dir = launcher_dir_;
  id.omp_threads = binding.omp_threads;
  id.has_gpu = binding.has_gpu;
  id.gpu_variables = config_->job.spec.topology.gpu_visibility == core::GpuVisibility::kIsolated
                         ? binding.isolated
                         : plan.visible;
  id.interface = interface_;
  mpi_.AddTo(&id);
  id.ras_address = ras_address_;
  id.rdma_devices = rdma_devices_;
  return id;
}

SpawnRequest LocalRanks::RequestFor(const core::Start& start, int local_rank) const {
  SpawnRequest request;
  request.env = core::BuildEnvironment(inherited_, job_, Identity(start, local_rank));
  request.argv = core::BuildCommand(job_, request.env);
  request.working_directory = config_->job.spec.working_dir;
  return request;
}

std::optional<SpawnFailure> LocalRanks::SetPath(SpawnRequest* request) {
  auto found = FindProgram(request->argv.front(), Variable(request->env, "PATH"),
                           request->working_directory);
  if (auto* failure = std::get_if<SpawnFailure>(&found)) return std::move(*failure);
  request->path = std::get<std::string>(found);
  return std::nullopt;
}

std::vector<std::string> LocalRanks::MachineEnvironment() const {
  core::ProcessIdentity identity = Identity(core::Start{}, 0);
  identity.gpu_variables = bindings_.plan().visible;
  std::vector<std::string> all = core::BuildEnvironment(inherited_, config_->job, identity);
  std::erase_if(all, [](const std::string& variable) {
    return core::IsReserved(std::string_view(variable).substr(0, variable.find('=')));
  });
  return all;
}

Result<SpawnRequest> LocalRanks::AnyRequest() const {
  SpawnRequest request = RequestFor(core::Start{}, 0);
  if (const auto failure = SetPath(&request)) return Error::NotFound(failure->message);
  return request;
}

std::string LocalRanks::LaunchRank(const core::Start& start, int local_rank, int* exit_code) {
  auto index = static_cast<size_t>(local_rank);
  SpawnRequest request = RequestFor(start, local_rank);
  if (const auto failure = SetPath(&request)) {
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
    SpawnRequest request = RequestFor(start_, static_cast<int>(index));
    std::string failure;
    if (const auto missing = SetPath(&request)) {
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
  oom_kills_ = stats_.ReadOomKills();
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
  SpawnRequest request = RequestFor(start_, 0);
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

void LocalRanks::Stop(Generation generation, Time kill_at, const std::set<uint32_t>& spared) {
  down_.clear();
  if (generation == generation_ && generation_.exists()) {
    mpi_.Stop();
    std::set<pid_t> pids;
    EndingLeaders ending{.until = std::min(BootTime() + kEndsWithin, table_->lease_end())};
    for (const RankView& view : views_) {
      if (view.pid == 0) continue;
      if (spared.contains(view.rank)) {
        pids.insert(view.pid);
      } else if (SaysWhyItFails(static_cast<int>(view.rank))) {
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
  const int removed =
      ClearHalfMade(cache_dir_, std::filesystem::file_time_type::clock::now(), kClearCachesWithin);
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
  oom_kills_ = stats_.ReadOomKills();
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
  const bool has_peers = job_.spec.num_machines * core::ProcessesStarted(job_.spec) > 1;
  logs_->ShowHeld(death.rank, has_peers && core::NamesLostPeer(death.stderr_tail));
  const bool commanded = core::StartsFromMachine0(config_->job.spec) && config_->machine != 0;
  const bool failed = mpi_.Judge(rank - RankOf(0), &death);
  if (WasOutOfMemory(death)) death.cause = core::Cause::kOutOfMemory;
  if (commanded) return OnCommandEnded(std::move(death));
  if (!failed) return owner_->OnFinished(generation_, rank, death.by_itself);
  if (death.by_itself) logs_->ShowFailed(death.rank);
  owner_->OnDied(generation_, std::move(death));
}

// The kernel says of no process that it was killed for want of memory; it counts them.
bool LocalRanks::WasOutOfMemory(const core::Failure& death) {
  if (death.signal != SIGKILL || !death.by_itself || !oom_kills_) return false;
  if (stats_.ReadOomKills().value_or(0) <= *oom_kills_) return false;
  ++*oom_kills_;
  return true;
}

void LocalRanks::Fail(int64_t rank, int exit_code, const std::string& message) {
  log_((rank < 0 ? "" : "rank " + std::to_string(rank) + ": ") + message);
  core::Failure death;
  death.rank = static_cast<int>(rank);
  death.cause = core::Cause::kCommandNotFound;
  death.exit_code = exit_code;
  death.at = BootTime();
  death.by_itself = true;
  death.stderr_tail = message;
  loop_->Post(lifetime_.Guard([this, generation = generation_, death = std::move(death)] {
    owner_->OnDied(generation, death);
  }));
}

}  // namespace lockstep::agent
