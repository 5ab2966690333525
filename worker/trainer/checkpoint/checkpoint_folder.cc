#include "worker/trainer/checkpoint/checkpoint_folder.h"

#include <filesystem>
#include <system_error>

#include "worker/trainer/checkpoint/manifest.h"

namespace lockstep::trainer {

namespace fs = std::filesystem;

CheckpointFolder::~CheckpointFolder() {
  if (kept_) return;
  std::error_code ignored;
  if (!open_.empty()) fs::remove(fs::path(path_) / open_, ignored);
  for (const auto& [name, sum] : files_) fs::remove(fs::path(path_) / name, ignored);
  fs::remove(path_, ignored);  // only if it is empty
}

Status CheckpointFolder::Make() {
  std::error_code code;
  fs::create_directories(path_, code);
  if (!code) fs::remove(fs::path(path_) / kManifestFile, code);
  if (code) return Error::Unavailable("making the folder " + path_ + ": " + code.message());
  return {};
}

Status CheckpointFolder::Add(const std::string& name,
                             const std::function<Status(OutputFile*)>& fill) {
  Result<OutputFile> file = OutputFile::Create(path_ + "/" + name);
  if (!file.ok()) return file.error();
  open_ = name;
  Status filled = fill(&*file);
  if (!filled.ok()) return filled;
  Result<FileSum> sum = file->Finish();
  if (!sum.ok()) return sum.error();
  files_[name] = *sum;
  open_.clear();
  return {};
}

Status CheckpointFolder::Add(const std::string& name, const std::string& text) {
  return Add(name, [&text](OutputFile* file) { return file->Write(text); });
}

Status CheckpointFolder::Keep() {
  Status synced = SyncFolder(path_);
  if (synced.ok()) synced = SyncFolder(fs::absolute(path_).lexically_normal().parent_path());
  kept_ = synced.ok();
  return synced;
}

}  // namespace lockstep::trainer
