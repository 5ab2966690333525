#include "worker/topology/topology.h"

#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/process/process.h"
#include "base/text/ascii.h"
#include "base/text/columns.h"
#include "base/version.h"
#include "cli/commands/commands.h"
#include "cli/job/job_file.h"
#include "cli/machine/machine_facts.h"
#include "cli/machine/machine_picture.h"
#include "cli/say.h"
#include "core/exit_codes.h"
#include "core/text/limited_text.h"

namespace lockstep::cli {
namespace {

struct TopologyOptions {
  std::string job, svg, report, xml;
};

std::string LimitsText(const topology::Machine& machine) {
  std::string text = "Allowed: CPUs " + FormatIndexList(machine.allowed_cpus) + "; memory of ";
  text += machine.allowed_mems.empty() ? "nodes unknown"
                                       : "nodes " + FormatIndexList(machine.allowed_mems);
  if (machine.cpu_quota > 0) {
    text += "; CPU time of " + OrderedJson(machine.cpu_quota).dump() + " CPUs";
  }
  return text + ".\n";
}

// A line for each process of a machine.
std::string BindingText(const topology::BindingPlan& plan) {
  std::vector<std::vector<std::string>> rows = {
      {"LOCAL RANK", "CPUS", "MEMORY", "GPUS", "NETWORK CARDS", "OMP_NUM_THREADS", ""}};
  for (const topology::RankBinding& rank : plan.ranks) {
    std::string memory = core::ToString(rank.memory);
    if (!rank.memory_nodes.empty()) memory += " " + FormatIndexList(rank.memory_nodes);
    std::string gpus;
    for (const int gpu : rank.gpus) gpus += (gpus.empty() ? "" : ",") + std::to_string(gpu);
    std::string nics;
    for (const std::string& nic : rank.nics) nics += (nics.empty() ? "" : ",") + nic;
    rows.push_back({std::to_string(rank.local_rank),
                    rank.cpus.empty() ? "not bound" : FormatIndexList(rank.cpus), memory, gpus,
                    nics, std::to_string(rank.omp_threads), rank.reason});
  }
  return AlignColumns(rows, "  ");
}

// For a report of a bug: what was read, where, and what a plan made of it. GPUs' numbers of series
// are left out, and of a job all but how its processes are bound.
OrderedJson ReportJson(const topology::Machine& machine, const Part& picture,
                       const topology::BindingPlan* plan) {
  OrderedJson json = {{"lockstep", kVersion},
                      {"summary", topology::Summary(machine)},
                      {"allowedCpus", FormatIndexList(machine.allowed_cpus)},
                      {"allowedNumaNodes", FormatIndexList(machine.allowed_mems)},
                      {"cpuQuota", machine.cpu_quota}};
  for (const topology::Fact& fact : machine.facts) json["readFrom"][fact.name] = fact.source;
  json["machine"] = ToJson(ReadMachineFacts("/"));
  std::string line;
  for (const char c : PictureText(picture)) {
    if (c != '\n') {
      line += c;
      continue;
    }
    json["picture"].push_back(line);
    line.clear();
  }
  for (size_t i = 0; plan != nullptr && i < plan->ranks.size(); ++i) {
    const topology::RankBinding& rank = plan->ranks[i];
    json["plan"].push_back({{"localRank", rank.local_rank},
                            {"cpus", FormatIndexList(rank.cpus)},
                            {"memory", core::ToString(rank.memory)},
                            {"memoryNodes", FormatIndexList(rank.memory_nodes)},
                            {"gpus", rank.gpus},
                            {"networkCards", rank.nics},
                            {"ompThreads", rank.omp_threads},
                            {"reason", rank.reason}});
  }
  if (plan != nullptr && !plan->error.empty()) json["planError"] = plan->error;
  return json;
}

// Whether the environment asks for a character set in which lines can't be drawn: LC_ALL=C.
bool WantsAscii() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const locale = std::getenv(name);
    if (locale == nullptr || *locale == '\0') continue;
    const std::string charset = ToLower(locale);
    return charset.find("utf-8") == std::string::npos && charset.find("utf8") == std::string::npos;
  }
  return false;
}

std::string Drawn(std::string picture) {
  if (!WantsAscii()) return picture;
  constexpr std::pair<std::string_view, std::string_view> kLines[] = {
      {"\u251C\u2500", "|-"}, {"\u2514\u2500", "`-"}, {"\u2502", "|"}};
  for (const auto& [line, ascii] : kLines) {
    for (size_t at = 0; (at = picture.find(line, at)) != std::string::npos; at += ascii.size()) {
      picture.replace(at, line.size(), ascii);
    }
  }
  return picture;
}

int Topology(const TopologyOptions& options) {
  Result<topology::Machine> machine =
      options.xml.empty() ? topology::Discover() : topology::DiscoverXml(options.xml);
  if (!machine.ok()) {
    Say("topology: " + machine.error().message);
    return options.xml.empty() ? core::kExitTrouble : core::kExitUsage;
  }
  std::optional<topology::BindingPlan> plan;
  std::string heading;
  if (!options.job.empty()) {
    Result<LoadedJob> loaded = LoadJob(options.job, {}, core::Target::kCluster, std::nullopt);
    if (!loaded.ok()) {
      Say(loaded.error().message);
      return core::kExitUsage;
    }
    ShowProblems(loaded->problems, loaded->file);
    if (!loaded->ok()) return core::kExitUsage;
    const core::Spec& spec = loaded->job.spec;
    // What this shell says of GPUs is nothing to another machine.
    plan = topology::PlanBinding(
        *machine, topology::RequestOf(
                      spec, options.xml.empty() ? OwnEnvironment() : std::vector<std::string>()));
    heading = "\nBinding of each machine's processes of " + loaded->job.metadata.name +
              ", bind: " + core::ToString(spec.topology.bind) + ":\n";
  }
  const topology::BindingPlan* planned = plan ? &*plan : nullptr;
  const Part picture = MakePicture(*machine, planned);
  std::string text = Drawn(PictureText(picture)) + "\n" + LimitsText(*machine);
  if (planned != nullptr) {
    text += heading + BindingText(*planned);
    for (const std::string& note : planned->notes) text += "note: " + note + "\n";
    if (!planned->error.empty()) text += "error: " + planned->error + "\n";
  }
  std::cout << core::Printable(text);
  const bool written =
      WriteOrSay(options.svg, PictureSvg(picture)) &&
      (options.report.empty() ||
       WriteOrSay(options.report, DumpJson(ReportJson(*machine, picture, planned), 2) + "\n"));
  return written ? core::kExitSuccess : core::kExitTrouble;
}

}  // namespace

void AddTopology(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<TopologyOptions>();
  CLI::App* command = app.add_subcommand(
      "topology",
      "Draw this machine: NUMA nodes, caches, cores, GPUs, and the place of each process");
  command->add_option("--job", options->job, "Also show how this job's processes would be bound")
      ->type_name("FILE");
  command->add_option("--svg", options->svg, "Write the picture to a file")->type_name("FILE");
  CLI::Option* report = command
                            ->add_option("--report", options->report,
                                         "Write the facts, their sources and the kernel's settings "
                                         "to a file, for a bug report")
                            ->type_name("FILE");
  command
      ->add_option("--xml", options->xml,
                   "Draw another machine from the output of `lstopo --of xml` there")
      ->type_name("FILE")
      ->excludes(report);
  command->footer(
      "Examples:\n"
      "  lockstep topology\n"
      "  lockstep topology --job job.yaml --svg machine.svg\n"
      "  lockstep topology --xml dgx.xml --job job.yaml\n"
      "\n"
      "[0,64] is a core with its CPUs; (1,65) is a core that this process may not use. Local rank "
      "3\n"
      "is bound to [2,66:r3]; a + after it means that other ranks are bound to it too.\n"
      "Exit codes: 0 shown; 1 the machine cannot be read; 2 a file isn't valid.");
  command->callback([options, invocation] { invocation->exit_code = Topology(*options); });
}

}  // namespace lockstep::cli
