#include "operator/objects/pod_object.h"

#include <gmock/gmock.h>

#include "tests/operator/objects/pod_fixture.h"

namespace lockstep::control {
namespace {

using testing::HasSubstr;

TEST(Pod, TheInstallerAsksForWhatItsNamespaceDemandsAndNeverForLessThanItNeeds) {
  AgentDelivery delivery;
  delivery.resources = {{"cpu", *Quantity::Parse("1m")},
                        {"memory", *Quantity::Parse("100Mi")},
                        {"ephemeral-storage", *Quantity::Parse("1Gi")}};
  const json pod = Pod(MakeJob("gpt").Machines(2), Request(), delivery);
  const json amounts = {{"cpu", "100m"}, {"memory", "100Mi"}, {"ephemeral-storage", "1Gi"}};
  EXPECT_EQ(pod["spec"]["initContainers"][0]["resources"],
            json({{"requests", amounts}, {"limits", amounts}}));
}

TEST(Pod, OfASmallJobIsThis) {
  json pod = Pod(MakeJob("gpt").Machines(2));
  // A configuration is looked at on its own.
  pod["spec"]["containers"][0]["env"][1]["value"] = "...";
  EXPECT_EQ(pod, json::parse(R"({
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
      "name": "gpt-0",
      "namespace": "team",
      "labels": {
        "lockstep.dev/job": "gpt", "lockstep.dev/machine": "0", "lockstep.dev/attempt": "1",
        "app.kubernetes.io/name": "lockstep", "app.kubernetes.io/instance": "gpt",
        "app.kubernetes.io/component": "machine",
        "app.kubernetes.io/managed-by": "lockstep-operator"},
      "annotations": {"kubectl.kubernetes.io/default-container": "worker"},
      "ownerReferences": [{
        "apiVersion": "lockstep.dev/v1alpha1", "kind": "TrainingJob", "name": "gpt",
        "uid": "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", "controller": true,
        "blockOwnerDeletion": true}]},
    "spec": {
      "restartPolicy": "Never",
      "hostname": "gpt-0",
      "subdomain": "gpt",
      "terminationGracePeriodSeconds": 135,
      "automountServiceAccountToken": false,
      "enableServiceLinks": false,
      "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
      "topologySpreadConstraints": [{
        "topologyKey": "kubernetes.io/hostname", "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"lockstep.dev/job": "gpt"}}}],
      "initContainers": [{
        "name": "lockstep-install",
        "image": "agent:1",
        "imagePullPolicy": "IfNotPresent",
        "command": ["/lockstep-agent", "--install", "/lockstep"],
        "resources": {"requests": {"cpu": "100m", "memory": "32Mi"},
                      "limits": {"cpu": "100m", "memory": "32Mi"}},
        "securityContext": {
          "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
          "readOnlyRootFilesystem": true, "runAsNonRoot": true, "runAsUser": 65532,
          "runAsGroup": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "lockstep-agent", "mountPath": "/lockstep"}]}],
      "containers": [{
        "name": "worker",
        "image": "train:7",
        "command": ["/lockstep/lockstep-agent"],
        "env": [
          {"name": "LOCKSTEP_POD_IP",
           "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}},
          {"name": "LOCKSTEP_CONFIG", "value": "..."}],
        "ports": [{"name": "lockstep-gang", "containerPort": 7070, "protocol": "TCP"},
                  {"name": "lockstep-http", "containerPort": 7071, "protocol": "TCP"}],
        "resources": {},
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
          {"name": "lockstep-agent", "mountPath": "/lockstep", "readOnly": true},
          {"name": "lockstep-key", "mountPath": "/etc/lockstep", "readOnly": true},
          {"name": "lockstep-run", "mountPath": "/run/lockstep"},
          {"name": "lockstep-cache", "mountPath": "/var/cache/lockstep"}]}],
      "volumes": [
        {"name": "lockstep-agent", "emptyDir": {}},
        {"name": "lockstep-key",
         "secret": {"secretName": "gpt-key-1b9d6bcd", "defaultMode": 292}},
        {"name": "lockstep-run", "emptyDir": {"medium": "Memory"}},
        {"name": "lockstep-cache", "emptyDir": {}}]}})"))
      << pod.dump(2);
}

TEST(Pod, HasNoNameButItsOwnWithoutHostnames) {
  const core::TrainingJob job = MakeJob("gpt").Machines(2);
  core::TrainingJob without = job;
  without.spec.network.hostnames = false;
  const PodRequest request = Request(1, 7);
  json expected = Pod(job, request);
  EXPECT_EQ(expected["spec"].erase("hostname"), 1U);
  EXPECT_EQ(expected["spec"].erase("subdomain"), 1U);
  EXPECT_EQ(Pod(without, request), expected);
}

TEST(Pod, OfALaterEpochSaysItsAttempt) {
  const json pod = Pod(MakeJob("gpt").Machines(4), Request(3, 7));
  EXPECT_EQ(pod["metadata"]["name"], "gpt-3-r7");
  EXPECT_EQ(pod["metadata"]["labels"]["lockstep.dev/attempt"], "7");
  EXPECT_EQ(pod["spec"]["hostname"], "gpt-3");
}

TEST(Pod, IsTheSameForTheSameArguments) {
  const core::TrainingJob job = MakeJob("gpt").Machines(4).Gpus(8).Env("A", "b");
  EXPECT_EQ(*PodObject(job, StatusOf(job), Request(), {}),
            *PodObject(job, StatusOf(job), Request(), {}));
}

TEST(Pod, TakesTheAgentFromAnImageVolume) {
  const json pod = Pod(MakeJob("gpt"), Request(),
                       {.method = AgentDelivery::Method::kImageVolume, .pull_policy = "Always"});
  EXPECT_FALSE(pod["spec"].contains("initContainers"));
  EXPECT_EQ(Named(pod["spec"]["volumes"], "lockstep-agent")["image"],
            json::parse(R"({"reference": "agent:1", "pullPolicy": "Always"})"));
}

TEST(Pod, GivesTheAgentTimeAfterTheGracePeriod) {
  const auto grace = [](Duration period) {
    const json pod =
        Pod(MakeJob("gpt").With([&](core::Spec& spec) { spec.grace_period = period; }));
    return pod["spec"]["terminationGracePeriodSeconds"].get<int>();
  };
  EXPECT_EQ(grace(seconds(0)), 15);
  EXPECT_EQ(grace(milliseconds(1500)), 17);
  EXPECT_EQ(grace(minutes(10)), 615);
}

TEST(Pod, HoldsTheTemplateAroundTheWorker) {
  const json pod = Pod(MakeJob("gpt").Template(R"(
metadata:
  labels: {team: vision, lockstep.dev/job: stolen}
  annotations: {note: mine, kubectl.kubernetes.io/default-container: logs}
spec:
  serviceAccountName: trainer
  automountServiceAccountToken: true
  enableServiceLinks: true
  restartPolicy: Always
  hostname: other
  terminationGracePeriodSeconds: 1
  tolerations: [{key: gpu, operator: Exists}]
  nodeSelector: {pool: a100}
  runtimeClassName: nvidia
  securityContext: {runAsUser: 1000, seccompProfile: {type: Unconfined}}
  initContainers: [{name: fetch, image: fetch:1}]
  containers:
  - {name: logs, image: logs:1}
  - name: worker
    imagePullPolicy: Never
    ports: [{name: debug, containerPort: 5678}]
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, hostPath: {path: /data}}]
)"));
  const json& metadata = pod["metadata"];
  EXPECT_EQ(metadata["labels"]["team"], "vision");
  EXPECT_EQ(metadata["labels"]["lockstep.dev/job"], "gpt");
  EXPECT_EQ(metadata["annotations"]["note"], "mine");
  EXPECT_EQ(metadata["annotations"]["kubectl.kubernetes.io/default-container"], "logs");
  const json& spec = pod["spec"];
  EXPECT_EQ(spec["serviceAccountName"], "trainer");
  EXPECT_EQ(spec["automountServiceAccountToken"], true);
  EXPECT_EQ(spec["enableServiceLinks"], true);
  EXPECT_EQ(spec["restartPolicy"], "Never");
  EXPECT_EQ(spec["hostname"], "gpt-0");
  EXPECT_EQ(spec["terminationGracePeriodSeconds"], 135);
  EXPECT_EQ(spec["tolerations"], json::parse(R"([{"key": "gpu", "operator": "Exists"}])"));
  EXPECT_EQ(spec["nodeSelector"], json({{"pool", "a100"}}));
  EXPECT_EQ(spec["runtimeClassName"], "nvidia");
  EXPECT_EQ(spec["securityContext"],
            json::parse(R"({"runAsUser": 1000, "seccompProfile": {"type": "Unconfined"}})"));
  EXPECT_EQ(spec["initContainers"][0]["name"], "lockstep-install");
  EXPECT_EQ(spec["initContainers"][1]["name"], "fetch");
  EXPECT_EQ(spec["containers"][0], json::parse(R"({"name": "logs", "image": "logs:1"})"));
  EXPECT_EQ(spec["containers"][1]["name"], "worker");
  EXPECT_EQ(spec["containers"][1]["imagePullPolicy"], "Never");
  EXPECT_EQ(spec["containers"][1]["ports"][0]["name"], "debug");
  EXPECT_EQ(spec["containers"][1]["ports"].size(), 3u);
  EXPECT_EQ(spec["containers"][1]["volumeMounts"][0]["mountPath"], "/data");
  EXPECT_EQ(spec["volumes"][0]["name"], "data");
}

TEST(Pod, PutsTheWorkerBeforeTheSidecarsOfATemplateWithoutOne) {
  const json pod = Pod(MakeJob("gpt").Template("spec: {containers: [{name: logs, image: l}]}"));
  ASSERT_EQ(pod["spec"]["containers"].size(), 2u);
  EXPECT_EQ(pod["spec"]["containers"][0]["name"], "worker");
}

TEST(Pod, TakesWhatTheSpecSaysOfThePod) {
  const json pod = Pod(MakeJob("gpt").With([](core::Spec& spec) {
    spec.priority_class_name = "high";
    spec.scheduler_name = "volcano";
    spec.image_pull_secrets = {{"registry"}};
  }));
  EXPECT_EQ(pod["spec"]["priorityClassName"], "high");
  EXPECT_EQ(pod["spec"]["schedulerName"], "volcano");
  EXPECT_EQ(pod["spec"]["imagePullSecrets"], json::parse(R"([{"name": "registry"}])"));
}

TEST(Pod, WithNullsInItsTemplateIsLikeOneWithout) {
  const json pod = Pod(MakeJob("gpt").Template(R"(
metadata: {labels: null}
spec: {securityContext: null, containers: [{name: worker, volumeMounts: null,
                                             securityContext: {capabilities: null}}]}
)"));
  EXPECT_EQ(pod, Pod(MakeJob("gpt")));
}

TEST(Pod, IsRefusedWithATemplateOfWrongTypes) {
  for (const char* yaml : {"spec: 5", "spec: {containers: 5}", "spec: {containers: [5]}",
                           "spec: {containers: [{name: worker, volumeMounts: {}}]}",
                           "metadata: {labels: 5}", "spec: {affinity: 5}"}) {
    const core::TrainingJob job = MakeJob("gpt").Template(yaml).With(
        [](core::Spec& spec) { spec.placement.topology_key = "zone"; });
    Result<std::string> pod = PodObject(job, StatusOf(job), Request(), {});
    ASSERT_FALSE(pod.ok()) << yaml << *pod;
    EXPECT_THAT(pod.error().message, HasSubstr("spec.template is not a pod template")) << yaml;
  }
}

}  // namespace
}  // namespace lockstep::control
