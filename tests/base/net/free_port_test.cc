#include "base/net/free_port.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <vector>

#include "base/unique_fd.h"

namespace lockstep {
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

// A port that is listened on, on one address alone.
class FreePortsTest : public ::testing::Test {
 protected:
  void Take(uint32_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    taken_.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(
        bind(taken_.back().get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(listen(taken_.back().get(), 1), 0);
  }
  std::vector<UniqueFd> taken_;
};

TEST_F(FreePortsTest, APortThatIsListenedOnIsPassedOver) {
  const Result<uint32_t> first = FindFreePort(4711);
  ASSERT_TRUE(first.ok());
  Take(*first);
  const Result<uint32_t> second = FindFreePort(4711);
  ASSERT_TRUE(second.ok());
  EXPECT_NE(*first, *second);
}

TEST_F(FreePortsTest, AreInARowAndBehindWhatIsTaken) {
  const Result<uint32_t> first = FindFreePorts(815, 8);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(FirstTakenPort(*first, 8), 0U);
  Take(*first + 2);
  EXPECT_EQ(FirstTakenPort(*first, 8), *first + 2);
  const Result<uint32_t> next = FindFreePorts(*first, 8);
  ASSERT_TRUE(next.ok()) << next.error().message;
  EXPECT_GT(*next, *first + 2) << "a port of the range is where the search begins";
  EXPECT_EQ(FirstTakenPort(*next, 8), 0U);
}

TEST_F(FreePortsTest, ThatTheRangeDoesNotHoldAreNone) {
  const Result<uint32_t> first = FindFreePorts(0, 50000);
  ASSERT_FALSE(first.ok());
  EXPECT_NE(first.error().message.find("no 50000 free ports in a row from "), std::string::npos)
      << first.error().message;
}

}  // namespace
}  // namespace lockstep
