#include "operator/controller/http_port.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/text/endpoint.h"
#include "base/unique_fd.h"

namespace lockstep::control {
namespace {

// As the kubelet's and Prometheus' requests.
constexpr timeval kPatience = {.tv_sec = 5, .tv_usec = 0};
constexpr size_t kScrape = size_t{256} << 10;

// LOCKSTEP_STRANGERS says how many, or as many as this process may have descriptors.
size_t Strangers() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  const char* said = std::getenv("LOCKSTEP_STRANGERS");
  const size_t wanted = said == nullptr ? 600 : std::strtoul(said, nullptr, 10);
  return std::min<size_t>(wanted, limit.rlim_cur - 512);
}

UniqueFd Dial(uint16_t port, const char* from = "127.0.0.1") {
  const Endpoint own = *MakeEndpoint(from, 0);
  const Endpoint to = *MakeEndpoint("127.0.0.1", port);
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  EXPECT_EQ(bind(fd.get(), own.get(), own.size), 0);
  EXPECT_EQ(connect(fd.get(), to.get(), to.size), 0);
  return fd;
}

void Say(const UniqueFd& fd, const std::string& text) {
  EXPECT_EQ(send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(text.size()));
}

// All of the answer, or what came of it in time.
std::string Ask(uint16_t port, const std::string& request) {
  const UniqueFd fd = Dial(port);
  Say(fd, request + " HTTP/1.1\r\nHost: operator\r\n\r\n");
  std::string answer;
  std::array<char, 65536> buffer;
  for (ssize_t got = 0; (got = recv(fd.get(), buffer.data(), buffer.size(), 0)) > 0;) {
    answer.append(buffer.data(), static_cast<size_t>(got));
  }
  return answer;
}

class HttpPortTest : public ::testing::Test {
 protected:
  HttpPortTest() {
    auto port = HttpPort::Start("--test-address", "0", [](const std::string& path) {
      if (path == "/metrics") return HttpResponse{.body = std::string(kScrape, 'm')};
      return HttpResponse{.body = "answer to " + path + "\n"};
    });
    EXPECT_TRUE(port.ok());
    port_ = std::move(*port);
  }
  void ExpectAnswers() const {
    EXPECT_TRUE(Ask(port_->port(), "GET /healthz").ends_with("\r\n\r\nanswer to /healthz\n"));
    EXPECT_GT(Ask(port_->port(), "GET /metrics").size(), kScrape);
  }

  std::unique_ptr<HttpPort> port_;
};

TEST_F(HttpPortTest, IsShutToNobodyByConnectionsThatSayNothing) {
  const size_t strangers = Strangers();
  std::vector<UniqueFd> idle;
  for (size_t i = 0; i < strangers; ++i) {
    idle.push_back(Dial(port_->port()));
    if (i % 100 == 50) ExpectAnswers();
  }
  ExpectAnswers();
}

TEST_F(HttpPortTest, IsShutToNobodyByClientsThatReadNothing) {
  const size_t strangers = Strangers();
  std::vector<UniqueFd> slow;
  for (size_t i = 0; i < strangers; ++i) {
    slow.push_back(Dial(port_->port()));
    Say(slow.back(), "GET /metrics HTTP/1.1\r\n\r\n");
    if (i % 100 == 50) ExpectAnswers();
  }
  ExpectAnswers();
}

TEST_F(HttpPortTest, IsShutToNobodyByRequestsThatComeByteAfterByte) {
  std::vector<UniqueFd> slow;
  for (size_t i = 0; i < 600; ++i) {
    slow.push_back(Dial(port_->port()));
    for (const UniqueFd& each : slow) send(each.get(), "G", 1, MSG_NOSIGNAL);
    if (i % 100 == 50) ExpectAnswers();
  }
  ExpectAnswers();
}

// As over a network that takes its time: many dial between a scraper's connection and its request.
TEST_F(HttpPortTest, IsShutToNobodyByWhoeverDialsWithoutPauseFromAnotherAddress) {
  std::vector<UniqueFd> dialers;
  for (size_t i = 0; i < 130; ++i) dialers.push_back(Dial(port_->port()));
  const UniqueFd scraper = Dial(port_->port(), "127.0.0.2");
  for (size_t i = 0; i < 300; ++i) dialers.push_back(Dial(port_->port()));
  Ask(port_->port(), "GET /healthz");  // all of them have been accepted
  Say(scraper, "GET /late HTTP/1.1\r\n\r\n");
  std::array<char, 4096> buffer;
  const ssize_t got = recv(scraper.get(), buffer.data(), buffer.size(), 0);
  ASSERT_GT(got, 0);
  EXPECT_TRUE(std::string(buffer.data(), static_cast<size_t>(got)).ends_with("answer to /late\n"));
}

TEST_F(HttpPortTest, AnswersOneRequestAConnectionAndOnlyReads) {
  EXPECT_NE(Ask(port_->port(), "GET /a").find("Connection: close"), std::string::npos);
  EXPECT_TRUE(Ask(port_->port(), "DELETE /healthz").starts_with("HTTP/1.1 405 "));
}

TEST(HttpPort, AnAddressThatIsTakenIsRefusedByTheNameOfItsOption) {
  const auto answer = [](const std::string&) { return HttpResponse{}; };
  const auto first = HttpPort::Start("--health-address", "127.0.0.1:0", answer);
  ASSERT_TRUE(first.ok());
  const std::string taken = "127.0.0.1:" + std::to_string((*first)->port());
  const auto second = HttpPort::Start("--health-address", taken, answer);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().message, "cannot listen on " + taken + " (" + taken +
                                        " is in use by another process); give another "
                                        "--health-address, IP:PORT or PORT");
}

}  // namespace
}  // namespace lockstep::control
