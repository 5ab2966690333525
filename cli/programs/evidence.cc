#include "cli/programs/evidence.h"

#include <algorithm>
#include <iostream>
#include <limits>
#include <map>
#include <utility>

#include "base/process/process.h"
#include "base/text/json.h"
#include "cli/programs/program_path.h"
#include "cli/say.h"
#include "core/exit_codes.h"
#include "core/gang/diagnosis/whereabouts.h"
#include "core/text/limited_text.h"
#include "worker/place/run_folder.h"

namespace lockstep::cli {

Result<MachineEvidence> ParseEvidence(std::string_view json) {
  const Json tree = ParseJson(json);
  MachineEvidence machine;
  const auto text = [](const Json& object, const char* name) {
    return object.contains(name) && object[name].is_string() ? object[name].get<std::string>()
                                                             : std::string();
  };
  const auto number = [](const Json& object, const char* name) -> std::optional<uint32_t> {
    if (!object.contains(name) || !object[name].is_number_unsigned()) return std::nullopt;
    const auto value = object[name].get<uint64_t>();
    if (value > static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) return std::nullopt;
    return static_cast<uint32_t>(value);
  };
  const Error wrong = Error::Invalid("its answer is not that of an agent");
  if (!tree.is_object() || !tree.contains("ranks") || !tree["ranks"].is_array()) return wrong;
  const auto index = number(tree, "machine");
  if (!index) return wrong;
  machine.machine = *index;
  machine.job = text(tree, "job");
  machine.generation = text(tree, "generation");
  for (const Json& each : tree["ranks"]) {
    const auto rank = each.is_object() ? number(each, "rank") : std::nullopt;
    if (!rank) return wrong;
    machine.ranks.push_back({*rank, text(each, "place"), text(each, "evidence")});
  }
  return machine;
}

namespace {

// Without what the kernel shows of threads. The lines between are those of LookAtRanks
// (worker/agent/evidence/evidence.cc).
std::string WithoutKernel(std::string_view evidence) {
  std::string text;
  bool stacks = false;
  while (!evidence.empty()) {
    const size_t size = std::min(evidence.find('\n'), evidence.size() - 1) + 1;
    const std::string_view line = evidence.substr(0, size);
    evidence.remove_prefix(size);
    stacks = (stacks || line.starts_with("-- its stacks")) && !line.starts_with("== process");
    if (stacks || !(line.starts_with("thread ") || line.starts_with("[<"))) text += line;
  }
  return text;
}

}  // namespace

std::string EvidenceText(const std::vector<MachineEvidence>& machines,
                         const EvidenceChoice& choice) {
  std::vector<core::Whereabouts> places;
  std::map<uint32_t, std::string> texts;
  std::string head;
  bool left_out = false;
  for (const MachineEvidence& machine : machines) {
    head = core::OneLine(machine.job) + ", generation " + core::OneLine(machine.generation);
    for (const MachineEvidence::Rank& each : machine.ranks) {
      if (!each.place.empty()) places.push_back({each.rank, each.place});
      if (choice.rank && static_cast<uint32_t>(*choice.rank) != each.rank) continue;
      const std::string shown = choice.kernel ? each.evidence : WithoutKernel(each.evidence);
      left_out = left_out || shown.size() < each.evidence.size();
      texts[each.rank] = "\n--- rank " + std::to_string(each.rank) + ", machine " +
                         std::to_string(machine.machine) + " ---\n" + core::Printable(shown);
    }
  }
  std::string out = head + ": ";
  out += places.empty() ? "no rank runs" : core::JudgeHang(places).sentence;
  out += "\n";
  for (const auto& [number, text] : texts) out += text;
  if (left_out) out += "\n--kernel shows each thread's system call and kernel stack\n";
  return out;
}

int AskAndShow(const std::vector<std::vector<Question>>& gangs, const EvidenceChoice& choice) {
  int code = core::kExitSuccess;
  std::vector<Question> questions;
  std::vector<size_t> gang_of;
  for (size_t gang = 0; gang < gangs.size(); ++gang) {
    questions.insert(questions.end(), gangs[gang].begin(), gangs[gang].end());
    gang_of.resize(questions.size(), gang);
  }
  const auto complain = [&](size_t index, const std::string& words) {
    Say(questions[index].who + ": " + words);
    code = core::kExitTrouble;
  };
  std::vector<std::vector<MachineEvidence>> answers(gangs.size());
  AskOptions options;
  options.env = OwnEnvironment();
  const Status asked = AskAll(questions, options, [&](size_t index, const Result<Answer>& answer) {
    if (!answer.ok()) return complain(index, answer.error().message);
    Result<MachineEvidence> machine = ParseEvidence(answer->text);
    if (machine.ok()) {
      answers[gang_of[index]].push_back(std::move(*machine));
    } else {
      complain(index, answer->words.empty() ? machine.error().message : answer->words);
    }
  });
  if (!asked.ok()) {
    Say(asked.error().message);
    return core::kExitTrouble;
  }
  for (const std::vector<MachineEvidence>& machines : answers) {
    if (!machines.empty()) std::cout << EvidenceText(machines, choice);
  }
  return code;
}

std::optional<int> DebugHere(const DebugCommand& command) {
  std::vector<place::RunUnderWay> runs = place::RunsUnderWay();
  if (!command.name.empty()) {
    std::erase_if(runs, [&](const place::RunUnderWay& run) { return run.job != command.name; });
    if (runs.empty()) return std::nullopt;
  }
  if (runs.empty()) {
    Say("you have no `lockstep run` on this computer; for a job of a cluster give its NAME");
    return core::kExitNotFound;
  }
  Result<std::string> agent = FindProgram("lockstep-agent");
  if (!agent.ok()) {
    Say(agent.error().message);
    return core::kExitTrouble;
  }
  std::vector<std::vector<Question>> gangs;
  for (const place::RunUnderWay& run : runs) {
    std::vector<Question>& questions = gangs.emplace_back();
    for (const std::string& folder : run.agents) {
      questions.push_back({folder, {*agent, "--evidence", folder}});
    }
  }
  return AskAndShow(gangs, {command.rank, command.kernel});
}

}  // namespace lockstep::cli
