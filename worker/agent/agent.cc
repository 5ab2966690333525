#include "worker/agent/agent.h"

#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <functional>
#include <random>
#include <utility>
#include <variant>

#include "base/net/free_port.h"
#include "base/process/stop_signals.h"
#include "core/exit_codes.h"
#include "core/failure/signals.h"
#include "core/model/names.h"
#include "core/model/shortcuts.h"
#include "worker/agent/gang/gang_config.h"
#include "worker/topology/topology.h"

namespace lockstep::agent {

// What the agent's parts report and ask; each is passed to the member or to another part.
struct Agent::Events final : GangPort::Owner,
                             CoordinatorHost::Owner,
                             LocalRanks::Owner,
                             MemoryStore::Owner,
                             CodeStore::Owner,
                             WorldWatch::Owner,
                             RankSocket::Owner,
                             RejoinRequests::Owner,
                             RunRequests::Owner,
                             CommitRequests::Owner {
  explicit Events(Agent* owner) : agent(*owner) {}

  void OnGangOpen() override { agent.CarryOut(agent.member_->OnConnected(agent.Now())); }
  void OnGangMessage(const core::Message& message) override {
    agent.CarryOut(agent.member_->OnMessage(agent.Now(), message));
  }
  void OnGangClose(const std::string& reason) override {
    if (agent.member_->connected()) agent.Log("the line to machine 0 ended: " + reason);
    agent.CarryOut(agent.member_->OnDisconnected(agent.Now()));
  }

  void OnCoordinatorExit(const core::ExitCoordinator& exit) override {
    agent.OnCoordinatorExit(exit);
  }
  void OnGangChange() override {
    if (agent.status_) agent.status_->Notify();
    agent.departure_->Check();
  }
  Status OnPrepare(uint32_t port) override {
    return agent.horovod_ ? agent.horovod_->Begin(port) : Status();
  }

  void OnSpawned(core::Generation g, bool warm) override {
    agent.CarryOut(agent.member_->OnSpawned(agent.Now(), g, warm));
  }
  void OnBound(core::Generation g, core::Binding binding, std::string reason) override {
    agent.CarryOut(agent.member_->OnBound(agent.Now(), g, binding, std::move(reason)));
  }
  void OnParked(core::Generation g, core::Parked parked) override {
    agent.CarryOut(agent.member_->OnParked(agent.Now(), g, std::move(parked)));
  }
  void OnDied(core::Generation g, core::Failure death) override {
    agent.progress_->ReadNow();  // where it stood
    agent.CarryOut(agent.member_->OnProcessDied(agent.Now(), g, std::move(death)));
  }
  void OnFinished(core::Generation g, uint32_t rank, bool by_itself) override {
    agent.progress_->ReadNow();  // its last step, before its end
    if (agent.world_) agent.world_->Look();
    agent.CarryOut(agent.member_->OnProcessFinished(agent.Now(), g, rank, by_itself));
  }
  void OnRan(core::Ran ran) override {
    agent.CarryOut(agent.member_->OnRan(agent.Now(), std::move(ran)));
  }
  void OnAllDead(core::Generation g) override {
    if (!agent.member_->keeping()) agent.guard_->SetLeaseEnd(kNever);
    if (agent.world_) agent.world_->End();
    agent.CarryOut(agent.member_->OnAllDead(agent.Now(), g));
    agent.departure_->Check();
  }
  void OnTakenIn(uint32_t rank, const Json& changes) override {
    agent.rejoin_->Tell(rank, changes);
  }
  void OnUnkillable(core::Generation g) override {
    agent.CarryOut(agent.member_->OnUnkillable(agent.Now(), g));
  }
  void OnKept() override { agent.departure_->Check(); }
  void OnFence(core::Generation g, std::vector<core::TableEntry> entries) override {
    agent.CarryOut(agent.member_->OnFence(agent.Now(), g, std::move(entries)));
  }
  Result<std::string> Secret(core::Generation g) override { return SecretOf(agent.config_, g); }

  void OnPartHeld(core::MemoryPart part) override {
    agent.CarryOut(agent.member_->OnPartHeld(agent.Now(), std::move(part)));
  }
  void OnFetchFailed(core::MemoryPart part, std::string reason) override {
    agent.CarryOut(agent.member_->OnFetchFailed(agent.Now(), std::move(part), std::move(reason)));
  }
  void OnPersisted(core::Persisted persisted) override {
    agent.CarryOut(agent.member_->OnPersisted(agent.Now(), std::move(persisted)));
  }

  void OnCodeHeld(std::vector<std::string> digests) override {
    agent.CarryOut(agent.member_->OnCodeHeld(agent.Now(), std::move(digests)));
  }
  void OnCodeFailed(const std::string& digest, std::string reason) override {
    agent.CarryOut(agent.member_->OnCodeFailed(agent.Now(), digest, std::move(reason)));
  }

  std::vector<RankProcess> Ranks() override { return agent.RankProcesses(); }
  std::set<std::string> Machines() override { return agent.coordinator_->machines(); }
  void OnLook() override { agent.coordinator_->OnWorldDoubt(agent.world_->DoubtOfSuccess()); }
  void OnDoubt() override {
    agent.Log(agent.world_->doubt());
    if (agent.status_) agent.status_->Notify();
  }
  void OnMpiWorld(int64_t size) override {
    agent.coordinator_->OnMpiWorld(size, core::WorldSize(agent.config_.job.spec));
  }

  // What processes say and ask by the socket.
  void OnProgress(RankSocket::ClientId client, const ProgressMessage& message) override {
    agent.OnProgress(client, message);
  }
  void OnClosed(RankSocket::ClientId client) override { agent.rejoin_->OnClosed(client); }
  void Answer(RankSocket::ClientId client, const std::string& line) override {
    agent.progress_->Answer(client, line);
  }
  bool CanKeep(uint32_t rank) override { return agent.ranks_->CanKeep(rank); }
  void Kill(uint32_t rank) override { agent.ranks_->Kill(rank); }
  core::Generation generation() override { return agent.member_->generation(); }
  void OnRejoins(uint32_t rank, bool can) override {
    agent.CarryOut(agent.member_->OnRejoins(agent.Now(), generation(), rank, can));
  }
  void OnLeft(uint32_t rank) override {
    agent.CarryOut(agent.member_->OnLeft(agent.Now(), generation(), rank));
  }
  void OnRun(core::Run run) override {
    agent.CarryOut(agent.member_->OnRun(agent.Now(), std::move(run)));
  }
  void OnCommit(uint64_t id) override { agent.CarryOut(agent.member_->OnCommit(agent.Now(), id)); }
  void OnMemoryCommit(uint64_t id, const std::string& name, std::string problem) override {
    agent.CarryOut(agent.member_->OnMemoryCommit(agent.Now(), id, name, std::move(problem)));
  }

  Agent& agent;
};

Result<std::unique_ptr<Agent>> Agent::Create(core::AgentConfig config, UniqueFd starter,
                                             const std::string& executable) {
  std::unique_ptr<Agent> agent(new Agent(std::move(config), std::move(starter)));
  Status opened = agent->Open(executable);
  if (!opened.ok()) return opened.error();
  return agent;
}

Agent::Agent(core::AgentConfig config, UniqueFd starter)
    : config_(std::move(config)),
      store_variables_(TakeStoreVariables()),
      last_message_(std::move(starter), config_.termination_path),
      events_(std::make_unique<Events>(this)) {}
Agent::~Agent() = default;

// ---- opening ----

Status Agent::Open(const std::string& executable) {
  std::error_code code;
  std::filesystem::create_directories(config_.run_dir, code);
  if (code || chmod(config_.run_dir.c_str(), 0700) != 0) {
    return Error::Unavailable("the folder " + config_.run_dir + " cannot be made");
  }
  signal(SIGPIPE, SIG_IGN);
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
  if (!loop.ok()) return loop.error();
  loop_ = std::move(*loop);
  timer_.emplace(loop_.get(), [this] { CarryOut(member_->OnTimer(Now())); });
  departure_.emplace(loop_.get(), [this] { return Hold(); }, [this] { Go(); });
  usage_.emplace(
      loop_.get(),
      [this] {
        return core::MayHaveLiveRanks(member_->phase()) ? ranks_->views() : std::vector<RankView>();
      },
      [this](const core::Usage& usage, const core::RankActivity& activity) {
        CarryOut(member_->OnUsage(Now(), usage, activity));
      });
  member_ = std::make_unique<core::Member>(ForMember(config_));
  machine_metrics_ = std::make_unique<MachineMetrics>(member_.get());
  rank_metrics_ = std::make_unique<RankMetrics>([this] { return ranks_->views(); }, BootTime);
  if (!config_.checkpoint_path.empty()) {
    volume_.emplace(config_.checkpoint_path, config_.job_uid, config_.job.spec.checkpoint.resume,
                    config_.first_attempt);
  }
  // Before there is a second thread: hwloc is told where to look by the environment.
  Status ranks = OpenRanks(executable);
  if (!ranks.ok()) return ranks;
  OpenOutputWatch();
  Result<std::unique_ptr<FileWorker>> files = FileWorker::Create(loop_.get());
  if (!files.ok()) return files.error();
  files_ = std::move(*files);
  ranks_->FetchCaches();
  Status objects = OpenObjects();
  if (!objects.ok()) return objects;
  const sigset_t stop = ContainerStopSignals();
  for (int number = 1; number <= SIGRTMAX; ++number) {
    if (sigismember(&stop, number) != 1) continue;
    loop_->OnSignal(number, [this, number] {
      Log("stopping: received " + core::SignalName(number));
      CarryOut(member_->OnTerminate(Now(), config_.job.spec.grace_period));
    });
  }
  Status gang = OpenGang();
  if (!gang.ok()) return gang;
  Status memory = OpenMemory();
  if (!memory.ok()) return memory;
  Status opened = OpenCode();
  if (!opened.ok()) return opened;
  rejoin_.emplace(events_.get());
  runs_.emplace(&config_.job, events_.get());
  commits_.emplace(volume_ ? &*volume_ : nullptr, memory_.get(), config_.machine, events_.get());
  return OpenServers();
}

Status Agent::OpenRanks(const std::string& executable) {
  Result<topology::Machine> found = topology::Discover();
  topology::Machine machine =
      found.ok() ? std::move(*found) : topology::WithoutTopology(found.error().message);
  Result<std::unique_ptr<Spawner>> spawner = Spawner::Create();
  // The machine's kernel is too old, or it has no memory: another one may do.
  if (!spawner.ok()) return Error{ErrorKind::kBroken, spawner.error().message};
  spawner_ = std::move(*spawner);
  spawner_->RaiseOwnFileLimit();
  Result<std::unique_ptr<LiveTable>> table = LiveTable::Create();
  if (!table.ok()) return table.error();
  table_ = std::move(*table);
  Result<std::unique_ptr<AgentLogs>> logs = AgentLogs::Open(loop_.get(), config_);
  if (!logs.ok()) return logs.error();
  logs_ = std::move(*logs);
  if (!found.ok()) Log("binds to cores only: " + found.error().message);

  evidence_ = std::make_unique<EvidenceCollector>(loop_.get(), &config_, logs_->Logger());
  std::string socket_path = config_.run_dir + "/agent.sock";
  ranks_ = std::make_unique<LocalRanks>(loop_.get(), spawner_.get(), table_.get(), logs_->pump(),
                                        &config_, std::move(machine), socket_path, events_.get(),
                                        logs_->Logger());
  Result<std::unique_ptr<Guard>> guard = Guard::Start(
      loop_.get(), spawner_.get(), table_.get(), executable,
      [this](pid_t pid) { ranks_->SetGuard(pid); },
      [this](const std::string& reason) {
        Log("no guard could be started, so the ranks are killed: " + reason);
        CarryOut(member_->OnGuardKilled(Now()));
      });
  // The machine has no process left, or no memory: another one may have.
  if (!guard.ok()) return Error{ErrorKind::kBroken, guard.error().message};
  guard_ = std::move(*guard);

  const bool gpus = config_.job.spec.preflight.enabled && core::UsesGpus(config_.job.spec);
  measurer_ = std::make_unique<Measurer>(
      loop_.get(), spawner_.get(),
      Measurer::Options{.executable = executable,
                        .host = config_.advertise,
                        .machine = config_.machine,
                        .folder = config_.checkpoint_path,
                        .gpus = gpus,
                        .env = gpus ? ranks_->MachineEnvironment() : std::vector<std::string>()},
      [this](core::Measured measured) { CarryOut(member_->OnAnswer(Now(), std::move(measured))); },
      logs_->Logger());
  Result<std::unique_ptr<RankSocket>> progress =
      RankSocket::Listen(loop_.get(), socket_path, events_.get(), logs_->Logger());
  if (!progress.ok()) return progress.error();
  progress_ = std::move(*progress);
  return {};
}

Status Agent::OpenObjects() {
  if (config_.checkpoint_url.empty()) return {};
  Result<std::unique_ptr<FileWorker>> pruner = FileWorker::Create(loop_.get());
  if (!pruner.ok()) return pruner.error();
  objects_ = std::make_unique<ObjectStore>(
      loop_.get(), spawner_.get(), FindS3Program(), config_.checkpoint_url,
      std::move(store_variables_),
      ObjectStore::Handlers{.leave_out = [this](pid_t pid) { ranks_->LeaveOut(pid); },
                            .take_in = [this](pid_t pid) { ranks_->TakeIn(pid); }});
  const core::Checkpoint& checkpoint = config_.job.spec.checkpoint;
  bucket_.emplace(
      objects_.get(), config_.job_uid, checkpoint.resume, config_.first_attempt,
      CheckpointBucket::Limits{.keep = checkpoint.keep,
                               .every = checkpoint.keep_every,
                               .upload_bandwidth = checkpoint.upload_bandwidth
                                                       ? checkpoint.upload_bandwidth->milli() / 1000
                                                       : 0});
  pruner_ = std::move(*pruner);
  return {};
}

std::optional<CoordinatorHost::Storage> Agent::StorageOfCommits() {
  const auto machines = static_cast<uint32_t>(config_.job.spec.num_machines);
  if (volume_) {
    return CoordinatorHost::Storage{
        .begin =
            [volume = *volume_](const core::PrepareGeneration& next) {
              return volume.BeginGeneration(next.generation, next.earlier);
            },
        .finish =
            [volume = *volume_, machines](const core::FinishPersisting& finish) {
              return volume.FinishPersisting(volume.PersistDir(finish.to, finish.id), finish.to,
                                             finish.name, machines);
            }};
  }
  if (!bucket_) return std::nullopt;
  return CoordinatorHost::Storage{
      .begin =
          [bucket = *bucket_](const core::PrepareGeneration& next) {
            return bucket.BeginGeneration(next.generation, next.earlier);
          },
      .finish =
          [bucket = *bucket_, machines](const core::FinishPersisting& finish) {
            return bucket.FinishPersisting(finish.to, finish.name, machines);
          },
      .on_commit =
          [this](core::Generation generation) {
            ++prunes_;
            pruner_->Run([bucket = *bucket_, generation] { return bucket.Prune(generation); },
                         [this](const Status& pruned) { OnPruned(pruned); });
          }};
}

void Agent::OnPruned(const Status& pruned) {
  if (!pruned.ok()) Log("old checkpoints could not be deleted: " + pruned.error().message);
  --prunes_;
  departure_->Check();
}

void Agent::OpenOutputWatch() {
  const core::ProgressSource& progress = config_.job.spec.progress;
  if (progress.from != core::ProgressFrom::kAuto && progress.from != core::ProgressFrom::kOutput) {
    return;
  }
  auto patterns = std::make_shared<std::vector<core::CompiledPattern>>();
  for (const std::string& text : progress.patterns) {
    Result<core::CompiledPattern> pattern = core::CompileUserPattern(text);
    // A cluster's rules take what a newer RE2 may take, and this one may not.
    if (pattern.ok()) {
      patterns->push_back(std::move(*pattern));
    } else {
      Log("spec.progress.patterns: " + text + " " + pattern.error().message);
    }
  }
  output_ = std::make_unique<OutputWatch>(
      loop_.get(), std::move(patterns),
      [this](uint32_t rank, const core::OutputProgress& progress) {
        CarryOut(member_->OnProgress(Now(), rank_metrics_->OnOutput(rank, progress)));
        if (member_->watches_metrics() && !progress.derived) {
          CarryOut(member_->OnFigures(Now(), rank, progress.step, FiguresIn(progress.said)));
        }
        ranks_->OnStep(rank);
      });
  logs_->pump()->Watch([this](int rank, int stream, std::string_view bytes) {
    output_->Feed(static_cast<uint32_t>(rank), stream, bytes, BootTime());
  });
}

Status Agent::OpenGang() {
  Result<Key> key = LoadKey(config_);
  if (!key.ok()) return key.error();
  Result<TlsPskContext> server = TlsPskContext::Server(*key, core::GangIdentity(config_.job_uid));
  Result<TlsPskContext> client = TlsPskContext::Client(*key, core::GangIdentity(config_.job_uid));
  if (!server.ok()) return server.error();
  if (!client.ok()) return client.error();
  server_tls_.emplace(std::move(*server));
  client_tls_.emplace(std::move(*client));

  if (config_.machine == 0) {
    if (config_.job.spec.framework == core::Framework::kHorovod) {
      const core::Spec& spec = config_.job.spec;
      horovod_ = std::make_unique<HorovodStore>(loop_.get(), config_.advertise,
                                                static_cast<uint32_t>(spec.num_machines),
                                                static_cast<uint32_t>(spec.processes_per_machine));
    }
    auto host = std::make_unique<CoordinatorHost>(
        loop_.get(), ForCoordinator(config_), config_.advertise, StorageOfCommits(), files_.get(),
        events_.get(), events_.get(), logs_->Logger());
    coordinator_ = host.get();
    gang_ = std::move(host);
    world_ = std::make_unique<WorldWatch>(loop_.get(), &config_.job.spec, events_.get());
  } else {
    Result<Endpoint> endpoint = ParseEndpoint(config_.coordinator);
    if (!endpoint.ok()) return endpoint.error();
    gang_ = std::make_unique<WirePort>(loop_.get(), &*client_tls_, *endpoint,
                                       static_cast<uint32_t>(config_.job.spec.num_machines),
                                       events_.get(), std::random_device()());
  }
  gang_->Start();
  return {};
}

Status Agent::OpenMemory() {
  if (!KeepsMemory(config_)) return {};
  MemoryStore::Options options;
  options.run_dir = config_.run_dir;
  options.machine = config_.machine;
  options.size = static_cast<uint64_t>(config_.job.spec.checkpoint.memory.size->milli() / 1000);
  options.copies = MemoryCopies(config_);
  if (bucket_) {
    const auto machines = static_cast<uint32_t>(config_.job.spec.num_machines);
    options.fetch_stored = [bucket = *bucket_, machines](const core::MemoryPart& part,
                                                         const std::string& folder,
                                                         uint64_t limit) {
      return bucket.FetchPart(part, machines, folder, limit);
    };
  }
  Result<std::unique_ptr<MemoryStore>> memory =
      MemoryStore::Create(loop_.get(), &*client_tls_, std::move(options), events_.get());
  if (!memory.ok()) return memory.error();
  memory_ = std::move(*memory);
  return {};
}

Status Agent::OpenCode() {
  if (!SyncsCode(config_)) return {};
  Result<std::unique_ptr<CodeStore>> code =
      CodeStore::Create(loop_.get(), &*client_tls_, config_.run_dir, events_.get());
  if (!code.ok()) return code.error();
  code_ = std::move(*code);
  return {};
}

Status Agent::OpenServers() {
  StatusServer::Handlers status;
  if (code_) {
    status.code = [this](const HttpRequest& request, HttpResponder respond) {
      code_->Serve(request, std::move(respond));
    };
  }
  if (memory_) {
    status.memory = [this](const HttpRequest& request, HttpResponder respond) {
      memory_->Serve(request, std::move(respond));
    };
  }
  status.status = [this](bool by_machine) { return Status_(by_machine); };
  status.version = [this] { return Version(); };
  if (coordinator_) {
    status.desired = [this](const core::DesiredState& desired) {
      return coordinator_->OnDesiredState(desired);
    };
  }
  status_ = std::make_unique<StatusServer>(loop_.get(), std::move(status));
  Result<Endpoint> listen = ParseEndpoint(config_.listen);
  if (!listen.ok()) return listen.error();
  GangListener::Handlers handlers;
  handlers.on_member = [this](std::unique_ptr<FrameConnection> frames, const Endpoint& peer) {
    if (coordinator_) return coordinator_->Adopt(std::move(frames), peer);
    Log("a member at " + peer.ToString() + " was refused: this is not machine 0");
  };
  handlers.on_http = [this](std::unique_ptr<Connection> connection, std::string_view received) {
    status_->Adopt(std::move(connection), received);
  };
  Result<std::unique_ptr<GangListener>> listener = GangListener::Listen(
      loop_.get(), *listen, &*server_tls_, {}, std::move(handlers), logs_->Logger());
  if (!listener.ok()) return listener.error();
  listener_ = std::move(*listener);
  if (config_.metrics_listen.empty()) return {};
  Result<Endpoint> metrics = ParseEndpoint(config_.metrics_listen);
  if (!metrics.ok()) return metrics.error();
  std::vector<const prometheus::Collectable*> parts = {machine_metrics_.get(), rank_metrics_.get(),
                                                       logs_->pump(), listener_.get(),
                                                       &ranks_->parked()};
  if (output_) parts.push_back(output_.get());
  if (coordinator_) parts.push_back(&coordinator_->metrics());
  metrics_ =
      std::make_unique<MetricsServer>(loop_.get(),
                                      Labels{{"trainingjob", config_.job.metadata.name},
                                             {"machine", std::to_string(config_.machine)}},
                                      std::move(parts), [this] { return member_->welcomed(); });
  return metrics_->Listen(*metrics);
}

// ---- running ----

int Agent::Run() {
  loop_->Run();
  return departure_->exit() ? departure_->exit()->code : core::kExitReplace;
}

// The time for the member, who hears first whether the machine stood still since it was last asked.
Time Agent::Now() {
  const Duration still = standstill_.OnReading(ReadClocks(second_clock_));
  if (still > Duration::zero()) CarryOut(member_->OnStoodStill(BootTime(), still));
  return BootTime();
}

// Carries out an action of the member: one operator() for each kind, so that a new one doesn't
// compile before it is written here.
struct Agent::ActionVisitor {
  Agent& agent;

  void operator()(const core::SendToCoordinator& send) const {
    if (std::holds_alternative<core::ReportMessage>(send.message)) ++agent.member_version_;
    agent.gang_->Send(send.message);
  }
  void operator()(const core::Disconnect& disconnect) const {
    agent.Log(disconnect.reason);
    agent.gang_->Reconnect(disconnect.reason);
  }
  void operator()(const core::Spawn& spawn) const { agent.Start(spawn); }
  void operator()(const core::SpawnAgain& again) const {
    agent.ranks_->StartAgain(again.generation, again.rank, again.lease_end);
  }
  void operator()(const core::StopProcesses& stop) const {
    if (!stop.spared.empty()) agent.rejoin_->OnEnded(stop.spared);
    agent.ranks_->Stop(stop.generation, stop.kill_at, stop.spared, stop.sure);
  }
  void operator()(const core::SetLease& lease) const { agent.guard_->SetLeaseEnd(lease.end); }
  void operator()(const core::AnswerCommit& answer) const { agent.commits_->OnAnswer(answer); }
  void operator()(const core::FetchPart& fetch) const { agent.memory_->Fetch(fetch.fetch); }
  void operator()(const core::FetchVersion& fetch) const { agent.code_->Fetch(fetch.fetch); }
  void operator()(const core::DropParts& drop) const { agent.memory_->Drop(drop.parts); }
  void operator()(const core::PersistPart& persist) const { agent.Persist(persist.persist); }
  void operator()(const core::ExitAgent& exit) const { agent.Leave(exit); }
  void operator()(const core::CollectEvidence& collect) const {
    agent.evidence_->Collect(
        collect.generation, agent.RankProcesses(), collect.until,
        [&agent = agent, generation = collect.generation, look = collect.look](auto places) {
          core::Member& member = *agent.member_;
          agent.CarryOut(look ? member.OnLooked(agent.Now(), generation, std::move(places))
                              : member.OnEvidence(agent.Now(), generation, std::move(places)));
        });
  }
  void operator()(const core::MeasureMachine& measure) const {
    agent.measurer_->Measure(measure.measure);
  }
  void operator()(const core::RunCommand& run) const { agent.ranks_->Run(run.run); }
  void operator()(const core::AnswerRun& ran) const { agent.runs_->OnAnswer(ran); }
  void operator()(const core::DeliverFence& fence) const { agent.ranks_->DeliverFence(fence); }
  void operator()(const core::ProbePorts& probe) const {
    const auto& [generation, first, count] = probe.ports;
    agent.CarryOut(agent.member_->OnAnswer(
        agent.Now(), core::PortsTried{generation, first, FirstTakenPort(first, count)}));
  }
  void operator()(const core::MemberLog& log) const { agent.Log(log.line); }
};

void Agent::CarryOut(const core::MemberActions& actions) {
  for (const core::MemberAction& action : actions) std::visit(ActionVisitor{*this}, action);
  timer_->WakeAt(member_->NextWake());
  if (status_) status_->Notify();
}

void Agent::Persist(const core::Persist& persist) {
  if (bucket_) {
    return memory_->Persist(
        persist, [bucket = *bucket_, to = persist.to, name = persist.name](const auto& folders) {
          for (const auto& [machine, from] : folders) {
            Status written = bucket.WritePart(to, name, machine, from);
            if (!written.ok()) return written;
          }
          return Status();
        });
  }
  const std::string work = volume_->PersistDir(persist.to, persist.id);
  memory_->Persist(persist,
                   [volume = *volume_, work, first = config_.machine == 0](const auto& folders) {
                     if (first) volume.RemoveUnfinished(work);
                     return WriteParts(folders, work);
                   });
}

void Agent::Start(const core::Spawn& spawn) {
  measurer_->Stop();
  core::Start start = spawn.start;
  if (memory_) memory_->BeginGeneration();
  if (memory_ && start.memory.exists()) start.resume = memory_->OwnPart(start.memory);
  resume_ = start.resume;
  rank_metrics_->OnSpawn(member_->config().processes, static_cast<uint32_t>(spawn.kept.size()));
  if (output_) output_->BeginGeneration();
  rejoin_->BeginGeneration(start.generation);
  runs_->BeginGeneration(start.generation);
  if (code_ && !start.code.empty()) {
    const Status used = code_->Use(start.code);
    ranks_->RunIn(used.ok() ? Result<std::string>(code_->tree()) : used.error());
  }
  ranks_->Start(start, spawn.lease_end, spawn.kept);
  if (!world_) return;
  const auto port = static_cast<uint16_t>(start.master_port);
  const Result<Endpoint> master = MakeEndpoint(start.master_address, port);
  const size_t members = start.members.size();
  if (!master.ok()) return;
  world_->Begin(*master, members > 0 ? static_cast<int>(members) : config_.job.spec.num_machines);
}

// ---- what processes say ----

// Answers what a process says, likewise.
struct Agent::ProgressVisitor {
  Agent& agent;
  RankSocket::ClientId client;

  void operator()(const ProgressReport& report) const {
    const uint32_t per_machine = agent.member_->config().processes;
    if (report.rank / per_machine != agent.member_->first_rank() / per_machine) return;
    const core::ProgressFrom from = agent.config_.job.spec.progress.from;
    if (from == core::ProgressFrom::kOutput || from == core::ProgressFrom::kNever) {
      agent.rank_metrics_->OnFigures(report);
      return;
    }
    agent.CarryOut(agent.member_->OnProgress(agent.Now(), agent.rank_metrics_->OnReport(report)));
    if (report.step <= 0) return;
    if (agent.member_->watches_metrics()) {
      agent.CarryOut(
          agent.member_->OnFigures(agent.Now(), report.rank, report.step, FiguresIn(report)));
    }
    agent.ranks_->OnStep(report.rank);
    if (agent.output_) agent.output_->End(report.rank);
  }
  void operator()(const CommitQuestion& question) const {
    agent.commits_->OnQuestion(client, question);
  }
  void operator()(const EvidenceQuestion& evidence) const {
    agent.evidence_->Answer(
        agent.member_->generation(), agent.RankProcesses(),
        [&agent = agent, client = client, id = evidence.id](const Result<std::string>& file) {
          agent.progress_->Answer(client, EvidenceAnswer(id, file));
        });
  }
  void operator()(const GangQuestion& question) const {
    const auto answer = [&agent = agent, client = client, id = question.id,
                         version = agent.Version()](const Result<std::string>& file) {
      agent.progress_->Answer(client, GangAnswer(id, version, file));
    };
    if (agent.coordinator_ == nullptr) {
      return answer(Error::Unavailable("only machine 0's agent knows the gang"));
    }
    if (question.after != 0 && question.after == agent.Version()) return answer(std::string());
    const Duration age = BootTime() - agent.coordinator_->born();
    agent.evidence_->AnswerGang("{\"age\":" + std::to_string(Seconds(age)) + ",\"gang\":" +
                                    core::ToJson(agent.Status_(/*by_machine=*/true)) + "}\n",
                                answer);
  }
  void operator()(const LatestQuestion& latest) const {
    agent.progress_->Answer(client, LatestAnswer(latest.id, agent.resume_));
  }
  void operator()(const RunQuestion& run) const { agent.runs_->OnQuestion(client, run); }
  void operator()(const RejoinQuestion& rejoins) const {
    agent.rejoin_->OnQuestion(client, rejoins);
  }
  void operator()(const LeftQuestion& left) const { agent.rejoin_->OnQuestion(client, left); }
  void operator()(const PlaceReport& place) const {
    if (place.generation != agent.member_->generation().ToString()) return;
    agent.CarryOut(agent.member_->OnPlace(agent.Now(), {place.rank, place.place}));
  }
  void operator()(const CodeQuestion& code) const {
    agent.progress_->Answer(client, CodeAnswer(code.id, agent.TakeCode(code)));
  }
  void operator()(const EditorLeft& left) const {
    if (agent.coordinator_ != nullptr) agent.coordinator_->OnEditorLeft(left.receiver);
    agent.progress_->Answer(client, DoneAnswer(left.id));
  }
  void operator()(const DoneReport& done) const {
    agent.ranks_->OnDone(done);
    agent.progress_->Answer(client, DoneAnswer(done.id));
  }
};

// What can be refused is refused before any machine fetches it.
Status Agent::TakeCode(const CodeQuestion& question) {
  if (coordinator_ == nullptr) return Error::Invalid("only machine 0's agent takes code");
  if (!code_) return Error::Invalid("this job does not allow sync: create it with spec.sync: {}");
  core::CodeOffer offer{.digest = question.digest,
                        .replaces = question.replaces,
                        .by = question.by,
                        .words = question.words,
                        .watched = question.watched,
                        .receiver = question.incoming};
  if (Status allowed = coordinator_->coordinator().AllowsCode(offer); !allowed.ok()) return allowed;
  Result<CodeManifest> manifest = code_->Take(question.digest, question.incoming);
  if (!manifest.ok()) return manifest.error();
  const core::Spec& spec = config_.job.spec;
  const std::string original = OriginalFolder(spec.working_dir);
  for (const std::vector<std::string>* words : {&spec.command, &spec.args}) {
    if (const auto word = WordOfOriginal(*words, original, *manifest)) {
      return Error::Invalid("the job's command would run the image's " + *word +
                            "; create the job with a path relative to " +
                            (original.empty() ? "/" : original));
    }
  }
  offer.files = static_cast<uint32_t>(manifest->files.size());
  return coordinator_->OnCodeOffered(offer);
}

void Agent::OnProgress(RankSocket::ClientId client, const ProgressMessage& message) {
  std::visit(ProgressVisitor{*this, client}, message);
}

std::vector<RankProcess> Agent::RankProcesses() const {
  std::vector<RankProcess> processes;
  for (const RankView& view : ranks_->views()) processes.push_back({view.rank, view.pid});
  return processes;
}

// ---- leaving ----

void Agent::Leave(const core::ExitAgent& exit) {
  if (!departure_->Begin(exit)) return;
  Log("leaving with exit code " + std::to_string(exit.code) + ": " + exit.reason);
  measurer_->Stop();
  ranks_->DropParked();
  ranks_->Stop(member_->generation(), Time::min());
  departure_->Check();
}

void Agent::OnCoordinatorExit(const core::ExitCoordinator& exit) {
  coordinator_done_ = true;
  needs_epoch_ = exit.needs_epoch;
  Leave({exit.code, std::nullopt, exit.reason});
  departure_->Check();
}

Departure::Hold Agent::Hold() const {
  // Machine 0 leaves last on a verdict, and on a drain when no other machine's ranks need it.
  const bool coordinator_needed =
      coordinator_ && !coordinator_done_ &&
      (departure_->exit()->verdict.has_value() || !coordinator_->coordinator().MayExit());
  if (coordinator_needed || ranks_->busy() || prunes_ > 0) return Departure::Hold::kEvents;
  return logs_->idle() ? Departure::Hold::kNone : Departure::Hold::kDraining;
}

void Agent::Go() {
  if (objects_) objects_->Close();
  const Status told = last_message_.Write(core::ToJson(LastWords()));
  if (!told.ok()) Log(told.error().message);
  // What was sent in this round goes out at its end, before this.
  loop_->Post([this] { loop_->Post([this] { loop_->Stop(); }); });
}

core::Termination Agent::LastWords() const {
  core::Termination t;
  const core::ExitAgent& exit = *departure_->exit();
  t.exit_code = exit.code;
  t.machine = config_.machine;
  t.attempt = config_.attempt;
  t.generation = member_->generation();
  t.needs_epoch = needs_epoch_;
  t.reason = exit.reason;
  if (exit.verdict) {
    t.verdict = true;
    t.generation = exit.verdict->generation;
    t.reason = exit.verdict->reason;
    t.failure = exit.verdict->failure;
    t.ended = exit.verdict->ended;
  }
  // Another machine may be the first whose verdict the operator sees: START told it how many
  // generations there were.
  t.counters = coordinator_ ? coordinator_->coordinator().counters() : member_->counters();
  if (coordinator_) {
    t.unwritten = coordinator_->coordinator().unwritten();
    t.ended = core::LastEnded(coordinator_->coordinator().history(), -coordinator_->born());
  }
  t.progress = core::Summarize(Status_().progress);
  t.doubt = DoubtOfWorld();
  return t;
}

// ---- telling ----

std::string Agent::DoubtOfWorld() const {
  if (!world_) return "";
  const std::optional<core::Verdict>& verdict = coordinator_->coordinator().verdict();
  const bool succeeded = verdict && verdict->exit_code == core::kExitSuccess;
  return succeeded ? world_->DoubtOfSuccess() : world_->doubt();
}

core::GangStatus Agent::Status_(bool by_machine) const {
  if (coordinator_) {
    core::GangStatus status =
        core::StatusOf(coordinator_->coordinator(), BootTime(), coordinator_->born(), by_machine);
    status.version = Version();
    status.doubt = DoubtOfWorld();
    return status;
  }
  core::GangStatus status = core::StatusOf(*member_, BootTime());
  status.version = member_version_;
  return status;
}

uint64_t Agent::Version() const {
  if (!coordinator_) return member_version_;
  return coordinator_->coordinator().version() + (world_ && !world_->doubt().empty() ? 1 : 0);
}

}  // namespace lockstep::agent
