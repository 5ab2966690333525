#include "worker/trainer/collectives/store/socket.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/worker/trainer/collectives/ranks.h"

namespace lockstep::collectives {
namespace {

TEST(SocketTest, NobodyListeningIsUnavailableAndNeverAConnectionToItself) {
  const uint16_t port = FreePort();
  // As many tries as a patient client makes, each from another ephemeral port.
  for (int i = 0; i < 2000; ++i) {
    const auto none = ConnectTcp("127.0.0.1", port, BootTime() + seconds(60));
    ASSERT_FALSE(none.ok());
    EXPECT_EQ(none.error().kind, ErrorKind::kUnavailable);
  }
}

TEST(SocketTest, AnAddressOfAnotherMachineStillListensHere) {
  // 192.0.2.0/24 is for documentation: no machine has it.
  const uint16_t port = FreePort();
  const auto listener = ListenTcp("192.0.2.1", port, 1);
  ASSERT_TRUE(listener.ok()) << listener.error().message;
  EXPECT_TRUE(ConnectTcp("127.0.0.1", port, BootTime() + seconds(60)).ok());
}

TEST(SocketTest, TheWayToAnAddressNamesTheInterface) {
  const auto local = LocalAddressTowards("127.0.0.1");
  ASSERT_TRUE(local.ok());
  EXPECT_EQ(*local, "127.0.0.1");
  EXPECT_EQ(InterfaceOf(*local), "lo");
  EXPECT_EQ(InterfaceOf("192.0.2.1"), "");
}

TEST(SocketTest, OnlyNumbersAreAddresses) {
  EXPECT_TRUE(IsAddress("10.0.0.7"));
  EXPECT_TRUE(IsAddress("fd00::7"));
  EXPECT_FALSE(IsAddress("localhost"));
  EXPECT_FALSE(IsAddress(""));
}

}  // namespace
}  // namespace lockstep::collectives
