#include "core/plan/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace lockstep::core {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;
using testing::StartsWith;

TrainingJob Job() {
  TrainingJob job;
  job.metadata.name = "gpt";
  job.spec.num_machines = 2;
  job.spec.processes_per_machine = 4;
  job.spec.command = {"python", "train.py"};
  return job;
}

ProcessIdentity Identity() {
  ProcessIdentity id;
  id.machine = 1;
  id.local_rank = 3;
  id.attempt = 2;
  id.n = 5;
  id.epoch = 4;
  id.restarts = 6;
  id.job_uid = "u-1";
  id.master_addr = "10.0.0.1";
  id.master_port = 20001;
  id.socket_path = "/run/s";
  id.checkpoint_dir = "/ckpt";
  id.resume_dir = "/ckpt/step-7";
  id.local_dir = "/local";
  id.error_file = "/err/7";
  id.omp_threads = 3;
  return id;
}

std::map<std::string, std::string> Environment(const TrainingJob& job, const ProcessIdentity& id) {
  std::map<std::string, std::string> map;
  for (const auto& [name, value] : ProcessEnvironment(job, id)) {
    EXPECT_TRUE(map.emplace(name, value).second) << name << " is set twice";
  }
  return map;
}

EnvVar Var(std::string name, std::string value) {
  EnvVar entry;
  entry.name = std::move(name);
  entry.value = std::move(value);
  return entry;
}

TEST(ProcessEnvironment, GivesTorchAllThatTorchrunWould) {
  EXPECT_EQ(Environment(Job(), Identity()), (std::map<std::string, std::string>{
                                                {"RANK", "7"},
                                                {"LOCAL_RANK", "3"},
                                                {"WORLD_SIZE", "8"},
                                                {"LOCAL_WORLD_SIZE", "4"},
                                                {"LOCAL_SIZE", "4"},
                                                {"GROUP_RANK", "1"},
                                                {"GROUP_WORLD_SIZE", "2"},
                                                {"NODE_RANK", "1"},
                                                {"ROLE_RANK", "7"},
                                                {"ROLE_WORLD_SIZE", "8"},
                                                {"MASTER_ADDR", "10.0.0.1"},
                                                {"MASTER_PORT", "20001"},
                                                {"OMP_NUM_THREADS", "3"},
                                                {"PYTHONUNBUFFERED", "1"},
                                                {"TORCHELASTIC_RUN_ID", "u-1"},
                                                {"TORCHELASTIC_RESTART_COUNT", "6"},
                                                {"TORCHELASTIC_MAX_RESTARTS", "3"},
                                                {"TORCHELASTIC_ERROR_FILE", "/err/7"},
                                                {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                                                {"LOCKSTEP_JOB", "gpt"},
                                                {"LOCKSTEP_JOB_UID", "u-1"},
                                                {"LOCKSTEP_EPOCH", "4"},
                                                {"LOCKSTEP_GENERATION", "2-5"},
                                                {"LOCKSTEP_RESTARTS", "6"},
                                                {"LOCKSTEP_MACHINE", "1"},
                                                {"LOCKSTEP_SOCKET", "/run/s"},
                                                {"LOCKSTEP_CHECKPOINT_DIR", "/ckpt"},
                                                {"LOCKSTEP_RESUME_DIR", "/ckpt/step-7"},
                                                {"LOCKSTEP_LOCAL_DIR", "/local"},
                                            }));
}

TEST(ProcessEnvironment, SetsNothingForWhatIsUnknown) {
  const auto environment = Environment(Job(), {});
  for (const char* name :
       {"OMP_NUM_THREADS", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "LOCKSTEP_SOCKET",
        "LOCKSTEP_CHECKPOINT_DIR", "LOCKSTEP_RESUME_DIR", "TORCHELASTIC_ERROR_FILE"}) {
    EXPECT_FALSE(environment.contains(name)) << name;
  }
}

TEST(ProcessEnvironment, KeepsWhatIsCompiledWhereTheNextGenerationFindsIt) {
  ProcessIdentity id = Identity();
  id.cache_dir = "/cache";
  const auto environment = Environment(Job(), id);
  EXPECT_EQ(environment.at("TORCHINDUCTOR_CACHE_DIR"), "/cache/inductor");
  EXPECT_EQ(environment.at("TRITON_CACHE_DIR"), "/cache/triton");
  EXPECT_EQ(environment.at("TORCH_EXTENSIONS_DIR"), "/cache/extensions");
  EXPECT_EQ(environment.at("PYTORCH_KERNEL_CACHE_PATH"), "/cache/kernels");
  EXPECT_EQ(environment.at("JAX_COMPILATION_CACHE_DIR"), "/cache/jax");
  EXPECT_EQ(environment.at("CUDA_CACHE_PATH"), "/cache/cuda");
}

TEST(BuildEnvironment, LeavesCompileCachesWhereTheUserHasThem) {
  ProcessIdentity id = Identity();
  id.cache_dir = "/cache";
  const auto image = BuildEnvironment({"CUDA_CACHE_PATH=/prewarmed"}, Job(), id);
  EXPECT_THAT(image, Contains("CUDA_CACHE_PATH=/prewarmed"));
  EXPECT_THAT(image, Contains("TRITON_CACHE_DIR=/cache/triton"));
  TrainingJob job = Job();
  job.spec.env = {Var("TORCHINDUCTOR_CACHE_DIR", "/claim")};
  const auto claimed = BuildEnvironment({}, job, id);
  EXPECT_THAT(claimed, Contains("TORCHINDUCTOR_CACHE_DIR=/claim"));
  EXPECT_THAT(claimed, Not(Contains(StartsWith("TRITON_CACHE_DIR="))))
      << "Triton's kernels would no longer be on the claim, in /claim/triton";
}

TEST(BuildEnvironment, HasATemporaryFolderOfItsGenerationUnlessTheUserHasOne) {
  ProcessIdentity id = Identity();
  id.temporary_dir = "/tmp/1-2";
  EXPECT_THAT(BuildEnvironment({}, Job(), id), Contains("TMPDIR=/tmp/1-2"));
  EXPECT_THAT(BuildEnvironment({"TMPDIR=/scratch"}, Job(), id), Contains("TMPDIR=/scratch"));
  TrainingJob job = Job();
  job.spec.env = {Var("TMPDIR", "/claim")};
  EXPECT_THAT(BuildEnvironment({}, job, id), Contains("TMPDIR=/claim"));
}

TEST(ProcessEnvironment, NamesTheOnlyInterface) {
  ProcessIdentity id = Identity();
  id.interface = "eth0";
  const auto environment = Environment(Job(), id);
  EXPECT_EQ(environment.at("NCCL_SOCKET_IFNAME"), "eth0");
  EXPECT_EQ(environment.at("GLOO_SOCKET_IFNAME"), "eth0");
}

TEST(ProcessEnvironment, NamesTheRdmaDevicesNearAProcessUnlessTheUserDoes) {
  ProcessIdentity id = Identity();
  EXPECT_FALSE(Environment(Job(), id).contains("NCCL_IB_HCA"));
  id.rdma_devices = "=mlx5_0,mlx5_1";
  EXPECT_EQ(Environment(Job(), id).at("NCCL_IB_HCA"), "=mlx5_0,mlx5_1");
  EXPECT_THAT(BuildEnvironment({"NCCL_IB_HCA=mlx5"}, Job(), id), Contains("NCCL_IB_HCA=mlx5"));
}

TEST(ProcessEnvironment, NamesWhereNcclsRasListensUnlessTheUserDoes) {
  ProcessIdentity id = Identity();
  EXPECT_FALSE(Environment(Job(), id).contains("NCCL_RAS_ADDR"));
  id.ras_address = "127.0.0.1:20001";
  EXPECT_EQ(Environment(Job(), id).at("NCCL_RAS_ADDR"), "127.0.0.1:20001");
  EXPECT_THAT(BuildEnvironment({"NCCL_RAS_ADDR=localhost:28028"}, Job(), id),
              Contains("NCCL_RAS_ADDR=localhost:28028"));
}

TEST(ProcessEnvironment, IsolatedGpusAreAProcesssOwnAndCountedFromZero) {
  TrainingJob job = Job();
  job.spec.env = {Var("CUDA_VISIBLE_DEVICES", "4,5,6,7")};
  job.spec.topology.gpu_visibility = GpuVisibility::kIsolated;
  ProcessIdentity id = Identity();
  id.has_gpu = true;
  id.gpu_variables = {{"CUDA_VISIBLE_DEVICES", "7"}};
  const std::vector<std::string> environment = BuildEnvironment({}, job, id);
  EXPECT_THAT(environment, Contains("CUDA_VISIBLE_DEVICES=7"));
  EXPECT_THAT(environment, Contains("LOCAL_RANK=0"));
  EXPECT_THAT(environment, Contains("RANK=7"));
  id.has_gpu = false;
  EXPECT_EQ(Environment(job, id).at("LOCAL_RANK"), "3")
      << "without a GPU there is nothing to count";
}

TEST(ProcessEnvironment, KeepsAccelerateTogetherWithoutAGpu) {
  TrainingJob job = Job();
  job.spec.framework = Framework::kAccelerate;
  auto environment = Environment(job, Identity());
  EXPECT_EQ(environment.at("ACCELERATE_USE_CPU"), "true") << "without it every rank trains alone";
  EXPECT_EQ(environment.at("ACCELERATE_MIXED_PRECISION"), "no");
  EXPECT_EQ(environment.at("TORCHELASTIC_RUN_ID"), "u-1");
  ProcessIdentity id = Identity();
  id.has_gpu = true;
  EXPECT_FALSE(Environment(job, id).contains("ACCELERATE_USE_CPU"));
}

TEST(ProcessEnvironment, GivesNoTorchNamesWithoutAFramework) {
  TrainingJob job = Job();
  job.spec.framework = Framework::kNone;
  for (const auto& [name, value] : Environment(job, Identity())) {
    EXPECT_FALSE(name.starts_with("TORCH")) << name;
    EXPECT_FALSE(name.starts_with("ACCELERATE")) << name;
  }
  EXPECT_EQ(Environment(job, Identity()).at("RANK"), "7");
}

TEST(ProcessEnvironment, GivesALauncherItsMachineAndNoRank) {
  TrainingJob job = Job();
  job.spec.launch = Launch::kPerMachine;
  ProcessIdentity id = Identity();
  id.local_rank = 0;
  const auto environment = Environment(job, id);
  EXPECT_EQ(environment.at("PET_NNODES"), "2");
  EXPECT_EQ(environment.at("PET_NPROC_PER_NODE"), "4");
  EXPECT_EQ(environment.at("PET_NODE_RANK"), "1");
  EXPECT_EQ(environment.at("PET_MASTER_ADDR"), "10.0.0.1");
  EXPECT_EQ(environment.at("PET_MASTER_PORT"), "20001");
  EXPECT_EQ(environment.at("PET_MAX_RESTARTS"), "0") << "the gang restarts as a whole";
  EXPECT_EQ(environment.at("NODE_RANK"), "1");
  for (const char* name : {"RANK", "LOCAL_RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"}) {
    EXPECT_FALSE(environment.contains(name)) << name;
  }
}

TEST(ProcessEnvironment, SetsReservedNamesOnlyThatAreReserved) {
  TrainingJob job = Job();
  ProcessIdentity id = Identity();
  id.interface = "eth0";
  id.pmi_address = "127.0.0.1:41000";
  for (const FrameworkRow& row : kFrameworks) {
    job.spec.framework = row.framework;
    for (const MpiStart how : {MpiStart::kPmi, MpiStart::kPmix}) {
      job.spec.mpi.start = how;
      for (const auto& [name, value] : ProcessEnvironment(job, id)) {
        EXPECT_NE(IsReserved(name), IsUserOverridable(name)) << name;
      }
    }
  }
}

TEST(ProcessEnvironment, TellsPmisClientsWhereTheirAgentAnswersAndWhoTheyAre) {
  TrainingJob job = Job();
  job.spec.framework = Framework::kMpi;
  ProcessIdentity id = Identity();
  id.pmi_address = "127.0.0.1:41000";
  id.pmi_id = 4711;
  EXPECT_FALSE(Environment(job, id).contains("PMI_PORT")) << "mpirun serves its own";
  job.spec.mpi.start = MpiStart::kPmi;
  const auto environment = Environment(job, id);
  EXPECT_EQ(environment.at("PMI_PORT"), "127.0.0.1:41000");
  EXPECT_EQ(environment.at("PMI_ID"), "4711");
  EXPECT_EQ(environment.at("PMI_RANK"), "7");
  EXPECT_EQ(environment.at("PMI_SIZE"), "8");
  EXPECT_EQ(environment.at("MPI_LOCALRANKID"), "3");
  EXPECT_EQ(environment.at("MPI_LOCALNRANKS"), "4");
}

TEST(ProcessEnvironment, TellsOpenMpisProcessesWhatTheirMachinesServerSaid) {
  TrainingJob job = Job();
  job.spec.framework = Framework::kMpi;
  ProcessIdentity id = Identity();
  id.pmix_variables = {{"PMIX_NAMESPACE", "a"}, {"PMIX_RANK", "7"}};
  EXPECT_FALSE(Environment(job, id).contains("PMIX_NAMESPACE")) << "mpirun has its own";
  job.spec.mpi.start = MpiStart::kPmix;
  job.spec.env = {{.name = "PMIX_NAMESPACE", .value = "b", .value_from = {}}};
  const auto environment = Environment(job, id);
  EXPECT_EQ(environment.at("PMIX_NAMESPACE"), "a");
  EXPECT_EQ(environment.at("PMIX_RANK"), "7");
  EXPECT_EQ(environment.at("OMPI_COMM_WORLD_RANK"), "7");
  EXPECT_EQ(environment.at("OMPI_COMM_WORLD_SIZE"), "8");
  EXPECT_EQ(environment.at("OMPI_COMM_WORLD_LOCAL_RANK"), "3");
  EXPECT_EQ(environment.at("OMPI_COMM_WORLD_LOCAL_SIZE"), "4");
  EXPECT_EQ(environment.at("JSM_JSRUN_PORT"), "1");
  EXPECT_FALSE(environment.contains("PMI_RANK"));
}

TEST(ProcessEnvironment, IsWhatHorovodrunWouldSet) {
  TrainingJob job = Job();
  job.spec.framework = Framework::kHorovod;
  ProcessIdentity id = Identity();
  id.interface = "eth0";
  const auto environment = Environment(job, id);
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"RANK", "7"},
                                          {"SIZE", "8"},
                                          {"LOCAL_RANK", "3"},
                                          {"LOCAL_SIZE", "4"},
                                          {"CROSS_RANK", "1"},
                                          {"CROSS_SIZE", "2"},
                                          {"HOSTNAME", "machine-1"},
                                          {"CONTROLLER", "gloo"},
                                          {"CPU_OPERATIONS", "gloo"},
                                          {"GLOO_IFACE", "eth0"},
                                          {"GLOO_RENDEZVOUS_ADDR", "10.0.0.1"},
                                          {"GLOO_RENDEZVOUS_PORT", "20001"}}) {
    EXPECT_EQ(environment.at("HOROVOD_" + name), value);
  }
}

TEST(BuildEnvironment, LetsTheUsersValueWinWhereItMay) {
  TrainingJob job = Job();
  job.spec.env = {Var("OMP_NUM_THREADS", "9")};
  const std::vector<std::string> environment = BuildEnvironment({}, job, Identity());
  EXPECT_THAT(environment, Contains("OMP_NUM_THREADS=9"));
  EXPECT_THAT(BuildEnvironment({"PYTHONUNBUFFERED="}, Job(), Identity()),
              Contains("PYTHONUNBUFFERED="));
  EXPECT_THAT(BuildEnvironment({"OMP_NUM_THREADS=5"}, Job(), Identity()),
              Contains("OMP_NUM_THREADS=5"));
  EXPECT_THAT(BuildEnvironment({"NCCL_SOCKET_IFNAME=ib0"}, Job(), Identity()),
              Contains("NCCL_SOCKET_IFNAME=ib0"));
}

TEST(BuildEnvironment, PutsTheJobsEnvOverTheInheritedOne) {
  TrainingJob job = Job();
  job.spec.env = {Var("A", "job")};
  EXPECT_THAT(BuildEnvironment({"A=inherited", "B=kept"}, job, Identity()),
              testing::AllOf(Contains("A=job"), Contains("B=kept"), Not(Contains("A=inherited"))));
}

TEST(BuildEnvironment, RemovesWhatAnOuterLauncherLeft) {
  const std::vector<std::string> environment = BuildEnvironment(
      {"SLURM_PROCID=3", "SLURM_JOB_ID=1", "RANK=99", "TORCHELASTIC_USE_AGENT_STORE=True",
       "PET_NNODES=9", "LOCKSTEP_SPEC={}", "PMI_RANK=2", "PATH=/bin"},
      Job(), Identity());
  std::set<std::string> names;
  for (const std::string& assignment : environment) {
    names.insert(assignment.substr(0, assignment.find('=')));
  }
  for (const char* gone : {"SLURM_PROCID", "SLURM_JOB_ID", "TORCHELASTIC_USE_AGENT_STORE",
                           "PET_NNODES", "LOCKSTEP_SPEC", "PMI_RANK"}) {
    EXPECT_FALSE(names.contains(gone)) << gone;
  }
  EXPECT_THAT(environment, Contains("RANK=7"));
  EXPECT_THAT(environment, Contains("PATH=/bin"));
}

TEST(ProcessEnvironment, IsWhatJaxNeedsToFindItsPeersWithoutArguments) {
  TrainingJob job = Job();
  job.spec.framework = Framework::kJax;
  const auto environment = Environment(job, Identity());
  EXPECT_EQ(environment.at("JAX_COORDINATOR_ADDRESS"), "10.0.0.1:20001");
  EXPECT_EQ(environment.at("OMPI_MCA_orte_hnp_uri"), "lockstep");
  EXPECT_EQ(environment.at("OMPI_COMM_WORLD_RANK"), "7");
  EXPECT_EQ(environment.at("OMPI_COMM_WORLD_SIZE"), "8");
  EXPECT_EQ(environment.at("OMPI_COMM_WORLD_LOCAL_RANK"), "3");
  EXPECT_EQ(environment.at("JAX_ENABLE_PREEMPTION_SERVICE"), "false");
  EXPECT_FALSE(environment.contains("TORCHELASTIC_RUN_ID"));
}

TEST(ProcessEnvironment, AProcessOfJaxSeesAllGpusThatAreItsOwn) {
  TrainingJob job = Job();
  job.spec.framework = Framework::kJax;
  ProcessIdentity id = Identity();
  EXPECT_FALSE(Environment(job, id).contains("JAX_LOCAL_DEVICE_IDS"));
  id.has_gpu = true;
  EXPECT_EQ(Environment(job, id).at("JAX_LOCAL_DEVICE_IDS"), "3");
  job.spec.resources_per_process.gpu = 2;
  EXPECT_EQ(Environment(job, id).at("JAX_LOCAL_DEVICE_IDS"), "6,7");
  job.spec.topology.gpu_visibility = GpuVisibility::kIsolated;
  EXPECT_EQ(Environment(job, id).at("JAX_LOCAL_DEVICE_IDS"), "0,1");
}

TEST(ProcessEnvironment, GivesMpirunAShellAndTheMachinesUnderTheNamesOfEveryMpi) {
  TrainingJob job = Job();
  job.spec.framework = Framework::kMpi;
  ProcessIdentity id = Identity();
  id.launcher_dir = "/run/mpi/2-5";
  const auto env = Environment(job, id);
  for (const char* name : {"OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent",
                           "HYDRA_LAUNCHER_EXEC", "I_MPI_HYDRA_BOOTSTRAP_EXEC"}) {
    EXPECT_EQ(env.at(name), "/run/mpi/2-5/rsh") << name;
  }
  for (const char* name : {"OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"}) {
    EXPECT_EQ(env.at(name), "/run/mpi/2-5/hosts") << name;
  }
  for (const char* name : {"HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE"}) {
    EXPECT_EQ(env.at(name), "/run/mpi/2-5/hosts.hydra") << name;
  }
  EXPECT_EQ(env.at("HYDRA_LAUNCHER"), "ssh");
  EXPECT_EQ(env.at("I_MPI_HYDRA_BOOTSTRAP"), "ssh");
  EXPECT_EQ(env.at("I_MPI_PERHOST"), "4");
  EXPECT_EQ(env.at("MASTER_ADDR"), "10.0.0.1");
  // What MPICH hands on to ranks of other machines must be true there.
  for (const char* name : {"RANK", "NODE_RANK", "PET_NODE_RANK", "LOCKSTEP_MACHINE"}) {
    EXPECT_FALSE(env.contains(name)) << name;
  }
}

TEST(ProcessEnvironment, GivesNoOtherMachineWhatMpirunReads) {
  TrainingJob job = Job();
  job.spec.framework = Framework::kMpi;
  for (const auto& [name, value] : Environment(job, Identity())) {
    for (const char* prefix : {"OMPI_", "PRTE_", "HYDRA_", "I_MPI_"}) {
      EXPECT_THAT(name, Not(StartsWith(prefix)));
    }
  }
}

TEST(ProcessEnvironment, TellsTensorFlowOfEveryWorkerAndWhichOneItIs) {
  TrainingJob job = Job();
  job.spec.framework = Framework::kTensorFlow;
  ProcessIdentity id = Identity();
  EXPECT_FALSE(Environment(job, id).contains("TF_CONFIG")) << "of nobody's address";
  id.endpoints = {"10.0.0.1:20001", "[fd00::2]:20002"};
  EXPECT_EQ(Environment(job, id).at("TF_CONFIG"),
            R"({"cluster": {"worker": ["10.0.0.1:20001", "[fd00::2]:20002"]}, )"
            R"("task": {"type": "worker", "index": 7}})");
  EXPECT_EQ(Environment(job, id).at("RANK"), "7");
  EXPECT_FALSE(Environment(Job(), id).contains("TF_CONFIG")) << "of another framework";
}

TEST(ProcessEnvironment, TellsTensorFlowOfEveryRoleButEvaluatorsWhomTheClusterDoesNotKnow) {
  TrainingJob job = Job();
  job.spec.framework = Framework::kTensorFlow;
  job.spec.roles = {{"chief", 1}, {"worker", 4}, {"ps", 1}, {"evaluator", 2}};
  ProcessIdentity id = Identity();
  id.endpoints = {"a:1", "b:1", "c:1", "d:1", "e:1", "f:1", "g:1", "h:1"};
  const std::string cluster =
      R"({"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1", "d:1", "e:1"], "ps": ["f:1"]}, )";
  EXPECT_EQ(Environment(job, id).at("TF_CONFIG"),
            cluster + R"("task": {"type": "evaluator", "index": 1}})");
  id.local_rank = 0;
  EXPECT_EQ(Environment(job, id).at("TF_CONFIG"),
            cluster + R"("task": {"type": "worker", "index": 3}})");
}

TEST(ProcessEnvironment, NamesARanksRole) {
  TrainingJob job = Job();
  job.spec.roles = {{"actor", 5}, {"learner", 3}};
  const auto environment = Environment(job, Identity());
  for (const char* name : {"LOCKSTEP_ROLE", "ROLE_NAME"})
    EXPECT_EQ(environment.at(name), "learner");
  for (const char* name : {"LOCKSTEP_ROLE_RANK", "ROLE_RANK"}) EXPECT_EQ(environment.at(name), "2");
  for (const char* name : {"LOCKSTEP_ROLE_SIZE", "ROLE_WORLD_SIZE"}) {
    EXPECT_EQ(environment.at(name), "3");
  }
  EXPECT_EQ(environment.at("RANK"), "7");
}

TEST(ProcessEnvironment, TheLargestTfConfigIsOneThatExecveTakes) {
  TrainingJob job = Job();
  job.spec.framework = Framework::kTensorFlow;
  ProcessIdentity id = Identity();
  id.endpoints.assign(2048, "[2001:0db8:0000:0000:0000:ff00:0042:8329]:65535");
  EXPECT_LT(Environment(job, id).at("TF_CONFIG").size(), 128U * 1024 - 64);
}

TEST(BuildEnvironment, NeverLetsTheUserReplaceARank) {
  TrainingJob job = Job();
  job.spec.env = {Var("RANK", "0")};
  EXPECT_THAT(BuildEnvironment({}, job, Identity()), Contains("RANK=7"));
}

TEST(BuildEnvironment, ExpandsTheJobsEnvAsKubernetesDoes) {
  TrainingJob job = Job();
  job.spec.env = {Var("A", "x"), Var("B", "$(A)/y"), Var("C", "$(LATER) $$(A) $A $(B)"),
                  Var("LATER", "z"), Var("P", "/opt:$(PATH)")};
  const std::vector<std::string> environment = BuildEnvironment({"PATH=/bin"}, job, Identity());
  EXPECT_THAT(environment, Contains("B=x/y"));
  EXPECT_THAT(environment, Contains("C=$(LATER) $(A) $A x/y"));
  EXPECT_THAT(environment, Contains("P=/opt:$(PATH)"))
      << "on a cluster too only the list's own variables are expanded";
}

TEST(BuildEnvironment, LeavesWhatTheClusterGivesToTheCluster) {
  TrainingJob job = Job();
  job.spec.env = {Var("SECRET", "")};
  job.spec.env[0].value_from = Node::Map();
  EXPECT_THAT(BuildEnvironment({"SECRET=s"}, job, Identity()), Contains("SECRET=s"));
}

TEST(BuildEnvironment, SkipsWhatIsNoAssignment) {
  const std::vector<std::string> environment =
      BuildEnvironment({"=x", "EMPTY="}, Job(), Identity());
  EXPECT_THAT(environment, Contains("EMPTY="));
  EXPECT_THAT(environment, Not(Contains("=x")));
}

TEST(ExpandVariables, TakesAnyTextAsItIs) {
  const Variables variables = {{"A", "1"}, {"A", "2"}};
  const struct {
    const char* text;
    const char* expanded;
  } cases[] = {{"", ""},
               {"$", "$"},
               {"$$", "$"},
               {"$(", "$("},
               {"$(A", "$(A"},
               {"$(A)", "2"},
               {"$(A)$(A)", "22"},
               {"$$(A)", "$(A)"},
               {"$$$(A)", "$2"},
               {"$()", "$()"},
               {"a)$(A", "a)$(A"},
               {"$(B)", "$(B)"},
               {"100%$ x", "100%$ x"}};
  for (const auto& c : cases) EXPECT_EQ(ExpandVariables(c.text, variables), c.expanded) << c.text;
}

TEST(FromShell, IsUndoneByExpansionButForNames) {
  const Variables variables = {{"RANK", "3"}};
  for (const std::string text :
       {"kill -9 $$", "$", "$$$", "$$$$", "a$b$$c", "$(date)", "echo $RANK"}) {
    EXPECT_EQ(ExpandVariables(FromShell({text})[0], variables), text);
  }
  EXPECT_EQ(ExpandVariables(FromShell({"--rank=$(RANK)"})[0], variables), "--rank=3");
}

TEST(EscapeVariables, IsUndoneByExpansion) {
  const Variables variables = {{"A", "1"}};
  for (const std::string text : {"", "$", "$$", "$$$", "$(A)", "$$(A)", "$$$(A)", "$(A", "p$$w",
                                 "${A} $A $(A) $((A))", "$$$$", "($(A)$)"}) {
    EXPECT_EQ(ExpandVariables(EscapeVariables(text), variables), text);
  }
}

TEST(ExpandVariables, TakesALongHostileTextInOneGo) {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += "$(";
  EXPECT_EQ(ExpandVariables(text, {}), text);
}

TEST(BuildCommand, ExpandsWhatTheProcessWillFind) {
  TrainingJob job = Job();
  job.spec.launch = Launch::kPerMachine;
  job.spec.command = {"accelerate", "launch"};
  job.spec.args = {"--machine_rank=$(NODE_RANK)", "--main_process_ip=$(MASTER_ADDR)", "$(X)"};
  const std::vector<std::string> environment = BuildEnvironment({}, job, Identity());
  EXPECT_THAT(BuildCommand(job, environment),
              ElementsAre("accelerate", "launch", "--machine_rank=1", "--main_process_ip=10.0.0.1",
                          "$(X)"));
}

}  // namespace
}  // namespace lockstep::core
