#include "operator/controller/executor.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "base/overloaded.h"
#include "base/text/json.h"
#include "core/model/json.h"
#include "core/model/names.h"
#include "operator/controller/observe/workload_object.h"
#include "operator/objects/endpoint_slice.h"
#include "operator/objects/metadata.h"
#include "operator/objects/pod_group.h"
#include "operator/objects/pod_object.h"

namespace lockstep::control {
namespace {

using kube::ApiErrorKind;
using kube::ApiResult;
using kube::Method;
using kube::Path;
using kube::Priority;
using kube::Request;
using kube::Watched;

constexpr const char* kJsonPatch = "application/json-patch+json";
constexpr const char* kApplyPatch = "application/apply-patch+yaml";
constexpr const char* kMergePatch = "application/merge-patch+json";

// Requests of one order under way.
constexpr int kMostOpen = 8;

Priority UrgencyOf(const Action& action) {
  if (std::holds_alternative<StopMachine>(action)) return Priority::kUrgent;
  const auto* machine = std::get_if<StartMachine>(&action);
  if (machine != nullptr) {
    return machine->attempt > 1 ? Priority::kUrgent : Priority::kBackground;
  }
  return std::holds_alternative<StartSpare>(action) ? Priority::kBackground : Priority::kNormal;
}

// The whole status in one write, refused with 409 unless the object is still the one it was made
// from.
Request PutStatus(const Order& order, const core::JobStatus& status) {
  std::string body = R"([{"op":"replace","path":"/metadata/resourceVersion","value":)" +
                     DumpJson(Json(order.resource_version)) +
                     R"(},{"op":"add","path":"/status","value":)" + core::ToJson(status) + "}]";
  return {Method::kPatch, Path(kube::kTrainingJobs, order.job.name_space, order.job.name, "status"),
          std::move(body), kJsonPatch};
}

Request Delete(const kube::Resource& resource, const std::string& name_space,
               const std::string& name, const std::string& uid, const std::optional<int64_t>& grace,
               const std::string& version = "") {
  Json body = {{"apiVersion", "v1"},
               {"kind", "DeleteOptions"},
               {"preconditions", {{"uid", uid}}},
               {"propagationPolicy", "Background"}};
  if (grace) body["gracePeriodSeconds"] = *grace;
  if (!version.empty()) body["preconditions"]["resourceVersion"] = version;
  return {Method::kDelete, Path(resource, name_space, name), DumpJson(body)};
}

}  // namespace

// One order on its way. Lives in the callbacks that wait for answers.
class Executor::Run : public std::enable_shared_from_this<Executor::Run> {
 public:
  Run(Executor* executor, Order order, std::function<void(WriteResult)> done)
      : executor_(executor), order_(std::move(order)), done_(std::move(done)) {}

  void Begin() {
    if (order_.decision.intent) return WriteStatus(*order_.decision.intent);
    open_ = 1;  // this one: nothing ends before everything was begun
    Close();
  }

 private:
  // Sends it; the answer comes back in the loop.
  void Call(Request request, std::function<void(ApiResult<std::string>)> on_answer) {
    ++open_;
    executor_->client_->Call(
        std::move(request),
        executor_->lifetime_.Hop(executor_->loop_,
                                 [self = shared_from_this(),
                                  on_answer = std::move(on_answer)](ApiResult<std::string> answer) {
                                   on_answer(std::move(answer));
                                   self->Close();
                                 }),
        {order_.job.name_space, priority_});
  }

  // The next actions, few at a time: bodies take memory, and a large job leaves room for others.
  void BeginMore() {
    const std::vector<Action>& actions = order_.decision.actions;
    for (; begun_ < actions.size() && open_ <= kMostOpen; ++begun_) {
      priority_ = UrgencyOf(actions[begun_]);
      Begin(actions[begun_]);
    }
    priority_ = Priority::kNormal;
  }

  void Close() {
    if (open_ > 0 && !order_.decision.intent) BeginMore();
    if (--open_ > 0) return;
    if (!status_begun_ && order_.decision.status) return WriteStatus(*order_.decision.status);
    Finish();
  }

  void Finish() {
    if (carried_.complete) {
      const kube::ObjectRef job{core::kApiVersion, core::kKind, order_.job.name_space,
                                order_.job.name, order_.uid};
      for (const EventNote& event : order_.decision.events) {
        executor_->events_->Record(
            job, event.warning ? kube::EventType::kWarning : kube::EventType::kNormal, event.reason,
            event.reason, event.note);
      }
    }
    done_(std::move(carried_));
  }

  void WriteStatus(const core::JobStatus& status) {
    status_begun_ = true;
    uncertain_before_status_ = carried_.uncertain;
    Call(PutStatus(order_, status), [this](const ApiResult<std::string>& answer) {
      if (!answer.ok()) {
        TryAgain(answer.error());
        if (answer.error().kind != ApiErrorKind::kConflict) return;
        carried_.uncertain = uncertain_before_status_;
        carried_.job_changed = true;
        return;
      }
      carried_.status_written = true;
      carried_.job_version = ReadMetadata(*answer).resource_version;
    });
  }

  void Wrote(Watched resource, const std::string& body) {
    if (std::string version = ReadMetadata(body).resource_version; !version.empty()) {
      carried_.written.push_back({resource, std::move(version)});
    }
  }

  // ---- actions ----

  void Begin(const Action& action) {
    const std::string& name_space = order_.job.name_space;
    const std::string& job = order_.job.name;
    std::visit(
        Overloaded{
            [&](const MakeKey&) { Create(action, kube::kSecrets, job + "-key", std::nullopt); },
            [&](const MakeNames&) {
              Create(action, kube::kServices, core::ServiceName(job), Watched::kServices);
            },
            [&](const MakeCoordinatorAddress&) {
              Create(action, kube::kServices, core::CoordinatorServiceName(job),
                     Watched::kServices);
            },
            [&](const MoveCoordinatorAddress&) {
              Result<std::string> body = order_.body_of(action);
              if (!body.ok()) return;
              Change({Method::kPatch,
                      Path(kube::kServices, name_space, core::CoordinatorServiceName(job)),
                      std::move(*body), kMergePatch},
                     Watched::kServices);
            },
            [&](const DropNames& names) {
              Change(Delete(kube::kServices, name_space, core::ServiceName(job), names.uid,
                            std::nullopt),
                     Watched::kServices);
            },
            [&](const DropCoordinatorAddress& address) {
              Change(Delete(kube::kServices, name_space, core::CoordinatorServiceName(job),
                            address.uid, std::nullopt),
                     Watched::kServices);
            },
            [&](const WriteSlice& write) {
              const std::string name = EndpointSliceName(job, write.key);
              if (!write.uid.empty())
                return Put(action, kube::kEndpointSlices, name, Watched::kSlices);
              Create(action, kube::kEndpointSlices, name, Watched::kSlices);
            },
            [&](const StartMachine& pod) {
              Create(action, kube::kPods,
                     core::PodName(job, static_cast<int>(pod.machine), pod.attempt, kFirstEpoch),
                     Watched::kPods);
            },
            [&](const StartSpare& spare) {
              Create(action, kube::kPods, core::SparePodName(job, static_cast<int>(spare.number)),
                     Watched::kPods);
            },
            [&](const StopMachine& pod) {
              Change(Delete(kube::kPods, name_space, pod.name, pod.uid, pod.grace_seconds),
                     Watched::kPods);
            },
            [&](const MakeWorkload& make) { MakeOf(make); },
            [&](const ResizeWorkload& resize) {
              ChangeWorkload(action, resize.name, "", kJsonPatch, "");
            },
            [&](const TellWorkload& tell) {
              ChangeWorkload(action, tell.name, "status", kApplyPatch,
                             kube::Query({{"fieldManager", kStatusManager}, {"force", "true"}}));
            },
            [&](const ReleaseWorkload& release) {
              ChangeWorkload(action, release.name, "status", kJsonPatch, "");
            },
            [&](const AdoptWorkload& adopt) {
              ChangeWorkload(action, adopt.name, "", kJsonPatch, "");
            },
            [&](const DropWorkload& workload) { Drop(workload); },
            [&](const MakePodGroup& make) { Create(make); },
            [&](const DropPodGroup& drop) { Drop(drop.group, 0); },
            [&](const AskOfPodGroup& ask) { AskOf(ask.group, 0); },
            [&](const DeleteJob&) {
              Change(Delete(kube::kTrainingJobs, name_space, job, order_.uid, std::nullopt),
                     Watched::kTrainingJobs);
            },
        },
        action);
  }

  static std::string What(const kube::Resource& resource, const std::string& name) {
    return std::string(resource.plural.substr(0, resource.plural.size() - 1)) + " " + name;
  }

  // Its priority is its class's, which Kueue does not look up.
  void MakeOf(const MakeWorkload& make) {
    const kube::Resource& classes = make.of_queues ? kube::kQueuePriorities : kube::kPriorities;
    if (make.priority_class.empty()) return Create(make);
    Call({Method::kGet, Path(classes, "", make.priority_class), ""},
         [this, make,
          what = What(classes, make.priority_class)](const ApiResult<std::string>& answer) {
           if (answer.ok()) {
             MakeWorkload known = make;
             known.priority = ReadPriority(*answer);
             return Create(known);
           }
           const kube::ApiError& error = answer.error();
           if (error.kind == ApiErrorKind::kNotFound) {
             return Refuse(Refusal::Kind::kInvalid, "the job's Workload", what + " does not exist",
                           false);
           }
           if (error.kind == ApiErrorKind::kForbidden) {
             return Refuse(Refusal::Kind::kForbidden, what, error.message, false);
           }
           TryAgain(error);
         });
  }

  void Create(const MakeWorkload& make) {
    Create(make, kube::kWorkloads, WorkloadName(order_.job.name, order_.uid, make.slice),
           Watched::kWorkloads);
  }

  void Create(const MakePodGroup& make) {
    const std::vector<kube::Resource> places = PodGroupsOf(make.group.gang);
    const kube::Resource& resource = places.at(make.api);
    const std::string what = What(resource, make.group.name);
    Result<std::string> body = order_.body_of(make);
    if (!body.ok()) return;  // the job is gone
    Call({Method::kPost, Path(resource, order_.job.name_space), std::move(*body)},
         [this, make, resource, what,
          more = make.api + 1 < places.size()](const ApiResult<std::string>& answer) {
           if (answer.ok()) {
             carried_.made_something = true;
             TryToJoin(make);
           } else if (answer.error().kind != ApiErrorKind::kNotFound) {
             OnCreateError(resource, make.group.name, what, answer.error(), false,
                           [this, make](const Metadata&) { TryToJoin(make); });
           } else if (more) {
             MakePodGroup next = make;
             ++next.api;
             Create(next);
           } else {
             Refuse(Refusal::Kind::kNotServed, what,
                    "the cluster lacks " + std::string(ProviderOf(make.group.gang)) + " (" +
                        std::string(resource.group) + "/" + std::string(resource.version) + ")",
                    false);
           }
         });
  }

  // By a pod that is not made. One that is refused for something else says nothing of it.
  void TryToJoin(const MakePodGroup& make) {
    std::string pod = JoiningPod(make.group);
    if (pod.empty()) {
      carried_.grouped_in = make.epoch;
      return;
    }
    Call({Method::kPost,
          Path(kube::kPods, order_.job.name_space, "", "", kube::Query({{"dryRun", "All"}})),
          std::move(pod)},
         [this, make](const ApiResult<std::string>& answer) {
           if (!answer.ok() || HasJoined(*answer)) {
             carried_.grouped_in = make.epoch;
           } else {
             Refuse(Refusal::Kind::kNotServed, "a pod of podgroup " + make.group.name,
                    "the cluster lacks " + std::string(kJoiningGate), false);
           }
         });
  }

  // One that is not there, or may not be read, tells nothing that is worth saying.
  void AskOf(const core::PodGroupStatus& group, size_t api) {
    const std::vector<kube::Resource> places = PodGroupsOf(group.gang);
    if (api == places.size()) {
      carried_.heed = GroupHeed{group.name, true, BootTime()};
      return;
    }
    Call({Method::kGet, Path(places[api], order_.job.name_space, group.name), ""},
         [this, group, api](const ApiResult<std::string>& answer) {
           if (answer.ok()) {
             carried_.heed = GroupHeed{group.name, IsHeeded(*answer), BootTime()};
           } else if (answer.error().kind == ApiErrorKind::kNotFound ||
                      answer.error().kind == ApiErrorKind::kForbidden) {
             AskOf(group, api + 1);
           } else {
             TryAgain(answer.error());
           }
         });
  }

  // One that may not be read is left to the garbage collector, as its job's.
  void Drop(const core::PodGroupStatus& group, size_t api) {
    const std::vector<kube::Resource> places = PodGroupsOf(group.gang);
    if (api == places.size()) {
      carried_.ungrouped = group.name;
      return;
    }
    Call({Method::kGet, Path(places[api], order_.job.name_space, group.name), ""},
         [this, group, api, resource = places[api]](const ApiResult<std::string>& answer) {
           if (!answer.ok()) {
             const ApiErrorKind kind = answer.error().kind;
             const bool none = kind == ApiErrorKind::kNotFound || kind == ApiErrorKind::kForbidden;
             return none ? Drop(group, api + 1) : TryAgain(answer.error());
           }
           const Metadata found = ReadMetadata(*answer);
           if (found.owner_uid != order_.uid) return Drop(group, api + 1);
           Call(Delete(resource, order_.job.name_space, group.name, found.uid, std::nullopt),
                [this, group](const ApiResult<std::string>& deleted) {
                  if (deleted.ok() || deleted.error().kind == ApiErrorKind::kNotFound) {
                    carried_.ungrouped = group.name;
                  } else {
                    TryAgain(deleted.error());
                  }
                });
         });
  }

  // The answer to a deletion has no version to wait for; and an admission that is gone by now must
  // not be decided from.
  void Drop(const DropWorkload& workload) {
    Call(Delete(kube::kWorkloads, order_.job.name_space, workload.name, workload.uid, std::nullopt,
                workload.version),
         [this](const ApiResult<std::string>& answer) {
           if (!answer.ok() && answer.error().kind != ApiErrorKind::kNotFound) {
             return TryAgain(answer.error());
           }
           carried_.uncertain = true;
         });
  }

  void ChangeWorkload(const Action& action, const std::string& name, const char* part,
                      const char* type, const std::string& query) {
    Result<std::string> body = order_.body_of(action);
    if (!body.ok()) return;  // it is another by now, which will be decided on
    Change({Method::kPatch, Path(kube::kWorkloads, order_.job.name_space, name, part, query),
            std::move(*body), type},
           Watched::kWorkloads);
  }

  // In place of the one that is there.
  void Put(const Action& action, const kube::Resource& resource, const std::string& name,
           Watched watched) {
    const std::string what = What(resource, name);
    Result<std::string> body = order_.body_of(action);
    if (!body.ok()) return Refuse(Refusal::Kind::kInvalid, what, body.error().message, false);
    Call({Method::kPut, Path(resource, order_.job.name_space, name), std::move(*body)},
         [this, resource, name, what, watched](const ApiResult<std::string>& answer) {
           if (answer.ok()) return Wrote(watched, *answer);
           OnCreateError(resource, name, what, answer.error(), false, Found(watched));
         });
  }

  // `watched`: absent for what no cache is kept of.
  void Create(const Action& action, const kube::Resource& resource, const std::string& name,
              std::optional<Watched> watched) {
    const std::string what = What(resource, name);
    Result<std::string> body = order_.body_of(action);
    const bool spare = std::holds_alternative<StartSpare>(action);
    if (!body.ok()) return Refuse(Refusal::Kind::kInvalid, what, body.error().message, spare);
    std::optional<MachineAttempt> pod;
    if (const auto* create = std::get_if<StartMachine>(&action)) {
      pod = MachineAttempt{create->machine, create->attempt};
    }
    Call({Method::kPost, Path(resource, order_.job.name_space), std::move(*body)},
         [this, resource, name, what, watched, pod, spare](const ApiResult<std::string>& answer) {
           if (answer.ok()) {
             (spare ? carried_.spare_made : carried_.made_something) = true;
             if (!watched) {
               carried_.key_made = true;
               return;
             }
             if (pod) carried_.pods_made.push_back(*pod);
             Wrote(*watched, *answer);
             return;
           }
           OnCreateError(resource, name, what, answer.error(), spare,
                         watched ? Found(*watched) : nullptr);
         });
  }

  using OnFound = std::function<void(const Metadata&)>;
  OnFound Found(Watched watched) {
    return [this, watched](const Metadata& found) {
      carried_.written.push_back({watched, found.resource_version});
    };
  }

  // `on_found`: it is there already, and this job's.
  void OnCreateError(const kube::Resource& resource, const std::string& name,
                     const std::string& what, const kube::ApiError& error, bool spare,
                     OnFound on_found) {
    switch (error.kind) {
      case ApiErrorKind::kAlreadyExists:
        // The operator may not read the Secret and need not: only it can know the Secret's name.
        if (!on_found) {
          carried_.key_made = true;
        } else {
          Inspect(resource, name, what, spare, std::move(on_found));
        }
        return;
      case ApiErrorKind::kForbidden:
        return Refuse(Refusal::Kind::kForbidden, what, error.message, spare);
      case ApiErrorKind::kInvalid:
        return Refuse(Refusal::Kind::kInvalid, what, error.message, spare);
      default:
        TryAgain(error, what);
    }
  }

  void TryAgain(const kube::ApiError& error, const std::string& object = "") {
    // It should not happen, and nothing else would tell.
    if (error.kind == ApiErrorKind::kInvalid) {
      spdlog::warn("{}/{}: a write was refused: {}", order_.job.name_space, order_.job.name,
                   error.message);
    }
    carried_.complete = false;
    carried_.uncertain |= error.ambiguous || error.kind == ApiErrorKind::kConflict;
    const bool passing = error.kind == ApiErrorKind::kConflict || error.reason == "NotLeading";
    if (carried_.trouble && !carried_.trouble->passing) return;
    carried_.trouble = WriteTrouble{object, error.message, passing};
  }

  // Somebody has that name already: this job, in an earlier try, or a stranger.
  void Inspect(const kube::Resource& resource, const std::string& name, const std::string& what,
               bool spare, OnFound on_found) {
    Call({Method::kGet, Path(resource, order_.job.name_space, name), ""},
         [this, what, spare, on_found = std::move(on_found)](const ApiResult<std::string>& answer) {
           if (!answer.ok()) return TryAgain(answer.error());
           const Metadata found = ReadMetadata(*answer);
           const bool own = found.owner_uid == order_.uid;
           if (own ? found.deleting : IsOfTrainingJob(*answer, order_.job.name)) {
             carried_.complete = false;  // until its delete event
           } else if (!own) {
             Refuse(Refusal::Kind::kNameConflict, what, "", spare);
           } else {
             on_found(found);
           }
         });
  }

  // A spare that is refused holds nothing else up.
  void Refuse(Refusal::Kind kind, const std::string& object, const std::string& message,
              bool spare) {
    std::optional<Refusal>& refusal = spare ? carried_.spare_refusal : carried_.refusal;
    // Answers come in any order; the report does not depend on it.
    if (!refusal || object < refusal->object) refusal = Refusal{kind, object, message};
  }

  // A patch or a deletion. What is gone, or is another object by now, will be seen in the cache.
  void Change(Request request, Watched watched) {
    Call(std::move(request), [this, watched](const ApiResult<std::string>& answer) {
      if (answer.ok()) return Wrote(watched, *answer);
      if (answer.error().kind != ApiErrorKind::kNotFound) TryAgain(answer.error());
    });
  }

  Executor* executor_;  // outlives every call
  Order order_;
  std::function<void(WriteResult)> done_;
  WriteResult carried_;
  int open_ = 0;
  size_t begun_ = 0;                       // of the actions
  Priority priority_ = Priority::kNormal;  // of what is sent now
  bool status_begun_ = false;
  bool uncertain_before_status_ = false;
};

Executor::Executor(EventLoop* loop, kube::Client* client, kube::EventRecorder* events)
    : loop_(loop), client_(client), events_(events) {}

void Executor::Carry(Order order, std::function<void(WriteResult)> done) {
  auto run = std::make_shared<Run>(this, std::move(order), std::move(done));
  loop_->Post(lifetime_.Guard([run] { run->Begin(); }));
}

}  // namespace lockstep::control
