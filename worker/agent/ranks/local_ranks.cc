#include "worker/agent/ranks/local_ranks.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>
#include <utility>

#include "base/free_port.h"
#include "base/text/columns.h"
#include "base/text/endpoint.h"
#include "core/exit_codes.h"
#include "core/failure/peer_loss.h"
#include "core/model/launch.h"
#include "core/plan/trainer_command.h"
#include "worker/agent/evidence/process_environment.h"
#include "worker/agent/ranks/checkpoint_volume.h"
#include "worker/agent/ranks/compile_caches.h"
#include "worker/agent/ranks/descendants.h"
#include "worker/agent/ranks/launcher_folder.h"

namespace lockstep::agent {

namespace {

// The loop stands still as long, and so does the next generation.
constexpr Duration kClearCachesWithin = milliseconds(200);
constexpr Duration kOrphansLook = milliseconds(2);

int ExitCodeOf(const SpawnFailure& failure) {
  return failure.not_found() ? core::kExitCommandNotFound : core::kExitNotExecutable;
}

using core::Generation;

// NCCL and Gloo guess wrongly on machines with several interfaces. Which one reaches the other
// machines is not guessed here either: either there is one, or all are in one IPv4 network.
std::vector<std::string> SocketInterfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  std::set<std::string> names;
  std::set<std::string> with_address;
  std::set<uint32_t> networks;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool up = (entry->ifa_flags & IFF_UP) != 0;
    const bool loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    if (!up || loopback) continue;
    names.insert(entry->ifa_name);
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    with_address.insert(entry->ifa_name);
    sockaddr_in address{};
    sockaddr_in mask{};
    std::memcpy(&address, entry->ifa_addr, sizeof address);
    std::memcpy(&mask, entry->ifa_netmask, sizeof mask);
    networks.insert(address.sin_addr.s_addr & mask.sin_addr.s_addr);
  }
  freeifaddrs(list);
  if (names.size() > 1 && (networks.size() != 1 || with_address != names)) return {};
  return {names.begin(), names.end()};
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

// What ranks find of the environment that the agent has. A TMPDIR of the shell that `lockstep run`
// was started in is where the ranks' own ones are (worker/place/run_folder.h).
std::vector<std::string> Inherited(const core::AgentConfig& config) {
  std::vector<std::string> environment = OwnEnvironment();
  if (config.shares_computer) {
    std::erase_if(environment,
                  [](const std::string& entry) { return entry.starts_with("TMPDIR="); });
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

// Where `lockstep run` finds the trainer of the agent's release. In a pod the agent's folder holds
// nothing else, and the image's PATH decides.
std::filesystem::path OwnProgram() {
  constexpr std::string_view kReplaced = " (deleted)";  // what stands there now is its successor
  std::error_code error;
  std::string path = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (path.ends_with(kReplaced)) path.resize(path.size() - kReplaced.size());
  return path;
}

}  // namespace

LocalRanks::LocalRanks(EventLoop* loop, Spawner* spawner, LiveTable* table, LogPump* logs,
                       const core::AgentConfig* config, topology::Machine machine,
                       std::string socket_path, Handlers handlers, LogFn log)
    : loop_(loop),
      spawner_(spawner),
      table_(table),
      logs_(logs),
      config_(config),
      job_(config->job),
      socket_path_(std::move(socket_path)),
      handlers_(std::move(handlers)),
      log_(std::move(log)),
      machine_(std::move(machine)),
      interface_(config->interface),
      cache_dir_(config->cache_dir.empty() ? config->run_dir + "/caches" : config->cache_dir),
      temporary_(loop, TemporaryBase(*config), log_),
      shared_memory_(HasOwnSharedMemory(*config)),
      inherited_(Inherited(*config)),
      processes_(loop, table,
                 {.on_death = [this](core::Failure death) { OnDeath(std::move(death)); },
                  .on_gone =
                      [this] {
                        if (processes_.spared() == 0) {
                          ClearCaches();
                          temporary_.End();
                          SweepSharedMemory();
                        }
                        if (pmi_) pmi_->End();
                        if (pmix_) pmix_->End();
                        handlers_.on_all_dead(generation_);
                        oom_kills_ = stats_.ReadOomKills();
                      },
                  .on_unkillable =
                      [this](const std::string& names) {
                        log_("still alive 30 s after SIGKILL: " + names);
                        handlers_.on_unkillable(generation_);
                      }}),
      parked_(loop, spawner, &processes_,
              {.prestart = core::PrestartOf(config->job.spec),
               .exclude = config->job.spec.prestart_exclude,
               .folder = config->run_dir + "/prestart",
               .on_change =
                   [this] {
                     loop_->Post(lifetime_.Guard([this] {
                       if (generation_.exists()) handlers_.on_parked(generation_, parked_.told());
                     }));
                   }},
              log_),
      down_timer_(loop, [this] { StartThoseDown(); }),
      placement_timer_(loop, [this] { ReadPlacements(0, BootTime()); }) {
  oom_kills_ = stats_.ReadOomKills();
  // NCCL's processes share its default port with those of other jobs on the node's network.
  const Result<uint32_t> port = FindFreePort(static_cast<uint64_t>(BootTime().count()));
  if (port.ok()) ras_address_ = "127.0.0.1:" + std::to_string(*port);
  topology::BindingRequest request = topology::RequestOf(config->job.spec, inherited_);
  if (config->shares_computer) {
    request.part = static_cast<int>(config->machine);
    request.parts = config->job.spec.num_machines;
  }
  plan_ = topology::PlanBinding(machine_, request);
  std::vector<std::vector<std::string>> near;
  for (const topology::RankBinding& rank : plan_.ranks) {
    prepared_.push_back(topology::Prepare(rank));
    nodes_.push_back(topology::LocalityOf(machine_, rank));
    near.push_back(rank.nics);
  }
  for (const topology::PreparedBinding& binding : prepared_) {
    spare_launches_.push_back({.binding = &binding, .result = {}});
  }
  NameNics(topology::NearNics(machine_.nics, near));
  std::error_code ignored;
  std::filesystem::create_directories(config->run_dir + "/local", ignored);
  std::filesystem::create_directories(config->run_dir + "/errors", ignored);
  MakeCompileCaches(cache_dir_);
  OpenPmi();
  OpenPmix();
  if (config->checkpoint_path.empty()) return;
  kept_ = std::make_unique<KeptCaches>(
      loop, cache_dir_, config->checkpoint_path,
      [rank = AnyRequest(), gpus = machine_.gpus]() -> Result<std::string> {
        if (!rank.ok()) return rank.error();
        return CacheIdentity(*rank, gpus);
      },
      [this] { handlers_.on_kept(); }, log_);
}

void LocalRanks::OpenPmi() {
  if (!core::ServesPmi(config_->job.spec)) return;
  PmiServer::Handlers handlers;
  handlers.on_fence = [this](Generation generation, std::vector<core::TableEntry> entries) {
    handlers_.on_fence(generation, std::move(entries));
  };
  handlers.kill = [this](uint32_t local_rank) { KillRank(local_rank); };
  pmi_ = std::make_unique<PmiServer>(loop_, config_->job_uid, config_->machine,
                                     static_cast<uint32_t>(config_->job.spec.num_machines),
                                     static_cast<uint32_t>(ProcessCount(config_->job)),
                                     std::move(handlers), log_);
}

void LocalRanks::OpenPmix() {
  const core::Spec& spec = config_->job.spec;
  if (!core::ServesPmix(spec)) return;
  PmixServer::Handlers handlers;
  handlers.on_ready = [this](Generation generation, std::vector<core::Variables> variables) {
    if (generation != generation_) return;
    pmix_variables_ = std::move(variables);
    LaunchRanks(table_->lease_end());
  };
  handlers.on_fence = [this](Generation generation, std::vector<core::TableEntry> entries) {
    handlers_.on_fence(generation, std::move(entries));
  };
  handlers.secret = handlers_.secret;
  handlers.on_lost = [this](Generation generation, core::Failure death) {
    handlers_.on_died(generation, std::move(death));
  };
  handlers.kill = [this](uint32_t local_rank) { KillRank(local_rank); };
  handlers.leave_out = [this](pid_t pid) { processes_.LeaveOut(pid); };
  handlers.take_in = [this](pid_t pid) { processes_.TakeIn(pid); };
  PmixServer::Options options;
  options.program = OwnProgram().parent_path() / pmix::kHelperProgram;
  options.folder = config_->run_dir + "/pmix";
  options.job_uid = config_->job_uid;
  options.machine = config_->machine;
  options.machines = static_cast<uint32_t>(spec.num_machines);
  options.processes = static_cast<uint32_t>(ProcessCount(config_->job));
  pmix_ =
      std::make_unique<PmixServer>(loop_, spawner_, std::move(options), std::move(handlers), log_);
}

void LocalRanks::KillRank(uint32_t local_rank) {
  if (local_rank < views_.size() && views_[local_rank].pid != 0) {
    kill(-views_[local_rank].pid, SIGKILL);
  }
}

// To NCCL all machines on one computer are one, which must be told one thing.
void LocalRanks::NameNics(const std::vector<topology::Nic>& near) {
  if (!config_->shares_computer) rdma_devices_ = topology::RdmaDevices(machine_.nics, near);
  if (!interface_.empty()) return;
  const std::vector<std::string> interfaces = SocketInterfaces();
  interface_ =
      interfaces.size() == 1 ? interfaces.front() : topology::OnlyInterface(interfaces, near);
}

int LocalRanks::ProcessCount(const core::TrainingJob& job) {
  return core::ProcessesStarted(job.spec);
}

uint32_t LocalRanks::RankOf(int local_rank) const {
  return start_.PlaceOf(config_->machine) * static_cast<uint32_t>(ProcessCount(config_->job)) +
         static_cast<uint32_t>(local_rank);
}

// ---- starting ----

void LocalRanks::Reset() {
  const auto count = static_cast<size_t>(ProcessCount(config_->job));
  launches_.resize(count);
  views_.resize(count);
  for (size_t l = 0; l < count; ++l) {
    const uint32_t rank = RankOf(static_cast<int>(l));
    views_[l].stepped = false;
    if (known_.contains(rank)) continue;
    launches_[l] = {};
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
  const bool launched = core::StartsFromMachine0(config_->job.spec);
  warm_ = 0;
  parked_.BeginGeneration();
  Reset();
  processes_.TakeInSpared();
  logs_->StartGeneration(generation_.ToString(), {kept.begin(), kept.end()});
  temporary_dir_ = temporary_.Begin(generation_);
  shared_memory_.BeginGeneration();
  if (launched && config_->machine == 0) {
    Result<std::string> folder =
        MakeLauncherFolder(config_->run_dir, generation_, config_->job, OwnProgram(), socket_path_);
    if (!folder.ok()) return Fail(0, core::kExitNotExecutable, folder.error().message);
    launcher_dir_ = std::move(*folder);
  }
  if (pmi_) {
    const Status listening = pmi_->Begin(generation_);
    if (!listening.ok()) {
      return Fail(RankOf(0), core::kExitNotExecutable, "PMI: " + listening.error().message);
    }
  }
  if (!pmix_) return LaunchRanks(lease_end);
  const Status begun = pmix_->Begin(generation_);  // LaunchRanks follows
  if (begun.ok()) return;
  const bool missing = begun.error().kind == ErrorKind::kNotFound;
  Fail(-1, missing ? core::kExitCommandNotFound : core::kExitNotExecutable,
       "mpi.start: Pmix takes " + std::string(pmix::kHelperProgram) +
           " beside lockstep-agent: " + begun.error().message);
}

void LocalRanks::LaunchRanks(Time lease_end) {
  const bool none = core::StartsFromMachine0(config_->job.spec) && config_->machine != 0;
  const int started = none ? 0 : static_cast<int>(views_.size());
  for (int l = 0; l < started; ++l) {
    if (BootTime() >= lease_end) return;
    const uint32_t rank = RankOf(l);
    if (const auto known = known_.find(rank); known != known_.end()) {
      handlers_.on_taken_in(generation_, rank, ChangesSince(known->second, l));
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
    handlers_.on_parked(generation, parked_.told());
    handlers_.on_spawned(generation, warm);
    ReadBindings();
  }));
}

core::ProcessIdentity LocalRanks::Identity(const core::Start& start, int local_rank) const {
  const topology::RankBinding& binding = plan_.ranks[static_cast<size_t>(local_rank)];
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
  id.endpoints = Endpoints(start, ProcessCount(config_->job));
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
  id.temporary_dir = temporary_dir_;
  id.launcher_dir = launcher_dir_;
  id.omp_threads = binding.omp_threads;
  id.has_gpu = binding.has_gpu;
  id.gpu_variables = config_->job.spec.topology.gpu_visibility == core::GpuVisibility::kIsolated
                         ? binding.isolated
                         : plan_.visible;
  id.interface = interface_;
  if (pmi_) {
    id.pmi_address = pmi_->address();
    id.pmi_id = pmi_->id(static_cast<uint32_t>(local_rank));
  }
  if (static_cast<size_t>(local_rank) < pmix_variables_.size()) {
    id.pmix_variables = pmix_variables_[static_cast<size_t>(local_rank)];
  }
  id.ras_address = ras_address_;
  id.rdma_devices = rdma_devices_;
  return id;
}

SpawnRequest LocalRanks::RequestFor(const core::Start& start, int local_rank) const {
  SpawnRequest request;
  request.env = core::BuildEnvironment(inherited_, job_, Identity(start, local_rank));
  request.argv = core::BuildCommand(job_, request.env);
  request.working_directory = config_->job.spec.working_dir;
  request.hook = &LocalRanks::Bind;
  request.hook_name = "binding";
  return request;
}

std::optional<SpawnFailure> LocalRanks::FindProgram(SpawnRequest* request) {
  std::string path = Variable(request->env, "PATH");
  if (request->argv.front() == core::kTrainerProgram) {
    path = OwnProgram().parent_path().string() + ":" + path;
  }
  auto found = FindExecutable(request->argv.front(), path, request->working_directory);
  if (auto* failure = std::get_if<SpawnFailure>(&found)) return std::move(*failure);
  request->path = std::get<std::string>(found);
  return std::nullopt;
}

std::vector<std::string> LocalRanks::MachineEnvironment() const {
  core::ProcessIdentity identity = Identity(core::Start{}, 0);
  identity.gpu_variables = plan_.visible;
  std::vector<std::string> all = core::BuildEnvironment(inherited_, config_->job, identity);
  std::erase_if(all, [](const std::string& variable) {
    return core::IsReserved(std::string_view(variable).substr(0, variable.find('=')));
  });
  return all;
}

Result<SpawnRequest> LocalRanks::AnyRequest() const {
  SpawnRequest request = RequestFor(core::Start{}, 0);
  if (const auto failure = FindProgram(&request)) return Error::NotFound(failure->message);
  return request;
}

std::string LocalRanks::LaunchRank(const core::Start& start, int local_rank, int* exit_code) {
  auto index = static_cast<size_t>(local_rank);
  SpawnRequest request = RequestFor(start, local_rank);
  if (const auto failure = FindProgram(&request)) {
    *exit_code = ExitCodeOf(*failure);
    return failure->message;
  }
  if (LaunchSpare(index, request)) return "";
  parked_.Record(index, &request);
  return LaunchCold(index, std::move(request), exit_code);
}

std::string LocalRanks::LaunchCold(size_t local_rank, SpawnRequest request, int* exit_code) {
  launches_[local_rank].binding = &prepared_[local_rank];
  request.hook_data = &launches_[local_rank];
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
bool LocalRanks::LaunchSpare(size_t local_rank, SpawnRequest request) {
  request.hook_data = &spare_launches_[local_rank];
  const Launch bound = spare_launches_[local_rank];
  std::optional<ParkedRanks::Spare> spare = parked_.Take(local_rank, request);
  if (!spare) return false;
  const pid_t pid = spare->process.pid;
  if (Adopt(local_rank, std::move(spare->process)).ok() && spare->Go()) {
    launches_[local_rank] = bound;
    ++warm_;
    return true;
  }
  log_("prestart: a spare died as it was let go; the rank starts cold");
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
    if (const auto missing = FindProgram(&request)) {
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
  ReadBindings();
}

// ---- for a launcher on machine 0 ----

void LocalRanks::Run(const core::Run& run) {
  runs_.push_back(run);
  if (runs_.size() == 1) return RunNext();
  log_("what the launcher wants to run waits until what it ran here before has ended");
}

void LocalRanks::RunNext() {
  while (!runs_.empty()) {
    const core::Run& run = runs_.front();
    const std::string problem = LaunchCommand(run);
    if (problem.empty()) return ReadBindings();
    core::Ran ran{run.generation, run.id, run.machine, core::kExitNeverBegan, problem};
    runs_.pop_front();
    log_("what the launcher wants to run cannot be: " + problem);
    loop_->Post(lifetime_.Guard([this, ran = std::move(ran)] { handlers_.on_ran(ran); }));
  }
}

std::string LocalRanks::LaunchCommand(const core::Run& run) {
  SpawnRequest request = RequestFor(start_, 0);
  request.path = "/bin/sh";
  request.argv = {"sh", "-c", run.command};
  launches_[0].binding = &prepared_[0];
  request.hook_data = launches_.data();
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
  handlers_.on_ran(std::move(ran));
  if (death.exit_code > 0) {
    death.stderr_tail.insert(
        0, std::string(core::kDaemonExited) + std::to_string(death.exit_code) + "\n");
  }
  if (death.exit_code != 0) handlers_.on_died(generation_, std::move(death));
  if (!processes_.stopping()) RunNext();
}

int LocalRanks::Bind(void* launch) noexcept {
  auto* self = static_cast<Launch*>(launch);
  self->result = topology::ApplyInChild(*self->binding);
  return 0;  // what was refused is reported, and the process runs all the same
}

// ---- bindings ----

topology::BoundProcess LocalRanks::BoundAs(size_t local_rank) const {
  return {views_[local_rank].pid,  config_->job.spec.topology.bind,
          plan_.ranks[local_rank], launches_[local_rank].result,
          nodes_[local_rank],      core::IsAsAsked(views_[local_rank].binding.mode)};
}

// What is in effect, read back once the ranks run; said once, for it is the same each time.
void LocalRanks::ReadBindings() {
  if (processes_.live() == 0) return;  // a launcher has asked for nothing yet
  for (size_t l = 0; l < views_.size(); ++l) {
    if (views_[l].pid == 0) continue;
    views_[l].binding = topology::ReadBack(BoundAs(l));
    views_[l].bound = true;
  }
  if (config_->job.spec.topology.bind == core::Bind::kNone) return;
  if (!std::exchange(binding_said_, true)) LogBindings();
  ReportBinding();
  // On a machine of one node nothing can be far, and nobody is woken to look.
  if (std::ranges::all_of(nodes_, [](const auto& nodes) { return nodes.remote.empty(); })) return;
  placement_timer_.WakeAt(BootTime() + topology::PlacementPause(Duration(0), 1));
}

void LocalRanks::LogBindings() {
  std::vector<std::vector<std::string>> rows = {
      {"rank", "CPUs", "memory", "threads", "GPU", "binding"}};
  for (size_t l = 0; l < views_.size(); ++l) {
    if (!views_[l].bound) continue;  // it is dead already
    const topology::RankBinding& planned = plan_.ranks[l];
    const topology::EffectiveBinding& binding = views_[l].binding;
    rows.push_back({std::to_string(views_[l].rank), FormatIndexList(binding.cpus),
                    binding.memory_policy, std::to_string(planned.omp_threads),
                    planned.gpus.empty() ? "-" : FormatIndexList(planned.gpus),
                    binding.ToString(config_->job.spec.topology.bind)});
  }
  std::istringstream table(AlignColumns(rows, ""));
  for (std::string line; std::getline(table, line);) log_(line);
  for (const std::string& note : plan_.notes) log_(note);
}

// The least bound of them stands for the machine. One that is dead already has nothing to tell.
void LocalRanks::ReportBinding() {
  const bool asked = config_->job.spec.topology.bind != core::Bind::kNone;
  if (!asked || views_.empty() || processes_.live() < views_.size()) return;
  const View& least = *std::min_element(
      views_.begin(), views_.end(),
      [](const View& a, const View& b) { return a.binding.mode < b.binding.mode; });
  // Where the plan itself falls short of policy Required, nothing is as asked.
  const bool short_of_policy = !plan_.error.empty() && core::IsAsAsked(least.binding.mode);
  if (short_of_policy) {
    return handlers_.on_bound(generation_, core::Binding::kPartial, plan_.error);
  }
  handlers_.on_bound(generation_, least.binding.mode, least.binding.reason);
}

void LocalRanks::OnStep(uint32_t rank) {
  parked_.OnStep();
  const size_t l = rank - RankOf(0);
  if (l >= views_.size() || !views_[l].bound || std::exchange(views_[l].stepped, true)) return;
  if (config_->job.spec.topology.bind == core::Bind::kNone) return;
  ReadAgain(l, [this, l](auto binding) {
    if (binding) OnFirstStep(l, std::move(*binding));
  });
}

void LocalRanks::OnFirstStep(size_t local_rank, topology::EffectiveBinding binding) {
  View& view = views_[local_rank];
  const bool same = binding.mode == view.binding.mode && binding.reason == view.binding.reason &&
                    binding.note == view.binding.note;
  view.binding = std::move(binding);
  if (same) return;
  log_("rank " + std::to_string(view.rank) +
       " after its first step: " + view.binding.ToString(config_->job.spec.topology.bind));
  ReportBinding();
}

void LocalRanks::ReadPlacements(size_t local_rank, Time began) {
  size_t next = local_rank;
  while (next < views_.size() && (views_[next].pid == 0 || nodes_[next].remote.empty())) ++next;
  if (next < views_.size()) {
    return ReadAgain(next, [this, next, began](const auto& binding) {
      if (binding) views_[next].binding.placement = binding->placement;
      ReadPlacements(next + 1, began);
    });
  }
  const Duration took = BootTime() - began;
  if (processes_.live() == 0) return;
  placement_timer_.WakeAt(BootTime() +
                          topology::PlacementPause(took, config_->job.spec.num_machines));
}

void LocalRanks::ReadAgain(size_t local_rank, ReadDone done) {
  FileWorker* reader = Reader();
  if (reader == nullptr) return;
  reader->Run([process = BoundAs(local_rank)] { return topology::ReadBack(process); },
              [this, local_rank, generation = generation_,
               done = std::move(done)](topology::EffectiveBinding binding) {
                if (generation != generation_) return;
                const bool gone = views_[local_rank].pid == 0 || binding.cpus.empty();
                done(gone ? std::nullopt : std::optional(std::move(binding)));
              });
}

FileWorker* LocalRanks::Reader() {
  if (!reader_) {
    Result<std::unique_ptr<FileWorker>> reader = FileWorker::Create(loop_);
    if (reader.ok()) reader_ = std::move(*reader);
  }
  return reader_.get();
}

// ---- ending ----

void LocalRanks::Stop(Generation generation, Time kill_at, const std::set<uint32_t>& spared) {
  down_.clear();
  if (generation == generation_ && generation_.exists()) {
    if (pmix_) pmix_->Stop();
    std::set<pid_t> pids;
    for (const View& view : views_) {
      if (view.pid != 0 && spared.contains(view.rank)) pids.insert(view.pid);
    }
    return processes_.Stop(kill_at, pids);
  }
  loop_->Post(lifetime_.Guard([this, generation] { handlers_.on_all_dead(generation); }));
}

bool LocalRanks::CanKeep(uint32_t rank) const {
  const uint32_t local = rank - RankOf(0);
  return core::LaunchOf(config_->job.spec) == core::Launch::kPerProcess && !pmi_ && !pmix_ &&
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

bool LocalRanks::Judge(uint32_t local_rank, core::Failure* death) {
  if (pmi_) return pmi_->Judge(local_rank, death);
  return pmix_ ? pmix_->Judge(local_rank, death) : death->exit_code != 0;
}

void LocalRanks::OnDeath(core::Failure death) {
  const auto rank = static_cast<uint32_t>(death.rank);
  death.stderr_tail = logs_->Finish(death.rank);
  views_[rank - RankOf(0)].pid = 0;
  const bool commanded = core::StartsFromMachine0(config_->job.spec) && config_->machine != 0;
  const bool failed = Judge(rank - RankOf(0), &death);
  if (WasOutOfMemory(death)) death.cause = core::Cause::kOutOfMemory;
  if (commanded) return OnCommandEnded(std::move(death));
  if (!failed) return handlers_.on_finished(generation_, rank, death.by_itself);
  if (death.by_itself) logs_->ShowFailed(death.rank);
  handlers_.on_died(generation_, std::move(death));
}

// The kernel says of no process that it was killed for want of memory; it counts them.
bool LocalRanks::WasOutOfMemory(const core::Failure& death) {
  if (death.signal != SIGKILL || !death.by_itself || !oom_kills_) return false;
  if (stats_.ReadOomKills().value_or(0) <= *oom_kills_) return false;
  ++*oom_kills_;
  return true;
}

void LocalRanks::Fail(int64_t rank, int exit_code, const std::string& message) {
  log_((rank < 0 ? "PMIx server" : "rank " + std::to_string(rank)) + ": " + message);
  core::Failure death;
  death.rank = static_cast<int>(rank);
  death.cause = core::Cause::kCommandNotFound;
  death.exit_code = exit_code;
  death.at = BootTime();
  death.by_itself = true;
  death.stderr_tail = message;
  loop_->Post(lifetime_.Guard([this, generation = generation_, death = std::move(death)] {
    handlers_.on_died(generation, death);
  }));
}

}  // namespace lockstep::agent
