#include "worker/code/code_manifest.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "base/crypto/sha256.h"
#include "base/text/json.h"

namespace lockstep {
namespace {

constexpr size_t kMaxCodePath = 1024;  // bytes
constexpr uint32_t kPermissions = 0777;

bool IsDigest(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool StaysInside(const std::string& path) {
  if (path.empty() || path.size() > kMaxCodePath || path.find('\0') != std::string::npos) {
    return false;
  }
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = std::string_view(path).substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

}  // namespace

std::string ToText(const CodeManifest& manifest) {
  Json list = Json::array();
  for (const auto& [path, file] : manifest.files) {
    list.push_back(Json::array({path, file.sha256, file.mode, file.size}));
  }
  return DumpJson(list);
}

Result<CodeManifest> ParseCodeManifest(std::string_view text) {
  const Json list = ParseJson(text);
  if (!list.is_array()) return Error::Invalid("the list of the code's files cannot be read");
  if (list.size() > kMaxCodeFiles) {
    return Error::TooLarge("the code has over " + std::to_string(kMaxCodeFiles) + " files");
  }
  CodeManifest manifest;
  uint64_t bytes = 0;
  for (const Json& entry : list) {
    const bool whole = entry.is_array() && entry.size() == 4 && entry[0].is_string() &&
                       entry[1].is_string() && entry[2].is_number_unsigned() &&
                       entry[3].is_number_unsigned();
    if (!whole) return Error::Invalid("the list of the code's files cannot be read");
    const std::string path = entry[0];
    const CodeFile file{entry[1], entry[2].get<uint32_t>(), entry[3].get<uint64_t>()};
    if (!StaysInside(path) || !IsDigest(file.sha256) || file.mode > kPermissions) {
      return Error::Invalid("the code's file " + path + " has no valid path, hash or mode");
    }
    if (file.size > kMaxCodeFile) return Error::TooLarge(path + " is over 16 MiB");
    bytes += file.size;
    manifest.files.emplace(path, file);
  }
  if (bytes > kMaxCodeBytes) return Error::TooLarge("the code is over 64 MiB");
  return manifest;
}

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

}  // namespace lockstep
