#include "core/gang/coordinator/commits.h"

#include <map>
#include <set>
#include <utility>

namespace lockstep::core {

void Commits::AskOnDisk(uint32_t machine, uint64_t id, Time stamp) {
  on_disk_.push_back({machine, id, stamp});
}

void Commits::AskInMemory(uint32_t machine, CommitRequest request) {
  in_memory_.push_back({machine, std::move(request)});
}

bool Commits::GrantOnDisk(const std::function<bool(Time stamp)>& answered) {
  const size_t granted = std::erase_if(on_disk_, [&](const OnDisk& pending) {
    if (!answered(pending.requested)) return false;
    outbox_.Send(roster_[pending.machine], CommitReply{pending.id, true, ++number_, ""});
    ++granted_;
    return true;
  });
  return granted > 0;
}

std::optional<MemoryPart> Commits::GrantInMemory(Generation generation) {
  std::optional<MemoryPart> granted;
  std::map<std::string, std::set<uint32_t>> machines;
  std::set<uint32_t> waiting;
  for (const InMemory& pending : in_memory_) {
    machines[pending.request.name].insert(pending.machine);
    waiting.insert(pending.machine);
  }
  for (const auto& [name, asked] : machines) {
    if (asked.size() < roster_.size()) continue;
    std::string problem;
    for (const InMemory& pending : in_memory_) {
      if (pending.request.name != name || pending.request.problem.empty()) continue;
      problem = "machine " + std::to_string(pending.machine) + ": " + pending.request.problem;
    }
    const uint32_t number = problem.empty() ? ++number_ : 0;
    if (number != 0) {
      granted = {{generation, number}, 0, name};
      ++granted_;
    }
    std::erase_if(in_memory_, [&, &of = name](const InMemory& pending) {
      if (pending.request.name != of) return false;
      Answer(pending, number, problem);
      return true;
    });
    waiting.clear();
  }
  if (waiting.size() < roster_.size()) return granted;
  // One that some machine has left undone is in the way of no later one.
  const std::string newest = in_memory_.back().request.name;
  std::erase_if(in_memory_, [&](const InMemory& pending) {
    if (pending.request.name == newest) return false;
    Answer(pending, 0,
           "another machine commits " + newest +
               "; all commit their parts of a checkpoint under one name");
    return true;
  });
  return granted;
}

void Commits::RefuseAll(const std::string& reason) {
  for (const OnDisk& pending : std::exchange(on_disk_, {})) {
    outbox_.Send(roster_[pending.machine], CommitReply{pending.id, false, 0, reason});
  }
  for (const InMemory& pending : std::exchange(in_memory_, {})) Answer(pending, 0, reason);
}

void Commits::Answer(const InMemory& asked, uint32_t number, std::string reason) {
  outbox_.Send(roster_[asked.machine],
               CommitReply{asked.request.id, number != 0, number, std::move(reason)});
}

}  // namespace lockstep::core
