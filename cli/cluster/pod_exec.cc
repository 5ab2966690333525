#include "cli/cluster/pod_exec.h"

#include "core/model/shortcuts.h"

namespace lockstep::cli {
namespace {

// Where a pod has its agent, and that agent its run folder (operator/objects/pod_parts.h).
constexpr const char* kAgent = "/lockstep/lockstep-agent";
constexpr const char* kRunFolder = "/run/lockstep/agent";

}  // namespace

std::vector<std::string> AskPod(const ClusterAddress& where, const kube::PodView& pod,
                                std::initializer_list<const char*> question, bool with_stdin) {
  std::vector<std::string> argv = {"kubectl", "exec", pod.meta.name};
  if (with_stdin) argv.emplace_back("--stdin");
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) argv.insert(argv.end(), {option, value});
  };
  add("--kubeconfig", where.kubeconfig);
  add("--context", where.context);
  add("--namespace", pod.meta.name_space);
  add("--container", core::kWorkerContainer);
  argv.insert(argv.end(), {"--", kAgent});
  argv.insert(argv.end(), question.begin(), question.end());
  argv.emplace_back(kRunFolder);
  return argv;
}

}  // namespace lockstep::cli
