#include "worker/trainer/checkpoint/prune.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "worker/trainer/checkpoint/manifest.h"

namespace lockstep::trainer {

namespace {

namespace fs = std::filesystem;

void Remove(const std::string& folder) {
  Result<ManifestFile> manifest = ReadManifest(folder);
  if (!manifest.ok()) return;
  std::error_code code;
  for (const auto& [name, sum] : manifest->files) {
    // Lockstep writes no name that leads out of the folder.
    if (fs::path(name).filename() == name && !code) fs::remove(fs::path(folder) / name, code);
  }
  if (code) return;
  fs::remove(fs::path(folder) / kManifestFile, code);
  fs::remove(folder, code);  // only if it is empty
}

}  // namespace

void Prune(const std::vector<std::string>& folders, int keep) {
  size_t kept = std::min(folders.size(), static_cast<size_t>(std::max(0, keep)));
  for (size_t i = 0; i < folders.size() - kept; ++i) Remove(folders[i]);
}

}  // namespace lockstep::trainer
