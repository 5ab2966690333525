#include "cli/convert/kubeflow_job.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "cli/convert/command_role.h"
#include "cli/convert/launcher_options.h"
#include "cli/convert/script.h"
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

// The options of a command's torchrun that set its world, as they are written.
struct TorchrunOptions {
  std::string nproc;
  std::string nnodes;
  std::string node_rank;
  bool standalone = false;
};

// The torchrun that the words, or the script of the shell that they start, call; absent: none.
std::optional<std::vector<std::string>> TorchrunArguments(const std::vector<std::string>& words) {
  if (words.empty() || core::LauncherOf(words) != "torchrun") return std::nullopt;
  if (IsShell(core::BaseName(words[0]))) {
    if (words.size() < 3) return std::nullopt;
    for (const ScriptCommand& command : ReadScript(words[2]).commands) {
      if (auto found = TorchrunArguments(Expander({}).Expand(command.text).words)) return found;
    }
    return std::nullopt;
  }
  const auto starts = [](const std::string& word) {
    return core::BaseName(word) == "torchrun" || word.starts_with("torch.distributed.");
  };
  const auto start = std::find_if(words.begin(), words.end(), starts);
  if (start == words.end()) return std::nullopt;
  return std::vector<std::string>(start + 1, words.end());
}

std::optional<TorchrunOptions> TorchrunOf(const Node& holder, JobBuilder& builder) {
  const auto arguments = TorchrunArguments(CommandOf(holder));
  if (!arguments) return std::nullopt;
  JobBuilder unread;  // torchrun keeps its options, so remarks on them would be wrong
  const CommandLine line = ReadTorchrunOptions(*arguments, unread);
  if (unread.error_count() > 0) {
    builder.Warn(
        "lockstep does not know some of torchrun's options; it must start processesPerMachine "
        "processes on each machine.");
  }
  TorchrunOptions options;
  options.standalone = Has(line, "standalone");
  for (const Option& option : line.options) {
    if (option.name == "nproc-per-node") options.nproc = option.value;
    if (option.name == "nnodes") options.nnodes = option.value;
    if (option.name == "node-rank") options.node_rank = option.value;
  }
  return options;
}

// $NAME, ${NAME...} or $(NAME).
bool Mentions(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const bool braced =
        at > 1 && text[at - 2] == '$' && (text[at - 1] == '{' || text[at - 1] == '(');
    const bool plain = at > 0 && text[at - 1] == '$';
    const size_t end = at + name.size();
    if ((braced || plain) && (end == text.size() || !IsNameCharacter(text[end]))) return true;
  }
  return false;
}

// Errors for what would give each machine, or all of them, another world than the job's.
void CheckTorchrun(const TorchrunOptions& torchrun, const Size& size, Position position,
                   JobBuilder& builder) {
  const auto contradicts = [&](const std::string& said, int64_t value, const char* variable) {
    const std::string most = said.substr(said.find(':') + 1);
    return !said.empty() && !Mentions(said, variable) && ParseNumber<int64_t>(most) != value;
  };
  const int64_t machines = size.machines.value_or(1);
  if (contradicts(torchrun.nnodes, machines, "PET_NNODES")) {
    builder.Error("command", position,
                  "torchrun's --nnodes " + torchrun.nnodes + " is not the job's " +
                      std::to_string(machines) +
                      " machines; take it out: torchrun reads PET_NNODES");
  }
  if (machines < 2) return;
  if (torchrun.standalone) {
    builder.Error("command", position,
                  "torchrun's --standalone would train separately on each of the " +
                      std::to_string(machines) + " machines; take it out");
  }
  if (ParseNumber<int64_t>(torchrun.node_rank)) {
    builder.Error("command", position,
                  "torchrun's --node-rank " + torchrun.node_rank +
                      " would apply to every machine; take it out: torchrun reads "
                      "PET_NODE_RANK");
  }
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

int64_t ProcessesPerNode(const Node& holder, const Node* said, int64_t gpus, const char* what,
                         JobBuilder& builder) {
  std::string text = said == nullptr || !said->IsScalar() || said->IsNull() ? "" : said->text();
  std::string source = what;
  if (const std::optional<TorchrunOptions> torchrun = TorchrunOf(holder, builder)) {
    if (!torchrun->nproc.empty() && !Mentions(torchrun->nproc, "PET_NPROC_PER_NODE")) {
      text = torchrun->nproc;
      source = "torchrun's --nproc-per-node";
    } else if (text.empty()) {
      text = "auto";  // as the operators have it
    }
  }
  if (text.empty()) return 1;
  if (const std::optional<int64_t> processes = ParseNumber<int64_t>(text)) return *processes;
  if (!IsOneOf(text, {"auto", "gpu", "cpu", "xpu"})) {
    const Node* words = holder.Find("command");
    builder.Error(source,
                  said != nullptr    ? said->position()
                  : words != nullptr ? words->position()
                                     : holder.position(),
                  "\"" + text + "\" is not a number of processes; write one");
    return 1;
  }
  if (IsOneOf(text, {"auto", "gpu"}) && gpus > 0) return gpus;
  builder.Warn(source + " " + text +
               " is counted where the job runs: write processesPerMachine as a number.");
  return 1;
}

Node CleanEnv(const Node& env, JobBuilder& builder) {
  Node clean = Node::List();
  for (const Node& entry : env.items()) {
    const std::string name = TextAt(entry, "name");
    if (core::IsReserved(name)) {
      builder.Remark("env " + name + " is not carried over: Lockstep gives each process its own.");
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

void SetLaunch(const Node& holder, Node& spec, const Size& size, JobBuilder& builder) {
  const std::vector<std::string> command = CommandOf(holder);
  const Node* words = holder.Find("command");
  const Position position = words == nullptr ? Position{} : words->position();
  if (const std::string unsupported = core::UnsupportedLauncherOf(command); !unsupported.empty()) {
    builder.Error("command", position, core::InPlaceOf(unsupported));
    return;
  }
  const std::string launcher = core::LauncherOf(command);
  if (launcher.empty()) return;
  for (const auto& [name, instead] :
       {std::pair("RANK", "PET_NODE_RANK"), std::pair("WORLD_SIZE", "PET_NNODES"),
        std::pair("LOCAL_RANK", ""), std::pair("LOCAL_WORLD_SIZE", "PET_NPROC_PER_NODE")}) {
    const std::string variable = name;
    const bool mentioned =
        std::any_of(command.begin(), command.end(),
                    [&](const std::string& word) { return Mentions(word, variable); });
    if (!mentioned) continue;
    const std::string advice = instead[0] == '\0' ? "take it out" : std::string("write ") + instead;
    std::string message = variable;
    message += " is not set for ";
    message += launcher;
    message += ", which gives it to ranks; ";
    message += advice;
    builder.Error("command", position, message);
  }
  if (const auto torchrun = TorchrunOf(holder, builder)) {
    CheckTorchrun(*torchrun, size, position, builder);
  }
  spec.Add("launch", Node::String("PerMachine"));
  builder.Remark(launcher + " still starts " + std::to_string(size.per_machine.value_or(1)) +
                 " processes a machine (launch: PerMachine). Without it Lockstep starts, binds and "
                 "watches each process itself: see `lockstep convert -- " +
                 launcher + " ...`.");
}

Node RolesOf(const Node* replicas, std::initializer_list<std::string_view> known,
             JobBuilder& builder) {
  Node roles = Node::Map();
  if (replicas == nullptr) return roles;
  for (const NodeMember& member : replicas->members()) {
    const auto name = std::find_if(known.begin(), known.end(), [&](std::string_view each) {
      return ToLower(each) == ToLower(member.key);
    });
    if (name == known.end() || roles.Find(*name) != nullptr) {
      builder.Error(member.key, member.position,
                    name == known.end() ? "is not a role of this kind of job; remove it"
                                        : "appears twice; keep one of them");
      continue;
    }
    if (CountAt(member.value, "replicas", 1, builder) < 0) {
      builder.Error(member.key + ".replicas", member.position, "must be 0 or more");
    }
    roles.Add(std::string(*name), member.value);
  }
  return roles;
}

int64_t Replicas(const Node* role) {
  if (role == nullptr) return 0;
  const Node* replicas = role->Find("replicas");
  return replicas == nullptr ? 1 : ParseNumber<int64_t>(replicas->text()).value_or(1);
}

KubeflowJob::KubeflowJob(const Node& document, JobBuilder& builder)
    : document_(document), builder_(builder) {
  if (const Node* spec = document.Find("spec")) source_ = *spec;
}

bool KubeflowJob::TakeTemplate(const Node* pod_template, std::string_view container,
                               const char* path) {
  if (pod_template != nullptr) pod_template_ = *pod_template;
  if (Node* metadata = pod_template_.Find("metadata")) {
    for (const char* key : {"name", "generateName", "namespace", "creationTimestamp"}) {
      metadata->Erase(key);
    }
    if (metadata->IsEmpty()) pod_template_.Erase("metadata");
  }
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
  for (Node& each : containers->items()) each.Erase("restartPolicy");
  for (const char* key : {"restartPolicy", "hostname", "subdomain"}) pod->Erase(key);
  TakePodFields(*pod);
  return true;
}

// Those that a TrainingJob has in a place of its own.
void KubeflowJob::TakePodFields(Node& pod) {
  if (const Node* grace = pod.Find("terminationGracePeriodSeconds")) {
    if (!grace->IsNull()) spec_.Add("gracePeriod", Node::String(grace->text() + "s"));
    pod.Erase("terminationGracePeriodSeconds");
  }
  if (const Node* deadline = pod.Find("activeDeadlineSeconds")) {
    if (!deadline->IsNull() && source_.Walk({"runPolicy", "activeDeadlineSeconds"}) == nullptr &&
        source_.Find("activeDeadlineSeconds") == nullptr) {
      spec_.Add("activeDeadlineSeconds", *deadline);
    }
    pod.Erase("activeDeadlineSeconds");
  }
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

void KubeflowJob::SetLaunch(const Size& size) {
  convert::SetLaunch(*worker_, spec_, size, builder_);
}

void KubeflowJob::Finish(int64_t machines, int64_t processes) {
  spec_.Add("numMachines", Node::Integer(machines));
  spec_.Add("processesPerMachine", Node::Integer(processes));
  spec_.Add("template", std::move(pod_template_));
  if (!policy_.IsEmpty()) spec_.Add("failurePolicy", std::move(policy_));
  ReadSpec(document_, std::move(spec_), builder_);
}

}  // namespace lockstep::convert
