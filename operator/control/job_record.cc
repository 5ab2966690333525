#include "operator/control/job_record.h"

#include <utility>

#include "core/job/node.h"
#include "core/job/read.h"
#include "core/job/text.h"
#include "core/job/validate.h"

namespace lockstep::control {
namespace {

void LearnSpec(const core::Node& document, JobRecord* record) {
  core::ParseResult parsed = core::ReadJob(document);
  record->problems = std::move(parsed.problems);
  if (parsed.job) record->job = std::move(*parsed.job);
  if (!core::HasErrors(record->problems)) {
    for (core::Problem& problem : core::Validate(record->job, core::Target::kCluster)) {
      record->problems.push_back(std::move(problem));
    }
  }
  std::erase_if(record->problems, [](const core::Problem& problem) {
    return problem.severity != core::Severity::kError;
  });
}

}  // namespace

Status Learn(const kube::JobView& view, JobRecord* record) {
  if (record->uid != view.meta.uid) {
    *record = JobRecord{};
    record->uid = view.meta.uid;
  }
  if (record->resource_version == view.meta.resource_version) return {};
  const core::Document document = core::ReadJson(view.json);
  if (!document.root) return Error::Invalid("the object is no JSON");
  Result<core::JobStatus> status = core::ReadJobStatus(document.root->Find("status"));
  if (!status.ok()) return status.error();
  LearnSpec(*document.root, record);
  record->job.metadata.name = view.meta.name;
  record->job.metadata.name_space = view.meta.name_space;
  record->job.metadata.uid = view.meta.uid;
  record->status = std::move(*status);
  record->resource_version = view.meta.resource_version;
  return {};
}

void Learn(const core::GangStatus& status, Time at, JobRecord* record) {
  if (status.job_uid != record->uid) return;
  if (status.machine != 0) {
    record->member = GangReport{status, at};
    return;
  }
  record->member.reset();
  record->coordinator = GangReport{status, at};
}

}  // namespace lockstep::control
