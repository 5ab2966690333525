#include "worker/agent/processes/connections.h"

#include <gtest/gtest.h>

namespace lockstep::agent {
namespace {

constexpr const char* kColumns =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n";

std::string Line(const std::string& local, const std::string& remote, const std::string& state,
                 int inode) {
  return "   0: " + local + " " + remote + " " + state +
         " 00000000:00000000 00:00000000 00000000     0        0 " + std::to_string(inode) +
         " 1 0000000000000000 20 4 30 10 -1\n";
}

Endpoint At(const char* text) { return *ParseEndpoint(text); }

TEST(Connections, ListenersAndThoseThatNobodyAnsweredAreNone) {
  const std::vector<TcpConnection> connections =
      ParseConnections(kColumns + Line("0100007F:1F90", "00000000:0000", "0A", 1) +
                       Line("0100007F:1F91", "0200007F:1F90", "02", 2) +
                       Line("0100007F:1F92", "0200007F:1F90", "01", 3) +
                       Line("0000000000000000FFFF00000100007F:1F93",
                            "0000000000000000FFFF00000200007F:1F90", "06", 0) +
                       "what is not a line\n");
  ASSERT_EQ(connections.size(), 2U);
  EXPECT_EQ(connections[0], (TcpConnection{"0100007F", "0200007F", 0x1f92, 0x1f90, 3, true}));
  EXPECT_EQ(connections[1], (TcpConnection{"0100007F", "0200007F", 0x1f93, 0x1f90, 0, false}))
      << "IPv4 over IPv6, which is being forgotten";
}

TEST(Connections, AnEndpointIsMetFromEitherSide) {
  const std::vector<TcpConnection> connections =
      ParseConnections(kColumns + Line("0100007F:1F92", "0200007F:1F90", "06", 0));
  EXPECT_TRUE(AnyAt(connections, At("127.0.0.2:8080")));
  EXPECT_TRUE(AnyAt(connections, At("127.0.0.1:8082")));
  EXPECT_FALSE(AnyAt(connections, At("127.0.0.1:8080")));
  EXPECT_FALSE(AnyAt({}, At("[fd00::7]:8080")));
  EXPECT_EQ(KernelAddress(At("[::1]:1")), "00000000000000000000000001000000");
}

TEST(Connections, RanksHaveMetWhereOneIsConnectedToWhatIsNotItsOwn) {
  // Inodes 1 and 2 are the two ends of one connection, 3 leads to another machine.
  const std::vector<TcpConnection> connections =
      ParseConnections(kColumns + Line("0100007F:1F92", "0100007F:1F90", "01", 1) +
                       Line("0100007F:1F90", "0100007F:1F92", "01", 2) +
                       Line("0500000A:1F94", "0700000A:1F90", "01", 3));
  EXPECT_FALSE(AnyBetween(connections, {{1, 0}, {2, 0}}, {})) << "of mp.spawn";
  EXPECT_TRUE(AnyBetween(connections, {{1, 0}, {2, 1}}, {}));
  EXPECT_TRUE(AnyBetween(connections, {{1, 0}}, {})) << "the other end is of another machine here";
  EXPECT_FALSE(AnyBetween(connections, {{3, 0}}, {"0900000A"})) << "to a server of somebody's";
  EXPECT_TRUE(AnyBetween(connections, {{3, 0}}, {"0700000A"}));
  EXPECT_FALSE(AnyBetween(connections, {}, {"0700000A"})) << "the agent's own";
}

}  // namespace
}  // namespace lockstep::agent
