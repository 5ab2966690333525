// Link: the helper's end of the socket pair. Send may be called in any thread.
#ifndef LOCKSTEP_WORKER_PMIX_HELPER_LINK_H_
#define LOCKSTEP_WORKER_PMIX_HELPER_LINK_H_

#include <optional>
#include <vector>

#include "base/result.h"
#include "base/thread_annotations.h"
#include "worker/pmix/message.h"

namespace lockstep::pmix {

class Link {
 public:
  explicit Link(int fd) : fd_(fd) {}

  // Waits until the agent has room for them; they stand in one row. Ends the process where there is
  // no agent any more.
  void Send(const std::vector<Message>& messages);
  void Send(const Message& message) { Send(std::vector{message}); }

  // Waits for the next. nullopt: the agent has closed its end.
  Result<std::optional<Message>> Receive() const;

 private:
  int fd_;
  Mutex mutex_;  // one row at a time
};

}  // namespace lockstep::pmix

#endif  // LOCKSTEP_WORKER_PMIX_HELPER_LINK_H_
