// CodeSync: the code of a `lockstep run --sync`, from the folder where it is edited to the folder
// where ranks run.
//
//   Result<std::unique_ptr<CodeSync>> sync = CodeSync::Open(folder, name, without);
//   (*sync)->Watch(loop, [&] { ... });
//   if (Result<bool> news = (*sync)->Scan(); news.ok() && *news) HoldGang();
//   (*sync)->Apply();  // once the gang is held
#ifndef LOCKSTEP_CLI_SYNC_CODE_SYNC_H_
#define LOCKSTEP_CLI_SYNC_CODE_SYNC_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/result.h"
#include "cli/sync/code_scanner.h"
#include "cli/sync/code_tree.h"
#include "cli/sync/code_watch.h"
#include "core/model/spec.h"

namespace lockstep::cli {

class CodeSync {
 public:
  // Scans, and puts the first version into place. The errors of CodeScanner and CodeTree.
  static Result<std::unique_ptr<CodeSync>> Open(const std::string& folder, const std::string& name,
                                                std::vector<std::string> without);

  Status Watch(EventLoop* loop, std::function<void()> on_change);
  // Before the loop is gone.
  void StopWatching() { watch_.reset(); }
  // Whether the folder has another version than the tree. Watches new folders.
  Result<bool> Scan();
  // Only while no rank runs.
  Status Apply();

  std::string tree() const { return tree_.tree(); }
  const std::string& folder() const { return scanner_.folder(); }
  const CodeManifest& applied() const { return tree_.manifest(); }
  // "model.py and 2 more files": what Apply will change.
  std::string News() const;
  // What the last scan left out, and why.
  const std::vector<std::string>& left_out() const { return next_.left_out; }

 private:
  CodeSync(CodeTree tree, CodeScanner scanner)
      : tree_(std::move(tree)), scanner_(std::move(scanner)) {}

  CodeTree tree_;
  CodeScanner scanner_;
  CodeScan next_;
  std::unique_ptr<CodeWatch> watch_;
};

// Makes the job's ranks run in the tree of `folder`: working directory, PYTHONPATH. `here` is the
// current folder. Invalid: the command names code by its absolute path, so that the original would
// run.
Status RunInTree(core::Spec* spec, const CodeSync& sync, const std::string& here,
                 const std::string& python_path);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_SYNC_CODE_SYNC_H_
