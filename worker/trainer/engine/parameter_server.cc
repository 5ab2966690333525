// The parameter server, synchronous: each server rank owns an equal part of the parameters. A step:
// all ranks send it their gradient of that part; it adds them up in rank order, makes AdamW's step
// for the part, and hands the new parameters round. Servers train too, as every rank does.
//
// Only a server has the moments of its part; GatherMoments brings them to rank 0 for a checkpoint.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "worker/trainer/engine/sync.h"

namespace lockstep::trainer {

namespace {

constexpr size_t kSumBlock = size_t{32} * 1024;  // floats

collectives::Span Floats(std::span<float> values) {
  return {values.data(), values.size(), collectives::DataType::kFloat32};
}

class ParameterServerSync : public Sync {
 public:
  ParameterServerSync(Replica& replica, collectives::Communicator& all, Threads& threads,
                      std::vector<int> servers)
      : replica_(&replica), all_(&all), threads_(&threads), servers_(std::move(servers)) {
    for (size_t i = 0; i < servers_.size(); ++i) {
      if (servers_[i] == all.rank()) received_.resize(SizeOf(i) + kTailSize);
    }
  }

  void Begin(std::span<float> sum) override { sum_ = sum; }
  void Ready(size_t) override {}  // a part is sent when all of it is there

  Result<StepResult> Finish(const StepOptions& options) override {
    const Time began = BootTime();
    Status sent = ToServers();
    if (!sent.ok()) return sent.error();
    Result<Totals> totals = Agree();
    if (!totals.ok()) return totals.error();
    StepResult result;
    result.loss = totals->loss / options.micro_batches;
    result.stop = totals->stop > 0;
    const Scale scale = ScaleOf(totals->sum_of_squares, result.loss, options);
    result.gradient_norm = scale.norm;
    result.skipped = !scale.finite;
    const Time agreed = BootTime();
    if (scale.finite) Update(options, scale.value);
    const Time updated = BootTime();
    if (scale.finite) {
      Status handed = FromServers();
      if (!handed.ok()) return handed.error();
    }
    result.updating = updated - agreed;
    result.waited = BootTime() - began - result.updating;
    return result;
  }

  Status GatherMoments() override {
    for (size_t i = 0; i < servers_.size(); ++i) {
      for (std::vector<float>* moments : {&replica_->moment1, &replica_->moment2}) {
        Status moved = ToRankZero(servers_[i], PartOf(i, *moments));
        if (!moved.ok()) return moved;
      }
    }
    return {};
  }

  bool HasAllMoments() const override { return false; }

 private:
  struct Totals {
    double sum_of_squares = 0;
    double loss = 0;
    double stop = 0;
  };

  size_t BeginOf(size_t server) const {
    return replica_->parameters.size() * server / servers_.size();
  }
  size_t SizeOf(size_t server) const { return BeginOf(server + 1) - BeginOf(server); }
  std::span<float> PartOf(size_t server, std::span<float> values) const {
    return values.subspan(BeginOf(server), SizeOf(server));
  }

  // One server after the other, and at each one rank after the other: no two ever wait for each
  // other. Afterwards sum_ holds, at each server, the whole sum of its part and of the tail.
  Status ToServers() {
    const std::span<float> tail = sum_.subspan(replica_->parameters.size());
    for (size_t i = 0; i < servers_.size(); ++i) {
      const std::span<float> part = PartOf(i, sum_);
      Status done = servers_[i] == all_->rank() ? Collect(part, tail) : Push(i, part, tail);
      if (!done.ok()) return done;
    }
    return {};
  }

  Status Push(size_t server, std::span<float> part, std::span<float> tail) {
    Status sent = all_->Send(Floats(part), servers_[server], "gradient");
    if (sent.ok()) sent = all_->Send(Floats(tail), servers_[server], "tail");
    return sent;
  }

  // In rank order: ((0 + 1) + 2) + ..., this rank's own at its place.
  Status Collect(std::span<float> part, std::span<float> tail) {
    const std::vector<float> own(part.begin(), part.end());
    const std::vector<float> own_tail(tail.begin(), tail.end());
    const std::span<float> theirs = std::span(received_).first(part.size());
    const std::span<float> their_tail = std::span(received_).subspan(part.size(), kTailSize);
    for (int rank = 0; rank < all_->world(); ++rank) {
      if (rank == all_->rank()) {
        Add(rank == 0, own, part);
        Add(rank == 0, own_tail, tail);
        continue;
      }
      Status got = all_->Receive(Floats(theirs), rank, "gradient");
      if (got.ok()) got = all_->Receive(Floats(their_tail), rank, "tail");
      if (!got.ok()) return got;
      Add(rank == 0, theirs, part);
      Add(rank == 0, their_tail, tail);
    }
    return {};
  }

  void Add(bool first, std::span<const float> values, std::span<float> sum) {
    threads_->For((sum.size() + kSumBlock - 1) / kSumBlock, [=](size_t block) {
      const size_t begin = block * kSumBlock;
      const size_t end = std::min(begin + kSumBlock, sum.size());
      for (size_t i = begin; i < end; ++i) sum[i] = first ? values[i] : sum[i] + values[i];
    });
  }

  // The norm's parts are added in the servers' order; the tail is the first server's.
  Result<Totals> Agree() {
    Totals mine;
    for (size_t i = 0; i < servers_.size(); ++i) {
      if (servers_[i] != all_->rank()) continue;
      mine.sum_of_squares = SumOfSquares(PartOf(i, sum_), 1.0, *threads_);
      mine.loss = sum_[replica_->parameters.size() + kTailLoss];
      mine.stop = sum_[replica_->parameters.size() + kTailStop];
    }
    std::vector<Totals> all(static_cast<size_t>(all_->world()));
    Status gathered = all_->AllGather(
        {&mine, sizeof mine, collectives::DataType::kByte},
        {all.data(), all.size() * sizeof mine, collectives::DataType::kByte}, "totals");
    if (!gathered.ok()) return gathered.error();
    Totals totals = all[static_cast<size_t>(servers_.front())];
    totals.sum_of_squares = 0;
    for (const int server : servers_) {
      totals.sum_of_squares += all[static_cast<size_t>(server)].sum_of_squares;
    }
    return totals;
  }

  void Update(const StepOptions& options, double scale) {
    for (size_t i = 0; i < servers_.size(); ++i) {
      if (servers_[i] != all_->rank()) continue;
      AdamWStep(replica_->layout, BeginOf(i), PartOf(i, replica_->parameters), PartOf(i, sum_),
                PartOf(i, replica_->moment1), PartOf(i, replica_->moment2), options.t,
                options.learning_rate, scale, options.adamw, *threads_);
    }
  }

  Status FromServers() {
    for (size_t i = 0; i < servers_.size(); ++i) {
      Status done =
          all_->Broadcast(Floats(PartOf(i, replica_->parameters)), servers_[i], "parameters");
      if (!done.ok()) return done;
    }
    return {};
  }

  Status ToRankZero(int server, std::span<float> part) {
    if (server == 0) return {};
    if (all_->rank() == server) return all_->Send(Floats(part), 0, "moments");
    if (all_->rank() == 0) return all_->Receive(Floats(part), server, "moments");
    return {};
  }

  Replica* replica_;
  collectives::Communicator* all_;
  Threads* threads_;
  std::vector<int> servers_;
  std::span<float> sum_;         // parameters, then the tail
  std::vector<float> received_;  // of a server: one rank's part and tail
};

}  // namespace

Result<std::unique_ptr<Sync>> MakeParameterServerSync(Replica& replica,
                                                      collectives::Communicator& all,
                                                      Threads& threads,
                                                      const SyncOptions& options) {
  if (options.servers.empty()) return Error::Invalid("a parameter server needs at least one rank");
  for (auto server = options.servers.begin(); server != options.servers.end(); ++server) {
    if (*server < 0 || *server >= all.world()) {
      return Error::Invalid("parameter server " + std::to_string(*server) + " is not a rank of " +
                            std::to_string(all.world()));
    }
    if (std::find(options.servers.begin(), server, *server) != server) {
      return Error::Invalid("parameter server " + std::to_string(*server) + " is named twice");
    }
  }
  return std::unique_ptr<Sync>(
      std::make_unique<ParameterServerSync>(replica, all, threads, options.servers));
}

}  // namespace lockstep::trainer
