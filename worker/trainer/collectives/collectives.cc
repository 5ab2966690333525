#include "worker/trainer/collectives/collectives.h"

#include "worker/trainer/collectives/cuda/cuda.h"
#include "worker/trainer/collectives/work.h"

namespace lockstep::collectives {

size_t SizeOf(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return sizeof(float);
    case DataType::kInt64:
      return sizeof(int64_t);
    case DataType::kBFloat16:
      return 2;
    case DataType::kByte:
      break;
  }
  return 1;
}

std::string ToString(const MachineNetwork& network) {
  if (network.name.empty()) return "";
  std::string text = ", between machines by " + (network.by_tcp() ? "TCP" : network.name);
  if (network.by_tcp() || !network.direct) return text;
  return text + (*network.direct ? " with" : " without") + " GPUDirect RDMA";
}

Status Work::Wait() {
  if (!state_) return {};
  const MutexLock lock(&state_->mutex);
  while (!state_->done.load(std::memory_order_acquire)) state_->changed.wait(state_->mutex);
  return state_->status;
}

Status Work::MakeWait(const CudaStream& stream) {
  if (!state_) return {};
  const MutexLock lock(&state_->mutex);
  while (state_->end == nullptr && !state_->done.load(std::memory_order_acquire)) {
    state_->changed.wait(state_->mutex);
  }
  // Under the lock: the event may be another operation's once this one is done.
  if (state_->done.load(std::memory_order_acquire)) return state_->status;
  return stream.WaitFor(*state_->end);
}

namespace {

Work Refused(const std::string& why) {
  auto state = std::make_shared<Work::State>();
  state->Complete(Error::Invalid(why));
  return Work(std::move(state));
}

}  // namespace

Work Communicator::AllReduceWithin(const RankGroup&, Span, Reduction, std::string_view,
                                   const CudaEvent*) {
  return Refused("this Communicator adds up over all ranks only");
}

Work Communicator::AllGatherAsync(ConstSpan, Span, std::string_view, const CudaEvent*) {
  return Refused("only operations in device memory can begin after an event");
}

Work Communicator::ExchangeAsync(ConstSpan, Span, int, std::string_view, const CudaEvent*) {
  return Refused("only operations in device memory can begin after an event");
}

Status Communicator::Post(ConstSpan, int, int, std::string_view) {
  return Error::Invalid("only Gloo posts messages, in host memory");
}

bool Work::done() const { return !state_ || state_->done.load(std::memory_order_acquire); }

}  // namespace lockstep::collectives
