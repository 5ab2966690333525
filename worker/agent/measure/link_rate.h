// The links between machines, as the measuring children of their agents see them: plain TCP in the
// gang's own network, to partners that the coordinator names, one after the other.
#ifndef LOCKSTEP_WORKER_AGENT_MEASURE_LINK_RATE_H_
#define LOCKSTEP_WORKER_AGENT_MEASURE_LINK_RATE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "core/gang/protocol/messages.h"

namespace lockstep::agent {

// Where this machine's partners come to; whoever doesn't know the token is turned away. It waits:
// not for the loop's thread.
class LinkMeter {
 public:
  // On a free port of that IP.
  static Result<LinkMeter> Listen(const std::string& host, uint32_t machine);

  const std::string& address() const { return address_; }
  const std::string& token() const { return token_; }

  // GB/s with each, in their order; 0: it could not be reached.
  std::vector<double> Measure(const std::vector<core::Partner>& partners);

 private:
  LinkMeter(UniqueFd listener, uint32_t machine, std::string address, std::string token)
      : listener_(std::move(listener)),
        machine_(machine),
        address_(std::move(address)),
        token_(std::move(token)) {}

  double MeasureWith(const core::Partner& partner);
  // Connected to that partner, who is ready; not valid: it didn't come in time.
  UniqueFd Reach(const core::Partner& partner, Time until) const;
  UniqueFd Await(uint32_t machine, Time until);
  // A connection of somebody who has not said yet who it is.
  struct Caller {
    UniqueFd link;
    std::string said;
  };
  // Reads on. False: it is a partner, who has come early, or nobody's.
  bool StillGreets(Caller* caller);

  UniqueFd listener_;
  uint32_t machine_;
  std::string address_;
  std::string token_;
  std::vector<Caller> callers_;         // the oldest first
  std::map<uint32_t, UniqueFd> early_;  // partners that came before their turn
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_MEASURE_LINK_RATE_H_
