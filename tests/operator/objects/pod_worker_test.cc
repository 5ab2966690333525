#include "tests/operator/objects/pod_fixture.h"

namespace lockstep::control {
namespace {

json Resources(const core::TrainingJob& job) { return WorkerOf(Pod(job))["resources"]; }

TEST(PodResources, AreThoseOfAllItsProcesses) {
  EXPECT_EQ(Resources(MakeJob("gpt")
                          .Processes(8)
                          .Gpus(1)
                          .Cpu("12")
                          .Memory("110Gi")
                          .PerMachine("rdma/hca", "1")
                          .PerMachine("hugepages-2Mi", "5Gi")),
            json::parse(R"({
    "requests": {"cpu": "96", "memory": "880Gi", "nvidia.com/gpu": "8", "rdma/hca": "1",
                 "hugepages-2Mi": "5Gi"},
    "limits": {"memory": "880Gi", "nvidia.com/gpu": "8", "rdma/hca": "1",
               "hugepages-2Mi": "5Gi"}})"));
}

TEST(PodResources, AreLimitsTooWhereAlignmentIsRequired) {
  core::TrainingJob job = MakeJob("gpt").Processes(2).Cpu("2").Memory("1Gi");
  job.spec.topology.policy = core::TopologyPolicy::kRequired;
  EXPECT_EQ(Resources(job), json::parse(R"({"requests": {"cpu": "4", "memory": "2Gi"},
                                            "limits": {"cpu": "4", "memory": "2Gi"}})"));
}

TEST(PodResources, NameTheGpuThatIsAskedFor) {
  core::TrainingJob job = MakeJob("gpt").Processes(4).Gpus(2);
  job.spec.resources_per_process.gpu_resource = "amd.com/gpu";
  EXPECT_EQ(Resources(job)["limits"], json({{"amd.com/gpu", "8"}}));
  job.spec.resources_per_process.gpu = 0;
  EXPECT_EQ(Resources(job), json::object());
}

TEST(PodResources, KeepTheResourceClaimsOfTheTemplate) {
  EXPECT_EQ(Resources(MakeJob("gpt").Memory("1Gi").Template(kWithClaims)), json::parse(R"({
    "claims": [{"name": "gpus", "request": "all"}],
    "requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}})"));
  EXPECT_EQ(Pod(MakeJob("gpt").Template(kWithClaims))["spec"]["resourceClaims"], json::parse(R"([
    {"name": "gpus", "resourceClaimTemplateName": "eight-gpus"}])"));
}

TEST(PodWorker, HasTheUsersEnvironmentBehindOurs) {
  const json worker = WorkerOf(
      Pod(MakeJob("gpt").Env("PRICE", "$$5 for $(LOCKSTEP_POD_IP)").With([](core::Spec& spec) {
        spec.env.emplace_back();
        spec.env.back().name = "TOKEN";
        spec.env.back().value_from = MakeJob::Yaml("secretKeyRef: {name: s, key: k}");
        spec.env_from = {MakeJob::Yaml("configMapRef: {name: common}")};
        spec.working_dir = "/work";
      })));
  ASSERT_EQ(worker["env"].size(), 4u);
  EXPECT_EQ(worker["env"][2], (json{{"name", "PRICE"}, {"value", "$$5 for $(LOCKSTEP_POD_IP)"}}));
  EXPECT_EQ(worker["env"][3], json::parse(R"({
    "name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}})"));
  EXPECT_EQ(worker["envFrom"], json::parse(R"([{"configMapRef": {"name": "common"}}])"));
  EXPECT_EQ(worker["workingDir"], "/work");
}

TEST(PodWorker, RunsTheTrainersImageWhereTheJobNamesNone) {
  core::TrainingJob job = MakeJob("gpt");
  job.spec.image.clear();
  job.spec.command.clear();
  job.spec.trainer.emplace();
  EXPECT_EQ(WorkerOf(Pod(job, Request(), {.trainer_image = "trainer:1"}))["image"], "trainer:1");
}

TEST(PodWorker, RunsTheCudaTrainersImageWhereTheJobNamesNoneAndAsksForGpus) {
  AgentDelivery delivery{.trainer_image = "trainer:1", .cuda_trainer_image = "cuda:1"};
  core::TrainingJob job = MakeJob("gpt");
  job.spec.resources_per_process.gpu = 1;
  EXPECT_EQ(WorkerOf(Pod(job, Request(), delivery))["image"], job.spec.image);
  job.spec.image.clear();
  job.spec.command.clear();
  job.spec.trainer.emplace();
  EXPECT_EQ(WorkerOf(Pod(job, Request(), delivery))["image"], "cuda:1");
  delivery.cuda_trainer_image.clear();
  EXPECT_EQ(WorkerOf(Pod(job, Request(), delivery))["image"], "trainer:1");
  delivery.cuda_trainer_image = "cuda:1";
  job.spec.resources_per_process.gpu = 0;
  EXPECT_EQ(WorkerOf(Pod(job, Request(), delivery))["image"], "trainer:1");
  job.spec.template_ = MakeJob::Yaml(kWithClaims);
  EXPECT_EQ(WorkerOf(Pod(job, Request(), delivery))["image"], "cuda:1");
}

TEST(PodWorker, HasSharedMemoryWithinItsMemory) {
  core::TrainingJob job = MakeJob("gpt").Memory("32Gi");
  job.spec.shared_memory = *Quantity::Parse("16Gi");
  json pod = Pod(job);
  EXPECT_EQ(Named(pod["spec"]["volumes"], "lockstep-shm")["emptyDir"],
            json::parse(R"({"medium": "Memory", "sizeLimit": "16Gi"})"));
  EXPECT_EQ(Named(WorkerOf(pod)["volumeMounts"], "lockstep-shm")["mountPath"], "/dev/shm");
  EXPECT_EQ(WorkerOf(pod)["resources"]["limits"]["memory"], "32Gi");
}

TEST(PodWorker, KeepsTheUsersOwnSharedMemory) {
  core::TrainingJob job = MakeJob("gpt").Template(R"(
spec:
  containers: [{name: worker, volumeMounts: [{name: shm, mountPath: /dev/shm}]}]
  volumes: [{name: shm, emptyDir: {medium: Memory}}]
)");
  job.spec.shared_memory = *Quantity::Parse("16Gi");
  const json pod = Pod(job);
  EXPECT_TRUE(Named(WorkerOf(pod)["volumeMounts"], "lockstep-shm").is_null());
  EXPECT_TRUE(Named(pod["spec"]["volumes"], "lockstep-shm").is_null());
}

TEST(PodWorker, MountsTheCheckpointClaim) {
  json pod = Pod(MakeJob("gpt").Checkpoints("ckpt", "/checkpoints"));
  EXPECT_EQ(Named(pod["spec"]["volumes"], "lockstep-checkpoints")["persistentVolumeClaim"],
            json({{"claimName", "ckpt"}}));
  EXPECT_EQ(Named(WorkerOf(pod)["volumeMounts"], "lockstep-checkpoints"),
            json::parse(R"({"name": "lockstep-checkpoints", "mountPath": "/checkpoints"})"));

  pod = Pod(MakeJob("gpt").Checkpoints("", "/mine"));
  EXPECT_TRUE(Named(pod["spec"]["volumes"], "lockstep-checkpoints").is_null());
}

TEST(PodWorker, HasTheObjectStoresSecretUnderNamesThatTheAgentKeepsFromItsRanks) {
  core::TrainingJob job = MakeJob("gpt");
  job.spec.env_from = {MakeJob::Yaml("configMapRef: {name: common}")};
  job.spec.checkpoint.memory.size = Quantity::FromUnits(1);
  job.spec.checkpoint.url = "s3://bucket/gpt";
  EXPECT_EQ(WorkerOf(Pod(job))["envFrom"],
            json::parse(R"([{"configMapRef": {"name": "common"}}])"));
  job.spec.checkpoint.secret = "bucket";
  EXPECT_EQ(WorkerOf(Pod(job))["envFrom"], json::parse(R"([
    {"configMapRef": {"name": "common"}},
    {"prefix": "LOCKSTEP_STORE_", "secretRef": {"name": "bucket"}}])"));
}

struct SecurityCase {
  const char* name;
  const char* given;
  const char* made;
};

TEST(PodWorker, IsRestrictedWhereTheUserSaysNothing) {
  const SecurityCase cases[] = {
      {"nothing", "{}",
       R"({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}})"},
      {"a user", "{runAsUser: 0, runAsNonRoot: false}",
       R"({"runAsUser": 0, "runAsNonRoot": false, "allowPrivilegeEscalation": false,
           "capabilities": {"drop": ["ALL"]}})"},
      {"a capability", "{capabilities: {add: [IPC_LOCK]}}",
       R"({"allowPrivilegeEscalation": false,
           "capabilities": {"add": ["IPC_LOCK"], "drop": ["ALL"]}})"},
      {"capabilities kept", "{capabilities: {drop: [NET_RAW]}}",
       R"({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["NET_RAW"]}})"},
      {"escalation wanted", "{allowPrivilegeEscalation: true}",
       R"({"allowPrivilegeEscalation": true, "capabilities": {"drop": ["ALL"]}})"},
      {"an escalating capability", "{capabilities: {add: [SYS_ADMIN]}}",
       R"({"capabilities": {"add": ["SYS_ADMIN"], "drop": ["ALL"]}})"},
      {"privileged", "{privileged: true}", R"({"privileged": true})"},
  };
  for (const SecurityCase& c : cases) {
    const std::string yaml =
        std::string("spec: {containers: [{name: worker, securityContext: ") + c.given + "}]}";
    EXPECT_EQ(WorkerOf(Pod(MakeJob("gpt").Template(yaml)))["securityContext"], json::parse(c.made))
        << c.name;
  }
}

}  // namespace
}  // namespace lockstep::control
