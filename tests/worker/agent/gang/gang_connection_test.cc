// GangListener and GangClient over real sockets on 127.0.0.1.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/base/loop_test_base.h"
#include "worker/agent/gang/gang_client.h"
#include "worker/agent/gang/gang_listener.h"
#include "worker/agent/gang/gang_port.h"

namespace lockstep::agent {
namespace {

Key KeyOf(uint8_t byte) {
  Key key;
  key.fill(byte);
  return key;
}

class GangConnectionTest : public LoopTest {
 protected:
  GangConnectionTest()
      : server_tls_(std::move(*TlsPskContext::Server(KeyOf(1), "job"))),
        client_tls_(std::move(*TlsPskContext::Client(KeyOf(1), "job"))) {}

  void Listen(GangListenerOptions options = {}) {
    auto listener = GangListener::Listen(
        loop(), *MakeEndpoint("127.0.0.1", 0), &server_tls_, options,
        {.on_member =
             [this](std::unique_ptr<FrameConnection> member, const Endpoint&) {
               FrameConnection* raw = member.get();
               members_.push_back(std::move(member));
               raw->Start({.on_message =
                               [this, raw](std::string_view body) {
                                 heard_.emplace_back(body);
                                 raw->Send("heard " + std::string(body.substr(0, 20)));
                               },
                           .on_close =
                               [this, raw](const std::string& reason) {
                                 ends_.push_back(reason);
                                 std::erase_if(members_,
                                               [&](const auto& m) { return m.get() == raw; });
                               }});
             },
         .on_http =
             [this](std::unique_ptr<Connection> connection, std::string_view received) {
               http_.emplace_back(received);
               http_connections_.push_back(std::move(connection));
             }},
        [this](const std::string& line) { log_.push_back(line); });
    ASSERT_TRUE(listener.ok()) << listener.error().message;
    listener_ = std::move(*listener);
  }

  // A stranger's socket.
  UniqueFd Dial() {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const Endpoint& to = listener_->endpoint();
    EXPECT_EQ(connect(fd.get(), to.get(), to.size), 0);
    return fd;
  }
  static void Put(const UniqueFd& fd, std::string_view bytes) {
    EXPECT_EQ(send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  bool Logged(const std::string& text) const {
    return std::any_of(log_.begin(), log_.end(), [&](const std::string& line) {
      return line.find(text) != std::string::npos;
    });
  }

  TlsPskContext server_tls_;
  TlsPskContext client_tls_;
  std::unique_ptr<GangListener> listener_;
  std::vector<std::unique_ptr<FrameConnection>> members_;
  std::vector<std::unique_ptr<Connection>> http_connections_;
  std::vector<std::string> heard_, ends_, http_, log_;
};

// Where connections end that a dead machine was to take: no packet is answered. On Linux that is a
// queue which is full.
class DeadEnd {
 public:
  DeadEnd()
      : listener_(std::move(*ListenTcp(*MakeEndpoint("127.0.0.1", 0), 0))),
        endpoint_(*LocalEndpoint(listener_.get())),
        filler_(std::move(*ConnectTcp(endpoint_))) {
    pollfd connected{.fd = filler_.get(), .events = POLLOUT, .revents = 0};
    EXPECT_EQ(poll(&connected, 1, 5000), 1);
  }
  Result<UniqueFd> Dial() const { return ConnectTcp(endpoint_); }

 private:
  UniqueFd listener_;
  Endpoint endpoint_;
  UniqueFd filler_;
};

// A client that can be told what to do in its callbacks.
struct Talker final : GangClient::Owner {
  Talker(EventLoop* loop, const TlsPskContext* tls, const Endpoint& endpoint,
         GangClient::Dial dial = ConnectTcp)
      : client(loop, tls, endpoint, 2, this, 1, std::move(dial)) {
    client.Start();
  }
  void OnOpen() override { client.Send("hello"); }
  void OnMessage(std::string_view body) override { heard.emplace_back(body); }
  void OnClose(const std::string& reason) override { ends.push_back(reason); }

  std::vector<std::string> heard;
  std::vector<std::string> ends;
  GangClient client;
};

TEST_F(GangConnectionTest, MessagesGoBothWays) {
  Listen();
  Talker talker(loop(), &client_tls_, listener_->endpoint());
  ASSERT_TRUE(RunUntil([&] { return !talker.heard.empty(); }));
  EXPECT_EQ(heard_, std::vector<std::string>{"hello"});
  EXPECT_EQ(talker.heard, std::vector<std::string>{"heard hello"});
  EXPECT_EQ(listener_->refused(), 0U);
}

TEST_F(GangConnectionTest, TheLargestMessageArrivesWhole) {
  Listen();
  Talker talker(loop(), &client_tls_, listener_->endpoint());
  ASSERT_TRUE(RunUntil([&] { return !talker.heard.empty(); }));
  talker.client.Send(std::string(FrameConnection::kMaxBody, 'x'));
  ASSERT_TRUE(RunUntil([&] { return heard_.size() == 2; }));
  EXPECT_EQ(heard_[1], std::string(FrameConnection::kMaxBody, 'x'));
}

// All of them within the five seconds after which a client gives up, also where this process gets
// a fraction of a core.
TEST_F(GangConnectionTest, SixtyClientsGetInThroughAGateOfThree) {
  Listen({.max_handshakes = 3});
  std::vector<std::unique_ptr<Talker>> talkers;
  for (int i = 0; i < 60; ++i) {
    talkers.push_back(std::make_unique<Talker>(loop(), &client_tls_, listener_->endpoint()));
  }
  ASSERT_TRUE(RunUntil([&] { return heard_.size() == 60; }));
  EXPECT_EQ(listener_->refused(), 0U);
  EXPECT_EQ(listener_->connections(), 60U);
}

TEST_F(GangConnectionTest, AClientWithAnotherKeyIsRefusedWithAReasonAndTriesAgain) {
  Listen();
  const auto wrong = TlsPskContext::Client(KeyOf(2), "job");
  Talker talker(loop(), &*wrong, listener_->endpoint());
  ASSERT_TRUE(RunUntil([&] { return talker.ends.size() >= 2; }));
  EXPECT_TRUE(Logged("does not hold this job's key"));
  EXPECT_TRUE(heard_.empty());
}

TEST_F(GangConnectionTest, GarbageIsRefusedAtItsFirstByte) {
  Listen();
  const UniqueFd stranger = Dial();
  Put(stranger, "G");
  ASSERT_TRUE(RunUntil([&] { return listener_->refused() == 1; }));
  EXPECT_TRUE(Logged("not TLS"));
}

TEST_F(GangConnectionTest, HalfAHelloIsRefusedAtItsDeadline) {
  Listen({.greeting_deadline = milliseconds(20)});
  const UniqueFd stranger = Dial();
  Put(stranger, std::string_view("\x16\x03\x01\x01\x00\x01", 6));
  ASSERT_TRUE(RunUntil([&] { return listener_->refused() == 1; }));
  EXPECT_TRUE(Logged("did not prove the key"));
}

TEST_F(GangConnectionTest, PartOfAHelloInARecordOfItsOwnHoldsNoPlace) {
  Listen();
  const UniqueFd stranger = Dial();
  Put(stranger, std::string_view("\x16\x03\x01\x00\x08\x01\x00\x01\x00\x03\x03\0\0", 13));
  ASSERT_TRUE(RunUntil([&] { return listener_->refused() == 1; }));
  EXPECT_TRUE(Logged("not TLS"));
}

TEST_F(GangConnectionTest, ACapturedHelloSentAgainHoldsNoPlace) {
  Listen({.max_handshakes = 1});
  const std::string captured(client_tls_.NewSession()->output());
  UniqueFd first = Dial();
  Put(first, captured);
  char byte = 0;
  ASSERT_TRUE(RunUntil([&] { return recv(first.get(), &byte, 1, MSG_DONTWAIT) == 1; }));
  first.reset();
  const UniqueFd again = Dial();
  Put(again, captured);
  ASSERT_TRUE(RunUntil([&] { return listener_->refused() == 2; }));
  EXPECT_TRUE(Logged("was answered before"));
}

TEST_F(GangConnectionTest, ACrowdOfSilentStrangersMakesRoomForAMember) {
  Listen({.max_connections = 8});
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 40; ++i) strangers.push_back(Dial());
  Talker talker(loop(), &client_tls_, listener_->endpoint());
  ASSERT_TRUE(RunUntil([&] { return !talker.heard.empty(); }));
  EXPECT_LE(listener_->connections(), 8U);
  EXPECT_GE(listener_->refused(), 33U);
  EXPECT_LE(log_.size(), 11U) << "the rate of refusals in the log is limited";
}

TEST_F(GangConnectionTest, MembersAreNeverPushedOutByStrangers) {
  Listen({.max_connections = 2});
  Talker one(loop(), &client_tls_, listener_->endpoint());
  Talker two(loop(), &client_tls_, listener_->endpoint());
  ASSERT_TRUE(RunUntil([&] { return heard_.size() == 2; }));
  const UniqueFd stranger = Dial();
  ASSERT_TRUE(RunUntil([&] { return listener_->refused() == 1; }));
  EXPECT_EQ(listener_->connections(), 2U);
  EXPECT_TRUE(one.ends.empty() && two.ends.empty());
}

TEST_F(GangConnectionTest, AnAnnouncedGigabyteEndsTheConnectionAndTheListenerGoesOn) {
  Listen();
  auto fd = ConnectTcp(listener_->endpoint());
  auto connection = Connection::ConnectTls(loop(), std::move(*fd), &client_tls_);
  std::string end;
  connection->Start({.on_open =
                         [&] {
                           connection->Write(kFrameMagic);
                           connection->Write(std::string_view("\x40\x00\x00\x00zzz", 7));
                         },
                     .on_data = {},
                     .on_close = [&](const std::string& reason) { end = reason; }});
  ASSERT_TRUE(RunUntil([&] { return !ends_.empty() && !end.empty(); }));
  EXPECT_NE(ends_[0].find("a message of 1073741824 bytes"), std::string::npos) << ends_[0];
  Talker talker(loop(), &client_tls_, listener_->endpoint());
  ASSERT_TRUE(RunUntil([&] { return !talker.heard.empty(); }));
}

TEST_F(GangConnectionTest, AMessageOfOneByteAtATimeArrives) {
  Listen();
  auto fd = ConnectTcp(listener_->endpoint());
  auto connection = Connection::ConnectTls(loop(), std::move(*fd), &client_tls_);
  bool open = false;
  connection->Start({.on_open = [&] { open = true; }, .on_data = {}, .on_close = {}});
  ASSERT_TRUE(RunUntil([&] { return open; }));
  for (const char c : std::string(kFrameMagic) + EncodeFrame("slow")) {
    connection->Write({&c, 1});
    Settle();
  }
  ASSERT_TRUE(RunUntil([&] { return !heard_.empty(); }));
  EXPECT_EQ(heard_, std::vector<std::string>{"slow"});
}

TEST_F(GangConnectionTest, HttpIsHandedOnWithTheBytesThatCame) {
  Listen();
  auto fd = ConnectTcp(listener_->endpoint());
  auto connection = Connection::ConnectTls(loop(), std::move(*fd), &client_tls_);
  connection->Start({.on_open = [&] { connection->Write("GET /status HTTP/1.1\r\n"); },
                     .on_data = {},
                     .on_close = {}});
  ASSERT_TRUE(RunUntil([&] { return !http_.empty(); }));
  EXPECT_EQ(http_[0], "GET /status HTTP/1.1\r\n");
}

TEST_F(GangConnectionTest, APeerThatDoesNotReadIsCutOff) {
  Listen();
  Talker talker(loop(), &client_tls_, listener_->endpoint());
  ASSERT_TRUE(RunUntil([&] { return !members_.empty() && !talker.heard.empty(); }));
  // All within one round, so nothing is sent in between.
  for (int i = 0; i < 64 && !members_.empty(); ++i) members_[0]->Send(std::string(60'000, 'x'));
  ASSERT_TRUE(RunUntil([&] { return !ends_.empty(); }));
  EXPECT_NE(ends_[0].find("the peer does not read"), std::string::npos) << ends_[0];
}

TEST_F(GangConnectionTest, TheClientComesBackWhenTheLineIsCutAndTellsWhy) {
  Listen();
  Talker talker(loop(), &client_tls_, listener_->endpoint());
  ASSERT_TRUE(RunUntil([&] { return heard_.size() == 1; }));
  members_[0]->Close("no reason");
  ASSERT_TRUE(RunUntil([&] { return heard_.size() == 2; }));
  EXPECT_EQ(talker.ends.size(), 1U);
}

TEST_F(GangConnectionTest, TheClientGetsInOnceTheListenerIsThere) {
  Listen();
  const Endpoint endpoint = listener_->endpoint();
  listener_.reset();
  Talker talker(loop(), &client_tls_, endpoint);
  ASSERT_TRUE(RunUntil([&] { return !talker.ends.empty(); }));
  auto listener =
      GangListener::Listen(loop(), endpoint, &server_tls_, {},
                           {.on_member =
                                [&](std::unique_ptr<FrameConnection> member, const Endpoint&) {
                                  member->Start({});
                                  members_.push_back(std::move(member));
                                },
                            .on_http = {}},
                           [](const std::string&) {});
  ASSERT_TRUE(listener.ok());
  EXPECT_TRUE(RunUntil([&] { return members_.size() == 1; }));
}

TEST_F(GangConnectionTest, ASmallGangDialsAMachine0ThatIsNotThereYetOftenAndALargeOneSeldom) {
  EXPECT_EQ(GangClient::LastRetry(2), milliseconds(100));
  EXPECT_EQ(GangClient::LastRetry(60), milliseconds(300));
  EXPECT_EQ(GangClient::LastRetry(1000), seconds(1));
  Listen();
  const Endpoint endpoint = listener_->endpoint();
  listener_.reset();
  Talker talker(loop(), &client_tls_, endpoint);
  ASSERT_TRUE(RunUntil([&] { return talker.ends.size() == 6; }));  // 5, 10, 20, 40, 80 ms
  const Time began = BootTime();
  bool late = false;
  loop()->StartTimer(began + seconds(5), [&] { late = true; });
  ASSERT_TRUE(RunUntil([&] { return late || talker.ends.size() == 21; }));
  EXPECT_FALSE(late) << "fifteen pauses of 100 ms";
}

TEST_F(GangConnectionTest, ADialToADeadMachineDoesNotKeepTheClientFromWhoCameInItsPlace) {
  Listen();
  const DeadEnd dead;
  int dials = 0;
  Talker talker(loop(), &client_tls_, listener_->endpoint(), [&](const Endpoint& endpoint) {
    return ++dials == 1 ? dead.Dial() : ConnectTcp(endpoint);
  });
  ASSERT_TRUE(RunUntil([&] { return !talker.heard.empty(); }));
  EXPECT_EQ(dials, 2);
  EXPECT_TRUE(talker.ends.empty()) << "it waited until " << talker.ends[0];
}

TEST_F(GangConnectionTest, APeerThatTakesItsTimeIsDialledNoSecondTime) {
  Listen({.max_handshakes = 0, .greeting_deadline = GangClient::kDialBeside + milliseconds(200)});
  int dials = 0;
  Talker talker(loop(), &client_tls_, listener_->endpoint(), [&](const Endpoint& endpoint) {
    ++dials;
    return ConnectTcp(endpoint);
  });
  ASSERT_TRUE(RunUntil([&] { return !talker.ends.empty(); }));
  EXPECT_EQ(dials, 1);
}

TEST_F(GangConnectionTest, ADialThatWaitsIsKeptBesideTheNextOnes) {
  Listen();
  const DeadEnd dead;
  std::vector<int> dials;
  Talker talker(loop(), &client_tls_, listener_->endpoint(), [&](const Endpoint&) {
    Result<UniqueFd> fd = dead.Dial();
    dials.push_back(fd->get());
    return fd;
  });
  ASSERT_TRUE(RunUntil([&] { return dials.size() == 3; }));
  EXPECT_EQ(std::set(dials.begin(), dials.end()).size(), 3U)
      << "a socket was closed and its number taken again";
  EXPECT_TRUE(talker.ends.empty());
}

// A member that says HELLO whenever it may.
struct SmallMember final : GangPort::Owner {
  void OnGangOpen() override { port->Send(core::Hello{}); }
  void OnGangMessage(const core::Message& /*message*/) override {
    ADD_FAILURE() << "that was no message";
  }
  void OnGangClose(const std::string& reason) override { ends.push_back(reason); }

  std::vector<std::string> ends;
  std::unique_ptr<WirePort> port;
};

TEST_F(GangConnectionTest, AMemberSpeaksAgainAfterWhatCannotBeRead) {
  Listen();  // which answers with what is no message
  SmallMember member;
  member.port =
      std::make_unique<WirePort>(loop(), &client_tls_, listener_->endpoint(), 2, &member, 1);
  member.port->Start();
  ASSERT_TRUE(RunUntil([&] { return member.ends.size() == 2; }));
  EXPECT_TRUE(member.ends[0].starts_with("machine 0 sent what cannot be read")) << member.ends[0];
  EXPECT_TRUE(core::Decode(heard_[1]).ok());
}

TEST_F(GangConnectionTest, APortInUseIsAConflict) {
  Listen();
  const auto second = GangListener::Listen(loop(), listener_->endpoint(), &server_tls_, {}, {},
                                           [](const std::string&) {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::kConflict);
}

}  // namespace
}  // namespace lockstep::agent
