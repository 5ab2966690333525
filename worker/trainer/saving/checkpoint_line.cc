#include "worker/trainer/saving/checkpoint_line.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <optional>
#include <ranges>
#include <tuple>
#include <utility>

#include "base/file.h"
#include "base/folder.h"
#include "base/text/ascii.h"
#include "base/text/json.h"
#include "worker/trainer/checkpoint/output_file.h"
#include "worker/trainer/checkpoint/prune.h"

namespace lockstep::trainer {

namespace {

namespace fs = std::filesystem;

constexpr Duration kCommitTimeout = seconds(60);
// The other machines ask when rank 0 begins to write.
constexpr Duration kMemoryCommitTimeout = minutes(10);
constexpr const char* kStep = "step-";

// "2-5" as (2, 5).
std::optional<std::pair<uint64_t, uint64_t>> ParseGeneration(const std::string& name) {
  const size_t dash = name.find('-');
  if (dash == std::string::npos) return {};
  const auto attempt = ParseNumber<uint64_t>(name.substr(0, dash));
  const auto n = ParseNumber<uint64_t>(name.substr(dash + 1));
  return attempt && n ? std::optional(std::pair(*attempt, *n)) : std::nullopt;
}

// "000003.step-1200" as 3: complete. Anything else is still being written.
std::optional<uint64_t> ParseCommit(const std::string& name) {
  constexpr size_t kDigits = 6;
  if (name.size() <= kDigits || name[kDigits] != '.') return {};
  return ParseNumber<uint64_t>(name.substr(0, kDigits));
}

std::vector<fs::path> FoldersIn(const fs::path& folder) {
  std::vector<fs::path> found;
  ForEachEntry(folder, [&found](const fs::directory_entry& entry) {
    std::error_code gone;
    if (entry.is_directory(gone)) found.push_back(entry.path());
  });
  return found;
}

// The commits of one generation, the oldest first.
std::vector<std::string> CommitsIn(const fs::path& generation) {
  std::vector<std::pair<uint64_t, std::string>> commits;
  for (const fs::path& folder : FoldersIn(generation)) {
    if (const auto number = ParseCommit(folder.filename())) commits.emplace_back(*number, folder);
  }
  std::sort(commits.begin(), commits.end());
  std::vector<std::string> folders;
  for (auto& [number, folder] : commits) folders.push_back(std::move(folder));
  return folders;
}

// The commits of this generation and those before it, the oldest first.
std::vector<std::string> CommitsUpTo(const fs::path& generation) {
  const auto last = ParseGeneration(generation.filename());
  std::vector<std::pair<std::pair<uint64_t, uint64_t>, fs::path>> generations;
  for (const fs::path& folder : FoldersIn(generation.parent_path())) {
    const auto number = ParseGeneration(folder.filename());
    if (number && number <= last) generations.emplace_back(*number, folder);
  }
  std::sort(generations.begin(), generations.end());
  std::vector<std::string> complete;
  for (const auto& [number, folder] : generations) {
    for (std::string& commit : CommitsIn(folder)) complete.push_back(std::move(commit));
  }
  return complete;
}

// What a generation resumed from, by its file; "" for nothing.
std::string ResumedFrom(const fs::path& generation_file) {
  const Result<std::string> text = ReadFile(generation_file, 1 << 20);
  const Json json = ParseJson(text.ok() ? *text : "");
  if (!json.is_object() || !json.contains("resumes") || !json["resumes"].is_string()) return "";
  return json["resumes"];
}

// `newest` and what its line has before it.
std::vector<std::string> LineBefore(const fs::path& newest) {
  constexpr size_t kMost = 1000;
  std::vector<std::string> line;
  fs::path at = newest;
  while (!at.empty() && line.size() < kMost) {
    const std::optional<uint64_t> number = ParseCommit(at.filename());
    const fs::path generation = at.parent_path();
    if (!number || !ParseGeneration(generation.filename())) {
      line.push_back(at);  // a path of the user's, where the line began
      break;
    }
    const std::vector<std::string> commits = CommitsIn(generation);
    for (const std::string& commit : commits | std::views::reverse) {
      if (*ParseCommit(fs::path(commit).filename()) <= *number) line.push_back(commit);
    }
    const fs::path root = generation.parent_path().parent_path();
    at = ResumedFrom(root / "generations" / generation.filename());
  }
  return line;
}

std::string NameOf(int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "%s%08lld", kStep, static_cast<long long>(step));
  return name;
}

// step-00001200, the oldest first.
std::vector<std::string> StepsIn(const std::string& folder) {
  std::vector<std::string> found;
  for (const fs::path& each : FoldersIn(folder)) {
    if (each.filename().string().starts_with(kStep)) found.push_back(each);
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Renames `folder` to `final`. A checkpoint there, of an earlier run that was told to start over,
// stays until the new one has its name.
Status Place(const std::string& folder, const std::string& final) {
  std::error_code ignored;
  const auto problem = [&] { return ErrnoError("cannot move " + folder + " to " + final, errno); };
  if (!fs::exists(final, ignored)) {
    return std::rename(folder.c_str(), final.c_str()) == 0 ? Status() : problem();
  }
  if (renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, final.c_str(), RENAME_EXCHANGE) == 0) {
    fs::remove_all(folder, ignored);
    return {};
  }
  if (errno == ENOSPC || errno == EDQUOT || errno == EIO) return problem();
  // Network file systems and some sandboxes exchange no names.
  const std::string former = folder + ".former";
  fs::remove_all(former, ignored);
  if (std::rename(final.c_str(), former.c_str()) != 0) return problem();
  if (std::rename(folder.c_str(), final.c_str()) != 0) {
    const Status failed = problem();
    std::rename(former.c_str(), final.c_str());
    return failed;
  }
  fs::remove_all(former, ignored);
  return {};
}

// For people: nothing reads it.
void WriteHint(const fs::path& root, const fs::path& final) {
  const Status ignored =
      WriteFileAtomically((root / "LATEST").string(), fs::relative(final, root).string() + "\n");
}

}  // namespace

CheckpointLine::CheckpointLine(Options options, AgentLink& agent)
    : options_(std::move(options)), agent_(&agent) {}

Result<CheckpointLine::Candidates> CheckpointLine::ToResumeFrom() const {
  const std::string& resume = options_.resume;
  Candidates candidates;
  if (resume.empty() || resume == "never") return candidates;
  if (resume == "auto") {
    candidates.folders = StepsIn(options_.folder);
    std::reverse(candidates.folders.begin(), candidates.folders.end());
    return candidates;
  }
  const fs::path named = fs::path(resume).lexically_normal();
  std::error_code error;
  if (!fs::is_directory(named, error)) {
    return Error::NotFound("there is no checkpoint " + resume +
                           "; name the folder that holds model.safetensors");
  }
  candidates.folders = LineBefore(named);
  candidates.named = candidates.folders.size() == 1 && !ParseCommit(named.filename());
  // From memory: what its line has on the disk comes after it.
  if (options_.committed && ParseCommit(named.filename()) &&
      !ParseGeneration(named.parent_path().filename())) {
    const fs::path generation = fs::path(options_.folder).filename();
    std::ranges::copy(LineBefore(ResumedFrom(fs::path(Root()) / "generations" / generation)),
                      std::back_inserter(candidates.folders));
  }
  return candidates;
}

std::string CheckpointLine::FolderFor(int64_t step) const {
  return fs::path(options_.folder) / ((options_.committed ? "" : ".writing-") + NameOf(step));
}

std::string CheckpointLine::MemoryFolderFor(int64_t step) const {
  for (const fs::path& left : FoldersIn(options_.memory)) {
    std::error_code ignored;
    fs::remove_all(left, ignored);
  }
  return fs::path(options_.memory) / NameOf(step);
}

bool CheckpointLine::IsInMemory(const std::string& folder) const {
  return in_memory() && fs::path(folder).parent_path() == options_.memory;
}

Result<std::string> CheckpointLine::Commit(const std::string& folder) const {
  std::string name = fs::path(folder).filename();
  if (IsInMemory(folder)) {
    return agent_->Commit(name, kMemoryCommitTimeout, AgentLink::Store::kMemory);
  }
  std::string final;
  if (options_.committed) {
    Result<std::string> granted = agent_->Commit(name, kCommitTimeout);
    if (!granted.ok()) return granted;
    final = *granted;
  } else {
    name = name.substr(name.find(kStep));
    final = fs::path(options_.folder) / name;
  }
  Result<std::string> moved = MoveTo(folder, final);
  if (!moved.ok()) return moved;
  WriteHint(Root(), final);
  if (options_.keep > 0) RemoveOlder(final);
  return moved;
}

Result<std::string> CheckpointLine::MoveTo(const std::string& folder,
                                           const std::string& final) const {
  const Status placed = Place(folder, final);
  if (!placed.ok()) return placed.error();
  Status synced = SyncFolder(fs::path(final).parent_path());
  if (!synced.ok()) return synced.error();
  return final;
}

// What is not in the line was set aside by a restart from an earlier checkpoint, or committed late.
// It is counted apart, so that it takes no place of the line.
void CheckpointLine::RemoveOlder(const std::string& newest) const {
  if (!options_.committed) return Prune(StepsIn(options_.folder), options_.keep);
  std::vector<std::string> line;
  std::vector<std::string> aside;
  const std::vector<std::string> before = LineBefore(newest);
  for (std::string& commit : CommitsUpTo(options_.folder)) {
    const bool in_line = std::ranges::find(before, commit) != before.end();
    (in_line ? line : aside).push_back(std::move(commit));
  }
  Prune(line, options_.keep);
  Prune(aside, options_.keep);
}

std::string CheckpointLine::Root() const {
  const fs::path folder(options_.folder);
  return options_.committed ? folder.parent_path().parent_path() : folder;
}

}  // namespace lockstep::trainer
