#include "worker/ras/nccl_ras.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/worker/ras/ras_server.h"

namespace lockstep::ras {
namespace {

TEST(NcclRasTest, IsAskedWhereThisProcessListensAndNowhereElse) {
  RasServer server({});
  const auto address = ListenerOf(getpid(), server.named());
  ASSERT_TRUE(address);
  EXPECT_EQ(address->port(), server.address().port());
  const auto answer = Ask(*address, BootTime() + seconds(30));
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->whole);
  EXPECT_EQ(answer->text, kOneMissing);
  EXPECT_FALSE(ListenerOf(getppid(), server.named()));
  EXPECT_FALSE(ListenerOf(getpid(), "localhost:none"));
  EXPECT_FALSE(ListenerOf(getpid(), "localhost:1"));
}

TEST(NcclRasTest, WhereTheFirstToAnswerIsStoppedAnotherConnectionIsTried) {
  RasServer server({.silent_first = 2});
  const auto answer = Ask(server.address(), BootTime() + seconds(30));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->text, kOneMissing);
}

TEST(NcclRasTest, WhoeverIsSilentOrSpeaksOtherwiseIsNotWaitedFor) {
  RasServer silent({.greeting = ""});
  const Time began = BootTime();
  EXPECT_FALSE(Ask(silent.address(), began + milliseconds(700)));
  EXPECT_GE(BootTime(), began + milliseconds(600));
  RasServer web({.greeting = "HTTP/1.1 400 Bad Request\n"});
  EXPECT_FALSE(Ask(web.address(), BootTime() + seconds(30)));
}

TEST(NcclRasTest, OfAnAnswerThatDoesNotEndTheBeginningIsKept) {
  RasServer endless({.status = "Errors\n", .endless = true});
  auto answer = Ask(endless.address(), BootTime() + seconds(30));
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->whole);
  EXPECT_EQ(answer->text.size(), kMaxAnswer);
  RasServer slow({.stays = true});
  answer = Ask(slow.address(), BootTime() + seconds(3));
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->whole);
  EXPECT_EQ(answer->text, kOneMissing);
}

TEST(NcclRasTest, FindingsAreTheDetailsOfErrorsAndWarningsInALine) {
  EXPECT_EQ(Findings(kOneMissing),
            "Missing communicator data from 1 job process, Process 3487984 on node 10.0.0.7 "
            "managing GPU 2, Missing communicator data from 1 rank, The missing rank: 2, "
            "Encountered 1 communication timeout while gathering communicator data");
  EXPECT_EQ(Findings("Errors\n======\n\nWarnings\n========\n\n#0-0 (27a079b828ff1a75) MISMATCH\n"
                     "  Communicator ranks have different AllGather operation counts\n"
                     "  7 ranks have launched up to operation 64\n"
                     "  Rank 7 has launched up to operation 60 -- GPU 3 managed by process 165\n"),
            "Communicator ranks have different AllGather operation counts, 7 ranks have launched "
            "up to operation 64, Rank 7 has launched up to operation 60 -- GPU 3 managed by "
            "process 165");
  EXPECT_EQ(Findings("Errors\n======\n\nWarnings\n========\n\n"),
            "no process is dead or missing, and all ranks launched the same");
}

TEST(NcclRasTest, FindingsOfWhatIsNoStatusAreNoneAndAnyBytesMakeOneShortLine) {
  for (const char* text : {"", "\n\n", "  Rank 7\n", "Errors", "HTTP/1.1 400 Bad Request\n"}) {
    EXPECT_EQ(Findings(text), "") << text;
  }
  EXPECT_EQ(Findings("Errors\n  a\x1b[31m\xff\r\n  \n"), "a?[31m??");
  EXPECT_EQ(Findings("Errors\n  " + std::string(100'000, 'x')).size(), kMaxFindings);
}

}  // namespace
}  // namespace lockstep::ras
