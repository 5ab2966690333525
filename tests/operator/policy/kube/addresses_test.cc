#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::SliceKey;
using testing::IsEmpty;
using testing::SizeIs;

constexpr SliceKey kCoordinator{.coordinator = true};
constexpr SliceKey kNames{};

// What a decision writes into this slice; absent: nothing.
std::optional<std::vector<core::MachineEndpoint>> Written(const Decision& decision, SliceKey key) {
  for (const WriteSlice& write : All<WriteSlice>(decision)) {
    if (write.key == key) return write.endpoints;
  }
  return std::nullopt;
}

// Its pods are made, and none has an address.
Scene Made(int machines) {
  Scene scene(MakeJob("gpt").Machines(machines), LeadBy::kSlices);
  for (int i = 0; i < 2; ++i) scene.Make(scene.Settle());
  for (MachineObservation& seen : scene.machines()) {
    seen.address = "";
    seen.stage = Stage::kPlaced;
    seen.ready = false;
  }
  return scene;
}

TEST(Addresses, ServicesThatWereThereAreMadeAgainOnceTheJobIsSurelyNotGoneWithThem) {
  Scene scene(MakeJob("gpt").Machines(2), LeadBy::kSlices);
  scene.Run();
  scene.Pass(minutes(1));
  scene.RemoveAddresses();
  const Decision at_once = scene.Settle();
  EXPECT_THAT(at_once.actions, IsEmpty());
  ASSERT_NE(at_once.wake, kNever);
  scene.now.boot = at_once.wake;
  const Decision later = scene.Settle();
  EXPECT_THAT(All<MakeNames>(later), SizeIs(1));
  EXPECT_THAT(All<MakeCoordinatorAddress>(later), SizeIs(1));
}

TEST(Addresses, TheCoordinatorsLeadsToMachine0OnceThatHasAnAddress) {
  Scene scene = Made(2);
  EXPECT_THAT(All<WriteSlice>(scene.Settle()), IsEmpty());
  scene.machine(0).address = "10.64.3.7";
  const Decision decision = scene.Settle();
  EXPECT_EQ(Written(decision, kNames), std::nullopt) << "machine 1 comes soon";
  const auto written = Written(decision, kCoordinator);
  ASSERT_TRUE(written);
  EXPECT_EQ(*written, std::vector<core::MachineEndpoint>({{.machine = 0,
                                                           .attempt = 1,
                                                           .address = "10.64.3.7",
                                                           .node = "node-0",
                                                           .name = "gpt-0",
                                                           .uid = "uid-gpt-0"}}));
  EXPECT_EQ(All<WriteSlice>(decision)[0].uid, "") << "it is made";
  scene.Make(decision);
  EXPECT_THAT(All<WriteSlice>(scene.Settle()), IsEmpty());
}

TEST(Addresses, NamesAreWrittenOnceForAGangWhoseMachinesComeWithinASecond) {
  Scene scene = Made(3);
  for (const int index : {2, 0, 1}) {
    scene.machine(index).address = "10.64.3." + std::to_string(index);
    const Decision decision = scene.Settle();
    const auto written = Written(decision, kNames);
    EXPECT_EQ(written.has_value(), index == 1);
    if (written) EXPECT_THAT(*written, SizeIs(3));
    scene.Make(decision);
    scene.Pass(milliseconds(400));
  }
}

TEST(Addresses, NamesOfAGangThatIsNotWholeAreWrittenOnceASecond) {
  Scene scene = Made(3);
  scene.machine(1).address = "10.64.3.1";
  const Decision at_once = scene.Settle();
  EXPECT_EQ(Written(at_once, kNames), std::nullopt);
  EXPECT_EQ(at_once.wake, scene.now.boot + seconds(1));
  scene.Pass(seconds(1));
  const Decision later = scene.Settle();
  ASSERT_TRUE(Written(later, kNames));
  EXPECT_THAT(*Written(later, kNames), SizeIs(1));
  scene.Make(later);
  scene.machine(2).address = "10.64.3.2";
  EXPECT_EQ(Written(scene.Settle(), kNames), std::nullopt);
  scene.Pass(seconds(1));
  ASSERT_TRUE(Written(scene.Settle(), kNames));
}

TEST(Addresses, AReplacementOfMachine0CostsTheCoordinatorOneWrite) {
  Scene scene(MakeJob("gpt").Machines(2), LeadBy::kSlices);
  scene.Run();
  scene.machine(0).end = Killed(9);
  const Decision replaced = scene.Settle();
  EXPECT_EQ(Written(replaced, kCoordinator), std::nullopt) << "nothing to lead to yet";
  scene.Make(replaced);
  const Decision decision = scene.Settle();
  const auto written = Written(decision, kCoordinator);
  ASSERT_TRUE(written);
  ASSERT_THAT(*written, SizeIs(1));
  EXPECT_EQ(written->front().attempt, 2U);
  EXPECT_EQ(All<WriteSlice>(decision)[0].uid, "uid-slice");
}

TEST(Addresses, SomebodyElsesChangeIsWrittenOver) {
  Scene scene(MakeJob("gpt").Machines(2), LeadBy::kSlices);
  scene.Run();
  EXPECT_THAT(All<WriteSlice>(scene.Settle()), IsEmpty());
  scene.snapshot().slices.at(kCoordinator).endpoints ^= 1;
  EXPECT_TRUE(Written(scene.Settle(), kCoordinator));
  scene.snapshot().slices.erase(kNames);
  EXPECT_TRUE(Written(scene.Settle(), kNames));
}

TEST(Addresses, EachIpFamilyHasASliceOfItsOwn) {
  Scene scene = Made(2);
  scene.machine(0).address = "fd00::7";
  scene.machine(1).address = "10.64.3.1";
  const Decision decision = scene.Settle();
  EXPECT_EQ(Written(decision, kCoordinator), std::nullopt);
  EXPECT_THAT(*Written(decision, {.coordinator = true, .ipv6 = true}), SizeIs(1));
  EXPECT_EQ(Written(decision, kNames)->front().machine, 1U);
  EXPECT_EQ(Written(decision, {.ipv6 = true})->front().machine, 0U);
  // Its next attempt has the other.
  scene.Make(decision);
  scene.machine(0).address = "10.64.3.0";
  const Decision moved = scene.Settle();
  EXPECT_THAT(*Written(moved, {.coordinator = true, .ipv6 = true}), IsEmpty());
  EXPECT_THAT(*Written(moved, kCoordinator), SizeIs(1));
  EXPECT_THAT(*Written(moved, {.ipv6 = true}), IsEmpty());
}

TEST(Addresses, ASliceHoldsFiveHundredMachines) {
  Scene scene(MakeJob("gpt").Machines(501), LeadBy::kSlices);
  for (int i = 0; i < 2; ++i) scene.Make(scene.Settle());
  const Decision decision = scene.Settle();
  EXPECT_THAT(*Written(decision, kNames), SizeIs(500));
  ASSERT_THAT(*Written(decision, {.number = 1}), SizeIs(1));
  EXPECT_EQ(Written(decision, {.number = 1})->front().machine, 500U);
}

TEST(Addresses, NoSliceHoldsAnAddressThatTheApiServerRefuses) {
  Scene scene = Made(4);
  int index = 0;
  for (const char* address : {"127.64.0.1", "169.254.1.1", "::1", "fe80::1"}) {
    scene.machine(index++).address = address;
  }
  scene.Pass(seconds(2));
  scene.Settle();
  scene.Pass(seconds(2));
  EXPECT_THAT(All<WriteSlice>(scene.Settle()), IsEmpty());
}

TEST(Addresses, ASuspendedJobsLeadNowhere) {
  Scene scene(MakeJob("gpt").Machines(2), LeadBy::kSlices);
  scene.Run();
  scene.spec().suspend = true;
  scene.Report(core::CoordinatorPhase::kHeld);
  scene.snapshot().desired_state_accepted = true;
  std::vector<WriteSlice> writes;
  for (int i = 0; i < 4 && writes.empty(); ++i) {
    const Decision decision = scene.Settle();
    writes = All<WriteSlice>(decision);
    scene.Make(decision);
  }
  ASSERT_THAT(writes, SizeIs(2));
  for (const WriteSlice& write : writes) EXPECT_THAT(write.endpoints, IsEmpty());
  EXPECT_TRUE(scene.status().attempts.empty());
}

TEST(Addresses, ARefusedSliceIsToldAndNotTriedBeforeItsTime) {
  Scene scene = Made(1);
  scene.machine(0).address = "10.64.3.7";
  scene.notes().refusal = Refusal{Refusal::Kind::kForbidden, "endpointslice gpt-0", "no right"};
  scene.notes().make_again = scene.now.boot + seconds(5);
  const Decision decision = scene.Decide();
  EXPECT_FALSE(decision.nothing_missing);
  EXPECT_THAT(All<WriteSlice>(decision), IsEmpty());
  scene.Pass(seconds(5));
  EXPECT_THAT(All<WriteSlice>(scene.Decide()), SizeIs(2));
}

// ---- without names ----

core::TrainingJob Nameless(int machines) {
  core::TrainingJob job = MakeJob("gpt").Machines(machines);
  job.spec.network.hostnames = false;
  return job;
}

TEST(Addresses, WithoutNamesAGangNeedsTheCoordinatorsAlone) {
  Scene scene(Nameless(2), LeadBy::kSlices);
  std::vector<WriteSlice> writes;
  for (int i = 0; i < 4; ++i) {
    const Decision decision = scene.Settle();
    EXPECT_THAT(All<MakeNames>(decision), IsEmpty());
    for (const WriteSlice& write : All<WriteSlice>(decision)) writes.push_back(write);
    scene.Make(decision);
    scene.snapshot().names.reset();  // it makes both Services
  }
  EXPECT_THAT(scene.machines(), SizeIs(2));
  ASSERT_THAT(writes, SizeIs(1));
  EXPECT_EQ(writes[0].key, kCoordinator);
  EXPECT_TRUE(scene.Settle().nothing_missing);
}

TEST(Addresses, NamesThatAreNoLongerWantedGoBeforeTheGangIsMadeAnew) {
  Scene scene(Nameless(2), LeadBy::kSlices);
  scene.notes().key_made = true;
  scene.AddAddresses();
  scene.snapshot().slices[kNames] = {"uid-slice", 1};
  const Decision drop = scene.Settle();
  ASSERT_THAT(All<DropNames>(drop), SizeIs(1));
  EXPECT_EQ(All<DropNames>(drop)[0].uid, "uid-names");
  EXPECT_THAT(All<DropCoordinatorAddress>(drop), IsEmpty());
  EXPECT_FALSE(Written(drop, kNames))
      << "no machine has an address, and a second is waited for one";
  scene.Pass(seconds(1));
  const auto emptied = Written(scene.Settle(), kNames);
  ASSERT_TRUE(emptied);
  EXPECT_THAT(*emptied, IsEmpty());
  scene.Make(drop);
  const Decision make = scene.Settle();
  EXPECT_THAT(All<StartMachine>(make), SizeIs(2))
      << "the coordinator's stays, nothing is waited for";
  EXPECT_THAT(All<DropNames>(make), IsEmpty());
}

TEST(Addresses, NamesThatAreWantedAgainAreMadeWithTheGang) {
  Scene scene(Nameless(2), LeadBy::kSlices);
  scene.notes().key_made = true;
  scene.AddAddresses();
  scene.snapshot().names.reset();
  EXPECT_THAT(All<MakeNames>(scene.Settle()), IsEmpty());
  scene.spec().network.hostnames = true;
  const Decision make = scene.Settle();
  EXPECT_THAT(All<MakeNames>(make), SizeIs(1));
  EXPECT_THAT(All<StartMachine>(make), SizeIs(2));
}

// ---- of operators before slices ----

TEST(Addresses, ThoseThatSelectPodsAreKeptWhileTheirGangIsThereAndFollowMachine0) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.snapshot().names->by = LeadBy::kLabels;
  scene.snapshot().coordinator_address->by = LeadBy::kLabels;
  EXPECT_THAT(scene.Settle().actions, IsEmpty());
  scene.machine(0).end = Killed(9);
  const Decision decision = scene.Settle();
  const std::vector<MoveCoordinatorAddress> moves = All<MoveCoordinatorAddress>(decision);
  ASSERT_THAT(moves, SizeIs(1));
  EXPECT_EQ(moves[0].attempt, 2U);
  EXPECT_EQ(moves[0].uid, "uid-service");
  EXPECT_THAT(All<WriteSlice>(decision), IsEmpty());
  EXPECT_THAT(All<DropCoordinatorAddress>(decision), IsEmpty());
}

TEST(Addresses, ThoseThatSelectPodsGoBeforeAGangIsMadeAnew) {
  Scene scene(MakeJob("gpt").Machines(2), LeadBy::kLabels);
  scene.notes().key_made = true;
  scene.AddAddresses();
  const Decision drop = scene.Settle();
  ASSERT_THAT(All<DropNames>(drop), SizeIs(1));
  EXPECT_EQ(All<DropNames>(drop)[0].uid, "uid-names");
  ASSERT_THAT(All<DropCoordinatorAddress>(drop), SizeIs(1));
  EXPECT_EQ(All<DropCoordinatorAddress>(drop)[0].uid, "uid-service");
  EXPECT_THAT(All<StartMachine>(drop), IsEmpty()) << "they would be told the old address";
  scene.Make(drop);
  // Not before a cluster's controllers have forgotten where these led.
  const Decision wait = scene.Settle();
  EXPECT_THAT(wait.actions, IsEmpty());
  scene.Pass(seconds(3));
  const Decision make = scene.Settle();
  EXPECT_THAT(All<MakeNames>(make), SizeIs(1));
  EXPECT_THAT(All<MakeCoordinatorAddress>(make), SizeIs(1));
}

TEST(Addresses, WhatLeadsByItselfIsLeftAlone) {
  for (const core::TrainingJob& job :
       {core::TrainingJob(MakeJob("gpt").Machines(2)), Nameless(2)}) {
    Scene scene(job);
    scene.notes().key_made = true;
    scene.AddAddresses();
    for (int i = 0; i < 3; ++i) {
      const Decision decision = scene.Settle();
      EXPECT_THAT(All<WriteSlice>(decision), IsEmpty());
      EXPECT_THAT(All<DropNames>(decision), IsEmpty());
      scene.Make(decision);
    }
    EXPECT_THAT(scene.machines(), SizeIs(2));
  }
}

}  // namespace
}  // namespace lockstep::control
