// Queue: Kueue as one job sees it. It admits the job's Workload after a while, takes the admission
// back, and waits for the operator to release what was held before it admits again.
//
// Judged here, as the API server alone can see it: no pod is made that is not admitted, and nothing
// is released while the gang lives.
#ifndef LOCKSTEP_TESTS_SIM_QUEUE_H_
#define LOCKSTEP_TESTS_SIM_QUEUE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/time.h"
#include "operator/policy/decision.h"
#include "tests/sim/api_server.h"

namespace lockstep::sim {

class World;

class Queue {
 public:
  static constexpr char kName[] = "queue";

  Queue(World& world, const ApiServer& api) : world_(world), api_(api) {}

  // It looks at the Workload every now and then. `apply` changes the API server's copy.
  void Begin(std::function<void(const ApiServer::Change&)> apply);
  void Preempt(Duration duration);

  // What the operator's writes make of the Workload; nothing where the API server refuses them.
  std::optional<ApiServer::Change> MadeBy(const control::MakeWorkload& make);
  std::optional<ApiServer::Change> ToldBy(const control::TellWorkload& tell);
  std::optional<ApiServer::Change> ReleasedBy(const control::ReleaseWorkload& release);
  std::optional<ApiServer::Change> DroppedBy(const control::DropWorkload& drop) const;

  // Of a pod whose attempt is the one on record.
  void JudgeMade(const std::string& pod) const;

 private:
  using Edit = std::function<void(control::WorkloadSeen&)>;

  void Look();
  void JudgeRelease() const;
  // A change of the Workload, with a version of its own.
  ApiServer::Change Versioned(Edit edit);

  World& world_;
  const ApiServer& api_;
  std::function<void(const ApiServer::Change&)> apply_;
  Time free_at_{};  // until then others have all there is
  uint64_t versions_ = 0;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_QUEUE_H_
