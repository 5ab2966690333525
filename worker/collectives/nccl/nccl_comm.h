// One ncclComm_t under the rules that keep it from hanging the process: one thread calls into NCCL
// at a time, a call that returns "in progress" is polled to its end before the next, and whatever
// ends the communicator runs on a helper thread with a bound.
#ifndef LOCKSTEP_WORKER_COLLECTIVES_NCCL_NCCL_COMM_H_
#define LOCKSTEP_WORKER_COLLECTIVES_NCCL_NCCL_COMM_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/result.h"
#include "base/thread_annotations.h"
#include "base/time.h"
#include "worker/collectives/nccl/cuda.h"
#include "worker/collectives/nccl/nccl_library.h"

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
  // Finalizes and destroys the communicator, unless it was aborted. If NCCL is not out of it within
  // the bound, its threads cannot be joined: says so on standard error and leaves the process by
  // _exit(75).
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  const NcclLibrary& library() const { return *library_; }

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
  // aborted by the helper thread, when no other thread is within NCCL.
  void Abort();

 private:
  Error Aborted() const { return Error::Unavailable("NCCL was aborted"); }
  // One call into NCCL, unless aborted.
  Result<nccl::Code> Enter(const std::function<nccl::Code()>& call);
  // Keeps an error for the message of a process that must leave.
  Status Note(Status status);
  // Polls a call that answered `code` to its end.
  Status Settle(const std::string& what, nccl::Code code, Time deadline);
  Error Failure(const std::string& what, nccl::Code code) const;
  void StartEnding() REQUIRES(mutex_);
  void End();
  void EndInPeace();

  const std::shared_ptr<const NcclLibrary> library_;
  const std::shared_ptr<const CudaDevice> device_;
  const Duration end_bound_;

  Mutex mutex_;
  std::condition_variable_any changed_;
  nccl::Comm comm_ = nullptr;  // written within Enter, read by the helper when nobody is inside
  bool inside_ GUARDED_BY(mutex_) = false;
  bool aborted_ GUARDED_BY(mutex_) = false;
  bool ending_ GUARDED_BY(mutex_) = false;
  bool ended_ GUARDED_BY(mutex_) = false;
  Time end_by_ GUARDED_BY(mutex_) = kNever;
  std::string last_error_;  // of the one thread
  std::thread helper_;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_COLLECTIVES_NCCL_NCCL_COMM_H_
