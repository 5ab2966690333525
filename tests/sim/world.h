// World: one schedule, run in virtual time from its seed. Same schedule, same events, same outcome,
// on any machine. One thread; worlds of different threads share nothing.
//
//   Outcome outcome = RunSchedule(DrawSchedule(42));
//   if (outcome.violation) std::cout << outcome.violation->detail;
#ifndef LOCKSTEP_TESTS_SIM_WORLD_H_
#define LOCKSTEP_TESTS_SIM_WORLD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/event_queue.h"
#include "tests/sim/invariants.h"
#include "tests/sim/machine.h"
#include "tests/sim/network.h"
#include "tests/sim/operator.h"
#include "tests/sim/random.h"
#include "tests/sim/schedule.h"
#include "tests/sim/training.h"
#include "tests/sim/volume.h"

namespace lockstep::sim {

inline constexpr const char* kJobUid = "6f1e0f0e-0000-4000-8000-000000000001";

inline std::ostream& operator<<(std::ostream& out, core::Generation generation) {
  return out << generation.attempt << '-' << generation.n;
}

struct Outcome {
  std::optional<Violation> violation;
  Time ended{};  // virtual
  uint64_t events = 0;
  size_t faults = 0;  // that came to pass
  bool success = false;
};

class World {
 public:
  // `trace`: where every event is written as a line; may be null.
  World(const Schedule& schedule, std::ostream* trace);

  Outcome Run();

  Time now() const { return queue_.now(); }
  EventQueue& queue() { return queue_; }
  Random& random() { return random_; }
  Network& network() { return network_; }
  Volume& volume() { return volume_; }
  Training& training() { return training_; }
  Operator& op() { return *operator_; }
  const Operator& op() const { return *operator_; }
  Invariants& invariants() { return invariants_; }
  const Schedule& schedule() const { return schedule_; }
  const Shape& shape() const { return shape_; }
  Machine& machine(Node node) { return *machines_.at(node); }
  const std::vector<std::unique_ptr<Machine>>& machines() const { return machines_; }

  Machine& AddMachine(const MachineSpec& spec);
  uint32_t NextPid() { return ++last_pid_; }
  // The attempt of the machine 0 that a connection leads to.
  uint32_t AttemptBehind(core::ConnectionId id, const Machine& from);
  void OnPhase(core::CoordinatorPhase phase);
  // When the last fault of those that came to pass is over.
  Time faults_end() const { return faults_end_; }
  bool Mutated(const char* name) const { return schedule_.Off(name); }
  // What is known to break at a limit is looked away from, to see what holds.
  bool Tolerates(std::string_view invariant) const;

  template <typename... Parts>
  void Log(const Parts&... parts) {
    if (trace_ == nullptr) return;
    std::ostringstream line;
    (line << ... << parts);
    WriteLine(line.str());
  }

 private:
  // A user syncs some versions of the code, and one again if no machine holds it.
  void SyncCode();
  void Inject(const Fault& fault);
  void TouchAll();
  void InjectInto(Machine& machine, const Fault& fault);
  void WriteLine(const std::string& line);
  bool Over() const;

  const Schedule schedule_;
  const Shape shape_;
  std::ostream* trace_;
  Random random_;
  EventQueue queue_;
  Network network_;
  Volume volume_;
  Training training_;
  std::unique_ptr<Operator> operator_;
  Invariants invariants_;
  Random user_;
  uint32_t versions_ = 0;  // of the code, that the user has made
  std::vector<std::unique_ptr<Machine>> machines_;
  uint32_t last_pid_ = 100;
  Time faults_end_{};
  size_t faults_ = 0;
  std::vector<uint32_t> entries_;  // of each phase
};

Outcome RunSchedule(const Schedule& schedule, std::ostream* trace = nullptr);

// Fewer and simpler faults that still break the same invariant.
Schedule Shrink(const Schedule& schedule);

// Every rule of core and of the operator's policy, and every weakness the simulator has of its own.
std::vector<std::string> Mutants();

// What breaks the fencing of ranks all the same (docs/reference/limits.md). With "+Tolerant" only
// that which holds there, too, is judged: the line of checkpoints, above all.
std::vector<std::string> Limits();

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_WORLD_H_
