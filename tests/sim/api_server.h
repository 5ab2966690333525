// ApiServer: the job's objects and their versions, in memory. Every change is one function over the
// objects, put to the server at once and to each watcher's copy later, in order.
#ifndef LOCKSTEP_TESTS_SIM_API_SERVER_H_
#define LOCKSTEP_TESTS_SIM_API_SERVER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/model/spec.h"
#include "core/status/status.h"
#include "operator/policy/facts/snapshot.h"

namespace lockstep::sim {

enum class Kind : uint8_t { kJob, kPods, kServices, kWorkloads };
inline constexpr size_t kKinds = 4;

struct Objects {
  core::Spec spec;
  int64_t generation = 1;  // of the spec
  core::JobStatus status;
  uint64_t job_version = 1;
  std::map<std::string, control::MachineObservation> pods;  // as a watch of them would show
  bool has_names = false;
  std::optional<control::CoordinatorAddress> coordinator;
  std::map<core::SliceKey, control::SliceSeen> slices;
  std::optional<uint32_t> leads_to;  // the attempt of machine 0 in the coordinator's slice
  std::vector<control::WorkloadSeen> workloads;  // likewise
  std::array<uint64_t, kKinds> seen{};           // the version of the last change of each kind
};

class ApiServer {
 public:
  using Change = std::function<void(Objects&)>;
  using Watcher = std::function<void(Kind, uint64_t version, const Change&)>;

  const Objects& objects() const { return objects_; }
  void Watch(Watcher watcher) { watcher_ = std::move(watcher); }

  uint64_t Apply(Kind kind, const Change& change) {
    const uint64_t version = ++version_;
    change(objects_);
    if (kind == Kind::kJob) objects_.job_version = version;
    objects_.seen[static_cast<size_t>(kind)] = version;
    watcher_(kind, version, change);
    return version;
  }

 private:
  Objects objects_;
  uint64_t version_ = 1;
  Watcher watcher_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_API_SERVER_H_
