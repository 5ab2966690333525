// CodeTree: the ranks' folder of a `lockstep run --sync`, DIR/.lockstep/NAME/tree. It holds a copy
// of the code, which changes only while no rank runs. What is no code in DIR (data, virtual
// environments) is a link to the original, so that relative paths go on to work. What ranks write
// stays there after the run.
//
// Invariant: nothing is ever written through a link into DIR.
#ifndef LOCKSTEP_CLI_SYNC_CODE_TREE_H_
#define LOCKSTEP_CLI_SYNC_CODE_TREE_H_

#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "worker/code/code_folder.h"
#include "worker/code/code_manifest.h"

namespace lockstep::cli {

class CodeTree {
 public:
  // Conflict: another run of this name syncs this folder.
  static Result<CodeTree> Open(const std::string& folder, const std::string& name);

  std::string tree() const { return home_ + "/tree"; }
  std::string stage() const { return home_ + "/stage"; }
  // What lies in the tree; contents are not known ("") for what an earlier run left.
  const CodeManifest& manifest() const { return code_->manifest(); }

  // As CodeFolder::Apply, then the links.
  Status Apply(const CodeManifest& manifest);

 private:
  CodeTree() = default;
  Status Link();

  std::string folder_;
  std::string home_;
  UniqueFd lock_;
  std::optional<CodeFolder> code_;  // once it is open
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_SYNC_CODE_TREE_H_
