#include "operator/controller/jobs/queue_reads.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace lockstep::control {
namespace {

using kube::Watched;

// One of Kueue's types is read, or cannot be; and what holds then.
struct Step {
  Watched which;
  std::optional<ErrorKind> failed;
  Queues then;
};

struct Case {
  const char* name;
  std::vector<Step> steps;
};

TEST(QueueReads, QueuesAreThereWhileBothTypesAre) {
  constexpr auto kWorkloads = Watched::kWorkloads;
  constexpr auto kFlavors = Watched::kFlavors;
  constexpr auto kGone = ErrorKind::kNotFound;
  constexpr auto kDenied = ErrorKind::kDenied;
  const std::vector<Case> cases = {
      {"there",
       {{kWorkloads, {}, Queues::kUnknown},
        {kFlavors, {}, Queues::kThere},
        {kFlavors, {}, Queues::kThere}}},
      {"not installed, and then it is",
       {{kWorkloads, kGone, Queues::kAbsent},
        {kFlavors, kGone, Queues::kAbsent},
        {kFlavors, {}, Queues::kAbsent},
        {kWorkloads, {}, Queues::kThere}}},
      {"one type comes later",
       {{kWorkloads, {}, Queues::kUnknown},
        {kFlavors, kGone, Queues::kAbsent},
        {kFlavors, {}, Queues::kThere}}},
      {"one type is gone for a while, the other is not read again",
       {{kWorkloads, {}, Queues::kUnknown},
        {kFlavors, {}, Queues::kThere},
        {kFlavors, kGone, Queues::kAbsent},
        {kFlavors, kGone, Queues::kAbsent},
        {kFlavors, {}, Queues::kThere}}},
      {"refused after it was read",
       {{kWorkloads, {}, Queues::kUnknown},
        {kFlavors, {}, Queues::kThere},
        {kWorkloads, kDenied, Queues::kThere}}},
      {"one is refused from the beginning, the other later",
       {{kWorkloads, {}, Queues::kUnknown},
        {kFlavors, kDenied, Queues::kAbsent},
        {kWorkloads, kDenied, Queues::kAbsent},
        {kFlavors, {}, Queues::kThere}}},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    QueueReads reads;
    EXPECT_EQ(reads.queues(), Queues::kUnknown);
    for (const Step& step : each.steps) {
      if (step.failed) {
        reads.OnFailed(step.which, *step.failed);
      } else {
        reads.OnRead(step.which);
      }
      EXPECT_EQ(reads.queues(), step.then) << &step - each.steps.data();
    }
  }
}

}  // namespace
}  // namespace lockstep::control
