// A pod as the builder makes it, and its parts by name. For the tests of operator/objects/pod_*.
#ifndef LOCKSTEP_TESTS_OPERATOR_OBJECTS_POD_FIXTURE_H_
#define LOCKSTEP_TESTS_OPERATOR_OBJECTS_POD_FIXTURE_H_

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "operator/objects/pod_object.h"
#include "tests/operator/policy/make_job.h"

namespace lockstep::control {

using nlohmann::json;

inline PodRequest Request(uint32_t machine = 0, uint32_t attempt = 1) {
  return {.machine = machine,
          .attempt = attempt,
          .coordinator_ip = "10.96.0.7",
          .key_secret = "gpt-key-1b9d6bcd"};
}

inline json Pod(const core::TrainingJob& job, const PodRequest& request = Request(),
                const AgentDelivery& delivery = {}) {
  Result<std::string> body = PodObject(job, StatusOf(job), request, delivery);
  if (!body.ok()) {
    ADD_FAILURE() << body.error().message;
    return json::object();
  }
  return json::parse(*body);
}

// GPUs by a resource claim (DRA).
inline constexpr const char* kWithClaims = R"(
spec:
  resourceClaims: [{name: gpus, resourceClaimTemplateName: eight-gpus}]
  containers: [{name: worker, resources: {claims: [{name: gpus, request: all}]}}]
)";

// The item of a list whose `name` it is; null when there is none.
inline json Named(const json& list, const std::string& name) {
  for (const json& item : list) {
    if (item.value("name", "") == name) return item;
  }
  return nullptr;
}

inline json WorkerOf(const json& pod) { return Named(pod["spec"]["containers"], "worker"); }

}  // namespace lockstep::control

#endif  // LOCKSTEP_TESTS_OPERATOR_OBJECTS_POD_FIXTURE_H_
