#include "cli/run/run_page.h"

#include <utility>

namespace lockstep::cli {

namespace {

constexpr LogRingLimits kForReport = {
    .lines = View::kTailLines, .bytes = size_t{64} << 10, .in_all = View::kTailBytes};

}  // namespace

RunPage::RunPage(const ViewJob& job, Time began, Sources sources)
    : sources_(std::move(sources)),
      view_(job, sources_.history, began, sources_.served ? LogRingLimits{} : kForReport),
      stacks_(sources_.loop, sources_.spawner) {
  if (sources_.bindings) view_.SetBindings(sources_.bindings->Columns());
}

Status RunPage::Serve(uint16_t port, const PageFile& page) {
  PageServer::Handlers handlers;
  handlers.version = [this] { return view_.version(); };
  handlers.view = [this](uint64_t after) { return view_.Json(after, BootTime()); };
  handlers.log = [this](std::optional<uint32_t> rank, uint64_t after,
                        const PageServer::Answer& answer) { answer(Log(rank, after)); };
  handlers.stacks = [this](std::optional<uint32_t> rank, const PageServer::Answer& answer) {
    if (!view_.live()) return answer(Error::Unavailable("the run has ended"));
    stacks_.Ask(sources_.agents(),
                [rank, answer](const Stacks& stacks) { answer(StacksJson(stacks, rank)); });
  };
  handlers.topology = [this](uint32_t machine) -> Result<std::string> {
    if (sources_.bindings) return sources_.bindings->Picture(machine);
    return Error::Unavailable(
        "the machines are other computers; run `lockstep topology` on one of them");
  };
  auto server = std::make_unique<PageServer>(sources_.loop, page, std::move(handlers));
  if (Status status = server->Listen(port); !status.ok()) return status;
  server_ = std::move(server);
  return {};
}

Result<std::string> RunPage::Log(std::optional<uint32_t> rank, uint64_t after) const {
  const core::Spec& spec = view_.job().spec;
  const int64_t ranks = int64_t{spec.num_machines} * spec.processes_per_machine;
  if (rank && *rank >= ranks) {
    return Error::NotFound("there is no rank " + std::to_string(*rank) + "; the job has " +
                           std::to_string(ranks));
  }
  return view_.LogJson(rank, after);
}

void RunPage::Notify() {
  if (server_) server_->Notify();
}

void RunPage::OnStatus(const core::GangStatus& gang, Time born) {
  view_.Update(gang, BootTime(), born);
  Notify();
}

void RunPage::OnHistory() {
  view_.LearnHistory();
  Notify();
}

void RunPage::OnJob(const core::JobStatus& status) {
  const uint64_t before = view_.version();
  view_.SetStatus(status);
  if (view_.version() != before) Notify();
}

void RunPage::OnEvent(std::string_view text) {
  view_.AddEvent(BootTime(), text);
  Notify();
}

void RunPage::OnLine(uint32_t machine, std::string_view line) {
  view_.AddAgentLine(BootTime(), machine, line);
}

void RunPage::OnEnd(Time at, int exit_code) {
  view_.End(at, exit_code, sources_.bindings ? sources_.bindings->Pictures() : "");
  Notify();
}

}  // namespace lockstep::cli
