#include "core/gang/coordinator/port_finder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/gang/parts.h"

namespace lockstep::core::port_finder_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const Generation kNow{1, 2};

class PortFinderTest : public testing::Test {
 protected:
  // The searches that machine 0 was asked for since this was asked.
  std::vector<FindPorts> Searches() {
    std::vector<FindPorts> searches;
    for (const CoordinatorAction& action : parts_.outbox.Take()) {
      if (const auto* search = std::get_if<FindPorts>(&action)) searches.push_back(*search);
    }
    return searches;
  }

  Parts parts_{3};
  PortFinder ports_{{.wanted = true, .machines = 3, .processes = 2}, parts_.roster, parts_.outbox};
};

TEST_F(PortFinderTest, HasThemOnceEveryOtherMachineSaysThatTheyAreFree) {
  EXPECT_FALSE(ports_.Have(kNow));
  const auto searches = Searches();
  ASSERT_THAT(searches, SizeIs(1));
  EXPECT_EQ(searches[0].count, 2U);
  EXPECT_EQ(ports_.OnFound({kNow, 20000, ""}), "");
  EXPECT_THAT(parts_.Sent<TryPorts>(), SizeIs(2));
  EXPECT_EQ(ports_.OnTried(1, {kNow, 20000, 0}), "");
  EXPECT_TRUE(ports_.waits_for_machines());
  ports_.AskAgain(parts_.roster[2]);
  EXPECT_THAT(parts_.Sent<TryPorts>(), SizeIs(1));
  EXPECT_EQ(ports_.OnTried(2, {kNow, 20000, 0}), "");
  EXPECT_TRUE(ports_.Have(kNow));
  EXPECT_EQ(ports_.found()[2], (MachinePorts{"10.0.0.2", 20000}));
}

TEST_F(PortFinderTest, LooksForOthersWhereOneIsTakenUntilItHasTriedOften) {
  EXPECT_FALSE(ports_.Have(kNow));
  std::string why;
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(why, "") << i;
    ports_.OnFound({kNow, 20000, ""});
    why = ports_.OnTried(1, {kNow, 20000, 20001});
  }
  EXPECT_THAT(why, HasSubstr("the last one in use was port 20001 of machine 1"));
}

TEST_F(PortFinderTest, IgnoresAnswersToAnotherSearch) {
  EXPECT_FALSE(ports_.Have(kNow));
  EXPECT_EQ(ports_.OnFound({{1, 1}, 20000, "none are free"}), "");
  EXPECT_EQ(ports_.OnFound({kNow, 0, "none are free"}), "none are free");
  EXPECT_EQ(ports_.OnTried(1, {kNow, 10000, 10000}), "");
}

TEST_F(PortFinderTest, OnOneComputerNoTwoMachinesHaveAPortInCommon) {
  PortFinder ports{{.wanted = true, .one_computer = true, .machines = 3, .processes = 2},
                   parts_.roster,
                   parts_.outbox};
  EXPECT_FALSE(ports.Have(kNow));
  EXPECT_EQ(Searches().at(0).count, 6U);
  EXPECT_EQ(ports.OnFound({kNow, 20000, ""}), "");
  EXPECT_TRUE(ports.Have(kNow));
  EXPECT_EQ(ports.found()[2].first, 20004U);
}

TEST_F(PortFinderTest, LooksForNoneWhereNoneAreWanted) {
  PortFinder none{{}, parts_.roster, parts_.outbox};
  EXPECT_TRUE(none.Have(kNow));
  EXPECT_THAT(none.found(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::core::port_finder_test
