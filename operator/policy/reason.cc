#include <algorithm>

#include "operator/policy/advice.h"
#include "operator/policy/policies.h"

namespace lockstep::control {
namespace {

constexpr Duration kSlowVolumes = seconds(30);  // to be mounted
constexpr Duration kSlowAnswer = seconds(15);   // of an agent that has just been started
constexpr Duration kSilence = minutes(2);       // of a gang that ran

std::string OfAll(const Draft& draft, int64_t count) {
  return std::to_string(count) + " of " + std::to_string(draft.machines.size());
}

std::string Say(const std::string& lead, std::string_view message, std::string_view advice) {
  return Compose(lead, message, advice, core::kMaxStatusString);
}

// `pods "gpt-0" is forbidden: exceeded quota: ...`: what is refused is said already.
std::string_view WithoutObject(std::string_view message) {
  constexpr std::string_view kForbidden = " is forbidden: ";
  const size_t at = message.find(kForbidden);
  const bool of_object = at != std::string_view::npos && message.substr(0, at).ends_with('"');
  return of_object ? message.substr(at + kForbidden.size()) : message;
}

std::string OfRefusal(const Refusal& refusal) {
  switch (refusal.kind) {
    case Refusal::Kind::kNameConflict:
      return refusal.object +
             " exists and is not this job's: delete it, or give the job another "
             "name";
    case Refusal::Kind::kForbidden:
      return Say(refusal.object + " may not be made", WithoutObject(refusal.message),
                 AdviceOnRefusal(refusal.message));
    case Refusal::Kind::kInvalid:
      return "the API server does not take " + refusal.object + ": " + refusal.message;
  }
  return "";
}

std::string OfPending(Draft& draft) {
  const Machine* first = nullptr;
  int count = 0;
  for (const Machine& machine : draft.machines) {
    if (machine.life != Life::kPending) continue;
    ++count;
    if (first == nullptr || first->seen->unplaced_because.empty()) first = &machine;
  }
  if (first == nullptr) return "";
  const std::string& why = first->seen->unplaced_because;
  return Say(OfAll(draft, count) + " machines are not scheduled", why, AdviceOnScheduling(why));
}

std::string OfTrouble(const Draft& draft, const Machine& machine) {
  const StartTrouble& trouble = *machine.seen->trouble;
  std::string lead = NameOf(machine) + " cannot start on node " + machine.seen->node;
  const std::string advice = AdviceOnContainer(trouble.reason, trouble.message);
  if (IsImageTrouble(trouble.reason) && !advice.empty()) {
    const std::string& agent = draft.snapshot.status.agent.image;
    const bool is_agent = !trouble.agent && trouble.message.find(agent) != std::string::npos;
    const std::string& image = is_agent ? agent : draft.spec().image;
    return Say(lead + ", for its image cannot be had", image, advice);
  }
  return Say(lead + ": " + trouble.reason, trouble.message, advice);
}

// The claim that several machines share; "" when there is none.
std::string SharedClaim(const Draft& draft) {
  return draft.machines.size() > 1 ? draft.spec().checkpoint.claim : "";
}

// Kubelet tells events alone why a volume is not there, and the operator may not read those: of the
// pod it sees that nothing was begun in it.
std::string OfVolumes(Draft& draft) {
  int64_t count = 0;
  for (const Machine& machine : draft.machines) {
    if (machine.life != Life::kWaiting || !machine.seen->unprepared) continue;
    const WallTime due = machine.seen->created + kSlowVolumes;
    if (draft.now.wall >= due) {
      ++count;
    } else {
      draft.WakeAt(draft.now.Boot(due));
    }
  }
  if (count == 0) return "";
  const std::string claim = SharedClaim(draft);
  const std::string advice =
      claim.empty()
          ? "`kubectl describe pod` says why"
          : "claim " + claim +
                " must be ReadWriteMany for machines on several nodes, a "
                "ReadWriteOnce volume is mounted on one; `kubectl describe pod` says more";
  return Say(OfAll(draft, count) + " machines wait for their volumes or their network", "", advice);
}

std::string OfWaiting(Draft& draft) {
  for (const Machine& machine : draft.machines) {
    if (machine.life == Life::kWaiting && machine.seen->trouble) return OfTrouble(draft, machine);
  }
  if (std::string volumes = OfVolumes(draft); !volumes.empty()) return volumes;
  const auto waiting = std::count_if(draft.machines.begin(), draft.machines.end(),
                                     [](const Machine& m) { return m.life == Life::kWaiting; });
  if (waiting == 0) return "";
  return OfAll(draft, waiting) + " containers are being created (images, volumes)";
}

std::string OfGone(Draft& draft) {
  for (const Machine& machine : draft.machines) {
    if (machine.life == Life::kToCreate) {
      const auto& holds = draft.memory().replacement.hold_until;
      const auto hold = holds.find(machine.index);
      return hold != holds.end() && draft.now.boot < hold->second
                 ? NameOf(machine) + " waits before its next attempt, for the last ones ended soon"
                 : "its pods are being made";
    }
  }
  return "";
}

constexpr const char* kUnreachable =
    "the operator cannot reach the job's agents, port 7070 of its pods: a NetworkPolicy must let "
    "the operator's namespace in";

std::string OfSilence(Draft& draft) {
  const std::optional<WallTime>& started =
      draft.machines.front().seen != nullptr ? draft.machines.front().seen->started : std::nullopt;
  if (started && !draft.snapshot.gang_error.empty()) {
    const WallTime due = *started + kSlowAnswer;
    if (draft.now.wall >= due) return kUnreachable;
    draft.WakeAt(draft.now.Boot(due));
  }
  return "no word yet from the agent of machine 0";
}

// Of a gang that was heard of once: it runs on by itself.
std::string OfOldWord(Draft& draft) {
  const std::optional<GangReport>& report = draft.snapshot.coordinator;
  if (!report || draft.snapshot.gang_error.empty()) return "";
  const Time due = report->at + kSilence;
  if (draft.now.boot >= due) return std::string(kUnreachable) + "; what is shown is old";
  draft.WakeAt(due);
  return "";
}

std::string AtSecond(WallTime at) {
  return FormatWallTime(std::chrono::round<std::chrono::seconds>(at));
}

std::string OfLettingGo(const Draft& draft) {
  const Time again = *draft.memory().placement.start_again;
  if (draft.now.boot >= again) return "its last pods have yet to go";
  const WallTime at = draft.now.wall + (again - draft.now.boot);
  return "it let go of its nodes, for not all machines found one within startTimeout; tries again "
         "at " +
         AtSecond(at);
}

std::string OfGang(const Draft& draft, const core::GangStatus& gang) {
  if (gang.starts_again) {
    if (const auto at = WallOf(draft, gang.starts_again)) {
      return gang.reason + "; starts again at " + AtSecond(*at);
    }
  }
  return gang.reason;
}

}  // namespace

std::string WhyNotRunning(Draft& draft) {
  if (const Refusal* refusal = draft.refusal()) return OfRefusal(*refusal);
  if (!draft.note.empty()) return draft.note;
  if (draft.machines.empty() && draft.memory().placement.start_again) return OfLettingGo(draft);
  for (auto* look : {OfPending, OfWaiting, OfGone}) {
    if (std::string why = look(draft); !why.empty()) return why;
  }
  if (const core::GangStatus* gang = Coordinator(draft)) {
    const std::string old = OfOldWord(draft);
    return old.empty() ? OfGang(draft, *gang) : old;
  }
  return draft.machines.empty() ? "" : OfSilence(draft);
}

std::string WorthKnowing(Draft& draft) {
  const core::Condition* stalled = core::FindCondition(draft.next.conditions, "Stalled");
  if (stalled != nullptr && stalled->status == core::Condition::Value::kTrue) {
    return stalled->message;
  }
  return OfOldWord(draft);
}

}  // namespace lockstep::control
