// What Kubeflow's kinds of job have in common: metadata, a pod template, a run policy.
#ifndef LOCKSTEP_CLI_CONVERT_KUBEFLOW_JOB_H_
#define LOCKSTEP_CLI_CONVERT_KUBEFLOW_JOB_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "cli/convert/job_builder.h"
#include "cli/convert/machine_resources.h"

namespace lockstep::convert {

// Builds the TrainingJob's document from parts of a source, and reads it into the builder.
//
//   KubeflowJob job(document, builder);
//   if (!job.TakeTemplate(pod_template, "pytorch")) return;
//   job.TakeRunPolicy();
//   job.Finish(machines, processes);
class KubeflowJob {
 public:
  KubeflowJob(const Node& document, JobBuilder& builder);

  // The source's spec, and the TrainingJob's as it grows.
  const Node& source() const { return source_; }
  Node& spec() { return spec_; }
  JobBuilder& builder() { return builder_; }

  // The container of that name, else the first, becomes `worker`, without limits and requests.
  // False, with an error at `path`: there is no template with a container.
  bool TakeTemplate(const Node* pod_template, std::string_view container, const char* path);
  // In the template; valid until Finish.
  Node& worker() { return *worker_; }
  const MachineResources& resources() const { return resources_; }

  // Never becomes maxRestarts: 0.
  void TakeRestartPolicy(const Node& role);
  void TakeRunPolicy();
  // Unless something said so before.
  void SetMaxRestarts(const Node& value);

  // The launcher of the worker's command starts the machine's other processes itself.
  void SetLaunch(const Size& size);

  // Reads all of it into builder().job. Its resources are not set yet: WriteResources.
  void Finish(int64_t machines, int64_t processes);

 private:
  void TakePodFields(Node& pod);

  const Node& document_;
  JobBuilder& builder_;
  Node source_ = Node::Map();
  Node spec_ = Node::Map();
  Node policy_ = Node::Map();
  Node pod_template_;
  Node* worker_ = nullptr;  // in pod_template_
  MachineResources resources_;
};

// Leaves out what Lockstep sets for every process.
Node CleanEnv(const Node& env, JobBuilder& builder);

// Processes per node, as the torchrun in the command of `holder` counts them: its own option, then
// `said`, and `auto` where neither says it. `auto` and `gpu` stand for one process for each
// requested GPU. Without torchrun it is one process unless `said` says more.
int64_t ProcessesPerNode(const Node& holder, const Node* said, int64_t gpus, const char* what,
                         JobBuilder& builder);

// A launcher in the command starts the machine's other processes itself: sets spec.launch.
// Errors: a launcher that can't join the machines of a job, options that contradict the job, and
// variables of the operator's that a launcher doesn't find here.
void SetLaunch(const Node& holder, Node& spec, const Size& size, JobBuilder& builder);

// The roles of a job by the names in `known`, which Kubeflow takes in upper and lower case. Errors:
// another name, a number of replicas that is none.
Node RolesOf(const Node* replicas, std::initializer_list<std::string_view> known,
             JobBuilder& builder);

// Reads a document of `source`'s metadata and `spec` as any TrainingJob is read.
void ReadSpec(const Node& source, Node spec, JobBuilder& builder);

// How many pods a role has; 0 where the role is null.
int64_t Replicas(const Node* role);

// The words of a container's command and args.
std::vector<std::string> CommandOf(const Node& container);

}  // namespace lockstep::convert

#endif  // LOCKSTEP_CLI_CONVERT_KUBEFLOW_JOB_H_
