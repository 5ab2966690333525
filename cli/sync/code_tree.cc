#include "cli/sync/code_tree.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/folder.h"
#include "cli/sync/code_rules.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxList = size_t{64} << 20;

Status Failed(const std::string& what, const std::error_code& error) {
  return ErrnoError(what, error.value());
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

Result<CodeTree> CodeTree::Open(const std::string& folder, const std::string& name) {
  CodeTree tree;
  tree.folder_ = folder;
  const std::string ours = folder + "/.lockstep";
  tree.home_ = ours + "/" + name;
  std::error_code error;
  fs::create_directories(tree.tree(), error);
  if (error) return Failed("cannot make " + tree.tree(), error).error();
  fs::permissions(ours, fs::perms::owner_all, error);
  // Git leaves the folder out, whatever the project's own rules are.
  const Status hidden = WriteFileAtomically(ours + "/.gitignore", "*\n");
  if (!hidden.ok()) return hidden.error();
  const std::string lock = tree.home_ + "/lock";
  tree.lock_.reset(open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!tree.lock_.valid()) return ErrnoError("cannot open " + lock, errno);
  if (flock(tree.lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    return Error::Conflict("another run named " + name + " syncs " + folder +
                           "; give this one another name with --name");
  }
  fs::remove_all(tree.stage(), error);
  fs::create_directories(tree.stage(), error);
  if (error) return Failed("cannot make " + tree.stage(), error).error();
  const Result<std::string> list = ReadFile(tree.home_ + "/files", kMaxList);
  if (list.ok()) {
    for (size_t begin = 0; begin < list->size();) {
      const size_t end = std::min(list->find('\0', begin), list->size());
      tree.manifest_.files.emplace(list->substr(begin, end - begin), CodeFile());
      begin = end + 1;
    }
  }
  return tree;
}

Status CodeTree::WriteList(const CodeManifest& manifest) const {
  std::string list;
  for (const auto& [path, file] : manifest.files) list.append(path).push_back('\0');
  return WriteFileAtomically(home_ + "/files", list, {.mode = 0600});
}

Status CodeTree::Remove(const std::string& path) {
  const fs::path absolute = fs::path(tree()) / path;
  std::error_code error;
  // Not below a link: that would be the user's own file.
  for (fs::path above = absolute.parent_path(); above != tree(); above = above.parent_path()) {
    if (fs::is_symlink(above, error)) return {};
  }
  fs::remove(absolute, error);
  if (error) return Failed("cannot remove " + absolute.string(), error);
  RemoveCompiled(absolute);
  for (fs::path above = absolute.parent_path(); above != tree(); above = above.parent_path()) {
    fs::remove(above / "__pycache__", error);
    if (!fs::remove(above, error) || error) break;  // it holds something else
  }
  return {};
}

Status CodeTree::Put(const std::string& path, const CodeFile& file) {
  const fs::path absolute = fs::path(tree()) / path;
  std::error_code error;
  fs::path above = tree();
  for (const fs::path& part : fs::path(path).parent_path()) {
    above /= part;
    if (fs::is_symlink(above, error)) fs::remove(above, error);
    fs::create_directory(above, error);
    if (error) return Failed("cannot make " + above.string(), error);
  }
  const Status copied =
      CopyFileAtomically(stage() + "/" + file.sha256, absolute.string(), {.mode = file.mode});
  if (copied.ok()) RemoveCompiled(absolute);
  return copied;
}

// Those of older versions.
void CodeTree::DropContents() const {
  std::set<std::string> kept;
  for (const auto& [path, file] : manifest_.files) kept.insert(file.sha256);
  std::vector<fs::path> old;
  ForEachEntry(stage(), [&](const fs::directory_entry& entry) {
    if (!kept.contains(entry.path().filename().string())) old.push_back(entry.path());
  });
  std::error_code ignored;
  for (const fs::path& each : old) fs::remove(each, ignored);
}

Status CodeTree::Link() {
  const std::set<std::string> folders = manifest_.Folders();
  for (const std::string& below : folders) {
    const fs::path here = fs::path(tree()) / below;
    const fs::path there = fs::path(folder_) / below;
    std::error_code error;
    std::vector<fs::path> dangling;
    ForEachEntry(here, [&](const fs::directory_entry& entry) {
      std::error_code none;
      const fs::path target = fs::read_symlink(entry.path(), none);
      const bool ours = !none && target == there / entry.path().filename();
      if (ours && !fs::exists(fs::symlink_status(target, none))) dangling.push_back(entry.path());
    });
    for (const fs::path& each : dangling) fs::remove(each, error);
    Status status;
    ForEachEntry(there, [&](const fs::directory_entry& entry) {
      const std::string name = entry.path().filename().string();
      const std::string path = (fs::path(below) / name).string();
      std::error_code none;
      if (IsNeverCode(name) || manifest_.files.contains(path) || folders.contains(path)) return;
      if (fs::exists(fs::symlink_status(here / name, none))) return;
      std::error_code failed;
      fs::create_symlink(entry.path(), here / name, failed);
      if (failed) status = Failed("cannot link " + (here / name).string(), failed);
    });
    if (!status.ok()) return status;
  }
  return {};
}

Status CodeTree::Apply(const CodeManifest& manifest) {
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
  DropContents();
  return Link();
}

}  // namespace lockstep::cli
