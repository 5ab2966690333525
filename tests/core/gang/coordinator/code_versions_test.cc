#include "core/gang/coordinator/code_versions.h"

#include <csignal>

#include "tests/core/gang/gang_fixture.h"
#include "tests/core/gang/parts.h"

namespace lockstep::core {
namespace {

constexpr Time kStart = seconds(1000);

class CodeVersionsTest : public testing::Test {
 protected:
  explicit CodeVersionsTest(uint32_t machines = 5) : parts_(machines) {
    codes_.OnOperator(std::nullopt);
    for (Roster::Slot& slot : parts_.roster) Hold(slot.machine, {});
  }
  void Hold(uint32_t machine, std::vector<std::string> digests) {
    codes_.OnHeld(parts_.roster[machine],
                  {"machine-" + std::to_string(machine), std::move(digests), {}, {}});
  }
  static CodeOffer Offer(const std::string& digest, const std::string& replaces = "",
                         const std::string& by = "alice") {
    return {.digest = digest, .replaces = replaces, .files = 2, .by = by, .words = "model.py"};
  }
  std::optional<CodeOffer> Step(Time now = kStart) { return codes_.Step(now, {1, 3}); }
  void HoldEverywhere(const std::string& digest) {
    for (Roster::Slot& slot : parts_.roster) Hold(slot.machine, {digest});
  }

  Parts parts_;
  CodeVersions codes_{true, 1, parts_.roster, parts_.outbox};
};

TEST_F(CodeVersionsTest, EachRoundDoublesTheMachinesThatServe) {
  Hold(0, {"a"});
  ASSERT_TRUE(codes_.Offer(Offer("a")).ok());
  EXPECT_FALSE(Step());
  std::vector<std::pair<uint32_t, FetchCode>> asked = parts_.Sent<FetchCode>();
  ASSERT_EQ(asked.size(), 2U) << "at most two fetch from one machine";
  EXPECT_EQ(asked[0].first, 1U);
  EXPECT_EQ(asked[0].second.address, "machine-0");
  EXPECT_EQ(asked[1].first, 2U);
  Hold(1, {"a"});
  EXPECT_FALSE(Step());
  asked = parts_.Sent<FetchCode>();
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_EQ(asked[0].second.address, "machine-1") << "it serves nobody yet";
  EXPECT_FALSE(Step());
  EXPECT_TRUE(parts_.Sent<FetchCode>().empty()) << "nobody is asked twice";
}

TEST_F(CodeVersionsTest, AVersionIsWantedOnceEveryMemberHoldsIt) {
  ASSERT_TRUE(codes_.Offer(Offer("a")).ok());
  for (uint32_t machine = 0; machine < 4; ++machine) Hold(machine, {"a"});
  EXPECT_FALSE(Step());
  EXPECT_EQ(codes_.wanted(), "");
  EXPECT_EQ(codes_.View().missing, "4");
  Hold(4, {"a"});
  const std::optional<CodeOffer> offer = Step();
  ASSERT_TRUE(offer);
  EXPECT_EQ(offer->by, "alice");
  EXPECT_EQ(codes_.wanted(), "a");
  EXPECT_EQ(codes_.View().generation, (Generation{1, 4}));
  EXPECT_EQ(codes_.View().since, kStart);
  EXPECT_FALSE(Step()) << "it is told once";
}

TEST_F(CodeVersionsTest, AGangGrowsByMachinesThatHoldTheCode) {
  EXPECT_TRUE(codes_.HeldBy(Members::All(5))) << "the image's code";
  ASSERT_TRUE(codes_.Offer(Offer("a")).ok());
  HoldEverywhere("a");
  ASSERT_TRUE(Step());
  EXPECT_TRUE(codes_.HeldBy(Members::All(5)));
  Hold(4, {});
  EXPECT_FALSE(codes_.HeldBy(Members::All(5)));
  EXPECT_TRUE(codes_.HeldBy(Members::All(4)));
}

TEST_F(CodeVersionsTest, TheSecondOfTwoUsersIsRefusedAndToldWhoWasFirst) {
  ASSERT_TRUE(codes_.Offer(Offer("a", "", "alice")).ok());
  Status refused = codes_.Offer(Offer("b", "", "bob"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kConflict);
  EXPECT_NE(refused.error().message.find("alice"), std::string::npos);
  HoldEverywhere("a");
  ASSERT_TRUE(Step());
  refused = codes_.Offer(Offer("b", "", "bob"));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("alice has synced"), std::string::npos);
  EXPECT_TRUE(codes_.Offer(Offer("b", "a", "bob")).ok()) << "he has seen hers";
}

TEST_F(CodeVersionsTest, AUsersNextEditReplacesAnOfferThatIsUnderWay) {
  ASSERT_TRUE(codes_.Offer(Offer("a")).ok());
  ASSERT_TRUE(codes_.Offer(Offer("b", "a")).ok());
  HoldEverywhere("a");
  EXPECT_FALSE(Step());
  HoldEverywhere("b");
  ASSERT_TRUE(Step());
  EXPECT_EQ(codes_.wanted(), "b");
}

TEST_F(CodeVersionsTest, AnOfferThatAMachineCannotGetIsDroppedAfterThreeTries) {
  Hold(0, {"a"});
  ASSERT_TRUE(codes_.Offer(Offer("a")).ok());
  Time now = kStart;
  for (int i = 0; i < CodeVersions::kMostTries; ++i) {
    Step(now);
    EXPECT_EQ(codes_.View().dropped, "");
    codes_.OnFailed(now, parts_.roster[1], {"a", "the disk is full"});
    if (codes_.NextWake() != kNever) now = std::max(codes_.NextWake(), now);
  }
  Step(now);
  EXPECT_EQ(codes_.NextWake(), kNever) << "nothing is tried again";
  EXPECT_EQ(codes_.View().dropped, "a");
  EXPECT_EQ(codes_.View().next, "");
  EXPECT_NE(codes_.View().problem.find("machine 1 could not get the code from machine 0: the disk"),
            std::string::npos);
  EXPECT_EQ(codes_.wanted(), "");
}

TEST_F(CodeVersionsTest, APauseAfterAFailedFetchEndsAlsoIfTheImagesCodeIsWanted) {
  Hold(0, {"a"});
  ASSERT_TRUE(codes_.Offer(Offer("a")).ok());
  Step();
  codes_.OnFailed(kStart, parts_.roster[1], {"a", "the disk is full"});
  HoldEverywhere("a");
  ASSERT_TRUE(Step());
  Step(kStart + CodeVersions::kPause);
  EXPECT_EQ(codes_.NextWake(), kNever);
}

TEST_F(CodeVersionsTest, AnOfferIsDroppedIfTheProcessThatBroughtItLeaves) {
  CodeOffer offer = Offer("a");
  offer.receiver = "incoming-7";
  ASSERT_TRUE(codes_.Offer(offer).ok());
  codes_.OnReceiverLeft("incoming-8");
  codes_.OnReceiverLeft("");
  EXPECT_EQ(codes_.View().next, "a");
  codes_.OnReceiverLeft("incoming-7");
  EXPECT_EQ(codes_.View().next, "");
  EXPECT_EQ(codes_.View().dropped, "a");
  EXPECT_TRUE(codes_.Offer(Offer("b", "", "bob")).ok());
}

TEST(CodeVersions, OfAJobWithoutSyncNothingIsTakenOrWaitedFor) {
  Parts parts(2);
  CodeVersions codes(false, 1, parts.roster, parts.outbox);
  EXPECT_TRUE(codes.Known());
  EXPECT_FALSE(codes.Lost());
  EXPECT_TRUE(codes.Everywhere());
  EXPECT_EQ(codes.Offer({.digest = "a"}).error().kind, ErrorKind::kInvalid);
}

class NewMachine0 : public CodeVersionsTest {
 protected:
  NewMachine0() : CodeVersionsTest(3) {}
  void Report(uint32_t machine, std::vector<std::string> digests, Generation generation,
              const std::string& ran) {
    fresh_.OnHeld(parts_.roster[machine], {"m", std::move(digests), generation, ran});
  }
  CodeVersions fresh_{true, 5, parts_.roster, parts_.outbox};
};

TEST_F(NewMachine0, TakesTheCodeOfTheLatestGenerationFromOperatorAndMembers) {
  for (Roster::Slot& slot : parts_.roster) slot.code.reset();
  Report(0, {}, {}, "");
  Report(1, {"b", "a"}, {4, 7}, "b");
  EXPECT_FALSE(fresh_.Known()) << "machine 2 may know better";
  Report(2, {"a"}, {4, 2}, "a");
  EXPECT_FALSE(fresh_.Known()) << "so may the operator";
  fresh_.OnOperator(DesiredState::Code{.digest = "a", .generation = {4, 1}});
  EXPECT_TRUE(fresh_.Known());
  EXPECT_EQ(fresh_.wanted(), "b");
  EXPECT_FALSE(fresh_.Everywhere());
  EXPECT_FALSE(fresh_.Lost());
}

TEST_F(NewMachine0, AUserWhoWentBackToAnEarlierVersionIsNotOverruledByWhoRanTheLaterOne) {
  for (Roster::Slot& slot : parts_.roster) slot.code.reset();
  Report(0, {"a"}, {4, 3}, "a");
  fresh_.OnOperator(DesiredState::Code{.digest = "a", .generation = {4, 7}});
  Report(1, {"a"}, {4, 8}, "a");
  Report(2, {"b", "a"}, {4, 5}, "b");
  EXPECT_EQ(fresh_.wanted(), "a");
}

TEST_F(NewMachine0, ItNamesNoGenerationBeforeAllHaveSpoken) {
  for (Roster::Slot& slot : parts_.roster) slot.code.reset();
  Report(1, {"a"}, {4, 5}, "a");
  EXPECT_FALSE(fresh_.View().generation.exists());
  Report(0, {}, {}, "");
  Report(2, {}, {}, "");
  fresh_.OnOperator(std::nullopt);
  EXPECT_EQ(fresh_.View().generation, (Generation{4, 5}));
}

TEST_F(NewMachine0, TheOperatorsRecordIsNewerThanAGenerationBeforeIt) {
  Report(1, {"a"}, {4, 2}, "a");
  fresh_.OnOperator(DesiredState::Code{.digest = "b", .generation = {4, 3}});
  EXPECT_EQ(fresh_.wanted(), "b");
}

TEST_F(NewMachine0, CodeThatNoMachineHoldsIsLostUntilAUserBringsItAgain) {
  for (uint32_t machine = 0; machine < 3; ++machine) Report(machine, {}, {}, "");
  fresh_.OnOperator(DesiredState::Code{.digest = "a", .generation = {4, 1}});
  EXPECT_TRUE(fresh_.Lost());
  EXPECT_NE(fresh_.Reason().find("run kubectl lockstep sync"), std::string::npos);
  for (uint32_t machine = 0; machine < 3; ++machine) Report(machine, {"a"}, {}, "");
  EXPECT_FALSE(fresh_.Lost());
  EXPECT_TRUE(fresh_.Everywhere());
}

TEST_F(NewMachine0, WhatOthersRanDoesNotCountOnceItHasChosen) {
  fresh_.OnOperator(DesiredState::Code{.digest = "a", .generation = {4, 1}});
  fresh_.OnAnnounced();
  Report(1, {"b"}, {4, 2}, "b");
  EXPECT_EQ(fresh_.wanted(), "a");
}

// A whole gang.
class SyncedGang : public GangFixture {
 protected:
  SyncedGang() {
    sync_ = true;
    desired_.job_uid = "job";
    desired_.epoch = 1;
  }
  void Sync(const std::string& digest, bool watched = false, const std::string& receiver = "") {
    HoldCode(0, digest);
    Settle();
    Result<CoordinatorActions> actions =
        coordinator_->OnCodeOffered(now_, {.digest = digest,
                                           .replaces = coordinator_->code()->digest,
                                           .files = 1,
                                           .by = "alice",
                                           .words = "model.py changed",
                                           .watched = watched,
                                           .receiver = receiver});
    ASSERT_TRUE(actions.ok()) << actions.error().message;
    Do(std::move(*actions));
    Settle();
  }
  bool Runs() const { return coordinator_->phase() == CoordinatorPhase::kRunning; }
  const Start& Last(uint32_t machine) const { return machines_[machine].spawns.back().start; }

  DesiredState desired_;
};

TEST_F(SyncedGang, NoGenerationBeginsBeforeTheOperatorHasSpoken) {
  Begin(2);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kGathering);
  EXPECT_EQ(coordinator_->Reason(), "waiting for the operator to name the code");
  Desire(desired_);
  EXPECT_TRUE(Runs());
  EXPECT_EQ(Last(1).code, "");
}

TEST_F(SyncedGang, RunsOnUntilEveryMachineHoldsTheCodeThenRestartsUncharged) {
  Begin(3);
  Desire(desired_);
  machines_[2].hold_code = true;
  Sync("a");
  EXPECT_TRUE(Runs());
  EXPECT_EQ(coordinator_->generation().n, 1U);
  HoldCode(2, "a");
  Settle();
  EXPECT_TRUE(Runs());
  EXPECT_EQ(coordinator_->generation().n, 2U);
  for (uint32_t machine = 0; machine < 3; ++machine) EXPECT_EQ(Last(machine).code, "a");
  EXPECT_EQ(coordinator_->history().front().failure.message,
            "restarted on request of alice: model.py changed");
  EXPECT_EQ(coordinator_->history().back().code, "a");
  EXPECT_EQ(coordinator_->counters().stops, 1U);
  EXPECT_EQ(coordinator_->counters().application_used(), 0);
}

TEST_F(SyncedGang, AMachineThatIsLostDuringAFetchDelaysTheCodeAndItsSuccessorFetchesIt) {
  Begin(2);
  Desire(desired_);
  machines_[1].hold_code = true;
  Sync("a");
  Join(1, 2);
  Settle();
  desired_.fenced = {{1, 2}};
  Desire(desired_);
  Advance(seconds(1));
  EXPECT_TRUE(Runs());
  EXPECT_EQ(Last(0).code, "a");
  EXPECT_EQ(Last(1).code, "a");
}

TEST_F(SyncedGang, AFailureWhileTheCodeSpreadsIsFollowedByTheOldCode) {
  Begin(2);
  Desire(desired_);
  Sync("a");
  machines_[1].hold_code = true;
  Sync("b");
  Kill(1, 2, SIGKILL);
  Advance(seconds(1));
  ASSERT_TRUE(Runs());
  EXPECT_EQ(Last(1).code, "a");
  HoldCode(1, "b");
  Settle();
  EXPECT_TRUE(Runs());
  EXPECT_EQ(Last(1).code, "b");
}

TEST_F(SyncedGang, AWatchedEditThatFailsHoldsTheGangAlsoWhenItsUserHasLeft) {
  Begin(2);
  Desire(desired_);
  Sync("a", /*watched=*/true, "incoming-7");
  Exit(0, 0, 1);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kHeld);
  EXPECT_TRUE(coordinator_->code()->broken);
  EXPECT_EQ(coordinator_->counters().application_used(), 0);
  Do(coordinator_->OnEditorLeft(now_, "incoming-7"));
  Desire(desired_);
  Advance(seconds(30));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kHeld);
  Sync("b");
  EXPECT_TRUE(Runs());
  EXPECT_EQ(Last(1).code, "b");
}

TEST_F(SyncedGang, AUserWhoLeavesEndsTheWatchOfTheirOwnEditAlone) {
  Begin(2);
  Desire(desired_);
  Sync("a", /*watched=*/true, "incoming-7");
  Sync("b", /*watched=*/true, "incoming-8");
  Do(coordinator_->OnEditorLeft(now_, "incoming-7"));
  Exit(0, 0, 1);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kHeld) << "the other one mends it";
  Sync("c", /*watched=*/true, "incoming-8");
  Do(coordinator_->OnEditorLeft(now_, "incoming-8"));
  Exit(0, 0, 1);
  EXPECT_NE(coordinator_->phase(), CoordinatorPhase::kHeld);
}

TEST_F(SyncedGang, ANewMachine0HoldsTheGangWhoseCodeIsLostAndSaysHowToBringIt) {
  Begin(2, 2, 3);
  desired_.code = DesiredState::Code{.digest = "a", .generation = {2, 1}};
  Desire(desired_);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kHeld);
  EXPECT_NE(coordinator_->Reason().find("run kubectl lockstep sync"), std::string::npos);
  EXPECT_TRUE(machines_[1].spawns.empty());
  Sync("a");
  EXPECT_TRUE(Runs());
  EXPECT_EQ(Last(1).code, "a");
}

TEST_F(SyncedGang, AMemberWithoutTheCodeStartsNoRank) {
  Begin(1);
  Member& member = *machines_[0].member;
  Start start;
  start.generation = {1, 9};
  start.code = "unknown";
  start.lease = {true, now_, {}, seconds(15)};
  Do(0, member.OnMessage(now_, start));
  EXPECT_TRUE(machines_[0].spawns.empty());
  EXPECT_EQ(member.phase(), MemberPhase::kStopped);
}

}  // namespace
}  // namespace lockstep::core
