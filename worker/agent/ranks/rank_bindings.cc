#include "worker/agent/ranks/rank_bindings.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/text/columns.h"

namespace lockstep::agent {
namespace {

// In the child. What was refused is reported, and the process runs all the same.
template <typename Hooked>
int Bind(void* data) noexcept {
  auto* hooked = static_cast<Hooked*>(data);
  hooked->result = topology::ApplyInChild(hooked->binding);
  return 0;
}

}  // namespace

RankBindings::RankBindings(EventLoop* loop, const core::AgentConfig* config,
                           topology::Machine machine, const std::vector<std::string>& inherited,
                           std::vector<RankView>* views, OnBound on_bound, LogFn log)
    : loop_(loop),
      config_(config),
      machine_(std::move(machine)),
      views_(views),
      on_bound_(std::move(on_bound)),
      log_(std::move(log)),
      placement_timer_(loop, [this] { ReadPlacements(0, BootTime()); }) {
  topology::BindingRequest request = topology::RequestOf(config->job.spec, inherited);
  if (config->shares_computer) {
    request.part = static_cast<int>(config->machine);
    request.parts = config->job.spec.num_machines;
  }
  plan_ = topology::PlanBinding(machine_, request);
  for (const topology::RankBinding& rank : plan_.ranks) {
    nodes_.push_back(topology::LocalityOf(machine_, rank));
    ranks_.push_back({.binding = topology::Prepare(rank), .result = {}});
  }
  parked_ = ranks_;
}

std::vector<topology::Nic> RankBindings::NearNics() const {
  std::vector<std::vector<std::string>> near;
  for (const topology::RankBinding& rank : plan_.ranks) near.push_back(rank.nics);
  return topology::NearNics(machine_.nics, near);
}

void RankBindings::BindBy(Hooked* hooked, SpawnRequest* request) {
  request->hook = &Bind<Hooked>;
  request->hook_name = "binding";
  request->hook_data = hooked;
}

bool RankBindings::asked() const { return config_->job.spec.topology.bind != core::Bind::kNone; }

topology::BoundProcess RankBindings::ProcessOf(size_t local_rank) const {
  const RankView& view = (*views_)[local_rank];
  return {.pid = view.pid,
          .asked = config_->job.spec.topology.bind,
          .rank = plan_.ranks[local_rank],
          .result = ranks_[local_rank].result,
          .nodes = nodes_[local_rank],
          .was_as_asked = core::IsAsAsked(view.binding.mode)};
}

void RankBindings::Read() {
  bool any = false;
  for (size_t l = 0; l < views_->size(); ++l) {
    RankView& view = (*views_)[l];
    if (view.pid == 0) continue;
    view.binding = topology::ReadBack(ProcessOf(l));
    view.bound = any = true;
  }
  if (!any || !asked()) return;  // a launcher has asked for nothing yet
  if (!std::exchange(said_, true)) Log();
  Report();
  // On a machine of one node nothing can be far, and nobody is woken to look.
  if (std::ranges::all_of(nodes_, [](const auto& nodes) { return nodes.remote.empty(); })) return;
  placement_timer_.WakeAt(BootTime() + topology::PlacementPause(Duration(0), 1));
}

void RankBindings::Log() {
  std::vector<std::vector<std::string>> rows = {
      {"rank", "CPUs", "memory", "threads", "GPU", "binding"}};
  for (size_t l = 0; l < views_->size(); ++l) {
    const RankView& view = (*views_)[l];
    if (!view.bound) continue;  // it is dead already
    const topology::RankBinding& planned = plan_.ranks[l];
    rows.push_back({std::to_string(view.rank), FormatIndexList(view.binding.cpus),
                    view.binding.memory_policy, std::to_string(planned.omp_threads),
                    planned.gpus.empty() ? "-" : FormatIndexList(planned.gpus),
                    view.binding.ToString(config_->job.spec.topology.bind)});
  }
  std::istringstream table(AlignColumns(rows, ""));
  for (std::string line; std::getline(table, line);) log_(line);
  for (const std::string& note : plan_.notes) log_(note);
}

// The least bound of them stands for the machine. One that is dead already has nothing to tell.
void RankBindings::Report() {
  const auto runs = [](const RankView& view) { return view.pid != 0; };
  if (views_->empty() || !std::ranges::all_of(*views_, runs)) return;
  const RankView& least = *std::ranges::min_element(
      *views_, {}, [](const RankView& view) { return view.binding.mode; });
  // Where the plan itself falls short of policy Required, nothing is as asked.
  const bool short_of_policy = !plan_.error.empty() && core::IsAsAsked(least.binding.mode);
  if (short_of_policy) return on_bound_(core::Binding::kPartial, plan_.error);
  on_bound_(least.binding.mode, least.binding.reason);
}

void RankBindings::OnStep(size_t local_rank) {
  if (local_rank >= views_->size()) return;
  RankView& view = (*views_)[local_rank];
  if (!view.bound || std::exchange(view.stepped, true) || !asked()) return;
  ReadAgain(local_rank, [this, local_rank](auto binding) {
    if (binding) OnFirstStep(local_rank, std::move(*binding));
  });
}

void RankBindings::OnFirstStep(size_t local_rank, topology::EffectiveBinding binding) {
  RankView& view = (*views_)[local_rank];
  const bool same = binding.mode == view.binding.mode && binding.reason == view.binding.reason &&
                    binding.note == view.binding.note;
  view.binding = std::move(binding);
  if (same) return;
  log_("rank " + std::to_string(view.rank) +
       " after its first step: " + view.binding.ToString(config_->job.spec.topology.bind));
  Report();
}

void RankBindings::ReadPlacements(size_t local_rank, Time began) {
  const auto& views = *views_;
  size_t next = local_rank;
  while (next < views.size() && (views[next].pid == 0 || nodes_[next].remote.empty())) ++next;
  if (next < views.size()) {
    return ReadAgain(next, [this, next, began](const auto& binding) {
      if (binding) (*views_)[next].binding.placement = binding->placement;
      ReadPlacements(next + 1, began);
    });
  }
  const Duration took = BootTime() - began;
  if (std::ranges::none_of(views, [](const RankView& view) { return view.pid != 0; })) return;
  placement_timer_.WakeAt(BootTime() +
                          topology::PlacementPause(took, config_->job.spec.num_machines));
}

void RankBindings::ReadAgain(size_t local_rank, ReadDone done) {
  FileWorker* reader = Reader();
  if (reader == nullptr) return;
  reader->Run([process = ProcessOf(local_rank)] { return topology::ReadBack(process); },
              [this, local_rank, generation = generations_,
               done = std::move(done)](topology::EffectiveBinding binding) {
                if (generation != generations_) return;
                const bool gone = (*views_)[local_rank].pid == 0 || binding.cpus.empty();
                done(gone ? std::nullopt : std::optional(std::move(binding)));
              });
}

FileWorker* RankBindings::Reader() {
  if (!reader_) {
    Result<std::unique_ptr<FileWorker>> reader = FileWorker::Create(loop_);
    if (reader.ok()) reader_ = std::move(*reader);
  }
  return reader_.get();
}

}  // namespace lockstep::agent
