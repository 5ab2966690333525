#include "core/gang/protocol/resume.h"

#include <algorithm>
#include <map>
#include <ranges>

#include "base/text/ascii.h"
#include "core/gang/protocol/rules.h"

namespace lockstep::core {

const GenerationFile* FileBefore(const std::vector<GenerationFile>& files, Generation self) {
  const GenerationFile* before = nullptr;
  for (const GenerationFile& file : files) {
    if (file.generation < self && (!before || file.generation > before->generation)) {
      before = &file;
    }
  }
  return before;
}

std::string ChooseResume(const std::vector<GenerationFile>& files,
                         const std::vector<CheckpointEntry>& checkpoints, Generation self) {
  const GenerationFile* before = FileBefore(files, self);
  if (!before) return "";
  const CheckpointEntry* newest = nullptr;
  for (const CheckpointEntry& checkpoint : checkpoints) {
    if (checkpoint.generation == before->generation &&
        (!newest || checkpoint.number > newest->number)) {
      newest = &checkpoint;
    }
  }
  return newest ? newest->path : before->resumes;
}

namespace {

std::optional<int64_t> NumberBehind(const std::string& name, std::string_view word) {
  for (size_t at = name.rfind(word); at != std::string::npos;
       at = at == 0 ? std::string::npos : name.rfind(word, at - 1)) {
    size_t from = at + word.size();
    while (from < name.size() && (name[from] == '-' || name[from] == '_' || name[from] == '=')) {
      ++from;
    }
    size_t to = from;
    while (to < name.size() && name[to] >= '0' && name[to] <= '9') ++to;
    if (to > from) return ParseNumber<int64_t>(std::string_view(name).substr(from, to - from));
  }
  return std::nullopt;
}

const GenerationFile* FileOf(const std::vector<GenerationFile>& files, Generation generation) {
  const auto file = std::ranges::find(files, generation, &GenerationFile::generation);
  return file == files.end() ? nullptr : &*file;
}

}  // namespace

std::optional<int64_t> StepInName(std::string_view name) {
  const std::string letters = ToLower(name.substr(name.rfind('/') + 1));
  for (const char* word : {"step", "checkpoint", "iter"}) {
    if (const auto step = NumberBehind(letters, word)) return step;
  }
  return std::nullopt;
}

EarlierCheckpoint ChooseEarlier(const std::vector<GenerationFile>& files,
                                const std::vector<CheckpointEntry>& checkpoints, Generation self,
                                int64_t before, const IsOwnPath& is_own) {
  const auto will_do = [before](const std::string& path) {
    const std::optional<int64_t> step = StepInName(path);
    return step && *step < before;
  };
  EarlierCheckpoint chosen;
  const GenerationFile* at = FileBefore(files, self);
  bool removed = false;
  bool unnamed = false;          // a commit of the line has no step in its name
  std::optional<uint32_t> last;  // number of the commit from which the line goes back
  while (at != nullptr) {
    std::map<uint32_t, std::string> commits;
    for (const CheckpointEntry& each : checkpoints) {
      const bool counts = each.generation == at->generation && (!last || each.number <= *last);
      if (counts) commits[each.number] = each.path;
    }
    const uint32_t newest = last.value_or(commits.empty() ? 0 : commits.rbegin()->first);
    removed = removed || commits.size() < newest;
    for (const auto& [number, path] : commits | std::views::reverse) {
      if (will_do(path)) {
        chosen.path = path;
        return chosen;
      }
      unnamed = unnamed || !StepInName(path);
      chosen.set_aside.push_back(path);
    }
    const CheckpointId id = CheckpointIdOf(at->resumes);
    const GenerationFile* older = FileOf(files, id.generation);
    // A checkpoint of another job may have the number of one of this job's generations.
    if (older == nullptr || !(older->generation < at->generation)) break;
    if (!is_own(at->resumes, older->generation)) break;
    at = older;
    last = id.number;
  }
  // What the job began from: nothing, or a checkpoint of another job.
  const std::string first = at == nullptr ? "" : at->resumes;
  const bool theirs_will_do = first.empty() || !StepInName(first) || will_do(first);
  chosen.missing = removed || unnamed || !theirs_will_do;
  if (!chosen.missing) chosen.path = first;
  return chosen;
}

CheckpointId CheckpointIdOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {};
  const std::string_view name = path.substr(slash + 1);
  std::string_view folder = path.substr(0, slash);
  folder = folder.substr(folder.rfind('/') + 1);
  const Result<Generation> generation = Generation::Parse(std::string(folder));
  const auto number = ParseNumber<uint32_t>(name.substr(0, name.find('.')));
  if (!generation.ok() || !number) return {};
  return {*generation, *number};
}

std::string CheckpointNameOf(std::string_view path) {
  const size_t dot = path.find('.', path.rfind('/') + 1);
  if (!CheckpointIdOf(path).exists() || dot == std::string_view::npos) return "";
  return std::string(path.substr(dot + 1));
}

namespace {

// So that machine m + shift holds machine m's part.
std::vector<FetchPlan> Missing(const Holdings& holdings, CheckpointId id, size_t shift) {
  const size_t machines = holdings.size();
  struct Known {
    const MemoryPart* part = nullptr;
    size_t holder = 0;
    bool there = false;
  };
  std::vector<Known> known(machines);
  for (size_t holder = 0; holder < machines; ++holder) {
    for (const MemoryPart& part : holdings[holder]) {
      if (part.id != id || part.machine >= machines) continue;
      Known& each = known[part.machine];
      each.there = each.there || holder == (part.machine + shift) % machines;
      if (each.part == nullptr) each = {&part, holder, each.there};
    }
  }
  std::vector<FetchPlan> plans;
  for (size_t machine = 0; machine < machines; ++machine) {
    const Known& each = known[machine];
    if (each.there || each.part == nullptr) continue;
    plans.push_back({static_cast<uint32_t>((machine + shift) % machines),
                     static_cast<uint32_t>(each.holder), *each.part});
  }
  return plans;
}

}  // namespace

CheckpointId NewestInMemory(const Holdings& holdings, const std::set<CheckpointId>& unusable,
                            CheckpointId above) {
  std::map<CheckpointId, std::set<uint32_t>> machines;
  for (const std::vector<MemoryPart>& parts : holdings) {
    for (const MemoryPart& part : parts) {
      const bool counts = part.machine < holdings.size() && !unusable.contains(part.id);
      if (counts && part.id > above) machines[part.id].insert(part.machine);
    }
  }
  for (const auto& [id, whose] : machines | std::views::reverse) {
    if (whose.size() == holdings.size() || !Holds(Rule::kMemoryNeedsEveryPart)) return id;
  }
  return {};
}

std::vector<FetchPlan> OwnPartsMissing(const Holdings& holdings, CheckpointId id) {
  return Missing(holdings, id, 0);
}

std::vector<FetchPlan> CopiesMissing(const Holdings& holdings, CheckpointId id) {
  return holdings.size() > 1 ? Missing(holdings, id, 1) : std::vector<FetchPlan>();
}

uint32_t LaterAttempt(const std::vector<GenerationFile>& files, Generation self) {
  uint32_t later = 0;
  for (const GenerationFile& file : files) {
    if (file.generation >= self) later = std::max(later, file.generation.attempt);
  }
  return Holds(Rule::kLaterAttemptsCount) ? later : 0;
}

}  // namespace lockstep::core
