// lockstep-objects ADDRESS [--image-volume | --avoid NODE]: all that the operator makes for the
// TrainingJob on standard input (YAML or JSON), as one List in JSON, for tests that show it to an
// API server. ADDRESS stands for the coordinator Service's, NODE for one where machines failed
// before. A job that cannot run is told on standard error; exit 1.
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/model/parse.h"
#include "core/validate/validate.h"
#include "operator/objects/key_secret.h"
#include "operator/objects/pod_object.h"
#include "operator/objects/service_objects.h"

namespace lockstep::control {
namespace {

using Json = nlohmann::json;

core::JobStatus FirstStatus(const core::TrainingJob& job) {
  core::JobStatus status;
  status.epoch = 1;
  status.replicas = job.spec.num_machines;
  status.attempts.Reset(job.spec.num_machines, 1);
  status.agent.image = "agent:1";
  return status;
}

Result<Json> Objects(const core::TrainingJob& job, PodRequest request,
                     const AgentDelivery& delivery) {
  const std::vector<uint8_t> master_key(32, 1);
  const Result<Key> key = GangKey(master_key, job);
  if (!key.ok()) return key.error();
  request.key_secret = KeySecretName(job, *key);
  Json items = {Json::parse(KeySecretObject(job, *key)), Json::parse(HeadlessServiceObject(job)),
                Json::parse(CoordinatorServiceObject(job))};
  for (int machine = 0; machine < job.spec.num_machines; ++machine) {
    request.machine = static_cast<uint32_t>(machine);
    const Result<std::string> pod = PodObject(job, FirstStatus(job), request, delivery);
    if (!pod.ok()) return pod.error();
    items.push_back(Json::parse(*pod));
  }
  for (int spare = 0; spare < job.spec.spare_machines; ++spare) {
    const Result<std::string> pod =
        SparePodObject(job, "agent:1", static_cast<uint32_t>(spare), request.avoid_nodes, delivery);
    if (!pod.ok()) return pod.error();
    items.push_back(Json::parse(*pod));
  }
  return Json{{"apiVersion", "v1"}, {"kind", "List"}, {"items", std::move(items)}};
}

int Main(const std::vector<std::string>& arguments) {
  PodRequest request;
  AgentDelivery delivery{.trainer_image = "trainer:1"};
  if (arguments.size() == 2 && arguments[1] == "--image-volume") {
    delivery.method = AgentDelivery::Method::kImageVolume;
  } else if (arguments.size() == 3 && arguments[1] == "--avoid") {
    request.avoid_nodes = {arguments[2]};
  } else if (arguments.size() != 1) {
    std::cerr << "lockstep-objects ADDRESS [--image-volume | --avoid NODE] < JOB\n";
    return 2;
  }
  request.coordinator_ip = arguments[0];
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  core::ParseResult parsed = core::ParseYaml(text);
  if (parsed.ok()) parsed.problems = core::Validate(*parsed.job, core::Target::kCluster);
  if (!parsed.ok()) {
    std::cerr << core::Format(parsed.problems, "stdin");
    return 1;
  }
  const Result<Json> objects = Objects(*parsed.job, std::move(request), delivery);
  if (!objects.ok()) {
    std::cerr << objects.error().message << "\n";
    return 1;
  }
  std::cout << objects->dump() << "\n";
  return 0;
}

}  // namespace
}  // namespace lockstep::control

int main(int argc, char** argv) { return lockstep::control::Main({argv + 1, argv + argc}); }
