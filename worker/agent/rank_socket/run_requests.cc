#include "worker/agent/rank_socket/run_requests.h"

#include <optional>
#include <utility>

#include "core/exit_codes.h"
#include "core/model/launch.h"
#include "core/model/names.h"
#include "worker/agent/rank_socket/launcher_folder.h"

namespace lockstep::agent {

void RunRequests::BeginGeneration(core::Generation generation) {
  generation_ = generation;
  runs_.clear();
}

void RunRequests::OnQuestion(ClientId client, const RunQuestion& question) {
  const auto refuse = [&](const std::string& why) {
    owner_->Answer(client, RunAnswer(question.id, core::kExitNeverBegan, why));
  };
  if (question.generation != generation_.ToString()) {
    return refuse("generation " + question.generation + " has ended");
  }
  if (question.command.size() > core::kMaxRunCommand) {
    return refuse("the command for " + question.host + " has more than 8 KiB");
  }
  const std::optional<uint32_t> machine = MachineNamed(*job_, question.host);
  if (!core::StartsFromMachine0(job_->spec) || !machine) {
    return refuse("the job has no other machine of that name; its machines are " +
                  core::HostName(job_->metadata.name, 1) + " and so on");
  }
  core::Run run;
  run.generation = generation_;
  run.id = ++last_;
  run.machine = *machine;
  run.command = question.command;
  runs_[run.id] = {client, question.id};
  owner_->OnRun(std::move(run));
}

void RunRequests::OnAnswer(const core::AnswerRun& answer) {
  const auto found = runs_.extract(answer.id);
  if (found.empty()) return;
  owner_->Answer(found.mapped().client,
                 RunAnswer(found.mapped().id, answer.exit_code, answer.problem));
}

}  // namespace lockstep::agent
