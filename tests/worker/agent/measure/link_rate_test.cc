#include "worker/agent/measure/link_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/net/tcp.h"

namespace lockstep::agent {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Gt;

LinkMeter Meter(uint32_t machine) {
  Result<LinkMeter> meter = LinkMeter::Listen("127.0.0.1", machine);
  EXPECT_TRUE(meter.ok()) << meter.error().message;
  return std::move(*meter);
}

core::Partner PartnerOf(uint32_t machine, const LinkMeter& meter) {
  return {machine, meter.address(), meter.token()};
}

TEST(LinkMeterTest, ThreeMachinesMeasureTheirLinksInTurnAndBothEndsTell) {
  std::vector<LinkMeter> meters;
  for (uint32_t machine = 0; machine < 3; ++machine) meters.push_back(Meter(machine));
  std::vector<std::vector<double>> rates(3);
  {
    std::vector<std::jthread> threads;
    for (uint32_t machine = 0; machine < 3; ++machine) {
      std::vector<core::Partner> partners;
      for (const uint32_t other : {0U, 1U, 2U}) {
        if (other != machine) partners.push_back(PartnerOf(other, meters[other]));
      }
      // As PairRounds has it: 0-1, then 0-2, then 1-2.
      threads.emplace_back([&meters, &rates, machine, partners] {
        rates[machine] = meters[machine].Measure(partners);
      });
    }
  }
  for (const std::vector<double>& each : rates) {
    EXPECT_EQ(each.size(), 2U);
    EXPECT_THAT(each, Each(Gt(0)));
  }
}

TEST(LinkMeterTest, WhoeverDoesNotKnowTheTokenIsTurnedAwayAndThePartnerStillComes) {
  LinkMeter low = Meter(0);
  LinkMeter high = Meter(1);
  const Result<Endpoint> there = ParseEndpoint(high.address());
  ASSERT_TRUE(there.ok());
  const Result<UniqueFd> stranger = ConnectTcp(*there);
  ASSERT_TRUE(stranger.ok());
  std::vector<double> rates;
  {
    const std::jthread other([&] { rates = high.Measure({PartnerOf(0, low)}); });
    EXPECT_THAT(low.Measure({PartnerOf(1, high)}), ElementsAre(Gt(0)));
  }
  EXPECT_THAT(rates, ElementsAre(Gt(0)));
}

// As many as would use up a partner's patience if each were given a quarter of a second.
TEST(LinkMeterTest, WhoSaysNothingHoldsNoPartnerUp) {
  LinkMeter low = Meter(0);
  LinkMeter high = Meter(1);
  const Result<Endpoint> there = ParseEndpoint(high.address());
  ASSERT_TRUE(there.ok());
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 40; ++i) strangers.push_back(std::move(*ConnectTcp(*there)));
  std::vector<double> rates;
  {
    const std::jthread other([&] { rates = high.Measure({PartnerOf(0, low)}); });
    EXPECT_THAT(low.Measure({PartnerOf(1, high)}), ElementsAre(Gt(0)));
  }
  EXPECT_THAT(rates, ElementsAre(Gt(0)));
}

TEST(LinkMeterTest, APartnerThatIsGoneIsNoLink) {
  LinkMeter low = Meter(0);
  const core::Partner gone = PartnerOf(1, Meter(1));
  EXPECT_THAT(low.Measure({gone}), ElementsAre(0));
}

}  // namespace
}  // namespace lockstep::agent
