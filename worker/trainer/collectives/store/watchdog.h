// Watches one Communicator from a thread of its own: an operation that is late, a peer that is
// lost, a transport that failed, an abort. The first of them is the Communicator's end. Then, in
// this order: on_end is told where the rank stands, the evidence is written, the transport is
// woken, the peers are told, waiters learn the error, on_failure is called.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_WATCHDOG_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_WATCHDOG_H_

#include <condition_variable>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "base/thread_annotations.h"
#include "base/time.h"
#include "worker/trainer/collectives/store/failure.h"
#include "worker/trainer/collectives/store/flight_recorder.h"
#include "worker/trainer/collectives/store/store_client.h"
#include "worker/trainer/collectives/transport.h"

namespace lockstep::collectives {

class Watchdog {
 public:
  struct Options {
    EvidenceHeader header;  // without reason and blame
    std::string evidence_dir;
    Duration operation_timeout = seconds(120);
    std::function<void(const std::string& standing)> on_end;  // as in collectives::Options
    std::function<void(const Error&)> on_failure;
  };

  // `store` is null in a world of one. All outlive the Watchdog.
  Watchdog(Options options, FlightRecorder* recorder, Transport* transport, StoreClient* store);
  // Calls on_failure no more.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // From any thread, without blocking. Does not call on_failure, since the caller knows already.
  void Abort(const std::string& reason);
  // The transport failed. Returns the error to report in its place: the store often knows within
  // milliseconds which rank failed first.
  Error TransportFailed(const Error& error);
  // Set once the end is official.
  std::optional<Error> failure() const;

 private:
  enum class Source : uint8_t { kStore, kHere, kAbort, kTransport };
  struct Event {
    Failure failure;
    Source source = Source::kHere;
  };

  void Post(Event event);
  void Run();
  void CheckLate(Time now);
  // Rank 0, where it is, is stopped or its machine gone.
  bool StoreIsSilent() const;
  Failure OwnVerdict(const RecordedOperation& late) const;
  // What a transport's failure waits for.
  void AwaitBetterName();
  void Settle(const Event& event);

  const Options options_;
  FlightRecorder* const recorder_;
  Transport* const transport_;
  StoreClient* const store_;

  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  bool stop_ GUARDED_BY(mutex_) = false;
  std::optional<Event> event_ GUARDED_BY(mutex_);
  std::optional<Error> settled_ GUARDED_BY(mutex_);
  // Of the thread alone: when the store was asked who is behind.
  std::optional<Time> asked_;
  std::thread thread_;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_WATCHDOG_H_
