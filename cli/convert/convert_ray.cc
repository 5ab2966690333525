// KubeRay's RayJob (ray.io/v1): one that needs no Ray cluster of several machines.
#include <algorithm>

#include "cli/convert/job_builder.h"
#include "cli/convert/kubeflow_job.h"
#include "core/plan/environment.h"
#include "core/plan/launcher.h"

namespace lockstep::convert {
namespace {

int64_t Workers(const Node& source, JobBuilder& builder) {
  const Node* groups = source.Walk({"rayClusterSpec", "workerGroupSpecs"});
  int64_t workers = 0;
  if (groups == nullptr) return 0;
  for (const Node& group : groups->items()) {
    const int64_t replicas = CountAt(group, "replicas", 1, builder);
    const int64_t at_most = CountAt(group, "maxReplicas", replicas, builder);
    workers += std::clamp<int64_t>(std::max(replicas, at_most), 0, 1'000'000);
  }
  return workers;
}

// The entrypoint as words, or as a shell's line where it holds more than one command.
Node Command(const std::string& entrypoint) {
  std::vector<std::string> words = core::SplitShellWords(entrypoint);
  const bool needs_shell = entrypoint.find_first_of(";|&<>$`*?[{~#!\n()") != std::string::npos;
  if (needs_shell) words = {"sh", "-c", entrypoint};
  Node command = Node::List();
  // Ray runs the entrypoint, in which Kubernetes replaces nothing.
  for (const std::string& word : words) command.Append(Node::String(core::EscapeVariables(word)));
  return command;
}

}  // namespace

void ConvertRayJob(const Node& document, JobBuilder& builder) {
  KubeflowJob job(document, builder);
  const Node& source = job.source();
  const std::string entrypoint = TextAt(source, "entrypoint");
  if (entrypoint.empty() || source.Find("clusterSelector") != nullptr) {
    builder.Error(entrypoint.empty() ? "spec.entrypoint" : "spec.clusterSelector",
                  document.position(),
                  entrypoint.empty() ? "is missing: it is the job's command"
                                     : "a Ray cluster that others run is no part of this job");
    return;
  }
  if (const int64_t workers = Workers(source, builder); workers > 0) {
    builder.Error(
        "spec.rayClusterSpec.workerGroupSpecs", document.position(),
        "a Ray cluster with a head and up to " + std::to_string(workers) +
            " workers is not supported yet: its workers never end, so the job would run for ever. "
            "Ray Train's program with torch.distributed runs as a TrainingJob, without Ray");
    return;
  }
  const Node* head = source.Walk({"rayClusterSpec", "headGroupSpec", "template"});
  if (!job.TakeTemplate(head, "ray-head", "spec.rayClusterSpec.headGroupSpec")) return;
  for (const char* key : {"command", "args", "lifecycle", "livenessProbe", "readinessProbe"}) {
    job.worker().Erase(key);
  }
  job.worker().Add("command", Command(entrypoint));
  for (const NodeMember& member : source.members()) {
    if (IsOneOf(member.key, {"activeDeadlineSeconds", "suspend", "ttlSecondsAfterFinished"})) {
      job.spec().Add(member.key, member.value);
    } else if (member.key == "backoffLimit") {
      job.SetMaxRestarts(member.value);
    } else if (!IsOneOf(member.key, {"entrypoint", "rayClusterSpec", "shutdownAfterJobFinishes"})) {
      builder.Remark("spec." + member.key + " is not carried over.");
    }
  }
  builder.Remark(
      "No `ray start` runs before the program: ray.init() without an address starts Ray "
      "in it; ray.init(\"auto\") finds no Ray and fails.");
  job.spec().Add("framework", Node::String("None"));
  job.Finish(1, 1);
  job.resources().Write(builder);
}

}  // namespace lockstep::convert
