#include "tests/operator/objects/pod_fixture.h"

namespace lockstep::control {
namespace {

using core::OnePerNode;

json Spread(const core::TrainingJob& job) {
  return Pod(job)["spec"].value("topologySpreadConstraints", json::array());
}

const char* WhenUnsatisfiable(const core::TrainingJob& job) {
  const json constraints = Spread(job);
  if (constraints.empty()) return "";
  return constraints[0]["whenUnsatisfiable"] == "DoNotSchedule" ? "Required" : "Preferred";
}

TEST(OnePerNode, IsRequiredWithGpusAndElsePreferred) {
  EXPECT_STREQ(WhenUnsatisfiable(MakeJob("gpt")), "Preferred");
  EXPECT_STREQ(WhenUnsatisfiable(MakeJob("gpt").Gpus(1)), "Required");
  EXPECT_STREQ(WhenUnsatisfiable(MakeJob("gpt").Gpus(0)), "Preferred");
  EXPECT_STREQ(WhenUnsatisfiable(MakeJob("gpt").Template(kWithClaims)), "Required");
  EXPECT_STREQ(WhenUnsatisfiable(MakeJob("gpt").Place(OnePerNode::kRequired)), "Required");
  EXPECT_STREQ(WhenUnsatisfiable(MakeJob("gpt").Gpus(1).Place(OnePerNode::kPreferred)),
               "Preferred");
  EXPECT_STREQ(WhenUnsatisfiable(MakeJob("gpt").Gpus(1).Place(OnePerNode::kNone)), "");
}

TEST(OnePerNode, CountsFromZeroOnAnyNumberOfNodes) {
  EXPECT_EQ(Spread(MakeJob("gpt").Place(OnePerNode::kRequired)), json::parse(R"([{
    "topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "minDomains": 1000000,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"lockstep.dev/job": "gpt"}}}])"));
}

TEST(OnePerNode, LeavesTheUsersConstraints) {
  const char* pod_template = R"(
spec:
  topologySpreadConstraints:
  - {topologyKey: zone, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}
  - {topologyKey: kubernetes.io/hostname, maxSkew: 2, whenUnsatisfiable: ScheduleAnyway}
)";
  const json same = Spread(MakeJob("gpt").Template(pod_template));
  ASSERT_EQ(same.size(), 2u);
  EXPECT_EQ(same[1]["maxSkew"], 2);
  EXPECT_EQ(Spread(MakeJob("gpt").Gpus(1).Template(pod_template)).size(), 3u);
}

TEST(TopologyKey, KeepsTheMachinesTogether) {
  core::TrainingJob job = MakeJob("gpt");
  EXPECT_FALSE(Pod(job)["spec"].contains("affinity"));
  job.spec.placement.topology_key = "zone";
  EXPECT_EQ(Pod(job)["spec"]["affinity"], json::parse(R"({"podAffinity": {
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": {
      "topologyKey": "zone",
      "labelSelector": {"matchLabels": {"lockstep.dev/job": "gpt"}}}}]}})"));
  job.spec.placement.topology_mode = core::TopologyMode::kRequired;
  EXPECT_EQ(Pod(job)["spec"]["affinity"], json::parse(R"({"podAffinity": {
    "requiredDuringSchedulingIgnoredDuringExecution": [{
      "topologyKey": "zone",
      "labelSelector": {"matchLabels": {"lockstep.dev/job": "gpt"}}}]}})"));
}

// "key weight" of each preference, then "required key".
std::vector<std::string> Together(const core::TrainingJob& job) {
  const json affinity = Pod(job)["spec"]["affinity"]["podAffinity"];
  const auto list = [&](const std::string& when) {
    return affinity.value(when + "DuringSchedulingIgnoredDuringExecution", json::array());
  };
  std::vector<std::string> found;
  for (const json& each : list("preferred")) {
    const std::string key = each["podAffinityTerm"]["topologyKey"];
    found.push_back(key + " " + std::to_string(each["weight"].get<int>()));
  }
  for (const json& each : list("required")) {
    found.push_back("required " + each["topologyKey"].get<std::string>());
  }
  return found;
}

TEST(TopologyLevels, WeighLessTheFartherTheyAreAndTheFarthestIsWhatMayBeRequired) {
  core::TrainingJob job = MakeJob("gpt");
  job.spec.placement.topology_key = "rack";
  job.spec.placement.topology_levels = {"row", "block"};
  EXPECT_EQ(Together(job), (std::vector<std::string>{"rack 100", "row 50", "block 25"}));
  job.spec.placement.topology_mode = core::TopologyMode::kRequired;
  EXPECT_EQ(Together(job), (std::vector<std::string>{"rack 100", "row 50", "required block"}));
  job.spec.placement.topology_levels.assign(8, "far");  // as many as may be
  EXPECT_EQ(Together(job)[7], "far 1") << "a weight is at least 1";
}

TEST(Replacement, GoesElsewhereWhileOtherNodesFit) {
  PodRequest request = Request(1, 2);
  request.avoid_nodes = {"a", "b"};
  const core::TrainingJob job = MakeJob("gpt").Machines(2).Template(R"(
spec:
  affinity:
    nodeAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - {weight: 1, preference: {matchExpressions: [{key: ssd, operator: Exists}]}}
)");
  const json affinity = Pod(job, request)["spec"]["affinity"]["nodeAffinity"];
  EXPECT_FALSE(affinity.contains("requiredDuringSchedulingIgnoredDuringExecution"));
  const json& preferred = affinity["preferredDuringSchedulingIgnoredDuringExecution"];
  ASSERT_EQ(preferred.size(), 2u);
  EXPECT_EQ(preferred[1], json::parse(R"({"weight": 100, "preference": {"matchFields": [
    {"key": "metadata.name", "operator": "NotIn", "values": ["a"]},
    {"key": "metadata.name", "operator": "NotIn", "values": ["b"]}]}})"));
}

}  // namespace
}  // namespace lockstep::control
