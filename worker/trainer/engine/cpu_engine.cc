#include <utility>
#include <vector>

#include "worker/trainer/engine/engine.h"
#include "worker/trainer/engine/gradient_tree.h"

namespace lockstep::trainer {

namespace {

class CpuEngine final : public Engine {
 public:
  CpuEngine(const EngineOptions& options, Replica& replica, std::unique_ptr<Sync> sync,
            Threads& threads)
      : replica_(&replica),
        sync_(std::move(sync)),
        threads_(&threads),
        model_(replica.shape, options.batch.micro_batch, options.precision, threads),
        tree_(replica.parameters.size() + kTailSize, options.batch.mine, threads),
        inputs_(static_cast<size_t>(options.batch.micro_batch) *
                static_cast<size_t>(replica.shape.context)),
        targets_(inputs_.size()) {}

  Result<StepResult> Step(const StepOptions& options, const ReadBatch& read) override {
    times_ = {};
    sync_->Begin(tree_.total());
    Status summed = tree_.Sum(
        [&](int i, std::span<float> out, const Complete& complete) {
          return MicroBatch(i, i == 0 && options.stop, read, out, complete);
        },
        [this](size_t from) { sync_->Ready(from); });
    if (!summed.ok()) return summed.error();
    if (options.before_update) options.before_update();
    Result<StepResult> done = sync_->Finish(options);
    if (done.ok()) done->times = times_;
    return done;
  }

  // Without a Finish since, the replica is what the last step left.
  Status UpdateReplica() override { return sync_->GatherMoments(); }
  Result<uint64_t> HashOfReplica() override {
    return HashOf(*replica_, sync_->HasAllMoments(), *threads_);
  }

 private:
  Status MicroBatch(int i, bool stop, const ReadBatch& read, std::span<float> out,
                    const Complete& complete) {
    Time at = BootTime();
    const auto lap = [&at] { return -(std::exchange(at, BootTime()) - at); };
    Status filled = read(i, inputs_, targets_);
    if (!filled.ok()) return filled;
    times_.data += lap();
    const float loss = model_.Forward(replica_->parameters, inputs_, targets_);
    times_.forward += lap();
    const size_t size = replica_->parameters.size();
    out[size + kTailLoss] = loss;
    out[size + kTailStop] = stop ? 1.0F : 0.0F;
    model_.Backward(replica_->parameters, out.first(size), complete);
    times_.backward += lap();
    return {};
  }

  Replica* replica_;
  std::unique_ptr<Sync> sync_;
  Threads* threads_;
  Gpt<float> model_;
  GradientTree tree_;
  std::vector<int32_t> inputs_;   // [B, T]
  std::vector<int32_t> targets_;  // [B, T]
  StepTimes times_;               // of the step
};

}  // namespace

Result<std::unique_ptr<Engine>> MakeCpuEngine(const EngineOptions& options, Replica& replica,
                                              collectives::Communicator& all, Threads& threads) {
  std::unique_ptr<Sync> sync;
  if (options.sync == core::Sync::kAllReduce) {
    sync = MakeAllReduceSync(replica, all, threads, options.sync_options);
  } else {
    Result<std::unique_ptr<Sync>> made =
        MakeParameterServerSync(replica, all, threads, options.sync_options);
    if (!made.ok()) return made.error();
    sync = std::move(*made);
  }
  return std::unique_ptr<Engine>(
      std::make_unique<CpuEngine>(options, replica, std::move(sync), threads));
}

}  // namespace lockstep::trainer
