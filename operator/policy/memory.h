// Memory: what an operator remembers of a job from one decision to the next and writes down
// nowhere: one struct for each policy, which that policy's file alone writes
// (ReconcileContext::Own) and every other may read. After the operator's restart it begins empty,
// and what follows is slower or more careful, never wrong.
#ifndef LOCKSTEP_OPERATOR_POLICY_MEMORY_H_
#define LOCKSTEP_OPERATOR_POLICY_MEMORY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/time.h"
#include "base/wall_time.h"
#include "core/failure/failure.h"
#include "core/terms/generation.h"

namespace lockstep::control {

// (machine, attempt)
using MachineAttempt = std::pair<uint32_t, uint32_t>;

// remember.cc
struct AttemptsMemory {
  struct Known {
    bool existed = false;  // seen, or made; else it stood in status, and somebody made it, perhaps
    bool over = false;     // its processes were seen to be
  };
  bool from_the_beginning = false;  // this operator has seen every attempt of the job
  // Machines of which it has seen every attempt but those that it has taken for dead.
  std::set<uint32_t> accounted;
  // The machines' current attempts, and what may be alive of earlier ones: who is over and has a
  // successor is forgotten.
  std::map<MachineAttempt, Known> attempts;
};

// context.h
struct RecordMemory {
  Time written{};  // the status was, last
};

// pods.cc
struct AssemblyMemory {
  uint32_t made_in = 0;  // the epoch in which the whole gang was made; 0: not known
};

// addresses.cc
struct AddressesMemory {
  bool had_names = false;         // they were seen; false again once they went unwanted
  bool had_coordinator = false;   // its address was seen
  std::optional<Time> gone;       // since when one of these is missing
  std::optional<Time> names_due;  // when names that lead elsewhere are written at the latest
};

// replacement.cc
struct ReplacementMemory {
  std::map<uint32_t, int> quick_ends;   // attempts of a machine that ended young, in a row
  std::map<uint32_t, Time> hold_until;  // machines whose next attempt waits
  std::set<std::string> refused_by;     // nodes that would not have a machine
  struct AwaitedReason {
    std::string uid;  // of the pod
    Time until{};
  };
  std::map<uint32_t, AwaitedReason> reasons;  // why machines were ended, not told yet
  // What keeps a machine that has a node from starting.
  struct Stuck {
    std::string uid;       // of the pod
    std::string likeness;  // as of ends
    Time since{};
  };
  std::map<uint32_t, Stuck> stuck;
  // Ends that may be, or are, of the job's own doing, by what they have in common.
  struct Alike {
    std::set<std::string> nodes;
    int rounds = 0;           // attempts that came to it, those made at one time counted once
    uint32_t next_round = 0;  // attempts from this one on are of another round
    uint32_t charged = 0;     // the epoch that the last charge made
    Time last{};
  };
  std::map<std::string, Alike> alike;
  std::optional<core::Failure> of_job;  // the last of them, if no generation has run since
  int slow = 0;            // machines that were replaced for their slowness, at no cost
  bool overtaken = false;  // the epoch was raised above a status that had gone back
};

// spares.cc
struct SparesMemory {
  struct Place {
    std::string uid;   // of the spare that leaves
    std::string node;  // which a machine is to have
    Time until{};      // waited for it no longer
  };
  std::map<MachineAttempt, Place> places;
  bool begun = false;              // this operator has seen the job
  std::set<std::string> released;  // by UID: that another operator had asked to leave by then
  std::map<std::string, WallTime> known;  // by UID, when they were made: that nobody asked to leave
  int quick_ends = 0;                     // in a row
  int tries = 0;                          // to make some, since one was last seen
  Time make_again{};                      // nothing is made before
  std::set<std::string> refused_by;       // nodes that would not have one
};

// placement.cc
struct PlacementMemory {
  int releases = 0;                 // times the gang let go, in a row
  uint32_t released_epoch = 0;      // in which it last did
  std::optional<Time> start_again;  // after letting go
};

// gang.cc
struct GangMemory {
  std::optional<Time> fencing_since;  // the coordinator in force waits for earlier ranks' end
  std::optional<Time> outranked;      // the epoch was raised above one that the coordinator knew
};

// stop.cc
struct StopMemory {
  std::optional<Time> since;  // the stop that is under way was first wanted
};

// verdict.cc
struct VerdictMemory {
  std::optional<Time> spent_since;  // the machine budget was first seen to be spent
};

// finish.cc
struct FinishMemory {
  std::optional<Time> since;  // the job was first seen to be over
};

// observe.cc
struct ObserveMemory {
  std::optional<WallTime> scheduled;  // every machine was seen to have a node
  Time paced{};                       // a second after the last write, were they a second apart
};

// stall.cc
struct StallMemory {
  // Since when hangTimeout watches no rank of a running generation, and whether that was said.
  std::optional<std::pair<core::Generation, Time>> unwatched;
  bool said_unwatched = false;
};

// history.cc
struct HistoryMemory {
  std::map<core::Generation, int64_t> furthest;  // the last step of generations
};

struct Memory {
  AttemptsMemory attempts;
  RecordMemory record;
  AssemblyMemory assembly;
  AddressesMemory addresses;
  ReplacementMemory replacement;
  SparesMemory spares;
  PlacementMemory placement;
  GangMemory gang;
  StopMemory stop;
  VerdictMemory verdict;
  FinishMemory finish;
  ObserveMemory observe;
  StallMemory stall;
  HistoryMemory history;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_MEMORY_H_
