// A fixed set of threads that share loops. How a loop is cut into blocks never depends on the
// number of threads, so neither do the bits of what is computed.
#ifndef LOCKSTEP_WORKER_TRAINER_PROCESS_PARALLEL_H_
#define LOCKSTEP_WORKER_TRAINER_PROCESS_PARALLEL_H_

#include <cstddef>
#include <functional>
#include <memory>

namespace lockstep::trainer {

class Threads {
 public:
  // `count` threads in all, the caller's among them. The others sleep between loops after a short
  // spin.
  explicit Threads(int count);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  int count() const;

  // Calls `block(i)` once for each i in [0, blocks), in no order, and returns when all are done.
  // From one thread at a time; not from within a block.
  void For(size_t blocks, const std::function<void(size_t)>& block);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_PROCESS_PARALLEL_H_
