#include <gmock/gmock.h>

#include "core/model/shortcuts.h"
#include "core/plan/agent_config.h"
#include "core/plan/environment.h"
#include "tests/operator/objects/pod_fixture.h"

namespace lockstep::control {
namespace {

using testing::HasSubstr;

std::string Variable(const json& pod) {
  return Named(WorkerOf(pod)["env"], "LOCKSTEP_CONFIG")["value"].get<std::string>();
}

// As the agent finds it once kubelet has put the pod's address in.
core::AgentConfig Config(const core::TrainingJob& job, const core::JobStatus& status,
                         const PodRequest& request, const std::string& ip = "10.1.2.3",
                         const AgentDelivery& delivery = {}) {
  Result<std::string> body = PodObject(job, status, request, delivery);
  if (!body.ok()) {
    ADD_FAILURE() << body.error().message;
    return {};
  }
  const std::string seen =
      core::ExpandVariables(Variable(json::parse(*body)), {{"LOCKSTEP_POD_IP", ip}});
  Result<core::AgentConfig> config = core::ParseAgentConfig(seen);
  if (!config.ok()) {
    ADD_FAILURE() << config.error().message;
    return {};
  }
  return *config;
}

core::AgentConfig Config(const core::TrainingJob& job) {
  return Config(job, StatusOf(job), Request());
}

TEST(PodConfig, TellsTheAgentOfTheTemplateThatItsGpusAreClaimed) {
  EXPECT_TRUE(core::AsksForGpus(Config(MakeJob("gpt").Template(kWithClaims)).job.spec));
  const core::TrainingJob job = MakeJob("gpt").Template("spec: {nodeName: a}");
  EXPECT_TRUE(Config(job).job.spec.template_.IsNull());
}

TEST(PodConfig, TellsTheAgentWhatItIs) {
  core::TrainingJob job = MakeJob("gpt").Machines(4).Processes(8).Checkpoints("c", "/ckpt");
  job.spec.logs.path = "/logs";
  core::JobStatus status = StatusOf(job);
  status.attempts.Set(0, 5);
  status.attempts.Set(2, 6);
  status.epoch = 6;
  PodRequest request = Request(2, 6);
  request.predecessor_dead = false;
  const core::AgentConfig config = Config(job, status, request);
  EXPECT_EQ(config.job_uid, job.metadata.uid);
  EXPECT_EQ(config.machine, 2u);
  EXPECT_EQ(config.attempt, 6u);
  EXPECT_EQ(config.machine0_attempt, 5u);
  EXPECT_EQ(config.epoch, 6u);
  EXPECT_FALSE(config.predecessor_dead);
  EXPECT_FALSE(config.key);
  EXPECT_EQ(config.key_file, "/etc/lockstep/gang");
  EXPECT_EQ(config.coordinator, "10.96.0.7:7070");
  EXPECT_EQ(config.listen, "0.0.0.0:7070");
  EXPECT_EQ(config.metrics_listen, "0.0.0.0:7071");
  EXPECT_EQ(config.advertise, "10.1.2.3");
  EXPECT_EQ(config.run_dir, "/run/lockstep/agent");
  EXPECT_EQ(config.cache_dir, "/var/cache/lockstep/compiled");
  EXPECT_EQ(config.checkpoint_path, "/ckpt");
  EXPECT_EQ(config.log_path, "/logs");
  EXPECT_EQ(config.termination_path, "/dev/termination-log");
  job.spec.image.clear();  // the operator's
  EXPECT_EQ(config.job, job);
}

TEST(PodConfig, TellsTheAgentOfTheObjectStore) {
  core::TrainingJob job = MakeJob("gpt");
  job.spec.checkpoint.memory.size = Quantity::FromUnits(1 << 20);
  job.spec.checkpoint.url = "s3://bucket/gpt";
  job.spec.checkpoint.secret = "bucket";
  job.spec.checkpoint.keep = 5;
  job.spec.checkpoint.keep_every = hours(24);
  job.spec.checkpoint.upload_bandwidth = Quantity::FromUnits(1 << 20);
  const core::AgentConfig config = Config(job);
  EXPECT_EQ(config.checkpoint_url, "s3://bucket/gpt");
  EXPECT_EQ(config.checkpoint_path, "");
  EXPECT_EQ(config.job.spec.checkpoint, job.spec.checkpoint);
}

TEST(PodConfig, TellsTheAgentWhoseExitEndsTheJob) {
  core::TrainingJob job = MakeJob("gpt");
  job.spec.roles = {{"chief", 1, core::RoleRestart::kGang}, {"ps", 1, core::RoleRestart::kAlone}};
  job.spec.success_role = "chief";
  EXPECT_EQ(Config(job).job.spec.roles, job.spec.roles);
  EXPECT_EQ(Config(job).job.spec.success_role, "chief");
  job.spec.success_policy = core::SuccessPolicy::kMachine0;
  EXPECT_EQ(Config(job).job.spec.success_policy, core::SuccessPolicy::kMachine0);
}

TEST(PodConfig, TellsTheAgentWhoStartsTheRanksOfAnMpiProgram) {
  core::TrainingJob job = MakeJob("gpt");
  job.spec.framework = core::Framework::kMpi;
  EXPECT_EQ(Config(job).job.spec.mpi.start, core::MpiStart::kLauncher);
  job.spec.mpi.start = core::MpiStart::kPmi;
  EXPECT_EQ(Config(job).job.spec.mpi.start, core::MpiStart::kPmi);
}

TEST(PodConfig, TellsTheAgentOfInterpretersToParkAndMachinesToMeasure) {
  core::TrainingJob job = MakeJob("gpt");
  job.spec.prestart = core::Prestart::kAlways;
  job.spec.prestart_exclude = {"torch"};
  job.spec.preflight.enabled = true;
  const core::Spec told = Config(job).job.spec;
  EXPECT_EQ(told.prestart, core::Prestart::kAlways);
  EXPECT_EQ(told.prestart_exclude, job.spec.prestart_exclude);
  EXPECT_TRUE(told.preflight.enabled);
}

TEST(PodConfig, TellsTheAgentOfSharedMemoryThatIsItsWorkersAlone) {
  core::TrainingJob job = MakeJob("gpt");
  EXPECT_FALSE(Config(job).job.spec.shared_memory);
  job.spec.shared_memory = *Quantity::Parse("16Gi");
  EXPECT_TRUE(Config(job).job.spec.shared_memory);
  job.spec.template_ = MakeJob::Yaml(R"(
spec:
  containers: [{name: worker, volumeMounts: [{name: shm, mountPath: /dev/shm}]}]
  volumes: [{name: shm, emptyDir: {medium: Memory}}]
)");
  EXPECT_FALSE(Config(job).job.spec.shared_memory);
}

TEST(PodConfig, LeavesRulesAboutMetricsOutForAgentsOfAnotherImage) {
  core::TrainingJob job = MakeJob("gpt");
  core::FailureRule of_exit;
  of_exit.exit_codes = {42};
  core::FailureRule of_metric;
  of_metric.metric = "loss";
  of_metric.is = core::MetricIs::kNotFinite;
  job.spec.failure_policy.rules = {of_metric, of_exit};
  core::JobStatus status = StatusOf(job);
  status.agent.image = "agent:2";
  const auto told = [&](const std::string& newest) {
    return Config(job, status, Request(), "10.0.0.3", {.newest_image = newest})
        .job.spec.failure_policy.rules;
  };
  EXPECT_EQ(told("agent:2"), job.spec.failure_policy.rules);
  EXPECT_EQ(told("agent:3"), std::vector<core::FailureRule>{of_exit});
}

TEST(PodConfig, SpeaksIpv6WhereTheClusterDoes) {
  const core::TrainingJob job = MakeJob("gpt");
  PodRequest request = Request();
  request.coordinator_ip = "fd00::7";
  const core::AgentConfig config = Config(job, StatusOf(job), request, "fd00:1::9");
  EXPECT_EQ(config.coordinator, "[fd00::7]:7070");
  EXPECT_EQ(config.listen, "[::]:7070");
  EXPECT_EQ(config.advertise, "fd00:1::9");
}

TEST(PodConfig, LeavesOutWhatStandsInTheContainerOrIsTheOperators) {
  core::TrainingJob job = MakeJob("gpt").Env("A", "b").Template("spec: {nodeName: a}");
  job.spec.image = "registry/gpt:1";
  job.spec.placement.topology_key = "rack";
  job.spec.active_deadline_seconds = 60;
  job.spec.scheduler_name = "queue";
  job.metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"] = "{}";
  job.metadata.labels["team"] = "vision";
  job.spec.env_from = {MakeJob::Yaml("configMapRef: {name: common}")};
  job.spec.image_pull_secrets = {{"registry"}};
  core::TrainingJob seen = MakeJob("gpt");
  seen.spec.image.clear();
  EXPECT_EQ(Config(job).job, seen);
}

TEST(PodConfig, KeepsEveryDollarOfTheJob) {
  core::TrainingJob job = MakeJob("gpt");
  job.spec.command = {"sh",
                      "-c",
                      "echo $HOME $$ $$$ $(RANK) $$(RANK)",
                      "$(LOCKSTEP_POD_IP)",
                      "$",
                      R"-("advertise":"$(LOCKSTEP_POD_IP)")-"};
  const core::AgentConfig config = Config(job);
  EXPECT_EQ(config.job.spec.command, job.spec.command);
  EXPECT_EQ(config.advertise, "10.1.2.3");
}

TEST(PodConfig, WritesItsTerminationMessageWhereTheTemplateWantsIt) {
  EXPECT_EQ(Config(MakeJob("gpt").Template(
                       "spec: {containers: [{name: worker, terminationMessagePath: /tmp/end}]}"))
                .termination_path,
            "/tmp/end");
}

TEST(PodConfig, IsOfTheGangThatRunsAndNotOfTheSpecThatChanged) {
  core::TrainingJob job = MakeJob("gpt").Machines(4);
  core::JobStatus status = StatusOf(job);
  status.machine_lost_after = minutes(1);
  job.spec.num_machines = 8;
  job.spec.failure_policy.machine_lost_after = seconds(15);
  const core::Spec spec = Config(job, status, Request()).job.spec;
  EXPECT_EQ(spec.num_machines, 4);
  EXPECT_EQ(spec.failure_policy.machine_lost_after, minutes(1));
}

TEST(PodConfig, NodeHealthIsTheOperatorsAlone) {
  core::TrainingJob job = MakeJob("gpt");
  job.spec.failure_policy.node_health = core::NodeHealth::kIgnore;
  EXPECT_EQ(Config(job).job.spec.failure_policy.node_health, core::NodeHealth::kAtCheckpoint);
}

TEST(PodConfig, IsRefusedWhereExecveWouldRefuseIt) {
  const std::string argument(16 * 1024, '$');
  core::TrainingJob job = MakeJob("gpt");
  job.spec.args.assign(8, argument);
  Result<std::string> pod = PodObject(job, StatusOf(job), Request(), {});
  ASSERT_FALSE(pod.ok());
  EXPECT_EQ(pod.error().kind, ErrorKind::kTooLarge);
  EXPECT_THAT(pod.error().message, HasSubstr("128 KiB"));

  // Doubled dollars don't count: kubelet halves them.
  job.spec.args.assign(7, argument);
  EXPECT_EQ(Config(job).job.spec.args, job.spec.args);
}

TEST(PodConfig, IsRefusedWithoutTheCoordinatorsAddress) {
  const core::TrainingJob job = MakeJob("gpt");
  for (const char* ip : {"", "None", "gpt-coordinator"}) {
    PodRequest request = Request();
    request.coordinator_ip = ip;
    Result<std::string> pod = PodObject(job, StatusOf(job), request, {});
    ASSERT_FALSE(pod.ok()) << ip;
    EXPECT_THAT(pod.error().message, HasSubstr("the coordinator's address")) << ip;
  }
}

}  // namespace
}  // namespace lockstep::control
