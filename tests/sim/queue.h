// Queue: Kueue as one job sees it. It admits the job's Workload after a while, takes the admission
// back, and waits for the operator to release what was held before it admits again. Of a job whose
// size it may change, what is given back goes to others for a while; and a second Workload is
// admitted in place of the first, which is finished some time later.
//
// Judged here, as the API server alone can see it: no pod is made that is not admitted, and nothing
// is released while it is in use.
#ifndef LOCKSTEP_TESTS_SIM_QUEUE_H_
#define LOCKSTEP_TESTS_SIM_QUEUE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "base/time.h"
#include "operator/policy/facts/decision.h"
#include "tests/sim/api_server.h"

namespace lockstep::sim {

class World;

class Queue {
 public:
  static constexpr char kName[] = "queue";

  Queue(World& world, const ApiServer& api) : world_(world), api_(api) {}

  // It looks at the Workloads every now and then. `apply` changes the API server's copy.
  void Begin(std::function<void(const ApiServer::Change&)> apply);
  void Preempt(Duration duration);

  bool Has(const control::MakeWorkload& make) const;
  // What the operator's writes make of a Workload; nothing where the API server refuses them.
  ApiServer::Change MadeBy(const control::MakeWorkload& make);
  std::optional<ApiServer::Change> ResizedBy(const control::ResizeWorkload& resize);
  std::optional<ApiServer::Change> ToldBy(const control::TellWorkload& tell);
  std::optional<ApiServer::Change> ReleasedBy(const control::ReleaseWorkload& release);
  std::optional<ApiServer::Change> DroppedBy(const control::DropWorkload& drop) const;

  // Of a machine's pod, whose attempt is the one on record.
  void JudgeMade(const std::string& pod, uint32_t machine) const;

 private:
  using Edit = std::function<void(control::WorkloadSeen&)>;

  void Look();
  void LookAt(const control::WorkloadSeen& workload);
  void Admit(const control::WorkloadSeen& workload);
  // Machines and spares with pods that run, or may: each takes one of what is held.
  std::set<std::string> Users() const;
  void JudgeRelease(int64_t left) const;
  const control::WorkloadSeen* Find(const std::string& name) const;  // null: there is none
  // The last of those that hold quota.
  const control::WorkloadSeen* Holder() const;
  // A change of the Workload, with a version of its own.
  ApiServer::Change Versioned(const std::string& name, Edit edit);

  World& world_;
  const ApiServer& api_;
  std::function<void(const ApiServer::Change&)> apply_;
  Time free_at_{};   // until then others have all there is
  Time grows_at_{};  // until then they have what was given back
  uint64_t versions_ = 0;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_QUEUE_H_
