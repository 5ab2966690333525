#include <algorithm>
#include <array>

#include "core/model/names.h"
#include "core/model/shortcuts.h"
#include "core/plan/agent_config.h"
#include "operator/objects/pod_parts.h"

namespace lockstep::control::pod {
namespace {

Json Environment(const core::Spec& spec, const std::string& config) {
  Json environment = Json::array();
  // The configuration refers to the address, so the address comes first.
  environment.push_back(
      {{"name", kIpVariable},
       {"valueFrom", {{"fieldRef", {{"apiVersion", "v1"}, {"fieldPath", "status.podIP"}}}}}});
  environment.push_back({{"name", "LOCKSTEP_CONFIG"}, {"value", config}});
  for (const core::EnvVar& variable : spec.env) {
    Json entry = {{"name", variable.name}};
    if (variable.value_from.IsNull()) {
      entry["value"] = variable.value;
    } else {
      entry["valueFrom"] = FromNode(variable.value_from);
    }
    environment.push_back(std::move(entry));
  }
  return environment;
}

// The resources of the whole machine, and the template's claims. Validate has checked that no
// product is too large.
Json Resources(const core::Spec& spec) {
  const core::ResourcesPerProcess& each = spec.resources_per_process;
  const int processes = spec.processes_per_machine;
  Json requests = Json::object();
  Json limits = Json::object();
  // Resources that kubelet counts in whole units can't be overcommitted, so their limit equals the
  // request.
  for (const auto& [name, amount] : spec.resources_per_machine) {
    requests[name] = limits[name] = amount.ToString();
  }
  if (each.gpu.value_or(0) > 0) {
    const int64_t gpus = int64_t{*each.gpu} * processes;
    requests[each.gpu_resource] = limits[each.gpu_resource] = std::to_string(gpus);
  }
  if (each.memory)
    requests["memory"] = limits["memory"] = each.memory->Times(processes)->ToString();
  if (each.cpu) {
    requests["cpu"] = each.cpu->Times(processes)->ToString();
    // A CPU limit throttles, but kubelet gives exclusive cores only to containers that have one.
    if (spec.topology.policy == core::TopologyPolicy::kRequired) limits["cpu"] = requests["cpu"];
  }
  Json resources = Json::object();
  if (const core::Node* claims = core::WorkerClaims(spec)) resources["claims"] = FromNode(*claims);
  if (!requests.empty()) resources["requests"] = std::move(requests);
  if (!limits.empty()) resources["limits"] = std::move(limits);
  return resources;
}

bool AddsSysAdmin(const Json& capabilities) {
  if (IsUnset(capabilities, "add")) return false;
  const Json& added = capabilities["add"];
  return std::any_of(added.begin(), added.end(), [](const Json& name) {
    return name == "SYS_ADMIN" || name == "CAP_SYS_ADMIN" || name == "ALL";
  });
}

const std::string& TrainerImage(const core::Spec& spec, const AgentDelivery& delivery) {
  return core::AsksForGpus(spec) && !delivery.cuda_trainer_image.empty()
             ? delivery.cuda_trainer_image
             : delivery.trainer_image;
}

// Security settings that the user's container leaves unset. User and group are not changed.
void Restrict(Json& worker) {
  Json& context = ObjectAt(worker, "securityContext");
  if (context.value("privileged", Json(false)) == true) return;
  Json& capabilities = ObjectAt(context, "capabilities");
  // The API server refuses `false` beside a capability that escalates by itself.
  if (!AddsSysAdmin(capabilities)) SetIfUnset(context, "allowPrivilegeEscalation", false);
  SetIfUnset(capabilities, "drop", Json::array({"ALL"}));
}

Json Port(const char* name, int number) {
  return {{"name", name}, {"containerPort", number}, {"protocol", "TCP"}};
}

}  // namespace

Json Worker(Json from_template, const core::TrainingJob& job, const AgentDelivery& delivery,
            const std::string& config) {
  const core::Spec& spec = job.spec;
  Json worker = std::move(from_template);
  worker["name"] = core::kWorkerContainer;
  worker["image"] = spec.image.empty() ? TrainerImage(spec, delivery) : spec.image;
  worker["command"] = Json::array({std::string(kAgentFolder) + "/lockstep-agent"});
  worker.erase("args");
  if (!spec.working_dir.empty()) worker["workingDir"] = spec.working_dir;
  worker["env"] = Environment(spec, config);
  for (const core::Node& source : spec.env_from) {
    ListAt(worker, "envFrom").push_back(FromNode(source));
  }
  if (const std::string& secret = spec.checkpoint.secret; !secret.empty()) {
    ListAt(worker, "envFrom")
        .push_back({{"prefix", core::kStorePrefix}, {"secretRef", {{"name", secret}}}});
  }
  worker["resources"] = Resources(spec);
  ListAt(worker, "ports").push_back(Port(kGangPortName, core::kGangPort));
  ListAt(worker, "ports").push_back(Port(kHttpPortName, core::kMetricsPort));
  Restrict(worker);
  return worker;
}

}  // namespace lockstep::control::pod
