#include "cli/ui/stack_asker.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>
#include <variant>

#include "base/text/json.h"
#include "core/gang/diagnosis/whereabouts.h"
#include "core/text/limited_text.h"

namespace lockstep::cli {
namespace {

constexpr size_t kMostOfWords = 4096;

enum class Got : uint8_t { kBytes, kNothing, kEnd };

Got Append(int fd, size_t most, std::string& text) {
  std::array<char, 65536> block;
  const ssize_t got = read(fd, block.data(), block.size());
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Got::kNothing : Got::kEnd;
  text.append(block.data(), std::min(static_cast<size_t>(got), most - text.size()));
  return got > 0 ? Got::kBytes : Got::kEnd;
}

}  // namespace

std::string StacksJson(const Stacks& stacks, std::optional<uint32_t> rank) {
  std::vector<core::Whereabouts> places;
  OrderedJson ranks = OrderedJson::array();
  size_t shown = rank ? 1 : 0;
  for (const MachineEvidence& machine : stacks.machines) shown += rank ? 0 : machine.ranks.size();
  for (const MachineEvidence& machine : stacks.machines) {
    for (const MachineEvidence::Rank& each : machine.ranks) {
      if (!each.place.empty()) places.push_back({each.rank, each.place});
      if (rank && *rank != each.rank) continue;
      ranks.push_back({{"rank", each.rank},
                       {"machine", machine.machine},
                       {"place", each.place},
                       {"evidence", core::FirstBytes(each.evidence, kMostOfEvidence / shown)}});
    }
  }
  return DumpJson(
      OrderedJson{{"sentence", places.empty() ? "no rank runs" : core::JudgeHang(places).sentence},
                  {"ranks", std::move(ranks)},
                  {"problems", stacks.problems}});
}

StackAsker::~StackAsker() {
  for (Asked& asked : asked_) {
    Unwatch(asked);
    syscall(SYS_pidfd_send_signal, asked.process.pidfd.get(), SIGKILL, nullptr, 0);
    waitpid(asked.process.pid, nullptr, 0);
  }
}

void StackAsker::Ask(std::vector<Machine> machines, Take take) {
  takers_.push_back(std::move(take));
  if (takers_.size() > 1) return;
  stacks_ = {};
  waiting_.assign(machines.begin(), machines.end());
  loop_->Post(lifetime_.Guard([this] { StartMore(); }));
}

void StackAsker::StartMore() {
  while (!waiting_.empty() && asked_.size() < kAtOnce) {
    const Machine machine = std::move(waiting_.front());
    waiting_.pop_front();
    Start(machine);
  }
  if (!asked_.empty() || takers_.empty()) return;
  std::ranges::sort(stacks_.machines, {}, &MachineEvidence::machine);
  const std::vector<Take> takers = std::exchange(takers_, {});
  const Stacks stacks = std::exchange(stacks_, {});
  for (const Take& take : takers) take(stacks);
}

void StackAsker::Start(const Machine& machine) {
  const std::string who = "machine " + std::to_string(machine.index) + ": ";
  if (machine.argv.empty()) {
    stacks_.problems.push_back(who + machine.problem);
    return;
  }
  SpawnRequest request;
  request.path = machine.argv.front();
  request.argv = machine.argv;
  request.env = OwnEnvironment();
  SpawnResult result = spawner_->Spawn(request);
  if (const auto* failure = std::get_if<SpawnFailure>(&result)) {
    stacks_.problems.push_back(who + failure->message);
    return;
  }
  const Place asked = asked_.emplace(asked_.end());
  asked->machine = machine.index;
  asked->process = std::move(std::get<SpawnedProcess>(result));
  for (const UniqueFd* fd : {&asked->process.stdout_fd, &asked->process.stderr_fd}) {
    [[maybe_unused]] const Status watched =
        loop_->Watch(fd->get(), EPOLLIN, [this, asked](uint32_t) { Read(asked); });
  }
  [[maybe_unused]] const Status watched =
      loop_->Watch(asked->process.pidfd.get(), EPOLLIN, [this, asked](uint32_t) { OnEnd(asked); });
  asked->patience = loop_->StartTimer(loop_->now() + kPatience,
                                      [this, asked] { Kill(*asked, "no answer in 15 s"); });
}

bool StackAsker::Read(Place asked) {
  SpawnedProcess& process = asked->process;
  bool some = false;
  const auto read_one = [&](UniqueFd& fd, size_t most, std::string& text) {
    if (!fd.valid()) return;
    const Got got = Append(fd.get(), most, text);
    some = some || got == Got::kBytes;
    if (got != Got::kEnd) return;
    loop_->Unwatch(fd.get());
    fd.reset();
  };
  read_one(process.stdout_fd, kMostOfAnswer, asked->answer);
  read_one(process.stderr_fd, kMostOfWords, asked->words);
  if (asked->answer.size() == kMostOfAnswer) Kill(*asked, "its answer has more than 8 MiB");
  return some;
}

void StackAsker::Kill(Asked& asked, std::string problem) {
  if (asked.problem.empty()) asked.problem = std::move(problem);
  syscall(SYS_pidfd_send_signal, asked.process.pidfd.get(), SIGKILL, nullptr, 0);
}

void StackAsker::Unwatch(Asked& asked) {
  loop_->CancelTimer(asked.patience);
  for (UniqueFd* fd : {&asked.process.stdout_fd, &asked.process.stderr_fd, &asked.process.pidfd}) {
    if (fd->valid()) loop_->Unwatch(fd->get());
  }
}

void StackAsker::OnEnd(Place asked) {
  while (asked->problem.empty() && Read(asked)) {  // what it wrote before its end
  }
  waitpid(asked->process.pid, nullptr, WNOHANG);
  Unwatch(*asked);
  Result<MachineEvidence> machine = ParseEvidence(asked->answer);
  if (asked->problem.empty() && machine.ok()) {
    stacks_.machines.push_back(std::move(*machine));
  } else {
    std::string why = asked->problem;
    if (why.empty()) why = asked->words.empty() ? machine.error().message : asked->words;
    stacks_.problems.push_back("machine " + std::to_string(asked->machine) + ": " +
                               core::OneLine(core::FirstBytes(why, kMostOfWords)));
  }
  asked_.erase(asked);
  StartMore();
}

}  // namespace lockstep::cli
