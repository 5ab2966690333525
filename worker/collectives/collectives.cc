#include "worker/collectives/collectives.h"

#include "worker/collectives/work.h"

namespace lockstep::collectives {

size_t SizeOf(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return sizeof(float);
    case DataType::kInt64:
      return sizeof(int64_t);
    case DataType::kByte:
      break;
  }
  return 1;
}

Status Work::Wait() {
  if (!state_) return {};
  const MutexLock lock(&state_->mutex);
  while (!state_->done.load(std::memory_order_acquire)) state_->changed.wait(state_->mutex);
  return state_->status;
}

bool Work::done() const { return !state_ || state_->done.load(std::memory_order_acquire); }

}  // namespace lockstep::collectives
