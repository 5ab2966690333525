#include "core/model/names.h"

#include "base/uuid.h"

namespace lockstep::core {
namespace {

// Lockstep's own name space for UIDs, drawn once at random.
constexpr const char* kNameSpace = "5f0f9a52-6d1b-4c0e-9a3e-27d4c1f8b6e1";

std::string Joined(std::string_view job, std::string_view rest) {
  return std::string(job) + "-" + std::string(rest);
}

}  // namespace

std::string HostName(std::string_view job, int machine) {
  return Joined(job, std::to_string(machine));
}

std::string PodName(std::string_view job, int machine, int64_t attempt, int64_t first_epoch) {
  std::string name = HostName(job, machine);
  if (attempt != first_epoch) name += "-r" + std::to_string(attempt);
  return name;
}

std::string SparePodName(std::string_view job, int spare) {
  return Joined(job, "spare" + std::to_string(spare));
}

std::string ServiceName(std::string_view job) { return std::string(job); }

std::string CoordinatorServiceName(std::string_view job) { return Joined(job, "coordinator"); }

std::string PodGroupName(std::string_view job, uint32_t epoch) {
  return Joined(job, "e" + std::to_string(epoch));
}

std::map<std::string, std::string> JobLabels(std::string_view job) {
  return {
      {"lockstep.dev/job", std::string(job)},
      {"app.kubernetes.io/name", "lockstep"},
      {"app.kubernetes.io/instance", std::string(job)},
      {"app.kubernetes.io/component", "machine"},
      {"app.kubernetes.io/managed-by", "lockstep-operator"},
  };
}

std::map<std::string, std::string> PodLabels(std::string_view job, int machine, int64_t attempt) {
  std::map<std::string, std::string> labels = JobLabels(job);
  labels["lockstep.dev/machine"] = std::to_string(machine);
  labels["lockstep.dev/attempt"] = std::to_string(attempt);
  return labels;
}

std::map<std::string, std::string> SpareLabels(std::string_view job, int spare) {
  std::map<std::string, std::string> labels = JobLabels(std::string(job).append(kSpareSuffix));
  labels["app.kubernetes.io/component"] = "spare";
  labels["lockstep.dev/spare"] = std::to_string(spare);
  return labels;
}

std::string GangIdentity(std::string_view job_uid) { return "lockstep-v1:" + std::string(job_uid); }

std::string LocalJobUid(std::string_view job, std::string_view absolute_checkpoint_path) {
  // Neither part holds a zero byte, so no two pairs give the same name.
  std::string name(job);
  name += '\0';
  name += absolute_checkpoint_path;
  return Uuid::FromName(*Uuid::Parse(kNameSpace), name).ToString();
}

}  // namespace lockstep::core
