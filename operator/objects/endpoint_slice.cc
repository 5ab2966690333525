#include "operator/objects/endpoint_slice.h"

#include <utility>

#include "base/text/ascii.h"
#include "core/model/names.h"
#include "operator/objects/object_parts.h"

namespace lockstep::control {
namespace {

constexpr std::string_view kIpv6Suffix = "-ipv6";

Json SlicePort(const char* name, int number) {
  return {{"name", name}, {"port", number}, {"protocol", "TCP"}};
}

}  // namespace

std::string EndpointSliceName(std::string_view job, const core::SliceKey& key) {
  std::string name = key.coordinator ? core::CoordinatorServiceName(job)
                                     : std::string(job) + "-" + std::to_string(key.number);
  if (key.ipv6) name += kIpv6Suffix;
  return name;
}

std::optional<core::SliceKey> SliceKeyOf(std::string_view job, std::string_view name) {
  core::SliceKey key;
  key.ipv6 = name.ends_with(kIpv6Suffix);
  if (key.ipv6) name.remove_suffix(kIpv6Suffix.size());
  key.coordinator = name == core::CoordinatorServiceName(job);
  if (key.coordinator) return key;
  if (!name.starts_with(job)) return std::nullopt;
  name.remove_prefix(job.size());
  if (!name.starts_with('-')) return std::nullopt;
  const std::optional<uint32_t> number = ParseNumber<uint32_t>(name.substr(1));
  if (!number) return std::nullopt;
  key.number = *number;
  return key;
}

std::string EndpointSliceObject(const core::TrainingJob& job, const core::SliceKey& key,
                                const std::string& uid,
                                const std::vector<core::MachineEndpoint>& endpoints) {
  const std::string& name = job.metadata.name;
  Labels labels = core::JobLabels(name);
  labels["kubernetes.io/service-name"] =
      key.coordinator ? core::CoordinatorServiceName(name) : core::ServiceName(name);
  labels["endpointslice.kubernetes.io/managed-by"] = "lockstep.dev";
  // By which kube-proxy leaves it out.
  if (!key.coordinator) labels["service.kubernetes.io/headless"] = "";
  Json metadata = MetadataOf(job, EndpointSliceName(name, key), labels);
  if (!uid.empty()) metadata["uid"] = uid;
  // Names and numbers as the Service has them.
  Json ports = Json::array({SlicePort(kGangPortName, core::kGangPort)});
  if (!key.coordinator) ports.push_back(SlicePort(kHttpPortName, core::kMetricsPort));
  Json list = Json::array();
  for (const core::MachineEndpoint& each : endpoints) {
    // Ready, whether the pod is or not: the gang meets before any is.
    Json endpoint = {{"addresses", {each.address}},
                     {"conditions", {{"ready", true}}},
                     {"targetRef",
                      {{"kind", "Pod"},
                       {"namespace", job.metadata.name_space},
                       {"name", each.name},
                       {"uid", each.uid}}}};
    if (!each.node.empty()) endpoint["nodeName"] = each.node;
    if (!key.coordinator) {
      endpoint["hostname"] = core::HostName(name, static_cast<int>(each.machine));
    }
    list.push_back(std::move(endpoint));
  }
  return DumpJson(Json{{"apiVersion", "discovery.k8s.io/v1"},
                       {"kind", "EndpointSlice"},
                       {"metadata", std::move(metadata)},
                       {"addressType", key.ipv6 ? "IPv6" : "IPv4"},
                       {"ports", std::move(ports)},
                       {"endpoints", std::move(list)}});
}

}  // namespace lockstep::control
