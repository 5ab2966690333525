#include "worker/agent/services/pmi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/gang/protocol/kvs_exchange.h"

namespace lockstep::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

// Machine 1 of two with two ranks each: ranks 2 and 3, by clients 2 and 3.
class PmiTest : public ::testing::Test {
 protected:
  static Pmi::Shape Shape() { return {1, 2, 2, "kvs_1", {4711, 815}}; }

  void Prove() {
    Say(2, "cmd=initack pmiid=4711");
    Say(3, "cmd=initack pmiid=815");
  }
  // Its answer, of one line at most.
  std::string Say(Pmi::ClientId client, const std::string& line) {
    Result<Pmi::Effects> effects = pmi_.OnLine(client, line);
    EXPECT_TRUE(effects.ok()) << line;
    if (!effects.ok()) return "";
    last_ = std::move(*effects);
    return last_.answers.empty() ? "" : last_.answers.front().second;
  }

  Pmi pmi_{Shape()};
  Pmi::Effects last_;
};

TEST_F(PmiTest, AClientIsTheRankWhoseIdItKnows) {
  EXPECT_EQ(Say(9, "cmd=initack pmiid=815"),
            "cmd=initack rc=0\ncmd=set size=4\ncmd=set rank=3\ncmd=set debug=0\n");
  EXPECT_TRUE(pmi_.proven(9));
}

TEST_F(PmiTest, WhoKnowsNoIdOrAnotherGenerationsIsRefused) {
  EXPECT_FALSE(pmi_.OnLine(2, "cmd=initack pmiid=2").ok());
  EXPECT_FALSE(pmi_.OnLine(2, "cmd=initack pmiid=4711x").ok());
  EXPECT_FALSE(pmi_.OnLine(2, "cmd=initack").ok());
  EXPECT_FALSE(pmi_.OnLine(2, "cmd=get kvsname=kvs_1 key=a").ok());
  EXPECT_FALSE(pmi_.proven(2));
}

TEST_F(PmiTest, ARankIsOneProcessAlone) {
  Prove();
  EXPECT_FALSE(pmi_.OnLine(4, "cmd=initack pmiid=4711").ok());
  pmi_.OnClose(2);
  EXPECT_FALSE(pmi_.OnLine(4, "cmd=initack pmiid=4711").ok()) << "what it has put is here";
}

TEST_F(PmiTest, AnswersAsHydraDoes) {
  Prove();
  EXPECT_EQ(Say(2, "cmd=init pmi_version=1 pmi_subversion=1"),
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
  EXPECT_EQ(Say(2, "cmd=get_maxes"), "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n");
  EXPECT_EQ(Say(2, "cmd=get_appnum"), "cmd=appnum appnum=0\n");
  EXPECT_EQ(Say(2, "cmd=get_my_kvsname"), "cmd=my_kvsname kvsname=kvs_1\n");
  EXPECT_EQ(Say(2, "cmd=get_universe_size"), "cmd=universe_size size=4\n");
  EXPECT_EQ(Say(2, "cmd=get kvsname=kvs_1 key=PMI_process_mapping"),
            "cmd=get_result rc=0 msg=success value=(vector,(0,2,2))\n");
  EXPECT_EQ(Say(2, "cmd=finalize"), "cmd=finalize_ack rc=0\n");
  EXPECT_THAT(Say(3, "cmd=init pmi_version=2 pmi_subversion=0"), HasSubstr("rc=-1"));
}

TEST_F(PmiTest, WhatARankPutsItsMachineReadsAtOnce) {
  Prove();
  EXPECT_EQ(Say(2, "cmd=put kvsname=kvs_1 key=P2 value=a b=c"),
            "cmd=put_result rc=0 msg=success\n");
  EXPECT_EQ(Say(3, "cmd=get kvsname=kvs_1 key=P2"),
            "cmd=get_result rc=0 msg=success value=a b=c\n");
  EXPECT_THAT(Say(3, "cmd=get kvsname=kvs_1 key=P3"), HasSubstr("rc=-1 msg=key_not_found"));
  EXPECT_THAT(Say(3, "cmd=get kvsname=kvs_0 key=P2"), HasSubstr("rc=-1"));
  EXPECT_THAT(Say(3, "cmd=put kvsname=kvs_0 key=P2 value=x"), HasSubstr("rc=-1"));
}

TEST_F(PmiTest, TheLastLocalRankInABarrierSendsWhatAllOfThemHavePut) {
  Prove();
  Say(2, "cmd=put kvsname=kvs_1 key=a value=1");
  EXPECT_EQ(Say(2, "cmd=barrier_in"), "");
  EXPECT_FALSE(last_.fence);
  Say(3, "cmd=put kvsname=kvs_1 key=b value=2");
  EXPECT_EQ(Say(3, "cmd=barrier_in"), "") << "nobody goes on before the other machines";
  ASSERT_TRUE(last_.fence);
  EXPECT_THAT(*last_.fence, ElementsAre(core::TableEntry{"a", "1"}, core::TableEntry{"b", "2"}));

  EXPECT_THAT(pmi_.OnFence({{"c", "3"}}, false).answers, IsEmpty());
  EXPECT_THAT(pmi_.OnFence({{"d", "4"}}, true).answers,
              ElementsAre(Pair(2U, "cmd=barrier_out\n"), Pair(3U, "cmd=barrier_out\n")));
  EXPECT_THAT(Say(2, "cmd=get kvsname=kvs_1 key=c"), HasSubstr("value=3"));
  EXPECT_THAT(Say(2, "cmd=get kvsname=kvs_1 key=d"), HasSubstr("value=4"));

  Say(2, "cmd=barrier_in");
  Say(3, "cmd=barrier_in");
  ASSERT_TRUE(last_.fence);
  EXPECT_THAT(*last_.fence, IsEmpty()) << "it was sent with the barrier before";
}

TEST_F(PmiTest, ARankWaitsInOneBarrierAtATime) {
  Prove();
  Say(2, "cmd=barrier_in");
  EXPECT_FALSE(pmi_.OnLine(2, "cmd=barrier_in").ok());
}

TEST_F(PmiTest, AnAbortHasItsCodeAndItsWords) {
  Prove();
  Say(3, "cmd=abort exitcode=7 message=no data in /d");
  ASSERT_TRUE(last_.abort);
  EXPECT_EQ(last_.abort->local_rank, 1U);
  EXPECT_EQ(last_.abort->code, 7);
  EXPECT_EQ(last_.abort->text, "no data in /d");
  Say(2, "cmd=abort exitcode=134");
  EXPECT_EQ(last_.abort->code, 134);
}

TEST_F(PmiTest, ARankIsWithinMpiBetweenInitAndFinalize) {
  using enum MpiEnds::Stage;
  Prove();
  EXPECT_EQ(pmi_.StageOf(0), kNeverBegan);
  Say(2, "cmd=init pmi_version=1 pmi_subversion=1");
  EXPECT_EQ(pmi_.StageOf(0), kWithin);
  pmi_.OnClose(2);
  EXPECT_EQ(pmi_.StageOf(0), kWithin);
  Say(3, "cmd=init pmi_version=1 pmi_subversion=1");
  Say(3, "cmd=finalize");
  EXPECT_EQ(pmi_.StageOf(1), kFinalized);
}

TEST_F(PmiTest, ARankMayPutItsShareAndNoMore) {
  Prove();
  const std::string value(core::kMaxTableValue, 'v');
  EXPECT_THAT(Say(2, "cmd=put kvsname=kvs_1 key=k value=" + value + "v"), HasSubstr("rc=-1"));
  EXPECT_THAT(Say(2, "cmd=put kvsname=kvs_1 key=" + std::string(65, 'k') + " value=v"),
              HasSubstr("rc=-1"));
  int taken = 0;
  while (Say(2, "cmd=put kvsname=kvs_1 key=k value=" + value).find("rc=0") != std::string::npos) {
    ASSERT_LT(++taken, 1000);
  }
  EXPECT_EQ(static_cast<size_t>(taken),
            core::MostTableBytes(2, 2) / core::TableBytes({"k", value}));
  EXPECT_THAT(Say(3, "cmd=put kvsname=kvs_1 key=k3 value=v"), HasSubstr("rc=0"));
}

TEST_F(PmiTest, WhatItDoesNotDoIsSaidSoAndWhatIsNoPmiIsRefused) {
  Prove();
  EXPECT_EQ(Say(2, "cmd=lookup_name service=a"),
            "cmd=lookup_name_result rc=-1 msg=not_supported\n");
  EXPECT_EQ(Say(2, "mcmd=spawn"), "");
  EXPECT_EQ(Say(2, "nprocs=2"), "");
  EXPECT_EQ(Say(2, "endcmd"), "cmd=spawn_result rc=-1 msg=not_supported\n");
  EXPECT_FALSE(pmi_.OnLine(2, "cmd=<script>").ok());
}

}  // namespace
}  // namespace lockstep::agent
