// A member's services for its processes: commands of a launcher on other machines, fences, the
// ports that processes listen on, and the code that they run.
#include <algorithm>
#include <utility>

#include "core/gang/member/member.h"
#include "core/gang/protocol/kvs_exchange.h"

namespace lockstep::core {
namespace {

// Ends of what a launcher asked for, of a generation, that are kept for the coordinator to ask of
// them again.
constexpr size_t kMostRunsKept = 4096;

constexpr size_t kMaxCodeReason = 200;

}  // namespace

MemberActions Member::OnRun(Time now, Run run) {
  Begin(now);
  const bool current = run.generation == report_.generation && MayHaveLiveRanks(phase());
  if (current && welcomed_ && !stopping_.signalled) {
    Send(std::move(run));
  } else {
    actions_.emplace_back(
        AnswerRun{run.id, kExitNeverBegan,
                  current ? "the generation is stopping" : "its generation has ended"});
  }
  return Take();
}

MemberActions Member::OnCodeHeld(Time now, std::vector<std::string> digests) {
  Begin(now);
  code_.digests = std::move(digests);
  SendCode();
  return Take();
}

MemberActions Member::OnCodeFailed(Time now, const std::string& digest, std::string reason) {
  Begin(now);
  if (reason.size() > kMaxCodeReason) reason.resize(kMaxCodeReason);
  if (welcomed_) Send(CodeFailed{digest, std::move(reason)});
  return Take();
}

MemberActions Member::OnRan(Time now, Ran ran) {
  Begin(now);
  const auto found = runs_.find(ran.id);
  if (ran.generation == report_.generation && found != runs_.end()) {
    found->second = ran;
    if (welcomed_) Send(std::move(ran));
    if (runs_.size() > kMostRunsKept) {
      // The newest stays, by which it is known what was asked for already.
      const auto ended =
          std::ranges::find_if(runs_, [](const auto& run) { return run.second.has_value(); });
      if (ended->first != runs_.rbegin()->first) runs_.erase(ended);
    }
  }
  return Take();
}

MemberActions Member::OnFence(Time now, Generation generation, std::vector<TableEntry> entries) {
  Begin(now);
  if (generation == report_.generation && MayHaveLiveRanks(phase()) && !fence_.waiting) {
    ++fence_.number;
    fence_.waiting = WaitingFence{InParts(std::move(entries)), 0};
    SendFence();
  }
  return Take();
}

// A command that is sent again after a new connection does not run again.
void Member::Handle(Time, const Run& message) {
  const auto refuse = [&](std::string why) {
    Send(Ran{message.generation, message.id, config_.machine, kExitNeverBegan, std::move(why)});
  };
  if (message.generation != report_.generation) return refuse("its generation has ended");
  const bool was_asked_for = !runs_.empty() && message.id <= runs_.rbegin()->first;
  if (was_asked_for && !runs_.contains(message.id)) return refuse("it ended long ago");
  const auto [run, is_new] = runs_.try_emplace(message.id);
  if (!is_new) {
    if (run->second) Send(*run->second);
    return;
  }
  if (MayHaveLiveRanks(phase()) && !stopping_.signalled) {
    actions_.emplace_back(RunCommand{message});
    return;
  }
  runs_.erase(run);
  refuse("the generation is stopping");
}

void Member::Handle(Time, const Ran& message) {
  if (message.generation != report_.generation) return;
  actions_.emplace_back(AnswerRun{message.id, message.exit_code, message.problem});
}

void Member::Handle(Time, const Fence& message) {
  if (!fence_.waiting || message.generation != report_.generation ||
      message.number != fence_.number || message.part != fence_.waiting->next) {
    return;  // said again around a reconnect
  }
  ++fence_.waiting->next;
  actions_.emplace_back(DeliverFence{message.generation, message.entries, message.last});
  if (!message.last) return SendFence();
  fence_.waiting.reset();
}

void Member::Handle(Time, const TryPorts& message) { actions_.emplace_back(ProbePorts{message}); }

void Member::Handle(Time, const StartAgain& message) {
  if (message.generation != report_.generation) return;
  if (stopping_.signalled || stopping_.evidence_until != kNever) return;  // it ends
  const auto down = std::ranges::find_if(report_.down, [&](const Failure& death) {
    return death.rank == static_cast<int>(message.rank) && death.at == message.died;
  });
  if (down == report_.down.end()) return;  // it has been, around a reconnect
  report_.down.erase(down);
  actions_.emplace_back(SpawnAgain{report_.generation, message.rank, lease_.end});
}

// Whatever of it was said before a reconnect: its own part until there is an answer, then what it
// wants next.
void Member::SendFence() {
  if (!welcomed_ || !fence_.waiting) return;
  if (fence_.waiting->next > 0) {
    return Send(FenceMore{report_.generation, fence_.number, fence_.waiting->next});
  }
  for (uint32_t part = 0; part < fence_.waiting->parts.size(); ++part) {
    Send(Fence{report_.generation, fence_.number, part, part + 1 == fence_.waiting->parts.size(),
               fence_.waiting->parts[part]});
  }
}

}  // namespace lockstep::core
