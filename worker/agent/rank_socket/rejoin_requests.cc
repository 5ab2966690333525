#include "worker/agent/rank_socket/rejoin_requests.h"

namespace lockstep::agent {

// Those that lived on are told one by one; the rest of what was asked was of the last generation.
void RejoinRequests::BeginGeneration(core::Generation generation) {
  generation_ = generation.ToString();
  rejoin_.clear();
  ended_.clear();
}

void RejoinRequests::Tell(uint32_t rank, const Json& changes) {
  const auto found = left_.extract(rank);
  if (found.empty()) return owner_->Kill(rank);
  owner_->Answer(found.mapped().client, NextAnswer(found.mapped().id, generation_, changes));
}

void RejoinRequests::OnEnded(const std::set<uint32_t>& spared) {
  ended_ = spared;
  for (const uint32_t rank : spared) End(rank);
}

void RejoinRequests::End(uint32_t rank) {
  const auto found = rejoin_.extract(rank);
  if (found.empty()) return;
  owner_->Answer(found.mapped().client, EndedAnswer(found.mapped().id, generation_));
}

void RejoinRequests::OnQuestion(ClientId client, const RejoinQuestion& question) {
  if (question.generation != generation_) {
    return owner_->Answer(client, RejoinRefusal(question.id, "generation " + question.generation +
                                                                 " is not the one that runs"));
  }
  if (!owner_->CanKeep(question.rank)) {
    return owner_->Answer(
        client, RejoinRefusal(question.id, "no process of rank " + std::to_string(question.rank) +
                                               " can outlive a generation: there is none, or "
                                               "launchers and MPI start all ranks anew"));
  }
  rejoin_[question.rank] = {client, question.id};
  if (ended_.contains(question.rank)) return End(question.rank);
  owner_->OnRejoins(question.rank, true);
}

void RejoinRequests::OnQuestion(ClientId client, const LeftQuestion& question) {
  if (question.generation != generation_ || !ended_.contains(question.rank)) {
    return owner_->Answer(
        client,
        RejoinRefusal(question.id, "rank " + std::to_string(question.rank) +
                                       " is not asked to leave generation " + question.generation));
  }
  left_[question.rank] = {client, question.id};
  owner_->OnLeft(question.rank);
}

std::set<uint32_t> RejoinRequests::TakeOf(Ranks& ranks, ClientId client) {
  std::set<uint32_t> taken;
  std::erase_if(ranks, [&](const auto& entry) {
    const bool its = entry.second.client == client;
    if (its) taken.insert(entry.first);
    return its;
  });
  return taken;
}

void RejoinRequests::OnClosed(ClientId client) {
  for (const uint32_t rank : TakeOf(rejoin_, client)) owner_->OnRejoins(rank, false);
  for (const uint32_t rank : TakeOf(left_, client)) owner_->Kill(rank);
}

}  // namespace lockstep::agent
