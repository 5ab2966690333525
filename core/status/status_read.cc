#include "core/record/reader.h"
#include "core/status/status_fields.h"
#include "core/text/text.h"

namespace lockstep::core {

Result<JobStatus> ReadJobStatus(const Node* status) {
  if (status == nullptr || status->IsNull()) return JobStatus{};
  return ReadRecord<JobStatus>(*status, "status");
}

Result<JobStatus> ParseJobStatus(std::string_view json) {
  return ParseRecord<JobStatus>(json, kMaxDocumentBytes, "status");
}

}  // namespace lockstep::core
