// MPIJob, TFJob, JAXJob and RayJob.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/model/shortcuts.h"
#include "tests/cli/convert/converted.h"

namespace lockstep::convert {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kMpiJob = R"(
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: resnet, namespace: ml}
spec:
  slotsPerWorker: 4
  sshAuthMountPath: /home/mpi/.ssh
  runPolicy: {cleanPodPolicy: Running, backoffLimit: 2}
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec:
          containers:
          - name: mpi
            image: resnet:1
            command: [mpirun, -np, "8", --allow-run-as-root, -x, A, python, train.py]
            env: [{name: A, value: b}]
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - name: mpi
            image: resnet:1
            command: [/usr/sbin/sshd]
            args: [-De]
            env: [{name: C, value: d}]
            resources: {limits: {nvidia.com/gpu: 4, cpu: "32"}}
)";

// kMpiJob with one text in place of another.
std::string MpiJobWith(const std::string& old_text, const std::string& new_text) {
  std::string text = kMpiJob;
  return text.replace(text.find(old_text), old_text.size(), new_text);
}

TEST(ConvertMpiJob, TakesTheWorkersAsMachinesAndTheLaunchersProgram) {
  const ConvertResult result = Convert(kMpiJob);
  const core::Spec spec = SpecOf(result);
  EXPECT_EQ(spec.num_machines, 2);
  EXPECT_EQ(spec.processes_per_machine, 4);
  EXPECT_EQ(spec.image, "resnet:1");
  EXPECT_THAT(spec.command, ElementsAre("mpirun", "-np", "8", "python", "train.py"));
  EXPECT_EQ(spec.framework, core::Framework::kMpi);
  EXPECT_TRUE(spec.args.empty());
  EXPECT_EQ(spec.resources_per_process.gpu, 1);
  EXPECT_EQ(spec.resources_per_process.cpu->ToString(), "8");
  EXPECT_EQ(Env(spec), (std::map<std::string, std::string>{{"A", "b"}, {"C", "d"}}));
  EXPECT_EQ(spec.failure_policy.max_restarts, 2);
  EXPECT_THAT(result.yaml,
              AllOf(HasSubstr("name: resnet"), HasSubstr("mpirun still starts the ranks"),
                    HasSubstr("spec.sshAuthMountPath is not carried over"),
                    Not(HasSubstr("-x A is not carried over"))));
}

TEST(ConvertMpiJob, ReadsVersion1AndOtherLaunchers) {
  const struct {
    std::string text;
    int machines;
    int processes;
  } cases[] = {
      {MpiJobWith("kubeflow.org/v2beta1", "kubeflow.org/v1"), 2, 4},
      {MpiJobWith("slotsPerWorker: 4",
                  "slotsPerWorker: 4\n  runLauncherAsWorker: true\n"
                  "  mpiImplementation: Intel"),
       3, 4},
      {MpiJobWith("\"8\"", "\"4\""), 2, 2},
      {MpiJobWith("mpirun, -np, \"8\", --allow-run-as-root, -x, A, python",
                  "sh, -c, horovodrun -np 8 python train.py]\n            args: [python"),
       2, 4},
      {MpiJobWith("mpirun, -np, \"8\", --allow-run-as-root, -x, A, python",
                  "deepspeed, --no_local_rank, --hostfile, /etc/mpi/hostfile"),
       2, 4},
  };
  for (const auto& c : cases) {
    const bool as_worker = c.machines == 3;
    const ConvertResult result = Convert(c.text);
    if (as_worker) {
      EXPECT_THAT(Problems(result), HasSubstr("8 processes cannot be divided evenly among 3"));
      continue;
    }
    const core::Spec spec = SpecOf(result);
    EXPECT_EQ(spec.num_machines, c.machines);
    EXPECT_EQ(spec.processes_per_machine, c.processes);
    if (spec.framework == core::Framework::kMpi) EXPECT_EQ(spec.command.at(0), "mpirun");
    EXPECT_THAT(std::vector(spec.command.end() - 2, spec.command.end()),
                ElementsAre("python", "train.py"));
  }
}

TEST(ConvertMpiJob, RefusesWhatIsNoJob) {
  const std::string line = "mpirun, -np, \"8\", --allow-run-as-root, -x, A, python, train.py";
  const struct {
    std::string text;
    const char* says;
  } cases[] = {
      {MpiJobWith(line, "python, drive.py"), "no readable mpirun, horovodrun or deepspeed"},
      {MpiJobWith(line, "sh, -c, sleep 5; mpirun a"), "more than start one launcher"},
      {MpiJobWith(line, "timeout, 1h, mpirun, a"), "mpirun stands behind timeout"},
      {MpiJobWith(line, "mpirun, -np, \"7\", a"), "cannot be divided evenly"},
      {MpiJobWith(line, "mpirun, --novelty, a"), "is not a known option of mpirun"},
      {MpiJobWith("replicas: 2", "replicas: 0"), "number of machines"},
      {MpiJobWith("slotsPerWorker: 4", "slotsPerWorker: 0"), ""},
      {MpiJobWith("Launcher:", "Leader:"), "holds no Launcher"},
      {"kind: MPIJob\n", "holds no Launcher"},
      {"kind: MPIJob\nspec: {mpiReplicaSpecs: []}\n", "holds no Launcher"},
  };
  for (const auto& c : cases) {
    const ConvertResult result = Convert(c.text);
    EXPECT_THAT(Problems(result), HasSubstr(c.says)) << c.text;
    if (c.says[0] != '\0') EXPECT_EQ(result.yaml, "") << c.text;
  }
}

std::string ReplicaJob(const std::string& kind, const std::string& roles) {
  const std::string key = kind == "TFJob" ? "tfReplicaSpecs" : "jaxReplicaSpecs";
  return "apiVersion: kubeflow.org/v1\nkind: " + kind + "\nmetadata: {name: a}\nspec:\n  " + key +
         ":\n" + roles;
}

std::string Role(const std::string& name, int replicas) {
  return "    " + name + ":\n      replicas: " + std::to_string(replicas) +
         "\n      restartPolicy: Never\n      template: {spec: {containers: [{name: main, image: "
         "i:1, command: [python, t.py], resources: {limits: {nvidia.com/gpu: 2}}}]}}\n";
}

TEST(ConvertJaxJob, BecomesAGangOfOneProcessAMachine) {
  const ConvertResult result = Convert(ReplicaJob("JAXJob", Role("Worker", 3)));
  const core::Spec spec = SpecOf(result);
  EXPECT_EQ(spec.num_machines, 3);
  EXPECT_EQ(spec.processes_per_machine, 1);
  EXPECT_EQ(spec.framework, core::Framework::kJax);
  EXPECT_EQ(spec.resources_per_process.gpu, 2);
  EXPECT_EQ(spec.failure_policy.max_restarts, 0);
  EXPECT_THAT(result.yaml, HasSubstr("jax.distributed.initialize() without arguments"));
  EXPECT_THAT(Problems(Convert("kind: JAXJob\nspec: {}\n")), HasSubstr("holds no pod template"));
}

TEST(ConvertTfJob, OfOneWorkerRunsItAlone) {
  const ConvertResult one = Convert(ReplicaJob("TFJob", Role("Worker", 1) + Role("Evaluator", 1)));
  const core::Spec spec = SpecOf(one);
  EXPECT_EQ(spec.num_machines, 1);
  EXPECT_EQ(spec.framework, core::Framework::kNone);
  EXPECT_THAT(one.yaml, AllOf(HasSubstr("TF_CONFIG is not set"), HasSubstr("The Evaluator")));
  EXPECT_EQ(SpecOf(Convert(ReplicaJob("TFJob", Role("Chief", 1) + Role("PS", 0)))).num_machines, 1);

  EXPECT_THAT(Problems(Convert("kind: TFJob\n")), HasSubstr("holds no pod template"));
}

TEST(ConvertTfJob, OfSeveralWorkersBecomesAGangThatFindsThemByTfConfig) {
  const ConvertResult with_chief =
      Convert(ReplicaJob("TFJob", Role("Chief", 1) + Role("Worker", 3)));
  const core::Spec spec = SpecOf(with_chief);
  EXPECT_EQ(spec.num_machines, 4);
  EXPECT_EQ(spec.processes_per_machine, 1);
  EXPECT_EQ(spec.framework, core::Framework::kTensorFlow);
  EXPECT_EQ(spec.resources_per_process.gpu, 2);
  EXPECT_THAT(with_chief.yaml, HasSubstr("the Chief is worker 0"));
  const ConvertResult workers = Convert(ReplicaJob("TFJob", Role("Worker", 2)));
  EXPECT_EQ(SpecOf(workers).framework, core::Framework::kTensorFlow);
  EXPECT_THAT(workers.yaml, Not(HasSubstr("TF_CONFIG")));
}

TEST(ConvertTfJob, WithParameterServersBecomesAGangOfRoles) {
  const ConvertResult result =
      Convert(ReplicaJob("TFJob", Role("Worker", 2) + Role("PS", 1) + Role("Chief", 1)));
  const core::Spec spec = SpecOf(result);
  EXPECT_EQ(spec.num_machines, 4);
  EXPECT_EQ(spec.framework, core::Framework::kTensorFlow);
  EXPECT_EQ(spec.success_policy, core::SuccessPolicy::kRole);
  EXPECT_EQ(spec.success_role, "chief");
  EXPECT_THAT(spec.roles, testing::ElementsAre(core::Role{"chief", 1, core::RoleRestart::kGang},
                                               core::Role{"worker", 2, core::RoleRestart::kAlone},
                                               core::Role{"ps", 1, core::RoleRestart::kGang}));
  EXPECT_THAT(result.yaml, Not(HasSubstr("the commands of Worker and PS")));

  std::string other = Role("PS", 1);
  other.replace(other.find("t.py"), 4, "s.py");
  EXPECT_THAT(Convert(ReplicaJob("TFJob", Role("Chief", 1) + Role("Worker", 1) + other)).yaml,
              HasSubstr("the commands of Worker and PS"));
  EXPECT_THAT(Problems(Convert(ReplicaJob("TFJob", Role("Worker", 1) + Role("PS", 2)))),
              HasSubstr("parameter servers need one Chief"));
}

constexpr const char* kRayJob = R"(
apiVersion: ray.io/v1
kind: RayJob
metadata: {name: tune}
spec:
  entrypoint: python tune.py --trials 20
  shutdownAfterJobFinishes: true
  ttlSecondsAfterFinished: 60
  backoffLimit: 1
  runtimeEnvYAML: "pip: [torch]"
  rayClusterSpec:
    headGroupSpec:
      rayStartParams: {}
      template:
        spec:
          containers:
          - name: ray-head
            image: rayproject/ray:2.60.0
            resources: {limits: {cpu: "8"}}
)";

TEST(ConvertRayJob, RunsTheHeadsProgram) {
  const ConvertResult result = Convert(kRayJob);
  const core::Spec spec = SpecOf(result);
  EXPECT_EQ(spec.num_machines, 1);
  EXPECT_THAT(spec.command, ElementsAre("python", "tune.py", "--trials", "20"));
  EXPECT_EQ(spec.image, "rayproject/ray:2.60.0");
  EXPECT_EQ(spec.resources_per_process.cpu->ToString(), "8");
  EXPECT_EQ(spec.ttl_seconds_after_finished, 60);
  EXPECT_EQ(spec.failure_policy.max_restarts, 1);
  EXPECT_THAT(result.yaml, AllOf(HasSubstr("spec.runtimeEnvYAML is not carried over"),
                                 HasSubstr("ray.init(\"auto\") finds no Ray")));
}

TEST(ConvertRayJob, RefusesAClusterThatWouldNeverEnd) {
  const std::string workers = std::string(kRayJob) + "    workerGroupSpecs: [{replicas: 2}]\n";
  EXPECT_THAT(Problems(Convert(workers)), HasSubstr("up to 2 workers"));
  const std::string scaled =
      std::string(kRayJob) + "    workerGroupSpecs: [{replicas: 0, maxReplicas: 5}]\n";
  EXPECT_THAT(Problems(Convert(scaled)), HasSubstr("up to 5 workers"));
  EXPECT_THAT(Problems(Convert("kind: RayJob\nspec: {entrypoint: a, clusterSelector: {a: b}}\n")),
              HasSubstr("clusterSelector"));
  EXPECT_THAT(Problems(Convert("kind: RayJob\nspec: {entrypoint: a}\n")),
              HasSubstr("holds no pod template"));
  EXPECT_THAT(Problems(Convert("kind: RayJob\n")), HasSubstr("spec.entrypoint: is missing"));
}

TEST(ConvertRayJob, KeepsAShellsLineForAShell) {
  std::string text = kRayJob;
  text.replace(text.find("python tune.py --trials 20"), 26, "cd /a && python t.py");
  EXPECT_THAT(SpecOf(Convert(text)).command, ElementsAre("sh", "-c", "cd /a && python t.py"));
}

}  // namespace
}  // namespace lockstep::convert
