#include "operator/objects/service_objects.h"

#include "core/model/names.h"
#include "operator/objects/object_parts.h"

namespace lockstep::control {
namespace {

Json Port(const char* name, int number) {
  return {{"name", name}, {"port", number}, {"targetPort", number}, {"protocol", "TCP"}};
}

Json Service(const core::TrainingJob& job, const std::string& name, Json spec) {
  spec["publishNotReadyAddresses"] = true;
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", MetadataOf(job, name, core::JobLabels(job.metadata.name))},
          {"spec", std::move(spec)}};
}

}  // namespace

std::string HeadlessServiceObject(const core::TrainingJob& job) {
  const std::string& name = job.metadata.name;
  return DumpJson(Service(job, core::ServiceName(name),
                          {{"clusterIP", "None"},
                           // Else one without a selector is made to require both families, and a
                           // cluster that has one takes no later change of it.
                           {"ipFamilyPolicy", "PreferDualStack"},
                           {"ports", Json::array({Port(kGangPortName, core::kGangPort),
                                                  Port(kHttpPortName, core::kMetricsPort)})}}));
}

std::string CoordinatorServiceObject(const core::TrainingJob& job) {
  const std::string& name = job.metadata.name;
  return DumpJson(Service(
      job, core::CoordinatorServiceName(name),
      {{"type", "ClusterIP"}, {"ports", Json::array({Port(kGangPortName, core::kGangPort)})}}));
}

std::string CoordinatorServicePatch(std::string_view uid, uint32_t attempt) {
  const Json selector = {{"lockstep.dev/attempt", std::to_string(attempt)}};
  return DumpJson(Json{{"metadata", {{"uid", uid}}}, {"spec", {{"selector", selector}}}});
}

}  // namespace lockstep::control
