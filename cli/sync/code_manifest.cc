#include "cli/sync/code_manifest.h"

#include <span>

#include "base/crypto/sha256.h"

namespace lockstep::cli {

std::string CodeManifest::Digest() const {
  Sha256 hash;
  for (const auto& [path, file] : files) {
    const std::string line = path + '\0' + std::to_string(file.mode) + '\0' + file.sha256 + '\n';
    hash.Add(std::as_bytes(std::span(line)));
  }
  return hash.Hex();
}

std::set<std::string> CodeManifest::Folders() const {
  std::set<std::string> folders = {""};
  for (const auto& [path, file] : files) {
    for (size_t slash = path.find('/'); slash != std::string::npos;
         slash = path.find('/', slash + 1)) {
      folders.insert(path.substr(0, slash));
    }
  }
  return folders;
}

std::vector<std::string> Changes(const CodeManifest& from, const CodeManifest& to) {
  std::vector<std::string> paths;
  for (const auto& [path, file] : to.files) {
    const auto before = from.files.find(path);
    if (before == from.files.end() || before->second != file) paths.push_back(path);
  }
  for (const auto& [path, file] : from.files) {
    if (!to.files.contains(path)) paths.push_back(path);
  }
  return paths;
}

std::string NamesOfChanges(const std::vector<std::string>& paths) {
  if (paths.empty()) return "nothing";
  if (paths.size() == 1) return paths[0];
  if (paths.size() == 2) return paths[0] + " and " + paths[1];
  return paths[0] + " and " + std::to_string(paths.size() - 1) + " more files";
}

}  // namespace lockstep::cli
