#include "base/net/peer_owner.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>

#include "base/net/tcp.h"

namespace lockstep {
namespace {

TEST(OwnerOfPeer, IsTheUserOfWhoeverConnected) {
  const Result<UniqueFd> listener = ListenTcp(*ParseEndpoint("127.0.0.1:0"), 8);
  ASSERT_TRUE(listener.ok());
  const Result<UniqueFd> client = ConnectTcp(*LocalEndpoint(listener->get()));
  ASSERT_TRUE(client.ok());
  pollfd ready = {listener->get(), POLLIN, 0};
  ASSERT_EQ(poll(&ready, 1, 60'000), 1);
  const UniqueFd accepted(accept(listener->get(), nullptr, nullptr));
  ASSERT_TRUE(accepted.valid());
  const std::optional<uid_t> owner = OwnerOfPeer(accepted.get());
  if (!owner) GTEST_SKIP() << "this kernel does not tell";
  EXPECT_EQ(*owner, geteuid());
}

TEST(OwnerOfPeer, IsNobodyWhereThereIsNoPeer) {
  const Result<UniqueFd> listener = ListenTcp(*ParseEndpoint("127.0.0.1:0"), 8);
  ASSERT_TRUE(listener.ok());
  EXPECT_EQ(OwnerOfPeer(listener->get()), std::nullopt);
  EXPECT_EQ(OwnerOfPeer(-1), std::nullopt);
}

}  // namespace
}  // namespace lockstep
