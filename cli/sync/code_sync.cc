#include "cli/sync/code_sync.h"

#include <algorithm>
#include <utility>

namespace lockstep::cli {
namespace {

constexpr const char* kPythonPath = "PYTHONPATH";

}  // namespace

Result<std::unique_ptr<CodeSync>> CodeSync::Open(const std::string& folder, const std::string& name,
                                                 std::vector<std::string> without) {
  Result<CodeTree> tree = CodeTree::Open(folder, name);
  if (!tree.ok()) return tree.error();
  CodeScanner scanner(folder, tree->stage(), std::move(without));
  std::unique_ptr<CodeSync> sync(new CodeSync(std::move(*tree), std::move(scanner)));
  if (Result<bool> news = sync->Scan(); !news.ok()) return news.error();
  if (sync->next_.manifest.files.empty()) {
    return Error::NotFound(folder + " has no files to sync: all are ignored");
  }
  if (Status applied = sync->Apply(); !applied.ok()) return applied.error();
  return sync;
}

Status CodeSync::Watch(EventLoop* loop, std::function<void()> on_change) {
  Result<std::unique_ptr<CodeWatch>> watch = CodeWatch::Open(loop, std::move(on_change));
  if (!watch.ok()) return watch.error();
  watch_ = std::move(*watch);
  return watch_->Watch(scanner_.folder(), applied().Folders());
}

Result<bool> CodeSync::Scan() {
  Result<CodeScan> scan = scanner_.Scan();
  if (!scan.ok()) return scan.error();
  next_ = std::move(*scan);
  if (watch_) {
    const Status watched = watch_->Watch(scanner_.folder(), next_.manifest.Folders());
    if (!watched.ok()) return watched.error();
  }
  return next_.manifest.files != applied().files;
}

Status CodeSync::Apply() { return tree_.Apply(next_.manifest); }

std::string CodeSync::News() const { return NamesOfChanges(Changes(applied(), next_.manifest)); }

Status RunInTree(core::Spec* spec, const CodeSync& sync, const std::string& here,
                 const std::string& python_path) {
  const std::string& folder = sync.folder();
  const std::string tree = sync.tree();
  for (const std::vector<std::string>* words : {&spec->command, &spec->args}) {
    if (const auto word = WordOfOriginal(*words, folder, sync.applied())) {
      return Error::Invalid("--sync: " + *word +
                            " would run the original code; name it relative to " + folder);
    }
  }
  const std::string& asked = spec->working_dir.empty() ? here : spec->working_dir;
  const std::string moved = InTree(asked, folder, tree);
  spec->working_dir = moved == asked ? tree : moved;
  const auto own = std::ranges::find(spec->env, std::string(kPythonPath), &core::EnvVar::name);
  const std::string path =
      PythonPathInTree(own == spec->env.end() ? python_path : own->value, folder, tree);
  if (own == spec->env.end()) {
    core::EnvVar variable;
    variable.name = kPythonPath;
    variable.value = path;
    spec->env.push_back(std::move(variable));
  } else {
    own->value = path;
  }
  return {};
}

}  // namespace lockstep::cli
