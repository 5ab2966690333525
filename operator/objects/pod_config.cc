#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "base/text/endpoint.h"
#include "core/model/names.h"
#include "core/model/shortcuts.h"
#include "core/plan/agent_config.h"
#include "operator/objects/key_secret.h"
#include "operator/objects/pod_parts.h"

namespace lockstep::control::pod {
namespace {

constexpr std::string_view kVariableName = "LOCKSTEP_CONFIG";
// How much longer an address can be than its placeholder.
constexpr size_t kLongestAddress = INET6_ADDRSTRLEN;

core::Node TemplateWithClaims(const core::Node& claims) {
  core::Node worker = core::Node::Map();
  worker.Add("name", core::Node::String(core::kWorkerContainer));
  worker.Add("resources", core::Node::Map()).Add("claims", claims);
  core::Node containers = core::Node::List();
  containers.Append(std::move(worker));
  core::Node pod_template = core::Node::Map();
  pod_template.Add("spec", core::Node::Map()).Add("containers", std::move(containers));
  return pod_template;
}

bool MountsSharedMemory(const core::Spec& spec) {
  const core::Node* worker = core::WorkerContainer(spec);
  const core::Node* mounts = worker == nullptr ? nullptr : worker->Find("volumeMounts");
  return mounts != nullptr && std::ranges::any_of(mounts->items(), [](const core::Node& mount) {
           const core::Node* path = mount.Find("mountPath");
           return path != nullptr && path->text() == kSharedMemory;
         });
}

// What an agent reads of its job, field by field: an agent older than the operator refuses a field
// that it does not know. The template and the environment are in the container already, with values
// that kubelet has filled in; of the template, that its worker has claims counts.
core::TrainingJob JobForAgent(const core::TrainingJob& job, const core::JobStatus& status) {
  core::TrainingJob slim;
  slim.metadata.name = job.metadata.name;
  slim.metadata.name_space = job.metadata.name_space;
  slim.metadata.uid = job.metadata.uid;
  const auto copy = [&](auto... fields) { ((slim.spec.*fields = job.spec.*fields), ...); };
  using core::Spec;
  copy(&Spec::num_machines, &Spec::processes_per_machine, &Spec::command, &Spec::args,
       &Spec::working_dir, &Spec::launch, &Spec::framework, &Spec::mpi, &Spec::prestart,
       &Spec::prestart_exclude, &Spec::preflight, &Spec::trainer, &Spec::resources_per_process,
       &Spec::topology, &Spec::success_policy, &Spec::success_role, &Spec::roles,
       &Spec::failure_policy, &Spec::checkpoint, &Spec::grace_period, &Spec::health, &Spec::logs);
  if (const core::Node* claims = core::WorkerClaims(job.spec)) {
    slim.spec.template_ = TemplateWithClaims(*claims);
  }
  // An agent that has it may clear its /dev/shm (worker/agent/ranks/shared_memory.h).
  if (!MountsSharedMemory(job.spec)) slim.spec.shared_memory = job.spec.shared_memory;
  // The gang's values, not the present spec's: a pod is made for one number of machines, and a
  // coordinator must wait for the leases of the one before it.
  if (status.replicas > 0) slim.spec.num_machines = status.replicas;
  Duration& lost_after = slim.spec.failure_policy.machine_lost_after;
  lost_after = std::max(lost_after, status.machine_lost_after);
  return slim;
}

// Escapes every `$` except that of our own reference.
std::string Escaped(const std::string& json) {
  std::string escaped;
  escaped.reserve(json.size() + 64);
  for (const char c : json) {
    escaped += c;
    if (c == '$') escaped += c;
  }
  // Quotes in a text of the job have a backslash, so none of them matches this.
  const std::string reference = R"("advertise":"$$()" + std::string(kIpVariable) + ")\"";
  const size_t dollars = escaped.find(reference) + reference.find("$$");
  return escaped.erase(dollars, 1);
}

}  // namespace

Result<std::string> ConfigVariable(const core::TrainingJob& job, const core::JobStatus& status,
                                   const PodRequest& request, const std::string& termination_path) {
  const std::string coordinator = EndpointText(request.coordinator_ip, core::kGangPort);
  if (const auto address = ParseEndpoint(coordinator); !address.ok()) {
    return Error::Invalid("the coordinator's address " + address.error().message);
  }
  const bool ipv6 = request.coordinator_ip.find(':') != std::string::npos;
  const std::string any = ipv6 ? "::" : "0.0.0.0";

  core::AgentConfig config;
  config.job_uid = job.metadata.uid;
  config.job = JobForAgent(job, status);
  config.machine = request.machine;
  config.attempt = request.attempt;
  config.machine0_attempt = status.attempts.Of(0);
  config.epoch = status.epoch;
  for (int m = 0; request.machine == 0 && m < config.job.spec.num_machines; ++m) {
    config.attempts.push_back(status.attempts.Of(m));
  }
  config.predecessor_dead = request.predecessor_dead;
  config.key_file = std::string(kKeyFolder) + "/" + kKeyEntry;
  config.coordinator = coordinator;
  config.listen = EndpointText(any, core::kGangPort);
  config.metrics_listen = EndpointText(any, core::kMetricsPort);
  config.advertise = "$(" + std::string(kIpVariable) + ")";
  // A folder within the volume: the volume's own belongs to root, and the agent needs its own.
  config.run_dir = std::string(kRunFolder) + "/agent";
  config.cache_dir = std::string(kCacheFolder) + "/compiled";
  config.checkpoint_path = job.spec.checkpoint.path;
  config.log_path = job.spec.logs.path;
  config.termination_path = termination_path;

  const std::string json = core::ToJson(config);
  const size_t size = kVariableName.size() + 1 + json.size() + kLongestAddress + 1;
  if (size > kMaxConfigVariable) {
    return Error::TooLarge(
        "the job is too large for a pod's environment: " + std::to_string(json.size()) +
        " bytes without template and env, and 128 KiB is the most; write long "
        "arguments into a file");
  }
  return Escaped(json);
}

}  // namespace lockstep::control::pod
