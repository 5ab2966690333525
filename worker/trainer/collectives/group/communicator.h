// The Communicator of both backends: a queue, one issuing thread that hands operations to the
// Transport, numbers, the flight recorder and the watchdog. Made by Connect().
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GROUP_COMMUNICATOR_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GROUP_COMMUNICATOR_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/thread_annotations.h"
#include "worker/trainer/collectives/collectives.h"
#include "worker/trainer/collectives/group/connect.h"
#include "worker/trainer/collectives/store/flight_recorder.h"
#include "worker/trainer/collectives/store/store_client.h"
#include "worker/trainer/collectives/store/store_server.h"
#include "worker/trainer/collectives/store/watchdog.h"
#include "worker/trainer/collectives/transport.h"
#include "worker/trainer/collectives/work.h"

namespace lockstep::collectives {

class QueueCommunicator final : public Communicator {
 public:
  struct Parts {
    std::unique_ptr<StoreServer> server;  // at rank 0 of a world above one
    std::unique_ptr<StoreClient> store;   // in a world above one
    std::unique_ptr<Transport> transport;
    std::string note;  // why it is this transport, for Describe()
  };

  QueueCommunicator(const Options& options, Parts parts);
  // Without Finish() this is, to the others, the rank's death.
  ~QueueCommunicator() override;
  QueueCommunicator(const QueueCommunicator&) = delete;
  QueueCommunicator& operator=(const QueueCommunicator&) = delete;

  int rank() const override { return rank_; }
  int world() const override { return world_; }
  Memory memory() const override { return parts_.transport->memory(); }
  std::string Describe() const override { return parts_.transport->Describe() + parts_.note; }
  MachineNetwork network() const override { return parts_.transport->network(); }

  Work AllReduceAsync(Span buffer, Reduction op, std::string_view tag,
                      const CudaEvent* after) override;
  Work AllReduceWithin(const RankGroup& group, Span buffer, Reduction op, std::string_view tag,
                       const CudaEvent* after) override;
  Status Broadcast(Span buffer, int root, std::string_view tag) override;
  Status ReduceScatter(ConstSpan in, Span out, Reduction op, std::string_view tag) override;
  Status AllGather(ConstSpan in, Span out, std::string_view tag) override;
  Work AllGatherAsync(ConstSpan in, Span out, std::string_view tag,
                      const CudaEvent* after) override;
  Status Send(ConstSpan buffer, int peer, std::string_view tag) override;
  Status Post(ConstSpan buffer, int peer, int most, std::string_view tag) override;
  Status Receive(Span buffer, int peer, std::string_view tag) override;
  Work ExchangeAsync(ConstSpan out, Span in, int peer, std::string_view tag,
                     const CudaEvent* after) override;
  Status Barrier(std::string_view tag) override;
  void Abort(std::string_view reason) override;
  Result<std::string> Record(const std::string& dir) const override;
  Status Finish() override;

 private:
  struct Item {
    Operation operation;
    uint64_t ticket = 0;
    std::shared_ptr<Work::State> state;
  };

  Work Enqueue(Operation operation, std::string_view tag);
  // kInvalid where the arguments cannot be meant.
  Status Check(const Operation& operation) const;
  uint64_t NextNumber(const Operation& operation) REQUIRES(mutex_);
  static Work Failed(Error error);

  void Run();
  // Waits for work; false at the end.
  bool Next(std::optional<Item>* item);
  Status Begin(Item& item);
  Status End(Duration patience);
  void FailAll(const Error& error);

  const EvidenceHeader header_;
  const int rank_;
  const int world_;
  const Duration operation_timeout_;
  Parts parts_;
  FlightRecorder recorder_;
  Watchdog watchdog_;

  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Item> queue_ GUARDED_BY(mutex_);
  bool idle_ GUARDED_BY(mutex_) = true;  // nothing begun that is not done
  bool stop_ GUARDED_BY(mutex_) = false;
  uint64_t collectives_ GUARDED_BY(mutex_) = 0;
  std::map<std::pair<OperationKind, int>, uint64_t> pairs_ GUARDED_BY(mutex_);

  std::deque<Item> begun_;  // of the issuing thread alone
  std::thread thread_;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_GROUP_COMMUNICATOR_H_
