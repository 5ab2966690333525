#include "cli/job/plan_text.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include "base/text/columns.h"
#include "base/text/duration.h"
#include "base/text/json.h"
#include "core/gang/diagnosis/metric_watch.h"
#include "core/text/limited_text.h"
#include "core/text/text.h"

namespace lockstep::cli {
namespace {

// Machines shown one by one in the table; -o json shows all.
constexpr size_t kMachinesShown = 16;

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? std::to_string(signal) : std::string("SIG") + name;
}

std::string Range(int64_t first, int64_t last) {
  return first == last ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(last);
}

const topology::RankBinding* BindingOf(const PlanView& view, int machine, int local_rank) {
  const auto m = static_cast<size_t>(machine);
  const auto l = static_cast<size_t>(local_rank);
  if (m >= view.bindings.size() || l >= view.bindings[m].ranks.size()) return nullptr;
  return &view.bindings[m].ranks[l];
}

std::string BindingText(const topology::RankBinding& rank) {
  std::string text = rank.cpus.empty() ? "not bound" : "CPUs " + FormatIndexList(rank.cpus);
  if (rank.numa_node >= 0) text += ", NUMA node " + std::to_string(rank.numa_node);
  for (size_t i = 0; i < rank.gpus.size(); ++i) {
    text += (i > 0                  ? ","
             : rank.gpus.size() > 1 ? ", GPUs "
                                    : ", GPU ") +
            std::to_string(rank.gpus[i]);
  }
  if (!rank.reason.empty()) text += " (" + rank.reason + ")";
  return text;
}

std::string Assignments(const core::Variables& variables) {
  std::string text;
  for (const auto& [name, value] : variables) {
    text.append(text.empty() ? "" : " ").append(name).append("=").append(value);
  }
  return text;
}

void AddMachines(const PlanView& view, std::string* out) {
  std::vector<std::vector<std::string>> rows = {{"MACHINE", "RANK", "LOCAL", "ENVIRONMENT"}};
  bool per_machine = view.plan.launch == core::Launch::kPerMachine;
  for (size_t i = 0; i < std::min(view.plan.machines.size(), kMachinesShown); ++i) {
    const core::PlannedMachine& machine = view.plan.machines[i];
    for (const core::PlannedProcess& process : machine.processes) {
      std::string ranks =
          per_machine ? Range(machine.first_rank, machine.last_rank) : std::to_string(process.rank);
      rows.push_back({std::to_string(machine.index), ranks, std::to_string(process.local_rank),
                      Assignments(process.environment)});
    }
  }
  *out += AlignColumns(rows, "");
  if (view.plan.machines.size() > kMachinesShown) {
    *out += "... and " + std::to_string(view.plan.machines.size() - kMachinesShown) +
            " machines more; -o json shows all\n";
  }
}

void AddBinding(const PlanView& view, std::string* out) {
  if (view.bindings.empty()) return;
  *out += "\nBinding on this computer (" + view.computer +
          "), bind: " + core::ToString(view.job.spec.topology.bind) + ":\n";
  std::vector<std::vector<std::string>> rows;
  for (size_t m = 0; m < std::min(view.bindings.size(), kMachinesShown); ++m) {
    for (const topology::RankBinding& rank : view.bindings[m].ranks) {
      rows.push_back({"machine " + std::to_string(m),
                      "local rank " + std::to_string(rank.local_rank),
                      "OMP_NUM_THREADS=" + std::to_string(rank.omp_threads), BindingText(rank)});
    }
  }
  *out += AlignColumns(rows, "  ");
  for (const std::string& note : view.bindings.front().notes) *out += "  " + note + "\n";
}

std::string DescribeMetric(const core::FailureRule& rule) {
  std::string text = rule.metric;
  if (rule.is) text += " is not finite";
  if (rule.above) text += " is above " + core::FigureText(*rule.above);
  if (!rule.rises_by.empty()) {
    text += " rises by " + rule.rises_by + " within " + std::to_string(rule.within) + " steps";
  }
  if (rule.for_steps > 1) text += " for " + std::to_string(rule.for_steps) + " steps";
  return text;
}

// What the table says beside a rule.
std::string NoteOf(const core::PlannedRule& planned) {
  if (planned.is_default) return "(default)";
  if (ActionOf(planned.rule) != core::FailureAction::kRestartFromEarlier) return "";
  std::string note = "(at most " + std::to_string(planned.rule.at_most) + " times";
  if (planned.rule.skip_steps > 0) {
    note += ", without the data of " + std::to_string(planned.rule.skip_steps) + " steps";
  }
  return note + ")";
}

void AddRules(const PlanView& view, std::string* out) {
  const core::FailurePolicy& policy = view.job.spec.failure_policy;
  *out += "\nFailures are judged by the first rule that matches:\n";
  std::vector<std::vector<std::string>> rows;
  for (const core::PlannedRule& planned : view.plan.rules) {
    rows.push_back({Describe(planned.rule), "-> " + std::string(ToString(ActionOf(planned.rule))),
                    NoteOf(planned)});
  }
  rows.push_back({"the same rank and code twice within 60 s", "-> Fail", "(EarlyCrash)"});
  rows.push_back({"a lost machine", "-> ReplaceMachine",
                  "(at most " + std::to_string(policy.max_machine_replacements) + " times)"});
  rows.push_back({"anything else", "-> Restart",
                  "(at most " + std::to_string(policy.max_restarts) +
                      " times, counted anew after " + FormatDuration(policy.reset_after) + ")"});
  *out += AlignColumns(rows, "  ");
}

void AddCommands(const PlanView& view, std::string* out) {
  if (!view.plan.torchrun.empty()) {
    *out += "\nThe same under torchrun:\n  " + core::ShellQuote(view.plan.torchrun) + "\n";
  }
  if (!view.plan.accelerate.empty()) {
    *out += "The same under accelerate:\n  " + core::ShellQuote(view.plan.accelerate) + "\n";
  }
}

OrderedJson ToObject(const core::Variables& variables) {
  OrderedJson object = OrderedJson::object();
  for (const auto& [name, value] : variables) object[name] = value;
  return object;
}

OrderedJson ProcessJson(const PlanView& view, int machine, const core::PlannedProcess& process) {
  OrderedJson json = {{"localRank", process.local_rank},
                      {"rank", process.rank},
                      {"environment", ToObject(process.environment)}};
  if (const auto* rank = BindingOf(view, machine, process.local_rank)) {
    json["binding"] = {{"cpus", FormatIndexList(rank->cpus)},    {"numaNode", rank->numa_node},
                       {"memory", core::ToString(rank->memory)}, {"gpus", rank->gpus},
                       {"ompThreads", rank->omp_threads},        {"reason", rank->reason}};
  }
  return json;
}

OrderedJson RuleJson(const core::PlannedRule& planned) {
  OrderedJson json = OrderedJson::object();
  if (!planned.rule.exit_codes.empty()) json["exitCodes"] = planned.rule.exit_codes;
  for (int signal : planned.rule.signals) json["signals"].push_back(SignalName(signal));
  if (!planned.rule.stderr_regex.empty()) json["stderr"] = planned.rule.stderr_regex;
  const core::FailureRule& rule = planned.rule;
  if (!rule.metric.empty()) json["metric"] = rule.metric;
  if (rule.is) json["is"] = ToString(*rule.is);
  if (rule.above) json["above"] = *rule.above;
  if (!rule.rises_by.empty()) json["risesBy"] = rule.rises_by;
  if (!rule.rises_by.empty()) json["within"] = rule.within;
  if (!rule.metric.empty()) json["for"] = rule.for_steps;
  if (rule.skip_steps > 0) json["skipSteps"] = rule.skip_steps;
  if (ActionOf(rule) == core::FailureAction::kRestartFromEarlier) json["atMost"] = rule.at_most;
  json["action"] = ToString(ActionOf(rule));
  json["default"] = planned.is_default;
  return json;
}

core::Node NodeOf(const OrderedJson& json) {
  using core::Node;
  if (json.is_object()) {
    Node map = Node::Map();
    for (const auto& [key, value] : json.items()) map.Add(key, NodeOf(value));
    return map;
  }
  if (json.is_array()) {
    Node list = Node::List();
    for (const OrderedJson& item : json) list.Append(NodeOf(item));
    return list;
  }
  if (json.is_null()) return {};
  if (json.is_string()) return Node::String(json.get<std::string>());
  if (json.is_boolean()) return Node::Bool(json.get<bool>());
  return Node::Scalar(json.is_number_float() ? Node::Kind::kFloat : Node::Kind::kInteger,
                      DumpJson(json));
}

// How the built-in trainer's processes share a model.
core::Parallel ParallelOf(const PlanView& view) {
  return view.job.spec.trainer ? view.job.spec.trainer->parallel : core::Parallel{};
}

// "2 pipelines of 2 stages of 2 ranks: rank = (pipeline x 2 + stage) x 2 + part".
std::string MeshText(const core::Parallel& mesh, int64_t world) {
  const std::string n = std::to_string(mesh.pipeline);
  const std::string pipelines =
      std::to_string(world / mesh.pipeline / mesh.tensor) + " pipelines of " + n + " stages";
  if (mesh.tensor == 1) return pipelines + ": rank = pipeline x " + n + " + stage";
  const std::string t = std::to_string(mesh.tensor);
  return pipelines + " of " + t + " ranks: rank = (pipeline x " + n + " + stage) x " + t +
         " + part";
}

// "from memory to s3://bucket/gpt every 10m; the newest 3 stay, and of older ones one in each 24h".
std::string StoreText(const core::Checkpoint& checkpoint) {
  std::string text = "from memory to " + checkpoint.url + " ";
  text += checkpoint.persist_every == Duration::zero()
              ? "at the job's end"
              : "every " + FormatDuration(checkpoint.persist_every);
  text += "; the newest " + std::to_string(checkpoint.keep) + " stay";
  if (checkpoint.keep_every != Duration::zero()) {
    text += ", and of older ones one in each " + FormatDuration(checkpoint.keep_every);
  }
  if (!checkpoint.upload_bandwidth) return text;
  return text + "; a machine uploads at most " + checkpoint.upload_bandwidth->ToString() +
         " bytes a second";
}

}  // namespace

std::string Describe(const core::FailureRule& rule) {
  if (!rule.metric.empty()) return DescribeMetric(rule);
  auto join = [](const auto& list, auto text_of) {
    std::string text;
    for (const auto& item : list) text += (text.empty() ? "" : ", ") + text_of(item);
    return text;
  };
  std::string text;
  if (!rule.exit_codes.empty()) {
    text = "exit code " + join(rule.exit_codes, [](int code) { return std::to_string(code); });
  }
  if (!rule.signals.empty()) {
    text += (text.empty() ? "" : " and ") + join(rule.signals, SignalName);
  }
  if (!rule.stderr_regex.empty()) {
    text += (text.empty() ? "" : " and ") + ("stderr matches " + rule.stderr_regex);
  }
  return text.empty() ? "any failure" : text;
}

std::string PlanTable(const PlanView& view) {
  const core::Plan& plan = view.plan;
  std::string out = view.job.metadata.name + ": " + std::to_string(plan.num_machines) +
                    (plan.num_machines == 1 ? " machine x " : " machines x ") +
                    std::to_string(plan.processes_per_machine) +
                    (plan.processes_per_machine == 1 ? " process" : " processes") +
                    " = world size " + std::to_string(plan.world_size) + ", launch " +
                    core::ToString(plan.launch) + ", framework " +
                    core::ToString(view.job.spec.framework) + "\n";
  if (const core::Parallel mesh = ParallelOf(view); mesh.pipeline * mesh.tensor > 1) {
    out += "Mesh: " + MeshText(mesh, plan.world_size) + "\n";
  }
  out += "Command: " + core::ShellQuote(plan.command) + "\n";
  const core::Checkpoint& checkpoint = view.job.spec.checkpoint;
  if (!checkpoint.url.empty()) out += "Checkpoints: " + StoreText(checkpoint) + "\n";
  out += "\n";
  AddMachines(view, &out);
  out += "\nEvery process also gets:\n";
  for (const auto& [name, value] : plan.environment) {
    out.append("  ").append(name).append("=").append(value).append("\n");
  }
  AddBinding(view, &out);
  AddRules(view, &out);
  AddCommands(view, &out);
  if (!view.ignored.empty()) out += "\nIgnored by `lockstep run`: " + view.ignored + "\n";
  const std::string hint = HintText(view.recommendation);
  if (!hint.empty()) out += "\n" + hint + "\n";
  return core::Printable(out);
}

std::string RecommendationText(const PlanView& view) {
  const core::Recommendation& recommendation = view.recommendation;
  std::string out = "On this computer (" + view.computer +
                    "): " + std::to_string(recommendation.num_machines) +
                    (recommendation.num_machines == 1 ? " machine x " : " machines x ") +
                    std::to_string(recommendation.processes_per_machine) +
                    (recommendation.processes_per_machine == 1 ? " process" : " processes") +
                    " (-m " + std::to_string(recommendation.num_machines) + " -p " +
                    std::to_string(recommendation.processes_per_machine) + ")\n";
  if (!recommendation.reason.empty()) out += recommendation.reason + "\n";
  const std::string hint = HintText(recommendation);
  if (!hint.empty()) out += hint + "\n";
  return out + "By measurement: lockstep tune, with this job or command\n";
}

std::string HintText(const core::Recommendation& recommendation) {
  std::string hint;
  for (const std::string& warning : recommendation.warnings) {
    hint += (hint.empty() ? "hint: " : ". And ") + warning;
  }
  return hint;
}

OrderedJson PlanJson(const PlanView& view) {
  const core::Plan& plan = view.plan;
  OrderedJson json = {{"name", view.job.metadata.name},
                      {"numMachines", plan.num_machines},
                      {"processesPerMachine", plan.processes_per_machine},
                      {"worldSize", plan.world_size},
                      {"launch", core::ToString(plan.launch)},
                      {"framework", core::ToString(view.job.spec.framework)},
                      {"command", plan.command},
                      {"environment", ToObject(plan.environment)},
                      {"machines", OrderedJson::array()},
                      {"rules", OrderedJson::array()},
                      {"torchrun", plan.torchrun},
                      {"accelerate", plan.accelerate}};
  for (const core::PlannedMachine& machine : plan.machines) {
    OrderedJson entry = {{"index", machine.index},
                         {"name", machine.name},
                         {"firstRank", machine.first_rank},
                         {"lastRank", machine.last_rank},
                         {"processes", OrderedJson::array()}};
    for (const core::PlannedProcess& process : machine.processes) {
      entry["processes"].push_back(ProcessJson(view, machine.index, process));
    }
    json["machines"].push_back(std::move(entry));
  }
  for (const core::PlannedRule& rule : plan.rules) json["rules"].push_back(RuleJson(rule));
  if (const core::Parallel mesh = ParallelOf(view); mesh.pipeline * mesh.tensor > 1) {
    json["mesh"] = {{"pipelines", plan.world_size / mesh.pipeline / mesh.tensor},
                    {"stages", mesh.pipeline},
                    {"tensor", mesh.tensor}};
  }
  json["ignoredLocally"] = view.ignored;
  json["recommendation"] = {{"numMachines", view.recommendation.num_machines},
                            {"processesPerMachine", view.recommendation.processes_per_machine},
                            {"reason", view.recommendation.reason},
                            {"warnings", view.recommendation.warnings}};
  return json;
}

std::string ToYaml(const OrderedJson& json) { return core::WriteYaml(NodeOf(json)); }

}  // namespace lockstep::cli
