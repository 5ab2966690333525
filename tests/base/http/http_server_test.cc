#include "base/http/http_server.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/base/loop_test_base.h"
#include "tests/base/shell.h"

namespace lockstep {
namespace {

// A client's socket and what came from it.
struct HttpClient {
  HttpClient(EventLoop* loop, const Endpoint& to) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(fd, to.get(), to.size), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    raw = fd;
    answer = std::make_unique<Output>(loop, UniqueFd(fd));
  }
  void Put(std::string_view bytes) const {
    EXPECT_EQ(send(raw, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  const std::string& text() const { return answer->text(); }
  bool has(std::string_view part) const { return text().find(part) != std::string::npos; }

  int raw = -1;
  std::unique_ptr<Output> answer;
};

class HttpServerTest : public LoopTest {
 protected:
  void Serve(HttpServerOptions options = {}) {
    server_ = std::make_unique<HttpServer>(
        loop(), options, [this](const HttpRequest& request, HttpResponder respond) {
          if (request.path == "/wait") {
            waiting_.push_back(std::move(respond));
            return;
          }
          respond.Send({.body = request.method + " " + request.path + " " + request.body});
        });
    ASSERT_TRUE(server_->Listen(*MakeEndpoint("127.0.0.1", 0)).ok());
  }
  HttpClient Dial() { return HttpClient(loop(), server_->endpoint()); }

  std::vector<HttpResponder> waiting_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, TakesBodiesAsLargeAsItIsTold) {
  Serve({.max_body = 100000});
  const HttpClient client = Dial();
  client.Put("PUT /a HTTP/1.1\r\nContent-Length: 100000\r\n\r\n");
  client.Put(std::string(100000, 'x'));
  ASSERT_TRUE(RunUntil([&] { return client.has("PUT /a xxx"); }));
  client.Put("PUT /a HTTP/1.1\r\nContent-Length: 100001\r\n\r\n");
  ASSERT_TRUE(RunUntil([&] { return client.has("413"); }));
}

TEST_F(HttpServerTest, AnswersOneRequestAfterTheOtherOnOneConnection) {
  Serve();
  const HttpClient client = Dial();
  client.Put("GET /a HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(RunUntil([&] { return client.has("GET /a "); }));
  EXPECT_TRUE(client.text().starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(client.has("Connection: keep-alive"));
  client.Put("PUT /b HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi");
  EXPECT_TRUE(RunUntil([&] { return client.has("PUT /b hi"); }));
}

TEST_F(HttpServerTest, AnswersRequestsThatCameTogetherInOrder) {
  Serve();
  const HttpClient client = Dial();
  client.Put("GET /wait HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\nGET /c HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(RunUntil([&] { return waiting_.size() == 1; }));
  Settle();
  EXPECT_EQ(client.text(), "");
  waiting_[0].Send({.body = "first"});
  ASSERT_TRUE(RunUntil([&] { return client.has("GET /c"); }));
  EXPECT_LT(client.text().find("first"), client.text().find("GET /b"));
  EXPECT_LT(client.text().find("GET /b"), client.text().find("GET /c"));
}

TEST_F(HttpServerTest, ALongPollIsAnsweredLaterAndOnlyOnce) {
  Serve();
  const HttpClient client = Dial();
  client.Put("GET /wait HTTP/1.1\r\nConnection: close\r\n\r\n");
  ASSERT_TRUE(RunUntil([&] { return waiting_.size() == 1; }));
  EXPECT_FALSE(waiting_[0].gone());
  HttpResponder copy = waiting_[0];
  waiting_[0].Send({.status = 409, .body = "one"});
  EXPECT_TRUE(copy.gone());
  copy.Send({.body = "two"});
  ASSERT_TRUE(RunUntil([&] { return client.answer->ended(); }));
  EXPECT_TRUE(client.text().starts_with("HTTP/1.1 409 Conflict\r\n"));
  EXPECT_TRUE(client.text().ends_with("\r\n\r\none"));
}

TEST_F(HttpServerTest, AClientThatHungUpIsGoneAndAnsweringItDoesNothing) {
  Serve();
  {
    const HttpClient client = Dial();
    client.Put("GET /wait HTTP/1.1\r\n\r\n");
    ASSERT_TRUE(RunUntil([&] { return waiting_.size() == 1; }));
  }
  ASSERT_TRUE(RunUntil([&] { return waiting_[0].gone(); }));
  waiting_[0].Send({.body = "late"});
  EXPECT_EQ(server_->connections(), 0U);
}

TEST_F(HttpServerTest, AResponderMayOutliveTheServer) {
  Serve();
  const HttpClient client = Dial();
  client.Put("GET /wait HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(RunUntil([&] { return waiting_.size() == 1; }));
  server_.reset();
  EXPECT_TRUE(waiting_[0].gone());
  waiting_[0].Send({.body = "late"});
}

TEST_F(HttpServerTest, HeadHasNoBody) {
  Serve();
  const HttpClient client = Dial();
  client.Put("HEAD /a HTTP/1.1\r\nConnection: close\r\n\r\n");
  ASSERT_TRUE(RunUntil([&] { return client.answer->ended(); }));
  EXPECT_TRUE(client.has("Content-Length: 8"));
  EXPECT_TRUE(client.text().ends_with("\r\n\r\n"));
}

TEST_F(HttpServerTest, GarbageGetsAReasonAndTheEnd) {
  Serve();
  const HttpClient client = Dial();
  client.Put("\x16\x03\x01garbage");
  ASSERT_TRUE(RunUntil([&] { return client.answer->ended(); }));
  EXPECT_TRUE(client.text().starts_with("HTTP/1.1 400 Bad Request\r\n"));
}

TEST_F(HttpServerTest, ARequestThatIsNeverWholeEndsAtItsDeadline) {
  Serve({.request_deadline = milliseconds(30)});
  const HttpClient client = Dial();
  client.Put("GET / HT");
  ASSERT_TRUE(RunUntil([&] { return client.answer->ended(); }));
  EXPECT_EQ(server_->connections(), 0U);
}

TEST_F(HttpServerTest, OneByteAtATimeDoesNotPutTheDeadlineOff) {
  Serve({.request_deadline = milliseconds(50)});
  const HttpClient client = Dial();
  std::function<void()> drip = [&] {
    if (send(client.raw, "G", 1, MSG_NOSIGNAL) == 1) {
      loop()->StartTimer(BootTime() + milliseconds(5), drip);
    }
  };
  drip();
  EXPECT_TRUE(RunUntil([&] { return client.answer->ended(); }));
}

TEST_F(HttpServerTest, AConnectionWithoutARequestEndsAtItsDeadline) {
  Serve({.idle_deadline = milliseconds(30)});
  const HttpClient client = Dial();
  client.Put("GET / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(RunUntil([&] { return client.answer->ended(); }));
  EXPECT_TRUE(client.has("200 OK"));
}

TEST_F(HttpServerTest, WhenAllPlacesAreTakenTheLongestIdleConnectionMakesRoom) {
  Serve({.max_connections = 3});
  std::vector<HttpClient> clients;
  for (size_t i = 0; i < 3; ++i) {
    clients.push_back(Dial());
    clients[i].Put("GET /first HTTP/1.1\r\n\r\n");
    ASSERT_TRUE(RunUntil([&] { return clients[i].has("GET /first"); }));
  }
  clients[0].Put("GET /second HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(RunUntil([&] { return clients[0].has("GET /second"); }));
  const HttpClient scraper = Dial();
  scraper.Put("GET /metrics HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(RunUntil([&] { return scraper.has("GET /metrics") && clients[1].answer->ended(); }));
  EXPECT_EQ(server_->connections(), 3U);
  EXPECT_FALSE(clients[0].answer->ended() || clients[2].answer->ended());
}

TEST_F(HttpServerTest, WhoWaitsForAnAnswerKeepsItsPlace) {
  Serve({.max_connections = 2});
  std::vector<HttpClient> polls;
  for (size_t i = 0; i < 2; ++i) {
    polls.push_back(Dial());
    polls[i].Put("GET /wait HTTP/1.1\r\n\r\n");
    ASSERT_TRUE(RunUntil([&] { return waiting_.size() == i + 1; }));
  }
  const HttpClient refused = Dial();
  ASSERT_TRUE(RunUntil([&] { return refused.answer->ended(); }));
  for (const HttpResponder& each : waiting_) EXPECT_FALSE(each.gone());
}

}  // namespace
}  // namespace lockstep
