// The last 2,000 operations of a rank: what, how much, when. Written down as evidence when an
// operation is late or a peer is lost; `lockstep-trainer analyze` reads it (analyze.h). Any thread.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_FLIGHT_RECORDER_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_FLIGHT_RECORDER_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/thread_annotations.h"
#include "base/time.h"
#include "worker/trainer/collectives/transport.h"

namespace lockstep::collectives {

// "allreduce", "send", ...
const char* ToString(OperationKind kind);
// False for send and receive, whose numbers count within their pair.
bool IsCollective(OperationKind kind);

struct RecordedOperation {
  uint64_t number = 0;
  OperationKind kind = OperationKind::kBarrier;
  std::string tag;
  uint64_t bytes = 0;
  int peer = -1;
  Time enqueued{};
  Time started{};   // 0: waits for those before it
  Time finished{};  // 0: not yet, or failed

  const char* State() const;     // "finished", "started", "enqueued"
  std::string Describe() const;  // `allreduce 17 "bucket 3"`, `send 4 "norm" with rank 1`
};

// What a dump says beside the operations.
struct EvidenceHeader {
  int rank = 0;
  int world = 1;
  std::string identity;
  std::string backend;
  std::string reason;
  int blamed = -1;
};

class FlightRecorder {
 public:
  static constexpr size_t kCapacity = 2000;

  // Returns a ticket for the calls below.
  uint64_t Enqueued(const Operation& operation, uint64_t bytes, std::string_view tag, Time now);
  void Started(uint64_t ticket, Time now);
  void Finished(uint64_t ticket, Time now);

  // The oldest operation that was started and is not finished.
  std::optional<RecordedOperation> Running() const;
  // In a few words, the oldest operation that is not finished, or that there is none: `allreduce 17
  // "bucket 3" of 4096 bytes`, `its own code after allreduce 16 "bucket 2"`.
  std::string Standing() const;
  // Of collectives: the last number enqueued and the last finished.
  uint64_t last_issued() const;
  uint64_t last_finished() const;
  // Oldest first.
  std::vector<RecordedOperation> Operations() const;

  // JSON; the clock's anchors (boot time and UTC at the same moment) let dumps of several machines
  // be laid side by side.
  std::string Dump(const EvidenceHeader& header) const;
  // Writes Dump() as DIR/rank-NNNNN.json, whole or not at all.
  Status Write(const std::string& dir, const EvidenceHeader& header) const;

 private:
  RecordedOperation* Find(uint64_t ticket) REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::array<RecordedOperation, kCapacity> ring_ GUARDED_BY(mutex_);  // at ticket % kCapacity
  uint64_t next_ GUARDED_BY(mutex_) = 0;                              // ticket
  uint64_t running_ GUARDED_BY(mutex_) = 0;  // the oldest ticket that is not finished
  uint64_t issued_ GUARDED_BY(mutex_) = 0;
  uint64_t finished_ GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_FLIGHT_RECORDER_H_
