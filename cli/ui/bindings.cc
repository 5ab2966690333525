#include "cli/ui/bindings.h"

#include <utility>

#include "base/text/index_list.h"
#include "base/text/json.h"
#include "cli/machine/machine_picture.h"

namespace lockstep::cli {

Bindings::Bindings(topology::Machine computer, const core::Spec& spec,
                   const std::vector<std::string>& environment)
    : computer_(std::move(computer)), processes_(spec.processes_per_machine) {
  topology::BindingRequest request = topology::RequestOf(spec, environment);
  request.parts = spec.num_machines;
  plans_ = topology::PlanComputer(computer_, request);
}

// A launcher's binding is that of all ranks it starts: it stands at the first of them.
int Bindings::RankOf(size_t machine, const topology::RankBinding& binding) const {
  return static_cast<int>(machine) * processes_ + binding.local_rank;
}

std::string Bindings::Columns() const {
  OrderedJson json = {{"rank", OrderedJson::array()},
                      {"cpus", OrderedJson::array()},
                      {"why", OrderedJson::array()}};
  for (size_t machine = 0; machine < plans_.size(); ++machine) {
    for (const topology::RankBinding& binding : plans_[machine].ranks) {
      if (json["rank"].size() == kMostRanks) return DumpJson(json);
      json["rank"].push_back(RankOf(machine, binding));
      json["cpus"].push_back(FormatIndexList(binding.cpus));
      json["why"].push_back(binding.reason);
    }
  }
  return DumpJson(json);
}

Result<std::string> Bindings::Picture(uint32_t machine) const {
  if (machine >= plans_.size()) {
    return Error::NotFound("there is no machine " + std::to_string(machine) + "; the job has " +
                           std::to_string(plans_.size()));
  }
  const topology::BindingPlan& plan = plans_[machine];
  OrderedJson ranks = OrderedJson::array();
  for (const topology::RankBinding& binding : plan.ranks) {
    std::string memory = core::ToString(binding.memory);
    if (!binding.memory_nodes.empty()) memory += " " + FormatIndexList(binding.memory_nodes);
    ranks.push_back({{"rank", RankOf(machine, binding)},
                     {"cpus", FormatIndexList(binding.cpus)},
                     {"memory", memory},
                     {"gpus", binding.gpus},
                     {"nics", binding.nics},
                     {"why", binding.reason}});
  }
  const OrderedJson json = {{"svg", PictureSvg(MakePicture(computer_, &plan))},
                            {"notes", plan.notes},
                            {"ranks", std::move(ranks)}};
  return DumpJson(json);
}

std::string Bindings::Pictures() const {
  std::string text = "{";
  for (uint32_t machine = 0; machine < plans_.size(); ++machine) {
    const Result<std::string> picture = Picture(machine);
    if (!picture.ok() || text.size() + picture->size() > kMostPictures) break;
    text.append(machine == 0 ? "\"" : ",\"").append(std::to_string(machine));
    text.append("\":").append(*picture);
  }
  return text + "}";
}

}  // namespace lockstep::cli
