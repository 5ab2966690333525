// Ranks as forked processes on the fakes for NCCL and the driver, with a rendezvous between
// them.
//
//   RunRanks(4, [](Rank& rank) {
//     std::unique_ptr<Transport> nccl = rank.Connect();
//     ...                       // EXPECT_ and ASSERT_ as in any test
//   });
#ifndef LOCKSTEP_TESTS_WORKER_TRAINER_COLLECTIVES_NCCL_RANK_PROCESSES_H_
#define LOCKSTEP_TESTS_WORKER_TRAINER_COLLECTIVES_NCCL_RANK_PROCESSES_H_

#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "worker/trainer/collectives/cuda/cuda.h"
#include "worker/trainer/collectives/nccl/nccl_transport.h"
#include "worker/trainer/collectives/transport.h"

namespace lockstep::collectives {

struct SharedTable;

// Keys and values in memory that was shared before the ranks were forked.
class SharedRendezvous final : public Rendezvous {
 public:
  SharedRendezvous(SharedTable* table, int rank, int world)
      : table_(table), rank_(rank), world_(world) {}

  int rank() const override { return rank_; }
  int world() const override { return world_; }
  Status Set(std::string_view key, std::string_view value) override;
  Result<std::string> Get(std::string_view key, Time deadline) override;

 private:
  SharedTable* table_;
  int rank_;
  int world_;
};

// One rank, within its process.
class Rank {
 public:
  Rank(SharedTable* table, int rank, int world) : rendezvous_(table, rank, world) {}

  int rank() const { return rendezvous_.rank(); }
  int world() const { return rendezvous_.world(); }
  Rendezvous& rendezvous() { return rendezvous_; }

  // The setting of a fake (fake_nccl.cc, fake_cuda.cc), for this rank.
  static void Set(const std::string& name, const std::string& value);

  // One rank a GPU and the tree's kernel, without an address.
  Options MakeOptions() const;
  Result<std::unique_ptr<Transport>> TryConnect(Duration patience = seconds(60),
                                                const NcclLimits& limits = {});
  // What must succeed; the process ends with a failed test if it doesn't.
  std::unique_ptr<Transport> Connect(const NcclLimits& limits = {});
  std::unique_ptr<Transport> ConnectWith(const Options& options, const NcclLimits& limits = {});

  // On this rank's GPU.
  const std::shared_ptr<const CudaDevice>& device();
  template <typename T>
  DeviceMemory ToDevice(const std::vector<T>& values) {
    DeviceMemory memory = Allocate(values.size() * sizeof(T));
    Must(memory.CopyFrom(values.data(), values.size() * sizeof(T)));
    return memory;
  }
  template <typename T>
  std::vector<T> ToHost(const DeviceMemory& memory) {
    std::vector<T> values(memory.size() / sizeof(T));
    Must(memory.CopyTo(values.data(), memory.size()));
    return values;
  }
  DeviceMemory Allocate(size_t bytes);

  static void Must(const Status& status);

 private:
  SharedRendezvous rendezvous_;
  std::shared_ptr<const CudaDevice> device_;
};

inline Time In(Duration patience) { return BootTime() + patience; }

// Finish until the oldest operation is done or failed.
Status FinishOne(Transport& transport);
// Start and FinishOne.
Status RunToEnd(Transport& transport, const Operation& operation);

// Exit codes of `world` processes that ran `body`; 0 when no expectation failed.
std::vector<int> ExitCodes(int world, const std::function<void(Rank&)>& body);
// Expects them to be 0.
void RunRanks(int world, const std::function<void(Rank&)>& body);

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_TESTS_WORKER_TRAINER_COLLECTIVES_NCCL_RANK_PROCESSES_H_
