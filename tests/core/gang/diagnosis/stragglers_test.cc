#include "core/gang/diagnosis/stragglers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace lockstep::core {
namespace {

using testing::HasSubstr;

// A gang whose ranks meet at the end of each step, as collectives make them: each waits for the
// slowest, and everybody for the transfer.
class Gang {
 public:
  Gang(uint32_t machines, uint32_t processes)
      : machines_(machines),
        processes_(processes),
        ranks_(machines * processes),
        held_(machines),
        finder_(machines, processes) {}

  // How long a rank works on a step, in seconds.
  std::function<double(uint32_t rank)> work = [](uint32_t) { return 0.1; };
  std::function<double(uint32_t machine)> throttled = [](uint32_t) { return 0.0; };
  // What it says of its GPU.
  std::function<void(RankProgress& rank)> gpu = [](RankProgress&) {};
  // Of how many steps each machine tells at once.
  int told_every = 5;
  // How many steps apart machines read the kernel's counter of throttled time.
  int counted_every = 1;

  // The steps that it took until a straggler was found; `most` if none was.
  int StepsUntilFound(int most) {
    for (int step = 1; step <= most; ++step) {
      Step(step);
      if (finder_.found()) return step;
    }
    return most;
  }

  void Step(int step) {
    std::vector<double> works;
    double slowest = 0;
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      works.push_back(work(rank));
      slowest = std::max(slowest, works.back());
    }
    now_ += duration_cast<Duration>(std::chrono::duration<double>(slowest + 0.01));
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      RankProgress& said = ranks_[rank];
      said.rank = rank;
      said.step = step;
      ++said.waits;
      said.waited += slowest - works[rank] + 0.01;
      gpu(said);
    }
    for (uint32_t machine = 0; machine < machines_; ++machine) {
      held_[machine] += throttled(machine) * (slowest + 0.01);
      if (step % counted_every != 0) continue;
      for (uint32_t l = 0; l < processes_; ++l) {
        ranks_[machine * processes_ + l].throttled = held_[machine];
      }
    }
    // Machines tell one after the other, and not of the same steps.
    for (uint32_t machine = 0; machine < machines_; ++machine) {
      if ((step + static_cast<int>(machine)) % told_every != 0) continue;
      for (uint32_t l = 0; l < processes_; ++l) {
        finder_.Update(now_, ranks_[machine * processes_ + l]);
      }
    }
  }

  StragglerFinder& finder() { return finder_; }

 private:
  uint32_t machines_;
  uint32_t processes_;
  std::vector<RankProgress> ranks_;
  std::vector<double> held_;  // seconds
  StragglerFinder finder_;
  Time now_ = seconds(100);
};

TEST(Stragglers, AMachineForWhichTheOthersWaitIsFoundIn200Steps) {
  Gang gang(4, 2);
  gang.work = [](uint32_t rank) { return rank / 2 == 2 ? 0.15 : 0.1; };
  EXPECT_LE(gang.StepsUntilFound(1000), 200);
  ASSERT_TRUE(gang.finder().found());
  EXPECT_EQ(gang.finder().found()->machine, 2u);
  EXPECT_NEAR(gang.finder().found()->cost, 0.05 / 0.16, 0.01);
  EXPECT_GE(gang.finder().found()->steps, StragglerFinder::kLeastSteps);
  EXPECT_EQ(gang.finder().found()->because, "its ranks are equally slow");
}

TEST(Stragglers, IsFoundInNoiseAsLargeAsItsLateness) {
  std::mt19937 random(7);
  std::exponential_distribution<double> noise(1 / 0.02);
  Gang gang(4, 1);
  gang.work = [&](uint32_t rank) { return (rank == 3 ? 0.14 : 0.1) + noise(random); };
  EXPECT_LE(gang.StepsUntilFound(2000), 300);
  EXPECT_EQ(gang.finder().found()->machine, 3u);
}

// Noise, of any size and any sort that does not prefer a machine, finds nobody.
TEST(Stragglers, AHealthyGangHasNone) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    std::exponential_distribution<double> noise(1 / (0.002 * (1 + seed % 30)));
    std::uniform_real_distribution<double> chance;
    Gang gang(2 + seed % 7, 1 + seed % 2);
    gang.told_every = 1 + static_cast<int>(seed % 6);
    gang.work = [&](uint32_t) {
      return 0.1 + noise(random) + (chance(random) < 0.01 ? 0.5 : 0);  // pauses, too
    };
    ASSERT_EQ(gang.StepsUntilFound(2000), 2000) << "seed " << seed;
  }
}

TEST(Stragglers, OneThatIsLateByLessThanATenthIsNone) {
  Gang gang(4, 1);
  gang.work = [](uint32_t rank) { return rank == 1 ? 0.108 : 0.1; };
  EXPECT_EQ(gang.StepsUntilFound(1000), 1000);
}

TEST(Stragglers, APauseMakesNoStraggler) {
  Gang gang(4, 1);
  int step = 0;
  gang.work = [&](uint32_t rank) {
    if (rank == 0) ++step;
    return rank == 1 && step % 50 < 5 ? 2.0 : 0.1;  // a checkpoint that one machine writes
  };
  EXPECT_EQ(gang.StepsUntilFound(1000), 1000);
}

TEST(Stragglers, ItIsForgottenOnceItKeepsUp) {
  Gang gang(4, 1);
  double slow = 0.2;
  gang.work = [&](uint32_t rank) { return rank == 1 ? slow : 0.1; };
  const int found = gang.StepsUntilFound(1000);
  slow = 0.1;
  for (int i = 1; i <= 200; ++i) gang.Step(found + i);
  EXPECT_FALSE(gang.finder().found());
}

TEST(Stragglers, AnotherGenerationNeedsEvidenceOfItsOwn) {
  Gang gang(4, 1);
  gang.work = [](uint32_t rank) { return rank == 1 ? 0.2 : 0.1; };
  gang.StepsUntilFound(1000);
  gang.finder().Begin(Members::All(4));
  EXPECT_FALSE(gang.finder().found());
}

TEST(Stragglers, TheReasonIsNamedWhereItIsKnown) {
  Gang throttled(3, 1);
  throttled.work = [](uint32_t rank) { return rank == 1 ? 0.2 : 0.1; };
  throttled.throttled = [](uint32_t machine) { return machine == 1 ? 0.4 : 0.0; };
  throttled.StepsUntilFound(1000);
  EXPECT_EQ(throttled.finder().found()->because, "its CPU limit throttled it for 40% of the time");
  Gang seldom(3, 1);  // most rounds see no change of the counter
  seldom.work = throttled.work;
  seldom.throttled = throttled.throttled;
  seldom.counted_every = 15;
  seldom.StepsUntilFound(1000);
  EXPECT_EQ(seldom.finder().found()->because, throttled.finder().found()->because);
  Gang one_rank(3, 2);
  one_rank.work = [](uint32_t rank) { return rank == 3 ? 0.2 : 0.1; };
  one_rank.StepsUntilFound(1000);
  EXPECT_THAT(one_rank.finder().found()->because, HasSubstr("differ"));
}

// Four machines of two GPUs at `clock` of 1980 MHz, all at their power caps but GPU 1 of machine 2,
// of which `ill` says what it says.
std::string BecauseOfGpus(double clock, const std::function<void(RankProgress& rank)>& ill) {
  Gang gang(4, 2);
  gang.work = [](uint32_t rank) { return rank / 2 == 2 ? 0.2 : 0.1; };
  gang.gpu = [&](RankProgress& rank) {
    rank.gpu = static_cast<int32_t>(rank.rank % 2);
    rank.gpu_clock.hertz = clock;
    rank.gpu_clock.most = 1980e6;
    rank.gpu_clock.slowed = kSlowedByPower;
    if (rank.rank == 5) ill(rank);
  };
  EXPECT_LT(gang.StepsUntilFound(1000), 1000);
  return gang.finder().found()->because;
}

TEST(Stragglers, AGpuThatIsHeldBackIsNamedWithWhatHoldsIt) {
  EXPECT_EQ(BecauseOfGpus(1755e6,
                          [](RankProgress& rank) {
                            rank.gpu_clock.hertz = 1200e6;
                            rank.gpu_clock.slowed = kSlowedByHeat | kSlowedByHardware;
                          }),
            "GPU 1 (rank 5) is slowed by its temperature: 1200 of 1980 MHz, the median is 1755; "
            "its ranks are equally slow");
  EXPECT_THAT(BecauseOfGpus(1755e6, [](RankProgress& rank) { rank.gpu_clock.hertz = 1500e6; }),
              HasSubstr("GPU 1 (rank 5) is slowed by its power cap: 1500 of 1980 MHz"));
  EXPECT_THAT(BecauseOfGpus(1755e6,
                            [](RankProgress& rank) {
                              rank.gpu_clock.hertz = 210e6;  // somebody has locked it
                              rank.gpu_clock.slowed = 0;
                            }),
              HasSubstr("GPU 1 (rank 5) is at 210 of 1980 MHz"));
  // One that tells no clocks, and no number.
  EXPECT_EQ(BecauseOfGpus(0,
                          [](RankProgress& rank) {
                            rank.gpu = -1;
                            rank.gpu_clock.most = 0;
                            rank.gpu_clock.slowed = kSlowedByHardware;
                          }),
            "the GPU of rank 5 is slowed by its hardware; its ranks are equally slow");
}

TEST(Stragglers, AGpuAtItsPowerCapAsAllOthersAreIsNoReason) {
  EXPECT_EQ(BecauseOfGpus(1755e6, [](RankProgress&) {}), "its ranks are equally slow");
  EXPECT_EQ(BecauseOfGpus(0, [](RankProgress&) {}), "its ranks are equally slow");
  EXPECT_EQ(BecauseOfGpus(1755e6, [](RankProgress& rank) { rank.gpu_clock.hertz = 1700e6; }),
            "its ranks are equally slow")
      << "no less than boards differ";
}

TEST(Stragglers, AGpuThatWasHeldBackOnceIsNoReason) {
  int told = 0;
  const std::string because = BecauseOfGpus(
      1755e6, [&](RankProgress& rank) { rank.gpu_clock.hertz = ++told < 50 ? 600e6 : 1755e6; });
  EXPECT_EQ(because, "its ranks are equally slow");
}

TEST(Stragglers, AGangThatReportsNoWaitsHasNone) {
  StragglerFinder finder(2, 1);
  for (int step = 1; step < 100; ++step) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      finder.Update(seconds(step), {.rank = rank, .step = step});
    }
  }
  EXPECT_FALSE(finder.found());
}

}  // namespace
}  // namespace lockstep::core
