#include "worker/trainer/cuda/engine/cuda_links.h"

#include <algorithm>
#include <utility>

namespace lockstep::trainer {

using collectives::CudaDevice;
using collectives::CudaEvent;
using collectives::DataType;

namespace {

// Of a step, at most: for each micro-batch an activation and its gradient are taken and handed on,
// at the ends of a pipeline the head's gradient in place of one of them; and wte once.
size_t OperationsOf(int mine) { return 4 * static_cast<size_t>(mine) + 1; }

}  // namespace

CudaLinks::CudaLinks(const Mesh& mesh, int mine, CudaGpt& model, collectives::Communicator& all,
                     std::vector<CudaEvent> events, CudaEvent summed)
    : mesh_(mesh),
      stage_(mesh.stage()),
      mine_(mine),
      held_(HeldMicroBatches(stage_, mine)),
      heads_(HeldHeads(stage_, mine)),
      joined_(!stage_.last() && HeldMicroBatches({stage_.index + 1, stage_.count}, mine) < held_),
      model_(model),
      all_(all),
      events_(std::move(events)),
      summed_(std::move(summed)),
      sent_heads_(static_cast<size_t>(heads_)) {
  if (mesh_.tensor == 1) return;
  model_.ShareBy([this](std::span<float> sum) { return ShareSum(sum); });
}

Result<std::unique_ptr<CudaLinks>> CudaLinks::Create(
    const std::shared_ptr<const CudaDevice>& device, const Mesh& mesh, int mine, CudaGpt& model,
    collectives::Communicator& all) {
  std::vector<CudaEvent> events;
  while (mesh.stages > 1 && events.size() < OperationsOf(mine)) {
    Result<CudaEvent> event = CudaEvent::Create(device);
    if (!event.ok()) return event.error();
    events.push_back(std::move(*event));
  }
  Result<CudaEvent> summed = CudaEvent::Create(device);
  if (!summed.ok()) return summed.error();
  return std::unique_ptr<CudaLinks>(
      new CudaLinks(mesh, mine, model, all, std::move(events), std::move(*summed)));
}

// The event is another sum's once MakeWait has returned.
Status CudaLinks::ShareSum(std::span<float> sum) {
  if (Status recorded = summed_.Record(model_.kernels().stream()); !recorded.ok()) return recorded;
  share_ = all_.AllReduceWithin(mesh_.Peers(), {sum.data(), sum.size(), DataType::kFloat32},
                                collectives::Reduction::kSum, "shards", &summed_);
  return Await(share_);
}

Status CudaLinks::Pass(std::span<const float> out, std::span<float> in, int stage, const char* tag,
                       collectives::Work* work) {
  const CudaEvent& event = events_[works_.size()];
  if (Status recorded = event.Record(model_.kernels().stream()); !recorded.ok()) return recorded;
  works_.push_back(all_.ExchangeAsync({out.data(), out.size(), DataType::kFloat32},
                                      {in.data(), in.size(), DataType::kFloat32},
                                      mesh_.RankOf(stage), tag, &event));
  if (work != nullptr) *work = works_.back();
  return {};
}

Status CudaLinks::BeforeForward(int i) {
  if (stage_.first()) return {};
  // Later ones came when a gradient was sent.
  if (i < held_) {
    Status taken = Pass({}, model_.Entry(SlotOf(i)), stage_.index - 1, "activations", &entry_);
    if (!taken.ok()) return taken;
  }
  return Await(entry_);
}

Status CudaLinks::AfterForward(int i) {
  if (stage_.last()) return {};
  const std::span<float> exit = model_.Exit(SlotOf(i));
  if (i >= held_ - 1 && CameWithSending(i - held_ + 1)) {
    return Pass(exit, model_.Gradient(), stage_.index + 1, "activations", &gradient_);
  }
  return Pass(exit, {}, stage_.index + 1, "activations");
}

Status CudaLinks::BeforeBackward(int i, float* dwte) {
  if (stage_.has_head_copy()) return Await(sent_heads_[static_cast<size_t>(i % heads_)]);
  if (stage_.last()) return {};
  if (!CameWithSending(i)) {
    Status taken = Pass({}, model_.Gradient(), stage_.index + 1, "gradient", &gradient_);
    if (!taken.ok()) return taken;
  }
  if (Status waits = Await(gradient_); !waits.ok() || !stage_.first()) return waits;
  collectives::Work head;
  Status taken = Pass({}, {dwte, model_.head_count()}, stage_.count - 1, "head's gradient", &head);
  return taken.ok() ? Await(head) : taken;
}

Status CudaLinks::AfterBackward(int i) {
  if (stage_.first()) return {};
  const bool more = i + held_ < mine_;
  const std::span<float> entry = more ? model_.Entry(SlotOf(i + held_)) : std::span<float>();
  Status passed =
      Pass(model_.Gradient(), entry, stage_.index - 1, "gradient", more ? &entry_ : nullptr);
  if (!passed.ok() || !stage_.last()) return passed;
  const int due = i - heads_ + 1;
  for (int k = std::max(due, 0); passed.ok() && k <= (i == mine_ - 1 ? i : due); ++k) {
    passed = SendHead(k);
  }
  return passed;
}

Status CudaLinks::SendHead(int i) {
  const auto head = static_cast<size_t>(i % heads_);
  return Pass(model_.HeadGradient(head), {}, 0, "head's gradient", &sent_heads_[head]);
}

Status CudaLinks::HandOnHead(float* wte) {
  if (stage_.count == 1) return {};
  const std::span<float> head(wte, model_.head_count());
  if (stage_.first()) return Pass(head, {}, stage_.count - 1, "head");
  if (!stage_.last()) return {};
  collectives::Work work;
  Status passed = Pass({}, head, 0, "head", &work);
  if (passed.ok()) passed = Await(work);
  return passed.ok() ? model_.UpdateHead() : passed;
}

Status CudaLinks::TakeEntry() {
  if (stage_.first()) return {};
  Status taken = Pass({}, model_.Entry(0), stage_.index - 1, "activations", &entry_);
  return taken.ok() ? Await(entry_) : taken;
}

Status CudaLinks::HandOnExit() {
  if (stage_.last()) return {};
  return Pass(model_.Exit(0), {}, stage_.index + 1, "activations");
}

Status CudaLinks::Finish() {
  // After a failure nothing works any more, so the last sum tells of all.
  Status done = share_.Wait();
  for (collectives::Work& work : works_) {
    if (done.ok()) done = work.Wait();
  }
  works_.clear();
  std::fill(sent_heads_.begin(), sent_heads_.end(), collectives::Work());
  return done;
}

}  // namespace lockstep::trainer
