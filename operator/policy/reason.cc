#include <algorithm>
#include <optional>

#include "operator/policy/kube/kube_policies.h"
#include "operator/policy/policies.h"
#include "operator/policy/status/advice.h"
#include "operator/policy/status/refusal.h"
#include "operator/policy/status/status_policies.h"

namespace lockstep::control {
namespace {

constexpr Duration kSlowVolumes = seconds(30);  // to be mounted
constexpr Duration kSlowAnswer = seconds(15);   // of an agent that has just been started
constexpr Duration kSilence = minutes(2);       // of a gang that ran

std::string OfAll(const ReconcileContext& context, int64_t count) {
  return std::to_string(count) + " of " + std::to_string(context.machines.size());
}

std::string Say(const std::string& lead, std::string_view message, std::string_view advice) {
  return Compose(lead, message, advice, core::kMaxStatusString);
}

// A machine's request of the resource.
std::optional<Quantity> AskedOf(const core::Spec& spec, std::string_view resource) {
  const core::ResourcesPerProcess& each = spec.resources_per_process;
  const int processes = spec.processes_per_machine;
  const auto whole = [&](const std::optional<Quantity>& amount) -> std::optional<Quantity> {
    if (!amount) return std::nullopt;
    const Result<Quantity> product = amount->Times(processes);
    return product.ok() ? std::optional(*product) : std::nullopt;
  };
  if (resource == "cpu") return whole(each.cpu);
  if (resource == "memory") return whole(each.memory);
  if (resource == each.gpu_resource) {
    return Quantity::FromUnits(int64_t{each.gpu.value_or(0)} * processes);
  }
  const auto found = spec.resources_per_machine.find(std::string(resource));
  return found == spec.resources_per_machine.end() ? std::nullopt : std::optional(found->second);
}

Why OfPending(ReconcileContext& context) {
  const Machine* first = nullptr;
  int count = 0;
  for (const Machine& machine : context.machines) {
    if (machine.life != Life::kPending || !TakesPart(context, machine)) continue;
    ++count;
    if (first == nullptr || first->seen->unplaced_because.empty()) first = &machine;
  }
  if (first == nullptr) return {};
  std::string why = first->seen->unplaced_because;
  const char* const word = why.empty() ? "" : "FailedScheduling";
  if (const auto& group = context.snapshot.status.pod_group; group && why.empty()) {
    why = "they wait for each other in PodGroup " + group->name +
          ", or for a scheduler that supports it (spec.schedulerName)";
  }
  std::string lead = OfAll(context, count) + " machines are not scheduled";
  const std::string advice = AdviceOnScheduling(why, AskedOf(context.spec(), LackingResource(why)),
                                                context.snapshot.largest);
  if (advice.empty()) return {word, Say(lead, why, "")};
  // The scheduler's sentence is cut first.
  return {word, Say(lead + ": " + advice + "; the scheduler", why, "")};
}

Why OfTrouble(const ReconcileContext& context, const Machine& machine) {
  const StartTrouble& trouble = *machine.seen->trouble;
  std::string lead = NameOf(machine) + " cannot start on node " + machine.seen->node;
  const std::string advice = AdviceOnContainer(trouble.reason, trouble.message);
  if (IsImageTrouble(trouble.reason) && !advice.empty()) {
    const std::string& agent = context.snapshot.status.agent.image;
    const bool is_agent = !trouble.agent && trouble.message.find(agent) != std::string::npos;
    const std::string& image = is_agent ? agent : context.spec().image;
    return {"ImageUnavailable", Say(lead + ", because its image cannot be pulled", image, advice)};
  }
  return {IsImageTrouble(trouble.reason) ? "ImageUnavailable" : "FailedStart",
          Say(lead + ": " + trouble.reason, trouble.message, advice)};
}

// The claim that several machines share; "": there is none.
std::string SharedClaim(const ReconcileContext& context) {
  return context.machines.size() > 1 ? context.spec().checkpoint.claim : "";
}

// Kubelet tells events alone why a volume is not there, and the operator may not read those: of the
// pod it sees that nothing was begun in it.
Why OfVolumes(ReconcileContext& context) {
  int64_t count = 0;
  for (const Machine& machine : context.machines) {
    if (machine.life != Life::kWaiting || !machine.seen->unprepared) continue;
    if (context.IsDue(machine.seen->created + kSlowVolumes)) ++count;
  }
  if (count == 0) return {};
  const std::string claim = SharedClaim(context);
  const std::string advice =
      claim.empty() ? "`kubectl describe pod` shows why"
                    : "claim " + claim +
                          " must be ReadWriteMany for machines on several nodes: a ReadWriteOnce "
                          "volume is mounted on one node only; `kubectl describe pod` shows more";
  return {
      "VolumesNotReady",
      Say(OfAll(context, count) + " machines wait for their volumes or their network", "", advice)};
}

Why OfWaiting(ReconcileContext& context) {
  for (const Machine& machine : context.machines) {
    if (machine.life == Life::kWaiting && machine.seen->trouble) return OfTrouble(context, machine);
  }
  if (Why volumes = OfVolumes(context); !volumes.text.empty()) return volumes;
  const auto waiting = std::count_if(context.machines.begin(), context.machines.end(),
                                     [](const Machine& m) { return m.life == Life::kWaiting; });
  if (waiting == 0) return {};
  return {"", OfAll(context, waiting) + " containers are being created (images, volumes)"};
}

Why OfGone(ReconcileContext& context) {
  for (const Machine& machine : context.machines) {
    if (machine.life == Life::kToCreate) {
      const auto& holds = context.memory().replacement.hold_until;
      const auto hold = holds.find(machine.index);
      const bool waits = hold != holds.end() && context.now.boot < hold->second;
      return {"", waits ? NameOf(machine) +
                              " waits before its next attempt, because the last ones ended soon"
                        : "its pods are being created"};
    }
  }
  return {};
}

constexpr const char* kUnreachable =
    "the operator cannot reach the job's agents, port 7070 of its pods: a NetworkPolicy must allow "
    "the operator's namespace";

constexpr const char* kUnreadable =
    "machine 0 answers on port 7070, but not like an agent: another program listens there, or the "
    "agent in its pod was changed";

Why OfLink(const ReconcileContext& context) {
  return {"AgentsUnreachable", context.snapshot.gang_unreadable ? kUnreadable : kUnreachable};
}

Why OfSilence(ReconcileContext& context) {
  const std::optional<WallTime>& started = context.machines.front().seen != nullptr
                                               ? context.machines.front().seen->started
                                               : std::nullopt;
  if (started && !context.snapshot.gang_error.empty()) {
    if (context.IsDue(*started + kSlowAnswer)) return OfLink(context);
  }
  return {"", "the agent of machine 0 has not answered yet"};
}

// For a gang that has reported once: it keeps running by itself.
Why OfOldWord(ReconcileContext& context) {
  const std::optional<GangReport>& report = context.snapshot.coordinator;
  if (!report || context.snapshot.gang_error.empty()) return {};
  if (!context.IsDue(report->at + kSilence)) return {};
  Why why = OfLink(context);
  why.text += "; the status shown is old";
  return why;
}

std::string AtSecond(WallTime at) {
  return FormatWallTime(std::chrono::round<std::chrono::seconds>(at));
}

std::string OfLettingGo(const ReconcileContext& context) {
  const Time again = *context.memory().placement.start_again;
  if (context.now.boot >= again) return "its last pods are not deleted yet";
  const WallTime at = context.now.wall + (again - context.now.boot);
  return "it released its nodes, because not all machines found one within startTimeout; tries "
         "again at " +
         AtSecond(at);
}

std::string OfGang(const ReconcileContext& context, const core::GangStatus& gang) {
  if (gang.starts_again) {
    if (const auto at = WallOf(context, gang.starts_again)) {
      return gang.reason + "; starts again at " + AtSecond(*at);
    }
  }
  return gang.reason;
}

}  // namespace

Why WhyNotRunning(ReconcileContext& context) {
  if (const Refusal* refusal = context.refusal()) return WhyRefused(context, *refusal);
  if (!context.note.empty()) return {"", context.note};
  if (context.machines.empty() && context.memory().placement.start_again)
    return {"", OfLettingGo(context)};
  for (auto* look : {OfPending, OfWaiting, OfGone}) {
    if (Why why = look(context); !why.text.empty()) return why;
  }
  if (const core::GangStatus* gang = Coordinator(context)) {
    Why old = OfOldWord(context);
    return old.text.empty() ? Why{"", OfGang(context, *gang)} : old;
  }
  return context.machines.empty() ? Why{} : OfSilence(context);
}

Why WorthKnowing(ReconcileContext& context) {
  // Whoever found it has told its event.
  for (const char* type :
       {"MetricBroken", "HangSuspected", "Straggler", "OnSickNode", "RanksNeverMet"}) {
    const core::Condition* found = core::FindCondition(context.next.conditions, type);
    if (found != nullptr && found->status == core::Condition::Value::kTrue) {
      return {"", found->message};
    }
  }
  for (const Why& why :
       {OfOldWord(context), Why{"NotPlacedAsAGang", WhyNotAsAGang(context)},
        Why{"", ElasticReason(context)}, Why{"FewerSpares", WhyFewerSpares(context)}}) {
    if (!why.text.empty()) return why;
  }
  return {};
}

}  // namespace lockstep::control
