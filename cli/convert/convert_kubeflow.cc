// Kubeflow's PyTorchJob (kubeflow.org/v1) and TrainJob (trainer.kubeflow.org/v1alpha1) as
// TrainingJobs.
#include <initializer_list>

#include "base/text/quantity.h"
#include "cli/convert/job_builder.h"
#include "core/model/read.h"
#include "core/model/shortcuts.h"
#include "core/plan/environment.h"
#include "core/plan/launcher.h"

namespace lockstep::convert {
namespace {

constexpr const char* kGpuSuffix = ".com/gpu";

// Copies the fields that both kinds of job have in their metadata.
void CopyMetadata(const Node& document, Node& target) {
  Node metadata = Node::Map();
  if (const Node* source = document.Find("metadata")) {
    for (const char* key : {"name", "namespace", "labels", "annotations"}) {
      const Node* value = source->Find(key);
      if (value != nullptr && !value->IsEmpty()) metadata.Add(key, *value);
    }
  }
  target.Add("metadata", std::move(metadata));
}

// Reads the finished document as any TrainingJob is read. Problems are mistakes of the source.
void Read(Node document, JobBuilder& builder) {
  core::LiftShortcuts(document);
  core::ParseResult result = core::ReadJob(document);
  for (const core::Problem& problem : result.problems) {
    builder.Error(problem.path, {problem.line, problem.column}, problem.message);
  }
  if (result.job) {
    result.job->source = {};
    builder.job = *std::move(result.job);
  }
}

Node NewDocument(const Node& source, Node spec) {
  Node document = Node::Map();
  document.Add("apiVersion", Node::String(core::kApiVersion));
  document.Add("kind", Node::String(core::kKind));
  CopyMetadata(source, document);
  document.Add("spec", std::move(spec));
  return document;
}

// Processes per node. `auto`, `gpu` and `cpu` stand for one process for each requested GPU.
int64_t ProcessesPerNode(const Node* said, int64_t gpus, const char* what, JobBuilder& builder) {
  const std::string text = said == nullptr || !said->IsScalar() ? "" : said->text();
  if (text.empty() || text == "null") return 1;
  if (const std::optional<int64_t> processes = ParseNumber<int64_t>(text)) return *processes;
  if (IsOneOf(text, {"auto", "gpu"}) && gpus > 0) return gpus;
  builder.Remark(std::string(what) + " " + text +
                 " is counted where the job runs: write processesPerMachine as a number.");
  return 1;
}

// A container's resources: limits, and requests for what has no limit.
class Resources {
 public:
  explicit Resources(const Node* resources) {
    if (resources == nullptr) return;
    for (const char* key : {"limits", "requests"}) {
      const Node* amounts = resources->Find(key);
      if (amounts == nullptr) continue;
      for (const NodeMember& member : amounts->members()) {
        if (amounts_.Find(member.key) == nullptr) amounts_.Add(member.key, member.value);
      }
    }
  }

  int64_t gpus() const {
    for (const NodeMember& member : amounts_.members()) {
      if (member.key.ends_with(kGpuSuffix))
        return ParseNumber<int64_t>(member.value.text()).value_or(0);
    }
    return 0;
  }

  // Divides them among the processes of a machine.
  void Write(int64_t processes, Node& spec, JobBuilder& builder) const {
    Node per_process = Node::Map();
    Node per_machine = Node::Map();
    for (const NodeMember& member : amounts_.members()) {
      if (member.key.ends_with(kGpuSuffix)) {
        WriteGpus(member, processes, per_process, per_machine, builder);
      } else if (member.key == "cpu" || member.key == "memory") {
        WriteShare(member, processes, per_process, builder);
      } else {
        per_machine.Add(member.key, member.value);
      }
    }
    if (!per_process.IsEmpty()) spec.Add("resourcesPerProcess", std::move(per_process));
    if (!per_machine.IsEmpty()) spec.Add("resourcesPerMachine", std::move(per_machine));
  }

 private:
  static void WriteGpus(const NodeMember& member, int64_t processes, Node& per_process,
                        Node& per_machine, JobBuilder& builder) {
    const std::optional<int64_t> gpus = ParseNumber<int64_t>(member.value.text());
    if (!gpus || processes < 1 || *gpus % processes != 0) {
      builder.Remark(member.key + ": " + member.value.text() + " can't be dealt out evenly to " +
                     std::to_string(processes) +
                     " processes; it stands in resourcesPerMachine, and no process has its own.");
      per_machine.Add(member.key, member.value);
      return;
    }
    per_process.Add("gpu", Node::Integer(*gpus / processes));
    if (member.key != "nvidia.com/gpu") per_process.Add("gpuResource", Node::String(member.key));
  }

  static void WriteShare(const NodeMember& member, int64_t processes, Node& per_process,
                         JobBuilder& builder) {
    const Result<Quantity> total = Quantity::Parse(member.value.text());
    if (!total.ok() || processes < 1) {
      per_process.Add(member.key, member.value);
      return;
    }
    // Whole bytes of memory, thousandths of a core.
    const int64_t grain = member.key == "memory" ? 1000 : 1;
    const int64_t share = total->milli() / processes / grain * grain;
    if (share * processes != total->milli()) {
      builder.Remark(member.key + " " + total->ToString() +
                     " is rounded down to a share for each of " + std::to_string(processes) +
                     " processes.");
    }
    per_process.Add(member.key,
                    Node::String(Quantity::FromMilli(share, total->format()).ToString()));
  }

  Node amounts_ = Node::Map();
};

// Leaves out what Lockstep sets for every process.
Node CleanEnv(const Node& env, JobBuilder& builder) {
  Node clean = Node::List();
  for (const Node& entry : env.items()) {
    const std::string name = TextAt(entry, "name");
    if (core::IsReserved(name)) {
      builder.Remark("env " + name + " is not carried over: every process is given its own.");
      continue;
    }
    clean.Append(entry);
  }
  return clean;
}

// A launcher in the command starts the machine's other processes itself.
void SetLaunch(const Node& spec_so_far, Node& spec, int64_t processes, JobBuilder& builder) {
  std::vector<std::string> command;
  for (const char* key : {"command", "args"}) {
    const Node* words = spec_so_far.Find(key);
    if (words == nullptr) continue;
    for (const Node& word : words->items()) command.push_back(word.text());
  }
  if (const std::string unsupported = core::UnsupportedLauncherOf(command); !unsupported.empty()) {
    const Node* words = spec_so_far.Find("command");
    builder.Error("command", words == nullptr ? Position{} : words->position(),
                  core::InPlaceOf(unsupported));
    return;
  }
  const std::string launcher = core::LauncherOf(command);
  if (launcher.empty()) return;
  spec.Add("launch", Node::String("PerMachine"));
  builder.Remark(launcher + " goes on starting " + std::to_string(processes) +
                 " processes a machine (launch: PerMachine). Without it Lockstep starts, binds and "
                 "watches each process itself: see `lockstep convert -- " +
                 launcher + " ...`.");
}

class PyTorchJobConverter {
 public:
  PyTorchJobConverter(const Node& document, JobBuilder& builder)
      : document_(document), builder_(builder) {
    if (const Node* spec = document.Find("spec")) source_ = *spec;
  }

  void Convert() {
    const Node* replicas = source_.Find("pytorchReplicaSpecs");
    const Node* master = replicas == nullptr ? nullptr : replicas->Find("Master");
    const Node* worker = replicas == nullptr ? nullptr : replicas->Find("Worker");
    const Node* leading = master != nullptr ? master : worker;
    const Node* pod_template = leading == nullptr ? nullptr : leading->Find("template");
    if (pod_template == nullptr || !pod_template->IsMap()) {
      builder_.Error("spec.pytorchReplicaSpecs", document_.position(),
                     "holds no Master or Worker with a pod template");
      return;
    }
    Template(*pod_template);
    const int64_t machines = Replicas(master) + Replicas(worker);
    const int64_t processes =
        ProcessesPerNode(NprocPerNode(), resources_.gpus(), "nprocPerNode", builder_);
    spec_.Add("numMachines", Node::Integer(machines));
    spec_.Add("processesPerMachine", Node::Integer(processes));
    resources_.Write(processes, spec_, builder_);
    if (worker_ != nullptr) SetLaunch(*worker_, spec_, processes, builder_);
    spec_.Add("template", pod_template_);
    CompareTemplates(master, worker);
    RestartPolicy(*leading);
    RunPolicy();
    Elastic();
    Read(NewDocument(document_, std::move(spec_)), builder_);
  }

 private:
  static int64_t Replicas(const Node* role) {
    return role == nullptr ? 0 : IntegerAt(*role, "replicas").value_or(1);
  }

  const Node* NprocPerNode() const {
    if (const Node* said = source_.Find("nprocPerNode")) return said;
    return source_.Walk({"elasticPolicy", "nProcPerNode"});
  }

  // The container `pytorch`, else the first, becomes `worker`, without limits and requests.
  void Template(const Node& pod_template) {
    pod_template_ = pod_template;
    Node* pod = pod_template_.Find("spec");
    Node* containers = pod == nullptr ? nullptr : pod->Find("containers");
    if (containers == nullptr || containers->items().empty()) return;
    worker_ = &containers->items()[0];
    for (Node& container : containers->items()) {
      if (TextAt(container, "name") == "pytorch") worker_ = &container;
    }
    worker_->Erase("name");
    worker_->members().insert(worker_->members().begin(),
                              NodeMember{"name", {}, Node::String(core::kWorkerContainer)});
    if (Node* resources = worker_->Find("resources")) {
      resources_ = Resources(resources);
      resources->Erase("limits");
      resources->Erase("requests");
      if (resources->IsEmpty()) worker_->Erase("resources");  // else its claims stay
    }
    if (const Node* env = worker_->Find("env")) {
      Node clean = CleanEnv(*env, builder_);
      worker_->Erase("env");
      if (!clean.IsEmpty()) worker_->Add("env", std::move(clean));
    }
    for (const char* key : {"restartPolicy", "hostname", "subdomain"}) pod->Erase(key);
  }

  void CompareTemplates(const Node* master, const Node* worker) {
    if (master == nullptr || worker == nullptr) return;
    const Node* other = worker->Find("template");
    const Node* used = master->Find("template");
    if (other != nullptr && used != nullptr && *other != *used) {
      builder_.Remark(
          "Master's and Worker's templates differ: Master's is used for every machine.");
    }
  }

  void RestartPolicy(const Node& role) {
    if (TextAt(role, "restartPolicy") == "Never") {
      builder_.Remark("restartPolicy Never is carried over as failurePolicy.maxRestarts: 0.");
      policy_.Add("maxRestarts", Node::Integer(0));
    }
  }

  void RunPolicy() {
    const Node* run = source_.Find("runPolicy");
    const Node empty = Node::Map();
    if (run == nullptr) run = &empty;
    for (const NodeMember& member : run->members()) {
      if (IsOneOf(member.key, {"cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds",
                               "suspend"})) {
        if (!member.value.IsNull()) spec_.Add(member.key, member.value);
      } else if (member.key == "backoffLimit") {
        SetMaxRestarts(member.value);
      } else {
        builder_.Remark("runPolicy." + member.key + " is not carried over.");
      }
    }
  }

  void SetMaxRestarts(const Node& value) {
    if (policy_.Find("maxRestarts") == nullptr) policy_.Add("maxRestarts", value);
  }

  void Elastic() {
    if (const Node* elastic = source_.Find("elasticPolicy")) {
      for (const NodeMember& member : elastic->members()) {
        if (member.key == "maxRestarts") {
          SetMaxRestarts(member.value);
        } else if (member.key != "nProcPerNode") {
          builder_.Remark("elasticPolicy." + member.key +
                          " is not carried over: the job runs on all its machines, and they find "
                          "each other by themselves.");
        }
      }
    }
    if (!policy_.IsEmpty()) spec_.Add("failurePolicy", policy_);
  }

  const Node& document_;
  JobBuilder& builder_;
  Node source_ = Node::Map();
  Node spec_ = Node::Map();
  Node policy_ = Node::Map();
  Node pod_template_;
  Node* worker_ = nullptr;  // in pod_template_
  Resources resources_{nullptr};
};

}  // namespace

void ConvertPyTorchJob(const Node& document, JobBuilder& builder) {
  PyTorchJobConverter(document, builder).Convert();
}

void ConvertTrainJob(const Node& document, JobBuilder& builder) {
  const Node* source = document.Find("spec");
  const Node* trainer = source == nullptr ? nullptr : source->Find("trainer");
  if (trainer == nullptr || !trainer->IsMap()) {
    builder.Error("spec.trainer", document.position(),
                  "is missing: what the job runs stands in its runtime, which is not in this file");
    return;
  }
  const Resources resources(trainer->Find("resourcesPerNode"));
  const int64_t processes = ProcessesPerNode(trainer->Find("numProcPerNode"), resources.gpus(),
                                             "numProcPerNode", builder);
  Node spec = Node::Map();
  spec.Add("numMachines", Node::Integer(IntegerAt(*trainer, "numNodes").value_or(1)));
  spec.Add("processesPerMachine", Node::Integer(processes));
  for (const NodeMember& member : trainer->members()) {
    if (IsOneOf(member.key, {"image", "command", "args"})) {
      spec.Add(member.key, member.value);
    } else if (member.key == "env") {
      spec.Add(member.key, CleanEnv(member.value, builder));
    } else if (!IsOneOf(member.key, {"numNodes", "numProcPerNode", "resourcesPerNode"})) {
      builder.Remark("trainer." + member.key + " is not carried over.");
    }
  }
  const Node so_far = spec;
  SetLaunch(so_far, spec, processes, builder);
  resources.Write(processes, spec, builder);
  for (const NodeMember& member : source->members()) {
    if (member.key == "suspend") {
      spec.Add(member.key, member.value);
    } else if (member.key == "runtimeRef") {
      builder.Remark("runtimeRef " + TextAt(member.value, "name") +
                     " is not in this file: write what its template says (image, volumes, command) "
                     "into this job.");
    } else if (member.key != "trainer") {
      builder.Remark("spec." + member.key + " is not carried over.");
    }
  }
  Read(NewDocument(document, std::move(spec)), builder);
}

}  // namespace lockstep::convert
