#include "worker/trainer/process/parallel.h"

#include <atomic>
#include <cassert>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "base/thread.h"

namespace lockstep::trainer {
namespace {

constexpr int kSpins = 4000;  // some 20 to 100 microseconds: the gap between two loops of a layer

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Returns when `value` differs from `old`.
void AwaitChange(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    Pause();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace

// `ticket` hands out a loop's blocks, the last one first. Its high half is the loop's number, so
// that a thread that wakes up late, during the next loop, takes no block by mistake; and nobody
// waits for a thread that took no block. `body` changes only between loops, and a loop ends only
// when every block that was taken is done.
struct Threads::State {
  std::atomic<uint64_t> ticket{0};  // loop << 32 | blocks not yet taken
  std::atomic<const std::function<void(size_t)>*> body{nullptr};
  std::atomic<uint32_t> loop{0};  // what the threads sleep on
  std::atomic<uint32_t> left{0};  // blocks of this loop not yet done; what the caller sleeps on
  std::atomic<bool> stop{false};
  ThreadGroup threads;

  bool Take(uint32_t of, size_t* block);
  void Work(uint32_t of);
  void Serve();
  void AwaitEnd();
};

bool Threads::State::Take(uint32_t of, size_t* block) {
  uint64_t seen = ticket.load(std::memory_order_acquire);
  while (true) {
    const auto waiting = static_cast<uint32_t>(seen);
    if (static_cast<uint32_t>(seen >> 32) != of || waiting == 0) return false;
    *block = waiting - 1;
    if (ticket.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel)) return true;
  }
}

void Threads::State::Work(uint32_t of) {
  size_t block = 0;
  while (Take(of, &block)) {
    (*body.load(std::memory_order_acquire))(block);
    if (left.fetch_sub(1, std::memory_order_acq_rel) == 1) left.notify_all();
  }
}

void Threads::State::Serve() {
  uint32_t seen = 0;
  while (true) {
    AwaitChange(loop, seen);
    if (stop.load(std::memory_order_acquire)) return;
    seen = loop.load(std::memory_order_acquire);
    Work(seen);
  }
}

void Threads::State::AwaitEnd() {
  while (true) {
    const uint32_t now = left.load(std::memory_order_acquire);
    if (now == 0) return;
    AwaitChange(left, now);
  }
}

Threads::Threads(int count) : state_(std::make_unique<State>()) {
  assert(count >= 1);
  // With fewer of them, where the system has no more, the same blocks take longer.
  for (int i = 1; i < count; ++i) {
    if (!state_->threads.Start([this] { state_->Serve(); }).ok()) break;
  }
}

Threads::~Threads() {
  state_->stop.store(true, std::memory_order_release);
  state_->loop.fetch_add(1, std::memory_order_acq_rel);
  state_->loop.notify_all();
  state_->threads.Join();
}

int Threads::count() const { return static_cast<int>(state_->threads.size()) + 1; }

void Threads::For(size_t blocks, const std::function<void(size_t)>& block) {
  assert(blocks < UINT32_MAX);
  if (blocks <= 1 || state_->threads.size() == 0) {
    for (size_t i = 0; i < blocks; ++i) block(i);
    return;
  }
  State& s = *state_;
  const uint32_t number = s.loop.load(std::memory_order_relaxed) + 1;
  s.body.store(&block, std::memory_order_release);
  s.left.store(static_cast<uint32_t>(blocks), std::memory_order_release);
  s.ticket.store((uint64_t{number} << 32) | blocks, std::memory_order_release);
  s.loop.store(number, std::memory_order_release);
  s.loop.notify_all();
  s.Work(number);
  s.AwaitEnd();
}

}  // namespace lockstep::trainer
