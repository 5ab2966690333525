#include "worker/agent/ranks/rank_environment.h"

#include <algorithm>
#include <utility>

#include "base/net/free_port.h"
#include "base/text/endpoint.h"
#include "core/model/launch.h"
#include "worker/agent/processes/process_environment.h"
#include "worker/agent/processes/program.h"
#include "worker/agent/rank_socket/launcher_folder.h"
#include "worker/agent/storage/checkpoint_volume.h"
#include "worker/code/code_folder.h"

namespace lockstep::agent {

namespace {

std::string Variable(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& entry : environment) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return "";
}

// The part of the agent's environment that ranks inherit. Under `lockstep run` the shell's TMPDIR
// is left out, because ranks have their own (worker/place/run_folder.h). The shell's HOSTNAME may
// name another machine (worker/place/spawn.h), so it is set anew.
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

// Their code is there, not where the image has it.
void RunInFolder(SpawnRequest* request, const std::string& folder) {
  const std::string original = OriginalFolder(request->working_directory);
  const std::string path = PythonPathInTree(Variable(request->env, "PYTHONPATH"), original, folder);
  std::erase_if(request->env,
                [](const std::string& entry) { return entry.starts_with("PYTHONPATH="); });
  request->env.push_back("PYTHONPATH=" + path);
  request->working_directory = folder;
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

RankEnvironment::RankEnvironment(const core::AgentConfig* config, std::string socket_path,
                                 const RankBindings* bindings, const TemporaryFolders* temporary,
                                 const MpiServices* mpi)
    : config_(config),
      job_(config->job),
      socket_path_(std::move(socket_path)),
      bindings_(bindings),
      temporary_(temporary),
      mpi_(mpi),
      cache_dir_(config->cache_dir.empty() ? config->run_dir + "/caches" : config->cache_dir),
      inherited_(Inherited(*config)),
      interface_(config->interface) {}

void RankEnvironment::FindNetwork() {
  // NCCL's processes share its default port with those of other jobs on the node's network.
  const Result<uint32_t> port = FindFreePort(static_cast<uint64_t>(BootTime().count()));
  if (port.ok()) ras_address_ = "127.0.0.1:" + std::to_string(*port);
  const std::vector<topology::Nic> near = bindings_->NearNics();
  if (interface_.empty()) interface_ = topology::SocketInterface(near);
  // To NCCL all machines with one host name are one, which must be told one thing.
  if (!config_->shares_computer) {
    rdma_devices_ = topology::RdmaDevices(bindings_->machine().nics, near);
  }
}

void RankEnvironment::BeginGeneration(const core::Start& start) {
  start_ = start;
  if (!start.members.empty()) job_.spec.num_machines = static_cast<int32_t>(start.members.size());
}

Status RankEnvironment::MakeLauncher() {
  if (!core::StartsFromMachine0(config_->job.spec) || config_->machine != 0) return {};
  const Result<std::string> own = OwnProgram();
  if (!own.ok()) return own.error();
  Result<std::string> folder =
      MakeLauncherFolder(config_->run_dir, start_.generation, config_->job, *own, socket_path_);
  if (!folder.ok()) return folder.error();
  launcher_dir_ = std::move(*folder);
  return {};
}

Json RankEnvironment::ChangesSince(const std::vector<std::string>& old, int local_rank) const {
  Json changes = Json::object();
  const auto name = [](const std::string& entry) { return entry.substr(0, entry.find('=')); };
  for (const std::string& entry : old) changes[name(entry)] = nullptr;
  for (const std::string& entry : RequestFor(local_rank).env) {
    if (std::ranges::find(old, entry) != old.end()) {
      changes.erase(name(entry));
    } else {
      changes[name(entry)] = entry.substr(entry.find('=') + 1);
    }
  }
  return changes;
}

core::ProcessIdentity RankEnvironment::Identity(const core::Start& start, int local_rank) const {
  const topology::BindingPlan& plan = bindings_->plan();
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
  id.skip_steps = start.skip_steps;
  id.local_dir = config_->run_dir + "/local";
  id.cache_dir = cache_dir_;
  id.error_file = config_->run_dir + "/errors/" + start.generation.ToString() + "-" +
                  std::to_string(RankOf(local_rank)) + ".json";
  id.temporary_dir = temporary_->Of(RankOf(local_rank));
  id.launcher_dir = launcher_dir_;
  id.omp_threads = binding.omp_threads;
  id.has_gpu = binding.has_gpu;
  id.gpu_variables = config_->job.spec.topology.gpu_visibility == core::GpuVisibility::kIsolated
                         ? binding.isolated
                         : plan.visible;
  id.interface = interface_;
  mpi_->AddTo(&id);
  id.ras_address = ras_address_;
  id.rdma_devices = rdma_devices_;
  return id;
}

SpawnRequest RankEnvironment::RequestFor(const core::Start& start, int local_rank) const {
  SpawnRequest request;
  request.env = core::BuildEnvironment(inherited_, job_, Identity(start, local_rank));
  request.argv = core::BuildCommand(job_, request.env);
  request.working_directory = config_->job.spec.working_dir;
  if (!code_folder_.empty()) RunInFolder(&request, code_folder_);
  return request;
}

std::optional<SpawnFailure> RankEnvironment::SetPath(SpawnRequest* request) {
  auto found = FindProgram(request->argv.front(), Variable(request->env, "PATH"),
                           request->working_directory);
  if (auto* failure = std::get_if<SpawnFailure>(&found)) return std::move(*failure);
  request->path = std::get<std::string>(found);
  return std::nullopt;
}

std::vector<std::string> RankEnvironment::OfMachine() const {
  core::ProcessIdentity identity = Identity(core::Start{}, 0);
  identity.gpu_variables = bindings_->plan().visible;
  std::vector<std::string> all = core::BuildEnvironment(inherited_, config_->job, identity);
  std::erase_if(all, [](const std::string& variable) {
    return core::IsReserved(std::string_view(variable).substr(0, variable.find('=')));
  });
  return all;
}

Result<SpawnRequest> RankEnvironment::AnyRequest() const {
  SpawnRequest request = RequestFor(core::Start{}, 0);
  if (const auto failure = SetPath(&request)) return Error::NotFound(failure->message);
  return request;
}

uint32_t RankEnvironment::RankOf(int local_rank) const {
  return start_.PlaceOf(config_->machine) *
             static_cast<uint32_t>(core::ProcessesStarted(config_->job.spec)) +
         static_cast<uint32_t>(local_rank);
}

}  // namespace lockstep::agent
