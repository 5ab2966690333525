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

Status Failed(const std::string& what, const std::error_code& error) {
  return ErrnoError(what, error.value());
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
  if (error) return Failed("cannot empty " + tree.stage(), error).error();
  Result<CodeFolder> code = CodeFolder::Open(tree.home_);
  if (!code.ok()) return code.error();
  tree.code_ = std::move(*code);
  return tree;
}

Status CodeTree::Link() {
  const std::set<std::string> folders = manifest().Folders();
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
      if (IsNeverCode(name) || manifest().files.contains(path) || folders.contains(path)) return;
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
  if (Status applied = code_->Apply(manifest); !applied.ok()) return applied;
  std::set<std::string> kept;
  for (const auto& [path, file] : manifest.files) kept.insert(file.sha256);
  DropContents(stage(), kept);
  return Link();
}

}  // namespace lockstep::cli
