#include "cli/convert/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "core/model/shortcuts.h"
#include "core/plan/launcher.h"
#include "tests/cli/convert/converted.h"

namespace lockstep::convert {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(ConvertAccelerate, TakesNumProcessesForTheTotal) {
  const core::Spec spec = SpecOf(
      Convert("compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_machines: 2\n"
              "num_processes: 8\nmixed_precision: bf16\nmachine_rank: 0\n"));
  EXPECT_EQ(spec.num_machines, 2);
  EXPECT_EQ(spec.processes_per_machine, 4);
  EXPECT_EQ(spec.framework, core::Framework::kAccelerate);
  EXPECT_EQ(spec.resources_per_process.gpu, 1);
  EXPECT_EQ(Env(spec).at("ACCELERATE_MIXED_PRECISION"), "bf16");
}

TEST(ConvertAccelerate, SaysThatNumProcessesIsTheTotalAndWhatToWriteForEachMachine) {
  const std::string says = "# num_processes 8 is the total of all 2 machines";
  const std::string config = "distributed_type: MULTI_GPU\nnum_machines: 2\n";
  EXPECT_THAT(Convert(config + "num_processes: 8\n").yaml,
              AllOf(HasSubstr(says), HasSubstr("processesPerMachine: 4."),
                    HasSubstr("write processesPerMachine: 8.")));
  EXPECT_THAT(ConvertLine("accelerate launch --num_machines 2 --num_processes 8 t.py").yaml,
              HasSubstr(says));
  // Nobody said a total, or both meanings are one.
  EXPECT_THAT(ConvertLine("accelerate launch --multi_gpu --num_machines 2 t.py").yaml,
              Not(HasSubstr("is the total")));
  EXPECT_THAT(Convert("distributed_type: MULTI_GPU\nnum_processes: 8\n").yaml,
              Not(HasSubstr("is the total")));
}

TEST(ConvertAccelerate, RefusesATotalThatDoesNotDivide) {
  const ConvertResult result =
      Convert("distributed_type: MULTI_GPU\nnum_machines: 4\nnum_processes: 10\n");
  EXPECT_EQ(result.yaml, "");
  EXPECT_EQ(Problems(result),
            "source:3:16: error: num_processes: 10 processes cannot be divided evenly among 4 "
            "machines; num_processes is the total of all machines: write 8 or 12\n");
  EXPECT_THAT(Problems(Convert("distributed_type: MULTI_GPU\nnum_machines: 4\nnum_processes: 3\n")),
              HasSubstr("write 4"));
}

TEST(ConvertAccelerate, RefusesWhatHasNoTotal) {
  EXPECT_THAT(Problems(Convert("distributed_type: MULTI_GPU\n")), HasSubstr("1 or more"));
  EXPECT_THAT(Problems(Convert("distributed_type: MULTI_GPU\nnum_processes: -1\n")),
              HasSubstr("1 or more"));
  EXPECT_EQ(SpecOf(Convert("distributed_type: 'NO'\n")).processes_per_machine, 1);
}

TEST(ConvertAccelerate, RefusesWhatIsNoGang) {
  const struct {
    const char* text;
    const char* says;
  } cases[] = {
      {"compute_environment: AMAZON_SAGEMAKER\ndistributed_type: MULTI_GPU\nnum_processes: 1\n",
       "SageMaker"},
      {"distributed_type: XLA\nnum_processes: 8\n", "TPUs"},
      {"distributed_type: multi_gpu\nnum_processes: 8\n", "write MULTI_GPU"},
      {"compute_environment: LOCAL_MACHINE\nnum_processes: 8\n", "is missing"},
      {"distributed_type: FSDP\nnum_processes: 8\nnum_machines: two\n", "a whole number"},
      {"distributed_type: 'NO'\nnum_machines: 2\nnum_processes: 2\n", "a separate model on each"},
      {"distributed_type: FSDP\nnum_processes: 8\nparallelism_config: {dp_shard_size: 3}\n",
       "multiply to 3, but there are 8 processes"},
  };
  for (const auto& c : cases) EXPECT_THAT(Problems(Convert(c.text)), HasSubstr(c.says)) << c.text;
}

TEST(ConvertAccelerate, StartsEveryRankOfACpuJob) {
  const ConvertResult result =
      Convert("distributed_type: MULTI_CPU\nnum_machines: 2\nnum_processes: 4\nuse_cpu: true\n");
  EXPECT_EQ(Env(SpecOf(result)).at("ACCELERATE_USE_CPU"), "true");
  EXPECT_FALSE(SpecOf(result).resources_per_process.gpu);
  EXPECT_THAT(result.yaml, HasSubstr("# MULTI_CPU: `accelerate launch` starts one process"));
}

TEST(ConvertAccelerate, SetsFsdpWithTheLaunchersDefaults) {
  const auto env = Env(
      SpecOf(Convert("distributed_type: FSDP\nnum_processes: 2\n"
                     "fsdp_config: {fsdp_version: 2, fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP,"
                     " fsdp_use_orig_params: false}\n")));
  EXPECT_EQ(env.at("ACCELERATE_USE_FSDP"), "true");
  EXPECT_EQ(env.at("FSDP_VERSION"), "2");
  EXPECT_EQ(env.at("FSDP_AUTO_WRAP_POLICY"), "TRANSFORMER_BASED_WRAP");
  EXPECT_EQ(env.at("FSDP_USE_ORIG_PARAMS"), "false");
  EXPECT_EQ(env.at("FSDP_SYNC_MODULE_STATES"), "true") << "the launcher's, not the library's";
}

TEST(ConvertAccelerate, SetsDeepSpeedAndWhatItsLauncherForgets) {
  const ConvertResult result = Convert(
      "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config: {zero_stage: 3,"
      " gradient_accumulation_steps: 4, offload_param_nvme_path: /nvme, zero3_init_flag: true,"
      " deepspeed_multinode_launcher: pdsh}\n");
  const auto env = Env(SpecOf(result));
  EXPECT_EQ(env.at("ACCELERATE_USE_DEEPSPEED"), "true");
  EXPECT_EQ(env.at("ACCELERATE_DEEPSPEED_ZERO_STAGE"), "3");
  EXPECT_EQ(env.at("ACCELERATE_GRADIENT_ACCUMULATION_STEPS"), "4");
  EXPECT_EQ(env.at("ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_NVME_PATH"), "/nvme");
  EXPECT_EQ(env.at("ACCELERATE_DEEPSPEED_ZERO3_INIT"), "true");
  EXPECT_THAT(env.at("ACCELERATE_CONFIG_DS_FIELDS"), HasSubstr("zero_stage"));
  EXPECT_THAT(result.yaml, HasSubstr("# deepspeed_multinode_launcher is not carried over"));
}

TEST(ConvertAccelerate, SetsTheOtherSections) {
  const auto env = Env(
      SpecOf(Convert("distributed_type: MEGATRON_LM\nnum_processes: 8\nmixed_precision: fp8\n"
                     "megatron_lm_config: {megatron_lm_tp_degree: 2}\n"
                     "dynamo_config: {dynamo_backend: inductor, use_dynamic: true}\n"
                     "fp8_config: {amax_history_length: 16}\n"
                     "parallelism_config: {parallelism_config_tp_size: 2, dp_shard_size: 4}\n")));
  EXPECT_EQ(env.at("MEGATRON_LM_TP_DEGREE"), "2");
  EXPECT_EQ(env.at("ACCELERATE_DYNAMO_BACKEND"), "INDUCTOR");
  EXPECT_EQ(env.at("ACCELERATE_DYNAMO_USE_DYNAMIC"), "true");
  EXPECT_EQ(env.at("ACCELERATE_FP8_AMAX_HISTORY_LEN"), "16");
  EXPECT_EQ(env.at("PARALLELISM_CONFIG_TP_SIZE"), "2");
}

TEST(ConvertAccelerate, SaysWhatItHonoursAndWhatItLeavesOut) {
  const ConvertResult result = Convert(
      "distributed_type: MULTI_GPU\nnum_processes: 2\nenable_cpu_affinity: true\n"
      "main_process_ip: 10.0.0.1\nmain_process_port: 29501\nrdzv_backend: c10d\n"
      "gpu_ids: 0,1\nnovelty: 1\n");
  EXPECT_THAT(result.yaml, AllOf(HasSubstr("# enable_cpu_affinity is honoured"),
                                 HasSubstr("# main_process_ip 10.0.0.1 is not carried over"),
                                 HasSubstr("# rdzv_backend c10d"), HasSubstr("# gpu_ids 0,1"),
                                 HasSubstr("# novelty is unknown"),
                                 HasSubstr("# A configuration names no program")));
  for (size_t at = 0; at < result.yaml.size();) {
    const size_t end = result.yaml.find('\n', at);
    EXPECT_LE(end - at, 100u);
    at = end + 1;
  }
}

TEST(ConvertTorchrun, ReadsItsCommandLine) {
  const ConvertResult result = ConvertLine(
      "OMP_NUM_THREADS=4 torchrun --nnodes=2 --nproc_per_node 4 --max-restarts=5 "
      "--rdzv-backend=c10d --rdzv-endpoint host:29400 --log-dir /tmp/l train.py --lr 0.1 --nnodes");
  const core::Spec spec = SpecOf(result);
  EXPECT_EQ(spec.num_machines, 2);
  EXPECT_EQ(spec.processes_per_machine, 4);
  EXPECT_EQ(spec.failure_policy.max_restarts, 5);
  EXPECT_EQ(spec.logs.path, "/tmp/l");
  EXPECT_EQ(Env(spec).at("OMP_NUM_THREADS"), "4");
  EXPECT_THAT(spec.command, ElementsAre("python", "train.py", "--lr", "0.1", "--nnodes"));
  EXPECT_THAT(result.yaml, HasSubstr("# torchrun: --rdzv-backend c10d is not carried over"));
}

TEST(ConvertTorchrun, ReadsModulesProgramsAndPythonForms) {
  const struct {
    const char* line;
    std::vector<std::string> command;
  } cases[] = {
      {"torchrun -m pkg.train -x", {"python", "-m", "pkg.train", "-x"}},
      {"torchrun --no-python ./train -x", {"./train", "-x"}},
      {"python3.11 -m torch.distributed.run --standalone train.py", {"python3.11", "train.py"}},
      {"python -m torch.distributed.launch --use_env --nproc_per_node=2 train.py",
       {"python", "train.py"}},
      {"env A=b /venv/bin/torchrun train.py", {"python", "train.py"}},
      {"torchrun -- train.py", {"python", "train.py"}},
  };
  for (const auto& c : cases) EXPECT_EQ(SpecOf(ConvertLine(c.line)).command, c.command) << c.line;
}

TEST(ConvertTorchrun, SaysWhatItCannotKnow) {
  EXPECT_THAT(ConvertLine("torchrun --nproc-per-node=gpu train.py").yaml,
              HasSubstr("# LOOK AT THIS: --nproc-per-node gpu is counted where torchrun runs"));
  EXPECT_THAT(ConvertLine("torchrun --nnodes=2:4 train.py").yaml,
              AllOf(HasSubstr("runs on 4 machines always"), HasSubstr("numMachines: 4")));
  EXPECT_THAT(ConvertLine("torchrun train.py").yaml, HasSubstr("here 3 restarts are allowed"));
  EXPECT_THAT(ConvertLine("torchrun --numa-binding=rack train.py").yaml, HasSubstr("the closest"));
}

TEST(ConvertTorchrun, KeepsItsNumaBindings) {
  for (const auto& [torchruns, ours] :
       {std::pair("node", core::Bind::kNode), std::pair("socket", core::Bind::kSocket),
        std::pair("exclusive", core::Bind::kExclusive),
        std::pair("core-complex", core::Bind::kCoreComplex)}) {
    const auto converted =
        ConvertLine("torchrun --numa-binding=" + std::string(torchruns) + " train.py");
    EXPECT_EQ(SpecOf(converted).topology.bind, ours);
    EXPECT_THAT(converted.yaml, Not(HasSubstr("the closest")));
  }
}

TEST(ConvertTorchrun, SaysWhatVirtualLocalRanksBecome) {
  const auto converted = ConvertLine("torchrun --virtual-local-rank train.py");
  EXPECT_EQ(SpecOf(converted).topology.gpu_visibility, core::GpuVisibility::kIsolated);
  EXPECT_THAT(converted.yaml, HasSubstr("its LOCAL_RANK is 0"));
}

TEST(ConvertTorchrun, RefusesWhatIsWrong) {
  EXPECT_THAT(Problems(ConvertLine("torchrun --nnodes=2")), HasSubstr("names no script"));
  EXPECT_THAT(Problems(ConvertLine("torchrun --nnodes=x train.py")), HasSubstr("is not a number"));
  EXPECT_THAT(Problems(ConvertLine("torchrun --nnodes=0 train.py")), HasSubstr("1 or more"));
  EXPECT_THAT(Problems(ConvertLine("torchrun --max-restarts=-1 train.py")),
              HasSubstr("is not a number"));
}

TEST(ConvertAccelerateLaunch, ReadsItsCommandLine) {
  const core::Spec spec = SpecOf(ConvertLine(
      "accelerate launch --multi_gpu --num_machines 2 --num_processes 8 --mixed_precision=fp16 "
      "--use_fsdp --fsdp_sharding_strategy FULL_SHARD --num_cpu_threads_per_process 3 -m pkg x"));
  EXPECT_EQ(spec.num_machines, 2);
  EXPECT_EQ(spec.processes_per_machine, 4);
  const auto env = Env(spec);
  EXPECT_EQ(env.at("OMP_NUM_THREADS"), "3");
  EXPECT_EQ(env.at("ACCELERATE_MIXED_PRECISION"), "fp16");
  EXPECT_EQ(env.at("ACCELERATE_USE_FSDP"), "true");
  EXPECT_THAT(spec.command, ElementsAre("python", "-m", "pkg", "x"));
}

TEST(ConvertAccelerateLaunch, LaysItsOptionsOverTheConfiguration) {
  const auto read = [](const std::string& path) -> Result<std::string> {
    if (path != "c.yaml") return Error::NotFound(path + " is not there");
    return std::string("distributed_type: FSDP\nnum_machines: 2\nnum_processes: 8\n");
  };
  const ConvertResult result = Convert(
      core::SplitShellWords("accelerate launch --config_file c.yaml --num_processes 4 train.py"),
      read);
  EXPECT_EQ(SpecOf(result).processes_per_machine, 2);
  EXPECT_EQ(Env(SpecOf(result)).at("ACCELERATE_USE_FSDP"), "true");
  const std::string script = "#SBATCH -N 2\nsrun accelerate launch --config_file ";
  EXPECT_EQ(SpecOf(Convert(script + "c.yaml t.py\n", read)).num_machines, 2);
  EXPECT_THAT(Problems(Convert(script + "d.yaml t.py\n", read)), HasSubstr("d.yaml is not there"));
  EXPECT_THAT(Problems(ConvertLine("accelerate launch --config_file c.yaml t.py")),
              HasSubstr("run convert where the file is"));
  // It is the script's own.
  EXPECT_THAT(SpecOf(ConvertLine("accelerate launch --cpu t.py --config_file c.yaml")).command,
              ElementsAre("python", "t.py", "--config_file", "c.yaml"));
}

TEST(ConvertAccelerateLaunch, ReadsThePythonForm) {
  const core::Spec spec =
      SpecOf(ConvertLine("python3 -m accelerate.commands.launch --cpu --num_processes 2 train.py"));
  EXPECT_THAT(spec.command, ElementsAre("python3", "train.py"));
  EXPECT_EQ(Env(spec).at("ACCELERATE_USE_CPU"), "true");
}

TEST(Convert, RefusesAJobThatValidateRefuses) {
  const ConvertResult result = ConvertLine("torchrun --nproc-per-node=65 train.py");
  EXPECT_EQ(result.yaml, "");
  EXPECT_THAT(Problems(result), HasSubstr("spec.processesPerMachine"));
}

TEST(Convert, KeepsTheLastOfTwoValuesOfAVariable) {
  EXPECT_EQ(Env(SpecOf(ConvertLine("A=b A=c torchrun train.py"))).at("A"), "c");
}

TEST(Convert, RefusesOtherCommandsAndFiles) {
  for (const char* line : {"", "python train.py", "colossalai run t.py", "timeout 1h mpirun a",
                           "bash -c 'torchrun t.py'", "accelerate config"}) {
    const ConvertResult result = ConvertLine(line);
    EXPECT_TRUE(core::HasErrors(result.problems)) << line;
    EXPECT_EQ(result.yaml, "") << line;
  }
  for (const char* text : {"", "a: 1\n", "[1", "kind: Job\n", "kind: PyTorchJob\n",
                           "kind: PyTorchJob\nspec: 3\n", "kind: TrainJob\nspec: {trainer: 1}\n"}) {
    EXPECT_TRUE(core::HasErrors(Convert(text).problems)) << text;
  }
}

constexpr const char* kPyTorchJob = R"(
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: bert, namespace: ml, labels: {team: nlp}}
spec:
  nprocPerNode: "4"
  runPolicy: {cleanPodPolicy: All, backoffLimit: 5, schedulingPolicy: {queue: q}}
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - name: pytorch
            image: bert:1
            command: [torchrun, train.py]
            env: [{name: A, value: b}, {name: MASTER_PORT, value: "1"}]
            resources:
              limits: {nvidia.com/gpu: 4, cpu: "48", memory: 400Gi, rdma/hca: 1}
            volumeMounts: [{name: d, mountPath: /d}]
          volumes: [{name: d, emptyDir: {}}]
    Worker:
      replicas: 3
      template: {spec: {containers: [{name: pytorch, image: bert:2}]}}
)";

TEST(ConvertKubeflow, ReadsAPyTorchJob) {
  const ConvertResult result = Convert(kPyTorchJob);
  const core::Spec spec = SpecOf(result);
  EXPECT_EQ(spec.num_machines, 4);
  EXPECT_EQ(spec.processes_per_machine, 4);
  EXPECT_EQ(spec.image, "bert:1");
  EXPECT_EQ(spec.launch, core::Launch::kPerMachine);
  EXPECT_EQ(spec.resources_per_process.gpu, 1);
  EXPECT_EQ(spec.resources_per_process.cpu->ToString(), "12");
  EXPECT_EQ(spec.resources_per_process.memory->ToString(), "100Gi");
  EXPECT_EQ(spec.resources_per_machine.at("rdma/hca").milli(), 1000);
  EXPECT_EQ(spec.failure_policy.max_restarts, 5);
  EXPECT_EQ(spec.clean_pod_policy, core::CleanPodPolicy::kAll);
  EXPECT_EQ(Env(spec), (std::map<std::string, std::string>{{"A", "b"}}));
  const core::Node& pod = *spec.template_.Find("spec");
  EXPECT_NE(pod.Find("volumes"), nullptr);
  const core::Node& worker = pod.Find("containers")->items()[0];
  EXPECT_EQ(worker.Find("name")->text(), "worker");
  EXPECT_NE(worker.Find("volumeMounts"), nullptr);
  EXPECT_EQ(worker.Find("resources"), nullptr);
  EXPECT_THAT(result.yaml,
              AllOf(HasSubstr("name: bert"), HasSubstr("namespace: ml"), HasSubstr("team: nlp"),
                    HasSubstr("# env MASTER_PORT is not carried over"),
                    HasSubstr("# runPolicy.schedulingPolicy is not carried over"),
                    HasSubstr("templates differ"), HasSubstr("# torchrun still starts 4")));
}

TEST(ConvertKubeflow, KeepsResourceClaimsInTheTemplate) {
  std::string text = kPyTorchJob;
  text.insert(text.find("limits: {nvidia"), "claims: [{name: gpus}]\n              ");
  const core::Spec spec = SpecOf(Convert(text));
  EXPECT_EQ(spec.resources_per_process.gpu, 1);
  const core::Node* claims = core::WorkerClaims(spec);
  ASSERT_NE(claims, nullptr);
  EXPECT_EQ(claims->items()[0].Find("name")->text(), "gpus");
}

TEST(ConvertKubeflow, RefusesALauncherThatCannotJoinTheMachines) {
  for (const char* command : {"[accelerate, launch, train.py]", "[mpirun, -n, \"4\", a]"}) {
    std::string text = kPyTorchJob;
    text.replace(text.find("[torchrun, train.py]"), 20, command);
    const ConvertResult result = Convert(text);
    EXPECT_EQ(result.yaml, "") << command;
    ASSERT_EQ(result.problems.size(), 1U) << command;
    EXPECT_THAT(result.problems[0].message, HasSubstr("write the program itself"));
    EXPECT_GT(result.problems[0].line, 0);
  }
}

TEST(ConvertKubeflow, CountsGpusWhereProcessesAreAuto) {
  std::string text = kPyTorchJob;
  text.replace(text.find("\"4\""), 3, "auto");
  EXPECT_EQ(SpecOf(Convert(text)).processes_per_machine, 4);
}

TEST(ConvertKubeflow, SaysWhereResourcesDoNotDivide) {
  std::string text = kPyTorchJob;
  text.replace(text.find("\"4\""), 3, "\"3\"");
  const ConvertResult result = Convert(text);
  EXPECT_THAT(result.yaml, AllOf(HasSubstr("cannot be divided evenly among 3"),
                                 HasSubstr("memory 400Gi is rounded down")));
  EXPECT_EQ(SpecOf(result).resources_per_process.gpu, 1);
  text.replace(text.find("nvidia.com/gpu: 4"), 17, "nvidia.com/gpu: 2");
  EXPECT_THAT(Problems(Convert(text)), HasSubstr("2 cannot be shared by 3 processes"));
}

TEST(ConvertKubeflow, ReadsATrainJob) {
  const ConvertResult result = Convert(R"(
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: llama}
spec:
  runtimeRef: {name: torch-distributed}
  suspend: false
  trainer:
    image: llama:1
    command: [python, train.py]
    numNodes: 2
    numProcPerNode: gpu
    resourcesPerNode: {limits: {nvidia.com/gpu: 8}}
  initializer: {dataset: {storageUri: hf://x}}
)");
  const core::Spec spec = SpecOf(result);
  EXPECT_EQ(spec.num_machines, 2);
  EXPECT_EQ(spec.processes_per_machine, 8);
  EXPECT_EQ(spec.launch, core::Launch::kPerProcess);
  EXPECT_EQ(spec.resources_per_process.gpu, 1);
  EXPECT_THAT(result.yaml, AllOf(HasSubstr("# runtimeRef torch-distributed is not in this file"),
                                 HasSubstr("# spec.initializer is not carried over"),
                                 Not(HasSubstr("launch: PerMachine"))));
}

}  // namespace
}  // namespace lockstep::convert
