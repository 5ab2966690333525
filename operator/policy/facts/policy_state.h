// PolicyState: an operator's unsaved knowledge about a job, from one decision to the next. There is
// one struct for each policy. Only that policy's file writes it (ReconcileContext::Own); every
// other may read it. After the operator's restart it is empty. Decisions are then slower or more
// careful, never wrong.
#ifndef LOCKSTEP_OPERATOR_POLICY_FACTS_POLICY_STATE_H_
#define LOCKSTEP_OPERATOR_POLICY_FACTS_POLICY_STATE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/time.h"
#include "base/wall_time.h"
#include "core/failure/failure.h"
#include "core/terms/generation.h"

namespace lockstep::control {

// (machine, attempt)
using MachineAttempt = std::pair<uint32_t, uint32_t>;

// remember.cc
struct AttemptsState {
  struct Known {
    bool existed = false;  // observed or made; false: status lists it, so it may exist
    bool over = false;     // its processes have ended
  };
  bool from_the_beginning = false;  // this operator has observed every attempt of the job
  // Machines whose attempts it has all observed, except those that count as dead.
  std::set<uint32_t> accounted;
  // The machines' current attempts, and earlier ones that may be alive. An attempt that is over and
  // has a successor is forgotten.
  std::map<MachineAttempt, Known> attempts;
};

// context.h
struct RecordState {
  Time written{};  // time of the last status write
};

// pods.cc
struct AssemblyState {
  uint32_t made_in = 0;  // epoch in which the whole gang was made; 0: not known
};

// addresses.cc
struct AddressesState {
  // the names existed; false again once the job no longer wants them
  bool had_names = false;
  bool had_coordinator = false;   // its address existed
  std::optional<Time> gone;       // start of the time in which one of these is missing
  std::optional<Time> names_due;  // deadline for writing names that lead elsewhere
};

// replacement.cc
struct ReplacementState {
  std::map<uint32_t, int> quick_ends;   // short-lived attempts of a machine in a row
  std::map<uint32_t, Time> hold_until;  // machines whose next attempt waits until then
  std::set<std::string> refused_by;     // nodes that refused a machine
  struct AwaitedReason {
    std::string uid;  // of the pod
    Time until{};
  };
  std::map<uint32_t, AwaitedReason> reasons;  // why machines were ended, not reported yet
  // Why a machine with a node does not start.
  struct Stuck {
    std::string uid;       // of the pod
    std::string likeness;  // the same kind as in ends
    Time since{};
  };
  std::map<uint32_t, Stuck> stuck;
  // Ends that the job caused, or may have caused, by their common cause.
  struct Alike {
    std::set<std::string> nodes;
    int rounds = 0;           // attempts with this end; attempts made at one time count once
    uint32_t next_round = 0;  // attempts from this one on belong to another round
    uint32_t charged = 0;     // epoch of the last charge
    Time last{};
  };
  std::map<std::string, Alike> alike;
  std::optional<core::Failure> of_job;  // the last of them, if no generation has run since
  int slow = 0;                         // machines that were replaced for slowness, uncharged
  bool overtaken = false;               // the epoch was raised because status had gone back
};

// spares.cc
struct SparesState {
  struct Place {
    std::string uid;   // UID of the spare that leaves
    std::string node;  // node that a machine will get
    Time until{};      // end of the wait for it
  };
  std::map<MachineAttempt, Place> places;
  bool begun = false;              // this operator has decided for the job before
  std::set<std::string> released;  // by UID: spares that another operator had asked to leave
  // by UID, time of creation: spares that were not asked to leave
  std::map<std::string, WallTime> known;
  int quick_ends = 0;                // in a row
  int tries = 0;                     // tries to make spares since the last one existed
  Time make_again{};                 // no spare is made before
  std::set<std::string> refused_by;  // nodes that refused a spare
};

// node_health.cc
struct NodeHealthState {
  // A pod that was asked to leave because its node is sick.
  struct Move {
    std::string uid;
    std::string why;
    core::Generation generation{};  // that ran then
    Time asked{};
  };
  std::map<uint32_t, Move> moves;  // the last of each machine
  // The commits of machine 0's attempt that moves wait to see grow, and when the files of the
  // commit that they waited for are in place.
  struct Awaited {
    uint32_t attempt = 0;
    uint64_t commits = 0;
    std::optional<Time> due;
  };
  std::optional<Awaited> awaited;
};

// placement.cc
struct PlacementState {
  int releases = 0;                 // times the gang released its nodes, in a row
  uint32_t released_epoch = 0;      // epoch in which it last did
  std::optional<Time> start_again;  // wait after the release
};

// gang.cc
struct GangState {
  // start of the present coordinator's wait for the end of earlier ranks
  std::optional<Time> fencing_since;
  std::optional<Time> outranked;  // the epoch was raised above the coordinator's
};

// stop.cc
struct StopState {
  std::optional<Time> since;  // start of the current stop
};

// verdict.cc
struct VerdictState {
  std::optional<Time> spent_since;  // time at which the machine budget was exhausted
};

// finish.cc
struct FinishState {
  std::optional<Time> since;  // time at which the job had ended
};

// observe.cc
struct ObserveState {
  std::optional<WallTime> scheduled;  // time at which every machine had a node
  Time paced{};                       // a second after the last write, if writes are a second apart
};

// stall.cc
struct StallState {
  // Start of the time in which hangTimeout watches no rank of a running generation, and whether
  // that was reported.
  std::optional<std::pair<core::Generation, Time>> unwatched;
  bool said_unwatched = false;
};

// suspects.cc
struct SuspectsState {
  struct Failures {
    int count = 0;
    core::Generation last{};  // the last generation that one ended
  };
  std::map<std::string, Failures> failures;  // of ranks, by node
};

// history.cc
struct HistoryState {
  std::map<core::Generation, int64_t> furthest;  // the last step of generations
};

struct PolicyState {
  AttemptsState attempts;
  RecordState record;
  AssemblyState assembly;
  AddressesState addresses;
  ReplacementState replacement;
  SparesState spares;
  NodeHealthState node_health;
  PlacementState placement;
  GangState gang;
  StopState stop;
  VerdictState verdict;
  FinishState finish;
  ObserveState observe;
  StallState stall;
  SuspectsState suspects;
  HistoryState history;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_FACTS_POLICY_STATE_H_
