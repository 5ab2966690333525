// One ncclComm_t under the rules that keep it from hanging the process: one thread calls into NCCL
// at a time, a call that returns "in progress" is polled to its end before the next, and whatever
// ends the communicator runs on a thread of its own, with a bound that another one keeps.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_NCCL_COMM_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_NCCL_COMM_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/result.h"
#include "base/thread_annotations.h"
#include "base/time.h"
#include "worker/trainer/collectives/cuda/cuda.h"
#include "worker/trainer/collectives/nccl/nccl_library.h"

namespace lockstep::collectives {

// How NCCL is polled: without a pause at first, for most calls and small operations are done by
// then, and with growing pauses after it.
inline constexpr Duration kSpin = microseconds(50);
inline constexpr Duration kFirstPause = microseconds(20);
inline constexpr Duration kLongestPause = milliseconds(1);

class NcclComm {
 public:
  // `end_bound`: how long the end of the communicator may take.
  NcclComm(std::shared_ptr<const NcclLibrary> library, std::shared_ptr<const CudaDevice> device,
           Duration end_bound);
  // Finalizes and destroys the communicator, unless it was aborted. If NCCL is not through with
  // that within the bound, its threads are left behind (ThreadsLeftBehind): the work itself was
  // done.
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  const NcclLibrary& library() const;

  // The functions below, Abort apart, are one thread's.
  //
  // kTimeout after `deadline`, for peers that do not come.
  Status Init(int world, const nccl::UniqueId& id, int rank, Time deadline);
  // Calls `function` and waits while NCCL says "in progress". kUnavailable once aborted.
  Status Call(const std::string& what, Time deadline,
              const std::function<nccl::Code(const nccl::Api&, nccl::Comm)>& function);
  // What went wrong in the background: a peer died, the network broke.
  Status Check();
  // Waits; returns early, and true, when aborted.
  bool WaitForAbort(Duration patience);

  // From any thread, and at once: Call, Check and WaitForAbort return. The communicator itself is
  // aborted by a helper thread, when no other thread is within NCCL. If NCCL is not through with
  // that within the bound, its threads cannot be stopped, whoever waits for them, be it in
  // cuMemFree, will not come back, and the process leaves by _exit(75) and says so on standard
  // error.
  void Abort();

 private:
  // One call into NCCL, unless aborted.
  Result<nccl::Code> Enter(const std::function<nccl::Code()>& call);
  // Keeps an error for the message of a process that must leave.
  Status Note(Status status);
  // Polls a call that answered `code` to its end.
  Status Settle(const std::string& what, nccl::Code code, Time deadline);
  Error Failure(const std::string& what, nccl::Code code) const;

  // All of it: the threads that end the communicator may outlive the NcclComm.
  struct State;
  Status StartEnding(bool in_peace);

  const std::shared_ptr<State> state_;
  std::thread helper_;  // ends the communicator
  std::thread bound_;   // says when that has taken too long
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_NCCL_COMM_H_
