#include "cli/run/machines/places.h"

#include <gtest/gtest.h>

#include "core/model/names.h"

namespace lockstep::cli {
namespace {

const Nodes kTwo{.by = Reach::kSsh, .names = {"a", "b"}, .processes = {}, .whose = ""};

Result<std::string> Own(const std::string& address) { return "own address towards " + address; }

TEST(PlacesHere, EachMachineHasAnAddressOfItsOwnWithThePortsOfPods) {
  const Result<std::vector<Place>> places = PlacesHere(2);
  ASSERT_TRUE(places.ok());
  EXPECT_NE(places->at(0).address, places->at(1).address);
  EXPECT_EQ(places->at(1).gang_port, core::kGangPort);
  EXPECT_EQ(places->at(1).metrics_port, core::kMetricsPort);
  EXPECT_EQ(places->at(1).node, "");
}

TEST(PlacesFrom, EachMachineIsWhereItsNodeSaysAndShowsNoMetrics) {
  const auto places = PlacesFrom(kTwo, {{"1", "10.0.0.1", {7}}, {"1", "10.0.0.2", {7}}}, Own);
  ASSERT_TRUE(places.ok());
  EXPECT_EQ(places->at(1).node, "b");
  EXPECT_EQ(places->at(1).by, Reach::kSsh);
  EXPECT_EQ(places->at(1).address, "10.0.0.2");
  EXPECT_EQ(places->at(1).gang_port, 7);
  EXPECT_EQ(places->at(1).metrics_port, 0);
}

TEST(PlacesFrom, TwoNamesOfOneComputerGetTwoPorts) {
  const auto places = PlacesFrom(kTwo, {{"1", "10.0.0.1", {7}}, {"1", "10.0.0.1", {7, 8}}}, Own);
  ASSERT_TRUE(places.ok());
  EXPECT_EQ(places->at(0).gang_port, 7);
  EXPECT_EQ(places->at(1).gang_port, 8);
  EXPECT_FALSE(PlacesFrom(kTwo, {{"1", "10.0.0.1", {7}}, {"1", "10.0.0.1", {7}}}, Own).ok());
}

TEST(PlacesFrom, ThisComputerIsToldToOthersByAnAddressThatTheyCanReach) {
  const auto places = PlacesFrom(kTwo, {{"1", "127.0.0.1", {7}}, {"1", "10.0.0.2", {7}}}, Own);
  ASSERT_TRUE(places.ok());
  EXPECT_EQ(places->at(0).address, "own address towards 10.0.0.2");
  const auto alone = PlacesFrom(kTwo, {{"1", "127.0.0.1", {7}}, {"1", "127.0.1.1", {7}}}, Own);
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(alone->at(0).address, "127.0.0.1");
}

}  // namespace
}  // namespace lockstep::cli
