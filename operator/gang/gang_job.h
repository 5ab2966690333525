// GangJob: one job of a GangLink: the question to machine 0, those to other members while machine 0
// owes its answer, and the desired state that machine 0 has yet to accept.
#ifndef LOCKSTEP_OPERATOR_GANG_GANG_JOB_H_
#define LOCKSTEP_OPERATOR_GANG_GANG_JOB_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/backoff.h"
#include "base/loop/event_loop.h"
#include "base/loop/semaphore.h"
#include "base/result.h"
#include "base/time.h"
#include "core/gang/status/status_api.h"
#include "operator/gang/agent_connection.h"
#include "operator/gang/gang_link.h"

namespace lockstep::gang {

// The state that all jobs of a link share.
struct GangShared {
  EventLoop* loop;
  GangLinkOptions options;
  GangLink::Owner* owner;
  Semaphore polls;
  Semaphore puts;
  size_t jobs = 0;
};

class GangJob {
 public:
  GangJob(GangShared* shared, std::string name);

  void Set(GangPeers peers);
  // The body of PUT /gang; "": nothing to say.
  void SetDesiredState(std::string desired);
  bool Accepted(const std::string& desired) const;
  // Machine 0's last answer was of no use.
  bool unreadable() const { return unreadable_; }
  const std::string& last_error() const { return poll_error_.empty() ? put_error_ : poll_error_; }

 private:
  void Poll();
  void OnAnswer(const Result<HttpAnswer>& answer);
  void AskOther(size_t which);
  void OnOthersAnswer(size_t which, const Result<HttpAnswer>& answer);
  void LeaveOthers();

  const GangPeers::Member* NextOther();
  Result<core::GangStatus> Read(const Result<HttpAnswer>& answer,
                                const GangPeers::Member& asked) const;
  Duration PollLength() const;
  Duration Calm() const;
  Duration Pace() const;
  Duration UntilSilenceCounts(const core::GangStatus& status) const;

  void SetHeard(bool heard);
  void Put();
  void OnPutAnswer(const Result<HttpAnswer>& answer);

  GangShared* shared_;
  std::string name_;
  GangPeers peers_;

  AgentConnection poll_;     // of machine 0
  uint64_t version_ = 0;     // of machine 0's last answer
  bool heard_ = true;        // machine 0 gave any answer last time, or was not asked yet
  bool unreadable_ = false;  // but with nothing that an agent says
  DoublingPause retry_;
  DoublingPause gap_;
  Time asked_at_{};
  Time answered_at_{};      // by machine 0, as it should
  std::string poll_error_;  // of the member that was asked last

  struct Other {
    AgentConnection connection;
    GangPeers::Member asked;  // whose answer is awaited
  };
  std::array<Other, 2> others_;  // the second: while an answer to the first is late
  bool ask_others_ = false;      // they are, until machine 0 answers as it should
  bool others_answer_ = false;   // the last one did
  size_t next_other_ = 0;        // among peers_.members
  DoublingPause others_retry_;

  AgentConnection put_;
  std::string desired_;
  std::string said_;  // under way
  uint32_t said_to_ = 0;
  std::string accepted_;
  uint32_t accepted_by_ = 0;  // machine 0's attempt
  DoublingPause put_retry_;
  std::string put_error_;
};

}  // namespace lockstep::gang

#endif  // LOCKSTEP_OPERATOR_GANG_GANG_JOB_H_
