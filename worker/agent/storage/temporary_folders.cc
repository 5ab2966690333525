#include "worker/agent/storage/temporary_folders.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <utility>

#include "base/folder.h"

namespace lockstep::agent {

namespace fs = std::filesystem;

TemporaryFolders::TemporaryFolders(EventLoop* loop, std::string base, LogFn log)
    : loop_(loop), base_(std::move(base)), log_(std::move(log)) {}

Result<std::string> TemporaryFolders::Make(core::Generation generation) const {
  std::error_code error;
  fs::create_directories(base_, error);
  const fs::path base = fs::canonical(base_, error);
  if (error) return Error::Unavailable(base_ + ": " + error.message());
  std::string folder = base / generation.ToString();
  if (folder.size() > kLongestPath) return Error::Invalid(folder + " is too long for sockets");
  if (mkdir(folder.c_str(), S_IRWXU) != 0) return ErrnoError("cannot make " + folder, errno);
  return folder;
}

void TemporaryFolders::Begin(core::Generation generation, const std::vector<uint32_t>& kept) {
  std::map<uint32_t, std::string> theirs;
  std::set<fs::path> stay = {generation.ToString()};
  for (const uint32_t rank : kept) {
    theirs[rank] = Of(rank);
    stay.insert(fs::path(theirs[rank]).filename());
  }
  kept_ = std::move(theirs);
  ForEachEntry(base_, [&](const fs::directory_entry& entry) {
    if (!stay.contains(entry.path().filename())) Remove(entry.path());
  });
  Result<std::string> made = Make(generation);
  current_ = made.ok() ? *made : "";
  if (!made.ok() && !std::exchange(said_, true)) {
    log_("ranks have no private TMPDIR: " + made.error().message);
  }
}

std::string TemporaryFolders::Of(uint32_t rank) const {
  const auto kept = kept_.find(rank);
  return kept == kept_.end() ? current_ : kept->second;
}

void TemporaryFolders::End() {
  std::set<std::string> folders = {std::exchange(current_, "")};
  for (const auto& [rank, folder] : std::exchange(kept_, {})) folders.insert(folder);
  for (const std::string& folder : folders) {
    if (!folder.empty()) Remove(folder);
  }
}

void TemporaryFolders::Remove(const std::string& folder) {
  if (!worker_) {
    Result<std::unique_ptr<FileWorker>> worker = FileWorker::Create(loop_);
    if (!worker.ok()) return;
    worker_ = std::move(*worker);
  }
  worker_->Run(
      [folder] {
        std::error_code ignored;
        return fs::remove_all(folder, ignored);
      },
      [](auto) {});
}

}  // namespace lockstep::agent
