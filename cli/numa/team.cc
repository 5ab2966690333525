#include "cli/numa/team.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>

#include "base/thread.h"
#include "worker/topology/binding/placed_memory.h"

namespace lockstep::numa {
namespace {

using topology::PlacedMemory;

constexpr size_t kSteps = 1 << 20;  // of a chase
// Smaller arrays are run through several times, because the clock takes some 30 ns.
constexpr size_t kLeastPass = size_t{1} << 20;  // bytes of one array
// Short messages go there and back so often as fits into kExchange, by the time of the first ones:
// on an emulated processor each can take a turn of the emulator.
constexpr uint32_t kFirstRounds = 16;
constexpr uint32_t kMostRounds = 20'000;
constexpr int64_t kExchange = 20'000'000;  // ns
constexpr uint32_t kMessages = 16;         // large ones of a pass
constexpr uint32_t kSlots = 2;             // that a sender may be ahead
constexpr uint32_t kSpins = 1 << 16;       // until a waiting worker looks around

struct Span {
  int64_t start = 0, end = 0;  // ns
};

struct WorkerResult {
  const char* failed = nullptr;  // the step; a constant, so that it means the same in a child
  int failed_errno = 0;
  std::array<std::array<Span, kPasses>, kKernels.size()> spans{};
  double nanoseconds = 0;
  double message_seconds = 0;
  PlacedMemory::Pages pages;
  int mbind_errno = 0;
  bool huge_pages = false;
  Counts counts;
};

// What two processes exchange. Each counter has a cache line of its own.
struct Mailbox {
  std::atomic<uint32_t> rounds;
  alignas(64) std::atomic<uint32_t> turn;
  alignas(64) std::atomic<uint32_t> sent;
  alignas(64) std::atomic<uint32_t> taken;
  alignas(4096) std::array<std::array<char, kMessageBytes>, kSlots> slots;
};

// Lies in memory that processes share; the workers' results stand behind it.
struct Shared {
  Mailbox* mailbox;  // null without messages
  pthread_barrier_t barrier;
  std::atomic<bool> leave;
  WorkerResult results[];  // NOLINT(modernize-avoid-c-arrays)
};

int64_t Now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

class Worker {
 public:
  Worker(const TeamWork& work, size_t index, const std::atomic<bool>& stop, Shared* shared)
      : work_(work), index_(index), stop_(stop), shared_(shared), me_(shared->results[index]) {}

  void Run() {
    if (work_.task == Task::kMessages) return Exchange();
    const size_t elements = work_.bytes / sizeof(double) / work_.cpus.size();
    const bool chase = work_.task == Task::kChase;
    PlacedMemory area(chase ? work_.bytes : 3 * elements * sizeof(double));
    if (area.begin() == nullptr) {
      Fail("allocating memory");
    } else if (!area.Place(work_.memory) || (Cpu() >= 0 && !topology::PinTo(Cpu()))) {
      Fail("sched_setaffinity");
    } else if (chase) {
      return FollowPointers(area);
    }
    Stream(area, elements);
  }

 private:
  int Cpu() const { return work_.cpus[index_]; }

  void Fail(const char* step) {
    me_.failed = step;
    me_.failed_errno = errno;
    shared_->leave = true;
  }

  // Waits for all workers. False: all of them leave here, for one failed or was told to stop.
  bool Together() {
    if (stop_) shared_->leave = true;
    pthread_barrier_wait(&shared_->barrier);
    const bool leave = shared_->leave;
    // Nobody sets it again before everybody has read it.
    pthread_barrier_wait(&shared_->barrier);
    return !leave;
  }

  void Evidence(const PlacedMemory& area) {
    me_.pages = area.Count(work_.memory);
    me_.mbind_errno = area.mbind_errno();
    me_.huge_pages = area.huge_pages();
  }

  void Stream(const PlacedMemory& area, size_t elements) {
    if (!Together()) return;
    auto* a = reinterpret_cast<double*>(area.begin());
    double* b = a + elements;
    double* c = b + elements;
    const size_t repeats = std::max<size_t>(kLeastPass / sizeof(double) / elements, 1);
    const Values first;
    for (size_t i = 0; i < elements; ++i) {
      a[i] = first.a;
      b[i] = first.b;
      c[i] = first.c;
    }
    Counters counters;
    counters.Start();
    for (size_t pass = 0; pass < kPasses; ++pass) {
      for (size_t kernel = 0; kernel < kKernels.size(); ++kernel) {
        if (!Together()) return;
        Span& span = me_.spans[kernel][pass];
        span.start = Now();
        // Each kernel has the same result however often it runs.
        for (size_t i = 0; i < repeats; ++i) {
          RunKernel(kKernels[kernel].kernel, a, b, c, elements);
        }
        span.end = span.start + (Now() - span.start) / static_cast<int64_t>(repeats);
      }
    }
    me_.counts = counters.Stop();
    const Values last = After(kPasses);
    for (size_t i = 0; i < elements; i += 509) {
      if (a[i] == last.a && b[i] == last.b && c[i] == last.c) continue;
      errno = EIO;
      return Fail("checking the kernels' results");
    }
    Evidence(area);
  }

  void FollowPointers(const PlacedMemory& area) {
    auto* lines = reinterpret_cast<Line*>(area.begin());
    const size_t count = work_.bytes / sizeof(Line);
    for (size_t i = 0; i < count; ++i) lines[i].next = NextLine(i, count);
    if (!Together()) return;
    // A short way first, for the TLB and the clock.
    size_t at = Chase(lines, 0, kSteps / 8);
    Counters counters;
    counters.Start();
    const int64_t start = Now();
    at = Chase(lines, at, kSteps);
    me_.nanoseconds = static_cast<double>(Now() - start) / kSteps;
    me_.counts = counters.Stop();
    if (at >= count) return Fail("following pointers");
    Evidence(area);
  }

  // Until `counter` is at least `value`. False: the others leave.
  bool Await(const std::atomic<uint32_t>& counter, uint32_t value) {
    for (uint32_t spins = 0; counter.load(std::memory_order_acquire) < value; ++spins) {
      if (spins < kSpins) continue;
      if (stop_) shared_->leave = true;
      if (shared_->leave) return false;
      sched_yield();  // the other may share this CPU
      spins = 0;
    }
    return true;
  }

  // Worker 0 sends. Its counters only grow.
  void Exchange() {
    Mailbox& mailbox = *shared_->mailbox;
    std::vector<char> own;
    if (Cpu() >= 0 && !topology::PinTo(Cpu())) {
      Fail("sched_setaffinity");
    } else {
      own.assign(kMessageBytes, static_cast<char>(index_ == 0 ? 1 : 0));
      if (index_ == 0) {
        for (auto& slot : mailbox.slots) slot.fill(0);
      }
    }
    if (!Together()) return;
    const int64_t first = Now();
    if (!Pass(mailbox.turn, kFirstRounds, 0)) return;
    if (index_ == 0) {
      const int64_t each = std::max<int64_t>((Now() - first) / kFirstRounds, 1);
      mailbox.rounds =
          static_cast<uint32_t>(std::clamp<int64_t>(kExchange / each, kFirstRounds, kMostRounds));
    }
    if (!Together()) return;
    const uint32_t rounds = mailbox.rounds;
    const int64_t start = Now();
    if (!Pass(mailbox.turn, rounds, kFirstRounds)) return;
    me_.nanoseconds = static_cast<double>(Now() - start) / (2.0 * rounds);
    int64_t best = INT64_MAX;
    for (uint32_t pass = 0; pass < kPasses; ++pass) {
      if (!Together()) return;
      const int64_t began = Now();
      for (uint32_t i = pass * kMessages; i < (pass + 1) * kMessages; ++i) {
        std::array<char, kMessageBytes>& slot = mailbox.slots.at(i % kSlots);
        if (index_ == 0) {
          own[0] = static_cast<char>(i);
          if (i >= kSlots && !Await(mailbox.taken, i + 1 - kSlots)) return;
          std::memcpy(slot.data(), own.data(), slot.size());
          mailbox.sent.store(i + 1, std::memory_order_release);
        } else {
          if (!Await(mailbox.sent, i + 1)) return;
          std::memcpy(own.data(), slot.data(), slot.size());
          mailbox.taken.store(i + 1, std::memory_order_release);
          if (own[0] == static_cast<char>(i) && own.back() == 1) continue;
          errno = EIO;
          return Fail("checking a message");
        }
      }
      if (pass > 0) best = std::min(best, Now() - began);
    }
    me_.message_seconds = static_cast<double>(best) / 1e9 / kMessages;
  }

  // `rounds` short messages there and back, after `before` of them.
  bool Pass(std::atomic<uint32_t>& turn, uint32_t rounds, uint32_t before) {
    const auto own = static_cast<uint32_t>(index_);
    for (uint32_t i = before; i < before + rounds; ++i) {
      if (!Await(turn, 2 * i + own)) return false;
      turn.store(2 * i + own + 1, std::memory_order_release);
    }
    return Await(turn, 2 * (before + rounds));
  }

  const TeamWork& work_;
  const size_t index_;
  const std::atomic<bool>& stop_;
  Shared* shared_;
  WorkerResult& me_;
};

// Ends what is left of the children, however RunTeam is left.
class Children {
 public:
  ~Children() { KillAll(); }
  void Add(pid_t pid) { pids_.push_back(pid); }
  void KillAll() {
    for (const pid_t pid : pids_) kill(pid, SIGKILL);
    for (const pid_t pid : pids_) waitpid(pid, nullptr, 0);
    pids_.clear();
  }
  // Until all have ended, or `stop` was set by a signal that came to this process alone: then some
  // are left. False: one was killed, or ended with an error; then the others wait for it in vain.
  bool WaitForAll(const std::atomic<bool>& stop) {
    while (!pids_.empty() && !stop) {
      siginfo_t end{};
      // Ours are the only children of this process.
      if (waitid(P_ALL, 0, &end, WEXITED | WNOWAIT) != 0) {
        if (errno == EINTR) continue;
        return false;
      }
      waitpid(end.si_pid, nullptr, 0);
      std::erase(pids_, end.si_pid);
      if (end.si_code != CLD_EXITED || end.si_status != 0) return false;
    }
    return true;
  }

 private:
  std::vector<pid_t> pids_;
};

bool RunProcesses(const TeamWork& work, const std::atomic<bool>& stop, Shared* shared) {
  Children children;
  const pid_t parent = getpid();
  for (size_t i = 0; i < work.cpus.size(); ++i) {
    const pid_t pid = fork();
    if (pid < 0) {
      shared->results[i].failed = "fork";
      shared->results[i].failed_errno = errno;
      return true;  // the children wait for it in vain: ~Children ends them
    }
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() == parent) Worker(work, i, stop, shared).Run();
      _exit(0);
    }
    children.Add(pid);
  }
  return children.WaitForAll(stop);
}

void RunThreads(const TeamWork& work, const std::atomic<bool>& stop, Shared* shared) {
  // Nobody begins before everybody is there: the barrier would wait for the missing ones for ever.
  enum class Gate { kClosed, kWork, kLeave };
  std::atomic<Gate> gate = Gate::kClosed;
  const auto open = [&gate](Gate way) {
    gate = way;
    gate.notify_all();
  };
  ThreadGroup threads;
  Status started;
  for (size_t i = 0; i < work.cpus.size() && started.ok(); ++i) {
    started = threads.Start([&, i] {
      gate.wait(Gate::kClosed);
      if (gate == Gate::kWork) Worker(work, i, stop, shared).Run();
    });
  }
  if (!started.ok()) {
    WorkerResult& missing = shared->results[threads.size()];
    missing.failed = "starting a thread";
    missing.failed_errno = EAGAIN;
  }
  open(started.ok() ? Gate::kWork : Gate::kLeave);
}

TeamResult Merge(const TeamWork& work, const Shared& shared) {
  TeamResult team;
  for (size_t kernel = 0; kernel < kKernels.size() && work.task == Task::kStream; ++kernel) {
    int64_t best = INT64_MAX;
    for (size_t pass = 1; pass < kPasses; ++pass) {
      int64_t start = INT64_MAX;
      int64_t end = 0;
      for (size_t i = 0; i < work.cpus.size(); ++i) {
        start = std::min(start, shared.results[i].spans[kernel][pass].start);
        end = std::max(end, shared.results[i].spans[kernel][pass].end);
      }
      best = std::min(best, end - start);
    }
    team.seconds[kernel] = static_cast<double>(std::max<int64_t>(best, 1)) / 1e9;
  }
  team.nanoseconds = shared.results[0].nanoseconds;
  team.message_seconds = shared.results[work.cpus.size() - 1].message_seconds;
  team.mbind_errno = shared.results[0].mbind_errno;
  team.huge_pages = shared.results[0].huge_pages;
  team.counts.errors = shared.results[0].counts.errors;
  for (size_t i = 0; i < work.cpus.size(); ++i) {
    const WorkerResult& worker = shared.results[i];
    team.pages += worker.pages.all;
    team.pages_placed += worker.pages.placed;
    for (size_t c = 0; c < worker.counts.values.size(); ++c) {
      team.counts.values[c] += worker.counts.values[c];
    }
  }
  return team;
}

}  // namespace

Result<TeamResult> RunTeam(const TeamWork& work, const std::atomic<bool>& stop) {
  const size_t bytes = sizeof(Shared) + work.cpus.size() * sizeof(WorkerResult);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return ErrnoError("sharing memory with the workers", errno);
  const auto unmap = [bytes](void* p) { munmap(p, bytes); };
  const std::unique_ptr<void, decltype(unmap)> owner(memory, unmap);
  auto* shared = new (memory) Shared{};
  void* mailbox = nullptr;
  if (work.task == Task::kMessages) {
    mailbox =
        mmap(nullptr, sizeof(Mailbox), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mailbox == MAP_FAILED) return ErrnoError("sharing memory for messages", errno);
    shared->mailbox = new (mailbox) Mailbox;
  }
  const auto unmap_mailbox = [](void* p) { munmap(p, sizeof(Mailbox)); };
  const std::unique_ptr<void, decltype(unmap_mailbox)> mailbox_owner(mailbox, unmap_mailbox);
  for (size_t i = 0; i < work.cpus.size(); ++i) new (&shared->results[i]) WorkerResult();
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->barrier, &attributes, static_cast<unsigned>(work.cpus.size()));
  pthread_barrierattr_destroy(&attributes);

  bool whole = true;
  if (work.processes) {
    whole = RunProcesses(work, stop, shared);
  } else {
    RunThreads(work, stop, shared);
  }
  for (size_t i = 0; i < work.cpus.size(); ++i) {
    const WorkerResult& worker = shared->results[i];
    if (worker.failed == nullptr) continue;
    return ErrnoError("worker " + std::to_string(i) + ": " + worker.failed, worker.failed_errno);
  }
  if (stop || shared->leave) return Error::Unavailable("interrupted");
  if (!whole) return Error::Unavailable("a worker was killed; is there too little memory?");
  return Merge(work, *shared);
}

}  // namespace lockstep::numa
