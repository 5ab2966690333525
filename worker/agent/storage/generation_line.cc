#include "worker/agent/storage/generation_line.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>

#include "core/terms/skipped_steps.h"

namespace lockstep::agent {

namespace {

using core::CheckpointEntry;
using core::Generation;
using core::GenerationFile;
namespace fs = std::filesystem;

uint32_t HighestOf(const std::vector<Generation>& generations, uint32_t attempt) {
  uint32_t highest = 0;
  for (const Generation& each : generations) {
    if (each.attempt == attempt) highest = std::max(highest, each.n);
  }
  return highest;
}

}  // namespace

Result<GenerationLine::Begun> GenerationLine::BeginGeneration(
    Generation generation, const std::optional<core::EarlierRequest>& earlier) const {
  Result<Generations> found = ReadGenerations();
  if (!found.ok()) return found.error();
  if (found->own.empty() && !found->others.empty() && resume_ == "Auto") {
    return Error::Invalid(where_ + " holds checkpoints of another job (" + found->other_uid +
                          "): " + instead_);
  }
  for (const Generation& silent : found->silent) {
    // Without commits it never started.
    const auto entries = ReadCommits(*found, silent);
    if (!entries.ok()) return entries.error();
    if (entries->empty()) continue;
    return Error::Invalid(PathOfRecord(silent) +
                          " is empty, damaged or can't be read, yet that generation committed " +
                          std::to_string(entries->size()) + " checkpoints in " +
                          PathOfCommits(silent) +
                          ": restore the file, or move that folder away to continue without them");
  }
  const uint32_t later = core::LaterAttempt(found->own, generation);
  if (later != 0) return Begun{.resumes = "", .later = later};
  const uint32_t taken = HighestOf(found->others, generation.attempt);
  if (taken == std::numeric_limits<uint32_t>::max()) {
    return Error::TooLarge("another job used the last number in " +
                           fs::path(PathOfRecord(generation)).parent_path().string());
  }
  if (generation.n <= taken) return Begun{.resumes = "", .taken = taken};
  Status made = MakeFolder(generation);
  if (!made.ok()) return made.error();
  Begun next;
  const auto is_own = [this](const std::string& path, Generation of) {
    return fs::path(path).parent_path() == PathOfCommits(of);
  };
  std::string& resumes = next.resumes;
  const bool begun = std::ranges::any_of(found->own, [&](const GenerationFile& file) {
    return file.generation.attempt >= first_attempt_;
  });
  if (!begun && resume_ != "Auto") {
    resumes = resume_ == "Never" ? "" : resume_;
    Status there = resumes.empty() ? Status() : CheckResume(resumes);
    if (!there.ok()) return there.error();
  } else {
    if (const GenerationFile* before = core::FileBefore(found->own, generation)) {
      next.skips = before->skips;
      next.earlier = before->earlier;
    }
    std::vector<CheckpointEntry> checkpoints;
    for (const GenerationFile& file : found->own) {
      Result<std::vector<CheckpointEntry>> entries = ReadCommits(*found, file.generation);
      if (!entries.ok()) return entries.error();
      checkpoints.insert(checkpoints.end(), entries->begin(), entries->end());
    }
    if (earlier) {
      core::EarlierCheckpoint chosen =
          core::ChooseEarlier(found->own, checkpoints, generation, earlier->before, is_own);
      if (chosen.missing) return Begun{.resumes = "", .none_earlier = true};
      resumes = std::move(chosen.path);
      next.set_aside = std::move(chosen.set_aside);
      const int64_t done = core::StepInName(resumes).value_or(0);
      next.skips =
          core::AddSkipped(next.skips, std::max(earlier->skip_first, done + 1), earlier->skip_last);
      ++next.earlier;
    } else {
      resumes = core::ChooseResume(found->own, checkpoints, generation);
    }
  }
  Status created = Create({generation, job_uid_, resumes, next.skips, next.earlier});
  if (!created.ok()) return created.error();
  const core::CheckpointId commit = core::CheckpointIdOf(resumes);
  const bool ours = std::ranges::any_of(found->own, [&](const GenerationFile& file) {
    return file.generation == commit.generation && is_own(resumes, commit.generation);
  });
  if (ours) next.commit = commit;
  return next;
}

}  // namespace lockstep::agent
