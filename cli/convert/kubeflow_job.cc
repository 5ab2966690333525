#include "cli/convert/kubeflow_job.h"

#include <utility>

#include "core/model/read.h"
#include "core/model/shortcuts.h"
#include "core/plan/environment.h"
#include "core/plan/launcher.h"

namespace lockstep::convert {
namespace {

// Copies the fields that all kinds of job have in their metadata.
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

Node NewDocument(const Node& source, Node spec) {
  Node document = Node::Map();
  document.Add("apiVersion", Node::String(core::kApiVersion));
  document.Add("kind", Node::String(core::kKind));
  CopyMetadata(source, document);
  document.Add("spec", std::move(spec));
  return document;
}

}  // namespace

void ReadSpec(const Node& source, Node spec, JobBuilder& builder) {
  Node document = NewDocument(source, std::move(spec));
  core::LiftShortcuts(document);
  core::ParseResult result = core::ReadJob(document);
  // Problems are mistakes of the source.
  for (const core::Problem& problem : result.problems) {
    builder.Error(problem.path, {problem.line, problem.column}, problem.message);
  }
  if (result.job) {
    result.job->source = {};
    builder.job = *std::move(result.job);
  }
}

int64_t ProcessesPerNode(const Node* said, int64_t gpus, const char* what, JobBuilder& builder) {
  const std::string text = said == nullptr || !said->IsScalar() ? "" : said->text();
  if (text.empty() || text == "null") return 1;
  if (const std::optional<int64_t> processes = ParseNumber<int64_t>(text)) return *processes;
  if (IsOneOf(text, {"auto", "gpu"}) && gpus > 0) return gpus;
  builder.Remark(std::string(what) + " " + text +
                 " is counted where the job runs: write processesPerMachine as a number.");
  return 1;
}

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

std::vector<std::string> CommandOf(const Node& container) {
  std::vector<std::string> command;
  for (const char* key : {"command", "args"}) {
    const Node* words = container.Find(key);
    if (words == nullptr) continue;
    for (const Node& word : words->items()) command.push_back(word.text());
  }
  return command;
}

void SetLaunch(const Node& holder, Node& spec, int64_t processes, JobBuilder& builder) {
  const std::vector<std::string> command = CommandOf(holder);
  if (const std::string unsupported = core::UnsupportedLauncherOf(command); !unsupported.empty()) {
    const Node* words = holder.Find("command");
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

int64_t Replicas(const Node* role) {
  return role == nullptr ? 0 : IntegerAt(*role, "replicas").value_or(1);
}

KubeflowJob::KubeflowJob(const Node& document, JobBuilder& builder)
    : document_(document), builder_(builder) {
  if (const Node* spec = document.Find("spec")) source_ = *spec;
}

bool KubeflowJob::TakeTemplate(const Node* pod_template, std::string_view container,
                               const char* path) {
  if (pod_template != nullptr) pod_template_ = *pod_template;
  Node* pod = pod_template_.Find("spec");
  Node* containers = pod == nullptr ? nullptr : pod->Find("containers");
  if (containers == nullptr || containers->items().empty()) {
    builder_.Error(path, document_.position(), "holds no pod template with a container");
    return false;
  }
  worker_ = &containers->items()[0];
  for (Node& each : containers->items()) {
    if (TextAt(each, "name") == container) worker_ = &each;
  }
  worker_->Erase("name");
  worker_->members().insert(worker_->members().begin(),
                            NodeMember{"name", {}, Node::String(core::kWorkerContainer)});
  if (Node* resources = worker_->Find("resources")) {
    resources_ = MachineResources(resources);
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
  return true;
}

void KubeflowJob::TakeRestartPolicy(const Node& role) {
  if (TextAt(role, "restartPolicy") == "Never") {
    builder_.Remark("restartPolicy Never is carried over as failurePolicy.maxRestarts: 0.");
    policy_.Add("maxRestarts", Node::Integer(0));
  }
}

void KubeflowJob::TakeRunPolicy() {
  const Node* run = source_.Find("runPolicy");
  if (run == nullptr) return;
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

void KubeflowJob::SetMaxRestarts(const Node& value) {
  if (policy_.Find("maxRestarts") == nullptr) policy_.Add("maxRestarts", value);
}

void KubeflowJob::SetLaunch(int64_t processes) {
  convert::SetLaunch(*worker_, spec_, processes, builder_);
}

void KubeflowJob::Finish(int64_t machines, int64_t processes) {
  spec_.Add("numMachines", Node::Integer(machines));
  spec_.Add("processesPerMachine", Node::Integer(processes));
  spec_.Add("template", std::move(pod_template_));
  if (!policy_.IsEmpty()) spec_.Add("failurePolicy", std::move(policy_));
  ReadSpec(document_, std::move(spec_), builder_);
}

}  // namespace lockstep::convert
