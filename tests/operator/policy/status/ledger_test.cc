#include "core/status/ledger.h"

#include "tests/operator/policy/scene.h"

namespace lockstep::control::ledger_test {
namespace {

using core::Activity;
using core::CoordinatorPhase;

core::GangStatus::GenerationStatus Generation(core::Generation generation, Duration announced) {
  core::GangStatus::GenerationStatus status;
  status.generation = generation;
  status.announced = announced;
  status.spawned = announced + seconds(1);
  status.first_step = announced + seconds(3);
  status.resumed_at = 1;
  return status;
}

int64_t Spent(const core::JobStatus& status, Activity activity) {
  const auto& all = status.ledger->sums.activities;
  const auto found = all.find(activity);
  return found == all.end() ? 0 : found->second;
}

// Of two machines, whose coordinator says that its first generation began a second after it.
struct Running : Scene {
  Running() : Scene(MakeJob("gpt").Machines(2)) {
    Run();
    Say(seconds(0));
  }
  core::GangStatus& Say(Duration later) {
    Pass(later);
    core::GangStatus& gang = Report(CoordinatorPhase::kRunning);
    gang.generation = {status().attempts.Of(0), 1};
    gang.history = {Generation(gang.generation, seconds(1))};
    return gang;
  }
};

TEST(LedgerPolicy, CostsNoWriteOfItsOwn) {
  Running scene;
  scene.Say(seconds(1));
  scene.Settle();
  for (int i = 0; i < 10; ++i) {
    scene.Say(seconds(20));
    EXPECT_TRUE(WritesNothing(scene.Decide()));
  }
}

TEST(UsagePolicy, OfMachinesIsWrittenOnlyWithOtherChanges) {
  Running scene;
  const auto use = [&scene](Duration later, int64_t memory) -> core::GangStatus& {
    core::GangStatus& gang = scene.Say(later);
    for (auto& machine : gang.machines) machine.usage = core::Usage{.memory = memory};
    return gang;
  };
  use(seconds(1), 0);
  scene.Settle();
  for (int i = 1; i <= 10; ++i) {
    use(seconds(20), i << 20);
    EXPECT_TRUE(WritesNothing(scene.Decide()));
  }
  use(seconds(20), 77).counters.stops = 1;
  scene.Settle();
  ASSERT_EQ(scene.status().machine_statuses.size(), 2U);
  for (const core::MachineStatus& machine : scene.status().machine_statuses) {
    ASSERT_TRUE(machine.usage) << machine.index;
    EXPECT_EQ(machine.usage->memory, 77);
  }
  use(seconds(20), 78);
  EXPECT_TRUE(WritesNothing(scene.Decide()));
}

TEST(LedgerPolicy, GoesOnWhereAnotherOperatorStopped) {
  Running scene;
  scene.Say(seconds(20)).counters.stops = 1;
  scene.Settle();
  const int64_t before = scene.status().ledger->sums.total();
  scene.ForgetAll();
  scene.Say(seconds(20)).counters.stops = 2;
  scene.Make(scene.Settle());
  scene.Settle();
  EXPECT_EQ(scene.status().ledger->sums.total(), before + 2 * 20'000);
  EXPECT_EQ(Spent(scene.status(), Activity::kProductive), 2 * 36'000);
  EXPECT_EQ(Spent(scene.status(), Activity::kStartUp), 2 * 2'000);
}

TEST(LedgerPolicy, CountsFromTheLastWordOfALostMachine0) {
  Running scene;
  scene.Say(seconds(20));
  scene.Pass(seconds(15));
  scene.machine(0).end = Killed(9);
  scene.machine(0).all_ended = true;
  scene.Make(scene.Settle());
  EXPECT_EQ(Spent(scene.status(), Activity::kDetect), 2 * 15'000);
  EXPECT_EQ(Spent(scene.status(), Activity::kProductive), 2 * 16'000);
  EXPECT_EQ(scene.status().ledger->sums.lost_to.at(core::Cause::kMachineLost), 2 * 15'000);
  scene.Pass(seconds(5));
  scene.Say(seconds(10));
  scene.Settle();
  EXPECT_EQ(Spent(scene.status(), Activity::kDetect), 2 * 15'000);
  EXPECT_EQ(scene.status().ledger->sums.total(), 2 * 50'000);
}

TEST(LedgerPolicy, IsClosedByTheVerdict) {
  Running scene;
  scene.Say(seconds(20));
  scene.Pass(seconds(2));
  for (int i = 0; i < 2; ++i) {
    scene.machine(i).end = Verdict(0, {1, 1}, static_cast<uint32_t>(i), scene.machine(i).attempt);
    scene.machine(i).all_ended = true;
  }
  scene.Settle();
  ASSERT_EQ(scene.status().state, core::JobState::kSucceeded);
  EXPECT_EQ(Spent(scene.status(), Activity::kProductive), 2 * 18'000);
  EXPECT_EQ(scene.status().ledger->sums.total(), 2 * 22'000);
  EXPECT_EQ(scene.status().ledger->goodput, "81.8%");
}

TEST(LedgerPolicy, SaysHowLongMachinesWaitedForNodes) {
  Scene scene(MakeJob("gpt").Machines(2));
  for (int i = 0; i < 3; ++i) scene.Make(scene.Settle());
  for (int i = 0; i < 2; ++i) scene.machine(i).stage = Stage::kUnplaced;
  scene.Pass(seconds(2));
  scene.Settle();
  scene.Pass(seconds(60));
  for (int i = 0; i < 2; ++i) scene.machine(i).stage = Stage::kPlaced;
  scene.Settle();
  EXPECT_EQ(Spent(scene.status(), Activity::kWaitingForNodes), 2 * 60'000);
}

}  // namespace
}  // namespace lockstep::control::ledger_test
