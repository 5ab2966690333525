#include <arpa/inet.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/text/endpoint.h"
#include "core/model/fields.h"
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

using core::Spec;

// An agent older than the operator refuses an unknown field, so it gets only the fields that it
// knows.
constexpr std::tuple kTold(&Spec::num_machines, &Spec::processes_per_machine, &Spec::command,
                           &Spec::args, &Spec::working_dir, &Spec::launch, &Spec::framework,
                           &Spec::mpi, &Spec::prestart, &Spec::prestart_exclude, &Spec::preflight,
                           &Spec::trainer, &Spec::resources_per_process, &Spec::topology,
                           &Spec::success_policy, &Spec::success_role, &Spec::roles,
                           &Spec::failure_policy, &Spec::elastic, &Spec::checkpoint,
                           &Spec::grace_period, &Spec::health, &Spec::logs, &Spec::progress,
                           &Spec::sync);
// The operator's alone, or in the container already, with values that kubelet has filled in. What
// an agent reads of two of them, JobForAgent adds.
constexpr std::tuple kWithheld(&Spec::image, &Spec::env, &Spec::env_from, &Spec::image_pull_secrets,
                               &Spec::template_, &Spec::resources_per_machine, &Spec::shared_memory,
                               &Spec::placement, &Spec::scheduling, &Spec::network,
                               &Spec::spare_machines, &Spec::suspend, &Spec::restart_request,
                               &Spec::active_deadline_seconds, &Spec::ttl_seconds_after_finished,
                               &Spec::clean_pod_policy, &Spec::priority_class_name,
                               &Spec::scheduler_name, &Spec::managed_by);
static_assert(std::tuple_size_v<decltype(kTold)> + std::tuple_size_v<decltype(kWithheld)> ==
                  std::tuple_size_v<decltype(core::kFields<Spec>)>,
              "a new field of the spec is told to agents, or withheld from them");

core::TrainingJob JobForAgent(const core::TrainingJob& job, const core::JobStatus& status,
                              const std::string& newest_image) {
  core::TrainingJob slim;
  slim.metadata.name = job.metadata.name;
  slim.metadata.name_space = job.metadata.name_space;
  slim.metadata.uid = job.metadata.uid;
  std::apply([&](auto... fields) { ((slim.spec.*fields = job.spec.*fields), ...); }, kTold);
  if (const core::Node* claims = core::WorkerClaims(job.spec)) {
    slim.spec.template_ = TemplateWithClaims(*claims);
  }
  // An agent that has it may clear its /dev/shm (worker/agent/storage/shared_memory.h).
  if (!MountsSharedMemory(job.spec)) slim.spec.shared_memory = job.spec.shared_memory;
  // The gang's values, not the present spec's: a pod is made for one number of machines, and a
  // coordinator must wait for the leases of the one before it.
  if (status.replicas > 0) slim.spec.num_machines = status.replicas;
  // The gang also needs to know whether machines may be left out.
  if (!status.elastic) {
    slim.spec.elastic.reset();
  } else if (!slim.spec.elastic) {
    slim.spec.elastic.emplace();
  }
  Duration& lost_after = slim.spec.failure_policy.machine_lost_after;
  lost_after = std::max(lost_after, status.machine_lost_after);
  // The operator's alone.
  slim.spec.failure_policy.node_health = core::FailurePolicy().node_health;
  // They can be added to a job whose agent is too old for them, and would end it. An agent that
  // knows them gets them by PUT /gang before the next START.
  if (!newest_image.empty() && status.agent.image != newest_image) {
    std::erase_if(slim.spec.failure_policy.rules,
                  [](const core::FailureRule& rule) { return !rule.metric.empty(); });
  }
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
                                   const PodRequest& request, const AgentDelivery& delivery,
                                   const std::string& termination_path) {
  const std::string coordinator = EndpointText(request.coordinator_ip, core::kGangPort);
  if (const auto address = ParseEndpoint(coordinator); !address.ok()) {
    return Error::Invalid("the coordinator's address " + address.error().message);
  }
  const bool ipv6 = request.coordinator_ip.find(':') != std::string::npos;
  const std::string any = ipv6 ? "::" : "0.0.0.0";

  core::AgentConfig config;
  config.job_uid = job.metadata.uid;
  config.job = JobForAgent(job, status, delivery.newest_image);
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
  config.checkpoint_url = job.spec.checkpoint.url;
  config.log_path = job.spec.logs.path;
  config.termination_path = termination_path;

  const std::string json = core::ToJson(config);
  const size_t size = kVariableName.size() + 1 + json.size() + kLongestAddress + 1;
  if (size > kMaxConfigVariable) {
    return Error::TooLarge(
        "the job is too large for a pod's environment: " + std::to_string(json.size()) +
        " bytes without template and env, the limit is 128 KiB; write long arguments into a file");
  }
  return Escaped(json);
}

}  // namespace lockstep::control::pod
