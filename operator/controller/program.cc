#include "operator/controller/program.h"

#include <malloc.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <spdlog/spdlog.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/process/stop_signals.h"
#include "base/thread_annotations.h"
#include "base/version.h"
#include "core/exit_codes.h"
#include "operator/controller/claims.h"
#include "operator/controller/controller.h"
#include "operator/controller/http_port.h"
#include "operator/controller/log.h"
#include "operator/controller/metrics/api_metrics.h"
#include "operator/kube/client.h"
#include "operator/kube/events.h"
#include "operator/kube/http/transport.h"
#include "operator/kube/lease_election.h"
#include "operator/kube/watch/watch.h"
#include "operator/objects/endpoint_slice.h"

namespace lockstep::control {
namespace {

constexpr size_t kMostPolls = 16384;
constexpr size_t kOtherFiles = 1024;  // descriptors for all else; half, where that is fewer
constexpr size_t kMostNamed = 256;    // unreadable objects in the log, of each watch
constexpr Duration kBeatEvery = seconds(5);
constexpr Duration kBeatLate = seconds(60);  // the loop hangs: restart the process

Result<kube::ClientConfig> LoadConfig(const Options& options) {
  if (!options.kubeconfig.empty()) {
    return kube::LoadKubeconfig(options.kubeconfig, options.context);
  }
  if (options.context.empty()) {
    Result<kube::ClientConfig> in_cluster = kube::LoadInCluster();
    if (in_cluster.ok() || in_cluster.error().kind != ErrorKind::kNotFound) return in_cluster;
  }
  const char* file = std::getenv("KUBECONFIG");
  if (file != nullptr && *file != '\0') return kube::LoadKubeconfig(file, options.context);
  const char* home = std::getenv("HOME");
  return kube::LoadKubeconfig(std::string(home == nullptr ? "" : home) + "/.kube/config",
                              options.context);
}

// As many connections to gangs as descriptors allow, with some left for other uses.
size_t MaxPolls() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  getrlimit(RLIMIT_NOFILE, &files);
  const size_t most = files.rlim_cur;
  return std::min(kMostPolls, most - std::min(most / 2, kOtherFiles));
}

// Never the same twice, however often one pod's container is restarted.
std::string Identity() {
  std::array<char, 64> host{};
  gethostname(host.data(), host.size() - 1);
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) {
    random = static_cast<uint64_t>(BootTime().count());
  }
  return std::string(host.data()) + "_" + fmt::format("{:016x}", random);
}

class Operator {
 public:
  Operator(const Options& options, std::unique_ptr<EventLoop> loop,
           std::unique_ptr<kube::Transport> transport, std::unique_ptr<kube::Transport> watches,
           std::unique_ptr<kube::Transport> lease, std::string system_namespace)
      : options_(options),
        identity_(options.identity.empty() ? Identity() : options.identity),
        system_namespace_(std::move(system_namespace)),
        loop_(std::move(loop)),
        lease_transport_(std::move(lease)),
        watch_transport_(std::move(watches)),
        leader_(&prometheus::BuildGauge()
                     .Name("lockstep_operator_leader")
                     .Help("1 while this operator holds the Lease")
                     .Register(metrics_)
                     .Add({})),
        api_metrics_(&metrics_),
        client_(
            std::move(transport),
            {.permit = [this] { return permit_.Held(); },
             .on_attempt = [this](const kube::CallRecord& call) { api_metrics_.OnAttempt(call); }}),
        events_(&client_, {.instance = identity_}),
        controller_(loop_.get(), &client_, &events_, &metrics_,
                    {.agent_image = options.agent_image,
                     .delivery = options.delivery,
                     .system_namespace = system_namespace_,
                     .namespaces = options.namespaces,
                     .claimant = Claimant(),
                     .watches_queues = options.kueue,
                     .signs = options.signs,
                     .node_reports = options.node_reports,
                     .max_polls = MaxPolls()}) {
    prometheus::BuildGauge()
        .Name("lockstep_operator_build_info")
        .Help("1; the label names the operator's version")
        .Register(metrics_)
        .Add({{"version", kVersion}})
        .Set(1);
  }

  Result<int> Run() {
    const Result<std::unique_ptr<HttpPort>> health =
        HttpPort::Start("--health-address", options_.health_address,
                        [this](const std::string& path) { return AnswerProbe(path); });
    if (!health.ok()) return health.error();
    const Result<std::unique_ptr<HttpPort>> metrics =
        HttpPort::Start("--metrics-address", options_.metrics_address,
                        [this](const std::string& path) { return AnswerScrape(path); });
    if (!metrics.ok()) return metrics.error();
    for (const int number : kStopSignals) {
      loop_->OnSignal(number, [this] { Leave(core::kExitSuccess, "asked to stop"); });
    }
    Beat();
    if (!options_.namespaces.empty()) Watch("");
    for (const std::string& scope : Scopes()) Watch(scope);
    Elect();
    spdlog::info(
        "lockstep-operator {} as {}, namespace {}, health on port {}, metrics on port {}, HTTP by "
        "{}",
        kVersion, identity_,
        options_.namespaces.empty() ? "(all)" : fmt::format("{}", fmt::join(Scopes(), ", ")),
        (*health)->port(), (*metrics)->port(), options_.http.name);
    loop_->Run();
    controller_.Stop();
    // Before another of this name leads, which claims the same.
    for (auto& [_, claim] : claims_) claim.election->BeginStop();
    claims_.clear();
    // No write after this: the permit is dropped before the Lease is released.
    election_->Stop();
    return exit_code_;
  }

 private:
  // The watches of one scope.
  struct View {
    std::unique_ptr<kube::Reflector<kube::JobView>> jobs;
    std::unique_ptr<kube::Reflector<kube::PodView>> pods;
    std::unique_ptr<kube::Reflector<kube::ServiceView>> services;
    std::unique_ptr<kube::Reflector<kube::SliceView>> slices;
    std::unique_ptr<kube::Reflector<kube::WorkloadView>> workloads;
    std::unique_ptr<kube::Reflector<kube::FlavorView>> flavors;  // of scope "" alone
    std::unique_ptr<kube::Reflector<kube::NodeView>> nodes;      // of all namespaces alone
    std::unique_ptr<kube::Reflector<kube::ClaimView>> claims;    // the same
  };
  // By which the jobs of one scope are this operator's.
  struct Claim {
    kube::Permit permit;
    std::unique_ptr<kube::LeaseElection> election;
  };

  // The scopes with jobs (scopes.h): the given namespaces, or "" for all.
  std::vector<std::string> Scopes() const {
    return options_.namespaces.empty() ? std::vector<std::string>{""} : options_.namespaces;
  }
  // The same for every process that leads by the same Lease: claims outlast them.
  std::string Claimant() const { return system_namespace_ + "/" + options_.lease_name; }

  // The handler of each object as it is read, on its watch's thread.
  template <typename T>
  void AddReading([[maybe_unused]] const std::string& scope,
                  [[maybe_unused]] kube::WatchHandlers<T>* handlers) {
    if constexpr (std::is_same_v<T, kube::JobView>) {
      JobBudget* budget = &controller_.budget();
      handlers->on_anew = [budget, scope] { budget->Clear(scope); };
      handlers->on_read = [budget](kube::EventKind kind, kube::JobView& job) {
        if (kind != kube::EventKind::kDeleted) return budget->Admit(job);
        budget->Release({job.meta.name_space, job.meta.name});
      };
    }
  }

  template <typename T>
  std::unique_ptr<kube::Reflector<T>> Follow(const kube::Resource& resource,
                                             const std::string& scope, const std::string& query,
                                             std::optional<kube::Watched> of_queues = {}) {
    const std::string name(resource.plural);
    kube::WatchHandlers<T> handlers;
    AddReading(scope, &handlers);
    handlers.on_batch = [this, round = round_, scope, name](kube::Batch<T> batch) {
      const bool whole = batch.replace;
      controller_.OnBatch(round, std::move(batch));
      if (!whole) return;
      loop_->PostFromAnyThread([this, scope, name] {
        problems_[scope].erase(name);
        TellReadiness();
      });
    };
    handlers.on_problem = [this, round = round_, scope, of_queues, said = std::string(),
                           name](const Error& error) mutable {
      if (of_queues && (error.kind == ErrorKind::kNotFound || error.kind == ErrorKind::kDenied)) {
        controller_.OnNoQueues(scope, round, *of_queues, error.kind);
      }
      if (error.message == said) return;
      said = error.message;
      spdlog::warn("cannot follow {}: {}", name, error.message);
      loop_->PostFromAnyThread([this, scope, name, said] {
        problems_[scope][name] = said;
        TellReadiness();
      });
    };
    handlers.on_unreadable = [unreadable = api_metrics_.UnreadableOf(name), name,
                              named = std::set<kube::ObjectName>()](
                                 const kube::ObjectMeta& meta, const std::string& why) mutable {
      unreadable->Increment();
      if (named.size() >= kMostNamed) return;
      if (!named.insert({meta.name_space, meta.name}).second) return;
      spdlog::warn("{} {}/{} cannot be read and is skipped: {}", name, meta.name_space, meta.name,
                   why);
    };
    handlers.on_restart = [restarts = api_metrics_.RestartsOf(name)] { restarts->Increment(); };
    return std::make_unique<kube::Reflector<T>>(
        watch_transport_.get(),
        kube::WatchOptions{.path = kube::Path(resource, scope),
                           .name_space = scope,
                           .query = query,
                           .seed = std::hash<std::string>()(identity_ + scope + name),
                           .silence = options_.watch_silence},
        std::move(handlers));
  }

  // Begins to read everything of a scope; again when this operator begins to have its jobs.
  void Watch(const std::string& scope) {
    View& view = views_[scope];
    view = {};
    problems_.erase(scope);
    controller_.BeginRound(scope, ++round_);
    TellReadiness();
    if (scope.empty() && options_.kueue) {
      view.flavors = Follow<kube::FlavorView>(kube::kFlavors, scope, "", kube::Watched::kFlavors);
    }
    if (scope.empty() && !options_.namespaces.empty()) return;  // there are no jobs in it
    const std::string ours = kube::Query({{"labelSelector", "lockstep.dev/job"}});
    view.jobs = Follow<kube::JobView>(kube::kTrainingJobs, scope, "");
    view.pods = Follow<kube::PodView>(kube::kPods, scope, ours);
    view.services = Follow<kube::ServiceView>(kube::kServices, scope, ours);
    view.slices = Follow<kube::SliceView>(kube::kEndpointSlices, scope,
                                          kube::Query({{"labelSelector", kSlicesOfJobs}}));
    if (options_.kueue) {
      view.workloads =
          Follow<kube::WorkloadView>(kube::kWorkloads, scope, ours, kube::Watched::kWorkloads);
    }
    if (!scope.empty()) return;
    view.nodes = Follow<kube::NodeView>(kube::kNodes, scope, "");
    const std::string name = std::string("metadata.name=") + kClaimLease;
    view.claims =
        Follow<kube::ClaimView>(kube::kLeases, scope, kube::Query({{"fieldSelector", name}}));
  }

  void Elect() {
    const Duration length = options_.lease_duration;
    election_ = std::make_unique<kube::LeaseElection>(
        lease_transport_.get(),
        kube::LeaseOptions{.name_space = system_namespace_,
                           .name = options_.lease_name,
                           .identity = identity_,
                           .duration = length,
                           .renew_deadline = length * 4 / 5,
                           .retry = length * 2 / 15},
        &permit_,
        kube::LeaseHandlers{.on_started =
                                [this] {
                                  loop_->PostFromAnyThread([this] {
                                    spdlog::info("leading: Lease {}/{}", system_namespace_,
                                                 options_.lease_name);
                                    leader_->Set(1);
                                    controller_.Lead();
                                    for (const std::string& each : Scopes()) MakeClaim(each);
                                  });
                                },
                            .on_lost =
                                [this] {
                                  loop_->PostFromAnyThread(
                                      [this] { Leave(core::kExitTrouble, "the Lease is lost"); });
                                },
                            .on_problem =
                                [this, said = std::string()](const Error& error) mutable {
                                  if (error.message == said) return;
                                  said = error.message;
                                  spdlog::warn("Lease {}/{}: {}", system_namespace_,
                                               options_.lease_name, error.message);
                                }});
  }

  // Owns the jobs of a scope while it holds the Lease there. The Lease outlives its holder for up
  // to a minute, so that no other operator takes a namespace from one that only restarts.
  void MakeClaim(const std::string& scope) {
    const std::string place = scope.empty() ? kClaimOfAllNamespace : scope;
    const std::string name = scope.empty() ? kClaimOfAllLease : kClaimLease;
    const std::string whose = scope.empty() ? "all namespaces" : "namespace " + scope;
    const Duration length = options_.lease_duration;
    Claim& claim = claims_[scope];
    claim.election.reset();
    claim.election = std::make_unique<kube::LeaseElection>(
        lease_transport_.get(),
        kube::LeaseOptions{.name_space = place,
                           .name = name,
                           .identity = Claimant(),
                           .duration = length * 4,
                           .renew_deadline = length * 3,
                           .retry = length * 2 / 3,
                           .watch_every = length / 5,
                           .linger = length / 3},
        &claim.permit,
        kube::LeaseHandlers{
            .on_started =
                [this, scope] {
                  loop_->PostFromAnyThread([this, scope] {
                    Watch(scope);
                    controller_.Open(scope);
                  });
                },
            .on_lost =
                [this, scope, whose] {
                  loop_->PostFromAnyThread([this, scope, whose] {
                    spdlog::warn("{}: no longer this operator's, because its Lease is lost", whose);
                    controller_.Close(scope);
                    MakeClaim(scope);
                  });
                },
            .on_problem =
                [whose, said = std::string()](const Error& error) mutable {
                  if (error.message == said) return;
                  said = error.message;
                  spdlog::warn("{}: {}", whose, error.message);
                },
            .on_waiting =
                [whose, place, name](const std::string& holder) {
                  spdlog::warn(
                      "{}: another operator's, {}, which holds Lease {}/{}; this operator does "
                      "nothing there until that Lease ends",
                      whose, holder, place, name);
                }});
  }

  void Leave(int code, const char* why) {
    spdlog::info("leaving: {}", why);
    leader_->Set(0);
    controller_.Stop();
    exit_code_ = code;
    loop_->Stop();
  }

  void Beat() {
    last_beat_ = BootTime().count();
    loop_->StartTimer(BootTime() + kBeatEvery, [this] { Beat(); });
  }
  bool Beats() const { return BootTime() - Time(last_beat_) < kBeatLate; }

  // The next three are called from the ports' threads.
  HttpResponse AnswerProbe(const std::string& path) const {
    std::string problem;
    if (path == "/healthz") {
      if (!Beats()) problem = "the loop hangs";
    } else if (path == "/readyz") {
      problem = NotReady();
    } else {
      return {.status = 404, .body = "there are /healthz and /readyz\n"};
    }
    if (problem.empty()) return {.body = "ok\n"};
    return {.status = 503, .body = problem + "\n"};
  }

  HttpResponse AnswerScrape(const std::string& path) const {
    if (path != "/metrics") return {.status = 404, .body = "there is /metrics\n"};
    return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
            .body = prometheus::TextSerializer().Serialize(metrics_.Collect())};
  }

  std::string NotReady() const {
    const MutexLock lock(&readiness_mutex_);
    return not_ready_;
  }

  void TellReadiness() {
    std::string said;
    for (const std::string& scope : controller_.Unread()) {
      said += said.empty() ? "" : "\n";
      said += "waits for its first view of TrainingJobs, pods, Services, EndpointSlices";
      said += scope.empty() ? ", nodes and claims" : " in namespace " + scope;
      said += ": check that the CRD is installed, and that the operator may list and watch them";
      for (const auto& [_, problem] : problems_[scope]) said += "\n  " + problem;
    }
    const MutexLock lock(&readiness_mutex_);
    not_ready_ = said;
  }

  const Options options_;
  const std::string identity_;
  const std::string system_namespace_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<kube::Transport> lease_transport_;
  std::unique_ptr<kube::Transport> watch_transport_;
  kube::Permit permit_;
  prometheus::Registry metrics_;
  prometheus::Gauge* leader_;
  ApiMetrics api_metrics_;
  kube::Client client_;
  kube::EventRecorder events_;
  Controller controller_;
  std::unique_ptr<kube::LeaseElection> election_;
  std::map<std::string, Claim> claims_;  // this and the next two: by scope
  std::map<std::string, View> views_;
  std::map<std::string, std::map<std::string, std::string>> problems_;  // and resource
  uint64_t round_ = 0;
  mutable Mutex readiness_mutex_;
  std::string not_ready_ GUARDED_BY(readiness_mutex_) = "has not begun to read";
  std::atomic<Time::rep> last_beat_ = 0;
  int exit_code_ = 0;
};

Result<int> Run(const Options& options) {
  Result<kube::ClientConfig> config = LoadConfig(options);
  if (!config.ok()) return config.error();
  const std::string system_namespace =
      options.system_namespace.empty() ? config->default_namespace : options.system_namespace;
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
  if (!loop.ok()) return loop.error();
  // Neither the Lease's requests nor the watches may wait behind a burst of pods. A connection on
  // which the Lease's are lost is given up while there is time for another.
  const Duration lost_after = options.lease_duration / 6;
  Result<std::unique_ptr<kube::Transport>> lease = kube::MakeTransport(
      *config, {.connections = 1, .connect_timeout = lost_after, .unacknowledged = lost_after},
      options.http);
  if (!lease.ok()) return lease.error();
  Result<std::unique_ptr<kube::Transport>> watches =
      kube::MakeTransport(*config, {.connections = 1});
  if (!watches.ok()) return watches.error();
  Result<std::unique_ptr<kube::Transport>> transport =
      kube::MakeTransport(std::move(*config), {}, options.http);
  if (!transport.ok()) return transport.error();
  Operator program(options, std::move(*loop), std::move(*transport), std::move(*watches),
                   std::move(*lease), system_namespace);
  return program.Run();
}

}  // namespace

int RunOperator(const Options& options) {
  // Before there are threads, which inherit the mask: signals come to the loop alone.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int each : kStopSignals) sigaddset(&signals, each);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A dozen threads that allocate little: separate arenas would only hold freed memory.
  mallopt(M_ARENA_MAX, 2);
  SetUpLog(options.log_level, options.log_json);
  Result<int> code = Run(options);
  if (code.ok()) return *code;
  spdlog::error("{}", code.error().message);
  return core::kExitUsage;
}

}  // namespace lockstep::control
