#include "worker/agent/rank_socket/commit_requests.h"

#include <utility>

namespace lockstep::agent {

void CommitRequests::OnQuestion(ClientId client, const CommitQuestion& question) {
  const auto refuse = [&](const std::string& why) {
    owner_->Answer(client, CommitRefusal(question.id, why));
  };
  if (question.memory && memory_ == nullptr) return refuse("the job has no checkpoint.memory.size");
  if (!question.memory && volume_ == nullptr) return refuse("the job has no checkpoint.path");
  const core::Generation generation = owner_->generation();
  if (!question.generation.empty() && question.generation != generation.ToString()) {
    return refuse("generation " + question.generation + " has ended");
  }
  const uint64_t id = ++last_;
  commits_[id] = {client, question.id, question.name, generation, question.memory};
  if (question.memory) return StoreInMemory(id);
  owner_->OnCommit(id);
}

// The part must be this machine's before the gang is asked.
void CommitRequests::StoreInMemory(uint64_t id) {
  memory_->StorePart(id, commits_[id].name, [this, id](std::string problem) {
    const Asked& asked = commits_[id];
    if (asked.generation != owner_->generation()) {
      return OnAnswer({id, false, 0, "that generation has ended"});
    }
    owner_->OnMemoryCommit(id, asked.name, std::move(problem));
  });
}

void CommitRequests::OnAnswer(const core::AnswerCommit& answer) {
  const auto found = commits_.extract(answer.id);
  if (found.empty()) return;
  const Asked& asked = found.mapped();
  if (answer.granted) return Grant(asked, answer);
  if (asked.memory) memory_->Refuse(answer.id);
  owner_->Answer(asked.client, CommitRefusal(asked.id, answer.reason));
}

void CommitRequests::Grant(const Asked& asked, const core::AnswerCommit& answer) {
  if (!asked.memory) {
    return owner_->Answer(
        asked.client,
        CommitAnswer(asked.id, volume_->FinalPath(asked.generation, answer.number, asked.name)));
  }
  memory_->Grant(answer.id, {{asked.generation, answer.number}, machine_, asked.name},
                 [this, client = asked.client, id = asked.id](const Result<std::string>& path) {
                   owner_->Answer(client, path.ok() ? CommitAnswer(id, *path)
                                                    : CommitRefusal(id, path.error().message));
                 });
}

}  // namespace lockstep::agent
