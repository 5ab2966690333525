#include "tests/worker/trainer/collectives/nccl/rank_processes.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>

#include "worker/trainer/cuda/slice_sum.h"

namespace lockstep::collectives {

struct SharedTable {
  struct Entry {
    std::array<char, 128> key;
    std::array<char, 1024> value;
    size_t key_size;
    size_t value_size;
  };

  pthread_mutex_t mutex;
  pthread_cond_t changed;
  size_t used;
  std::array<Entry, 64> entries;
};

namespace {

class Lock {
 public:
  explicit Lock(SharedTable* table) : table_(table) { pthread_mutex_lock(&table_->mutex); }
  ~Lock() { pthread_mutex_unlock(&table_->mutex); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  SharedTable* table_;
};

SharedTable* MakeTable() {
  void* memory =
      mmap(nullptr, sizeof(SharedTable), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* table = new (memory) SharedTable();
  pthread_mutexattr_t mutex;
  pthread_mutexattr_init(&mutex);
  pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&table->mutex, &mutex);
  pthread_condattr_t condition;
  pthread_condattr_init(&condition);
  pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
  pthread_cond_init(&table->changed, &condition);
  return table;
}

const SharedTable::Entry* Find(const SharedTable* table, std::string_view key) {
  for (size_t i = 0; i < table->used; ++i) {
    const SharedTable::Entry& entry = table->entries.at(i);
    if (key == std::string_view(entry.key.data(), entry.key_size)) return &entry;
  }
  return nullptr;
}

timespec WallTimeIn(Duration patience) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const Duration then = seconds(now.tv_sec) + nanoseconds(now.tv_nsec) + patience;
  return {.tv_sec = duration_cast<seconds>(then).count(), .tv_nsec = (then % seconds(1)).count()};
}

[[noreturn]] void RunChild(SharedTable* table, int rank, int world,
                           const std::function<void(Rank&)>& body) {
  // What hangs against all expectation ends by SIGALRM.
  alarm(120);
  Rank::Set("LOCKSTEP_CUDA_LIBRARY", LOCKSTEP_FAKES "/libcuda.so.1");
  Rank::Set("LOCKSTEP_NCCL_LIBRARY", LOCKSTEP_FAKES "/libnccl.so.2");
  {
    Rank self(table, rank, world);
    body(self);
  }
  std::fflush(nullptr);
  _exit(::testing::Test::HasFailure() ? 1 : 0);
}

}  // namespace

Status SharedRendezvous::Set(std::string_view key, std::string_view value) {
  const Lock lock(table_);
  if (Find(table_, key) != nullptr) return Error::Conflict(std::string(key) + " is set already");
  SharedTable::Entry& entry = table_->entries.at(table_->used++);
  entry.key_size = key.copy(entry.key.data(), entry.key.size());
  entry.value_size = value.copy(entry.value.data(), entry.value.size());
  pthread_cond_broadcast(&table_->changed);
  return {};
}

Result<std::string> SharedRendezvous::Get(std::string_view key, Time deadline) {
  const timespec until = WallTimeIn(deadline - BootTime());
  const Lock lock(table_);
  for (;;) {
    if (const SharedTable::Entry* entry = Find(table_, key))
      return std::string(entry->value.data(), entry->value_size);
    if (pthread_cond_timedwait(&table_->changed, &table_->mutex, &until) == ETIMEDOUT)
      return Error::Timeout("nobody set " + std::string(key));
  }
}

void Rank::Set(const std::string& name, const std::string& value) {
  setenv(name.c_str(), value.c_str(), 1);
}

void Rank::Must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  std::fflush(nullptr);
  _exit(1);
}

Options Rank::MakeOptions() const {
  Options options;
  options.rank = rank();
  options.world = world();
  options.local_rank = rank();
  options.identity = "job-1";
  options.slice_sum = trainer::MakeSliceSum;
  return options;
}

Result<std::unique_ptr<Transport>> Rank::TryConnect(Duration patience, const NcclLimits& limits) {
  return ConnectNccl(MakeOptions(), rendezvous_, In(patience), limits);
}

std::unique_ptr<Transport> Rank::Connect(const NcclLimits& limits) {
  return ConnectWith(MakeOptions(), limits);
}

std::unique_ptr<Transport> Rank::ConnectWith(const Options& options, const NcclLimits& limits) {
  Result<std::unique_ptr<Transport>> made =
      ConnectNccl(options, rendezvous_, In(seconds(60)), limits);
  if (!made.ok()) Must(made.error());
  return std::move(*made);
}

const std::shared_ptr<const CudaDevice>& Rank::device() {
  if (device_ == nullptr) {
    Result<std::shared_ptr<const CudaDevice>> opened = CudaDevice::Open(rank());
    if (!opened.ok()) Must(opened.error());
    device_ = *opened;
  }
  return device_;
}

DeviceMemory Rank::Allocate(size_t bytes) {
  Result<DeviceMemory> memory = DeviceMemory::Allocate(device(), bytes);
  if (!memory.ok()) Must(memory.error());
  return std::move(*memory);
}

Status FinishOne(Transport& transport) {
  for (;;) {
    Result<bool> done = transport.Finish(milliseconds(100));
    if (!done.ok()) return done.error();
    if (*done) return {};
  }
}

Status RunToEnd(Transport& transport, const Operation& operation) {
  if (Status started = transport.Start(operation); !started.ok()) return started;
  return FinishOne(transport);
}

std::vector<int> ExitCodes(int world, const std::function<void(Rank&)>& body) {
  SharedTable* table = MakeTable();
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (int rank = 0; rank < world; ++rank) {
    const pid_t child = fork();
    if (child == 0) RunChild(table, rank, world, body);
    children.push_back(child);
  }
  std::vector<int> codes;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
  munmap(table, sizeof(SharedTable));
  return codes;
}

void RunRanks(int world, const std::function<void(Rank&)>& body) {
  EXPECT_EQ(ExitCodes(world, body), std::vector<int>(static_cast<size_t>(world), 0));
}

}  // namespace lockstep::collectives
