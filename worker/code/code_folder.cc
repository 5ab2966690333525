#include "worker/code/code_folder.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxList = size_t{64} << 20;

Status Failed(const std::string& what, const std::error_code& error) {
  return ErrnoError(what, error.value());
}

// `path` is a file or a folder, with no link above it.
Status MoveAside(const fs::path& path) {
  const std::string to = path.string() + ".replaced";
  std::string free = to;
  std::error_code none;
  for (int n = 2; fs::exists(fs::symlink_status(free, none)); ++n) free = to + std::to_string(n);
  std::error_code error;
  fs::rename(path, free, error);
  return error ? Failed("cannot rename " + path.string(), error) : Status();
}

// `folder` has no slash at its end.
bool IsBelow(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder + "/");
}

// Python looks at size and second of a source only: an edit of the same length within a second
// would run the old code.
void RemoveCompiled(const fs::path& source) {
  if (source.extension() != ".py") return;
  const std::string begin = source.stem().string() + ".";
  std::vector<fs::path> compiled;
  ForEachEntry(source.parent_path() / "__pycache__", [&](const fs::directory_entry& entry) {
    if (entry.path().filename().string().starts_with(begin)) compiled.push_back(entry.path());
  });
  std::error_code ignored;
  for (const fs::path& each : compiled) fs::remove(each, ignored);
}

}  // namespace

Result<CodeFolder> CodeFolder::Open(const std::string& home) {
  CodeFolder folder(home);
  std::error_code error;
  fs::create_directories(folder.tree(), error);
  if (error) return Failed("cannot make " + folder.tree(), error).error();
  fs::create_directories(folder.stage(), error);
  if (error) return Failed("cannot make " + folder.stage(), error).error();
  const Result<std::string> list = ReadFile(home + "/files", kMaxList);
  if (list.ok()) {
    for (size_t begin = 0; begin < list->size();) {
      const size_t end = std::min(list->find('\0', begin), list->size());
      folder.manifest_.files.emplace(list->substr(begin, end - begin), CodeFile());
      begin = end + 1;
    }
  }
  return folder;
}

Status CodeFolder::WriteList(const CodeManifest& manifest) const {
  std::string list;
  for (const auto& [path, file] : manifest.files) list.append(path).push_back('\0');
  return WriteFileAtomically(home_ + "/files", list, {.mode = 0600});
}

Status CodeFolder::Remove(const std::string& path) {
  const fs::path absolute = fs::path(tree()) / path;
  std::error_code error;
  // Not below a link: that would be the user's own file.
  for (fs::path above = absolute.parent_path(); above != tree(); above = above.parent_path()) {
    if (fs::is_symlink(above, error)) return {};
  }
  // The program has put its own there.
  if (fs::is_directory(fs::symlink_status(absolute, error))) return {};
  fs::remove(absolute, error);
  if (error == std::errc::not_a_directory) return {};
  if (error) return Failed("cannot remove " + absolute.string(), error);
  RemoveCompiled(absolute);
  for (fs::path above = absolute.parent_path(); above != tree(); above = above.parent_path()) {
    fs::remove(above / "__pycache__", error);
    if (!fs::remove(above, error) || error) break;  // it holds something else
  }
  return {};
}

Status CodeFolder::Put(const std::string& path, const CodeFile& file) {
  const fs::path absolute = fs::path(tree()) / path;
  std::error_code error;
  fs::path above = tree();
  for (const fs::path& part : fs::path(path).parent_path()) {
    above /= part;
    if (fs::is_symlink(above, error)) fs::remove(above, error);
    const fs::file_status there = fs::symlink_status(above, error);
    if (fs::exists(there) && !fs::is_directory(there)) {
      if (Status moved = MoveAside(above); !moved.ok()) return moved;
    }
    fs::create_directory(above, error);
    if (error) return Failed("cannot make " + above.string(), error);
  }
  if (fs::is_directory(fs::symlink_status(absolute, error))) {
    if (Status moved = MoveAside(absolute); !moved.ok()) return moved;
  }
  const Status copied =
      CopyFileAtomically(stage() + "/" + file.sha256, absolute.string(), {.mode = file.mode});
  if (copied.ok()) RemoveCompiled(absolute);
  return copied;
}

Status CodeFolder::Apply(const CodeManifest& manifest) {
  // Until all is there, the list names what may be there of both: nothing is left for ever.
  CodeManifest both = manifest;
  both.files.insert(manifest_.files.begin(), manifest_.files.end());
  if (Status written = WriteList(both); !written.ok()) return written;
  for (const auto& [path, file] : manifest_.files) {
    if (manifest.files.contains(path)) continue;
    if (Status removed = Remove(path); !removed.ok()) return removed;
  }
  for (const auto& [path, file] : manifest.files) {
    const auto before = manifest_.files.find(path);
    if (before != manifest_.files.end() && before->second == file) continue;
    if (before != manifest_.files.end()) before->second = CodeFile();
    if (Status put = Put(path, file); !put.ok()) return put;
  }
  manifest_ = manifest;
  if (Status written = WriteList(manifest); !written.ok()) return written;
  return {};
}

void DropContents(const std::string& stage, const std::set<std::string>& kept) {
  std::vector<fs::path> others;
  ForEachEntry(stage, [&](const fs::directory_entry& entry) {
    if (!kept.contains(entry.path().filename().string())) others.push_back(entry.path());
  });
  std::error_code ignored;
  for (const fs::path& each : others) fs::remove(each, ignored);
}

std::string OriginalFolder(const std::string& working_directory) {
  std::error_code none;
  const fs::path folder =
      working_directory.empty() ? fs::current_path(none) : fs::path(working_directory);
  std::string text = folder.lexically_normal().string();
  while (text.ends_with('/')) text.pop_back();
  return text;
}

std::string InTree(const std::string& path, const std::string& folder, const std::string& tree) {
  return IsBelow(path, folder) ? tree + path.substr(folder.size()) : path;
}

std::string PythonPathInTree(const std::string& python_path, const std::string& folder,
                             const std::string& tree) {
  std::string path = tree;
  std::string rest = python_path;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const std::string part = rest.substr(0, end);
    if (!part.empty()) path += ":" + (folder.empty() ? part : InTree(part, folder, tree));
    rest.erase(0, std::min(end + 1, rest.size()));
  }
  return path;
}

std::optional<std::string> WordOfOriginal(const std::vector<std::string>& words,
                                          const std::string& folder, const CodeManifest& manifest) {
  for (const std::string& word : words) {
    const std::string path = fs::path(word).lexically_normal().string();
    if (!IsBelow(path, folder) || path == folder) continue;
    if (manifest.files.contains(path.substr(folder.size() + 1))) return word;
  }
  return std::nullopt;
}

}  // namespace lockstep
