// A libnccl.so.2 for machines without a GPU: NCCL's ABI on host memory. Ranks are processes of one
// machine; they meet in a memory file that the unique id names, and really exchange their data.
// Operations run in order on the fake stream; ranks that disagree about an operation hang, as
// with the real one. Stricter than the real one: it wants blocking = 0, refuses calls while one is
// "in progress", and ends the process with 99 when ncclCommAbort is called while another thread is
// within NCCL. A group is one operation to the settings below.
//
//   FAKE_NCCL             the version to be (default 22809)
//   FAKE_NCCL_CUDA        the CUDA version it was built for (default 12000): with an older
//                         driver the initialisation fails, on that rank alone
//   FAKE_INIT=hang        initialisation never completes
//   FAKE_INIT=die         the process ends with 9 in the middle of it
//   FAKE_INIT=shm         it finds /dev/shm too small
//   FAKE_INIT=interface   it finds no network interface of the name that it was given
//   FAKE_ABORT=hang       ncclCommAbort never returns
//   FAKE_DESTROY=hang     ncclCommDestroy never returns
//   FAKE_STUCK_AT=n       the call of this rank's nth operation never returns (from 1);
//                         FAKE_STUCK_FILE is made when it is there
//   FAKE_IN_PROGRESS=n    calls are "in progress" for n polls
//   FAKE_HANG_AT=n        this rank's nth operation never completes (from 1)
//   FAKE_UNSEEN_AT=n      this rank's nth operation has all its data and gives its own, and
//                         never completes
//   FAKE_ERROR_AT=n       this rank's nth operation fails in the background
//   FAKE_COMM=n           FAKE_INIT=die and the n of operations are of this process's nth
//                         communicator (from 1), not of each
//   FAKE_OLD_WORDS=...    what ncclGetLastError says of something long ago
//   FAKE_NET=...          the network that it writes to its log, where NCCL_DEBUG=INFO and
//                         NCCL_DEBUG_FILE ask for one (default Socket; IB, IB/GDRDMA)
//   FAKE_SLOW_MS=n        each operation of this rank takes n ms longer
//   FAKE_SUMS=ring        sums begin with another rank in each slice of a buffer, so that
//                         they depend on its size; by default they have the ranks' order
//   FAKE_SUMS=nvls        sums differ from call to call besides
//   FAKE_RAS=1            it has a RAS, at NCCL_RAS_ADDR (ras.h)
//   FAKE_ALIGNED=1        what is sent begins at a multiple of 16 bytes; else the real one
//                         moves it byte by byte
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fakes/fake_nccl/exchange.h"
#include "tests/fakes/fake_nccl/fake_cuda.h"
#include "tests/fakes/fake_nccl/operations.h"
#include "tests/fakes/fake_nccl/ras.h"

namespace lockstep::fake_nccl {
namespace {

using collectives::cuda::Stream;
using collectives::nccl::Code;
using collectives::nccl::Comm;
using collectives::nccl::Config;
using collectives::nccl::Op;
using collectives::nccl::Type;
using collectives::nccl::UniqueId;

int Setting(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : std::atoi(value);
}

bool Is(const char* name, std::string_view wanted) {
  const char* value = std::getenv(name);
  return value != nullptr && value == wanted;
}
bool Hangs(const char* name) { return Is(name, "hang"); }

Order OrderOfSums() {
  if (Is("FAKE_SUMS", "ring")) return Order::kRing;
  return Is("FAKE_SUMS", "nvls") ? Order::kNvls : Order::kRanks;
}

// Whether FAKE_COMM means the process's `number`th communicator.
bool Means(int number) { return Setting("FAKE_COMM", number) == number; }

int SettingOf(int number, const char* name) { return Means(number) ? Setting(name, 0) : 0; }

[[noreturn]] void HangForever() {
  for (;;) pause();
}

// ncclGetLastError's; the interface has no better place for it than the thread.
std::string& LastError() {
  const char* old_words = std::getenv("FAKE_OLD_WORDS");
  thread_local std::string text = old_words == nullptr ? "" : old_words;
  return text;
}

Code Refuse(Code code, const std::string& why) {
  LastError() = why;
  return code;
}

}  // namespace
}  // namespace lockstep::fake_nccl

namespace lockstep::collectives::nccl {

namespace fake = lockstep::fake_nccl;

struct CommObject {
  CommObject(std::unique_ptr<fake::Exchange> shared, int my_rank, int ranks, int nth)
      : exchange(std::move(shared)),
        member(exchange.get(), my_rank, ranks, fake::OrderOfSums()),
        rank(my_rank),
        world(ranks),
        number(nth) {}

  std::unique_ptr<fake::Exchange> exchange;
  fake::Member member;
  const int rank;
  const int world;
  const int number;  // of the process, from 1
  const int hang_at = fake::SettingOf(number, "FAKE_HANG_AT");
  const int unseen_at = fake::SettingOf(number, "FAKE_UNSEEN_AT");
  const int stuck_at = fake::SettingOf(number, "FAKE_STUCK_AT");
  const int error_at = fake::SettingOf(number, "FAKE_ERROR_AT");
  const int slow_ms = fake::Setting("FAKE_SLOW_MS", 0);
  const int polls = fake::Setting("FAKE_IN_PROGRESS", 0);

  std::atomic<Code> state = Code::kInProgress;
  std::atomic<int> polls_left = 0;
  std::atomic<int> inside = 0;      // threads within a call on this communicator
  std::atomic<int> unfinished = 0;  // jobs on streams
  int operations = 0;
  uint64_t collectives = 0;
  std::map<int, uint64_t> sent;      // peer -> operations
  std::map<int, uint64_t> received;  // peer -> operations
  std::thread greeter;               // of init
};

}  // namespace lockstep::collectives::nccl

namespace lockstep::fake_nccl {
namespace {

// Counts the calling thread as within NCCL.
class Inside {
 public:
  explicit Inside(Comm comm) : comm_(comm) { comm_->inside.fetch_add(1); }
  ~Inside() { comm_->inside.fetch_sub(1); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  Comm comm_;
};

void RefuseOthersInside(Comm comm, const char* what) {
  if (comm->inside.load() == 0) return;
  std::fprintf(stderr, "fake NCCL: %s while another thread is within NCCL\n", what);
  _exit(99);
}

void Greet(Comm comm) {
  Exchange& exchange = *comm->exchange;
  if (Is("FAKE_INIT", "die") && Means(comm->number)) _exit(9);
  exchange.region().arrived.fetch_add(1);
  exchange.Ring();
  const bool hang = Hangs("FAKE_INIT");
  const bool all_here =
      exchange.WaitUntil([&] { return !hang && exchange.region().arrived.load() >= comm->world; });
  if (all_here) comm->state.store(Code::kSuccess);
}

void RunJobs(Comm comm, const std::vector<Job>& jobs, int operation) {
  Exchange& exchange = *comm->exchange;
  if (comm->slow_ms > 0) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(comm->slow_ms);
    exchange.WaitUntil([&] { return std::chrono::steady_clock::now() >= until; });
  }
  if (operation == comm->error_at) comm->state.store(Code::kRemoteError);
  if (operation == comm->error_at || operation == comm->hang_at)
    exchange.WaitUntil([] { return false; });
  comm->member.Run(jobs);
  if (operation == comm->unseen_at) exchange.WaitUntil([] { return false; });
  // Last of all: after it the communicator may be gone.
  comm->unfinished.fetch_sub(1);
}

// Why NCCL would refuse this now, or success.
Code Ready(Comm comm) {
  if (!HasContext()) return Refuse(Code::kUnhandledCudaError, "no current CUDA context");
  const Code state = comm->state.load();
  if (state == Code::kInProgress || comm->polls_left.load() > 0)
    return Refuse(Code::kInvalidUsage, "called while the last call is in progress");
  return state;
}

Code Progress(Comm comm) {
  if (comm->polls == 0) return Code::kSuccess;
  comm->polls_left.store(comm->polls);
  return Code::kInProgress;
}

// What a thread has called since ncclGroupStart.
struct Group {
  int depth = 0;
  Comm comm = nullptr;
  Stream stream = nullptr;
  std::vector<Job> jobs;
  Code refused = Code::kSuccess;  // the first error: nothing of the group is launched
};
Group& TheGroup() {
  thread_local Group group;
  return group;
}

Code Check(Comm comm, const Job& job, size_t in_bytes, size_t out_bytes) {
  if (const Code ready = Ready(comm); ready != Code::kSuccess) return ready;
  if ((in_bytes > 0 && !IsDeviceMemory(job.in, in_bytes)) ||
      (out_bytes > 0 && !IsDeviceMemory(job.out, out_bytes)))
    return Refuse(Code::kInvalidArgument, "a buffer is not in device memory");
  const bool sent = job.kind == Kind::kSend || job.kind == Kind::kReceive;
  const auto* at = static_cast<const char*>(job.kind == Kind::kSend ? job.in : job.out);
  if (sent && Is("FAKE_ALIGNED", "1") && reinterpret_cast<uintptr_t>(at) % 16 != 0)
    return Refuse(Code::kInvalidArgument, "what is sent is not aligned");
  if (job.type == Type::kBfloat16 &&
      (job.kind == Kind::kAllReduce || job.kind == Kind::kReduceScatter))
    return Refuse(Code::kInvalidArgument, "this fake adds no bfloat16");
  if (job.peer >= comm->world) return Refuse(Code::kInvalidArgument, "no such rank");
  return Code::kSuccess;
}

void Number(Comm comm, Job& job) {
  switch (job.kind) {
    case Kind::kSend:
      job.number = ++comm->sent[job.peer];
      break;
    case Kind::kReceive:
      job.number = ++comm->received[job.peer];
      break;
    default:
      job.number = ++comm->collectives;
  }
}

// As one operation of this rank's, for FAKE_*_AT.
Code LaunchAll(const Group& group) {
  Comm comm = group.comm;
  // A send to oneself and its receive go into one group, or nobody would ever take it.
  const auto to_self = [&](Kind kind) {
    return std::count_if(group.jobs.begin(), group.jobs.end(), [&](const Job& job) {
      return job.kind == kind && job.peer == comm->rank;
    });
  };
  if (to_self(Kind::kSend) != to_self(Kind::kReceive))
    return Refuse(Code::kInvalidUsage, "a send to oneself without its receive");
  const int operation = ++comm->operations;
  if (operation == comm->stuck_at) {
    const char* sign = std::getenv("FAKE_STUCK_FILE");
    if (sign != nullptr) close(open(sign, O_CREAT | O_CLOEXEC, 0600));
    HangForever();
  }
  comm->exchange->region().launched[static_cast<size_t>(comm->rank)].fetch_add(1);
  comm->unfinished.fetch_add(1);
  Enqueue(group.stream, [=, jobs = group.jobs] { RunJobs(comm, jobs, operation); });
  return Progress(comm);
}

Code Launch(Comm comm, Job job, size_t in_bytes, size_t out_bytes, Stream stream) {
  const Inside inside(comm);
  Group& group = TheGroup();
  Code checked = Check(comm, job, in_bytes, out_bytes);
  if (checked == Code::kSuccess && group.comm != nullptr &&
      (group.comm != comm || group.stream != stream))
    checked = Refuse(Code::kInvalidUsage, "this fake wants one stream in a group");
  if (checked != Code::kSuccess) {
    if (group.depth > 0 && group.refused == Code::kSuccess) group.refused = checked;
    return checked;
  }
  Number(comm, job);
  if (group.depth == 0) return LaunchAll({.comm = comm, .stream = stream, .jobs = {job}});
  group.comm = comm;
  group.stream = stream;
  group.jobs.push_back(job);
  return Code::kSuccess;
}

// The real one looks when it makes an id, and when it takes one.
Code FindInterface() {
  if (!Is("FAKE_INIT", "interface")) return Code::kSuccess;
  return Refuse(Code::kInvalidUsage, "Bootstrap : no socket interface found");
}

// As the real one: the file is opened anew by the first line of the process.
void Log(const std::string& text) {
  const char* name = std::getenv("NCCL_DEBUG_FILE");
  if (!Is("NCCL_DEBUG", "INFO") || name == nullptr) return;
  static std::FILE* file = std::fopen(name, "w");
  if (file == nullptr) return;
  std::fprintf(file, "machine:1:1 [0] NCCL INFO %s\n", text.c_str());
  std::fflush(file);
}

void LogNetwork(int rank, int ranks) {
  const char* setting = std::getenv("FAKE_NET");
  const std::string network = setting == nullptr ? "Socket" : setting;
  const std::string name = network.substr(0, network.find('/'));
  if (name == "Socket") Log("NET/IB : No device found.");
  Log("Using network " + name);
  if (ranks == 1) return;
  Log("Channel 00/0 : " + std::to_string(rank) + "[0] -> " + std::to_string((rank + 1) % ranks) +
      "[0] [send] via NET/" + name + "/0" + network.substr(name.size()));
}

// Stops what is under way and frees the communicator.
void End(Comm comm) {
  Ras::Forget(comm->exchange.get());
  comm->exchange->Stop();
  if (comm->greeter.joinable()) comm->greeter.join();
  while (comm->unfinished.load() > 0) std::this_thread::yield();
  delete comm;
}

}  // namespace
}  // namespace lockstep::fake_nccl

// NCCL's own names, as an external program sees them.
using namespace lockstep::fake_nccl;  // NOLINT(google-build-using-namespace)

extern "C" {

Code ncclGetVersion(int* version) {
  *version = Setting("FAKE_NCCL", 22809);
  return Code::kSuccess;
}

// As the real one, asks neither for a driver nor for a GPU.
Code ncclGetUniqueId(UniqueId* id) {
  *id = {};
  if (const Code network = FindInterface(); network != Code::kSuccess) return network;
  RegionId region;
  if (!Exchange::Make(&region)) return Refuse(Code::kSystemError, "no memory file");
  std::memcpy(id->bytes, &region, sizeof(region));
  return Code::kSuccess;
}

const char* ncclGetErrorString(Code code) {
  switch (code) {
    case Code::kUnhandledCudaError:
      return "unhandled cuda error";
    case Code::kRemoteError:
      return "remote process exited or there was a network error";
    case Code::kInvalidArgument:
      return "invalid argument";
    case Code::kInvalidUsage:
      return "invalid usage";
    case Code::kSystemError:
      return "unhandled system error";
    default:
      return "the fake's error";
  }
}

const char* ncclGetLastError(Comm) { return LastError().c_str(); }

Code ncclCommInitRankConfig(Comm* comm, int ranks, UniqueId id, int rank, Config* config) {
  *comm = nullptr;
  if (Setting("FAKE_DRIVER", 13000) < Setting("FAKE_NCCL_CUDA", 12000)) {
    return Refuse(Code::kUnhandledCudaError,
                  "Cuda failure 35 'CUDA driver version is insufficient for CUDA runtime version'");
  }
  if (const Code network = FindInterface(); network != Code::kSuccess) return network;
  if (Is("FAKE_INIT", "shm")) {
    return Refuse(
        Code::kSystemError,
        "Error while creating shared memory segment /dev/shm/nccl-x3V2Mu (size 33030528), "
        "error: No space left on device (28)");
  }
  if (!HasContext()) return Refuse(Code::kUnhandledCudaError, "no current CUDA context");
  if (config->magic != 0xcafebeef || config->size < sizeof(Config) || config->blocking != 0)
    return Refuse(Code::kInvalidArgument, "the fake wants a configuration with blocking = 0");
  if (ranks > kMaxRanks || rank < 0 || rank >= ranks)
    return Refuse(Code::kInvalidArgument, "rank or number of ranks");
  RegionId region;
  std::memcpy(&region, id.bytes, sizeof(region));
  std::unique_ptr<Exchange> exchange = Exchange::Open(region);
  if (exchange == nullptr) return Refuse(Code::kRemoteError, "the unique id's maker is gone");
  static std::atomic<int> made = 0;
  *comm = new lockstep::collectives::nccl::CommObject(std::move(exchange), rank, ranks, ++made);
  Ras::Tell((*comm)->exchange.get(), ranks);
  LogNetwork(rank, ranks);
  (*comm)->greeter = std::thread([made = *comm] { Greet(made); });
  return Code::kInProgress;
}

Code ncclCommGetAsyncError(Comm comm, Code* error) {
  const Inside inside(comm);
  *error = comm->state.load();
  if (*error != Code::kInProgress && comm->greeter.joinable()) comm->greeter.join();
  if (*error == Code::kSuccess && comm->polls_left.load() > 0) {
    comm->polls_left.fetch_sub(1);
    *error = Code::kInProgress;
  }
  return Code::kSuccess;
}

Code ncclCommFinalize(Comm comm) {
  const Inside inside(comm);
  if (const Code ready = Ready(comm); ready != Code::kSuccess) return ready;
  while (comm->unfinished.load() > 0) std::this_thread::yield();
  return Progress(comm);
}

Code ncclCommDestroy(Comm comm) {
  RefuseOthersInside(comm, "ncclCommDestroy");
  if (Hangs("FAKE_DESTROY")) HangForever();
  End(comm);
  return Code::kSuccess;
}

Code ncclCommAbort(Comm comm) {
  RefuseOthersInside(comm, "ncclCommAbort");
  if (Hangs("FAKE_ABORT")) HangForever();
  End(comm);
  return Code::kSuccess;
}

Code ncclGroupStart() {
  ++TheGroup().depth;
  return Code::kSuccess;
}

Code ncclGroupEnd() {
  Group& group = TheGroup();
  if (group.depth == 0) return Refuse(Code::kInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--group.depth > 0) return Code::kSuccess;
  const Group ended = std::exchange(group, {});
  if (ended.refused != Code::kSuccess) return ended.refused;
  if (ended.comm == nullptr) return Code::kSuccess;
  const Inside inside(ended.comm);
  return LaunchAll(ended);
}

Code ncclAllReduce(const void* in, void* out, size_t count, Type type, Op op, Comm comm,
                   Stream stream) {
  const size_t bytes = count * SizeOf(type);
  return Launch(comm, {Kind::kAllReduce, 0, in, out, count, type, op, -1}, bytes, bytes, stream);
}

Code ncclBroadcast(const void* in, void* out, size_t count, Type type, int root, Comm comm,
                   Stream stream) {
  const size_t bytes = count * SizeOf(type);
  return Launch(comm, {Kind::kBroadcast, 0, in, out, count, type, Op::kSum, root},
                comm->rank == root ? bytes : 0, bytes, stream);
}

Code ncclReduceScatter(const void* in, void* out, size_t out_count, Type type, Op op, Comm comm,
                       Stream stream) {
  const size_t bytes = out_count * SizeOf(type);
  return Launch(comm, {Kind::kReduceScatter, 0, in, out, out_count, type, op, -1},
                bytes * static_cast<size_t>(comm->world), bytes, stream);
}

Code ncclAllGather(const void* in, void* out, size_t in_count, Type type, Comm comm,
                   Stream stream) {
  const size_t bytes = in_count * SizeOf(type);
  return Launch(comm, {Kind::kAllGather, 0, in, out, in_count, type, Op::kSum, -1}, bytes,
                bytes * static_cast<size_t>(comm->world), stream);
}

Code ncclSend(const void* buffer, size_t count, Type type, int peer, Comm comm, Stream stream) {
  return Launch(comm, {Kind::kSend, 0, buffer, nullptr, count, type, Op::kSum, peer},
                count * SizeOf(type), 0, stream);
}

Code ncclRecv(void* buffer, size_t count, Type type, int peer, Comm comm, Stream stream) {
  return Launch(comm, {Kind::kReceive, 0, nullptr, buffer, count, type, Op::kSum, peer}, 0,
                count * SizeOf(type), stream);
}

}  // extern "C"

namespace lockstep::fake_nccl {
namespace {

// The types are those that nccl_abi_test.cc compares with the real header's.
[[maybe_unused]] constexpr collectives::nccl::Api kExported{
    .get_version = ncclGetVersion,
    .get_unique_id = ncclGetUniqueId,
    .get_error_string = ncclGetErrorString,
    .get_last_error = ncclGetLastError,
    .init_rank = ncclCommInitRankConfig,
    .get_async_error = ncclCommGetAsyncError,
    .finalize = ncclCommFinalize,
    .destroy = ncclCommDestroy,
    .abort = ncclCommAbort,
    .group_start = ncclGroupStart,
    .group_end = ncclGroupEnd,
    .all_reduce = ncclAllReduce,
    .broadcast = ncclBroadcast,
    .reduce_scatter = ncclReduceScatter,
    .all_gather = ncclAllGather,
    .send = ncclSend,
    .receive = ncclRecv};

}  // namespace
}  // namespace lockstep::fake_nccl
