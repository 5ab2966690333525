// CoordinatorLink: this operator's side of GET /status and PUT /gang. One long poll goes to machine
// 0 at a time; when machine 0 doesn't answer, another member is asked what it sees. A wish is said
// until machine 0 has taken it.
#ifndef LOCKSTEP_CLI_RUN_COORDINATOR_LINK_H_
#define LOCKSTEP_CLI_RUN_COORDINATOR_LINK_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/time.h"
#include "base/tls_psk.h"
#include "cli/run/decide.h"
#include "cli/run/event_loop.h"
#include "cli/run/http_client.h"

namespace lockstep::cli {

class CoordinatorLink {
 public:
  using AddressOf = std::function<std::string(uint32_t machine)>;
  using OnStatus = std::function<void(const core::GangStatus&)>;

  CoordinatorLink(EventLoop* loop, const TlsPskContext* tls, AddressOf address_of,
                  OnStatus on_status);

  // Goes on with whatever is due; call it once a round.
  void Work(const Snapshot& snapshot, const std::optional<core::GangWish>& wish, Time now);
  Time NextWake() const;

  // Whether machine 0's attempt took exactly this wish.
  bool Accepted(const core::GangWish& wish, uint32_t attempt) const;

 private:
  void Poll(const Snapshot& snapshot, Time now);
  void OnAnswer(const Snapshot& snapshot, const Result<HttpAnswer>& answer, Time now);
  void Put(const Snapshot& snapshot, const core::GangWish& wish, Time now);
  void Watch(HttpClient* client, int* watched);
  void Unwatch(int* watched);

  EventLoop* loop_;
  AddressOf address_of_;
  OnStatus on_status_;
  HttpClient poller_;
  HttpClient putter_;
  int poller_fd_ = -1;
  int putter_fd_ = -1;

  uint32_t asked_ = 0;    // the machine whose answer is awaited
  uint32_t attempt_ = 0;  // of machine 0, which the version belongs to
  uint64_t version_ = 0;  // of its last answer
  Time next_poll_{};
  Time last_answer_{};  // of machine 0
  Duration retry_{};    // grows while machine 0 can't be reached
  uint32_t next_member_ = 1;

  std::string put_;  // the wish under way
  uint32_t put_attempt_ = 0;
  std::string accepted_;
  uint32_t accepted_attempt_ = 0;
  Time next_put_{};
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_COORDINATOR_LINK_H_
