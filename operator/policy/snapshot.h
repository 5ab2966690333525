// Snapshot: all that Decide may look at, of one job: what is asked for, what was written of it,
// what was made for it, what its agents last said, and what this operator remembers. Plain values,
// taken for one call by whoever observes: of a cluster, operator/controller.
#ifndef LOCKSTEP_OPERATOR_POLICY_SNAPSHOT_H_
#define LOCKSTEP_OPERATOR_POLICY_SNAPSHOT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "base/wall_time.h"
#include "core/gang/bodies.h"
#include "core/model/spec.h"
#include "core/status/status.h"
#include "core/text/problem.h"
#include "operator/policy/observation.h"

namespace lockstep::control {

// Both clocks at one moment: the API server's times are wall times, everything else is boot time.
struct Now {
  WallTime wall{};
  Time boot{};

  // The boot time at which the wall clock will show `wall_time`, if nobody sets it.
  Time Boot(WallTime wall_time) const { return boot + (wall_time - wall); }
};

// An agent's answer to GET /status, and when it came.
struct GangReport {
  core::GangStatus status;
  Time at{};
};

// What could not be made for this job at the last try; gone once something is made, or nothing is
// missing.
struct Refusal {
  enum class Kind : uint8_t {
    kNameConflict,  // an object of that name belongs to somebody else
    kForbidden,     // a quota, an admission policy or a missing permission
    kInvalid,       // the server does not take the object
  };
  Kind kind = Kind::kForbidden;
  std::string object;   // "pod gpt-0"
  std::string message;  // the server's

  friend bool operator==(const Refusal&, const Refusal&) = default;
};

// How a generation comes on, from the steps of its slowest rank in one report after the other.
struct Pace {
  core::Generation generation;
  int64_t first_step = 0;
  Time began{};  // of the report that told of it
  int64_t step = 0;
  Time moved_at{};
};

// (machine, attempt)
using Incarnation = std::pair<uint32_t, uint32_t>;

// What this operator knows of a job and does not write down. After its restart it begins empty,
// and what follows is slower or more careful, never wrong. Decide gives it back changed.
struct Memory {
  bool from_the_beginning = false;    // this operator has seen every attempt of the job
  std::set<Incarnation> recorded;     // attempts that stood in status; somebody made them, perhaps
  std::set<Incarnation> existed;      // seen
  std::set<Incarnation> ended;        // whose processes were seen to be over
  std::optional<Time> fencing_since;  // the coordinator in force waits for earlier ranks' end
  uint32_t made_in = 0;               // the epoch in which the whole gang was made; 0: not known
  Time status_written{};              // last
  std::optional<WallTime> scheduled;  // every machine was seen to have a node
  // As they last were, those that went away before their end was decided on.
  std::map<Incarnation, MachineObservation> vanished;
  bool key_made = false;                // by this operator
  bool had_addresses = false;           // names and the coordinator's address were seen
  std::optional<Time> addresses_gone;   // since when one of them is missing
  std::optional<Refusal> refusal;       // these three are set by whoever carries decisions out
  int refusals = 0;                     // in a row
  Time make_again{};                    // nothing is made before, for the last try was refused
  std::map<uint32_t, int> quick_ends;   // attempts of a machine that ended young, in a row
  std::map<uint32_t, Time> hold_until;  // machines whose next attempt waits
  int releases = 0;                     // times the gang let go, in a row
  std::optional<Time> start_again;      // after letting go
  std::optional<Time> stop_since;       // the stop that is under way was first wanted
  std::optional<Time> over_since;       // the verdict, or a spent budget, was first seen
  std::optional<Pace> pace;             // of the generation that runs
  std::map<core::Generation, int64_t> furthest;  // the last step of generations
};

// Where those who join find machine 0, whatever its attempt.
struct CoordinatorAddress {
  std::string uid;
  std::string address;              // "" while it has none
  std::optional<uint32_t> attempt;  // that it leads to
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

  std::vector<MachineObservation> machines;  // of this UID, any attempt
  bool has_names = false;                    // machines can be found by name
  std::optional<CoordinatorAddress> coordinator_address;

  std::optional<GangReport> coordinator;  // machine 0's, of its current attempt
  std::optional<GangReport> member;       // another's, asked because machine 0 was silent
  bool wish_accepted = false;             // machine 0's current attempt took the wish that stands
  std::string gang_error;                 // why the last question to its agents got no answer

  Memory memory;
  // How many machines the whole operator may still replace now (a brake for the cluster).
  int replacements_allowed = 0;
  // No job that waits for nodes is older than this one: it keeps what it has.
  bool oldest_waiting = true;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_SNAPSHOT_H_
