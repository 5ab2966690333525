#include "core/gang/diagnosis/root_cause.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "core/failure/last_words.h"

namespace lockstep::core {
namespace {

using testing::HasSubstr;

Failure Exited(int rank, int code, Time at) {
  Failure death;
  death.rank = rank;
  death.cause = Cause::kProcessExit;
  death.exit_code = code;
  death.at = at;
  death.by_itself = true;
  return death;
}

Failure Killed(int rank, int signal, Time at) {
  Failure death = Exited(rank, -1, at);
  death.cause = Cause::kProcessSignal;
  death.signal = signal;
  return death;
}

MachineFate Fate(uint32_t machine, std::vector<Failure> deaths, Duration offset = {},
                 Duration uncertainty = microseconds(100)) {
  MachineFate fate;
  fate.machine = machine;
  fate.deaths = std::move(deaths);
  fate.clock_offset = offset;
  fate.clock_uncertainty = uncertainty;
  return fate;
}

constexpr Time kStop = seconds(100);

TEST(RootCauseTest, IsTheEarliestDeathByMappedTimeNotByArrival) {
  // Machine 1's clock is an hour ahead; its rank died first all the same.
  Failure root =
      FindRootCause({Fate(0, {Exited(0, 1, kStop - milliseconds(5))}),
                     Fate(1, {Exited(2, 3, kStop - milliseconds(9) + hours(1))}, hours(1))});
  EXPECT_EQ(root.rank, 2);
  EXPECT_EQ(root.exit_code, 3);
  EXPECT_EQ(root.at, kStop - milliseconds(9));
}

TEST(RootCauseTest, ALostMachineComesBeforeItsPeersErrors) {
  MachineFate lost = Fate(1, {});
  lost.lost = true;
  lost.lost_how = "fell silent for 15000 ms";
  Failure root = FindRootCause({Fate(0, {Exited(0, 1, kStop - seconds(12))}), lost});
  EXPECT_EQ(root.cause, Cause::kMachineLost);
  EXPECT_EQ(root.machine, 1);
  EXPECT_EQ(root.message, "machine 1 fell silent for 15000 ms");
}

TEST(RootCauseTest, SaysWhereTheRanksStoodThatLostTheirPeers) {
  MachineFate first = Fate(0, {Exited(0, 75, kStop - milliseconds(50))});
  first.whereabouts = {{0, "allreduce 17 of 64 bytes"}, {1, "allreduce 17 of 64 bytes"}};
  MachineFate second = Fate(1, {Killed(3, SIGKILL, kStop - milliseconds(1))});
  second.whereabouts = {{2, "allreduce 16 of 8 bytes"}};
  const Failure root = FindRootCause({first, second});
  EXPECT_EQ(root.rank, 3);  // whoever else stands out
  EXPECT_EQ(root.message,
            "rank 3 on machine 1 was killed by SIGKILL; ranks 0-1 are in allreduce 17 of 64 bytes, "
            "rank 2 is in allreduce 16 of 8 bytes");
  second.lost = true;
  second.lost_how = "fell silent for 15000 ms";
  EXPECT_THAT(FindRootCause({first, second}).message,
              HasSubstr("fell silent for 15000 ms; ranks 0-1 are in allreduce 17"));
}

TEST(RootCauseTest, WhereNoneDiedButOfLostPeersTheRankThatTheOthersWaitedForIsNamed) {
  MachineFate first =
      Fate(0, {Exited(0, 75, kStop - milliseconds(50)), Exited(1, 75, kStop - milliseconds(50))});
  first.whereabouts = {{0, "allreduce 17"}, {1, "allreduce 17"}};
  MachineFate second = Fate(1, {Exited(2, 75, kStop - milliseconds(20))});
  second.whereabouts = {{2, "its own code after allreduce 16"}};
  const Failure root = FindRootCause({first, second});
  EXPECT_EQ(root.rank, 2);
  EXPECT_EQ(root.machine, 1);
  EXPECT_EQ(root.message,
            "rank 2 on machine 1 exited with code 75; ranks 0-1 are in allreduce 17, rank 2 is in "
            "its own code after allreduce 16");
  second.whereabouts = {{2, "allreduce 17"}};
  EXPECT_EQ(FindRootCause({first, second}).rank, 0);  // nobody stands out
}

TEST(RootCauseTest, PeerLostYieldsToAnyOtherDeath) {
  Failure root = FindRootCause(
      {Fate(0, {Exited(0, 75, kStop - milliseconds(50)), Exited(1, 1, kStop - milliseconds(1))})});
  EXPECT_EQ(root.rank, 1);
}

Failure Saying(Failure death, const char* last_words) {
  death.stderr_tail = last_words;
  return death;
}

// What each framework's survivors were seen to say, and how they end.
TEST(RootCauseTest, WhoseLastWordsAreOfALostPeerYieldsToTheDeathOfOneThatSaysNoSuchThing) {
  const Failure survivors[] = {
      Saying(Killed(0, SIGABRT, kStop - milliseconds(50)),
             "Terminating process because the JAX distributed service detected fatal errors. This "
             "most likely indicates that another task died; see the other task logs"),
      Saying(Exited(0, 1, kStop - milliseconds(50)),
             "tensorflow.python.framework.errors_impl.UnavailableError: Connection reset by peer"),
      Saying(Exited(0, 3, kStop - milliseconds(50)),
             "horovod.common.exceptions.HorovodInternalError: [gloo] connection closed"),
      Saying(Exited(0, 14, kStop - milliseconds(50)),
             "An MPI communication peer process has unexpectedly disconnected."),
      Saying(
          Exited(0, 1, kStop - milliseconds(50)),
          "RuntimeError: [gloo/transport/tcp/pair.cc:525] Connection closed by peer [127.0.0.1]"),
      Saying(Exited(0, 1, kStop - milliseconds(50)),
             "RuntimeError: [gloo/transport/tcp/pair.cc:545] Read error [127.0.0.1]:18836: "
             "Connection reset by peer. This is typically caused by a remote worker hanging"),
      Saying(Exited(0, 1, kStop - milliseconds(50)),
             "ncclRemoteError: A call failed possibly due to a network error or a remote process "
             "exiting prematurely."),
      Saying(Exited(0, 205, kStop - milliseconds(50)),
             "ORTE has lost communication with a remote daemon."),
      Saying(Exited(0, 255, kStop - milliseconds(50)),
             "[mpiexec@m0] control_cb (mpiexec/pmiserv_cb.c:280): assert (!closed) failed"),
  };
  for (const Failure& survivor : survivors) {
    const Failure root = FindRootCause({Fate(0, {survivor}), Fate(1, {Killed(3, SIGABRT, kStop)})});
    EXPECT_EQ(root.rank, 3) << survivor.stderr_tail;
    EXPECT_THAT(root.message, testing::StartsWith("rank 3 on machine 1 was killed by SIGABRT; "
                                                  "noticed before it: rank 0 on machine 0 "));
    EXPECT_THAT(root.message, testing::EndsWith(", whose last words report a lost peer"));
  }
}

// A home-made collective: every kind of first failure, of survivor and of order.
TEST(RootCauseTest, IsTheRankThatFailedFirstWhateverItsPeersSayAndWhoeverIsGoneFirst) {
  const std::string traceback = "Traceback (most recent call last):\n  File \"t.py\", line 1\n";
  const char* causes[] = {"ValueError: bad shard",
                          "KeyError: 'labels'",
                          "MemoryError",
                          "EOFError: Ran out of input",
                          "OSError: [Errno 28] No space left",
                          "torch.cuda.OutOfMemoryError: CUDA out of memory"};
  const char* losses[] = {"ConnectionResetError: [Errno 104] Connection reset by peer",
                          "BrokenPipeError: [Errno 32] Broken pipe",
                          "ConnectionRefusedError: [Errno 111] Connection refused",
                          "EOFError",
                          "RuntimeError: [pair.cc:525] Connection closed by peer [10.0.0.1]",
                          "mpi4py.MPI.Exception: MPI_ERR_PROC_FAILED: Process Failure"};
  for (const char* cause : causes) {
    for (const char* loss : losses) {
      for (const int gone : {-250, -13, 0, 13, 250}) {  // the survivor, after the first one's end
        Failure first = Exited(5, 1, kStop);
        first.stderr_tail = traceback + cause;
        Failure survivor = Exited(0, 1, kStop + milliseconds(gone));
        survivor.stderr_tail = traceback + loss;
        const Failure root = FindRootCause({Fate(0, {survivor}), Fate(1, {first})});
        EXPECT_EQ(root.rank, 5) << cause << "; " << loss << "; " << gone;
      }
    }
    // Its peers say what no table knows: then who began to die first.
    for (const int words : {1, 13, 200}) {
      Failure first = Exited(5, 1, BeganToDie(Exited(5, 1, kStop), kStop - milliseconds(words)));
      first.stderr_tail = traceback + cause;
      Failure survivor = Exited(0, 1, kStop - milliseconds(words) + milliseconds(1));
      survivor.stderr_tail = traceback + "RuntimeError: the ring is broken";
      const Failure root = FindRootCause({Fate(0, {survivor}), Fate(1, {first})});
      EXPECT_EQ(root.rank, 5) << cause << "; " << words;
    }
  }
}

TEST(RootCauseTest, OfDeathsThatAllSayThatTheyLostAPeerTheEarliestIsTheCause) {
  const char* said = "HorovodInternalError";
  const Failure root =
      FindRootCause({Fate(0, {Saying(Exited(0, 3, kStop - milliseconds(5)), said)}),
                     Fate(1, {Saying(Exited(3, 3, kStop - milliseconds(9)), said)})});
  EXPECT_EQ(root.rank, 3);
  EXPECT_EQ(root.message, "rank 3 on machine 1 exited with code 3");
}

TEST(RootCauseTest, ASegmentationFaultIsTheCauseWhateverTheLastWordsWere) {
  const Failure root = FindRootCause(
      {Fate(0, {Exited(0, 1, kStop - milliseconds(5))}),
       Fate(1, {Saying(Killed(3, SIGSEGV, kStop - milliseconds(1)), "HorovodInternalError")})});
  EXPECT_EQ(root.rank, 3);
}

TEST(RootCauseTest, LastWordsComeBeforeTheExitCodeThatSaysNothingElse) {
  const Failure root = FindRootCause(
      {Fate(0, {Exited(0, 75, kStop - milliseconds(9))}),
       Fate(1, {Saying(Exited(3, 1, kStop - milliseconds(5)), "tf.errors.UnavailableError: S3")})});
  EXPECT_EQ(root.rank, 3);
}

TEST(RootCauseTest, PeerLostAloneIsTheCause) {
  Failure root = FindRootCause({Fate(0, {Exited(0, 75, kStop - milliseconds(50))})});
  EXPECT_EQ(root.exit_code, 75);
}

TEST(RootCauseTest, OfDeathsThatClocksCannotTellApartTheOneBySignalIsBlamedAndBothAreNamed) {
  Failure root = FindRootCause(
      {Fate(0, {Exited(0, 1, kStop - microseconds(900))}, {}, milliseconds(1)),
       Fate(1, {Killed(2, SIGSEGV, kStop - microseconds(500))}, {}, milliseconds(1))});
  EXPECT_EQ(root.rank, 2);
  EXPECT_NE(root.message.find("rank 2 on machine 1 was killed by SIGSEGV"), std::string::npos);
  EXPECT_NE(root.message.find("rank 0 on machine 0 exited with code 1"), std::string::npos);
}

TEST(RootCauseTest, AKilledProcessComesBeforeItsPeersExitsThoughItIsNoticedAfterTheStop) {
  Failure root = FindRootCause({Fate(0, {Exited(0, 1, kStop - milliseconds(5))}),
                                Fate(1, {Killed(3, SIGKILL, kStop + seconds(2))})});
  EXPECT_EQ(root.rank, 3);
  EXPECT_EQ(root.message,
            "rank 3 on machine 1 was killed by SIGKILL; noticed before it: rank 0 on machine 0 "
            "exited with code 1");
}

TEST(RootCauseTest, APeersAbortIsNoReasonForAnEarlierExit) {
  Failure root = FindRootCause({Fate(0, {Killed(0, SIGABRT, kStop - milliseconds(1))}),
                                Fate(1, {Exited(3, 1, kStop - milliseconds(5))})});
  EXPECT_EQ(root.rank, 3);
  EXPECT_EQ(root.message, "rank 3 on machine 1 exited with code 1");
}

TEST(RootCauseTest, OfTwoFaultsTheEarlierOneIsBlamed) {
  Failure root = FindRootCause({Fate(0, {Killed(0, SIGSEGV, kStop - milliseconds(1))}),
                                Fate(1, {Killed(3, SIGKILL, kStop - milliseconds(5))})});
  EXPECT_EQ(root.rank, 3);
}

TEST(RootCauseTest, PeerLostYieldsToADeathThatIsNoticedAfterTheStop) {
  Failure root = FindRootCause({Fate(0, {Exited(0, 75, kStop - milliseconds(5))}),
                                Fate(1, {Exited(3, 1, kStop + seconds(2))})});
  EXPECT_EQ(root.rank, 3);
}

TEST(RootCauseTest, ThenTheLowestRank) {
  Failure root = FindRootCause({Fate(1, {Exited(3, 1, kStop - microseconds(50))}),
                                Fate(0, {Exited(1, 1, kStop - microseconds(40))})});
  EXPECT_EQ(root.rank, 1);
}

TEST(RootCauseTest, ARankKilledForMemoryIsNamedBeforeItsPeersExits) {
  Failure starved = Killed(2, SIGKILL, kStop + milliseconds(2));
  starved.cause = Cause::kOutOfMemory;
  const Failure root = FindRootCause({Fate(0, {Exited(0, 1, kStop)}), Fate(1, {starved})});
  EXPECT_EQ(root.cause, Cause::kOutOfMemory);
  EXPECT_EQ(root.rank, 2);
  EXPECT_THAT(root.message, testing::HasSubstr("rank 2 on machine 1 was killed by the "
                                               "kernel: its machine was out of memory"));
}

TEST(RootCauseTest, WhatThisMachineKilledIsNoCandidate) {
  Failure killed = Killed(0, SIGKILL, kStop - milliseconds(3));
  killed.by_itself = false;
  Failure root =
      FindRootCause({Fate(0, {killed}), Fate(1, {Exited(2, 9, kStop - milliseconds(1))})});
  EXPECT_EQ(root.rank, 2);
}

TEST(RootCauseTest, AnExpiredLeaseYieldsOnlyToADeathThatSurelyCameBefore) {
  MachineFate lapsed = Fate(0, {});
  lapsed.lease_expired = true;
  lapsed.lease_expired_at = kStop - milliseconds(100);
  EXPECT_EQ(FindRootCause({lapsed}).cause, Cause::kLeaseExpired);
  EXPECT_EQ(FindRootCause({lapsed, Fate(1, {Exited(2, 1, kStop - seconds(1))})}).cause,
            Cause::kProcessExit);
  MachineFate peer = Fate(1, {Exited(2, 75, kStop - milliseconds(1))});
  EXPECT_EQ(FindRootCause({lapsed, peer}).cause, Cause::kLeaseExpired);
}

TEST(RootCauseTest, AnUnkillableProcessNamesItsMachine) {
  MachineFate stuck = Fate(1, {});
  stuck.unkillable = true;
  Failure root = FindRootCause({Fate(0, {Exited(0, 1, kStop - seconds(1))}), stuck});
  EXPECT_EQ(root.cause, Cause::kUnkillable);
  EXPECT_EQ(root.machine, 1);
}

TEST(RootCauseTest, OneThatLeftTheOthersWithinMpiIsSaidToHaveDoneSo) {
  MachineFate fate;
  Failure death;
  death.rank = 0;
  death.cause = Cause::kProcessExit;
  death.exit_code = 0;
  death.at = seconds(1);
  death.by_itself = true;
  fate.deaths = {death};
  EXPECT_EQ(FindRootCause({fate}).message,
            "rank 0 on machine 0 exited with code 0 before MPI_Finalize");
}

TEST(RootCauseTest, ADeathOfNoRankIsThePmixServersAndComesBeforeThoseThatItLeadsTo) {
  Failure server = Killed(-1, SIGKILL, kStop);
  EXPECT_EQ(FindRootCause({Fate(1, {Exited(2, 1, kStop - milliseconds(1)), server})}).message,
            "the PMIx server on machine 1 was killed by SIGKILL; noticed before it: rank 2 on "
            "machine 1 exited with code 1");
}

TEST(RootCauseTest, ARankThatItsAgentNeverHeardOfWasAWorldOfItsOwn) {
  Failure alone = Exited(0, 0, kStop);
  alone.cause = Cause::kConfiguration;
  const Failure root = FindRootCause({Fate(0, {alone})});
  EXPECT_EQ(root.cause, Cause::kConfiguration);
  EXPECT_THAT(root.message,
              HasSubstr("rank 0 on machine 0 exited with 0 and never began MPI through its agent"));
}

TEST(RootCauseTest, CallsAProcessWhatItsJobDoes) {
  const auto cause = [](Failure death, const ProcessNames& names) {
    return FindRootCause({Fate(1, {std::move(death)})}, names).message;
  };
  const ProcessNames roles{ProcessKind::kRank, {{"chief", 0, 1}, {"worker", 1, 4}, {"ps", 5, 1}}};
  EXPECT_EQ(cause(Exited(0, 1, kStop), roles), "rank 0 (chief) on machine 1 exited with code 1");
  EXPECT_EQ(cause(Exited(4, 1, kStop), roles), "rank 4 (worker 3) on machine 1 exited with code 1");
  EXPECT_EQ(cause(Killed(5, SIGKILL, kStop), roles),
            "rank 5 (ps) on machine 1 was killed by SIGKILL");
  EXPECT_EQ(cause(Exited(1, 1, kStop), {ProcessKind::kMachine}),
            "the process on machine 1 exited with code 1");
}

}  // namespace
}  // namespace lockstep::core
