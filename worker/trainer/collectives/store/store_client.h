// A rank's connection to the store at rank 0, for the life of its Communicator: keys and values,
// heartbeats, and the news that a peer is lost. One thread of its own; any thread may call it.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_STORE_CLIENT_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_STORE_CLIENT_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.h"
#include "base/thread_annotations.h"
#include "base/time.h"
#include "worker/trainer/collectives/store/failure.h"
#include "worker/trainer/collectives/store/message.h"
#include "worker/trainer/collectives/store/socket.h"
#include "worker/trainer/collectives/store/wake.h"
#include "worker/trainer/collectives/transport.h"

namespace lockstep::collectives {

// Numbers of the last operation issued and of the last one done.
struct Progress {
  uint64_t issued = 0;
  uint64_t finished = 0;
};

class StoreClient final : public Rendezvous {
 public:
  struct Options {
    std::string address;
    uint16_t port = 0;
    int rank = 0;
    int world = 1;
    std::string identity;
    Time deadline = kNever;
    std::function<bool()> given_up{};  // see collectives::Options
  };

  // Tries until rank 0 listens and all ranks are here. Denied when rank 0 refuses this rank;
  // Timeout, naming the missing ranks, at the deadline; Unavailable when a rank is lost.
  static Result<std::unique_ptr<StoreClient>> Connect(const Options& options);
  // Without Bye() this is, to the others, the rank's death.
  ~StoreClient() override;
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  int rank() const override { return options_.rank; }
  int world() const override { return options_.world; }
  Status Set(std::string_view key, std::string_view value) override;
  Result<std::string> Get(std::string_view key, Time deadline) override;

  // From now on heartbeats carry `progress`, and `failed` is told of the first failure, from the
  // client's thread, at once if there was one already. Both must not block.
  void Watch(std::function<Progress()> progress, std::function<void(const Failure&)> failed);
  // Ends the calls: neither callback is running, or will run, once it returns.
  void Unwatch();
  // Tells all other ranks, through the store, that this rank fails, and why. Waits until the
  // message is sent, at most half a second.
  void Announce(const Failure& failure);
  // Reports to the store that `what` (with `peer`) is late. The store finds out which rank is
  // behind and tells all ranks.
  void ReportLate(uint64_t number, int peer, const std::string& what);
  // This rank leaves on purpose. Waits as Announce() does.
  void Bye();
  // Since the store's last sign of life.
  Duration Silence() const { return BootTime() - last_heard_.load(); }

 private:
  StoreClient(Options options, UniqueFd socket);

  // Nothing yet: the connection ended before the store said a word.
  std::optional<Status> AwaitReady();
  std::string AskWho();
  void Run();
  bool Read();
  void Write();
  void Beat();
  void Handle(Message message);
  void Queue(const Message& message);
  void Drain();
  void Fail(const Failure& failure);

  const Options options_;
  UniqueFd socket_;
  Wake wake_;
  std::atomic<Time> last_heard_;
  // Of the thread alone:
  MessageReader reader_;
  std::string sending_;

  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::string out_ GUARDED_BY(mutex_);
  bool answered_ GUARDED_BY(mutex_) = false;  // the store has spoken
  bool ready_ GUARDED_BY(mutex_) = false;
  bool drained_ GUARDED_BY(mutex_) = true;
  bool stop_ GUARDED_BY(mutex_) = false;
  bool store_left_ GUARDED_BY(mutex_) = false;
  std::optional<std::string> missing_ GUARDED_BY(mutex_);
  std::map<std::string, std::string, std::less<>> values_ GUARDED_BY(mutex_);
  std::map<std::string, uint64_t, std::less<>> set_ GUARDED_BY(mutex_);
  std::optional<Failure> failure_ GUARDED_BY(mutex_);

  // Held while the watcher is called; taken before mutex_.
  Mutex calling_;
  std::function<Progress()> progress_ GUARDED_BY(calling_);
  std::function<void(const Failure&)> failed_ GUARDED_BY(calling_);
  std::thread thread_;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_STORE_CLIENT_H_
