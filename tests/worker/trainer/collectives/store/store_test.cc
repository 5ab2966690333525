// The rendezvous at rank 0: who gets in, who is told what, and what strangers cannot do.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/worker/trainer/collectives/ranks.h"
#include "worker/trainer/collectives/store/message.h"
#include "worker/trainer/collectives/store/socket.h"
#include "worker/trainer/collectives/store/store_client.h"
#include "worker/trainer/collectives/store/store_server.h"

namespace lockstep::collectives {
namespace {

class StoreTest : public testing::Test {
 protected:
  void Serve(int world, Duration patience = seconds(60)) {
    world_ = world;
    auto server = StoreServer::Start({.address = "127.0.0.1",
                                      .port = port_,
                                      .world = world,
                                      .identity = "job/7",
                                      .deadline = BootTime() + patience,
                                      .greeting_time = greeting_time_,
                                      .witness = witness_,
                                      .witness_time = witness_time_});
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
  }
  StoreClient::Options Client(int rank) const {
    return {.address = "127.0.0.1",
            .port = port_,
            .rank = rank,
            .world = world_,
            .identity = "job/7",
            .deadline = BootTime() + seconds(60)};
  }
  // All ranks at once, as Connect() returns only when all are here.
  std::vector<Result<std::unique_ptr<StoreClient>>> ConnectAll() const {
    std::vector<Result<std::unique_ptr<StoreClient>>> clients;
    for (int rank = 0; rank < world_; ++rank) clients.emplace_back(Error::Internal("not yet"));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world_; ++rank) {
      threads.emplace_back(
          [&, rank] { clients[static_cast<size_t>(rank)] = StoreClient::Connect(Client(rank)); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& client : clients) EXPECT_TRUE(client.ok());
    return clients;
  }
  // A connection of a stranger's, which blocks at most a minute.
  UniqueFd Stranger() const {
    Result<UniqueFd> fd = ConnectTcp("127.0.0.1", port_, BootTime() + seconds(60));
    EXPECT_TRUE(fd.ok());
    fcntl(fd->get(), F_SETFL, 0);
    const timeval minute{.tv_sec = 60, .tv_usec = 0};
    setsockopt(fd->get(), SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof minute);
    return std::move(*fd);
  }
  // True when the store ends the connection.
  static bool Ends(const UniqueFd& fd) {
    char bytes[4096];
    ssize_t got = 1;
    while (got > 0) got = recv(fd.get(), bytes, sizeof bytes, 0);
    return got == 0 || errno == ECONNRESET;
  }
  static void Say(const UniqueFd& fd, const std::string& bytes) {
    send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  const uint16_t port_ = FreePort();
  int world_ = 0;
  // The first failure that this client hears of.
  static std::future<Failure> Watch(StoreClient& client) {
    auto heard = std::make_shared<std::promise<Failure>>();
    client.Watch([] { return Progress{}; }, [heard](const Failure& f) { heard->set_value(f); });
    return heard->get_future();
  }

  Duration greeting_time_ = seconds(60);
  std::function<std::string()> witness_;
  Duration witness_time_ = seconds(60);
  std::unique_ptr<StoreServer> server_;
};

TEST_F(StoreTest, OfALateOperationItIsToldWhatTheWitnessKnowsBesideWhoIsBehind) {
  std::atomic<int> asked = 0;
  witness_ = [&asked]() -> std::string { return "witness " + std::to_string(++asked); };
  Serve(2);
  const auto clients = ConnectAll();
  std::future<Failure> heard = Watch(**clients[1]);
  (*clients[0])->ReportLate(5, 1, "send 5");
  (*clients[0])->ReportLate(6, 1, "send 6");
  const Failure failure = heard.get();
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.error.message,
            "rank 0 waits for send 5: rank 1 has not done its part; witness 1");
  EXPECT_EQ(asked, 1);
}

TEST_F(StoreTest, AWitnessThatDoesNotSpeakIsNotWaitedForNorDoesItHoldUpTheNewsOfADeath) {
  std::promise<void> end;
  witness_ = [ended = end.get_future().share()]() -> std::string {
    ended.wait();
    return "too late";
  };
  witness_time_ = milliseconds(100);
  Serve(2);
  {
    const auto clients = ConnectAll();
    std::future<Failure> heard = Watch(**clients[1]);
    (*clients[0])->ReportLate(5, 1, "send 5");
    EXPECT_EQ(heard.get().error.message, "rank 0 waits for send 5: rank 1 has not done its part");
  }
  end.set_value();
}

TEST_F(StoreTest, WhoIsLostWhileTheWitnessIsHeardIsTheOneToldOf) {
  std::promise<void> asked;
  std::promise<void> end;
  witness_ = [&asked, ended = end.get_future().share()]() -> std::string {
    asked.set_value();
    ended.wait();
    return "";
  };
  Serve(3);
  auto clients = ConnectAll();
  std::future<Failure> heard = Watch(**clients[1]);
  (*clients[0])->ReportLate(5, 1, "send 5");
  asked.get_future().wait();
  clients[2] = Error::Internal("gone");
  const Failure failure = heard.get();
  EXPECT_EQ(failure.rank, 2);
  EXPECT_EQ(failure.error.kind, ErrorKind::kUnavailable);
  end.set_value();
}

TEST_F(StoreTest, WhatOneRankSetsAllOthersGet) {
  Serve(3);
  const auto clients = ConnectAll();
  ASSERT_TRUE((*clients[1])->Set("key", "value").ok());
  for (const auto& client : clients) {
    Result<std::string> value = (*client)->Get("key", BootTime() + seconds(60));
    ASSERT_TRUE(value.ok());
    EXPECT_EQ(*value, "value");
  }
}

TEST_F(StoreTest, GetWaitsForTheKey) {
  Serve(2);
  const auto clients = ConnectAll();
  std::thread setter([&] {
    // Asked for before it is set: the answer to this Get shows that the other has arrived, or
    // will find the key; both are right.
    EXPECT_TRUE((*clients[1])->Set("late", std::string(kMaxValue, 'x')).ok());
  });
  Result<std::string> value = (*clients[0])->Get("late", BootTime() + seconds(60));
  setter.join();
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->size(), kMaxValue);
}

TEST_F(StoreTest, AKeyIsSetOnceAndAMissingOneTimesOut) {
  Serve(1);
  const auto clients = ConnectAll();
  StoreClient& client = **clients[0];
  EXPECT_TRUE(client.Set("key", "1").ok());
  EXPECT_EQ(client.Set("key", "2").error().kind, ErrorKind::kConflict);
  EXPECT_EQ(client.Set("big", std::string(kMaxValue + 1, 'x')).error().kind, ErrorKind::kTooLarge);
  EXPECT_EQ(client.Get("nobody's", BootTime() + milliseconds(20)).error().kind,
            ErrorKind::kTimeout);
}

TEST_F(StoreTest, ARankOfAnotherGenerationIsToldSoAndChangesNothing) {
  Serve(2);
  StoreClient::Options other = Client(1);
  other.identity = "job/6";
  const auto refused = StoreClient::Connect(other);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kDenied);
  EXPECT_NE(refused.error().message.find("this is job/7, not job/6"), std::string::npos);
  ConnectAll();
}

TEST_F(StoreTest, AnotherWorldSizeOrARankOutsideItIsRefused) {
  Serve(2);
  StoreClient::Options other = Client(1);
  other.world = 4;
  EXPECT_NE(StoreClient::Connect(other).error().message.find("WORLD_SIZE differs"),
            std::string::npos);
  EXPECT_NE(StoreClient::Connect(Client(2)).error().message.find("rank 2 is not in a world of 2"),
            std::string::npos);
}

TEST_F(StoreTest, TheSecondProcessWithTheSameRankIsRefused) {
  Serve(2);
  const auto clients = ConnectAll();
  const auto again = StoreClient::Connect(Client(1));
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.error().message.find("has already joined"), std::string::npos);
  EXPECT_TRUE((*clients[1])->Set("still", "there").ok());
}

TEST_F(StoreTest, MissingRanksAreNamedToThoseThatCame) {
  Serve(4, milliseconds(200));
  const auto alone = StoreClient::Connect(Client(2));
  ASSERT_FALSE(alone.ok());
  EXPECT_EQ(alone.error().kind, ErrorKind::kTimeout);
  EXPECT_NE(alone.error().message.find("ranks 0, 1 and 3 of 4 did not come"), std::string::npos);
}

TEST_F(StoreTest, AClientWhoseTimeIsUpAsksWhoIsMissing) {
  Serve(3);
  StoreClient::Options hasty = Client(0);
  hasty.deadline = BootTime() + milliseconds(100);
  const auto alone = StoreClient::Connect(hasty);
  ASSERT_FALSE(alone.ok());
  EXPECT_NE(alone.error().message.find("ranks 1 and 2 of 3 did not come"), std::string::npos)
      << alone.error().message;
}

TEST_F(StoreTest, WithoutRankZeroItIsRankZeroThatIsMissing) {
  StoreClient::Options hasty = Client(1);
  hasty.deadline = BootTime() + milliseconds(100);
  const auto alone = StoreClient::Connect(hasty);
  ASSERT_FALSE(alone.ok());
  EXPECT_EQ(alone.error().kind, ErrorKind::kTimeout);
  EXPECT_EQ(alone.error().message.rfind("rank 0 is missing", 0), 0u) << alone.error().message;
}

TEST_F(StoreTest, RankZeroMayStartLast) {
  world_ = 2;
  std::vector<std::unique_ptr<StoreClient>> clients(2);
  const auto connect = [&](const StoreClient::Options& options) {
    auto made = StoreClient::Connect(options);
    ASSERT_TRUE(made.ok()) << made.error().message;
    clients[static_cast<size_t>(options.rank)] = std::move(*made);
  };
  const StoreClient::Options last = Client(0);
  std::thread first(connect, Client(1));
  Serve(2);
  connect(last);
  first.join();
  EXPECT_TRUE(clients[0]->Set("a", "b").ok());
}

TEST_F(StoreTest, AnotherJobsPortIsAConflictThatSaysWhatToDo) {
  Serve(2);
  const auto second = StoreServer::Start(
      {.address = "127.0.0.1", .port = port_, .world = 2, .identity = "other/1"});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::kConflict);
  EXPECT_NE(second.error().message.find("MASTER_PORT"), std::string::npos);
}

TEST_F(StoreTest, GarbageEndsItsOwnConnectionOnly) {
  Serve(2);
  const auto clients = ConnectAll();
  Message wrong_magic{.type = MessageType::kHello, .rank = 1, .first = 2, .key = "HELLO"};
  Message too_soon{.type = MessageType::kSet, .key = "key"};
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string(4096, '\0'),
        std::string("\xff\xff\xff\xff"), Encode(wrong_magic), Encode(too_soon)}) {
    const UniqueFd stranger = Stranger();
    Say(stranger, bytes);
    EXPECT_TRUE(Ends(stranger));
  }
  EXPECT_TRUE((*clients[1])->Set("still", "there").ok());
}

TEST_F(StoreTest, SilentStrangersDoNotKeepRanksOut) {
  Serve(2);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 100; ++i) strangers.push_back(Stranger());
  const auto clients = ConnectAll();
  EXPECT_TRUE((*clients[1])->Set("still", "there").ok());
  // The first ones had to go for the later ones.
  EXPECT_TRUE(Ends(strangers.front()));
}

TEST_F(StoreTest, AStrangerThatNeverSpeaksIsClosedInTheEnd) {
  greeting_time_ = milliseconds(50);
  Serve(2);
  const UniqueFd stranger = Stranger();
  Say(stranger, std::string("\0\0", 2));
  EXPECT_TRUE(Ends(stranger));
}

TEST_F(StoreTest, AWaitingGetEndsWhenARankIsLost) {
  Serve(2);
  auto clients = ConnectAll();
  std::thread dies([&] { clients[1] = Error::Internal("gone"); });
  Result<std::string> value = (*clients[0])->Get("never", BootTime() + seconds(60));
  dies.join();
  ASSERT_FALSE(value.ok());
  EXPECT_EQ(value.error().kind, ErrorKind::kUnavailable);
  EXPECT_EQ(value.error().message, "rank 1 is lost: its connection ended");
}

TEST_F(StoreTest, WhatOneRankAnnouncesAllAreTold) {
  Serve(3);
  const auto clients = ConnectAll();
  (*clients[2])->Announce({Error::Timeout("the disk is slow"), 2});
  for (const auto& client : clients) {
    Result<std::string> value = (*client)->Get("never", BootTime() + seconds(60));
    ASSERT_FALSE(value.ok());
    EXPECT_EQ(value.error().kind, ErrorKind::kTimeout);
    EXPECT_EQ(value.error().message, "the disk is slow");
  }
}

}  // namespace
}  // namespace lockstep::collectives
