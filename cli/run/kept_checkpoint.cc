#include "cli/run/kept_checkpoint.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <ranges>
#include <system_error>
#include <utility>

#include "base/folder.h"
#include "base/text/ascii.h"
#include "core/terms/generation.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

using Commit = std::pair<core::Generation, uint32_t>;
using PartFolders = std::map<uint32_t, fs::path>;  // by machine

// The machine of an agent's folder, "m1.2".
std::optional<uint32_t> MachineOfFolder(const std::string& name) {
  if (!name.starts_with('m')) return std::nullopt;
  return ParseNumber<uint32_t>(name.substr(1, name.find('.') - 1));
}

// Of its own part alone: a copy of another's may not be whole. worker/agent/memory/memory_store.h
// shows the folders.
std::map<Commit, PartFolders> FindPartFolders(const std::string& run_folder) {
  std::map<Commit, PartFolders> found;
  ForEachEntry(run_folder, [&](const fs::directory_entry& agent) {
    const auto machine = MachineOfFolder(agent.path().filename());
    if (!machine) return;
    ForEachEntry(agent.path() / "memory", [&](const fs::directory_entry& entry) {
      const auto generation = core::Generation::Parse(entry.path().filename().string());
      if (!generation.ok()) return;
      ForEachEntry(entry.path() / std::to_string(*machine), [&](const fs::directory_entry& part) {
        const std::string name = part.path().filename();
        const auto number = ParseNumber<uint32_t>(name.substr(0, name.find('.')));
        if (number) found[{*generation, *number}][*machine] = part.path();
      });
    });
  });
  return found;
}

}  // namespace

Result<KeptCheckpoint> KeepCheckpoint(const std::string& run_folder, uint32_t machines) {
  const std::map<Commit, PartFolders> found = FindPartFolders(run_folder);
  const auto newest = std::ranges::find_if(found | std::views::reverse, [&](const auto& each) {
    return each.second.size() == machines;
  });
  if (newest == found.rend()) {
    return Error::NotFound("no checkpoint in memory has the parts of all machines");
  }
  std::string folder = (fs::path(run_folder).parent_path() / "lockstep-kept-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return ErrnoError("making " + folder, errno);
  const auto place = [&folder](uint32_t machine) {
    return fs::path(folder) / ("machine-" + std::to_string(machine));
  };
  for (const auto& [machine, part] : newest->second) {
    std::error_code error;
    fs::rename(part, place(machine), error);
    if (!error) continue;
    std::error_code ignored;
    for (const auto& [moved, from] : newest->second) fs::rename(place(moved), from, ignored);
    fs::remove(folder, ignored);
    return Error::Unavailable("moving " + part.string() + ": " + error.message());
  }
  const std::string name = newest->second.begin()->second.filename();
  return KeptCheckpoint{std::move(folder), name.substr(name.find('.') + 1)};
}

std::string HowToUse(const KeptCheckpoint& kept, const std::string& path) {
  const std::string target = path + "/" + kept.name;
  return "checkpoint " + kept.name + " is kept in memory, in " + kept.folder +
         ": make room, then `mkdir " + target + " && cp -r " + kept.folder + "/*/. " + target +
         " && rm -r " + kept.folder + "`, and continue with --resume " + target;
}

}  // namespace lockstep::cli
