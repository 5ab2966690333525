// Every rank gets the whole sum, bucket by bucket while backward goes on, and makes the whole step.
#include <string>
#include <vector>

#include "worker/trainer/engine/buckets.h"
#include "worker/trainer/engine/sync.h"

namespace lockstep::trainer {

namespace {

class AllReduceSync : public Sync {
 public:
  AllReduceSync(Replica& replica, collectives::Communicator& all, Threads& threads,
                const SyncOptions& options)
      : replica_(&replica),
        all_(&all),
        threads_(&threads),
        overlap_(options.overlap),
        buckets_(CutBuckets(replica.parameters.size() + kTailSize, options.bucket_bytes)) {
    for (size_t i = 0; i < buckets_.size(); ++i) tags_.push_back("bucket " + std::to_string(i));
  }

  void Begin(std::span<float> sum) override {
    sum_ = sum;
    works_.clear();
  }

  void Ready(size_t from) override {
    if (overlap_) Issue(from);
  }

  Result<StepResult> Finish(const StepOptions& options) override {
    const Time began = BootTime();
    Issue(0);
    for (collectives::Work& work : works_) {
      Status done = work.Wait();
      if (!done.ok()) return done.error();
    }
    const Time reduced = BootTime();
    const std::span<float> gradients = sum_.first(replica_->parameters.size());
    const std::span<float> tail = sum_.subspan(gradients.size());
    StepResult result;
    result.loss = tail[kTailLoss] / static_cast<double>(options.micro_batches);
    result.stop = tail[kTailStop] > 0;
    const Scale scale = ScaleOf(SumOfSquares(gradients, 1.0, *threads_), result.loss, options);
    result.gradient_norm = scale.norm;
    result.skipped = !scale.finite;
    if (scale.finite) {
      AdamWStep(replica_->layout, 0, replica_->parameters, gradients, replica_->moment1,
                replica_->moment2, options.t, options.learning_rate, scale.value, options.adamw,
                *threads_);
    }
    result.waited = reduced - began;
    result.updating = BootTime() - reduced;
    return result;
  }

  Status GatherMoments() override { return {}; }
  bool HasAllMoments() const override { return true; }

 private:
  void Issue(size_t from) {
    if (all_->world() == 1) return;
    while (works_.size() < buckets_.size() && from <= buckets_[works_.size()].begin) {
      const Bucket& bucket = buckets_[works_.size()];
      works_.push_back(all_->AllReduceAsync(
          {sum_.data() + bucket.begin, bucket.end - bucket.begin, collectives::DataType::kFloat32},
          collectives::Reduction::kSum, tags_[works_.size()]));
    }
  }

  Replica* replica_;
  collectives::Communicator* all_;
  Threads* threads_;
  bool overlap_;
  std::vector<Bucket> buckets_;
  std::vector<std::string> tags_;
  std::span<float> sum_;
  std::vector<collectives::Work> works_;
};

}  // namespace

std::unique_ptr<Sync> MakeAllReduceSync(Replica& replica, collectives::Communicator& all,
                                        Threads& threads, const SyncOptions& options) {
  return std::make_unique<AllReduceSync>(replica, all, threads, options);
}

}  // namespace lockstep::trainer
