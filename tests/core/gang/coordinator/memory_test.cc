#include <algorithm>
#include <csignal>

#include "core/gang/coordinator/coordinator.h"
#include "tests/core/gang/gang_fixture.h"

namespace lockstep::core {
namespace {

class MemoryTest : public GangFixture {
 protected:
  MemoryTest() { memory_ = true; }

  void Ask(uint32_t machine, const std::string& name, const std::string& problem = "") {
    Do(machine, machines_[machine].member->OnMemoryCommit(now_, ++last_id_, name, problem));
    Settle();
  }

  // Every machine commits its part, and holds it if it may.
  void CommitAll(const std::string& name) {
    for (uint32_t m = 0; m < machines_.size(); ++m) Ask(m, name);
    for (uint32_t m = 0; m < machines_.size(); ++m) {
      const AnswerCommit& answer = machines_[m].commits.back();
      ASSERT_TRUE(answer.granted) << answer.reason;
      const CheckpointId id{coordinator_->generation(), answer.number};
      Do(m, machines_[m].member->OnPartHeld(now_, {id, m, name}));
    }
    Settle();
  }

  // The machine is lost with all it holds, and another agent stands in for it.
  void Replace(uint32_t machine, bool hold_fetch = false) {
    Cut(machine);
    Settle();
    Join(machine, 2);
    machines_[machine].hold_fetch = hold_fetch;
    Settle();
  }

  void Terminate(uint32_t machine, Duration grace = seconds(30)) {
    Do(machine, machines_[machine].member->OnTerminate(now_, grace));
    Settle();
  }

  CheckpointId BeganFrom(uint32_t machine) const {
    return machines_[machine].spawns.back().start.memory;
  }

 private:
  uint64_t last_id_ = 0;
};

TEST_F(MemoryTest, ACommitIsGrantedOnceEveryMachineHasItsPart) {
  Begin(2);
  Ask(0, "step-1");
  EXPECT_TRUE(machines_[0].commits.empty());
  Ask(1, "step-1");
  ASSERT_EQ(machines_[0].commits.size(), 1U);
  ASSERT_EQ(machines_[1].commits.size(), 1U);
  EXPECT_TRUE(machines_[0].commits[0].granted);
  EXPECT_EQ(machines_[0].commits[0].number, 1U);
  EXPECT_EQ(machines_[1].commits[0].number, 1U);
}

TEST_F(MemoryTest, WhatOneMachineCannotKeepIsKeptByNone) {
  Begin(2);
  Ask(0, "step-1", "memory is full");
  EXPECT_TRUE(machines_[0].commits.empty());
  Ask(1, "step-1");
  for (const Machine& m : machines_) {
    ASSERT_EQ(m.commits.size(), 1U);
    EXPECT_FALSE(m.commits[0].granted);
    EXPECT_EQ(m.commits[0].reason, "machine 0: memory is full");
  }
}

TEST_F(MemoryTest, ACommitThatAMachineLeftUndoneIsToldSoAndIsInTheWayOfNoLaterOne) {
  Begin(2);
  Ask(1, "step-1");
  Ask(0, "step-2");
  ASSERT_EQ(machines_[1].commits.size(), 1U);
  EXPECT_FALSE(machines_[1].commits[0].granted);
  EXPECT_NE(machines_[1].commits[0].reason.find("under one name"), std::string::npos);
  EXPECT_TRUE(machines_[0].commits.empty());
  Ask(1, "step-2");
  EXPECT_TRUE(machines_[0].commits.back().granted);
  EXPECT_TRUE(machines_[1].commits.back().granted);
}

TEST_F(MemoryTest, ACopyThatFailedIsAskedForAgainInTheNextGeneration) {
  Begin(2);
  machines_[1].hold_fetch = true;
  CommitAll("step-1");
  const MemoryPart part = machines_[1].fetches.back().part;
  Do(1, machines_[1].member->OnFetchFailed(now_, part, "memory is full"));
  Settle();
  const size_t before = machines_[1].fetches.size();
  Kill(1, 2, SIGKILL);
  ASSERT_GT(machines_[1].fetches.size(), before);
  EXPECT_EQ(machines_[1].fetches.back().part, part);
}

TEST_F(MemoryTest, ACommitThatWaitsWhenTheGenerationEndsIsRefused) {
  Begin(2);
  Ask(0, "step-1");
  Kill(1, 2, SIGKILL);
  ASSERT_EQ(machines_[0].commits.size(), 1U);
  EXPECT_FALSE(machines_[0].commits[0].granted);
  Ask(1, "step-1");
  EXPECT_TRUE(machines_[1].commits.empty());
}

TEST_F(MemoryTest, TheNextMachineGetsACopyAndOlderPartsAreDroppedOnlyThen) {
  Begin(3);
  CommitAll("step-1");
  for (uint32_t m = 0; m < 3; ++m) {
    ASSERT_EQ(machines_[m].fetches.size(), 1U);
    EXPECT_EQ(machines_[m].fetches[0].part.machine, (m + 2) % 3);
    EXPECT_EQ(machines_[m].fetches[0].address, "machine-" + std::to_string((m + 2) % 3));
  }
  machines_[1].hold_fetch = true;
  CommitAll("step-2");
  EXPECT_TRUE(machines_[0].dropped.empty());
  Do(1, machines_[1].member->OnPartHeld(now_, machines_[1].fetches.back().part));
  Settle();
  for (const Machine& m : machines_) {
    EXPECT_EQ(m.member->parts().size(), 2U);
    EXPECT_EQ(m.dropped.size(), 2U);
  }
}

TEST_F(MemoryTest, TheGangBeginsFromTheNewestInMemory) {
  prepare_resume_ = "/ckpt/checkpoints/1-1/000001.step-1";
  Begin(2);
  CommitAll("step-1");
  CommitAll("step-2");
  Kill(1, 2, SIGKILL);
  EXPECT_EQ(BeganFrom(0), (CheckpointId{{1, 1}, 2}));
  EXPECT_EQ(BeganFrom(1), (CheckpointId{{1, 1}, 2}));
}

TEST_F(MemoryTest, TheFolderIsResumedFromWhereItIsAhead) {
  Begin(2);
  CommitAll("step-1");
  prepare_resume_ = "/ckpt/checkpoints/1-1/000002.step-9";
  Kill(1, 2, SIGKILL);
  EXPECT_FALSE(BeganFrom(0).exists());
  EXPECT_TRUE(machines_[0].member->parts().empty());
}

TEST_F(MemoryTest, AReplacedMachineHasItsPartBeforeAnyRankStarts) {
  Begin(2);
  CommitAll("step-1");
  Replace(1, /*hold_fetch=*/true);
  EXPECT_TRUE(machines_[1].spawns.empty());
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kPreparing);
  ASSERT_EQ(machines_[1].fetches.size(), 1U);
  EXPECT_EQ(machines_[1].fetches[0].address, "machine-0");
  machines_[1].hold_fetch = false;
  Do(1, machines_[1].member->OnPartHeld(now_, machines_[1].fetches[0].part));
  Settle();
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_EQ(BeganFrom(1), (CheckpointId{{1, 1}, 1}));
  EXPECT_EQ(machines_[1].member->parts().size(), 2U) << "a copy of machine 0's part is back, too";
}

TEST_F(MemoryTest, ATornCopyMakesTheFolderCountAndItIsSaid) {
  Begin(2);
  CommitAll("step-7");
  prepare_resume_ = "/ckpt/checkpoints/1-0/000001.step-1";
  Replace(1, /*hold_fetch=*/true);
  for (size_t tries = 1; tries <= 3; ++tries) {
    EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kPreparing);
    ASSERT_EQ(machines_[1].fetches.size(), tries);
    Do(1, machines_[1].member->OnFetchFailed(now_, machines_[1].fetches.back().part, "it is torn"));
    Settle();
  }
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_FALSE(BeganFrom(1).exists());
  EXPECT_NE(log_.find("could not get machine 1's part of step-7: it is torn"), std::string::npos);
  EXPECT_NE(log_.find("resuming from /ckpt/checkpoints/1-0/000001.step-1"), std::string::npos);
}

TEST_F(MemoryTest, WithoutAnyCopyOfAPartTheFolderCountsAndItIsSaid) {
  Begin(3);
  machines_[2].hold_fetch = true;
  CommitAll("step-7");
  Replace(1);
  EXPECT_FALSE(BeganFrom(0).exists());
  EXPECT_NE(log_.find("checkpoint step-7 in memory is lost with machine 1"), std::string::npos);
  EXPECT_NE(log_.find("resuming from the beginning"), std::string::npos);
}

TEST_F(MemoryTest, ABuddyThatIsLostWhileItGetsACopyCostsNothing) {
  Begin(2);
  machines_[1].hold_fetch = true;
  CommitAll("step-1");
  Replace(1);
  EXPECT_EQ(BeganFrom(0), (CheckpointId{{1, 1}, 1}));
  EXPECT_EQ(machines_[1].member->parts().size(), 2U);
}

TEST(NewestInMemory, IsNoneOfAnotherNumberOfMachines) {
  const CheckpointId id{{1, 1}, 1};
  const MemoryPart first{id, 0, "step-1"};
  const MemoryPart second{id, 1, "step-1"};
  EXPECT_EQ(NewestInMemory({{first}, {second}}, {}, {}), id);
  EXPECT_FALSE(NewestInMemory({{first}, {second}, {}}, {}, {}).exists()) << "of 2, and now 3";
  const MemoryPart third{id, 2, "step-1"};
  EXPECT_FALSE(NewestInMemory({{first}, {third}}, {}, {}).exists()) << "of 3, and now 2";
}

TEST_F(MemoryTest, APartThatComesAfterALaterStartIsDropped) {
  Begin(2);
  Ask(0, "step-1");
  Ask(1, "step-1");
  const MemoryPart late{{{1, 1}, 1}, 0, "step-1"};
  Kill(1, 2, SIGKILL);
  Do(0, machines_[0].member->OnPartHeld(now_, late));
  Settle();
  EXPECT_TRUE(machines_[0].member->parts().empty());
  EXPECT_EQ(machines_[0].dropped, std::vector<MemoryPart>{late});
}

TEST_F(MemoryTest, SuccessWritesTheNewestToTheFolderBeforeTheVerdict) {
  checkpoint_path_ = "/ckpt";
  Begin(2);
  CommitAll("step-1");
  CommitAll("step-2");
  FinishAll();
  ASSERT_TRUE(coordinator_->verdict().has_value());
  ASSERT_EQ(persisted_.size(), 1U);
  EXPECT_EQ(persisted_[0].to, (CheckpointId{{1, 1}, 2}));
  EXPECT_EQ(persisted_[0].name, "step-2");
}

TEST_F(MemoryTest, SuccessWaitsForAPartThatIsGrantedAndNotYetHeld) {
  checkpoint_path_ = "/ckpt";
  Begin(2);
  CommitAll("step-1");
  Ask(0, "step-2");
  Ask(1, "step-2");
  FinishAll();
  EXPECT_FALSE(coordinator_->verdict().has_value());
  for (uint32_t m = 0; m < 2; ++m) {
    Do(m, machines_[m].member->OnPartHeld(now_, {{{1, 1}, 2}, m, "step-2"}));
  }
  Settle();
  ASSERT_TRUE(coordinator_->verdict().has_value());
  ASSERT_EQ(persisted_.size(), 1U);
  EXPECT_EQ(persisted_[0].name, "step-2");
}

TEST_F(MemoryTest, APartThatIsNeverHeldEndsTheWaiting) {
  checkpoint_path_ = "/ckpt";
  Begin(2);
  Ask(0, "step-1");
  Ask(1, "step-1");
  FinishAll();
  EXPECT_FALSE(coordinator_->verdict().has_value());
  Advance(minutes(1), seconds(1));
  EXPECT_TRUE(coordinator_->verdict().has_value());
}

TEST_F(MemoryTest, AWriteThatFailsIsTriedAgainAtTheEnd) {
  checkpoint_path_ = "/ckpt";
  persist_every_ = minutes(1);
  persist_error_ = "disk full";
  Begin(2);
  CommitAll("step-1");
  Advance(minutes(1) + seconds(1), seconds(1));
  EXPECT_EQ(persisted_.size(), 1U);
  persist_error_.clear();
  FinishAll();
  EXPECT_EQ(persisted_.size(), 2U);
  EXPECT_TRUE(coordinator_->verdict().has_value());
}

TEST_F(MemoryTest, AWriteThatAlwaysFailsIsGivenUpSoThatTheJobEnds) {
  checkpoint_path_ = "/ckpt";
  persist_error_ = "disk full";
  Begin(2);
  CommitAll("step-1");
  FinishAll();
  EXPECT_EQ(persisted_.size(), 3U);
  EXPECT_TRUE(coordinator_->verdict().has_value());
}

TEST_F(MemoryTest, ASuspendWritesTheNewestToTheFolderBeforeItHolds) {
  checkpoint_path_ = "/ckpt";
  Begin(2);
  CommitAll("step-1");
  Kill(1, 2, SIGKILL);
  DesiredState desired;
  desired.job_uid = "job";
  desired.stop = DesiredState::DesiredStop{StopReason::kSuspended, seconds(0)};
  Desire(desired);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kHeld);
  ASSERT_EQ(persisted_.size(), 1U);
  EXPECT_EQ(persisted_[0].to, (CheckpointId{{1, 2}, 0})) << "before every commit of 1-2";
}

TEST_F(MemoryTest, TheNewestGoesToTheFolderFromTimeToTimeAndOnce) {
  checkpoint_path_ = "/ckpt";
  persist_every_ = minutes(1);
  Begin(2);
  CommitAll("step-1");
  Advance(minutes(3), seconds(1));
  EXPECT_EQ(persisted_.size(), 1U);
  CommitAll("step-2");
  Advance(minutes(1), seconds(1));
  EXPECT_EQ(persisted_.size(), 2U);
}

TEST_F(MemoryTest, AnAgentThatGetsSigtermStaysUntilTheNewestIsWritten) {
  checkpoint_path_ = "/ckpt";
  Begin(2);
  CommitAll("step-1");
  machines_[1].hold_persist = true;
  Terminate(1);
  EXPECT_FALSE(machines_[1].exit.has_value());
  EXPECT_EQ(coordinator_->Reason(), "writing checkpoint step-1 from memory to /ckpt");
  AnswerPersist(1);
  Settle();
  ASSERT_EQ(persisted_.size(), 1U);
  EXPECT_EQ(persisted_[0].to, (CheckpointId{{1, 1}, 1}));
  ASSERT_TRUE(machines_[1].exit.has_value());
  EXPECT_EQ(machines_[1].exit->code, 143);
  EXPECT_FALSE(machines_[0].exit.has_value());
  EXPECT_EQ(coordinator_->unwritten(), "");
}

TEST_F(MemoryTest, WhenAllAgentsGetSigtermTheNewestIsWrittenAndAllLeave) {
  checkpoint_path_ = "/ckpt";
  Begin(2);
  CommitAll("step-1");
  CommitAll("step-2");
  Terminate(1);
  Terminate(0);
  ASSERT_FALSE(persisted_.empty());
  EXPECT_EQ(persisted_.back().name, "step-2");
  for (const Machine& m : machines_) EXPECT_TRUE(m.exit.has_value());
}

TEST_F(MemoryTest, AnAgentWhoseTimeIsUpLeavesAndWhoeverHasACopyWritesItsPart) {
  checkpoint_path_ = "/ckpt";
  Begin(2);
  CommitAll("step-1");
  machines_[1].hold_persist = true;
  Terminate(1, seconds(5));
  Advance(seconds(14));
  EXPECT_FALSE(machines_[1].exit.has_value());
  EXPECT_TRUE(persisted_.empty());
  Advance(seconds(2));
  ASSERT_TRUE(machines_[1].exit.has_value());
  Cut(1);
  Settle();
  Advance(milliseconds(50));
  EXPECT_EQ(machines_[0].persists.back().machines, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(persisted_.size(), 1U) << log_;
  EXPECT_EQ(coordinator_->unwritten(), "");
}

TEST_F(MemoryTest, WhatAnAgentTookWithItIsSaid) {
  checkpoint_path_ = "/ckpt";
  Begin(2);
  machines_[0].hold_fetch = true;  // no copy of machine 1's part
  CommitAll("step-1");
  machines_[1].hold_persist = true;
  Terminate(1, seconds(5));
  Advance(seconds(16));
  ASSERT_TRUE(machines_[1].exit.has_value());
  Cut(1);
  Advance(milliseconds(50));
  EXPECT_TRUE(persisted_.empty());
  EXPECT_EQ(coordinator_->unwritten(),
            "checkpoint step-1 in memory was not written to /ckpt: a machine's part of it is gone");
}

TEST_F(MemoryTest, WithoutAFolderOrACheckpointAnAgentThatGetsSigtermLeavesAtOnce) {
  Begin(2);
  CommitAll("step-1");
  Terminate(1);
  EXPECT_TRUE(machines_[1].exit.has_value());
  checkpoint_path_ = "/ckpt";
  Begin(2);
  Terminate(1);
  EXPECT_TRUE(machines_[1].exit.has_value());
}

TEST_F(MemoryTest, AnAgentThatHearsNothingOfMachine0Leaves) {
  checkpoint_path_ = "/ckpt";
  Begin(2);
  CommitAll("step-1");
  machines_[1].hold_persist = true;
  Terminate(1);
  EXPECT_FALSE(machines_[1].exit.has_value());
  Cut(1);
  EXPECT_TRUE(machines_[1].exit.has_value());
}

TEST_F(MemoryTest, AJobThatFailsForGoodWritesTheNewestFirst) {
  checkpoint_path_ = "/ckpt";
  policy_.max_restarts = 0;
  Begin(2);
  CommitAll("step-1");
  machines_[1].hold_persist = true;
  Kill(1, 2, SIGKILL);
  EXPECT_FALSE(coordinator_->verdict().has_value());
  EXPECT_TRUE(persisted_.empty());
  AnswerPersist(1);
  Settle();
  EXPECT_EQ(persisted_.size(), 1U);
  ASSERT_TRUE(coordinator_->verdict().has_value());
  EXPECT_EQ(coordinator_->verdict()->failure.signal, SIGKILL);
}

TEST_F(MemoryTest, AJobThatFailsSaysWhatIsNotWritten) {
  checkpoint_path_ = "/ckpt";
  persist_error_ = "disk full";
  policy_.max_restarts = 0;
  Begin(2);
  CommitAll("step-1");
  Kill(1, 2, SIGKILL);
  ASSERT_TRUE(coordinator_->verdict().has_value());
  EXPECT_NE(coordinator_->verdict()->reason.find(
                "; checkpoint step-1 in memory was not written to /ckpt: disk full"),
            std::string::npos)
      << coordinator_->verdict()->reason;
}

TEST_F(MemoryTest, AgentsThatLeaveAGangThatWaitsForALostMachineWriteItsPartFromTheCopy) {
  checkpoint_path_ = "/ckpt";
  Begin(3);
  CommitAll("step-1");
  Cut(2);
  Advance(minutes(1));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kGathering);
  Terminate(0);
  Terminate(1);
  ASSERT_EQ(persisted_.size(), 1U);
  EXPECT_EQ(machines_[0].persists.back().machines, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(machines_[1].persists.back().machines, (std::vector<uint32_t>{1}));
  EXPECT_TRUE(machines_[0].exit.has_value());
  EXPECT_TRUE(machines_[1].exit.has_value());
}

TEST_F(MemoryTest, ASuspendOfAGangThatWaitsForAMachineWritesTheNewestBeforeItHolds) {
  checkpoint_path_ = "/ckpt";
  Begin(2);
  CommitAll("step-1");
  Cut(1);
  Advance(minutes(1));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kGathering);
  machines_[0].hold_persist = true;
  DesiredState desired;
  desired.job_uid = "job";
  desired.stop = DesiredState::DesiredStop{StopReason::kSuspended, seconds(0)};
  Desire(desired);
  EXPECT_NE(coordinator_->phase(), CoordinatorPhase::kHeld);
  AnswerPersist(0);
  Settle();
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kHeld);
  EXPECT_EQ(persisted_.size(), 1U);
}

TEST_F(MemoryTest, TheEndOfAnEarlierGenerationsWriteIsNotTakenForThisOnes) {
  checkpoint_path_ = "/ckpt";
  persist_every_ = minutes(1);
  Begin(2);
  CommitAll("step-1");
  machines_[1].hold_persist = true;
  Advance(minutes(1) + seconds(1), seconds(1));
  ASSERT_EQ(machines_[1].persists.size(), 1U);
  const Persist late = machines_[1].persists[0];
  Kill(1, 2, SIGKILL);
  FinishAll();
  ASSERT_EQ(machines_[1].persists.size(), 2U);
  Do(1, machines_[1].member->OnPersisted(now_, Persisted{late.id, "", late.to, late.machines}));
  Settle();
  EXPECT_TRUE(persisted_.empty());
  AnswerPersist(1);
  Settle();
  ASSERT_EQ(persisted_.size(), 1U);
  EXPECT_EQ(persisted_[0].to, (CheckpointId{{1, 2}, 0}));
}

TEST_F(MemoryTest, WhatIsInMemoryAsWellAsInTheFolderIsBegunFromMemory) {
  checkpoint_path_ = "/ckpt";
  Begin(2);
  CommitAll("step-1");
  Kill(1, 2, SIGKILL);
  machines_[1].hold_spawn = true;
  DesiredState desired;
  desired.job_uid = "job";
  desired.stop = DesiredState::DesiredStop{StopReason::kSuspended, seconds(0)};
  Desire(desired);
  ASSERT_EQ(persisted_.size(), 1U);
  EXPECT_EQ(persisted_[0].to, (CheckpointId{{1, 2}, 0}));
  prepare_resume_ = "/ckpt/checkpoints/1-2/000000.step-1";
  desired.stop.reset();
  Desire(desired);
  EXPECT_EQ(machines_[0].spawns.size(), 3U);
  EXPECT_EQ(BeganFrom(0), (CheckpointId{{1, 1}, 1}));
}

// It would become number 0 of this generation, and what is further in the folder be passed over.
TEST_F(MemoryTest, WhatTheFolderIsAheadOfIsNotWrittenThere) {
  checkpoint_path_ = "/ckpt";
  Begin(2);
  CommitAll("step-10");
  prepare_resume_ = "/ckpt/checkpoints/1-1/000002.step-15";
  machines_[0].hold_spawn = machines_[1].hold_spawn = true;
  prepare_hangs_ = true;
  Kill(1, 2, SIGKILL);
  Terminate(1);  // the generation whose file says so never begins
  Prepared prepared{coordinator_->generation(), "127.0.0.1", 29500, prepare_resume_, ""};
  prepared.commit = {{1, 1}, 2};
  Do(coordinator_->OnPrepared(now_, prepared));
  Advance(milliseconds(50));
  EXPECT_TRUE(persisted_.empty());
  EXPECT_TRUE(machines_[1].exit.has_value()) << "nothing is to be written";
  EXPECT_EQ(coordinator_->unwritten(), "");
}

TEST_F(MemoryTest, WhatAnotherJobCommittedIsNotTakenForOneOfThisLine) {
  prepare_resume_ = "/other/checkpoints/9-9/000100.step-7";
  Begin(2);
  CommitAll("step-8");
  Kill(1, 2, SIGKILL);
  EXPECT_EQ(BeganFrom(0), (CheckpointId{{1, 1}, 1}));
}

TEST_F(MemoryTest, AnAgentThatIsLeavingIsNotWaitedForAndWhoeverHasACopyWrites) {
  checkpoint_path_ = "/ckpt";
  Begin(2);
  CommitAll("step-1");
  machines_[1].hold_persist = true;
  Terminate(1, seconds(5));
  Advance(seconds(16));  // it has said its last word; its connection stands
  ASSERT_TRUE(machines_[1].exit.has_value());
  Do(coordinator_->OnMessage(now_, machines_[1].connection,
                             Pong{now_, now_, {1, 1}, MemberPhase::kExiting}));
  Settle();
  EXPECT_EQ(machines_[0].persists.back().machines, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(persisted_.size(), 1U) << log_;
}

TEST_F(MemoryTest, WhatTheObjectStoreIsAheadOfIsFetchedBeforeAnyRankStarts) {
  checkpoint_path_ = "/ckpt";
  object_store_ = true;
  Begin(2);
  CommitAll("step-10");
  prepare_resume_ = "/ckpt/checkpoints/1-1/000002.step-15";
  machines_[1].hold_fetch = true;
  Kill(1, 2, SIGKILL);
  EXPECT_EQ(machines_[0].spawns.size(), 1U) << "machine 1 has no part yet";
  const Fetch fetch = machines_[1].fetches.back();
  EXPECT_EQ(fetch.part, (MemoryPart{{{1, 1}, 2}, 1, "step-15"}));
  EXPECT_EQ(fetch.address, "");
  Do(1, machines_[1].member->OnPartHeld(now_, fetch.part));
  Settle();
  ASSERT_EQ(machines_[0].spawns.size(), 2U);
  EXPECT_EQ(BeganFrom(0), (CheckpointId{{1, 1}, 2}));
  EXPECT_EQ(BeganFrom(1), (CheckpointId{{1, 1}, 2}));
}

TEST_F(MemoryTest, WhatTheObjectStoreHasBeyondTheCheckpointOfTheLastStartIsKept) {
  checkpoint_path_ = "/ckpt";
  object_store_ = true;
  Begin(2);
  CommitAll("step-10");
  Kill(1, 2, SIGKILL);
  EXPECT_EQ(BeganFrom(0), (CheckpointId{{1, 1}, 1}));
  prepare_resume_ = "/ckpt/checkpoints/1-1/000002.step-15";
  Kill(1, 2, SIGKILL);
  Advance(seconds(10));
  ASSERT_EQ(machines_[0].spawns.size(), 3U) << log_;
  EXPECT_EQ(BeganFrom(0), (CheckpointId{{1, 1}, 2}));
  EXPECT_EQ(BeganFrom(1), (CheckpointId{{1, 1}, 2}));
}

TEST_F(MemoryTest, AnObjectStoreThatFailsDelaysTheNextGenerationAndIsNamed) {
  checkpoint_path_ = "/ckpt";
  object_store_ = true;
  Begin(2);
  prepare_resume_ = "/ckpt/checkpoints/1-1/000002.step-15";
  machines_[1].hold_fetch = true;
  Kill(1, 2, SIGKILL);
  for (int i = 0; i < 3; ++i) {
    Do(1, machines_[1].member->OnFetchFailed(now_, machines_[1].fetches.back().part, "it is down"));
    Settle();
  }
  EXPECT_EQ(machines_[0].spawns.size(), 1U);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kBackoff);
  EXPECT_NE(coordinator_->Reason().find("it is down"), std::string::npos) << coordinator_->Reason();
  machines_[1].hold_fetch = false;
  Advance(minutes(1));
  ASSERT_EQ(machines_[0].spawns.size(), 2U);
  EXPECT_EQ(BeganFrom(1), (CheckpointId{{1, 1}, 2}));
}

TEST(CheckpointIdOf, ReadsWhatThePathOfACommitNames) {
  EXPECT_EQ(CheckpointNameOf("/ckpt/checkpoints/2-4/000009.step-1.5"), "step-1.5");
  EXPECT_EQ(CheckpointNameOf("/models/start.1"), "");
  EXPECT_EQ(CheckpointIdOf("/ckpt/checkpoints/2-4/000009.step-1100"), (CheckpointId{{2, 4}, 9}));
  EXPECT_FALSE(CheckpointIdOf("/models/start").exists());
  EXPECT_FALSE(CheckpointIdOf("").exists());
}

}  // namespace
}  // namespace lockstep::core
