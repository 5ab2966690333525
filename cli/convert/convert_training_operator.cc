// Kubeflow's MPIJob (kubeflow.org/v1 and v2beta1), TFJob and JAXJob as TrainingJobs. What the
// frameworks need that Lockstep does not give yet is refused, or told.
#include <algorithm>

#include "cli/convert/command_role.h"
#include "cli/convert/job_builder.h"
#include "cli/convert/kubeflow_job.h"
#include "cli/convert/script.h"
#include "core/model/roles.h"
#include "core/plan/environment.h"
#include "core/plan/launcher.h"

namespace lockstep::convert {
namespace {

const Node* FirstContainer(const Node* role) {
  const Node* containers =
      role == nullptr ? nullptr : role->Walk({"template", "spec", "containers"});
  return containers == nullptr || containers->items().empty() ? nullptr : &containers->items()[0];
}

// Adds what the launcher's container alone has: mpirun hands it on by -x.
void AddLauncherEnv(const Node& launcher, Node& worker, JobBuilder& builder) {
  const Node* source = launcher.Find("env");
  if (source == nullptr) return;
  Node clean = CleanEnv(*source, builder);
  Node* env = worker.Find("env");
  if (env == nullptr) env = &worker.Add("env", Node::List());
  for (Node& entry : clean.items()) {
    const std::string name = TextAt(entry, "name");
    bool known = false;
    for (const Node& other : env->items()) known = known || TextAt(other, "name") == name;
    if (!known) env->Append(std::move(entry));
  }
}

// The container's variables, as kubelet and a shell replace them.
core::Variables VariablesOf(const Node& container) {
  core::Variables variables;
  const Node* env = container.Find("env");
  if (env == nullptr) return variables;
  for (const Node& entry : env->items()) {
    if (entry.Find("value") == nullptr) continue;
    variables.emplace_back(TextAt(entry, "name"),
                           core::ExpandVariables(TextAt(entry, "value"), variables));
  }
  return variables;
}

// The words of the one command in a shell's script. Errors: more than one.
std::vector<std::string> ShellWords(const Node& launcher, const std::string& text,
                                    JobBuilder& builder) {
  const core::Variables variables = VariablesOf(launcher);
  const Script script = ReadScript(core::ExpandVariables(text, variables));
  if (script.problem || script.commands.size() != 1) {
    builder.Error("spec.mpiReplicaSpecs.Launcher", launcher.position(),
                  "its shell's script does more than start one launcher; write the launcher's line "
                  "as its command");
    return {};
  }
  const ExpandedCommand command =
      Expander(ScriptVariables(variables.begin(), variables.end())).Expand(script.commands[0].text);
  if (command.redirected) {
    builder.Remark("The launcher's redirections are not carried over: the console has its output.");
  }
  for (const std::string& unknown : command.unknown) {
    builder.Warn("the value of " + unknown +
                 " is not known, because no shell runs the command: write the value.");
  }
  return command.words;
}

// The launcher's own line. Errors: none that can be read.
std::vector<std::string> LauncherLine(const Node& launcher, JobBuilder& builder) {
  std::vector<std::string> words = CommandOf(launcher);
  if (words.size() > 2 && IsShell(core::BaseName(words[0])) && words[1].ends_with('c')) {
    words = ShellWords(launcher, words[2], builder);
    if (words.empty()) return {};
  }
  if (core::LauncherOf(words).empty()) {
    builder.Error("spec.mpiReplicaSpecs.Launcher", launcher.position(),
                  "its command has no readable mpirun, horovodrun or deepspeed; write the "
                  "launcher's line as its command");
    return {};
  }
  return words;
}

void RemarkMpiFields(const Node& source, JobBuilder& builder) {
  for (const NodeMember& member : source.members()) {
    if (IsOneOf(member.key, {"sshAuthMountPath", "launcherCreationPolicy", "mainContainer"})) {
      builder.Remark("spec." + member.key +
                     " is not carried over: there is no launcher pod, and no ssh.");
    } else if (!IsOneOf(member.key,
                        {"mpiReplicaSpecs", "slotsPerWorker", "runPolicy", "runLauncherAsWorker",
                         "mpiImplementation", "cleanPodPolicy"})) {
      builder.Remark("spec." + member.key + " is not carried over.");
    }
  }
}

// One role whose pods are the machines, one process each unless a launcher starts more.
void ConvertMachines(KubeflowJob& job, const Node* role, int64_t machines, const char* container,
                     const char* path) {
  if (!job.TakeTemplate(role == nullptr ? nullptr : role->Find("template"), container, path)) {
    return;
  }
  job.SetLaunch({.machines = machines, .per_machine = 1});
  job.TakeRestartPolicy(*role);
  job.TakeRunPolicy();
  job.Finish(machines, 1);
  job.resources().Write(job.builder());
}

// Roles of a job with parameter servers, in TensorFlow's names.
void AddTensorFlowRoles(const Node* chief, const Node* worker, const Node& servers,
                        KubeflowJob& job) {
  Node roles = Node::List();
  const auto add = [&](std::string_view name, const Node* role, const char* restart) {
    if (Replicas(role) == 0) return;
    Node one = Node::Map();
    one.Add("name", Node::String(std::string(name)));
    one.Add("count", Node::Integer(Replicas(role)));
    if (restart != nullptr) one.Add("restart", Node::String(restart));
    roles.Append(std::move(one));
  };
  add(core::kTensorFlowChief, chief, nullptr);
  add(core::kTensorFlowWorker, worker, "Alone");
  add(core::kTensorFlowServer, &servers, nullptr);
  job.spec().Add("roles", std::move(roles));
  job.spec().Add("successPolicy", Node::String("Role"));
  job.spec().Add("successRole", Node::String(std::string(core::kTensorFlowChief)));
  for (const Node* role : {worker, &servers}) {
    const Node* own = FirstContainer(role);
    if (own == nullptr || CommandOf(*own) == CommandOf(*FirstContainer(chief))) continue;
    job.builder().Remark(
        "All machines are made of the Chief's template; the commands of Worker and PS are not "
        "carried over. A program that is given LOCKSTEP_ROLE (chief, worker or ps) may run them.");
    break;
  }
}

}  // namespace

void ConvertMpiJob(const Node& document, JobBuilder& builder) {
  KubeflowJob job(document, builder);
  const Node& source = job.source();
  const Node roles = RolesOf(source.Find("mpiReplicaSpecs"), {"Launcher", "Worker"}, builder);
  const Node* launcher = roles.Find("Launcher");
  const Node* worker = roles.Find("Worker");
  const Node* launching = FirstContainer(launcher);
  if (launching == nullptr) {
    builder.Error("spec.mpiReplicaSpecs", document.position(),
                  "holds no Launcher with a container; MPIJob v1 and v2beta1 have one");
    return;
  }
  const Node* machine = worker != nullptr ? worker : launcher;
  if (!job.TakeTemplate(machine->Find("template"), "", "spec.mpiReplicaSpecs.Worker")) return;
  const std::vector<std::string> line = LauncherLine(*launching, builder);
  if (line.empty()) return;
  for (const char* key : {"command", "args"}) job.worker().Erase(key);  // sshd, or sleep
  if (worker != nullptr) AddLauncherEnv(*launching, job.worker(), builder);
  RemarkMpiFields(source, builder);
  job.TakeRestartPolicy(*launcher);
  job.TakeRunPolicy();
  if (const Node* clean = source.Find("cleanPodPolicy");
      clean != nullptr && job.spec().Find("cleanPodPolicy") == nullptr) {
    job.spec().Add("cleanPodPolicy", *clean);
  }
  const bool launcher_works = worker == nullptr || TrueAt(source, "runLauncherAsWorker");
  const int64_t machines = Replicas(worker) + (launcher_works ? 1 : 0);
  const int64_t slots = ProcessesPerNode(job.worker(), source.Find("slotsPerWorker"),
                                         job.resources().gpus(), "slotsPerWorker", builder);
  job.Finish(machines, slots);
  builder.StandAt(launching->position());
  builder.KeepReferences();
  if (!ConvertLauncher(line, {.machines = machines, .per_machine = slots}, {}, builder)) {
    builder.Error("spec.mpiReplicaSpecs.Launcher", launching->position(),
                  core::LauncherOf(line) + " stands behind " + line[0] + "; write it first");
  }
  if (builder.error_count() == 0) job.resources().Write(builder);
}

void ConvertTfJob(const Node& document, JobBuilder& builder) {
  KubeflowJob job(document, builder);
  const Node roles = RolesOf(job.source().Find("tfReplicaSpecs"),
                             {"Chief", "Master", "Worker", "PS", "Evaluator"}, builder);
  const auto role = [&](const char* name) { return roles.Find(name); };
  if (role("Evaluator") != nullptr) {
    builder.Remark(
        "The Evaluator is not carried over: write a separate TrainingJob for it, which reads the "
        "checkpoints.");
  }
  const Node* chief = role("Chief") != nullptr ? role("Chief") : role("Master");
  const Node* worker = role("Worker");
  const Node* servers = role("PS");
  const int64_t machines = Replicas(chief) + Replicas(worker) + Replicas(servers);
  if (Replicas(servers) > 0) {
    if (Replicas(chief) != 1 || FirstContainer(chief) == nullptr) {
      builder.Error("spec.tfReplicaSpecs.PS", servers->position(),
                    "parameter servers need one Chief, whose program hands out the work; only "
                    "Estimators work without one, and TensorFlow no longer has them");
      return;
    }
    AddTensorFlowRoles(chief, worker, *servers, job);
    job.spec().Add("framework", Node::String("TensorFlow"));
  } else if (machines > 1) {
    if (Replicas(chief) > 0) {
      builder.Remark(
          "TF_CONFIG names workers only: the Chief is worker 0, as MultiWorkerMirroredStrategy "
          "has it, and all machines are made of its template. If the program asks for a task of "
          "type chief, let it ask for worker 0.");
    }
    job.spec().Add("framework", Node::String("TensorFlow"));
  } else {
    builder.Remark(
        "TF_CONFIG is not set: the program is its only worker. A line that stops a wrong "
        "world: assert \"TF_CONFIG\" not in os.environ");
    job.spec().Add("framework", Node::String("None"));
  }
  ConvertMachines(job, chief != nullptr ? chief : worker, machines, "tensorflow",
                  "spec.tfReplicaSpecs");
}

void ConvertJaxJob(const Node& document, JobBuilder& builder) {
  KubeflowJob job(document, builder);
  const Node roles = RolesOf(job.source().Find("jaxReplicaSpecs"), {"Worker"}, builder);
  const Node* worker = roles.Find("Worker");
  builder.Remark(
      "COORDINATOR_ADDRESS, COORDINATOR_PORT, NUM_PROCESSES and PROCESS_ID are not set: "
      "write jax.distributed.initialize() without arguments, which finds its peers.");
  job.spec().Add("framework", Node::String("Jax"));
  ConvertMachines(job, worker, Replicas(worker), "jax", "spec.jaxReplicaSpecs.Worker");
}

}  // namespace lockstep::convert
