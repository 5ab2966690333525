#include "core/validate/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/model/parse.h"

namespace lockstep::core {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// A job that is right for both targets, with `spec` beside or instead of its fields.
TrainingJob Job(const std::string& spec, const std::string& name = "gpt") {
  const ParseResult parsed = ParseYaml(
      "apiVersion: lockstep.dev/v1alpha1\nkind: TrainingJob\n"
      "metadata: {name: \"" +
      name + "\"}\nspec:\n" + spec);
  EXPECT_TRUE(parsed.ok()) << Format(parsed.problems, "job.yaml");
  return parsed.job.value_or(TrainingJob());
}

std::string Problems(const TrainingJob& job, Target target,
                     std::optional<int> gpus = std::nullopt) {
  return Format(Validate(job, target, gpus), "job.yaml");
}

std::string Local(const std::string& spec) { return Problems(Job(spec), Target::kLocal); }
std::string Cluster(const std::string& spec) { return Problems(Job(spec), Target::kCluster); }

constexpr const char* kRun = "  command: [python, train.py]\n";
constexpr const char* kRunImage = "  command: [python, train.py]\n  image: i\n";

TEST(Validate, AcceptsASmallJob) {
  EXPECT_EQ(Local(kRun), "");
  EXPECT_EQ(Cluster(kRunImage), "");
}

TEST(Validate, AcceptsEveryFieldAtItsLimits) {
  EXPECT_EQ(Cluster(std::string(kRunImage) +
                    "  numMachines: 1024\n  processesPerMachine: 64\n"
                    "  failurePolicy: {machineLostAfter: 2s, maxRestarts: 0,"
                    " rules: [{exitCodes: [1, 255], action: Fail}]}\n"
                    "  gracePeriod: 0s\n  health: {hangTimeout: 1s}\n"
                    "  resourcesPerProcess: {memory: 1Gi}\n  sharedMemory: 64Gi\n"),
            "");
}

TEST(Validate, TellsEveryErrorAtOnceInTheOrderOfTheFile) {
  EXPECT_EQ(Local("  processesPerMachine: 65\n  numMachines: 0\n  gracePeriod: -1s\n"
                  "  command: [a]\n"),
            "job.yaml:5:24: error: spec.processesPerMachine: must lie between 1 and 64 (found 65)\n"
            "job.yaml:6:16: error: spec.numMachines: must lie between 1 and 4096 (found 0)\n"
            "job.yaml:7:16: error: spec.gracePeriod: must lie between 0s and 24h (found -1s)\n");
}

TEST(Validate, AsksForANameThatDnsTakes) {
  for (const char* name : {"g", "gpt-2", "a23456789012345678901234567890123456789x"}) {
    EXPECT_EQ(Problems(Job(kRun, name), Target::kLocal), "") << name;
  }
  for (const char* name : {"2gpt", "-gpt", "gpt-", "Gpt", "g_t", "g.t", "g t",
                           "a234567890123456789012345678901234567890x"}) {
    EXPECT_THAT(Problems(Job(kRun, name), Target::kLocal), HasSubstr("DNS-1035")) << name;
  }
  EXPECT_THAT(Problems(Job(kRun, ""), Target::kLocal), HasSubstr("metadata.name: is missing"));
  EXPECT_THAT(Problems(Job(kRun, "gpt-coordinator"), Target::kLocal),
              HasSubstr("metadata.name: must not end in -coordinator"));
}

TEST(Validate, WholeCpusAndMemoryAreRequiredForAlignmentOnAClusterAlone) {
  const char* const part = "  command: [a]\n  image: b\n  topology: {policy: Required}\n";
  EXPECT_EQ(Problems(Job(part), Target::kLocal), "");
  EXPECT_THAT(Problems(Job(part), Target::kCluster), HasSubstr("needs whole CPUs"));
  EXPECT_EQ(
      Problems(Job(std::string(part) + "  resourcesPerProcess: {cpu: 10000m, memory: 1.5Gi}\n"),
               Target::kCluster),
      "");
}

TEST(Validate, EveryContainerMustBeGuaranteedWhereAlignmentIsRequired) {
  const auto problems = [](const std::string& pod) {
    return Problems(Job("  command: [a]\n  image: b\n  topology: {policy: Required}\n"
                        "  resourcesPerProcess: {cpu: 1, memory: 1Gi}\n  template: {spec: {" +
                        pod + "}}\n"),
                    Target::kCluster);
  };
  const std::string worker = "containers: [{name: worker}";
  EXPECT_EQ(problems(worker + "]"), "");
  EXPECT_EQ(problems(worker + ", {name: a, resources: {limits: {cpu: 1, memory: 1Gi}}}]"), "");
  EXPECT_EQ(problems(worker + ", {name: a, resources: {limits: {cpu: 1, memory: 1Gi}, "
                              "requests: {cpu: \"1\", ephemeral-storage: 1Gi}}}]"),
            "");
  for (const char* resources : {"{}", "{limits: {cpu: 1}}", "{requests: {cpu: 1, memory: 1Gi}}",
                                "{limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 500m}}"}) {
    std::string other = "{name: a, resources: ";
    other.append(resources).append("}]");
    std::string beside = worker;
    beside.append(", ").append(other);
    EXPECT_THAT(problems(beside), HasSubstr("spec.template.spec.containers: must each have limits"))
        << resources;
    EXPECT_THAT(problems("initContainers: [" + other),
                HasSubstr("spec.template.spec.initContainers: must each have limits"))
        << resources;
  }
  EXPECT_THAT(problems("resources: {limits: {cpu: 1}}"),
              HasSubstr("spec.template.spec.resources: remove it"));
}

TEST(Validate, RefusesMoreContainersThanTheApiServerTakes) {
  const auto problems = [](int count) {
    std::string containers;
    for (int i = 0; i < count; ++i) {
      if (i > 0) containers += ", ";
      containers += "{name: a" + std::to_string(i) + "}";
    }
    return Problems(
        Job("  command: [a]\n  image: b\n  template: {spec: {containers: [" + containers + "]}}\n"),
        Target::kCluster);
  };
  EXPECT_EQ(problems(8), "");
  EXPECT_THAT(problems(9),
              HasSubstr("spec.template.spec.containers: must have at most 8 items (found 9)"));
}

TEST(Validate, ResourceClaimsOfTheTemplateCountAsGpus) {
  const std::string trainer = "  trainer: {data: [a], device: Cuda, model: gpt2}\n";
  EXPECT_THAT(Problems(Job(trainer), Target::kCluster), HasSubstr("the pods have no GPUs"));
  EXPECT_EQ(
      Problems(
          Job(trainer + "  template: {spec: {resourceClaims: [{name: a, resourceClaimTemplateName: "
                        "b}], containers: [{name: worker, resources: {claims: [{name: a}]}}]}}\n"),
          Target::kCluster),
      "");
}

TEST(Validate, HasAMessageForEveryRule) {
  const struct {
    Target target;
    const char* spec;
    const char* says;
  } cases[] = {
      {Target::kLocal, "  numMachines: -1\n  command: [a]\n", "between 1 and 4096"},
      {Target::kLocal, "  numMachines: 4097\n  command: [a]\n", "between 1 and 4096"},
      {Target::kLocal, "  {}\n", "spec.command: is missing; write the command"},
      {Target::kLocal, "  command: [\"\"]\n", "spec.command[0]: must name a program"},
      {Target::kLocal, "  args: [a]\n", "spec.args: needs spec.command"},
      {Target::kCluster, "  launch: PerMachine\n", "spec.launch: needs spec.command"},
      {Target::kCluster, "  command: [a]\n", "spec.image: is missing"},
      {Target::kLocal, "  command: [a]\n  trainer: {data: [b]}\n", "keep one of them"},
      {Target::kLocal, "  command: [a]\n  successRole: b\n",
       "spec.successRole: needs successPolicy: Role"},
      {Target::kLocal, "  command: [a]\n  successPolicy: Role\n",
       "spec.successRole: must name one of spec.roles"},
      {Target::kLocal,
       "  command: [a]\n  roles: [{name: b}]\n  successPolicy: Role\n"
       "  successRole: c\n",
       "spec.successRole: must name one of spec.roles"},
      {Target::kLocal, "  command: [a]\n  roles: [{name: b, count: 2}]\n",
       "must have as many ranks as the job, which has 1 (numMachines x processesPerMachine): the "
       "sum of count is 2"},
      {Target::kLocal, "  command: [a]\n  roles: [{name: b, count: 0}]\n", "between 1 and 262144"},
      {Target::kLocal, "  command: [a]\n  roles: [{name: B}]\n", "spec.roles[0].name: must be at"},
      {Target::kLocal,
       "  command: [a]\n  processesPerMachine: 2\n  roles: [{name: b}, {name: b}]\n",
       "spec.roles[1]: must have each name once: b appears twice"},
      {Target::kLocal, "  command: [a]\n  framework: TensorFlow\n  roles: [{name: server}]\n",
       "spec.roles[0].name: must be chief, worker, ps or evaluator"},
      {Target::kLocal,
       "  command: [a]\n  framework: TensorFlow\n  roles: [{name: ps, restart: Alone}]\n",
       "spec.roles[0].restart: must be Gang for chief and ps"},
      {Target::kLocal,
       "  command: [a]\n  framework: TensorFlow\n  numMachines: 2\n"
       "  roles: [{name: chief, count: 2}]\n",
       "spec.roles[0].count: must be 1"},
      {Target::kLocal, "  command: [a]\n  framework: Horovod\n  roles: [{name: b}]\n",
       "spec.roles: must be empty with framework: Horovod"},
      {Target::kLocal, "  command: [mpirun, a]\n  framework: Mpi\n  roles: [{name: b}]\n",
       "spec.roles: must be empty with framework: Mpi"},
      {Target::kLocal, "  command: [torchrun]\n  launch: PerMachine\n  roles: [{name: b}]\n",
       "spec.roles: must be empty with launch: PerMachine"},
      {Target::kLocal, "  trainer: {data: [a]}\n  roles: [{name: b}]\n",
       "spec.roles: must be empty beside spec.trainer"},
      {Target::kLocal,
       "  command: [a]\n  checkpoint: {memory: {size: 1Gi}}\n"
       "  roles: [{name: b, restart: Alone}]\n",
       "spec.checkpoint.memory.size: must be absent if a role has restart: Alone"},
      {Target::kLocal, "  command: [a]\n  env: [{value: b}]\n", "env[0].name: is missing"},
      {Target::kLocal, "  command: [a]\n  env: [{name: a=b}]\n", "must be letters, digits"},
      {Target::kLocal, "  command: [a]\n  env: [{name: 1A}]\n", "not begin with a digit"},
      {Target::kLocal, "  command: [a]\n  env: [{name: RANK, value: \"1\"}]\n",
       "remove it: Lockstep sets it"},
      {Target::kLocal, "  command: [a]\n  env: [{name: LOCKSTEP_X, value: \"1\"}]\n",
       "remove it: Lockstep sets it"},
      {Target::kLocal, "  command: [a]\n  env: [{name: A}, {name: A}]\n",
       "error: spec.env[1]: A appears twice"},
      {Target::kLocal, "  command: [a]\n  env: [{name: A, valueFrom: {}}]\n",
       "spec.env[0].valueFrom: needs a cluster"},
      {Target::kCluster, "  command: [a]\n  env: [{name: A, value: b, valueFrom: {}}]\n",
       "both value and valueFrom"},
      {Target::kLocal, "  command: [a]\n  envFrom: [{secretRef: {name: s}}]\n",
       "spec.envFrom: needs a cluster"},
      {Target::kLocal, "  command: [a]\n  suspend: true\n", "cannot run; write false"},
      {Target::kLocal, "  command: [a]\n  imagePullSecrets: [{name: A}]\n",
       "must be the name of a Secret"},
      {Target::kLocal, "  command: [a]\n  topology: {bind: None, memoryPolicy: Strict}\n",
       "spec.topology.memoryPolicy: needs processes that are bound"},
      {Target::kLocal, "  command: [a]\n  topology: {bind: None, policy: Required}\n",
       "Required needs any bind but None"},
      {Target::kLocal, "  command: [a]\n  topology: {map: [{cpus: 0-3}]}\n",
       "spec.topology.map: needs bind: Map"},
      {Target::kLocal,
       "  command: [a]\n  processesPerMachine: 2\n"
       "  topology: {bind: Map, map: [{cpus: 0-3}]}\n",
       "spec.topology.map: must hold one entry for each of processesPerMachine (2)"},
      {Target::kLocal, "  command: [a]\n  topology: {bind: Map, map: [{cpus: 3-0}]}\n",
       "spec.topology.map[0].cpus: must be CPUs, as in 0-7,16-23"},
      {Target::kLocal, "  command: [a]\n  topology: {bind: Map, map: [{cpus: 0-3, memory: x}]}\n",
       "spec.topology.map[0].memory: must be NUMA nodes"},
      {Target::kLocal, "  command: [a]\n  placement: {topologyLevels: [rack]}\n",
       "spec.placement.topologyLevels: needs topologyKey"},
      {Target::kCluster,
       "  command: [a]\n  image: b\n  topology: {policy: Required}\n"
       "  resourcesPerProcess: {memory: 1Gi}\n",
       "spec.resourcesPerProcess.cpu: is missing; topology.policy Required needs whole CPUs"},
      {Target::kCluster,
       "  command: [a]\n  image: b\n  topology: {policy: Required}\n"
       "  resourcesPerProcess: {cpu: 10400m, memory: 1Gi}\n",
       "spec.resourcesPerProcess.cpu: must be whole; topology.policy Required needs whole CPUs"},
      {Target::kCluster,
       "  command: [a]\n  image: b\n  topology: {policy: Required}\n"
       "  resourcesPerProcess: {cpu: 10}\n",
       "spec.resourcesPerProcess.memory: is missing; topology.policy Required needs it"},
      {Target::kLocal, "  command: [a]\n  resourcesPerMachine: {hugepages-2Mi: 1Gi}\n",
       "spec.resourcesPerMachine.hugepages-2Mi: needs spec.resourcesPerProcess.memory or cpu"},
      {Target::kCluster,
       "  trainer: {data: [a]}\n  resourcesPerProcess: {gpu: 1, gpuResource: amd.com/gpu}\n",
       "spec.resourcesPerProcess.gpuResource: must be a resource of NVIDIA's GPUs"},
      {Target::kLocal, "  command: [a]\n  placement: {topologyMode: Required}\n",
       "Required needs topologyKey"},
      {Target::kLocal, "  command: [a]\n  checkpoint: {claim: c}\n",
       "spec.checkpoint.path: is missing"},
      {Target::kLocal, "  command: [a]\n  checkpoint: {claim: C_, path: /c}\n",
       "name of a PersistentVolumeClaim"},
      {Target::kCluster, "  command: [a]\n  checkpoint: {path: c}\n",
       "must begin with / on a cluster"},
      {Target::kLocal, "  command: [a]\n  checkpoint: {resume: auto}\n",
       "must be Auto, Never or a path"},
      {Target::kCluster, "  command: [a]\n  image: b\n  checkpoint: {url: \"s3://bucket/gpt\"}\n",
       "spec.checkpoint.memory.size: is missing beside spec.checkpoint.url"},
      {Target::kLocal,
       "  command: [a]\n"
       "  checkpoint: {url: \"s3://bucket/gpt\", path: /c, memory: {size: 1Gi}}\n",
       "spec.checkpoint.path: must be absent beside spec.checkpoint.url"},
      {Target::kLocal,
       "  command: [a]\n"
       "  checkpoint: {url: \"s3://bucket/gpt\", resume: /old, memory: {size: 1Gi}}\n",
       "spec.checkpoint.resume: must be Auto or Never with spec.checkpoint.url"},
      {Target::kCluster,
       "  command: [a]\n  image: b\n"
       "  checkpoint: {url: \"s3://bucket/gpt\", secret: B_, memory: {size: 1Gi}}\n",
       "spec.checkpoint.secret: must be the name of a Secret"},
      {Target::kLocal, "  command: [a]\n  checkpoint: {secret: s}\n",
       "spec.checkpoint.secret: needs spec.checkpoint.url"},
      {Target::kLocal, "  command: [a]\n  checkpoint: {keepEvery: 24h}\n",
       "spec.checkpoint.keepEvery: needs spec.checkpoint.url"},
      {Target::kLocal, "  command: [a]\n  checkpoint: {uploadBandwidth: 1Mi}\n",
       "spec.checkpoint.uploadBandwidth: needs spec.checkpoint.url"},
      {Target::kLocal,
       "  command: [a]\n"
       "  checkpoint: {url: \"s3://b-c/d\", uploadBandwidth: 100m, memory: {size: 1Gi}}\n",
       "spec.checkpoint.uploadBandwidth: must be a whole number of bytes"},
      {Target::kLocal, "  command: [a]\n  checkpoint: {keep: 0}\n", "between 1 and 1000"},
      {Target::kLocal, "  command: [a]\n  gracePeriod: 25h\n", "between 0s and 24h"},
      {Target::kLocal, "  command: [a]\n  health: {startTimeout: 0s}\n", "between 1s and 168h"},
      {Target::kLocal, "  command: [a]\n  health: {hangTimeout: 10ms}\n",
       "0s (off) or lie between 1s and 168h"},
      {Target::kLocal, "  command: [a]\n  health: {hangTimeout: -1s}\n",
       "0s (off) or lie between 1s and 168h"},
      {Target::kLocal, "  command: [a]\n  activeDeadlineSeconds: -1\n", "between 0 and 2147483647"},
      {Target::kLocal, "  command: [a]\n  ttlSecondsAfterFinished: -1\n",
       "between 0 and 2147483647"},
      {Target::kLocal, "  command: [a]\n  priorityClassName: A\n", "name of a PriorityClass"},
      {Target::kLocal, "  command: [a]\n  schedulerName: A\n", "name of a scheduler"},
      {Target::kLocal, "  command: [a]\n  managedBy: me\n", "a domain and a name"},
      {Target::kLocal, "  command: [a]\n  framework: TensorFlow\n  launch: PerMachine\n",
       "must be PerProcess with framework: TensorFlow"},
      {Target::kLocal,
       "  command: [a]\n  framework: TensorFlow\n  numMachines: 1024\n  processesPerMachine: 3\n",
       "spec.numMachines: makes more than 2048 workers, and TensorFlow's TF_CONFIG lists all of "
       "them (found 3072 workers)"},
      {Target::kLocal, "  command: [a]\n  framework: TensorFlow\n  numMachines: 1025\n",
       "spec.numMachines: must be at most 1024 with framework: TensorFlow"},
      {Target::kLocal, "  command: [a]\n  env: [{name: TF_CONFIG, value: a}]\n",
       "remove it: Lockstep sets it"},
      {Target::kLocal, "  command: [a]\n  failurePolicy: {maxRestarts: -1}\n",
       "between 0 and 2147483647"},
      {Target::kLocal, "  command: [a]\n  failurePolicy: {maxMachineReplacements: -1}\n",
       "between 0 and 2147483647"},
      {Target::kLocal, "  command: [a]\n  failurePolicy: {resetAfter: 0s}\n",
       "between 1s and 8760h"},
      {Target::kLocal, "  command: [a]\n  failurePolicy: {restartGracePeriod: -1s}\n",
       "between 0s and 24h"},
      {Target::kLocal, "  command: [a]\n  failurePolicy: {machineLostAfter: 1999ms}\n",
       "between 2s and 10m (found 1.999s)"},
      {Target::kLocal, "  command: [a]\n  failurePolicy: {machineLostAfter: 601s}\n",
       "between 2s and 10m"},
      {Target::kLocal, "  command: [a]\n  failurePolicy: {rules: [{action: Fail}]}\n",
       "rules[0]: matches nothing; write exitCodes, signals or stderr"},
      {Target::kLocal, "  command: [a]\n  failurePolicy: {rules: [{metric: loss}]}\n",
       "rules[0]: needs one of is: NotFinite, above and risesBy"},
      {Target::kLocal,
       "  command: [a]\n  failurePolicy: {rules: [{metric: loss, risesBy: 0.5x}]}\n",
       "rules[0].risesBy: must be a factor above 1, as in 3x"},
      {Target::kLocal,
       "  command: [a]\n  failurePolicy: {rules: [{metric: loss, above: 1, exitCodes: [1]}]}\n",
       "write two rules"},
      {Target::kLocal,
       "  command: [a]\n  failurePolicy: {rules: [{metric: loss, above: 1, action: Restart}]}\n",
       "must be RestartFromEarlier, Fail or Report"},
      {Target::kLocal,
       "  command: [a]\n  failurePolicy:\n"
       "    rules: [{metric: loss, above: 1, action: RestartFromEarlier}]\n",
       "RestartFromEarlier needs spec.checkpoint.path"},
      {Target::kLocal,
       "  command: [a]\n  failurePolicy: {rules: [{metric: loss, above: 1, skipSteps: 2}]}\n",
       "skipSteps: needs action: RestartFromEarlier"},
      {Target::kLocal, "  command: [a]\n  failurePolicy: {rules: [{exitCodes: [1], for: 3}]}\n",
       "need metric"},
      {Target::kLocal,
       "  command: [a]\n  failurePolicy: {rules: [{exitCodes: [1], action: Report}]}\n",
       "must be Restart, Fail or ReplaceMachine"},
      {Target::kLocal, "  command: [a]\n  failurePolicy: {rules: [{exitCodes: [0]}]}\n",
       "rules[0].exitCodes[0]: must lie between 1 and 255"},
      {Target::kLocal, "  command: [a]\n  failurePolicy: {rules: [{exitCodes: [1, 256]}]}\n",
       "exitCodes[1]"},
      {Target::kLocal,
       "  command: [a]\n  failurePolicy: {rules: [{exitCodes: [1], signals: [SIGBUS]}]}\n",
       "write two rules"},
      {Target::kLocal, "  command: [a]\n  failurePolicy: {rules: [{stderr: \"(\"}]}\n",
       "is not a regular expression"},
      {Target::kLocal, "  command: [a]\n  progress: {patterns: [\"(\"]}\n",
       "spec.progress.patterns[0]: is not a regular expression"},
      {Target::kLocal, "  command: [a]\n  progress: {patterns: [\"at (?P<steps>x)\"]}\n",
       "has the group steps; the groups are step, total, epoch, epochs and loss"},
      {Target::kLocal,
       "  command: [a]\n  progress: {from: Reports, patterns: [\"at (?P<step>x)\"]}\n",
       "write progress.from: Auto or Output"},
      {Target::kLocal, "  command: [a]\n  progress: {from: Never}\n  health: {hangTimeout: 10s}\n",
       "spec.health.hangTimeout: needs progress"},
      {Target::kLocal, "  command: [a]\n  resourcesPerProcess: {gpu: -1}\n", "between 0 and 64"},
      {Target::kLocal, "  command: [a]\n  resourcesPerProcess: {cpu: 0}\n", "greater than 0"},
      {Target::kLocal, "  command: [a]\n  resourcesPerProcess: {memory: 500m}\n",
       "whole number of bytes"},
      {Target::kLocal, "  command: [a]\n  resourcesPerProcess: {memory: 65Ti}\n",
       "must be at most 64Ti"},
      {Target::kLocal, "  command: [a]\n  resourcesPerProcess: {cpu: 4097}\n",
       "must be at most 4096"},
      {Target::kLocal, "  command: [a]\n  resourcesPerProcess: {gpuResource: \"\"}\n",
       "must name a resource"},
      {Target::kLocal, "  command: [a]\n  resourcesPerMachine: {cpu: 4}\n",
       "write it as spec.resourcesPerProcess.cpu"},
      {Target::kLocal, "  command: [a]\n  resourcesPerMachine: {nvidia.com/gpu: 4}\n",
       "write it as spec.resourcesPerProcess.gpu"},
      {Target::kLocal, "  command: [a]\n  resourcesPerMachine: {x/y: -4}\n", "0 or more"},
      {Target::kLocal, "  command: [a]\n  resourcesPerMachine: {x/y/z: 4}\n",
       "must name resources"},
      {Target::kLocal, "  command: [a]\n  placement: {topologyKey: a b}\n", "must be a node label"},
      {Target::kLocal, "  command: [a]\n  sharedMemory: 0\n", "greater than 0"},
      {Target::kLocal,
       "  command: [a]\n  sharedMemory: 3Gi\n  processesPerMachine: 2\n"
       "  resourcesPerProcess: {memory: 1Gi}\n",
       "within the machine's memory, which is 2Gi"},
      {Target::kLocal, "  command: [a]\n  template: [1]\n", "must be a pod template"},
      {Target::kLocal, "  command: [a]\n  template: {containers: []}\n",
       "unknown field \"containers\""},
      {Target::kLocal,
       "  command: [a]\n  template: {spec: {containers: [{name: worker, command: [b]}]}}\n",
       "spec.command: is also set in the template's worker container"},
      {Target::kLocal,
       "  command: [a]\n  template: {spec: {containers: [{name: worker, "
       "resources: {limits: {cpu: 1}}}]}}\n",
       "has limits or requests in its worker container"},
      {Target::kLocal, "  command: [a]\n  template: {metadata: {ownerReferences: []}}\n",
       "spec.template.metadata.ownerReferences: remove it: Lockstep sets"},
      {Target::kLocal, "  command: [a]\n  template: {metadata: {uid: a}}\n",
       "spec.template.metadata.uid: unknown field"},
      {Target::kLocal, "  command: [a]\n  template: {metadata: {labels: {lockstep.dev/job: a}}}\n",
       "holds a label that Lockstep sets itself; remove it (found lockstep.dev/job)"},
      {Target::kLocal,
       "  command: [a]\n  template: {metadata: {labels: {app.kubernetes.io/name: a}}}\n",
       "(found app.kubernetes.io/name)"},
      {Target::kLocal, "  command: [a]\n  template: {spec: {restartPolicy: Always}}\n",
       "spec.template.spec.restartPolicy: must be Never"},
      {Target::kLocal,
       "  command: [a]\n"
       "  template: {spec: {containers: [{name: worker, restartPolicy: Always}]}}\n",
       "spec.template.spec.containers: has a restartPolicy"},
      {Target::kLocal, "  command: [a]\n  template: {spec: {hostname: a}}\n", "remove it"},
      {Target::kCluster,
       "  command: [a]\n  network: {hostnames: false}\n"
       "  template: {spec: {setHostnameAsFQDN: true}}\n",
       "spec.template.spec.setHostnameAsFQDN: needs spec.network.hostnames: without it a pod has "
       "no "
       "domain name"},
      {Target::kLocal, "  command: [a]\n  template: {spec: {terminationGracePeriodSeconds: 1}}\n",
       "write it as spec.gracePeriod"},
      {Target::kLocal, "  command: [a]\n  template: {spec: {volumes: [{name: lockstep-a}]}}\n",
       "holds a name that begins with lockstep-"},
      {Target::kLocal,
       "  command: [a]\n  template: {spec: {containers: [{name: b, volumeMounts: [{name: c, "
       "mountPath: /c}, {name: lockstep-key, mountPath: /k}]}]}}\n",
       "spec.template.spec.containers: mounts a volume whose name begins with lockstep-"},
      {Target::kLocal,
       "  command: [a]\n  template: {spec: {initContainers: [{name: b, volumeMounts: [{name: "
       "lockstep-agent, mountPath: /k}]}]}}\n",
       "spec.template.spec.initContainers: mounts a volume"},
      {Target::kLocal,
       "  command: [a]\n  schedulerName: a\n  template: {spec: {schedulerName: a}}\n",
       "spec.schedulerName: is also set in the template's pod"},
      {Target::kCluster, "  trainer: {}\n", "spec.trainer.data: is missing"},
      {Target::kCluster, "  trainer: {mode: Generate}\n", "spec.trainer.prompts: is missing"},
      {Target::kCluster,
       "  trainer: {data: [a], modelShape: {layers: 1, heads: 3, width: 64, vocabulary: 9}}\n",
       "must be a multiple of heads, 3"},
      {Target::kCluster, "  trainer: {data: [a], steps: 0}\n", "between 1 and"},
      {Target::kCluster, "  trainer: {data: [a], learningRate: 0}\n", "greater than 0"},
      {Target::kCluster, "  trainer: {data: [a], clip: -1}\n", "0 (off) or more"},
      {Target::kCluster, "  trainer: {data: [a], validateEvery: 5}\n",
       "spec.trainer.validationData: is missing"},
      {Target::kCluster,
       "  trainer: {data: [a], validationData: [b], validationSamples: 1000001}\n",
       "between 1 and 1000000"},
      {Target::kCluster, "  preflight: {margin: 1.1}\n", "above 0 and at most 1"},
      {Target::kCluster, "  preflight: {minDiskGBps: -1}\n", "0 (no limit) or more"},
      {Target::kCluster, "  numMachines: 2\n  elastic: {minMachines: 3}\n",
       "spec.elastic.minMachines: must be at most numMachines (found 3)"},
      {Target::kCluster, "  numMachines: 4\n  elastic: {sizes: [3, 2]}\n", "must ascend"},
      {Target::kCluster, "  numMachines: 4\n  elastic: {minMachines: 2, sizes: [1, 5]}\n",
       "must lie between minMachines and numMachines"},
      {Target::kCluster, "  elastic: {shrinkAfter: 25h}\n", "between 0s and 24h"},
      {Target::kCluster, "  elastic: {growAfter: 25h}\n", "between 0s and 24h"},
      {Target::kCluster,
       "  numMachines: 4\n  trainer: {data: [a], globalBatchSize: 16}\n  elastic: {sizes: [3]}\n",
       "spec.trainer.globalBatchSize divides evenly"},
      {Target::kCluster, "  elastic: {}\n  framework: Horovod\n", "different numbers of ranks"},
      {Target::kCluster, "  elastic: {}\n  roles: [{name: a}]\n", "different numbers of ranks"},
      {Target::kCluster, "  elastic: {}\n  checkpoint: {memory: {size: 1Gi}}\n",
       "lost if a machine's part is lost"},
      {Target::kCluster, "  elastic: {}\n  preflight: {enabled: true}\n",
       "replacement of a slow machine"},
      {Target::kCluster, "  elastic: {}\n  trainer: {data: [a], recovery: InPlace}\n",
       "whose ranks may have other numbers in the next generation"},
      {Target::kCluster, "  numMachines: 3\n  trainer: {data: [a], globalBatchSize: 16}\n",
       "cannot be divided evenly among 3 processes; write a multiple of 3, or run it with this "
       "many "
       "processes: 1, 2, 4, 8, 16 (found 16)"},
      {Target::kCluster,
       "  numMachines: 4\n  trainer: {data: [a], globalBatchSize: 16, microBatchSize: 8}\n",
       "in micro batches of 8; write a multiple of 32, or run it with this many processes: 1, 2"},
      {Target::kCluster, "  numMachines: 6\n  trainer: {data: [a], parallel: {pipeline: 4}}\n",
       "spec.trainer.parallel.pipeline: must divide the number of processes, 6; it may be 1, 2, 3, "
       "6"},
      {Target::kCluster, "  numMachines: 6\n  trainer: {data: [a], parallel: {pipeline: 2}}\n",
       "cannot be divided evenly among 6 processes in pipelines of 2; write a multiple of 3, or "
       "run "
       "it with this many processes: 2, 4, 8, 16, 32"},
      {Target::kCluster,
       "  numMachines: 4\n  trainer: {data: [a], parallel: {pipeline: 4}, modelShape: {layers: 6, "
       "heads: "
       "1, width: 1, vocabulary: 1}}\n",
       "must divide the model's layers, 6; it may be 1, 2, 3, 6"},
      {Target::kCluster, "  numMachines: 3\n  trainer: {data: [a], parallel: {pipeline: 3}}\n",
       "must divide the model's layers, 4; it may be 1, 2, 4"},
      {Target::kLocal,
       "  trainer: {data: [a], model: micro, device: Cuda, reduce: Nccl, parallel: {tensorShards: "
       "2}}\n",
       "must be 1 unless reduce is Tree"},
      {Target::kCluster,
       "  numMachines: 2\n  trainer: {prompts: [a], mode: Generate, parallel: {pipeline: 2}}\n",
       "must be 1 for mode Generate"},
      {Target::kCluster,
       "  numMachines: 2\n  trainer: {data: [a], sync: ParameterServer, parallel: {pipeline: 2}}\n",
       "must be 1 with a parameter server"},
      {Target::kCluster,
       "  numMachines: 2\n  trainer: {data: [a], reduce: Ring, parallel: {pipeline: 2}}\n",
       "must be 1 unless reduce is Tree"},
      {Target::kCluster,
       "  numMachines: 2\n  trainer: {data: [a], measureScaling: true, parallel: {pipeline: 2}}\n",
       "spec.trainer.parallel.pipeline: must be 1 for measureScaling"},
      {Target::kLocal,
       "  numMachines: 2\n  trainer: {data: [a], model: gpt2, device: Cuda, recovery: InPlace, "
       "parallel: {pipeline: 2}}\n",
       "spec.trainer.recovery: must be Restart if parallel.pipeline or tensor is above 1"},
      {Target::kCluster, "  trainer: {prompts: [a], mode: Generate, recovery: InPlace}\n",
       "spec.trainer.recovery: must be Restart for mode Generate"},
      {Target::kCluster, "  trainer: {data: [a], sync: ParameterServer, recovery: InPlace}\n",
       "spec.trainer.recovery: must be Restart with a parameter server"},
      {Target::kCluster,
       "  numMachines: 2\n  trainer: {data: [a], recovery: InPlace, parallel: {pipeline: 2}}\n",
       "spec.trainer.recovery: must be Restart if parallel.pipeline or tensor is above 1"},
      {Target::kCluster,
       "  numMachines: 2\n  trainer: {data: [a], recovery: InPlace, parallel: {tensor: 2, "
       "tensorShards: 2}}\n",
       "spec.trainer.recovery: must be Restart if parallel.pipeline or tensor is above 1"},
      {Target::kCluster, "  trainer: {data: [a], parallel: {pipeline: 0}}\n", "between 1 and 1024"},
      {Target::kCluster, "  trainer: {data: [a], parallel: {tensor: 0}}\n", "between 1 and 1024"},
      {Target::kCluster,
       "  numMachines: 6\n  trainer: {data: [a], parallel: {pipeline: 2, tensor: 2, tensorShards: "
       "2}}\n",
       "spec.trainer.parallel.tensor: times pipeline must divide the number of processes, 6"},
      {Target::kCluster, "  numMachines: 2\n  trainer: {data: [a], parallel: {tensor: 2}}\n",
       "spec.trainer.parallel.tensor: must divide tensorShards, 1; it may be 1, or more with a "
       "larger tensorShards"},
      {Target::kCluster, "  trainer: {data: [a], parallel: {tensorShards: 8}}\n",
       "must divide the model's heads, 4; it may be 1, 2, 4"},
      {Target::kCluster, "  trainer: {data: [a], parallel: {tensorShards: 3}}\n",
       "must be a power of two"},
      {Target::kCluster,
       "  numMachines: 6\n  trainer: {data: [a], parallel: {tensor: 2, tensorShards: 2}}\n",
       "cannot be divided evenly among 6 processes in pipelines of 2"},
      {Target::kCluster, "  trainer: {prompts: [a], mode: Generate, parallel: {tensorShards: 2}}\n",
       "must be 1 for mode Generate"},
      {Target::kCluster,
       "  trainer: {data: [a], sync: ParameterServer, parallel: {tensorShards: 2}}\n",
       "must be 1 with a parameter server"},
      {Target::kCluster, "  trainer: {data: [a], reduce: Ring, parallel: {tensorShards: 2}}\n",
       "must be 1 unless reduce is Tree, as shards add up"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(Problems(Job(c.spec), c.target), HasSubstr(c.says)) << c.spec;
  }
}

TEST(Validate, TakesAsManyWorkersOfTensorFlowAsAVariableHolds) {
  EXPECT_EQ(Local("  command: [a]\n  framework: TensorFlow\n  numMachines: 1024\n"
                  "  processesPerMachine: 2\n"),
            "");
}

TEST(Validate, WarnsOfProcessesOfTensorFlowThatWouldTakeEachOthersGpus) {
  const std::string spec =
      "  command: [a]\n  framework: TensorFlow\n  processesPerMachine: 2\n"
      "  resourcesPerProcess: {gpu: 1}\n";
  EXPECT_THAT(Local(spec), AllOf(HasSubstr("warning"), HasSubstr("write Isolated")));
  EXPECT_EQ(Local(spec + "  topology: {gpuVisibility: Isolated}\n"), "");
}

TEST(Validate, RefusesTorchrunUnderPerProcess) {
  const char* const commands[] = {
      "[torchrun, train.py]",
      "[/usr/bin/torchrun, train.py]",
      "[python, -m, torch.distributed.run, train.py]",
      "[python3.11, -u, -m, torch.distributed.launch, train.py]",
      "[env, A=b, torchrun, train.py]",
      "[bash, -c, \"cd /x && exec torchrun train.py\"]",
  };
  for (const char* command : commands) {
    const std::string spec = std::string("  processesPerMachine: 4\n  command: ") + command + "\n";
    EXPECT_THAT(Local(spec), AllOf(HasSubstr("spec.command: set launch: PerMachine, or remove the "
                                             "launcher"),
                                   HasSubstr("each of the 4 processes")))
        << command;
    EXPECT_EQ(Local(spec + "  launch: PerMachine\n"), "") << command;
  }
}

// Each would run a separate training on each machine, and the job would succeed.
TEST(Validate, RefusesALauncherThatCannotJoinTheMachinesHoweverItIsLaunched) {
  const struct {
    const char* command;
    const char* launcher;
  } cases[] = {
      {"[accelerate, launch, train.py]", "accelerate launch"},
      {"[accelerate-launch, train.py]", "accelerate-launch"},
      {"[horovodrun, -np, \"4\", a]", "horovodrun"},
      {"[deepspeed, train.py]", "deepspeed"},
      {"[/usr/bin/srun, a]", "srun"},
      {"[python, -m, accelerate.commands.launch, train.py]", "accelerate launch"},
      {"[python3, -u, -m, deepspeed.launcher.runner, train.py]", "deepspeed"},
      {"[ds, --num_gpus, \"2\", train.py]", "deepspeed"},
      {"[env, -u, X, -C, /w, A=b, accelerate, launch, train.py]", "accelerate launch"},
      {"[env, -S, \"accelerate launch\", train.py]", "accelerate launch"},
      {"[exec, -a, x, deepspeed, train.py]", "deepspeed"},
      {"[python3, -u, /venv/bin/accelerate, launch, train.py]", "accelerate launch"},
      {"[sh, -ec, \"A=1 accelerate launch train.py\"]", "accelerate launch"},
      {"[env, bash, -c, \"bash -c 'exec srun a'\"]", "srun"},
      {"[uv, run, accelerate, launch, train.py]", "accelerate launch"},
      {"[conda, run, -n, torch, nice, deepspeed, train.py]", "deepspeed"},
  };
  for (const auto& [command, launcher] : cases) {
    for (const char* launch : {"PerProcess", "PerMachine"}) {
      const std::string spec =
          std::string("  launch: ") + launch + "\n  command: " + command + "\n";
      EXPECT_THAT(Local(spec),
                  AllOf(HasSubstr(std::string("spec.command: write the program itself, "
                                              "without ") +
                                  launcher + " and launch: PerMachine"),
                        HasSubstr("`lockstep convert -- " + std::string(launcher) + " ...`"),
                        Not(HasSubstr("set launch: PerMachine"))))
          << command;
    }
  }
  EXPECT_THAT(Local("  command: [accelerate, launch, train.py]\n"),
              HasSubstr("framework: Accelerate"));
}

TEST(Validate, TakesMpirunUnderItsFrameworkAloneAndNoOtherLauncherThere) {
  for (const char* command :
       {"[mpirun, -n, \"4\", a]", "[mpirun.openmpi, a]", "[mpiexec.hydra, a]", "[orterun, a]",
        "[env, A=b, mpirun, a]", "[timeout, -k, 10s, 1h, mpiexec, a]",
        "[bash, -c, \"./prepare; mpirun a\"]"}) {
    const std::string spec = std::string("  numMachines: 2\n  processesPerMachine: 2\n") +
                             "  command: " + command + "\n";
    for (const char* launch : {"", "  launch: PerMachine\n"}) {
      EXPECT_THAT(Local(spec + launch), HasSubstr("under framework: Mpi with mpi.start: Launcher"))
          << command;
      EXPECT_EQ(Local(spec + launch + "  framework: Mpi\n"), "") << command;
    }
    for (const char* start : {"Pmi", "Pmix"}) {
      EXPECT_THAT(Local(spec + "  framework: Mpi\n  mpi: {start: " + start + "}\n"),
                  HasSubstr("with mpi.start: Launcher"))
          << command;
    }
  }
  for (const char* command : {"[torchrun, a]", "[accelerate, launch, a]", "[horovodrun, a]"}) {
    EXPECT_THAT(Local(std::string("  framework: Mpi\n  command: ") + command + "\n"),
                HasSubstr("write the program itself"))
        << command;
  }
  EXPECT_EQ(Local("  framework: Mpi\n  command: [./solve.sh]\n"), "");
}

TEST(Validate, RefusesAnMpirunWhoseWorldIsNotTheJobs) {
  const auto problems = [](const std::string& command) {
    return Local("  numMachines: 2\n  processesPerMachine: 2\n  framework: Mpi\n  command: " +
                 command + "\n");
  };
  for (const auto& [command, why] : {
           std::pair("[mpirun, -np, \"2\", a]", "write -np 4: mpirun would start 2 of the 4"),
           {"[mpiexec, -n, \"8\", a]", "would start 8 of the 4"},
           {"[mpiexec, -genv, A=b, -n, \"8\", a]", "would start 8 of the 4"},
           {"[env, -u, X, mpirun, --np=2, a]", "write -np 4"},
           {"[mpirun, --debug-daemons, -pernode, -np, \"2\", a]", "write -np 4"},
           {"[mpirun, -np, \"2\", a, \":\", -np, \"1\", b]", "would start 3 of the 4"},
           {"[mpirun, --mca, btl, tcp, -x, A, --map-by, \"ppr:1:node:pe=2\", a]",
            "mpirun's --map-by ppr:1:node:pe=2 and processesPerMachine: 2 must be the same"},
           {"[mpiexec, -ppn, \"4\", -n, \"4\", a]", "mpirun's -ppn 4"},
           {"[mpirun, -H, localhost, a]", "does not name machine 1 (gpt-1)"},
           {"[mpirun, --host, \"gpt-0:2,gpt-10:2\", a]", "does not name machine 1"},
           {"[bash, -c, \"mpirun -np 1 a && mpirun -np 2 b\"]", "would start 1 of the 4"},
       }) {
    EXPECT_THAT(problems(command), HasSubstr(why)) << command;
  }
  for (const char* command :
       {"[mpirun, -np, \"4\", a, -np, \"2\"]", "[mpirun, a, -n, \"2\"]",
        "[mpirun, --odd, a, -n, \"2\"]", "[mpirun, --map-by, \"ppr:2:node\", a]",
        "[mpirun, --map-by, \"ppr:1:socket\", a]", "[mpirun, -H, \"gpt-0:2,gpt-1.gpt:2\", a]",
        "[mpirun, -np, $(RANKS), a]", "[mpirun, -np, \"2\", a, \":\", -np, \"2\", b]",
        "[bash, -c, \"mpirun -np 1 prepare && mpirun -np 4 train\"]"}) {
    EXPECT_EQ(problems(command), "") << command;
  }
}

TEST(Validate, RefusesACheckpointToResumeFromWithoutAFolderOfTheJobsOwn) {
  EXPECT_THAT(
      Local("  command: [a]\n  checkpoint: {resume: /old/7}\n"),
      HasSubstr("spec.checkpoint.path: is missing beside the checkpoint that resume names"));
  EXPECT_EQ(Local("  command: [a]\n  checkpoint: {resume: /old/7, path: /new}\n"), "");
}

TEST(Validate, KnowsTheUrlOfAnObjectStore) {
  const auto problems = [](const std::string& url) {
    return Local("  command: [a]\n  checkpoint: {memory: {size: 1Gi}, url: \"" + url + "\"}\n");
  };
  for (const char* url : {"s3://bucket", "s3://my-bucket.eu/a/b_c/gpt-2=1+1.x"}) {
    EXPECT_EQ(problems(url), "") << url;
  }
  for (const char* url :
       {"bucket", "s3://", "s3://b/gpt", "s3://bucket/", "s3://bucket//a", "s3://Bucket/a",
        "s3://bucket/../other", "s3://bucket/a b", "s3://bucket/a?b", "s3://key@bucket/a",
        "gs://bucket/a", "https://bucket/a", "s3://bucket/a%20b"}) {
    EXPECT_THAT(problems(url), HasSubstr("spec.checkpoint.url: must be s3://BUCKET/PREFIX")) << url;
  }
}

TEST(Validate, FindsALauncherThatStandsInTheArgs) {
  EXPECT_THAT(Local("  command: [python]\n  args: [-m, torch.distributed.run, train.py]\n"),
              HasSubstr("remove the launcher"));
}

TEST(Validate, TakesNoOrdinaryProgramForALauncher) {
  for (const char* command :
       {"[python, train.py, torchrun]", "[python, -m, train]", "[accelerate, config]",
        "[bash, -c, \"echo torchrun\"]", "[sh, torchrun.sh]", "[./train]",
        "[timeout, 1h, ./train, torchrun]", "[env, -u, torchrun, ./train]", "[ds, ls]",
        "[python, torchrun.py]", "[uv, run, python, train.py, mpirun]", "[nice]"}) {
    EXPECT_EQ(Local(std::string("  command: ") + command + "\n"), "") << command;
  }
}

constexpr const char* kNoGpu = "  resourcesPerProcess: {gpu: 0}\n";
constexpr const char* kOneGpu = "  resourcesPerProcess: {gpu: 1}\n";

TEST(Validate, AcceptsATrainerOnCpusAndOnGpus) {
  const std::string begin = "  trainer: {data: [a.txt], model: micro";
  for (const std::string rest : {"}\n", ", device: Cpu}\n", ", device: Cpu, backend: Gloo}\n",
                                 ", backend: Gloo}\n", ", sync: ParameterServer}\n"}) {
    EXPECT_EQ(Local(begin + rest), "");
    EXPECT_EQ(Cluster(begin + rest + kNoGpu), "");
  }
  for (const std::string rest : {"}\n", ", device: Cuda}\n", ", device: Cuda, backend: Nccl}\n",
                                 ", backend: Nccl}\n", ", device: Cuda, recovery: InPlace}\n"}) {
    EXPECT_EQ(Local(begin + rest), "") << "the trainer looks for a GPU of this computer";
    EXPECT_EQ(Cluster(begin + rest + kOneGpu), "");
  }
}

TEST(Validate, RefusesGpusThatTheTrainerWouldNotUse) {
  const std::string trainer = "  trainer: {data: [a], model: gpt2, device: ";
  EXPECT_THAT(Local(trainer + "Cpu}\n" + kOneGpu),
              HasSubstr("spec.resourcesPerProcess.gpu: remove it, or write spec.trainer.device: "
                        "Cuda"));
  EXPECT_THAT(Cluster(trainer + "Auto}\n  resourcesPerProcess: {gpu: 2}\n"),
              HasSubstr("spec.resourcesPerProcess.gpu: must be 1 for spec.trainer, which uses one "
                        "GPU a process; for more GPUs raise spec.processesPerMachine (found 2)"));
}

TEST(Validate, RefusesATrainerOnGpusWhosePodsHaveNone) {
  for (const char* const none : {"", kNoGpu}) {
    EXPECT_THAT(Cluster("  trainer: {data: [a], model: gpt2, device: Cuda}\n" + std::string(none)),
                HasSubstr("spec.trainer.device: needs spec.resourcesPerProcess.gpu: 1"));
    EXPECT_THAT(Cluster("  trainer: {data: [a], backend: Nccl}\n" + std::string(none)),
                HasSubstr("spec.trainer.backend: must be Auto or Gloo on CPUs; for GPUs write "
                          "spec.resourcesPerProcess.gpu: 1"));
  }
  EXPECT_THAT(Local("  trainer: {data: [a], device: Cpu, reduce: Nccl}\n"),
              HasSubstr("spec.trainer.reduce: must be Tree or Ring on CPUs"));
  EXPECT_THAT(Local("  trainer: {data: [a], device: Cpu, backend: Nccl}\n"),
              HasSubstr("spec.trainer.backend: must be Auto or Gloo on CPUs"));
}

TEST(Validate, RefusesWhatTheTrainerCannotDoOnGpus) {
  const std::pair<const char*, const char*> cases[] = {
      {"backend: Gloo", "spec.trainer.backend: must be Auto or Nccl on GPUs"},
      {"reduce: Ring", "spec.trainer.reduce: must be Tree or Nccl on GPUs"},
      {"sync: ParameterServer", "spec.trainer.sync: must be AllReduce on GPUs"},
      {"model: nano", "spec.trainer.model: must be micro or gpt2 on GPUs"},
      {"modelShape: {layers: 1, heads: 2, width: 64, vocabulary: 256}",
       "spec.trainer.modelShape.width: must be 64 x heads on GPUs, 128 (found 64)"},
      {"modelShape: {layers: 1, heads: 49, width: 3136, vocabulary: 256}",
       "spec.trainer.modelShape.width: must be at most 3072 on GPUs (found 3136)"},
  };
  for (const auto& [what, says] : cases) {
    const std::string model = std::string_view(what).starts_with("model") ? "" : ", model: gpt2";
    const std::string trainer = "  trainer: {data: [a], " + std::string(what) + model;
    EXPECT_EQ(Local(trainer + "}\n"), "") << "it may run on CPUs";
    EXPECT_THAT(Local(trainer + ", device: Cuda}\n"), HasSubstr(says));
    EXPECT_THAT(Cluster(trainer + "}\n" + kOneGpu), HasSubstr(says)) << "Auto is Cuda there";
  }
  EXPECT_EQ(
      Local("  trainer: {data: [a], device: Cuda, modelShape: {layers: 1, heads: 48, width: 3072, "
            "vocabulary: 256}}\n"),
      "");
}

TEST(Validate, CountsTheGpusOfThisComputer) {
  const TrainingJob job =
      Job("  command: [a]\n  numMachines: 2\n  processesPerMachine: 2\n"
          "  resourcesPerProcess: {gpu: 2}\n");
  EXPECT_EQ(Problems(job, Target::kLocal), "");
  EXPECT_EQ(Problems(job, Target::kLocal, 8), "");
  EXPECT_THAT(Problems(job, Target::kLocal, 5),
              HasSubstr("4 processes ask for 8 GPUs in all and this computer has 5; run at most 2 "
                        "processes"));
  EXPECT_THAT(Problems(job, Target::kLocal, 0), HasSubstr("remove gpu"));
  EXPECT_THAT(Problems(job, Target::kCluster, 0), Not(HasSubstr("GPUs")));
}

TEST(Validate, ChecksAJobMadeInCodeWithoutPlaces) {
  TrainingJob job;
  EXPECT_THAT(Problems(job, Target::kLocal), HasSubstr("job.yaml: error: metadata.name"));
}

TEST(AddProblems, BlamesNoFieldForTheDefaultThatStandsInForAMistake) {
  const ParseResult parsed = ParseYaml(
      "apiVersion: lockstep.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: a}\n"
      "spec: {command: python, image: }\n");
  std::vector<Problem> problems = parsed.problems;
  AddProblems(Validate(*parsed.job, Target::kCluster), &problems);
  EXPECT_EQ(Format(problems, "job.yaml"),
            "job.yaml:4:17: error: spec.command: must be a list; write [python] (found the text "
            "\"python\")\n"
            "job.yaml:4:25: warning: spec.image: has no value and counts as absent; remove the "
            "line, or write a value\n");
}

TEST(IgnoredLocally, NamesWhatIsSetAndMeansNothingHere) {
  EXPECT_EQ(IgnoredLocally(Job(kRun)), "");
  EXPECT_EQ(IgnoredLocally(
                Job("  image: i\n  imagePullSecrets: [{name: s}]\n  sharedMemory: 1Gi\n"
                    "  resourcesPerProcess: {gpu: 1, cpu: 1, memory: 1Gi}\n"
                    "  placement: {onePerNode: None}\n  network: {hostnames: false}\n"
                    "  scheduling: {gang: Coscheduling}\n  failurePolicy: {nodeHealth: Now}\n"
                    "  checkpoint: {claim: c, path: /c, secret: s}\n"
                    "  ttlSecondsAfterFinished: 0\n  cleanPodPolicy: All\n  priorityClassName: p\n"
                    "  schedulerName: s\n  health: {startTimeout: 1m}\n")),
            "image, imagePullSecrets, resourcesPerProcess.cpu, resourcesPerProcess.memory, "
            "sharedMemory, placement, scheduling, network, failurePolicy.nodeHealth, "
            "checkpoint.claim, checkpoint.secret, health.startTimeout, ttlSecondsAfterFinished, "
            "cleanPodPolicy, priorityClassName, schedulerName");
}

}  // namespace
}  // namespace lockstep::core
