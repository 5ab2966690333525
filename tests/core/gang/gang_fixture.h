// GangFixture: a coordinator and its members in one process, on one clock that only the test moves.
// Messages arrive at once and in order; ranks are started and die as soon as they are told to,
// unless the test holds them.
#ifndef LOCKSTEP_TESTS_CORE_GANG_GANG_FIXTURE_H_
#define LOCKSTEP_TESTS_CORE_GANG_GANG_FIXTURE_H_

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/gang/coordinator/coordinator.h"
#include "core/gang/member/member.h"

namespace lockstep::core {

class GangFixture : public ::testing::Test {
 protected:
  struct Machine {
    std::unique_ptr<Member> member;
    ConnectionId connection = 0;
    bool cut = false;         // messages are lost in both directions
    bool hold_spawn = false;  // Spawn is not answered
    bool hold_death = false;  // StopProcesses is not answered
    std::vector<Spawn> spawns;
    std::vector<StopProcesses> stops;
    std::vector<CollectEvidence> collects;
    std::vector<std::string> places;  // of its ranks; empty: CollectEvidence is not answered
    std::vector<AnswerCommit> commits;
    bool hold_fetch = false;  // FetchPart is not answered
    std::vector<Fetch> fetches;
    std::vector<MemoryPart> dropped;
    bool hold_measure = false;  // MeasureMachine is not answered
    Figures figures{10, 20, 30};
    std::vector<GpuFigures> gpus;
    double reach = 5;  // GB/s at its end of a link
    std::vector<Measure> measures;
    bool hold_persist = false;  // PersistPart is not answered
    std::vector<Persist> persists;
    std::vector<core::Run> runs;  // as RunCommand has them; not answered
    std::vector<AnswerRun> answers;
    std::vector<SpawnAgain> again;
    std::vector<TableEntry> table;      // what fences have brought
    int fences = 0;                     // that its ranks went on from
    bool hold_ports = false;            // ProbePorts is not answered
    std::set<uint32_t> taken;           // ports
    std::vector<TryPorts> tried_ports;  // what it was asked
    bool hold_code = false;             // FetchVersion is not answered
    std::vector<FetchCode> fetched_code;
    std::vector<std::string> codes;  // that it holds
    std::optional<ExitAgent> exit;
  };

  void Begin(uint32_t machines, uint32_t processes = 2, uint32_t attempt = 1) {
    CoordinatorConfig config;
    config.job_uid = "job";
    config.attempt = attempt;
    config.machines = machines;
    config.processes = processes;
    config.policy = policy_;
    config.deciders = deciders_;
    config.alone = gangs_ ? std::vector<uint32_t>() : alone_;
    config.names = names_;
    config.memory = config.memory_copies = memory_;
    config.object_store = object_store_;
    config.checkpoint_path = checkpoint_path_;
    config.persist_every = persist_every_;
    config.preflight = preflight_;
    config.ports = ports_;
    config.one_computer = one_computer_;
    config.elastic = elastic_;
    config.sync = sync_;
    machines_.resize(machines);
    coordinator_ = std::make_unique<Coordinator>(config, now_);
    for (uint32_t i = 0; i < machines; ++i) Join(i, attempt, processes);
    Settle();
  }

  void Join(uint32_t index, uint32_t attempt, uint32_t processes = 2,
            bool predecessor_dead = true) {
    MemberConfig config;
    config.job_uid = "job";
    config.machine = index;
    config.attempt = attempt;
    config.machines = static_cast<uint32_t>(machines_.size());
    config.processes = processes;
    config.machine0_attempt = coordinator_->config().attempt;
    config.predecessor_dead = predecessor_dead;
    config.deciders = deciders_;
    config.alone = alone_;
    config.address = "10.0.0." + std::to_string(10 * attempt + index);
    if (memory_) config.memory_address = "machine-" + std::to_string(index);
    if (sync_) config.code_address = "machine-" + std::to_string(index);
    Machine& m = machines_[index];
    m = Machine{};
    m.member = std::make_unique<Member>(config);
    Connect(index);
  }

  void Connect(uint32_t index) {
    Machine& m = machines_[index];
    m.cut = false;
    m.connection = ++last_connection_;
    Do(index, m.member->OnConnected(now_));
  }

  void Cut(uint32_t index) {
    Machine& m = machines_[index];
    m.cut = true;
    Do(index, m.member->OnDisconnected(now_));
    Do(coordinator_->OnDisconnect(now_, m.connection));
  }

  // Carries messages until none is left.
  void Settle() {
    while (!to_coordinator_.empty() || !to_member_.empty()) {
      if (!to_coordinator_.empty()) {
        auto [index, connection, message] = std::move(to_coordinator_.front());
        to_coordinator_.pop_front();
        if (!machines_[index].cut) Do(coordinator_->OnMessage(now_, connection, message));
      } else {
        auto [index, message] = std::move(to_member_.front());
        to_member_.pop_front();
        Machine& m = machines_[index];
        if (!m.cut && !m.exit) Do(index, m.member->OnMessage(now_, message));
      }
    }
  }

  void Advance(Duration by, Duration step = milliseconds(50)) {
    for (Time end = now_ + by; now_ < end;) {
      now_ += std::min(step, end - now_);
      Do(coordinator_->OnTimer(now_));
      for (uint32_t i = 0; i < machines_.size(); ++i) {
        if (!machines_[i].exit) Do(i, machines_[i].member->OnTimer(now_));
      }
      Settle();
    }
  }

  void Kill(uint32_t index, uint32_t rank, int signal, Cause cause = Cause::kProcessSignal) {
    Failure death;
    death.rank = static_cast<int>(rank);
    death.cause = cause;
    death.signal = signal;
    death.at = now_;
    Do(index, machines_[index].member->OnProcessDied(now_, coordinator_->generation(), death));
    Settle();
  }

  void Exit(uint32_t index, uint32_t rank, int code) {
    Member& member = *machines_[index].member;
    if (code == 0) {
      Do(index, member.OnProcessFinished(now_, coordinator_->generation(), rank, false));
    } else {
      Failure death;
      death.rank = static_cast<int>(rank);
      death.cause = Cause::kProcessExit;
      death.exit_code = code;
      death.at = now_;
      Do(index, member.OnProcessDied(now_, coordinator_->generation(), death));
    }
    Settle();
  }

  void FinishAll(uint32_t processes = 2) {
    for (uint32_t i = 0; i < machines_.size(); ++i) {
      for (uint32_t l = 0; l < processes; ++l) Exit(i, i * processes + l, 0);
    }
  }

  // Its ranks wait in a fence.
  void EnterFence(uint32_t index, std::vector<TableEntry> entries) {
    Do(index,
       machines_[index].member->OnFence(now_, coordinator_->generation(), std::move(entries)));
  }

  // The last one. A link is as fast as its slower end.
  void AnswerMeasure(uint32_t index) {
    Machine& m = machines_[index];
    const Measure& asked = m.measures.back();
    Measured answer{asked.id, asked.linked, {}, "machine-" + std::to_string(index), "token", {}};
    if (asked.alone) answer.figures = m.figures;
    if (asked.alone) answer.gpus = m.gpus;
    for (const Partner& partner : asked.partners) {
      answer.rates.push_back(std::min(m.reach, machines_[partner.machine].reach));
    }
    Do(index, m.member->OnAnswer(now_, std::move(answer)));
  }

  // The last one.
  void AnswerPersist(uint32_t index, const std::string& error = "") {
    const Persist& asked = machines_[index].persists.back();
    Do(index, machines_[index].member->OnPersisted(
                  now_, Persisted{asked.id, error, asked.to, asked.machines}));
  }

  // What it was asked last.
  void AnswerPorts(uint32_t index) {
    Machine& m = machines_[index];
    const auto& [generation, first, count] = m.tried_ports.back();
    const auto taken = m.taken.lower_bound(first);
    const bool is_one = taken != m.taken.end() && *taken < first + count;
    Do(index, m.member->OnAnswer(now_, PortsTried{generation, first, is_one ? *taken : 0}));
  }

  void HoldCode(uint32_t index, const std::string& digest) {
    machines_[index].codes.push_back(digest);
    Do(index, machines_[index].member->OnCodeHeld(now_, machines_[index].codes));
  }

  void Desire(const DesiredState& desired) {
    Result<CoordinatorActions> actions = coordinator_->OnDesiredState(now_, desired);
    ASSERT_TRUE(actions.ok()) << actions.error().message;
    Do(std::move(*actions));
    Settle();
  }

  void Do(CoordinatorActions actions) {
    for (CoordinatorAction& action : actions) {
      if (auto* send = std::get_if<SendTo>(&action)) {
        for (uint32_t i = 0; i < machines_.size(); ++i) {
          if (machines_[i].connection == send->connection) {
            to_member_.emplace_back(i, std::move(send->message));
            break;
          }
        }
      } else if (auto* prepare = std::get_if<PrepareGeneration>(&action)) {
        prepared_.push_back(prepare->generation);
        earlier_.push_back(prepare->earlier);
        if (prepare_hangs_) continue;
        Prepared done{prepare->generation, "127.0.0.1", 29500, prepare_resume_, prepare_error_};
        if (prepare->generation.n <= prepare_taken_) done.taken = prepare_taken_;
        done.later = prepare_later_;
        if (prepare_resume_.starts_with("/ckpt/")) done.commit = CheckpointIdOf(prepare_resume_);
        done.hopeless = prepare_hopeless_;
        done.none_earlier = prepare->earlier && none_earlier_;
        if (done.none_earlier) done.error = "no checkpoint is left";
        done.earlier = prepared_earlier_ += prepare->earlier ? 1 : 0;
        if (prepare->earlier) done.skip_steps = "7-7";
        Do(coordinator_->OnPrepared(now_, done));
      } else if (auto* ports = std::get_if<FindPorts>(&action)) {
        found_ports_.push_back(*ports);
        FoundPorts found{ports->generation, next_port_, ports_error_};
        next_port_ += ports->count;
        Do(coordinator_->OnPortsFound(now_, found));
      } else if (auto* finish = std::get_if<FinishPersisting>(&action)) {
        persisted_.push_back(*finish);
        Do(coordinator_->OnPersisted(now_, finish->to, persist_error_));
      } else if (auto* log = std::get_if<CoordinatorLog>(&action)) {
        log_ += log->line + "\n";
      } else if (auto* exit = std::get_if<ExitCoordinator>(&action)) {
        coordinator_exit_ = *exit;
      }
    }
  }

  void Do(uint32_t index, MemberActions actions) {
    Machine& m = machines_[index];
    for (MemberAction& action : actions) {
      if (auto* send = std::get_if<SendToCoordinator>(&action)) {
        to_coordinator_.emplace_back(index, m.connection, std::move(send->message));
      } else if (auto* spawn = std::get_if<Spawn>(&action)) {
        m.spawns.push_back(*spawn);
        if (!m.hold_spawn) Do(index, m.member->OnSpawned(now_, spawn->start.generation));
      } else if (auto* stop = std::get_if<StopProcesses>(&action)) {
        m.stops.push_back(*stop);
        if (!m.hold_death) Do(index, m.member->OnAllDead(now_, stop->generation));
      } else if (auto* collect = std::get_if<CollectEvidence>(&action)) {
        m.collects.push_back(*collect);
        if (m.places.empty()) continue;
        std::vector<Whereabouts> found;
        for (const std::string& place : m.places) {
          found.push_back({index * 2 + static_cast<uint32_t>(found.size()), place});
        }
        Do(index, collect->look
                      ? m.member->OnLooked(now_, collect->generation, std::move(found))
                      : m.member->OnEvidence(now_, collect->generation, std::move(found)));
      } else if (auto* answer = std::get_if<AnswerCommit>(&action)) {
        m.commits.push_back(*answer);
      } else if (auto* fetch = std::get_if<FetchPart>(&action)) {
        m.fetches.push_back(fetch->fetch);
        if (!m.hold_fetch) Do(index, m.member->OnPartHeld(now_, fetch->fetch.part));
      } else if (auto* drop = std::get_if<DropParts>(&action)) {
        m.dropped.insert(m.dropped.end(), drop->parts.begin(), drop->parts.end());
      } else if (auto* measure = std::get_if<MeasureMachine>(&action)) {
        m.measures.push_back(measure->measure);
        if (!m.hold_measure) AnswerMeasure(index);
      } else if (auto* probe = std::get_if<ProbePorts>(&action)) {
        m.tried_ports.push_back(probe->ports);
        if (!m.hold_ports) AnswerPorts(index);
      } else if (auto* persist = std::get_if<PersistPart>(&action)) {
        m.persists.push_back(persist->persist);
        if (!m.hold_persist) AnswerPersist(index);
      } else if (auto* code = std::get_if<FetchVersion>(&action)) {
        m.fetched_code.push_back(code->fetch);
        if (!m.hold_code) HoldCode(index, code->fetch.digest);
      } else if (auto* run = std::get_if<RunCommand>(&action)) {
        m.runs.push_back(run->run);
      } else if (auto* ran = std::get_if<AnswerRun>(&action)) {
        m.answers.push_back(*ran);
      } else if (auto* again = std::get_if<SpawnAgain>(&action)) {
        m.again.push_back(*again);
      } else if (auto* fence = std::get_if<DeliverFence>(&action)) {
        m.table.insert(m.table.end(), fence->entries.begin(), fence->entries.end());
        m.fences += fence->last ? 1 : 0;
      } else if (auto* exit = std::get_if<ExitAgent>(&action)) {
        m.exit = *exit;
      }
    }
  }

  Time now_ = seconds(1000);
  std::vector<uint32_t> deciders_;
  std::vector<uint32_t> alone_;
  bool gangs_ = false;  // machine 0 knows these for the gang's
  ProcessNames names_;
  FailurePolicy policy_;
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<Machine> machines_;
  std::vector<Generation> prepared_;
  std::vector<std::optional<EarlierRequest>> earlier_;  // of prepared_
  bool none_earlier_ = false;                           // there is no such checkpoint
  uint32_t prepared_earlier_ = 0;
  bool memory_ = false;
  bool object_store_ = false;
  std::optional<PreflightLimits> preflight_;
  bool ports_ = false;
  bool one_computer_ = false;
  bool elastic_ = false;
  bool sync_ = false;
  std::vector<FindPorts> found_ports_;
  uint32_t next_port_ = 20000;  // that machine 0 finds
  std::string ports_error_;
  std::string checkpoint_path_;
  Duration persist_every_{};
  std::vector<FinishPersisting> persisted_;
  std::string persist_error_;
  std::string log_;
  std::string prepare_resume_;
  std::string prepare_error_;
  uint32_t prepare_taken_ = 0;
  uint32_t prepare_later_ = 0;
  bool prepare_hopeless_ = false;
  bool prepare_hangs_ = false;
  std::optional<ExitCoordinator> coordinator_exit_;

 private:
  ConnectionId last_connection_ = 0;
  std::deque<std::tuple<uint32_t, ConnectionId, Message>> to_coordinator_;
  std::deque<std::tuple<uint32_t, Message>> to_member_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_TESTS_CORE_GANG_GANG_FIXTURE_H_
