// CodeFolder: the folder where ranks run, with the code of one version. It changes only while no
// rank runs, file by file and in place: the folder keeps its name, and what the program wrote there
// stays.
//
//   HOME/tree/           the ranks' folder
//   HOME/stage/SHA256    contents, of this and other versions
//   HOME/files           the paths that were put into the tree
//
// `lockstep run --sync` has one for a run, and each agent of a job with sync.
#ifndef LOCKSTEP_WORKER_CODE_CODE_FOLDER_H_
#define LOCKSTEP_WORKER_CODE_CODE_FOLDER_H_

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "worker/code/code_manifest.h"

namespace lockstep {

class CodeFolder {
 public:
  // Makes the folders. What an earlier owner put into the tree is known by its list.
  static Result<CodeFolder> Open(const std::string& home);

  std::string tree() const { return home_ + "/tree"; }
  std::string stage() const { return home_ + "/stage"; }
  // What lies in the tree; contents are not known ("") for what an earlier owner left.
  const CodeManifest& manifest() const { return manifest_; }

  // Makes the tree have these files, by contents of the stage, and only these of what was put there
  // before. Compiled files of changed modules go. What the program wrote where code belongs is
  // renamed to PATH.replaced. After an error the tree may be half of both, and
  // no rank may start before another Apply has succeeded.
  Status Apply(const CodeManifest& manifest);

 private:
  explicit CodeFolder(std::string home) : home_(std::move(home)) {}
  Status Remove(const std::string& path);
  Status Put(const std::string& path, const CodeFile& file);
  Status WriteList(const CodeManifest& manifest) const;

  std::string home_;
  CodeManifest manifest_;
};

// Removes all contents of `stage` but these.
void DropContents(const std::string& stage, const std::set<std::string>& kept);

// Where a job's program is in its image: its working directory, else this process's. No slash at
// the end, so "" for "/".
std::string OriginalFolder(const std::string& working_directory);
// The place in `tree` of a path below `folder`, where the original code is; other paths stay.
std::string InTree(const std::string& path, const std::string& folder, const std::string& tree);
// The ranks' PYTHONPATH, made from the original one. Entries below `folder` point into `tree`. If
// `folder` is "/", all entries stay.
std::string PythonPathInTree(const std::string& python_path, const std::string& folder,
                             const std::string& tree);
// A word of the command that names code by its absolute path, so that the original would run.
std::optional<std::string> WordOfOriginal(const std::vector<std::string>& words,
                                          const std::string& folder, const CodeManifest& manifest);

}  // namespace lockstep

#endif  // LOCKSTEP_WORKER_CODE_CODE_FOLDER_H_
