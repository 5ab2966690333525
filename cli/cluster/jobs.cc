#include "cli/cluster/jobs.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/text/json.h"
#include "cli/cluster/log_choice.h"
#include "cli/say.h"
#include "core/model/json.h"
#include "core/model/parse.h"
#include "core/text/problem.h"
#include "core/text/text.h"
#include "operator/kube/decode/decode.h"
#include "operator/kube/watch/paged_list.h"

namespace lockstep::cli {
namespace {

Result<StoredJob> ReadAnswer(std::string body) {
  Result<kube::JobView> view = kube::Decoder().Object<kube::JobView>(std::move(body));
  if (!view.ok()) return view.error();
  return ReadStored(std::move(*view));
}

std::string Named(const std::string& name, const std::string& name_space) {
  return "trainingjob " + name + " in namespace " + name_space;
}

// `selector`: a query, or "".
template <typename T>
Result<std::vector<T>> ListAll(Connection& cluster, const kube::Resource& resource,
                               const std::string& name_space, const std::string& selector,
                               const std::string& doing) {
  kube::PagedList<T> list(kube::Path(resource, name_space), selector);
  while (!list.done()) {
    const std::optional<kube::ApiError> error =
        list.Take(cluster.client().CallAndWait(list.Next()));
    if (error) return Explain(*error, doing, cluster.server());
  }
  for (const kube::UnreadableObject& each : list.unreadable()) {
    Say("left out: " + each.meta.name_space + "/" + each.meta.name + ": " + each.why);
  }
  return std::move(list.items());
}

}  // namespace

Error Unreadable(const kube::ObjectMeta& job) {
  return Error::Invalid(Named(job.name, job.name_space) +
                        " cannot be read: it is too large, or broken");
}

Result<StoredJob> ReadStored(kube::JobView view) {
  if (!view.refusal.empty()) return Error::Invalid(view.refusal);
  core::Document document = core::ReadJson(view.json, core::Places::kUntold);
  if (!document.root) return Error::Invalid(core::Format(document.problems, view.meta.name));
  StoredJob stored;
  stored.meta = std::move(view.meta);
  core::ParseResult parsed = core::ReadStoredJob(*document.root);
  if (!parsed.job) return Error::Invalid(core::Format(parsed.problems, stored.meta.name));
  stored.job = std::move(*parsed.job);
  Result<core::JobStatus> status = core::ReadJobStatus(document.root->Find("status"));
  if (!status.ok()) {
    return Error::Invalid(Named(stored.meta.name, stored.meta.name_space) +
                          " has a status that cannot be read: " + status.error().message);
  }
  stored.status = std::move(*status);
  stored.document = std::move(*document.root);
  return stored;
}

int MachinesOf(const StoredJob& job) {
  return job.status.replicas > 0 ? job.status.replicas : job.job.spec.num_machines;
}

bool HasEnded(const core::JobStatus& status) {
  return status.state == core::JobState::kSucceeded || status.state == core::JobState::kFailed;
}

Result<StoredJob> Jobs::Get(const std::string& name) {
  const std::string& name_space = connection_->name_space();
  Result<std::string> body = connection_->Get(kube::Path(kube::kTrainingJobs, name_space, name),
                                              "read trainingjob " + name);
  if (body.ok()) return ReadAnswer(std::move(*body));
  if (body.error().kind != ErrorKind::kNotFound) return body.error();
  Result<std::vector<StoredJob>> others = List(/*all_namespaces=*/false);
  if (!others.ok()) return body.error();
  std::vector<std::string_view> names;
  names.reserve(others->size());
  for (const StoredJob& other : *others) names.push_back(other.meta.name);
  std::string message = "there is no " + Named(name, name_space);
  const std::string_view nearest = core::NearestName(name, names);
  if (!nearest.empty()) message += "; did you mean \"" + std::string(nearest) + "\"?";
  return Error::NotFound(message);
}

Result<std::vector<StoredJob>> Jobs::List(bool all_namespaces) {
  const std::string name_space = all_namespaces ? "" : connection_->name_space();
  Result<std::vector<kube::JobView>> views = ListAll<kube::JobView>(
      *connection_, kube::kTrainingJobs, name_space, "", "list trainingjobs");
  if (!views.ok()) return views.error();
  std::vector<StoredJob> jobs;
  for (kube::JobView& view : *views) {
    const std::string name = view.meta.name_space + "/" + view.meta.name;
    Result<StoredJob> job = ReadStored(std::move(view));
    if (job.ok()) {
      jobs.push_back(std::move(*job));
    } else {
      Say("left out: " + name + ": " + job.error().message);
    }
  }
  std::sort(jobs.begin(), jobs.end(), [](const StoredJob& a, const StoredJob& b) {
    return std::tie(a.meta.name_space, a.meta.name) < std::tie(b.meta.name_space, b.meta.name);
  });
  return jobs;
}

Result<StoredJob> Jobs::Create(const core::TrainingJob& job, bool dry_run) {
  const std::string query = dry_run ? kube::Query({{"dryRun", "All"}}) : "";
  Result<std::string> body = connection_->Call(
      {.method = kube::Method::kPost,
       .path = kube::Path(kube::kTrainingJobs, connection_->name_space(), {}, {}, query),
       .body = core::ToJson(job)},
      "create trainingjob " + job.metadata.name);
  if (!body.ok()) return body.error();
  return ReadAnswer(std::move(*body));
}

Result<StoredJob> Jobs::Change(const StoredJob& job, const std::string& spec) {
  Result<std::string> body = connection_->Call(
      {.method = kube::Method::kPatch,
       .path = kube::Path(kube::kTrainingJobs, job.meta.name_space, job.meta.name),
       .body = R"({"metadata":{"uid":")" + job.meta.uid + R"("},"spec":)" + spec + "}",
       .content_type = "application/merge-patch+json"},
      "change trainingjob " + job.meta.name);
  if (!body.ok()) return body.error();
  return ReadAnswer(std::move(*body));
}

Status Jobs::Delete(const StoredJob& job) {
  const Json options = {{"apiVersion", "v1"},
                        {"kind", "DeleteOptions"},
                        {"propagationPolicy", "Foreground"},
                        {"preconditions", {{"uid", job.meta.uid}}}};
  Result<std::string> body = connection_->Call(
      {.method = kube::Method::kDelete,
       .path = kube::Path(kube::kTrainingJobs, job.meta.name_space, job.meta.name),
       .body = DumpJson(options)},
      "delete trainingjob " + job.meta.name);
  // Gone is what was wanted.
  if (body.ok() || body.error().kind == ErrorKind::kNotFound) return {};
  return body.error();
}

Result<std::vector<kube::PodView>> ListPods(Connection& cluster, const std::string& job) {
  return ListAll<kube::PodView>(cluster, kube::kPods, cluster.name_space(), PodsOf(job),
                                "list the pods of trainingjob " + job);
}

}  // namespace lockstep::cli
