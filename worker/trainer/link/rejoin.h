// Rejoin: how this process outlives its generation (docs/reference/protocol.md, "Living on"). It
// asks the agent to report the generation's end. After that it aborts, reports that it has left,
// and gets the next generation. One object for each generation.
//
//   Rejoin rejoin(socket, rank, "1-3");
//   rejoin.Watch([&] { communicator->Abort("..."); });
//   ...                              // an operation fails
//   if (rejoin.AwaitEnd(seconds(10))) {
//     // Nothing of this process acts in the generation any more.
//     rejoin.SayLeft();
//     Result<lockstep::Json> next = rejoin.AwaitNext();
//     // {"generation": "1-4", "environment": {...}}
//   }
#ifndef LOCKSTEP_WORKER_TRAINER_LINK_REJOIN_H_
#define LOCKSTEP_WORKER_TRAINER_LINK_REJOIN_H_

#include <condition_variable>
#include <functional>
#include <string>
#include <thread>

#include "base/result.h"
#include "base/text/json.h"
#include "base/thread_annotations.h"
#include "base/time.h"
#include "base/unique_fd.h"

namespace lockstep::trainer {

class Rejoin {
 public:
  Rejoin(const std::string& socket_path, int rank, std::string generation);
  ~Rejoin();
  Rejoin(const Rejoin&) = delete;
  Rejoin& operator=(const Rejoin&) = delete;

  // The agent has said that the generation has ended.
  bool ended() const;
  // Calls it at the end, from a thread of its own; at once if that has come. Null: no more, and
  // none is under way.
  void Watch(std::function<void()> on_end);
  // Waits for the end; false: it did not come, or no agent will tell of it.
  bool AwaitEnd(Duration patience);
  // Reports that nothing of this process acts in the generation any more. The agent waits 5 s for
  // it; what the process does for itself alone, such as copying its state, comes after it.
  Status SayLeft();
  // After SayLeft(): waits for the next generation, for as long as the agent lives.
  Result<lockstep::Json> AwaitNext();

 private:
  void Run();
  Status Send(const lockstep::Json& line) const;
  // Until there is a line, or the connection ends.
  Result<lockstep::Json> Receive();

  const int rank_;
  const std::string generation_;
  UniqueFd socket_;
  std::string received_;

  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  bool ended_ GUARDED_BY(mutex_) = false;
  bool over_ GUARDED_BY(mutex_) = false;  // nothing is told any more
  std::function<void()> on_end_ GUARDED_BY(mutex_);
  std::thread thread_;
};

// The variables that a new generation brings, by name; null: gone. While no other thread runs.
Status ApplyEnvironment(const lockstep::Json& next);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_LINK_REJOIN_H_
