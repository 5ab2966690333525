#include "tests/operator/objects/pod_fixture.h"

namespace lockstep::control {
namespace {

json Spare(const core::TrainingJob& job, uint32_t number = 0,
           const std::vector<std::string>& avoid = {}, const AgentDelivery& delivery = {}) {
  Result<std::string> body = SparePodObject(job, "agent:1", number, avoid, delivery);
  if (!body.ok()) {
    ADD_FAILURE() << body.error().message;
    return json::object();
  }
  return json::parse(*body);
}

const char* const kTemplate = R"(
metadata: {labels: {team: vision}, annotations: {note: mine}}
spec:
  priorityClassName: high
  preemptionPolicy: Never
  hostname: me
  readinessGates: [{conditionType: example.com/balanced}]
  schedulingGates: [{name: example.com/admitted}]
  serviceAccountName: puller
  nodeSelector: {pool: gpus}
  tolerations: [{key: gpu, operator: Exists}]
  initContainers:
  - {name: fetch, image: fetch:1, command: [fetch], env: [{name: TOKEN, value: secret}]}
  - {name: proxy, image: proxy:1, restartPolicy: Always, resources: {requests: {cpu: 1}}}
  containers:
  - name: logs
    image: logs:1
    args: [--follow]
    readinessProbe: {httpGet: {port: 80}}
    volumeMounts: [{name: data, mountPath: /data}]
  - name: worker
    securityContext: {runAsUser: 7}
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
)";

core::TrainingJob Whole() {
  core::TrainingJob job = MakeJob("gpt")
                              .Machines(2)
                              .Processes(8)
                              .Gpus(1)
                              .Memory("8Gi")
                              .Env("TOKEN", "secret")
                              .Checkpoints("ckpt", "/checkpoints")
                              .Template(kTemplate);
  job.spec.priority_class_name = "urgent";
  job.spec.image_pull_secrets = {{"registry"}};
  return job;
}

TEST(SparePod, HasAMachinesImageResourcesAndPlace) {
  const json spare = Spare(Whole());
  const json machine = Pod(Whole());
  EXPECT_EQ(WorkerOf(spare)["image"], "train:7");
  EXPECT_EQ(WorkerOf(spare)["resources"], WorkerOf(machine)["resources"]);
  EXPECT_EQ(WorkerOf(spare)["securityContext"], WorkerOf(machine)["securityContext"]);
  for (const char* key : {"nodeSelector", "tolerations", "imagePullSecrets", "serviceAccountName",
                          "restartPolicy", "securityContext"}) {
    EXPECT_EQ(spare["spec"][key], machine["spec"][key]) << key;
  }
  EXPECT_EQ(spare["metadata"]["annotations"], json::parse(R"({"note": "mine"})"));
  EXPECT_EQ(spare["metadata"]["ownerReferences"], machine["metadata"]["ownerReferences"]);
}

TEST(SparePod, EveryContainerHoldsItsImageAndItsResourcesAndRunsAnAgentThatWaits) {
  const json spec = Spare(Whole())["spec"];
  const json waits = json::parse(R"(["/lockstep/lockstep-agent", "--spare"])");
  ASSERT_EQ(spec["containers"].size(), 2U);
  for (const json& container : spec["containers"]) EXPECT_EQ(container["command"], waits);
  EXPECT_EQ(Named(spec["containers"], "logs"), json::parse(R"({
    "name": "logs", "image": "logs:1", "command": ["/lockstep/lockstep-agent", "--spare"],
    "volumeMounts": [{"name": "lockstep-agent", "mountPath": "/lockstep", "readOnly": true}]})"));
  const json& first = spec["initContainers"];
  ASSERT_EQ(first.size(), 3U);
  EXPECT_EQ(first[0]["name"], "lockstep-install");
  EXPECT_EQ(first[0]["image"], "agent:1");
  EXPECT_EQ(first[1]["image"], "fetch:1");
  EXPECT_EQ(first[1]["command"][1], "--version") << "it ends at once";
  EXPECT_EQ(first[2]["command"], waits) << "a sidecar";
  EXPECT_EQ(first[2]["resources"]["requests"]["cpu"], 1);
}

TEST(SparePod, GetsNothingOfTheJobThatItDoesNotNeed) {
  const json spare = Spare(Whole());
  EXPECT_EQ(spare["spec"]["volumes"],
            json::parse(R"([{"name": "lockstep-agent", "emptyDir": {}}])"));
  EXPECT_EQ(spare.dump().find("secret"), std::string::npos) << "no variable, no key";
  EXPECT_FALSE(WorkerOf(spare).contains("env"));
  EXPECT_EQ(spare["spec"]["automountServiceAccountToken"], false);
}

TEST(SparePod, NamesTheJobsClaimsIfToldToAndMountsNone) {
  const json spare = json::parse(*SparePodObject(Whole(), "agent:1", 0, {}, {}, true));
  EXPECT_EQ(spare["spec"]["volumes"], json::parse(R"([
      {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
      {"name": "lockstep-checkpoints", "persistentVolumeClaim": {"claimName": "ckpt"}},
      {"name": "lockstep-agent", "emptyDir": {}}])"));
  for (const json& container : spare["spec"]["containers"]) {
    for (const json& mount : container["volumeMounts"]) EXPECT_EQ(mount["name"], "lockstep-agent");
  }
}

TEST(SparePod, NoSelectorOfTheJobsMachinesMeetsIt) {
  const json metadata = Spare(Whole(), 3)["metadata"];
  EXPECT_EQ(metadata["name"], "gpt-spare3");
  EXPECT_EQ(metadata["labels"], json::parse(R"({
    "lockstep.dev/job": "gpt.spare", "lockstep.dev/spare": "3",
    "app.kubernetes.io/name": "lockstep", "app.kubernetes.io/instance": "gpt.spare",
    "app.kubernetes.io/component": "spare",
    "app.kubernetes.io/managed-by": "lockstep-operator"})"));
}

TEST(SparePod, PushesNothingOutAndHasNoName) {
  const json spec = Spare(Whole())["spec"];
  for (const char* key : {"priorityClassName", "preemptionPolicy", "hostname", "subdomain"}) {
    EXPECT_FALSE(spec.contains(key)) << key;
  }
}

TEST(SparePod, HasThePriorityThatSparesAreGiven) {
  AgentDelivery delivery;
  delivery.spare_priority_class = "spares";
  EXPECT_EQ(Spare(Whole(), 0, {}, delivery)["spec"]["priorityClassName"], "spares");
}

TEST(SparePod, WaitsForNoGateThatSomebodyOpensForAMachine) {
  const json spec = Spare(Whole())["spec"];
  for (const char* key : {"readinessGates", "schedulingGates"}) {
    EXPECT_FALSE(spec.contains(key)) << key;
    EXPECT_TRUE(Pod(Whole())["spec"].contains(key)) << key;
  }
}

TEST(SparePod, StandsApartFromMachinesAndSparesAsMachinesDo) {
  const json apart = Spare(MakeJob("gpt").Gpus(1))["spec"]["affinity"]["podAntiAffinity"];
  EXPECT_EQ(apart, json::parse(R"({"requiredDuringSchedulingIgnoredDuringExecution": [
    {"labelSelector": {"matchLabels": {"lockstep.dev/job": "gpt"}},
     "topologyKey": "kubernetes.io/hostname"},
    {"labelSelector": {"matchLabels": {"lockstep.dev/job": "gpt.spare"}},
     "topologyKey": "kubernetes.io/hostname"}]})"));
  const json preferred = Spare(MakeJob("gpt"))["spec"]["affinity"]["podAntiAffinity"];
  EXPECT_EQ(preferred["preferredDuringSchedulingIgnoredDuringExecution"].size(), 2U);
  EXPECT_FALSE(Spare(MakeJob("gpt").Place(core::OnePerNode::kNone))["spec"].contains("affinity"));
}

TEST(SparePod, PortsOfTheNodeAreHeldAndNoneIsScraped) {
  const json ports = WorkerOf(Spare(MakeJob("gpt")))["ports"];
  EXPECT_EQ(ports, json::parse(R"([{"containerPort": 7070, "protocol": "TCP"},
                                   {"containerPort": 7071, "protocol": "TCP"}])"));
}

TEST(SparePod, TheMachineThatFollowsPrefersItsNodeAboveAllElse) {
  core::TrainingJob job = MakeJob("gpt");
  job.spec.placement.topology_key = "zone";
  PodRequest request = Request(1, 2);
  request.avoid_nodes = {"a"};
  request.spare_node = "b";
  const json affinity = Pod(job, request)["spec"]["affinity"];
  EXPECT_EQ(affinity["nodeAffinity"], json::parse(R"({
    "preferredDuringSchedulingIgnoredDuringExecution": [
      {"weight": 1, "preference": {"matchFields": [
        {"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}},
      {"weight": 100, "preference": {"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": ["b"]}]}}]})"));
  EXPECT_EQ(affinity["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]["weight"],
            1);
}

}  // namespace
}  // namespace lockstep::control
