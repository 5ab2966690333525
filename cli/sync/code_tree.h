// CodeTree: the ranks' folder of a `lockstep run --sync`, DIR/.lockstep/NAME/tree. It holds a copy
// of the code, which changes only while no rank runs. What is no code in DIR (data, virtual
// environments) is a link to the original, so that relative paths go on to work. What ranks write
// stays there after the run.
//
// Invariant: nothing is ever written through a link into DIR.
#ifndef LOCKSTEP_CLI_SYNC_CODE_TREE_H_
#define LOCKSTEP_CLI_SYNC_CODE_TREE_H_

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "cli/sync/code_manifest.h"

namespace lockstep::cli {

class CodeTree {
 public:
  // Conflict: another run of this name syncs this folder.
  static Result<CodeTree> Open(const std::string& folder, const std::string& name);

  std::string tree() const { return home_ + "/tree"; }
  std::string stage() const { return home_ + "/stage"; }
  // What lies in the tree; contents are not known ("") for what an earlier run left.
  const CodeManifest& manifest() const { return manifest_; }

  // Makes the tree have these files, by contents of the stage, and only these of what was synced
  // before. Compiled files of changed modules go. After an error the tree may be half of both, and
  // no rank may start before another Apply has succeeded.
  Status Apply(const CodeManifest& manifest);

 private:
  CodeTree() = default;
  Status Remove(const std::string& path);
  Status Put(const std::string& path, const CodeFile& file);
  Status Link();
  void DropContents() const;
  Status WriteList(const CodeManifest& manifest) const;

  std::string folder_;
  std::string home_;
  UniqueFd lock_;
  CodeManifest manifest_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_SYNC_CODE_TREE_H_
