#include "worker/agent/storage/checkpoint_volume.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/text/ascii.h"
#include "base/text/json.h"
#include "base/unique_fd.h"
#include "core/gang/protocol/resume.h"
#include "worker/agent/files/part_folder.h"

namespace lockstep::agent {

namespace {

using core::CheckpointEntry;
using core::Generation;
using core::GenerationFile;
namespace fs = std::filesystem;

constexpr size_t kMaxGenerationFile = size_t{64} << 10;

Error FileError(const std::string& what, const std::error_code& code) {
  return Error::Unavailable(what + ": " + code.message());
}

constexpr const char* kRemoved = "removed-";  // of a checkpoint's way from memory

fs::path PersistsOf(const std::string& root, Generation generation) {
  return fs::path(root) / ".lockstep" / "memory" / generation.ToString();
}

constexpr size_t kCommitDigits = 6;  // at least

// "000003.step-1200" is commit 3, "1000000.step-9" the millionth; whatever else stands there is not
// complete.
std::optional<uint32_t> CommitNumber(std::string_view name) {
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos || dot < kCommitDigits || dot + 1 == name.size()) {
    return std::nullopt;
  }
  if (dot > kCommitDigits && name[0] == '0') return std::nullopt;
  return ParseNumber<uint32_t>(name.substr(0, dot));
}

struct OneFile {
  GenerationFile file;
  std::string job_uid;
};

// nullopt: it says nothing, as a crash between creating and writing it leaves it, or can't be read.
std::optional<OneFile> ReadGenerationFile(const fs::path& path, Generation generation) {
  const Result<std::string> text = ReadFile(path.string(), kMaxGenerationFile);
  Json json = ParseJson(text.ok() ? *text : "");
  if (!json.is_object() || !json.value("resumes", Json()).is_string()) return std::nullopt;
  std::string uid = json.value("jobUID", Json("")).is_string() ? json["jobUID"] : "";
  OneFile file{{generation, json["resumes"].get<std::string>()}, std::move(uid)};
  const auto skips = json.find("skips");
  if (skips != json.end() && skips->is_string()) file.file.skips = skips->get<std::string>();
  const auto earlier = json.find("earlier");
  if (earlier != json.end() && earlier->is_number_unsigned()) {
    file.file.earlier = earlier->get<uint32_t>();
  }
  return file;
}

Status SyncFolder(const fs::path& folder) {
  UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) return ErrnoError("fsync " + folder.string(), errno);
  return {};
}

// Exclusive: the agent that creates the file owns the number.
Status CreateExclusively(const fs::path& path, const std::string& text) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd.valid() && errno == EEXIST) return Error::Conflict(path.string() + " exists already");
  if (!fd.valid()) return ErrnoError("creating " + path.string(), errno);
  Status written = WriteAll(fd.get(), text, path.string());
  if (written.ok() && fsync(fd.get()) != 0) written = ErrnoError("writing " + path.string(), errno);
  if (written.ok()) written = SyncFolder(path.parent_path());
  // Nothing began by it, and its successor would find it damaged.
  if (!written.ok()) unlink(path.c_str());
  return written;
}

}  // namespace

CheckpointVolume::CheckpointVolume(std::string root, std::string job_uid, std::string resume,
                                   uint32_t first_attempt)
    : GenerationLine(root,
                     "continue from one of them with checkpoint.resume: PATH, begin anew beside "
                     "them with resume: Never, or choose another checkpoint.path",
                     std::move(job_uid), std::move(resume), first_attempt),
      root_(std::move(root)) {}

Result<GenerationLine::Generations> CheckpointVolume::ReadGenerations() const {
  const fs::path folder = fs::path(root_) / "generations";
  std::error_code code;
  Generations found;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    const Result<Generation> generation = Generation::Parse(it->path().filename().string());
    if (!generation.ok()) continue;
    std::optional<OneFile> file = ReadGenerationFile(it->path(), *generation);
    if (!file) {
      found.silent.push_back(*generation);
    } else if (file->job_uid == job_uid()) {
      found.own.push_back(std::move(file->file));
    } else {
      found.others.push_back(*generation);
      found.other_uid = std::move(file->job_uid);
    }
  }
  const bool none = code == std::errc::no_such_file_or_directory;
  if (code && !none) return FileError("reading " + folder.string(), code);
  return found;
}

Result<std::vector<CheckpointEntry>> CheckpointVolume::ReadCommits(const Generations& /*found*/,
                                                                   Generation generation) const {
  const fs::path folder = CheckpointDir(generation);
  std::vector<CheckpointEntry> entries;
  std::error_code code;
  if (!fs::exists(folder, code)) return entries;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    std::optional<uint32_t> number = CommitNumber(it->path().filename().string());
    if (number) entries.push_back({generation, *number, it->path().string()});
  }
  if (code) return FileError("reading " + folder.string(), code);
  return entries;
}

Status CheckpointVolume::CheckResume(const std::string& resume) const {
  std::error_code code;
  if (fs::is_directory(resume, code)) return {};
  return Error::NotFound("checkpoint.resume names " + resume + ", which is not a folder");
}

Status CheckpointVolume::MakeFolder(Generation generation) const {
  std::error_code code;
  fs::create_directories(fs::path(root_) / "generations", code);
  if (!code) fs::create_directories(CheckpointDir(generation), code);
  if (code) return FileError("making folders in " + root_, code);
  return {};
}

Status CheckpointVolume::Create(const Record& record) const {
  Json json = {{"generation", record.generation.ToString()},
               {"jobUID", record.job_uid},
               {"resumes", record.resumes}};
  if (!record.skips.empty()) json["skips"] = record.skips;
  if (record.earlier > 0) json["earlier"] = record.earlier;
  return CreateExclusively(PathOfRecord(record.generation), DumpJson(json) + "\n");
}

std::string CheckpointVolume::PathOfRecord(Generation generation) const {
  return (fs::path(root_) / "generations" / generation.ToString()).string();
}

std::string CheckpointVolume::CheckpointDir(Generation generation) const {
  return (fs::path(root_) / "checkpoints" / generation.ToString()).string();
}

std::string CheckpointVolume::PersistDir(core::CheckpointId to, core::CheckpointId id) const {
  const std::string name = id.generation.ToString() + "-" + std::to_string(id.number);
  return (PersistsOf(root_, to.generation) / name).string();
}

void CheckpointVolume::RemoveUnfinished(const std::string& but) const {
  const Result<Generations> found = ReadGenerations();
  if (!found.ok()) return;
  std::error_code ignored;
  for (const GenerationFile& file : found->own) {
    std::vector<fs::path> left;
    for (fs::directory_iterator it(PersistsOf(root_, file.generation), ignored), end; it != end;
         it.increment(ignored)) {
      if (it->path() != but) left.push_back(it->path());
    }
    // What was moved away before first, so that there is room for its name.
    std::ranges::sort(left, std::greater());
    for (const fs::path& path : left) {
      const fs::path away = path.parent_path() / (kRemoved + path.filename().string());
      const bool moved = !path.filename().string().starts_with(kRemoved);
      if (moved) fs::rename(path, away, ignored);
      RemoveTree((moved ? away : path).string());
    }
  }
}

Status CheckpointVolume::FinishPersisting(const std::string& work, core::CheckpointId to,
                                          const std::string& name, uint32_t machines) const {
  Status whole = FinishParts(work, machines);
  if (!whole.ok()) return whole;
  const std::string final = FinalPath(to.generation, to.number, name);
  if (rename(TreeOf(work).c_str(), final.c_str()) != 0) {
    return ErrnoError("moving to " + final, errno);
  }
  RemoveTree(work);
  Status ignored = WriteFileAtomically((fs::path(root_) / "LATEST").string(),
                                       fs::path(final).lexically_relative(root_).string() + "\n");
  return SyncFolder(CheckpointDir(to.generation));
}

std::string CheckpointVolume::FinalPath(Generation generation, uint32_t number,
                                        const std::string& name) const {
  std::array<char, 16> prefix{};
  std::snprintf(prefix.data(), prefix.size(), "%06u.", number);
  return (fs::path(CheckpointDir(generation)) / (prefix.data() + name)).string();
}

}  // namespace lockstep::agent
