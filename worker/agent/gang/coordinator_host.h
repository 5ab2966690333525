// CoordinatorHost: the coordinator (core/gang/coordinator/coordinator.h) on a real machine 0: its
// connections, its one timer, ports and generation files. Machine 0's own member talks to it in the
// process. One thread.
#ifndef LOCKSTEP_WORKER_AGENT_GANG_COORDINATOR_HOST_H_
#define LOCKSTEP_WORKER_AGENT_GANG_COORDINATOR_HOST_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/loop/wake_timer.h"
#include "base/net/tcp.h"
#include "base/result.h"
#include "base/time.h"
#include "core/gang/coordinator/coordinator.h"
#include "worker/agent/files/file_worker.h"
#include "worker/agent/gang/frame_connection.h"
#include "worker/agent/gang/gang_port.h"
#include "worker/agent/logs/log.h"
#include "worker/agent/metrics/gang_metrics.h"
#include "worker/agent/storage/generation_line.h"

namespace lockstep::agent {

class CoordinatorHost : public GangPort {
 public:
  class Owner {
   public:
    virtual void OnCoordinatorExit(const core::ExitCoordinator& exit) = 0;
    // Something that /status shows may have changed.
    virtual void OnGangChange() = 0;
    // A generation whose ranks are told this port is about to be announced. An error: it can't be,
    // and is tried again with another port.
    virtual Status OnPrepare(uint32_t port) = 0;

   protected:
    ~Owner() = default;
  };

  // Where commits outlive the machines. `begin` and `finish` block, on the FileWorker.
  struct Storage {
    std::function<Result<GenerationLine::Begun>(const core::PrepareGeneration&)> begin;
    // Makes a commit of a checkpoint whose parts all machines have written.
    std::function<Status(const core::FinishPersisting&)> finish;
    // On the loop's thread, after a commit. May be empty.
    std::function<void(core::Generation)> on_commit = {};
  };

  // `storage`: nullopt when commits are kept nowhere but in memory. `files` and both owners outlive
  // the host. `own` is machine 0's own member, which finds the port always open.
  CoordinatorHost(EventLoop* loop, core::CoordinatorConfig config, std::string master_address,
                  std::optional<Storage> storage, FileWorker* files, GangPort::Owner* own,
                  Owner* owner, LogFn log);
  CoordinatorHost(const CoordinatorHost&) = delete;
  CoordinatorHost& operator=(const CoordinatorHost&) = delete;

  // A member on the wire.
  void Adopt(std::unique_ptr<FrameConnection> frames, const Endpoint& peer);
  void Start() override { own_->OnGangOpen(); }
  void Send(const core::Message& message) override;
  void Reconnect(const std::string& /*reason*/) override {}
  void OnWorldDoubt(std::string doubt) { coordinator_.OnWorldDoubt(std::move(doubt)); }
  void OnMpiWorld(int64_t size, int64_t wanted) { coordinator_.OnMpiWorld(size, wanted); }
  // PUT /gang.
  Status OnDesiredState(const core::DesiredState& desired);
  Status OnCodeOffered(const core::CodeOffer& offer);
  void OnEditorLeft(const std::string& receiver) {
    CarryOut(coordinator_.OnEditorLeft(BootTime(), receiver));
  }

  const core::Coordinator& coordinator() const { return coordinator_; }
  const GangMetrics& metrics() const { return metrics_; }
  // Addresses that members' connections came from (KernelAddress in evidence/connections.h).
  const std::set<std::string>& machines() const { return machines_; }
  Time born() const { return born_; }

 private:
  static constexpr core::ConnectionId kLocal = 1;

  void OnMessage(core::ConnectionId id, const core::Message& message);
  struct ActionVisitor;

  void CarryOut(core::CoordinatorActions actions);
  void Prepare(const core::PrepareGeneration& prepare);
  void FindPorts(const core::FindPorts& wanted);
  void FinishPersisting(const core::FinishPersisting& finish);
  void FinishPreparing(const core::Prepared& prepared);

  EventLoop* loop_;
  Time born_;
  core::Coordinator coordinator_;
  GangMetrics metrics_;
  std::string master_address_;
  std::optional<Storage> storage_;
  FileWorker* files_;
  GangPort::Owner* own_;
  Owner* owner_;
  LogFn log_;
  std::map<core::ConnectionId, std::unique_ptr<FrameConnection>> members_;
  std::set<std::string> machines_;
  core::ConnectionId last_connection_ = kLocal;
  uint64_t port_seed_;
  WakeTimer timer_;
  Lifetime lifetime_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_GANG_COORDINATOR_HOST_H_
