#include "operator/controller/jobs/job_record.h"

#include <map>
#include <string>
#include <utility>

#include "core/model/parse.h"
#include "core/text/node.h"
#include "core/text/text.h"
#include "core/validate/validate.h"
#include "operator/kube/decode/decode.h"
#include "operator/kube/resource_version.h"
#include "operator/objects/key_secret.h"

namespace lockstep::control {
namespace {

// A TrainingJob that is not kept or cannot be read.
void RefuseSpec(const std::string& why, JobRecord* record) {
  core::Problem problem;
  problem.message = why;
  record->problems = {std::move(problem)};
}

void LearnSpec(core::Node document, JobRecord* record) {
  core::ParseResult parsed = core::ReadStoredJob(std::move(document));
  record->problems = std::move(parsed.problems);
  if (parsed.job) record->job = std::move(*parsed.job);
  core::AddProblems(core::Validate(record->job, core::Target::kCluster), &record->problems);
  std::erase_if(record->problems, [](const core::Problem& problem) {
    return problem.severity != core::Severity::kError;
  });
}

// They change without the generation.
void LearnTexts(const core::Node* texts, std::map<std::string, std::string>* learned) {
  learned->clear();
  if (texts == nullptr || !texts->IsMap()) return;
  for (const core::NodeMember& text : texts->members()) (*learned)[text.key] = text.value.text();
}

}  // namespace

Status Update(const kube::JobView& view, JobRecord* record) {
  if (record->uid != view.meta.uid) {
    const std::optional<core::JobState> counted = record->counted;
    const int32_t counted_spares = record->counted_spares;
    *record = JobRecord{};
    record->uid = view.meta.uid;
    record->counted = counted;
    record->counted_spares = counted_spares;
  }
  // This operator's own writes are known before the watch delivers them.
  const bool known = record->resource_version == view.meta.resource_version ||
                     kube::Covers(record->resource_version, view.meta.resource_version);
  if (known && record->generation >= 0) return {};
  std::string refusal = view.refusal;
  core::Document document = core::ReadJson(view.json, core::Places::kUntold);
  if (!document.root) {
    refusal = "the TrainingJob cannot be read";
    for (const core::Problem& each : document.problems) refusal += ": " + each.message;
    document = core::ReadJson(kube::StatusAlone(view.json), core::Places::kUntold);
  }
  if (!document.root) return Error::Invalid("the object is not JSON");
  Result<core::JobStatus> status = core::ReadJobStatus(document.root->Find("status"));
  if (!status.ok()) return status.error();
  // Nothing may be decided by the defaults of a spec that is not known.
  if (!refusal.empty() && view.begun) return Error::TooLarge(refusal);
  core::Node metadata;
  if (const core::Node* found = document.root->Find("metadata")) metadata = *found;
  if (!refusal.empty()) {
    RefuseSpec(refusal, record);
    record->generation = view.meta.generation;
  } else if (record->generation != view.meta.generation) {
    LearnSpec(std::move(*document.root), record);
    record->generation = view.meta.generation;
  }
  LearnTexts(metadata.Find("labels"), &record->job.metadata.labels);
  LearnTexts(metadata.Find("annotations"), &record->job.metadata.annotations);
  record->created = view.meta.created;
  record->deleting = view.meta.deleted.has_value();
  record->job.metadata.name = view.meta.name;
  record->job.metadata.name_space = view.meta.name_space;
  record->job.metadata.uid = view.meta.uid;
  if (!known) {
    record->status = std::move(*status);
    record->resource_version = view.meta.resource_version;
  }
  return {};
}

void Rest(JobRecord* record) {
  record->job.spec = {};
  record->problems.clear();
  record->generation = -1;
}

bool GiveKey(const MasterKeys& keys, JobRecord* record) {
  if (record->has_key) return true;
  const int32_t wanted = record->status.agent.key_version;
  const std::vector<uint8_t>* master = keys.Find(wanted == 0 ? keys.newest() : wanted);
  if (master == nullptr) return false;
  Result<Key> key = GangKey(*master, record->job);
  if (!key.ok()) return false;
  record->key = *key;
  record->has_key = true;
  return true;
}

void Update(const core::GangStatus& status, Time at, JobRecord* record) {
  if (status.job_uid != record->uid) return;
  if (status.machine != 0) {
    record->member = GangReport{status, at};
    return;
  }
  record->member.reset();
  record->coordinator = GangReport{status, at};
}

}  // namespace lockstep::control
