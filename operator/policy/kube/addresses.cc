#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "base/net/route.h"
#include "operator/policy/facts/gang_state.h"
#include "operator/policy/kube/kube_policies.h"

namespace lockstep::control {
namespace {

// Names and an address that were there and are gone went with their job, as a rule, of which
// another watch tells a moment later; and a cluster's controllers take a moment to forget where
// they led.
constexpr Duration kAddressesGone = seconds(3);
// How often names of a gang that is not whole are written, while its machines come one by one.
constexpr Duration kNamesAtMostEvery = seconds(1);

using Wanted = std::map<core::SliceKey, std::vector<const MachineObservation*>>;

bool IsIpv6(std::string_view address) { return address.find(':') != std::string_view::npos; }

// The API server takes none of these as endpoints: the computer's own, and those of one link.
bool IsOfNoNetwork(const std::string& address) {
  return IsLoopback(address) || address.starts_with("169.254.") || address.starts_with("fe80:");
}

bool CanBeLedTo(const Machine& machine) {
  const MachineObservation* seen = machine.seen;
  return seen != nullptr && machine.life != Life::kEnded && machine.life != Life::kGone &&
         !seen->address.empty() && !IsOfNoNetwork(seen->address);
}

bool WantsNames(const ReconcileContext& context) { return context.spec().network.hostnames; }

bool NamesLeadBy(const Snapshot& snapshot, LeadBy by) {
  return (snapshot.names ? snapshot.names->by : LeadBy::kSlices) == by;
}

bool CoordinatorLeadsBy(const Snapshot& snapshot, LeadBy by) {
  const std::optional<CoordinatorAddress>& address = snapshot.coordinator_address;
  return (address ? address->by : LeadBy::kSlices) == by;
}

// Every slice that is to stand, and of those that do, what is to become of them. A coordinator's
// stays as it is while machine 0 has no address.
Wanted WantedSlices(const ReconcileContext& context) {
  const Snapshot& snapshot = context.snapshot;
  Wanted wanted;
  for (const auto& [key, seen] : snapshot.slices) wanted[key];
  for (const Machine& machine : context.machines) {
    if (!CanBeLedTo(machine)) continue;
    const bool ipv6 = IsIpv6(machine.seen->address);
    if (WantsNames(context)) {
      wanted[{.number = machine.index / core::kMachinesASlice, .ipv6 = ipv6}].push_back(
          machine.seen);
    }
    if (machine.index == 0) wanted[{.coordinator = true, .ipv6 = ipv6}].push_back(machine.seen);
  }
  const bool keep_names = !NamesLeadBy(snapshot, LeadBy::kSlices);
  const bool keep_coordinator =
      !CoordinatorLeadsBy(snapshot, LeadBy::kSlices) ||
      (!context.machines.empty() && !CanBeLedTo(context.machines.front()));
  std::erase_if(wanted, [&](const auto& each) {
    return each.first.coordinator ? keep_coordinator : keep_names;
  });
  return wanted;
}

// Less what stands already.
Wanted SlicesToWrite(const ReconcileContext& context) {
  Wanted wanted = WantedSlices(context);
  std::erase_if(wanted, [&](const auto& each) {
    Fingerprint print;
    for (const MachineObservation* seen : each.second) print.Add(seen->uid).Add(seen->address);
    const auto stands = context.snapshot.slices.find(each.first);
    const bool known = stands != context.snapshot.slices.end();
    return print.value() == (known ? stands->second.endpoints : Fingerprint().value());
  });
  return wanted;
}

WriteSlice WriteOf(const ReconcileContext& context, const core::SliceKey& key,
                   const std::vector<const MachineObservation*>& machines) {
  WriteSlice write{key, {}, {}};
  const auto stands = context.snapshot.slices.find(key);
  if (stands != context.snapshot.slices.end()) write.uid = stands->second.uid;
  for (const MachineObservation* seen : machines) {
    write.endpoints.push_back({static_cast<uint32_t>(seen->machine), seen->attempt, seen->address,
                               seen->node, seen->name, seen->uid});
  }
  return write;
}

// No object of the gang exists yet, so no agent knows the coordinator's address.
bool IsMadeAnew(const ReconcileContext& context) {
  return std::ranges::all_of(
      context.machines, [](const Machine& machine) { return machine.life == Life::kToCreate; });
}

// A Service that selects pods by labels is never changed to use slices, because a controller's
// slices and Endpoints would stay. It is deleted when a gang is made anew, like names that the job
// no longer wants.
bool DropOldAddresses(ReconcileContext& context) {
  const Snapshot& snapshot = context.snapshot;
  if (!IsMadeAnew(context)) return false;
  const bool unwanted = snapshot.names && !WantsNames(context);
  const bool names = NamesLeadBy(snapshot, LeadBy::kLabels) ||
                     (unwanted && NamesLeadBy(snapshot, LeadBy::kSlices));
  const bool coordinator = CoordinatorLeadsBy(snapshot, LeadBy::kLabels);
  if (names) context.AddAction(DropNames{snapshot.names->uid});
  if (coordinator) context.AddAction(DropCoordinatorAddress{snapshot.coordinator_address->uid});
  return names || coordinator;
}

}  // namespace

void RememberAddresses(ReconcileContext& context) {
  const Snapshot& snapshot = context.snapshot;
  AddressesState& memory = context.StateOf<&PolicyState::addresses>();
  memory.had_names = snapshot.names || (memory.had_names && WantsNames(context));
  memory.had_coordinator |= snapshot.coordinator_address.has_value();
  const bool gone = (memory.had_names && !snapshot.names) ||
                    (memory.had_coordinator && !snapshot.coordinator_address);
  if (!gone) {
    memory.gone.reset();
  } else if (!memory.gone) {
    memory.gone = context.now.boot;
  }
  const bool there = (snapshot.names || !WantsNames(context)) && snapshot.coordinator_address;
  // Its Workload is to be made: that it was refused counts, though the rest is still there.
  const std::optional<QueueSeen>& queue = snapshot.queue;
  const bool queueing = (queue && queue->queues == Queues::kThere && !queue->workload &&
                         !queue->name.empty() && !context.spec().suspend) ||
                        IsGrowthMissing(context);
  context.decision.nothing_missing = !queueing && there && snapshot.notes.key_made &&
                                     std::ranges::none_of(context.machines,
                                                          [](const Machine& machine) {
                                                            return machine.life == Life::kToCreate;
                                                          }) &&
                                     SlicesToWrite(context).empty();
}

bool MakeAddresses(ReconcileContext& context) {
  if (DropOldAddresses(context)) return false;
  const Snapshot& snapshot = context.snapshot;
  const std::optional<CoordinatorAddress>& coordinator = snapshot.coordinator_address;
  const auto machine0 = static_cast<uint32_t>(snapshot.status.attempts.Of(0));
  if (CoordinatorLeadsBy(snapshot, LeadBy::kLabels) && coordinator->attempt != machine0) {
    context.AddAction(MoveCoordinatorAddress{coordinator->uid, machine0});
  }
  const std::optional<Time>& gone = context.memory().addresses.gone;
  if (!gone || context.IsDue(*gone + kAddressesGone)) {
    if (!snapshot.names && WantsNames(context)) context.AddAction(MakeNames{});
    if (!coordinator) context.AddAction(MakeCoordinatorAddress{});
  }
  return coordinator && !coordinator->address.empty();
}

void LeadAddresses(ReconcileContext& context) {
  if (WaitsAfterRefusal(context)) return;
  std::optional<Time>& due = context.StateOf<&PolicyState::addresses>().names_due;
  const bool whole = std::ranges::all_of(context.machines, CanBeLedTo);
  bool names_wait = false;
  for (const auto& [key, machines] : SlicesToWrite(context)) {
    if (!key.coordinator && !whole) {
      if (!due) due = context.now.boot + kNamesAtMostEvery;
      names_wait = context.now.boot < *due;
      if (names_wait) continue;
    }
    context.AddAction(WriteOf(context, key, machines));
  }
  if (names_wait) {
    context.WakeAt(*due);
  } else {
    due.reset();
  }
}

}  // namespace lockstep::control
