#include "cli/cluster/job_watch.h"

#include <utility>

#include "cli/say.h"
#include "operator/kube/api.h"

namespace lockstep::cli {

JobWatch::JobWatch(EventLoop* loop, Connection* connection, const kube::ObjectName& job,
                   Handlers handlers)
    : handlers_(std::move(handlers)),
      reflector_(&connection->client().transport(),
                 {.path = kube::Path(kube::kTrainingJobs, job.name_space),
                  .query = kube::Query({{"fieldSelector", "metadata.name=" + job.name}})},
                 {.on_batch = lifetime_.Hop(
                      loop, [this](const kube::Batch<kube::JobView>& batch) { OnBatch(batch); }),
                  .on_problem = lifetime_.Hop(loop, [this](const Error& error) {
                    if (handlers_.on_problem) return handlers_.on_problem(error);
                    ReportProblem(error, &told_, handlers_.on_hopeless);
                  })}) {}

void JobWatch::OnBatch(const kube::Batch<kube::JobView>& batch) {
  if (batch.events.empty()) {
    if (batch.replace) handlers_.on_job(nullptr);
    return;
  }
  const auto& last = batch.events.back();
  if (last.unreadable && last.kind != kube::EventKind::kDeleted) {
    return handlers_.on_hopeless(Unreadable(last.object.meta));
  }
  if (last.kind == kube::EventKind::kDeleted) return handlers_.on_job(nullptr);
  const Result<StoredJob> job = ReadStored(last.object);
  if (!job.ok()) return handlers_.on_hopeless(job.error());
  handlers_.on_job(&*job);
}

void ReportProblem(const Error& error, std::string* told,
                   const std::function<void(const Error&)>& on_hopeless) {
  if (error.kind == ErrorKind::kDenied || error.kind == ErrorKind::kNotFound) {
    return on_hopeless(error);
  }
  if (std::exchange(*told, error.message) == error.message) return;
  Say(error.message + "; trying again");
}

Status WaitUntilGone(Connection* connection, const StoredJob& job) {
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
  if (!loop.ok()) return loop.error();
  Status outcome;
  const JobWatch watch(loop->get(), connection, {job.meta.name_space, job.meta.name},
                       {.on_job =
                            [&](const StoredJob* now) {
                              if (now == nullptr || now->meta.uid != job.meta.uid) (*loop)->Stop();
                            },
                        .on_hopeless =
                            [&](const Error& error) {
                              outcome = error;
                              (*loop)->Stop();
                            }});
  (*loop)->Run();
  return outcome;
}

}  // namespace lockstep::cli
