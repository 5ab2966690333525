// CodeVersions: which version of the program's code ranks run in a job with sync, and how a new one
// reaches every machine. The coordinator owns it. It reads the roster and marks there which machine
// fetches a version from which. Pure.
//
// A version is offered by machine 0, which has it from a user. The machines fetch it from each
// other while the gang runs on. Once every member holds it, it is the wanted version, and the next
// generation runs it.
//
// Invariants:
//  - there is one wanted version, and START names it
//  - a machine serves at most kMostFetches others at a time, so each round doubles the holders
//  - before the operator and every member have reported, it is not known which version is wanted
#ifndef LOCKSTEP_CORE_GANG_COORDINATOR_CODE_VERSIONS_H_
#define LOCKSTEP_CORE_GANG_COORDINATOR_CODE_VERSIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/gang/coordinator/coordinator_actions.h"
#include "core/gang/coordinator/desired_state.h"
#include "core/gang/protocol/messages.h"
#include "core/gang/roster/roster.h"
#include "core/terms/members.h"

namespace lockstep::core {

inline constexpr size_t kMaxCodeDigest = 64;  // hexadecimal digits

// A new version, which machine 0 holds.
struct CodeOffer {
  std::string digest;
  std::string replaces = {};  // the version that the user saw; "": the image's code
  uint32_t files = 0;
  std::string by = {};        // who syncs it, as the client says
  std::string words = {};     // what changed: "model.py and 2 more files"
  bool watched = false;       // the user edits on, and mends it if it fails
  std::string receiver = {};  // the process that brought it; "": one that never leaves
};

// The code in GET /status.
struct SyncedCode {
  std::string digest;  // of the next generation, and of this one unless it is being stopped
  uint32_t files = 0;  // 0: another machine 0 took it
  std::string by;
  std::optional<Time> since;  // when every member held it
  Generation generation;      // no generation before this one runs it; none: `digest` may be older
  std::string next;           // offered, and not yet on every machine
  std::string next_by;
  std::string missing;  // the machines that lack the code: "1, 4"
  std::string dropped;  // the last offer that no generation will run
  std::string problem;  // why
  bool lost = false;    // no machine holds `digest`
  bool broken = false;  // it failed before its first step, and the gang waits for the next version
};

class CodeVersions {
 public:
  static constexpr int kMostFetches = 2;
  static constexpr int kMostTries = 3;            // of an offer
  static constexpr Duration kPause = seconds(1);  // after a fetch that failed

  // `synced`: the job has sync. Else nothing ever waits here. Roster and outbox must outlive it.
  CodeVersions(bool synced, uint32_t attempt, Roster& roster, Outbox& outbox)
      : synced_(synced), attempt_(attempt), roster_(roster), outbox_(outbox) {}

  bool synced() const { return synced_; }

  // ---- reports ----
  void OnHeld(Roster::Slot& slot, const HeldCode& held);
  void OnFailed(Time now, Roster::Slot& slot, const CodeFailed& failed);
  // What the operator has recorded.
  void OnOperator(const std::optional<DesiredState::Code>& recorded);
  // Whether Offer would take it. Invalid: the job has no sync. Conflict: another user's version
  // came first. Unavailable: it is not yet known which version it would replace.
  Status Allows(const CodeOffer& offer) const;
  Status Offer(const CodeOffer& offer);
  // Its offer that is not yet on every machine is dropped: nobody waits for it any more.
  void OnReceiverLeft(const std::string& receiver);

  // Asks machines to fetch what they lack. The offer that every member holds now; none: there is
  // none. `last` is the last generation that was prepared.
  std::optional<CodeOffer> Step(Time now, Generation last);
  // A generation with the wanted version is announced.
  void OnAnnounced() { settled_ = true; }
  Time NextWake() const { return retry_at_; }

  // ---- the wanted version ----
  // "": the image's code.
  const std::string& wanted() const { return wanted_.digest; }
  // Whether it is known; see the invariants.
  bool Known() const;
  // Whether every member holds it.
  bool Everywhere() const { return MembersHold(wanted_.digest); }
  // Whether these would not have to wait for it.
  bool HeldBy(const Members& machines) const;
  // Whether every member is here and none holds it.
  bool Lost() const;

  SyncedCode View() const;
  // "waiting for the code on machines 1, 4"
  std::string Reason() const;

 private:
  struct Version {
    std::string digest;
    Generation generation;
    uint32_t files = 0;
    std::string by = {};
    std::optional<Time> since = {};
  };

  static bool HasVersion(const Roster::Slot& slot, const std::string& digest);
  bool MembersHold(const std::string& digest) const;
  std::vector<uint32_t> Lacking(const std::string& digest) const;
  void Adopt(const std::string& digest, Generation generation);
  void Spread(Time now, const std::string& digest);
  void DropOffer(const std::string& why);

  const bool synced_;
  const uint32_t attempt_;
  Roster& roster_;
  Outbox& outbox_;
  bool heard_operator_ = false;
  bool settled_ = false;  // this coordinator has chosen: what others ran before does not count
  Version wanted_;
  std::optional<CodeOffer> offer_;
  int tries_ = 0;  // of the offer, that failed
  Time retry_at_ = kNever;
  std::string dropped_;
  std::string problem_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_COORDINATOR_CODE_VERSIONS_H_
