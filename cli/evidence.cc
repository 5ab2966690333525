#include "cli/evidence.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <variant>

#include "base/process.h"
#include "base/text/json.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "cli/program_path.h"
#include "cli/run/run_folder.h"
#include "cli/say.h"
#include "core/exit_codes.h"
#include "core/gang/whereabouts.h"
#include "core/text/limited_text.h"

namespace lockstep::cli {
namespace {

constexpr Duration kPatience = seconds(40);
constexpr size_t kMaxAnswer = size_t{32} << 20;
constexpr size_t kMaxAsked = 16;  // at once: each is a kubectl

// A child and what it has said so far.
struct Asked {
  size_t gang = 0;
  const AgentQuestion* question = nullptr;
  SpawnedProcess process;
  Time until{};
  std::string answer;
  std::string words;
};

void Read(UniqueFd& fd, std::string& text) {
  std::array<char, 65536> buffer;
  const ssize_t got = read(fd.get(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0 || text.size() > kMaxAnswer) return fd.reset();
  text.append(buffer.data(), static_cast<size_t>(got));
}

bool HasEnded(const Asked& asked, Time now) {
  return now >= asked.until ||
         (!asked.process.stdout_fd.valid() && !asked.process.stderr_fd.valid());
}

// Waits until one of them says something, ends, or has had its time.
void ReadSome(std::vector<Asked>& asked) {
  std::vector<pollfd> waits;
  std::vector<std::pair<UniqueFd*, std::string*>> pipes;
  Time until = kNever;
  for (Asked& each : asked) {
    until = std::min(until, each.until);
    pipes.emplace_back(&each.process.stdout_fd, &each.answer);
    pipes.emplace_back(&each.process.stderr_fd, &each.words);
  }
  std::erase_if(pipes, [](const auto& pipe) { return !pipe.first->valid(); });
  for (const auto& [fd, text] : pipes) waits.push_back({fd->get(), POLLIN, 0});
  const auto left = std::max<int64_t>((until - BootTime()) / milliseconds(1) + 1, 0);
  if (poll(waits.data(), waits.size(), static_cast<int>(left)) <= 0) return;
  for (size_t i = 0; i < waits.size(); ++i) {
    if (waits[i].revents != 0) Read(*pipes[i].first, *pipes[i].second);
  }
}

void End(const Asked& each) {
  syscall(SYS_pidfd_send_signal, each.process.pidfd.get(), SIGKILL, nullptr, 0);
  waitpid(each.process.pid, nullptr, 0);
}

Result<Asked> Ask(Spawner& spawner, const AgentQuestion& question) {
  const char* path = std::getenv("PATH");
  auto found = FindExecutable(question.argv.front(), path == nullptr ? "" : path, "");
  if (const auto* failure = std::get_if<SpawnFailure>(&found)) {
    return Error::NotFound(failure->message);
  }
  SpawnRequest request;
  request.path = std::get<std::string>(found);
  request.argv = question.argv;
  request.env = OwnEnvironment();
  SpawnResult result = spawner.Spawn(request);
  if (const auto* failure = std::get_if<SpawnFailure>(&result)) {
    return Error::Unavailable(failure->message);
  }
  return Asked{0,  &question, std::move(std::get<SpawnedProcess>(result)), BootTime() + kPatience,
               "", ""};
}

}  // namespace

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
  const Error wrong = Error::Invalid("it answers what no agent says");
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

std::string EvidenceText(const std::vector<MachineEvidence>& machines,
                         std::optional<int32_t> rank) {
  std::vector<core::Whereabouts> places;
  std::map<uint32_t, std::string> texts;
  std::string head;
  for (const MachineEvidence& machine : machines) {
    head = core::OneLine(machine.job) + ", generation " + core::OneLine(machine.generation);
    for (const MachineEvidence::Rank& each : machine.ranks) {
      if (!each.place.empty()) places.push_back({each.rank, each.place});
      if (rank && static_cast<uint32_t>(*rank) != each.rank) continue;
      texts[each.rank] = "\n--- rank " + std::to_string(each.rank) + ", machine " +
                         std::to_string(machine.machine) + " ---\n" +
                         core::Printable(each.evidence);
    }
  }
  std::string out = head + ": ";
  out += places.empty() ? "no rank runs" : core::JudgeHang(places).sentence;
  out += "\n";
  for (const auto& [number, text] : texts) out += text;
  return out;
}

int AskAndShow(const std::vector<std::vector<AgentQuestion>>& gangs, std::optional<int32_t> rank) {
  Result<std::unique_ptr<Spawner>> spawner = Spawner::Create();
  if (!spawner.ok()) {
    Say(spawner.error().message);
    return core::kExitTrouble;
  }
  int code = core::kExitSuccess;
  const auto complain = [&code](const AgentQuestion& question, const std::string& words) {
    Say(question.machine + ": " + words);
    code = core::kExitTrouble;
  };
  std::vector<std::vector<MachineEvidence>> answers(gangs.size());
  std::vector<Asked> asked;
  const auto take_ended = [&](size_t most) {
    while (asked.size() > most) {
      ReadSome(asked);
      std::erase_if(asked, [&, now = BootTime()](Asked& each) {
        if (!HasEnded(each, now)) return false;
        End(each);
        Result<MachineEvidence> machine = ParseEvidence(each.answer);
        each.words.erase(each.words.find_last_not_of(" \n") + 1);
        if (machine.ok()) {
          answers[each.gang].push_back(std::move(*machine));
        } else {
          complain(*each.question, each.words.empty() ? machine.error().message : each.words);
        }
        return true;
      });
    }
  };
  for (size_t gang = 0; gang < gangs.size(); ++gang) {
    for (const AgentQuestion& question : gangs[gang]) {
      take_ended(kMaxAsked - 1);
      Result<Asked> each = Ask(**spawner, question);
      if (!each.ok()) {
        complain(question, each.error().message);
        continue;
      }
      each->gang = gang;
      asked.push_back(std::move(*each));
    }
  }
  take_ended(0);
  for (const std::vector<MachineEvidence>& machines : answers) {
    if (!machines.empty()) std::cout << EvidenceText(machines, rank);
  }
  return code;
}

int DebugHere(const DebugCommand& command) {
  const std::vector<std::vector<std::string>> runs = AgentFoldersOfRuns();
  if (runs.empty()) {
    Say("no `lockstep run` of yours is under way on this computer; of a cluster's job give its "
        "NAME");
    return core::kExitNotFound;
  }
  Result<std::string> agent = FindProgram("lockstep-agent");
  if (!agent.ok()) {
    Say(agent.error().message);
    return core::kExitTrouble;
  }
  std::vector<std::vector<AgentQuestion>> gangs;
  for (const std::vector<std::string>& folders : runs) {
    std::vector<AgentQuestion>& questions = gangs.emplace_back();
    for (const std::string& folder : folders) {
      questions.push_back({folder, {*agent, "--evidence", folder}});
    }
  }
  return AskAndShow(gangs, command.rank);
}

}  // namespace lockstep::cli
