#include "tests/sim/training.h"

#include <algorithm>
#include <utility>

#include "tests/sim/world.h"

namespace lockstep::sim {

Training::Run* Training::Find(core::Generation generation) {
  for (Run& run : runs_) {
    if (run.generation == generation) return &run;
  }
  return nullptr;
}

const Training::Run* Training::Find(core::Generation generation) const {
  return const_cast<Training*>(this)->Find(generation);
}

void Training::OnExec(Node node, uint32_t pid, const core::Start& start, uint32_t rank,
                      const std::string& resume) {
  const core::Generation generation = start.generation;
  Run* run = Find(generation);
  if (run == nullptr) {
    runs_.push_front({});
    run = &runs_.front();
    run->generation = generation;
    run->ranks.resize(start.members.size() * world_.shape().processes);
    run->step = world_.volume().StepOf(resume);
    current_ = generation;
  }
  const bool again = run->ranks.at(rank).executed;
  run->ranks[rank] = {node, pid, true, false, true};
  if (again) {
    if (run->step >= world_.shape().steps) Finish(*run, rank);
    return;
  }
  if (++run->execs == run->ranks.size() && !run->over) {
    world_.queue().After(world_.shape().step, [this, generation] { Step(generation); });
  }
}

void Training::OnEnd(core::Generation generation, uint32_t rank, bool well) {
  Run* run = Find(generation);
  if (run == nullptr) return;
  run->ranks.at(rank).alive = false;
  run->ranks.at(rank).well = well;
  if (well || run->over || IsAlone(world_.shape(), rank)) return;
  run->over = true;
  if (world_.shape().peers_fail) FailPeers(*run);
}

// Their collectives break: later than any clock's uncertainty, so that the root cause is certain.
// Where clocks drift by 5 %, that is long.
void Training::FailPeers(const Run& run) {
  const Shape& shape = world_.shape();
  Duration soonest = shape.skew == 0 ? shape.network * 2 + milliseconds(2) : milliseconds(150);
  for (const Rank& rank : run.ranks) {
    if (!rank.alive) continue;
    Duration after = world_.random().Between(soonest, soonest + milliseconds(100));
    uint32_t code = world_.random().Chance(50) ? 75 : 1;
    world_.queue().After(
        after, [this, node = rank.node, pid = rank.pid, code, generation = run.generation] {
          world_.machine(node).Exit(pid, generation, static_cast<int>(code));
        });
  }
}

bool Training::Connected(const Run& run) const {
  for (const Rank& a : run.ranks) {
    if (world_.machine(a.node).frozen()) return false;
    for (const Rank& b : run.ranks) {
      if (a.node != b.node && world_.network().Blocked(a.node, b.node)) return false;
    }
  }
  return true;
}

void Training::Step(core::Generation generation) {
  Run& run = *Find(generation);
  bool all =
      std::all_of(run.ranks.begin(), run.ranks.end(), [](const Rank& rank) { return rank.alive; });
  if (run.over) return;
  for (uint32_t rank = 0; rank < run.ranks.size(); ++rank) {
    if (!run.ranks[rank].alive && !ComesAgain(run, rank)) return;
  }
  // A hang is noticed by progress that ends, so there was some.
  if (hung_ == generation && run.reported) return;
  Duration next = world_.shape().step;
  if (all && Connected(run)) {
    ++run.step;
    if (run.step >= world_.shape().steps) {
      for (uint32_t rank = 0; rank < run.ranks.size(); ++rank) Finish(run, rank);
      return;
    }
    const Rank& first = run.ranks.front();
    Machine& machine = world_.machine(first.node);
    machine.OnProgress(0, run.step);
    run.reported = true;
    if (run.step % world_.shape().commit_every == 0 && run.committing == 0) {
      run.committing = run.step;
      run.requested = world_.now();
      machine.OnCommit(generation);
    }
    const int64_t memory_every = world_.shape().memory_every;
    if (memory_every > 0 && run.step % memory_every == 0 && run.memory_asked == 0) {
      for (size_t rank = 0; rank < run.ranks.size(); rank += world_.shape().processes) {
        ++run.memory_asked;
        run.memory_requested[std::to_string(run.step)] = world_.now();
        world_.machine(run.ranks[rank].node).OnMemoryCommit(generation, std::to_string(run.step));
      }
    }
  } else {
    next = milliseconds(50);
  }
  world_.queue().After(next, [this, generation] { Step(generation); });
}

bool Training::ComesAgain(const Run& run, uint32_t rank) const {
  return IsAlone(world_.shape(), rank) && !run.ranks[rank].well && current_ == run.generation;
}

void Training::Finish(const Run& run, uint32_t rank) {
  if (!Decides(rank) && world_.random().Chance(70)) return;
  world_.queue().After(
      world_.random().Between(Duration::zero(), milliseconds(5)),
      [this, node = run.ranks[rank].node, pid = run.ranks[rank].pid, generation = run.generation] {
        world_.machine(node).Exit(pid, generation, 0);
      });
}

void Training::OnCommitAnswered(core::Generation generation, bool granted, uint32_t number) {
  Run* run = Find(generation);
  if (run == nullptr || !run->ranks.front().alive) return;
  int64_t step = std::exchange(run->committing, 0);
  if (!granted || step == 0) return;
  world_.volume().Rename(generation, number, step, std::exchange(rename_late_, Duration::zero()));
}

void Training::OnMemoryCommitAnswered(core::Generation generation, const std::string& name,
                                      uint32_t number) {
  Run* run = Find(generation);
  if (run == nullptr || run->memory_asked == 0) return;
  --run->memory_asked;
  if (number == 0) return;
  const core::CheckpointId id{generation, number};
  world_.volume().Remember(InMemory(id), std::stoll(name));
  world_.invariants().OnMemoryCommit(id);
}

bool Training::Succeeded(core::Generation generation) const {
  const Run* run = Find(generation);
  if (run == nullptr) return false;
  for (size_t r = 0; r < run->ranks.size(); ++r) {
    if (Decides(r) && !run->ranks[r].well) return false;
  }
  return true;
}

bool Training::Decides(size_t rank) const {
  return !world_.shape().machine0_decides || rank < world_.shape().processes;
}

Time Training::CommitRequested(core::Generation generation, const std::string& memory_name) const {
  const Run* run = Find(generation);
  if (run == nullptr) return Time::min();
  if (memory_name.empty()) return run->requested;
  const auto found = run->memory_requested.find(memory_name);
  return found == run->memory_requested.end() ? Time::min() : found->second;
}

}  // namespace lockstep::sim
