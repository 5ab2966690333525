#include "worker/agent/free_port.h"

#include <gtest/gtest.h>

#include "worker/agent/endpoint.h"

namespace lockstep::agent {
namespace {

TEST(FreePortTest, StaysOutsideTheEphemeralRange) {
  struct Case {
    const char* ephemeral;
    uint32_t first;
    uint32_t last;
  };
  for (const Case& c : {Case{"32768\t60999", 20000, 32767}, Case{"1024 40000", 40001, 65535},
                        Case{"", 20000, 32767}, Case{"20001 64000", 64001, 65535}}) {
    Result<PortRange> range = StaticPorts(c.ephemeral);
    ASSERT_TRUE(range.ok()) << c.ephemeral;
    EXPECT_EQ(range->first, c.first) << c.ephemeral;
    EXPECT_EQ(range->last, c.last) << c.ephemeral;
  }
  EXPECT_FALSE(StaticPorts("1024 65535").ok());
}

TEST(FreePortTest, PassesOverAPortThatIsListenedOn) {
  Result<uint32_t> first = FindFreePort(4711);
  ASSERT_TRUE(first.ok());
  Result<Endpoint> endpoint = MakeEndpoint("127.9.9.9", static_cast<uint16_t>(*first));
  Result<UniqueFd> taken = ListenTcp(*endpoint, 1);
  ASSERT_TRUE(taken.ok());
  Result<uint32_t> second = FindFreePort(4711);
  ASSERT_TRUE(second.ok());
  EXPECT_NE(*first, *second);
}

}  // namespace
}  // namespace lockstep::agent
