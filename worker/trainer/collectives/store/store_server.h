// The store at rank 0: keeps keys and values, and knows which ranks have come, are alive, or are
// behind. One thread; owned by rank 0's Communicator. Every rank, rank 0 as well, keeps one
// connection to it for the life of its Communicator.
//
// What it does when
//  - a stranger connects (wrong greeting, identity, world or rank): says why and closes; nothing
//    else is touched. A connection that does not greet in time is closed, and the oldest such
//    one when there are too many;
//  - a rank's connection ends without kBye: that rank is lost; all others are told who it is, this
//    process's own rank last, so that its leaving cannot overtake the news;
//  - a rank says that its operation is late: finds out who is behind (blame.h), asks the witness,
//    and tells all. Whoever is lost meanwhile is told of at once;
//  - not all ranks came until the deadline: tells those who did who is missing.
// The first failure is the last message that it sends.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_STORE_SERVER_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_STORE_SERVER_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/thread_annotations.h"
#include "base/time.h"
#include "worker/trainer/collectives/store/failure.h"
#include "worker/trainer/collectives/store/message.h"
#include "worker/trainer/collectives/store/socket.h"
#include "worker/trainer/collectives/store/wake.h"

namespace lockstep::collectives {

// Less than a late rank waits until it names rank 0 itself.
inline constexpr Duration kWitnessTime = milliseconds(1500);

class StoreServer {
 public:
  struct Options {
    std::string address;
    uint16_t port = 0;
    int world = 1;
    std::string identity;
    Time deadline = kNever;               // until all ranks are here
    Duration greeting_time = seconds(5);  // that a new connection has to say who it is
    // Asked once, on a thread of its own, when an operation is late: what someone else knows of the
    // ranks, in a line, or "". It is told beside who is behind, and waited for this long.
    std::function<std::string()> witness{};
    Duration witness_time = kWitnessTime;
  };

  static Result<std::unique_ptr<StoreServer>> Start(Options options);
  // Closes all connections: to the other ranks that is rank 0's death, unless Leave() came before.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  // Waits until all ranks have said kBye or are gone, at most until `deadline`, and says kBye to
  // those that stay.
  void Leave(Time deadline);

 private:
  struct Connection {
    explicit Connection(UniqueFd socket, Time now)
        : fd(std::move(socket)), reader(kGreetingLimit), since(now) {}
    UniqueFd fd;
    MessageReader reader;
    std::string out;
    Time since;
    int rank = -1;  // -1: a stranger so far
    bool closing = false;
  };
  struct Rank {
    Connection* connection = nullptr;
    bool came = false;
    bool left = false;
    uint64_t issued = 0;
    uint64_t finished = 0;
    Time beat{};
  };

  StoreServer(Options options, UniqueFd listener);

  void Run();
  void Poll();
  void Accept();
  void Read(Connection& from);
  void Write(Connection& to);
  void Handle(Connection& from, Message message);
  void Greet(Connection& from, const Message& hello);
  void Set(Connection& from, Message message);
  void Get(Connection& from, const std::string& key);
  void Late(const Connection& from, const Message& message);
  // Tells who is behind once the witness has spoken, or `now` is too late for it.
  void HearWitness(Time now);
  void Ended(Connection& connection);
  void Tick();
  // After each wait: whoever was stopped itself heard nobody, and that is no rank's silence.
  void ForgiveOwnPause();
  void Sweep();
  void Send(Connection& to, const Message& message);
  void Refuse(Connection& to, const std::string& why);
  // To all ranks, this process's own last.
  void Broadcast(const Message& message);
  void Fail(const Failure& failure);
  std::vector<int> Missing() const;
  bool AllCame() const { return came_ == ranks_.size(); }

  const Options options_;
  Wake wake_;
  UniqueFd listener_;

  // Of the thread alone:
  std::list<Connection> connections_;
  std::vector<Rank> ranks_;
  size_t came_ = 0;
  Time polled_ = BootTime();  // when poll() last came back
  std::map<std::string, std::string, std::less<>> values_;
  std::map<std::string, std::vector<int>, std::less<>> waiting_;  // key -> ranks
  size_t stored_ = 0;                                             // bytes in values_
  bool failed_ = false;
  std::optional<Failure> late_;  // who is behind; not told yet
  Time late_until_{};

  Mutex mutex_;
  std::condition_variable_any changed_;
  bool stop_ GUARDED_BY(mutex_) = false;
  bool leave_ GUARDED_BY(mutex_) = false;
  bool all_left_ GUARDED_BY(mutex_) = false;
  bool said_bye_ GUARDED_BY(mutex_) = false;
  std::optional<std::string> witnessed_ GUARDED_BY(mutex_);
  std::thread witness_;
  std::thread thread_;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_STORE_SERVER_H_
