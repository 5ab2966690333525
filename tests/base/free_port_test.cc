#include "base/free_port.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

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

TEST(FreePortTest, PassesOverAPortThatIsListenedOn) {
  Result<uint32_t> first = FindFreePort(4711);
  ASSERT_TRUE(first.ok());
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(*first));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const UniqueFd taken(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(taken.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(taken.get(), 1), 0);
  Result<uint32_t> second = FindFreePort(4711);
  ASSERT_TRUE(second.ok());
  EXPECT_NE(*first, *second);
}

}  // namespace
}  // namespace lockstep
