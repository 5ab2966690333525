// A gang with a liar in it that holds the key: a machine that says what it likes, or a machine 0
// that does. Its messages have the protocol's structure and any values in their fields; the honest
// state machines keep what they promise all the same.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/exit_codes.h"
#include "core/gang/coordinator/coordinator.h"
#include "core/gang/member/member.h"
#include "core/gang/protocol/messages.h"
#include "core/gang/status/fields.h"

namespace lockstep::core {
namespace {

constexpr uint32_t kHonest = 2;  // machines 0 and 1, each with its connection of number + 1
constexpr uint32_t kLiar = 2;    // the machine that lies
constexpr uint32_t kProcesses = 2;
constexpr size_t kMaxActions = 64;  // of one event
constexpr uint32_t kAttempt = 3;    // of the honest machine 0

void Require(bool so, std::source_location at = std::source_location::current()) {
  if (so) return;
  std::fprintf(stderr, "line %u does not hold\n", at.line());
  std::abort();
}

// ---- what a liar says ----

class Liar {
 public:
  explicit Liar(FuzzedDataProvider* data) : data_(data) {}

  template <typename Struct>
  Struct Say(Time now, Generation generation) {
    now_ = now;
    generation_ = generation;
    Struct message;
    Fill(message);
    return message;
  }

 private:
  template <typename Struct, typename Table = decltype(kFields<Struct>)>
    requires HasFields<Struct>
  void Fill(Struct& value, const Table& table = kFields<Struct>) {
    ForEachField<Struct>([&](const auto& field) { Fill(value.*field.member); }, table);
  }
  void Fill(bool& value) { value = data_->ConsumeBool(); }
  void Fill(uint32_t& value) {
    value = data_->ConsumeBool() ? data_->ConsumeIntegralInRange<uint32_t>(0, 5)
                                 : data_->ConsumeIntegral<uint32_t>();
  }
  void Fill(int& value) { value = data_->ConsumeIntegral<int>(); }
  void Fill(int64_t& value) { value = data_->ConsumeIntegral<int64_t>(); }
  void Fill(uint64_t& value) { value = data_->ConsumeIntegral<uint64_t>(); }
  void Fill(double& value) { value = data_->ConsumeFloatingPoint<double>(); }
  void Fill(std::string& value) { value = data_->ConsumeRandomLengthString(40); }
  void Fill(Generation& value) {
    value = generation_;
    const auto shift = data_->ConsumeIntegralInRange<int>(-1, 2);
    if (data_->ConsumeBool()) value.n += static_cast<uint32_t>(shift);
    if (data_->ConsumeIntegralInRange(0, 7) == 0) Fill(value.attempt);
  }
  void Fill(Members& value) {
    std::vector<uint32_t> machines;
    Fill(machines);
    for (uint32_t& machine : machines) machine %= Members::kMost;
    value = Members::Of(std::move(machines));
  }
  // A time or a duration: near now, short, or extreme.
  void Fill(Duration& value) {
    switch (data_->ConsumeIntegralInRange(0, 3)) {
      case 0:
        value = now_ + milliseconds(data_->ConsumeIntegralInRange(-20'000, 20'000));
        return;
      case 1:
        value = milliseconds(data_->ConsumeIntegralInRange(-1, 30'000));
        return;
      case 2:
        value =
            Duration(data_->PickValueInArray({std::numeric_limits<int64_t>::min(),
                                              std::numeric_limits<int64_t>::max(), int64_t{0}}));
        return;
      default:
        value = Duration(data_->ConsumeIntegral<int64_t>());
    }
  }
  template <NamedEnum E>
  void Fill(E& value) {
    value = data_->PickValueInArray(kEnumNames<E>).value;
  }
  template <typename T>
  void Fill(std::optional<T>& value) {
    value.reset();
    if (data_->ConsumeBool()) Fill(value.emplace());
  }
  template <typename T>
  void Fill(std::vector<T>& list) {
    list.resize(data_->ConsumeIntegralInRange<size_t>(0, 3));
    for (T& item : list) {
      if constexpr (std::is_same_v<T, Failure>) {
        Fill(item, kDeathFields);
      } else {
        Fill(item);
      }
    }
  }

  FuzzedDataProvider* data_;
  Time now_{};
  Generation generation_;
};

// As it comes off the wire, if it does.
std::optional<Message> OverTheWire(const Message& message) {
  Result<Message> read = Decode(Encode(message));
  if (!read.ok()) return std::nullopt;
  return std::move(*read);
}

// ---- an honest machine and its ranks ----

class Honest {
 public:
  Honest(uint32_t machine, uint32_t machine0_attempt)
      : member_({"job", machine, kAttempt, kHonest + 1, kProcesses, machine0_attempt, true}) {}

  const Member& member() const { return member_; }
  bool left() const { return left_; }
  // A generation that has live ranks under a live lease.
  std::optional<Generation> Runs(Time now) const {
    return Live() && now < lease_end_ ? alive_ : std::nullopt;
  }

  template <typename Event>
  std::vector<Message> Do(Time now, Event event) {
    std::vector<Message> said;
    if (left_) return said;
    const uint32_t before = member_.machine0_attempt();
    std::deque<MemberActions> todo;
    todo.push_back(event(member_));
    while (!todo.empty()) {
      const MemberActions actions = std::move(todo.front());
      todo.pop_front();
      Require(actions.size() <= kMaxActions);
      for (const MemberAction& action : actions) {
        if (std::optional<MemberActions> more = Obey(now, action, &said)) {
          todo.push_back(std::move(*more));
        }
      }
    }
    Require(member_.machine0_attempt() >= before);
    // Nothing runs on without a lease.
    Require(!Live() || now < lease_end_ || kill_at_ <= now);
    return said;
  }

  std::vector<Message> Wake(Time now) {
    std::vector<Message> said = Do(now, [&](Member& member) { return member.OnTimer(now); });
    Require(left_ || member_.NextWake() > now);  // or the agent would spin
    return said;
  }

  std::vector<Message> RanksFinish(Time now) {
    std::vector<Message> said;
    while (alive_ && finished_ < kProcesses) {
      const uint32_t rank = member_.config().machine * kProcesses + finished_++;
      for (Message& each :
           Do(now, [&](Member& m) { return m.OnProcessFinished(now, *alive_, rank, true); })) {
        said.push_back(std::move(each));
      }
    }
    return said;
  }

  std::vector<Message> RankDies(Time now) {
    Failure death;
    death.rank = static_cast<int>(member_.config().machine * kProcesses);
    death.cause = Cause::kProcessExit;
    death.exit_code = 1;
    death.at = now;
    if (!Live()) return {};
    return Do(now, [&](Member& m) { return m.OnProcessDied(now, *alive_, death); });
  }

  std::vector<Message> AllDie(Time now) {
    if (!alive_ || now < kill_at_) return {};
    const Generation died = *std::exchange(alive_, std::nullopt);
    return Do(now, [&](Member& m) { return m.OnAllDead(now, died); });
  }

 private:
  bool Live() const { return alive_ && finished_ < kProcesses; }

  std::optional<MemberActions> Obey(Time now, const MemberAction& action,
                                    std::vector<Message>* said) {
    if (const auto* send = std::get_if<SendToCoordinator>(&action)) {
      said->push_back(send->message);
    } else if (const auto* spawn = std::get_if<Spawn>(&action)) {
      Require(!Live() && now < spawn->lease_end);
      Require(spawn->start.generation > latest_);
      alive_ = latest_ = spawn->start.generation;
      lease_end_ = spawn->lease_end;
      kill_at_ = kNever;
      finished_ = 0;
      return member_.OnSpawned(now, latest_);
    } else if (const auto* stop = std::get_if<StopProcesses>(&action)) {
      if (alive_ == stop->generation) kill_at_ = stop->kill_at;
    } else if (const auto* lease = std::get_if<SetLease>(&action)) {
      Require(!Live() || lease->end >= lease_end_);
      if (alive_) lease_end_ = lease->end;
    } else if (const auto* exit = std::get_if<ExitAgent>(&action)) {
      Require(exit->verdict.has_value() || (exit->code != 0 && exit->code != kExitFailed));
      left_ = true;
    }
    return std::nullopt;
  }

  Member member_;
  std::optional<Generation> alive_;
  Generation latest_;
  Time lease_end_ = Time::min();
  Time kill_at_ = kNever;
  bool left_ = false;
  uint32_t finished_ = 0;
};

// ---- a machine that lies to an honest machine 0 ----

class LyingMember {
 public:
  explicit LyingMember(FuzzedDataProvider* data)
      : data_(data), liar_(data), coordinator_(Config(), now_) {
    for (uint32_t i = 0; i < kHonest; ++i) machines_.emplace_back(i, kAttempt);
  }

  void Run() {
    for (uint32_t i = 0; i < kHonest; ++i) {
      Deliver(i, machines_[i].Do(now_, [&](Member& m) { return m.OnConnected(now_); }));
    }
    Hello hello;
    hello.job_uid = "job";
    hello.machine = kLiar;
    hello.attempt = 1;
    hello.machines = kHonest + 1;
    hello.processes = kProcesses;
    hello.machine0_attempt = kAttempt;
    hello.predecessor_dead = true;
    to_coordinator_.emplace_back(kLiar, hello);
    Settle();
    while (data_->remaining_bytes() > 0 && !over_) {
      Step();
      Settle();
    }
  }

 private:
  static CoordinatorConfig Config() {
    CoordinatorConfig config;
    config.job_uid = "job";
    config.attempt = kAttempt;
    config.machines = kHonest + 1;
    config.processes = kProcesses;
    return config;
  }

  void Step() {
    const auto i = data_->ConsumeIntegralInRange<uint32_t>(0, kHonest - 1);
    switch (data_->ConsumeIntegralInRange(0, 9)) {
      case 0:
        silent_ = data_->ConsumeIntegralInRange(0, 7) == 0;
        return Advance(milliseconds(data_->ConsumeIntegralInRange(1, 6000)));
      case 1:
        return Deliver(i, machines_[i].RanksFinish(now_));
      case 2:
        return Deliver(i, machines_[i].RankDies(now_));
      case 3:
        return Deliver(i, machines_[i].AllDie(now_));
      case 4: {
        Hello hello = liar_.Say<Hello>(now_, coordinator_.generation());
        // In its own place: who holds the key may claim any, and is believed.
        hello.job_uid = "job";
        hello.machine = kLiar;
        hello.machines = kHonest + 1;
        hello.processes = kProcesses;
        if (data_->ConsumeIntegralInRange(0, 9) > 0) hello.machine0_attempt = kAttempt;
        return Lie(hello);
      }
      case 5:
        return Lie(Pong{data_->ConsumeBool() ? last_ping_ : liar_.Say<Pong>(now_, {}).ping_sent,
                        now_, coordinator_.generation(), MemberPhase::kRunning});
      case 6:
        return Lie(liar_.Say<ReportMessage>(now_, coordinator_.generation()));
      case 7:
        return Lie(liar_.Say<CommitRequest>(now_, coordinator_.generation()));
      case 8:
        return Lie(liar_.Say<Progress>(now_, coordinator_.generation()));
      default:
        return data_->ConsumeBool() ? Lie(liar_.Say<StopRequest>(now_, {}))
                                    : Do(coordinator_.OnDisconnect(now_, kLiar + 1));
    }
  }

  void Lie(const Message& message) {
    const std::optional<Message> read = OverTheWire(message);
    if (read) Do(coordinator_.OnMessage(now_, kLiar + 1, *read));
  }

  void Advance(Duration by) {
    for (const Time end = now_ + by; now_ < end && !over_;) {
      now_ += std::min<Duration>(milliseconds(500), end - now_);
      Do(coordinator_.OnTimer(now_));
      Require(over_ || coordinator_.NextWake() > now_);
      for (uint32_t i = 0; i < kHonest; ++i) Deliver(i, machines_[i].Wake(now_));
      Settle();
    }
  }

  // Carries messages, in their order, until none is left.
  void Settle() {
    while (!to_coordinator_.empty() || !to_members_.empty()) {
      if (!to_coordinator_.empty()) {
        const auto [machine, message] = std::move(to_coordinator_.front());
        to_coordinator_.pop_front();
        Do(coordinator_.OnMessage(now_, machine + 1, message));
      } else {
        const auto [connection, message] = std::move(to_members_.front());
        to_members_.pop_front();
        Hear(connection, message);
      }
    }
  }

  void Deliver(uint32_t machine, const std::vector<Message>& said) {
    for (const Message& each : said) to_coordinator_.emplace_back(machine, each);
  }

  void Do(const CoordinatorActions& actions) {
    Require(actions.size() <= kMaxActions);
    for (const CoordinatorAction& action : actions) {
      if (const auto* send = std::get_if<SendTo>(&action)) {
        to_members_.emplace_back(send->connection, send->message);
      } else if (const auto* prepare = std::get_if<PrepareGeneration>(&action)) {
        Require(prepare->generation > prepared_ && prepare->generation.attempt == kAttempt);
        prepared_ = prepare->generation;
        Prepared done;
        done.generation = prepared_;
        done.master_address = "127.0.0.1";
        done.port = 29500;
        Do(coordinator_.OnPrepared(now_, done));
      } else if (std::holds_alternative<ExitCoordinator>(action)) {
        over_ = true;
      }
    }
    Require(coordinator_.progress().size() <= (kHonest + 1) * kProcesses);
    Require(coordinator_.history().size() <= kMaxHistory);
    // Two generations never run at once.
    const auto one = machines_[0].Runs(now_);
    const auto other = machines_[1].Runs(now_);
    Require(!one || !other || *one == *other);
  }

  void Hear(ConnectionId connection, const Message& message) {
    const Message read = *OverTheWire(message);  // machine 0 says nothing that cannot be read
    if (connection == kLiar + 1) return Answer(read);
    const auto machine = static_cast<uint32_t>(connection - 1);
    Deliver(machine,
            machines_[machine].Do(now_, [&](Member& m) { return m.OnMessage(now_, read); }));
  }

  // Between its lies it does what it should, unless it is silent: else no gang gets anywhere.
  void Answer(const Message& message) {
    const auto say = [this](const Message& answer) { to_coordinator_.emplace_back(kLiar, answer); };
    if (const auto* ping = std::get_if<Ping>(&message)) {
      last_ping_ = ping->sent;
      if (!silent_) say(Pong{ping->sent, now_, prepared_, MemberPhase::kRunning});
    } else if (const auto* start = std::get_if<Start>(&message)) {
      if (!silent_) say(ReportMessage{Report(start->generation, MemberPhase::kRunning)});
    } else if (const auto* stop = std::get_if<Stop>(&message)) {
      if (!silent_) say(ReportMessage{Report(stop->generation, MemberPhase::kStopped)});
    }
  }

  FuzzedDataProvider* data_;
  Time now_ = seconds(1000);
  Liar liar_;
  Coordinator coordinator_;
  std::vector<Honest> machines_;
  std::deque<std::pair<uint32_t, Message>> to_coordinator_;
  std::deque<std::pair<ConnectionId, Message>> to_members_;
  Generation prepared_;
  Time last_ping_{};
  bool silent_ = false;
  bool over_ = false;
};

// ---- a machine 0 that lies to an honest machine ----

void LyingCoordinator(FuzzedDataProvider* data) {
  Time now = seconds(1000);
  Liar liar(data);
  Honest machine(1, kAttempt);
  uint64_t commits = 0;
  machine.Do(now, [&](Member& m) { return m.OnConnected(now); });
  const auto say = [&](const Message& message) {
    const std::optional<Message> read = OverTheWire(message);
    if (read) machine.Do(now, [&](Member& m) { return m.OnMessage(now, *read); });
  };
  // Mostly one under which ranks can run: else nothing is there to be lied to.
  const auto grant = [&](const LeaseGrant& lie) {
    return data->ConsumeIntegralInRange(0, 3) == 0 ? lie : LeaseGrant{true, now, {}, seconds(15)};
  };
  while (data->remaining_bytes() > 0 && !machine.left()) {
    Generation generation = machine.member().generation();
    if (!generation.exists()) generation = {kAttempt, 1};
    switch (data->ConsumeIntegralInRange(0, 10)) {
      case 0:
        now += milliseconds(data->ConsumeIntegralInRange(1, 6000));
        machine.Wake(now);
        break;
      case 1:
        machine.RanksFinish(now);
        break;
      case 2:
        machine.RankDies(now);
        break;
      case 3:
        machine.AllDie(now);
        break;
      case 4:
        say(liar.Say<Welcome>(now, generation));
        break;
      case 5: {
        Ping ping = liar.Say<Ping>(now, generation);
        ping.lease = grant(ping.lease);
        say(ping);
        break;
      }
      case 6: {
        Start start = liar.Say<Start>(now, generation);
        start.lease = grant(start.lease);
        say(start);
        break;
      }
      case 7:
        say(liar.Say<Stop>(now, generation));
        break;
      case 8:
        say(liar.Say<CommitReply>(now, generation));
        break;
      case 9:
        // Its own ranks are not the ones that lie.
        if (++commits <= 8) machine.Do(now, [&](Member& m) { return m.OnCommit(now, commits); });
        break;
      default:
        if (data->ConsumeIntegralInRange(0, 9) == 0) say(liar.Say<Refused>(now, generation));
        if (data->ConsumeIntegralInRange(0, 9) == 0) say(liar.Say<Verdict>(now, generation));
    }
  }
}

}  // namespace
}  // namespace lockstep::core

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  FuzzedDataProvider data(bytes, size);
  if (data.ConsumeBool()) {
    lockstep::core::LyingMember(&data).Run();
  } else {
    lockstep::core::LyingCoordinator(&data);
  }
  return 0;
}
