#include <utility>
#include <vector>

#include "worker/trainer/engine/engine.h"
#include "worker/trainer/engine/gradient_tree.h"
#include "worker/trainer/engine/mesh.h"

namespace lockstep::trainer {

namespace {

// A step of a stage is 1F1B: as many micro-batches go forward as the stages behind it take until
// the first comes back, then one goes backward and one forward by turns. A whole model is a stage
// with none behind it.
class CpuEngine final : public Engine {
 public:
  CpuEngine(const EngineOptions& options, Replica& replica, std::unique_ptr<Sync> sync,
            collectives::Communicator& all, Threads& threads)
      : replica_(&replica),
        whole_(options.whole),
        sync_(std::move(sync)),
        all_(&all),
        threads_(&threads),
        mesh_(Mesh::Of(options.sync_options.parallel, all.rank(), all.world())),
        stage_(mesh_.stage()),
        mine_(options.batch.mine),
        held_(HeldMicroBatches(stage_, mine_)),
        model_(replica.shape, options.batch.micro_batch, options.precision, threads, stage_, held_,
               [this](std::span<float> sum) { ShareSum(sum); }),
        tree_(replica.moment1.size() + kTailSize, mine_, threads),
        inputs_(static_cast<size_t>(options.batch.micro_batch) *
                static_cast<size_t>(replica.shape.context)),
        targets_(inputs_.size()) {}

  Result<StepResult> Step(const StepOptions& options, const ReadBatch& read) override {
    times_ = {};
    passing_ = {};
    forward_ = 0;
    sync_->Begin(tree_.total());
    Status summed = tree_.Sum(
        [&](int i, std::span<float> out, const Complete& complete) {
          return MicroBatch(i, i == 0 && options.stop, read, out, complete);
        },
        [this](size_t from) {
          // The stage before waits for what is computed last.
          if (stage_.first()) sync_->Ready(from);
        });
    if (!summed.ok()) return summed.error();
    if (options.before_update) options.before_update();
    Result<StepResult> done = sync_->Finish(options);
    if (!done.ok()) return done;
    done->times = times_;
    done->waited += passing_;
    return done;
  }

  // Between steps every slot is free.
  Result<float> Loss(int index, const ReadBatch& read) override {
    Status passed = Forward(index, read);
    if (!passed.ok()) return passed.error();
    return loss_;
  }

  // Without a Finish since, the replica is what the last step left.
  Status UpdateReplica() override {
    Status gathered = sync_->GatherMoments();
    return gathered.ok() ? GatherReplica(*replica_, whole_, mesh_, *all_) : gathered;
  }
  // The steps write the replica itself, once their sums are there.
  Status Quiesce() override { return {}; }
  Status KeepReplica() override { return {}; }
  Result<uint64_t> HashOfReplica() override {
    return HashOf(*replica_, sync_->HasAllMoments(), *threads_);
  }

 private:
  Status MicroBatch(int i, bool stop, const ReadBatch& read, std::span<float> out,
                    const Complete& complete) {
    while (forward_ < mine_ && forward_ < i + held_) {
      Status done = Forward(forward_++, read);
      if (!done.ok()) return done;
    }
    return Backward(i, stop, out, complete);
  }

  Status Forward(int i, const ReadBatch& read) {
    if (stage_.first() || stage_.last()) {
      Status filled = Timed(times_.data, [&] { return read(i, inputs_, targets_); });
      if (!filled.ok()) return filled;
    }
    Status passed;
    if (!stage_.first()) passed = Receive(model_.Entry(SlotOf(i)), stage_.index - 1, "activations");
    if (!passed.ok()) return passed;
    passed = Computed(times_.forward, [&] {
      loss_ = model_.Forward(replica_->parameters, inputs_, targets_, SlotOf(i));
    });
    if (!passed.ok() || stage_.last()) return passed;
    return Post(model_.Exit(SlotOf(i)), stage_.index + 1, "activations");
  }

  Status Backward(int i, bool stop, std::span<float> out, const Complete& complete) {
    const size_t size = replica_->moment1.size();
    Status passed;
    if (!stage_.last()) passed = Receive(model_.Gradient(), stage_.index + 1, "gradient");
    if (passed.ok() && stage_.first() && !stage_.last()) {
      passed = Receive(out.first(HeadCount(replica_->shape)), stage_.count - 1, "head's gradient");
    }
    if (!passed.ok()) return passed;
    out[size + kTailLoss] = loss_;
    out[size + kTailStop] = stop ? 1.0F : 0.0F;
    passed = Computed(times_.backward, [&] {
      model_.Backward(replica_->parameters, out.first(size), complete, SlotOf(i));
    });
    if (passed.ok() && !stage_.first())
      passed = Post(model_.Gradient(), stage_.index - 1, "gradient");
    if (passed.ok() && stage_.has_head_copy()) {
      passed = Post(model_.HeadGradient(), 0, "head's gradient");
    }
    return passed;
  }

  size_t SlotOf(int i) const { return static_cast<size_t>(i % held_); }

  Status Receive(std::span<float> values, int stage, const char* tag) {
    return Timed(passing_, [&] {
      return all_->Receive({values.data(), values.size(), collectives::DataType::kFloat32},
                           mesh_.RankOf(stage), tag);
    });
  }
  Status Post(std::span<const float> values, int stage, const char* tag) {
    return Timed(passing_, [&] {
      return all_->Post({values.data(), values.size(), collectives::DataType::kFloat32},
                        mesh_.RankOf(stage), mesh_.stages, tag);
    });
  }
  // Over the ranks that share this stage's shards. Called by the model, which knows of no errors.
  void ShareSum(std::span<float> sum) {
    if (mesh_.tensor == 1 || !shared_.ok()) return;
    shared_ = Timed(sharing_, [&] {
      return all_
          ->AllReduceWithin(mesh_.Peers(),
                            {sum.data(), sum.size(), collectives::DataType::kFloat32},
                            collectives::Reduction::kSum, "shards", nullptr)
          .Wait();
    });
  }
  // Adds to `time` what the model's pass takes without its waiting for other ranks' shards.
  template <typename Pass>
  Status Computed(Duration& time, Pass pass) {
    sharing_ = {};
    Status done = Timed(time, [&] {
      pass();
      return shared_;
    });
    time -= sharing_;
    passing_ += sharing_;
    return done;
  }
  // Adds what `work` takes to `time`.
  template <typename Work>
  static Status Timed(Duration& time, Work work) {
    const Time began = BootTime();
    Status done = work();
    time += BootTime() - began;
    return done;
  }

  Replica* replica_;
  Replica* whole_;
  std::unique_ptr<Sync> sync_;
  collectives::Communicator* all_;
  Threads* threads_;
  const Mesh mesh_;
  const Stage stage_;
  const int mine_;  // micro-batches of a step
  const int held_;  // most of them at a time
  Gpt<float> model_;
  GradientTree tree_;
  std::vector<int32_t> inputs_;   // [B, T]
  std::vector<int32_t> targets_;  // [B, T]
  int forward_ = 0;               // micro-batches of the step that went forward
  float loss_ = 0;                // of the last one
  StepTimes times_;               // of the step
  Duration passing_{};            // waited for other stages, and for other ranks' shards
  Duration sharing_{};            // of that, for shards in the pass that goes on
  Status shared_;                 // of the sums over shards
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
      std::make_unique<CpuEngine>(options, replica, std::move(sync), all, threads));
}

}  // namespace lockstep::trainer
