// Jobs for tests, as an API server would hand them out:
//
//   core::TrainingJob job = MakeJob("gpt").Machines(4).Processes(8).Gpus(1);
#ifndef LOCKSTEP_TESTS_OPERATOR_POLICY_MAKE_JOB_H_
#define LOCKSTEP_TESTS_OPERATOR_POLICY_MAKE_JOB_H_

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/model/spec.h"
#include "core/status/status.h"
#include "core/text/text.h"

namespace lockstep::control {

class MakeJob {
 public:
  explicit MakeJob(const std::string& name) {
    job_.metadata.name = name;
    job_.metadata.name_space = "team";
    job_.metadata.uid = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed";
    job_.spec.image = "train:7";
    job_.spec.command = {"python", "train.py"};
  }

  MakeJob& Machines(int count) { return Set(job_.spec.num_machines, count); }
  MakeJob& Processes(int count) { return Set(job_.spec.processes_per_machine, count); }
  MakeJob& Suspended(bool suspended = true) { return Set(job_.spec.suspend, suspended); }
  MakeJob& Gpus(int count) { return Set(job_.spec.resources_per_process.gpu, count); }
  MakeJob& Cpu(const char* amount) {
    return Set(job_.spec.resources_per_process.cpu, *Quantity::Parse(amount));
  }
  MakeJob& Memory(const char* amount) {
    return Set(job_.spec.resources_per_process.memory, *Quantity::Parse(amount));
  }
  MakeJob& PerMachine(const std::string& resource, const char* amount) {
    return Set(job_.spec.resources_per_machine[resource], *Quantity::Parse(amount));
  }
  MakeJob& Env(const std::string& name, const std::string& value) {
    core::EnvVar variable;
    variable.name = name;
    variable.value = value;
    job_.spec.env.push_back(std::move(variable));
    return *this;
  }
  MakeJob& Template(std::string_view yaml) { return Set(job_.spec.template_, Yaml(yaml)); }
  MakeJob& Place(core::OnePerNode one_per_node) {
    return Set(job_.spec.placement.one_per_node, one_per_node);
  }
  MakeJob& Checkpoints(const std::string& claim, const std::string& path) {
    job_.spec.checkpoint.claim = claim;
    return Set(job_.spec.checkpoint.path, path);
  }

  // What has no call of its own: MakeJob("gpt").With([](core::Spec& spec) { ... }).
  template <typename Change>
  MakeJob& With(Change change) {
    change(job_.spec);
    return *this;
  }

  operator core::TrainingJob() const { return job_; }  // NOLINT(google-explicit-constructor)

  static core::Node Yaml(std::string_view text) {
    core::Document document = core::ReadYaml(text);
    EXPECT_TRUE(document.root) << text;
    return document.root ? *document.root : core::Node();
  }

 private:
  template <typename Member, typename Value>
  MakeJob& Set(Member& member, Value value) {
    member = std::move(value);
    return *this;
  }

  core::TrainingJob job_;
};

// A status in which every machine of the job has attempt `epoch`.
inline core::JobStatus StatusOf(const core::TrainingJob& job, uint32_t epoch = 1) {
  core::JobStatus status;
  status.epoch = epoch;
  status.replicas = job.spec.num_machines;
  status.attempts.Reset(job.spec.num_machines, epoch);
  status.agent = {.image = "agent:1", .plan_version = 1, .key_version = 1};
  status.machine_lost_after = job.spec.failure_policy.machine_lost_after;
  return status;
}

}  // namespace lockstep::control

#endif  // LOCKSTEP_TESTS_OPERATOR_POLICY_MAKE_JOB_H_
