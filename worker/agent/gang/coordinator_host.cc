#include "worker/agent/gang/coordinator_host.h"

#include <functional>
#include <utility>
#include <variant>

#include "base/net/free_port.h"
#include "worker/agent/processes/connections.h"

namespace lockstep::agent {
namespace {

constexpr const char* kNoneEarlier =
    "no committed checkpoint is known to be from before the first bad step: those with a step in "
    "their name, as in step-1200, are newer, and others have no step there or were removed; keep "
    "more checkpoints, name them by step, or restart the job from one by checkpoint.resume";

}  // namespace

using core::ConnectionId;

CoordinatorHost::CoordinatorHost(EventLoop* loop, core::CoordinatorConfig config,
                                 std::string master_address, std::optional<Storage> storage,
                                 FileWorker* files, GangPort::Owner* own, Owner* owner, LogFn log)
    : loop_(loop),
      born_(BootTime()),
      coordinator_(std::move(config), born_),
      metrics_(&coordinator_, BootTime),
      master_address_(std::move(master_address)),
      storage_(std::move(storage)),
      files_(files),
      own_(own),
      owner_(owner),
      log_(std::move(log)),
      // Two jobs that start on one machine at one moment begin to look in different places.
      port_seed_(std::hash<std::string>()(coordinator_.config().job_uid) +
                 static_cast<uint64_t>(born_.count())),
      timer_(loop, [this] { CarryOut(coordinator_.OnTimer(BootTime())); }) {
  timer_.WakeAt(coordinator_.NextWake());
}

void CoordinatorHost::Adopt(std::unique_ptr<FrameConnection> frames, const Endpoint& peer) {
  ConnectionId id = ++last_connection_;
  FrameConnection* raw = frames.get();
  members_[id] = std::move(frames);
  machines_.insert(KernelAddress(peer));
  raw->Start({.on_message =
                  [this, id, raw](std::string_view body) {
                    Result<core::Message> message = core::Decode(body);
                    if (!message.ok()) return raw->Abort(message.error().message);
                    OnMessage(id, *message);
                  },
              .on_close =
                  [this, id, peer](const std::string& reason) {
                    log_("the connection from " + peer.ToString() + " ended: " + reason);
                    // The connection that reports its end is still on the stack.
                    auto ended = members_.extract(id);
                    if (!ended.empty()) {
                      loop_->Post(
                          [kept = std::shared_ptr<FrameConnection>(std::move(ended.mapped()))] {});
                    }
                    CarryOut(coordinator_.OnDisconnect(BootTime(), id));
                  }});
}

void CoordinatorHost::Send(const core::Message& message) {
  loop_->Post(lifetime_.Guard([this, message] { OnMessage(kLocal, message); }));
}

Status CoordinatorHost::OnDesiredState(const core::DesiredState& desired) {
  Result<core::CoordinatorActions> actions = coordinator_.OnDesiredState(BootTime(), desired);
  if (!actions.ok()) return actions.error();
  CarryOut(std::move(*actions));
  return {};
}

Status CoordinatorHost::OnCodeOffered(const core::CodeOffer& offer) {
  Result<core::CoordinatorActions> actions = coordinator_.OnCodeOffered(BootTime(), offer);
  if (!actions.ok()) return actions.error();
  CarryOut(std::move(*actions));
  return {};
}

void CoordinatorHost::OnMessage(ConnectionId id, const core::Message& message) {
  metrics_.OnHeard(message, id == kLocal);
  CarryOut(coordinator_.OnMessage(BootTime(), id, message));
}

// Carries out an action of the coordinator: one operator() for each kind, so that a new one doesn't
// compile before it is written here.
struct CoordinatorHost::ActionVisitor {
  CoordinatorHost& host;

  void operator()(core::SendTo& send) const {
    host.metrics_.OnSaid(send.message);
    if (send.connection == kLocal) {
      host.loop_->Post(host.lifetime_.Guard([&host = host, message = std::move(send.message)] {
        host.own_->OnGangMessage(message);
      }));
    } else if (auto it = host.members_.find(send.connection); it != host.members_.end()) {
      it->second->Send(core::Encode(send.message));
    }
  }
  void operator()(const core::CloseConnection& close) const {
    const auto it = host.members_.find(close.connection);
    if (it != host.members_.end()) it->second->Close(close.reason);
  }
  void operator()(const core::PrepareGeneration& prepare) const { host.Prepare(prepare); }
  void operator()(const core::FindPorts& ports) const { host.FindPorts(ports); }
  void operator()(const core::FinishPersisting& finish) const { host.FinishPersisting(finish); }
  void operator()(const core::ExitCoordinator& exit) const { host.owner_->OnCoordinatorExit(exit); }
  void operator()(const core::CoordinatorLog& log) const { host.log_(log.line); }
};

void CoordinatorHost::CarryOut(core::CoordinatorActions actions) {
  for (core::CoordinatorAction& action : actions) std::visit(ActionVisitor{*this}, action);
  timer_.WakeAt(coordinator_.NextWake());
  metrics_.OnChange();
  owner_->OnGangChange();
}

void CoordinatorHost::FinishPersisting(const core::FinishPersisting& finish) {
  files_->Run(
      [storage = *storage_, finish] { return storage.finish(finish); },
      lifetime_.Guard([this, to = finish.to](const Status& done) {
        if (done.ok() && storage_->on_commit) storage_->on_commit(to.generation);
        CarryOut(coordinator_.OnPersisted(BootTime(), to, done.ok() ? "" : done.error().message));
      }));
}

void CoordinatorHost::Prepare(const core::PrepareGeneration& prepare) {
  core::Prepared prepared;
  prepared.generation = prepare.generation;
  prepared.master_address = master_address_;
  Result<uint32_t> port = FindFreePort(port_seed_);
  if (port.ok()) port_seed_ = *port + 1;
  const Status served = port.ok() ? owner_->OnPrepare(*port) : Status();
  if (port.ok() && served.ok()) {
    prepared.port = *port;
  } else {
    prepared.error = port.ok() ? served.error().message : port.error().message;
  }
  if (!storage_ || !prepared.error.empty()) {
    loop_->Post(
        lifetime_.Guard([this, prepared = std::move(prepared)] { FinishPreparing(prepared); }));
    return;
  }
  files_->Run([storage = *storage_, prepare] { return storage.begin(prepare); },
              lifetime_.Guard([this, prepared](Result<GenerationLine::Begun> begun) mutable {
                if (begun.ok()) {
                  prepared.resume = begun->resumes;
                  prepared.taken = begun->taken;
                  prepared.later = begun->later;
                  prepared.commit = begun->commit;
                  prepared.skip_steps = begun->skips;
                  prepared.earlier = begun->earlier;
                  prepared.none_earlier = begun->none_earlier;
                  prepared.set_aside = begun->set_aside;
                  if (begun->none_earlier) prepared.error = kNoneEarlier;
                } else {
                  prepared.error = begun.error().message;
                  prepared.hopeless = begun.error().kind == ErrorKind::kInvalid;
                }
                FinishPreparing(prepared);
              }));
}

// Behind MASTER_PORT, and all that was found before.
void CoordinatorHost::FindPorts(const core::FindPorts& wanted) {
  core::FoundPorts found;
  found.generation = wanted.generation;
  Result<uint32_t> first = FindFreePorts(port_seed_, wanted.count);
  if (first.ok()) {
    found.first = *first;
    port_seed_ = *first + wanted.count;
  } else {
    found.error = first.error().message;
  }
  loop_->Post(lifetime_.Guard([this, found = std::move(found)] {
    CarryOut(coordinator_.OnPortsFound(BootTime(), found));
  }));
}

void CoordinatorHost::FinishPreparing(const core::Prepared& prepared) {
  CarryOut(coordinator_.OnPrepared(BootTime(), prepared));
}

}  // namespace lockstep::agent
