// Every rank gets the whole sum, bucket by bucket while backward goes on, and makes the whole step.
#include <algorithm>
#include <string>
#include <vector>

#include "worker/trainer/engine/buckets.h"
#include "worker/trainer/engine/mesh.h"
#include "worker/trainer/engine/sync.h"
#include "worker/trainer/model/shards.h"

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
        mesh_(Mesh::Of(options.parallel, all.rank(), all.world())),
        buckets_(BucketsOf(replica.stage, options)) {
    // All ranks issue as many: stages that have fewer, empty ones.
    size_t most = 0;
    for (int i = 0; i < mesh_.stages; ++i) {
      most = std::max(most, BucketsOf(mesh_.StageOf(i, mesh_.part()), options).size());
    }
    buckets_.resize(most);
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
    const std::span<float> gradients = sum_.first(replica_->moment1.size());
    Result<Outcome> outcome = Share(gradients, sum_.subspan(gradients.size()));
    if (!outcome.ok()) return outcome.error();
    StepResult result;
    result.loss = outcome->loss / static_cast<double>(options.micro_batches);
    result.stop = outcome->stop;
    const Scale scale = ScaleOf(TreeSum(outcome->squares), result.loss, options);
    result.gradient_norm = scale.norm;
    result.skipped = !scale.finite;
    if (scale.finite) {
      AdamWStep(replica_->layout, 0, replica_->owned(), gradients, replica_->moment1,
                replica_->moment2, options.t, options.learning_rate, scale.value, options.adamw,
                *threads_);
      if (Status handed = HandOnHead(); !handed.ok()) return handed.error();
    }
    result.waited = reduced - began;
    result.updating = BootTime() - reduced;
    return result;
  }

  Status GatherMoments() override { return {}; }
  bool HasAllMoments() const override { return true; }

 private:
  // Of the whole model, at the end of a step.
  struct Outcome {
    double loss = 0;  // summed
    bool stop = false;
    std::vector<double> squares;  // of the gradient's pieces
  };

  std::vector<Bucket> BucketsOf(const Stage& stage, const SyncOptions& options) const {
    return CutBuckets(OwnedCount(replica_->shape, stage) + kTailSize, options.bucket_bytes);
  }

  // What each rank of a pipeline knows, all get to know.
  Result<Outcome> Share(std::span<const float> gradients, std::span<const float> tail) const {
    Outcome mine{tail[kTailLoss], tail[kTailStop] > 0,
                 SquaresOf(replica_->layout, gradients, *threads_)};
    if (mesh_.ranks() == 1) return mine;
    size_t most = 0;
    std::vector<size_t> pieces;  // of a rank of each stage
    for (int i = 0; i < mesh_.stages; ++i) {
      pieces.push_back(PieceCount(Parameters(replica_->shape, mesh_.StageOf(i, 0))));
      most = std::max(most, pieces.back());
    }
    const size_t width = 2 + most;
    std::vector<double> row(width);
    row[0] = mine.loss;
    row[1] = mine.stop ? 1 : 0;
    std::copy(mine.squares.begin(), mine.squares.end(), row.begin() + 2);
    std::vector<double> rows(width * static_cast<size_t>(mesh_.world));
    constexpr auto kType = collectives::DataType::kByte;
    Status gathered = all_->AllGather({row.data(), width * sizeof(double), kType},
                                      {rows.data(), rows.size() * sizeof(double), kType}, "stages");
    if (!gathered.ok()) return gathered.error();
    Outcome all;
    for (int i = 0; i < mesh_.stages; ++i) {
      std::vector<std::span<const double>> parts;
      for (int part = 0; part < mesh_.tensor; ++part) {
        const double* of = rows.data() + width * static_cast<size_t>(mesh_.RankOf(i, part));
        if (i == mesh_.stages - 1) all.loss = of[0];
        all.stop = all.stop || of[1] > 0;
        parts.emplace_back(of + 2, pieces[static_cast<size_t>(i)]);
      }
      const std::vector<double> joined = JoinPieces(replica_->shape, mesh_.StageOf(i, 0), parts);
      all.squares.insert(all.squares.end(), joined.begin(), joined.end());
    }
    return all;
  }

  // The first stage's wte, which is the last one's head.
  Status HandOnHead() {
    if (mesh_.stages == 1) return {};
    constexpr auto kType = collectives::DataType::kFloat32;
    const Stage stage = mesh_.stage();
    if (stage.first()) {
      return all_->Send({replica_->parameters.data(), HeadCount(replica_->shape), kType},
                        mesh_.RankOf(mesh_.stages - 1), "head");
    }
    if (!stage.last()) return {};
    const std::span<float> head = replica_->head();
    return all_->Receive({head.data(), head.size(), kType}, mesh_.RankOf(0), "head");
  }

  collectives::Work Add(const collectives::Span& bucket, const std::string& tag) {
    constexpr auto kSum = collectives::Reduction::kSum;
    return mesh_.ranks() == 1 ? all_->AllReduceAsync(bucket, kSum, tag)
                              : all_->AllReduceWithin(mesh_.Copies(), bucket, kSum, tag, nullptr);
  }

  void Issue(size_t from) {
    if (mesh_.pipelines() == 1) return;
    while (works_.size() < buckets_.size() && from <= buckets_[works_.size()].begin) {
      const Bucket& bucket = buckets_[works_.size()];
      works_.push_back(Add(
          {sum_.data() + bucket.begin, bucket.end - bucket.begin, collectives::DataType::kFloat32},
          tags_[works_.size()]));
    }
  }

  Replica* replica_;
  collectives::Communicator* all_;
  Threads* threads_;
  bool overlap_;
  const Mesh mesh_;
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
