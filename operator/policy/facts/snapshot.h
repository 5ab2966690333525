// Snapshot: all facts about one job that Decide may use: spec, status, existing objects, the
// agents' last reports, and this operator's memory. Plain values, taken for one call by the
// observer: for a cluster, operator/controller.
#ifndef LOCKSTEP_OPERATOR_POLICY_FACTS_SNAPSHOT_H_
#define LOCKSTEP_OPERATOR_POLICY_FACTS_SNAPSHOT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/text/quantity.h"
#include "base/time.h"
#include "base/wall_time.h"
#include "core/gang/status/status_api.h"
#include "core/model/endpoints.h"
#include "core/model/spec.h"
#include "core/status/status.h"
#include "core/text/problem.h"
#include "operator/policy/facts/observation.h"
#include "operator/policy/facts/policy_state.h"
#include "operator/policy/facts/queue.h"

namespace lockstep::control {

// The value of spec.managedBy.
inline constexpr const char* kManager = "lockstep.dev/operator";
inline constexpr const char* kMultiKueue = "kueue.x-k8s.io/multikueue";

// Both clocks at one moment: the API server's times are wall times, everything else is boot time.
struct Now {
  WallTime wall{};
  Time boot{};

  // The boot time at which the wall clock shows `wall_time`, unless the wall clock is set.
  Time Boot(WallTime wall_time) const { return boot + (wall_time - wall); }
};

// An agent's answer to GET /status, and when it came.
struct GangReport {
  core::GangStatus status;
  Time at{};
};

// The object that could not be made at the last try, and why.
struct Refusal {
  enum class Kind : uint8_t {
    kNameConflict,  // an object of that name does not belong to this job
    kForbidden,     // a quota, an admission policy or a missing permission
    kInvalid,       // the server does not take the object
    kNotServed,     // it knows no such objects
    kNotAnswered,   // the server fails, again and again: a webhook of its that is down, a timeout
  };
  Kind kind = Kind::kForbidden;
  std::string object;   // "pod gpt-0"
  std::string message;  // the server's

  friend bool operator==(const Refusal&, const Refusal&) = default;
};

// Whether the scheduler takes notice of the gang's PodGroup, as it was last seen.
struct GroupHeed {
  std::string group;  // "": not asked yet
  bool heeded = true;
  Time at{};
};

// Facts from the executor of decisions. Policies only read them.
struct Notes {
  bool key_made = false;    // by this operator
  uint32_t grouped_in = 0;  // the last epoch in which the gang's PodGroup was there
  std::string ungrouped;    // the PodGroup that was seen to be gone
  GroupHeed heed;
  std::set<MachineAttempt> made;   // attempts that it started, perhaps not seen yet
  std::optional<Refusal> refusal;  // gone once something is made, or Decision::nothing_missing
  std::optional<Refusal> spare_refusal;  // of the last spare that was tried
  Time make_again{};                     // nothing is made before, because the last try was refused
  // The last state of machines that were gone before their end was decided on.
  std::map<MachineAttempt, MachineObservation> vanished;
};

// How names or an address come to lead somewhere.
enum class LeadBy : uint8_t {
  kSlices,  // that are written for them
  kLabels,  // which they select machines by, as operators before slices made them
  kItself,  // on one computer: to any process there
};

// By which machines find each other.
struct Names {
  std::string uid;
  LeadBy by = LeadBy::kSlices;
};

// One of the slices in which it stands where these lead.
struct SliceSeen {
  std::string uid;
  uint64_t endpoints = 0;  // the Fingerprint of each endpoint's uid and address, in order
};

// The address where agents find machine 0, whatever its attempt.
struct CoordinatorAddress {
  std::string uid;
  std::string address;  // "" while it has none
  LeadBy by = LeadBy::kSlices;
  uint32_t attempt = 0;  // to which labels lead it
};

struct Snapshot {
  const core::TrainingJob* job = nullptr;
  std::vector<core::Problem> problems;  // that make it a job which cannot run
  std::string namespace_name;
  std::string uid;
  int64_t generation = 0;  // of the spec
  WallTime created{};
  bool deleting = false;
  core::JobStatus status;
  core::AgentVersion agent;  // what a job that begins now gets
  // The most that one node has, by resource; empty where no nodes are read, or all machines have
  // one.
  std::map<std::string, Quantity> largest;
  // Sick nodes that the scheduler may choose all the same, the first fifty.
  std::vector<std::string> sick_nodes;
  // Nodes that are ready, schedulable and not sick; 0 where no nodes are read.
  size_t well_nodes = 0;
  std::map<std::string, std::string> installer;  // what lockstep-install asks for, by resource

  std::vector<MachineObservation> machines;  // of this UID, any attempt
  std::vector<MachineObservation> spares;    // likewise
  std::optional<Names> names;
  std::optional<CoordinatorAddress> coordinator_address;
  std::map<core::SliceKey, SliceSeen> slices;

  std::optional<GangReport> coordinator;  // machine 0's, of its current attempt
  std::optional<GangReport> member;       // another's, asked because machine 0 was silent
  bool desired_state_accepted =
      false;                     // machine 0's current attempt took the desired state that stands
  std::string gang_error;        // why the last question to its agents got no answer
  bool gang_unreadable = false;  // machine 0 gave one, of no use

  std::optional<QueueSeen> queue;  // absent: the job is in none

  Notes notes;
  PolicyState memory;
  // How many machines the whole operator may still replace now (the limit on the rate in the
  // cluster).
  int replacements_allowed = 0;
  bool may_tell_progress = true;  // it is the job's turn
  // No job that waits for nodes is older than this one: it keeps what it has.
  bool oldest_waiting = true;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_FACTS_SNAPSHOT_H_
