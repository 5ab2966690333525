#include "worker/trainer/run/survivors.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace lockstep::trainer {

Result<std::optional<int>> TakeFurthest(std::optional<Kept>& mine, const Shape& shape,
                                        collectives::Communicator& all, Threads& threads) {
  constexpr int64_t kNone = -1;
  const int64_t step = mine ? mine->at.step : kNone;
  std::vector<int64_t> steps(static_cast<size_t>(all.world()));
  Status called =
      all.AllGather({&step, 1, collectives::DataType::kInt64},
                    {steps.data(), steps.size(), collectives::DataType::kInt64}, "roll call");
  if (!called.ok()) return called.error();
  const auto furthest = std::ranges::max_element(steps);
  if (*furthest == kNone) return std::optional<int>();
  const int root = static_cast<int>(furthest - steps.begin());

  struct Message {
    Position at;
    int64_t skipped_in_a_row = 0;
    int64_t stop = 0;
  } message;
  if (all.rank() == root) message = {mine->at, mine->skipped_in_a_row, mine->stop ? 1 : 0};
  Status told =
      all.Broadcast({&message, sizeof message, collectives::DataType::kByte}, root, "position");
  if (!told.ok()) return told.error();
  // At the same step the bits are the same, and what breaks off in the midst of it changes none.
  // Whoever is behind keeps what it has until the furthest state is here.
  std::optional<Kept> theirs;
  if (step != *furthest) theirs.emplace(Kept{.replica = Replica(shape), .at = {}});
  Kept& into = theirs ? *theirs : *mine;
  Status copied = BroadcastReplica(into.replica, all, threads, root);
  if (!copied.ok()) return copied.error();
  into.at = message.at;
  into.skipped_in_a_row = message.skipped_in_a_row;
  into.stop = message.stop != 0;
  if (theirs) mine = std::move(theirs);
  return std::optional<int>(root);
}

}  // namespace lockstep::trainer
