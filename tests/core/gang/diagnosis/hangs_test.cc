#include "core/gang/diagnosis/hangs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <vector>

#include "tests/core/gang/gang_fixture.h"

namespace lockstep::core::hangs_test {
namespace {

// Two machines with two ranks each. A second of it costs nothing, so that hours are simulated.
class Gang {
 public:
  Gang() { finder_.Begin(Members::All(2)); }

  Duration hang_timeout{};
  bool counts = true;
  // The ranks of each machine that work.
  std::vector<std::vector<uint32_t>> working = {{0, 1}, {2, 3}};
  bool known = true;

  void Step(int64_t step, Duration later = seconds(1)) {
    Pass(later);
    Report(step);
  }
  // Whether a hang was suspected meanwhile. Machines tell their activity each 5 s.
  bool Pass(Duration time) {
    bool suspected = false;
    for (const Time until = now_ + time; now_ < until;) {
      now_ += seconds(1);
      if (now_ % seconds(5) == Duration::zero()) TellActivity();
      const auto news = finder_.Judge(now_, hang_timeout);
      suspected = suspected || news == HangFinder::News::kSuspected;
      looks += news == HangFinder::News::kSuspected ? 1 : 0;
    }
    return suspected;
  }
  void Report(int64_t step) {
    finder_.OnStep(now_, {.step = step, .total = total, .counts = counts});
  }
  void TellActivity() {
    for (uint32_t machine = 0; machine < working.size(); ++machine) {
      RankActivity activity;
      activity.ranks = 2;
      activity.unknown = known ? 0 : 2;
      activity.working = known ? static_cast<uint32_t>(working[machine].size()) : 0;
      if (activity.working > 0) activity.first_working = working[machine].front();
      finder_.OnActivity(now_, machine, activity);
    }
  }
  void Work(std::vector<std::vector<uint32_t>> who) { working = std::move(who); }
  void Train() {
    Work({{0, 1}, {2, 3}});
    for (int64_t step = 1; step <= 5; ++step) Step(step);
  }

  int64_t total = 100;
  int looks = 0;  // how often it asked where the ranks are
  Time now_ = seconds(1000);
  HangFinder finder_;
};

const std::vector<std::vector<uint32_t>> kNobody = {{}, {}};

TEST(Hangs, AreSuspectedAfterAMinuteInWhichNoRankWorks) {
  Gang gang;
  gang.Train();
  gang.Work(kNobody);
  EXPECT_FALSE(gang.Pass(seconds(59)));
  EXPECT_TRUE(gang.Pass(seconds(7)));
  gang.Pass(HangFinder::kPatience);
  ASSERT_TRUE(gang.finder_.found());
  EXPECT_EQ(gang.finder_.found()->step, 5);
  EXPECT_EQ(gang.finder_.found()->activity, GangActivity::kQuiet);
}

TEST(Hangs, AreSuspectedAfterThreeGapsIfThatIsLonger) {
  Gang gang;
  gang.Step(1);
  gang.Step(2, seconds(50));
  gang.Step(3, seconds(10));
  gang.Work(kNobody);
  EXPECT_FALSE(gang.Pass(seconds(149)));
  EXPECT_TRUE(gang.Pass(seconds(7)));
}

TEST(Hangs, AreSuspectedTenMinutesLaterIfOneRankWorks) {
  Gang gang;
  gang.Train();
  gang.Work({{}, {3}});
  EXPECT_FALSE(gang.Pass(seconds(599)));
  EXPECT_TRUE(gang.Pass(seconds(1)));
  gang.Pass(HangFinder::kPatience);
  ASSERT_TRUE(gang.finder_.found());
  EXPECT_EQ(gang.finder_.found()->who, "rank 3 works, the others wait");
}

TEST(Hangs, AreSuspectedHalfAnHourLaterIfAllRanksWork) {
  Gang gang;
  gang.Train();
  EXPECT_FALSE(gang.Pass(minutes(30) - seconds(1)));
  EXPECT_TRUE(gang.Pass(seconds(1)));
}

TEST(Hangs, AreSuspectedAfterAMinuteIfNobodyKnowsWhoWorks) {
  Gang gang;
  gang.known = false;
  gang.Train();
  EXPECT_FALSE(gang.Pass(seconds(59)));
  EXPECT_TRUE(gang.Pass(seconds(1)));
  gang.Pass(HangFinder::kPatience);
  ASSERT_TRUE(gang.finder_.found());
  EXPECT_EQ(gang.finder_.found()->activity, GangActivity::kUnknown);
  EXPECT_FALSE(gang.Pass(hours(5)));
  EXPECT_FALSE(gang.finder_.RestartDue(gang.now_));
}

TEST(Hangs, ACalmThatFollowsWorkIsCountedFromItsBeginning) {
  Gang gang;
  gang.Train();
  gang.Work({{0}, {}});
  EXPECT_FALSE(gang.Pass(minutes(5)));
  gang.Work(kNobody);
  EXPECT_FALSE(gang.Pass(seconds(54)));
  EXPECT_TRUE(gang.Pass(seconds(12)));
}

TEST(Hangs, AreSuspectedAfterHalfOfHangTimeoutWhoeverWorks) {
  Gang gang;
  gang.hang_timeout = seconds(40);
  gang.Step(1);
  EXPECT_FALSE(gang.Pass(seconds(19)));
  EXPECT_TRUE(gang.Pass(seconds(1)));

  Gang printed;
  printed.hang_timeout = seconds(40);
  printed.counts = false;
  printed.Train();
  EXPECT_FALSE(printed.Pass(seconds(59)));
}

TEST(Hangs, AreOverWithTheNextStep) {
  Gang gang;
  gang.Train();
  gang.Work(kNobody);
  ASSERT_TRUE(gang.Pass(minutes(2)));
  gang.Step(6);
  EXPECT_FALSE(gang.finder_.found());
}

TEST(Hangs, AreNotSuspectedBeforeTheThirdReportNorAfterTheLastStep) {
  Gang gang;
  gang.Step(1);
  gang.Step(2);
  gang.Work(kNobody);
  EXPECT_FALSE(gang.Pass(hours(1)));
  gang.Step(50);
  gang.Step(100);
  EXPECT_FALSE(gang.Pass(hours(1)));
}

TEST(Hangs, OfOneGenerationAreForgottenInTheNext) {
  Gang gang;
  gang.Train();
  gang.Work(kNobody);
  ASSERT_TRUE(gang.Pass(minutes(2)));
  gang.finder_.Begin(Members::All(2));
  EXPECT_FALSE(gang.finder_.found());
  EXPECT_FALSE(gang.Pass(hours(1)));
}

TEST(Hangs, AreShownOnceAllMachinesSaidWhereTheirRanksAre) {
  Gang gang;
  gang.Train();
  gang.finder_.OnPlaces(0, {{0, "barrier (train.py:1)"}});  // nobody asked
  gang.Work(kNobody);
  while (!gang.Pass(seconds(1))) continue;
  gang.finder_.OnPlaces(0, {{0, "barrier (train.py:12)"}, {1, "barrier (train.py:12)"}});
  EXPECT_EQ(gang.finder_.Judge(gang.now_, {}), HangFinder::News::kNone);
  gang.finder_.OnPlaces(1, {{2, "barrier (train.py:12)"}, {3, "load (train.py:30)"}});
  EXPECT_EQ(gang.finder_.Judge(gang.now_, {}), HangFinder::News::kLookedAt);
  EXPECT_EQ(gang.finder_.found()->places,
            "ranks 0-2 are in barrier (train.py:12), rank 3 is in load (train.py:30)");
  gang.Pass(hours(1));
  EXPECT_EQ(gang.looks, 1);
}

TEST(Hangs, AreShownWithoutTheMachineThatDoesNotAnswer) {
  Gang gang;
  gang.Train();
  gang.Work(kNobody);
  while (!gang.Pass(seconds(1))) continue;
  gang.finder_.OnPlaces(0, {{0, "barrier (train.py:12)"}, {1, "barrier (train.py:12)"}});
  gang.Pass(HangFinder::kPatience - seconds(1));
  EXPECT_FALSE(gang.finder_.found());
  gang.Pass(seconds(1));
  EXPECT_EQ(gang.finder_.found()->places, "ranks 0-1 are in barrier (train.py:12)");
}

TEST(Hangs, TheStepOfAGangIsThatOfTheSlowestRankThatReports) {
  const auto rank = [](int64_t step, StepSource source) {
    RankProgress progress;
    progress.step = step;
    progress.source = source;
    return progress;
  };
  EXPECT_EQ(StepOf({}, false).step, 0);
  std::map<uint32_t, RankProgress> ranks = {{0, rank(7, StepSource::kOutput)},
                                            {1, rank(5, StepSource::kOutput)}};
  EXPECT_EQ(StepOf(ranks, false).step, 5);
  EXPECT_FALSE(StepOf(ranks, false).counts);
  EXPECT_TRUE(StepOf(ranks, true).counts);
  ranks[2] = rank(9, StepSource::kReports);
  EXPECT_EQ(StepOf(ranks, false).step, 9);
  EXPECT_TRUE(StepOf(ranks, false).counts);
}

// ---- restart ----

TEST(Hangs, RestartIsDueAfterTenMinutesInWhichNoRankWorks) {
  Gang gang;
  gang.Train();
  gang.Work(kNobody);
  gang.Pass(seconds(599));
  EXPECT_FALSE(gang.finder_.RestartDue(gang.now_));
  gang.Pass(seconds(7));
  EXPECT_TRUE(gang.finder_.RestartDue(gang.now_));
}

TEST(Hangs, RestartIsDueAfterTenGapsIfThatIsLonger) {
  Gang gang;
  for (int64_t step = 1; step <= 3; ++step) gang.Step(step, minutes(2));
  gang.Work(kNobody);
  gang.Pass(minutes(20) - seconds(1));
  EXPECT_FALSE(gang.finder_.RestartDue(gang.now_));
  gang.Pass(seconds(7));
  EXPECT_TRUE(gang.finder_.RestartDue(gang.now_));
}

TEST(Hangs, RestartIsNeverDueWhileARankWorks) {
  Gang gang;
  gang.Train();
  gang.Work({{}, {3}});
  gang.Pass(hours(5));
  EXPECT_FALSE(gang.finder_.RestartDue(gang.now_));
}

TEST(Hangs, RestartIsNotDueWhileAMachineTellsNothing) {
  Gang gang;
  gang.Train();
  gang.Work({{}});  // machine 1 falls silent
  gang.Pass(hours(5));
  EXPECT_FALSE(gang.finder_.RestartDue(gang.now_));
}

// ---- healthy programs with pauses ----

// Who works in a pause, and for how long.
struct Phase {
  std::vector<std::vector<uint32_t>> working;
  Duration time;
};
struct Program {
  const char* name;
  Duration step;
  std::vector<Phase> pause;
  bool reported = false;  // it cannot be told from a hang
};

const std::vector<std::vector<uint32_t>> kAll = {{0, 1}, {2, 3}};
const std::vector<std::vector<uint32_t>> kFirst = {{0}, {}};

std::vector<Program> HealthyPrograms() {
  return {
      {"evaluates on rank 0 for 9 minutes", seconds(1), {{kFirst, minutes(9)}}},
      {"evaluates on all ranks for 25 minutes", seconds(1), {{kAll, minutes(25)}}},
      {"evaluates on rank 3 for 5 minutes", seconds(2), {{{{}, {3}}, minutes(5)}}},
      {"evaluates rank after rank",
       seconds(1),
       {{kFirst, minutes(2)}, {{{1}, {}}, minutes(2)}, {{{}, {2}}, minutes(2)}}},
      {"writes a checkpoint of 8 minutes on rank 0", seconds(3), {{kFirst, minutes(8)}}},
      {"writes a checkpoint on all ranks", seconds(3), {{kAll, minutes(20)}}},
      {"writes, then waits 50 s for the disk",
       seconds(1),
       {{kFirst, minutes(4)}, {kNobody, seconds(50)}}},
      {"waits 50 s for the disk, then writes",
       seconds(1),
       {{kNobody, seconds(50)}, {kFirst, minutes(4)}}},
      {"compiles on all ranks for 20 minutes", seconds(1), {{kAll, minutes(20)}}},
      {"compiles on rank 0 for 9 minutes", seconds(1), {{kFirst, minutes(9)}}},
      {"compiles, evaluates and saves", seconds(1), {{kAll, minutes(8)}, {kFirst, minutes(1)}}},
      {"loads data on one machine for 9 minutes", seconds(1), {{{{0, 1}, {}}, minutes(9)}}},
      {"loads data with short waits",
       seconds(1),
       {{kNobody, seconds(40)},
        {kFirst, seconds(10)},
        {kNobody, seconds(40)},
        {kFirst, seconds(10)}}},
      {"accumulates gradients for 5 minutes", minutes(5), {{kAll, minutes(14)}}},
      {"prints each 10 minutes", minutes(10), {{kAll, minutes(12)}}},
      {"prints each 2 minutes and waits 5 minutes", minutes(2), {{kNobody, minutes(5)}}},
      {"sleeps 55 s between epochs", seconds(1), {{kNobody, seconds(55)}}},
      {"downloads on rank 0 for 9 minutes", seconds(1), {{kFirst, minutes(9)}}},
      {"collects garbage on three ranks", seconds(1), {{{{0, 1}, {2}}, minutes(9)}}},
      {"waits 3 minutes for a service", seconds(1), {{kNobody, minutes(3)}}, true},
  };
}

TEST(Hangs, OfTwentyHealthyProgramsOneIsReportedAndNoneRestarted) {
  int reported = 0;
  for (const Program& program : HealthyPrograms()) {
    Gang gang;
    gang.total = 0;
    int64_t step = 0;
    bool suspected = false;
    for (int epoch = 0; epoch < 3; ++epoch) {
      for (int i = 0; i < 5; ++i) {
        gang.Work(kAll);
        suspected = gang.Pass(program.step) || suspected;
        gang.Report(++step);
      }
      for (const Phase& phase : program.pause) {
        gang.Work(phase.working);
        suspected = gang.Pass(phase.time) || suspected;
        EXPECT_FALSE(gang.finder_.RestartDue(gang.now_)) << program.name;
      }
    }
    EXPECT_EQ(suspected, program.reported) << program.name;
    reported += suspected ? 1 : 0;
  }
  EXPECT_EQ(reported, 1);
}

// ---- of a whole gang ----

class SuspectedHangTest : public GangFixture {
 protected:
  // Two machines that have made steps, and whose ranks are `working` from now on.
  void TrainThenStandStill(uint32_t working, bool restart_hangs) {
    Begin(2);
    DesiredState desired;
    desired.job_uid = "job";
    desired.epoch = 1;
    desired.policy = policy_;
    desired.health = DesiredState::Health{{}, restart_hangs};
    Desire(desired);
    for (int64_t step = 1; step <= 5; ++step) {
      Tell(step, 2);
      Advance(seconds(3), seconds(1));
    }
    working_ = working;
  }
  void StandStill(Duration time) {
    for (const Time until = now_ + time; now_ < until;) {
      Advance(seconds(5), seconds(1));
      Tell(5, working_);
    }
  }
  void Tell(int64_t step, uint32_t working) {
    for (uint32_t machine = 0; machine < 2; ++machine) {
      Member& member = *machines_[machine].member;
      RankProgress progress;
      progress.rank = machine * 2;
      progress.step = step;
      Do(machine, member.OnProgress(now_, progress));
      Do(machine, member.OnUsage(now_, {}, {.ranks = 2, .working = working}));
    }
    Settle();
  }

  uint32_t working_ = 0;
};

TEST_F(SuspectedHangTest, IsShownWithWhereTheRanksAreWhichGoOn) {
  TrainThenStandStill(0, false);
  machines_[0].places = {"barrier (train.py:12)", "barrier (train.py:12)"};
  machines_[1].places = {"barrier (train.py:12)", "load (train.py:30)"};
  StandStill(seconds(45));
  EXPECT_FALSE(coordinator_->hang());
  const uint64_t version = coordinator_->version();
  StandStill(seconds(25));
  ASSERT_TRUE(coordinator_->hang());
  EXPECT_GT(coordinator_->version(), version);
  EXPECT_EQ(coordinator_->hang()->places,
            "ranks 0-2 are in barrier (train.py:12), rank 3 is in load (train.py:30)");
  StandStill(minutes(60));
  EXPECT_EQ(coordinator_->generation().ToString(), "1-1");
  EXPECT_EQ(machines_[0].collects.size(), 1u);
  Tell(6, 2);
  Advance(seconds(2), seconds(1));
  EXPECT_FALSE(coordinator_->hang());
  // A later failure is not told with where ranks once were.
  Kill(1, 3, SIGKILL);
  Advance(seconds(2), seconds(1));
  EXPECT_THAT(coordinator_->last_failure().message, testing::Not(testing::HasSubstr("barrier")));
}

TEST_F(SuspectedHangTest, RestartsAQuietGangIfTheJobAsksForIt) {
  TrainThenStandStill(0, true);
  machines_[0].places = {"barrier (train.py:12)", "barrier (train.py:12)"};
  machines_[1].places = {"barrier (train.py:12)", "load (train.py:30)"};
  StandStill(seconds(590));
  EXPECT_EQ(coordinator_->generation().ToString(), "1-1");
  StandStill(seconds(20));
  EXPECT_EQ(coordinator_->generation().ToString(), "1-2");
  EXPECT_EQ(coordinator_->last_failure().message,
            "rank 3 on machine 1 made no progress for 10 min, in which no rank worked: ranks 0-2 "
            "are in barrier (train.py:12), rank 3 is in load (train.py:30)");
  EXPECT_EQ(coordinator_->last_failure().cause, Cause::kHang);
  EXPECT_EQ(coordinator_->last_failure().rank, 3);
  EXPECT_EQ(coordinator_->last_failure().stderr_tail, "");
  EXPECT_EQ(coordinator_->counters().application_used(), 1);
  EXPECT_FALSE(coordinator_->hang());
}

TEST_F(SuspectedHangTest, RestartsNoGangOfWhichARankWorks) {
  TrainThenStandStill(1, true);
  StandStill(minutes(60));
  EXPECT_TRUE(coordinator_->hang());
  EXPECT_EQ(coordinator_->generation().ToString(), "1-1");
}

}  // namespace
}  // namespace lockstep::core::hangs_test
