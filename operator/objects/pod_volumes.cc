#include <algorithm>
#include <utility>

#include "core/model/names.h"
#include "core/model/shortcuts.h"
#include "operator/objects/pod_parts.h"

namespace lockstep::control::pod {
namespace {

// Readable by any user, since the image's user is unknown. Only this container mounts it.
constexpr int kReadable = 0444;

// Copies the agent's file to the pod's own folder. Requests are limits, so that it takes no pod out
// of the Guaranteed class.
Json Installer(const std::string& image, const AgentDelivery& delivery) {
  const Json amounts = InstallerAmounts(delivery);
  const Json security = {{"allowPrivilegeEscalation", false},
                         {"capabilities", {{"drop", Json::array({"ALL"})}}},
                         {"readOnlyRootFilesystem", true},
                         {"runAsNonRoot", true},
                         {"runAsUser", 65532},
                         {"runAsGroup", 65532},
                         {"seccompProfile", {{"type", "RuntimeDefault"}}}};
  const Json mount = {{"name", kAgentVolume}, {"mountPath", kAgentFolder}};
  return {{"name", core::kInstallContainer},
          {"image", image},
          {"imagePullPolicy", delivery.pull_policy},
          {"command", Json::array({"/lockstep-agent", "--install", kAgentFolder})},
          {"resources", {{"requests", amounts}, {"limits", amounts}}},
          {"securityContext", security},
          {"volumeMounts", Json::array({mount})}};
}

Json AgentSource(const std::string& image, const AgentDelivery& delivery, Json& spec) {
  if (delivery.method == AgentDelivery::Method::kImageVolume) {
    return {{"image", {{"reference", image}, {"pullPolicy", delivery.pull_policy}}}};
  }
  Json& containers = ListAt(spec, "initContainers");
  containers.insert(containers.begin(), Installer(image, delivery));
  return {{"emptyDir", Json::object()}};
}

bool HasMountAt(const Json& worker, const std::string& path) {
  if (IsUnset(worker, "volumeMounts")) return false;
  const Json& mounts = worker["volumeMounts"];
  return std::any_of(mounts.begin(), mounts.end(),
                     [&](const Json& mount) { return mount.value("mountPath", "") == path; });
}

class Volumes {
 public:
  Volumes(Json& spec, Json& worker)
      : volumes_(ListAt(spec, "volumes")), mounts_(ListAt(worker, "volumeMounts")) {}

  void Add(const char* name, const std::string& path, Json source, bool read_only = false) {
    Json mount = {{"name", name}, {"mountPath", path}};
    if (read_only) mount["readOnly"] = true;
    mounts_.push_back(std::move(mount));
    source["name"] = name;
    volumes_.push_back(std::move(source));
  }

 private:
  Json& volumes_;
  Json& mounts_;
};

}  // namespace

void AddAgent(const std::string& agent_image, const AgentDelivery& delivery, Json& spec,
              Json& worker) {
  Volumes(spec, worker)
      .Add(kAgentVolume, kAgentFolder, AgentSource(agent_image, delivery, spec),
           /*read_only=*/true);
}

void AddVolumes(const core::TrainingJob& job, const std::string& agent_image,
                const std::string& key_secret, const AgentDelivery& delivery, Json& spec,
                Json& worker) {
  const bool own_shared_memory = HasMountAt(worker, kSharedMemory);
  AddAgent(agent_image, delivery, spec, worker);
  Volumes volumes(spec, worker);
  volumes.Add("lockstep-key", kKeyFolder,
              {{"secret", {{"secretName", key_secret}, {"defaultMode", kReadable}}}},
              /*read_only=*/true);
  volumes.Add("lockstep-run", kRunFolder, {{"emptyDir", {{"medium", "Memory"}}}});
  // On disk: compilers keep up to gigabytes, which the pod's memory limit has no room for.
  volumes.Add("lockstep-cache", kCacheFolder, {{"emptyDir", Json::object()}});
  if (const auto& size = job.spec.shared_memory; size && !own_shared_memory) {
    volumes.Add("lockstep-shm", kSharedMemory,
                {{"emptyDir", {{"medium", "Memory"}, {"sizeLimit", size->ToString()}}}});
  }
  if (const core::Checkpoint& checkpoint = job.spec.checkpoint; !checkpoint.claim.empty()) {
    volumes.Add("lockstep-checkpoints", checkpoint.path,
                {{"persistentVolumeClaim", {{"claimName", checkpoint.claim}}}});
  }
}

}  // namespace lockstep::control::pod

namespace lockstep::control {

std::map<std::string, std::string> InstallerAmounts(const AgentDelivery& delivery) {
  if (delivery.method == AgentDelivery::Method::kImageVolume) return {};
  std::map<std::string, Quantity> amounts = {
      {"cpu", Quantity::FromMilli(100)},
      {"memory", Quantity::FromUnits(32 << 20, Quantity::Format::kBinary)}};
  for (const auto& [resource, amount] : delivery.resources) {
    Quantity& asked = amounts[resource];
    asked = std::max(asked, amount);
  }
  std::map<std::string, std::string> texts;
  for (const auto& [resource, amount] : amounts) texts[resource] = amount.ToString();
  return texts;
}

}  // namespace lockstep::control
