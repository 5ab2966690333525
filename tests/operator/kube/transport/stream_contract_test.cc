// What every Stream does, on real sockets, against a server that keeps to a script byte for byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <future>
#include <string>
#include <vector>

#include "base/thread_annotations.h"
#include "operator/kube/http/transport.h"
#include "tests/operator/kube/server/scripted_server.h"

namespace lockstep::kube::stream_contract_test {
namespace {

constexpr Duration kPatience = seconds(60);
constexpr char kHead[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

std::string Chunk(const std::string& data) {
  char size[32];
  std::snprintf(size, sizeof(size), "%zx\r\n", data.size());
  return size + data + "\r\n";
}

// All that a stream said; its methods wait for it.
class Listener {
 public:
  StreamHandlers Handlers() {
    return {.on_head =
                [this](const Response& head) {
                  MutexLock lock(&mutex_);
                  heads_.push_back(head);
                },
            .on_data =
                [this](std::string_view data) {
                  MutexLock lock(&mutex_);
                  data_.append(data);
                  largest_ = std::max(largest_, data.size());
                  ++calls_;
                  changed_.notify_all();
                },
            .on_end =
                [this](Status status) {
                  MutexLock lock(&mutex_);
                  ends_.push_back(std::move(status));
                  changed_.notify_all();
                }};
  }

  Status End() {
    MutexLock lock(&mutex_);
    Time until = BootTime() + kPatience;
    while (ends_.empty() && BootTime() < until) changed_.wait_for(mutex_, milliseconds(100));
    return ends_.empty() ? Status(Error::Internal("it never ended")) : ends_.front();
  }

  std::string Data(size_t bytes) {
    MutexLock lock(&mutex_);
    Time until = BootTime() + kPatience;
    while (data_.size() < bytes && BootTime() < until) {
      changed_.wait_for(mutex_, milliseconds(100));
    }
    return data_;
  }

  void Forget() {
    MutexLock lock(&mutex_);
    heads_.clear();
    data_.clear();
    ends_.clear();
  }

  std::vector<Response> heads() {
    MutexLock lock(&mutex_);
    return heads_;
  }
  size_t ends() {
    MutexLock lock(&mutex_);
    return ends_.size();
  }
  size_t calls() {
    MutexLock lock(&mutex_);
    return calls_;
  }
  size_t largest() {
    MutexLock lock(&mutex_);
    return largest_;
  }

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Response> heads_ GUARDED_BY(mutex_);
  std::string data_ GUARDED_BY(mutex_);
  std::vector<Status> ends_ GUARDED_BY(mutex_);
  size_t calls_ GUARDED_BY(mutex_) = 0;
  size_t largest_ GUARDED_BY(mutex_) = 0;
};

class StreamTest : public testing::Test {
 protected:
  StreamTest() : ca_("test CA"), identity_(ca_.Issue("api", "IP:127.0.0.1")) {}

  std::unique_ptr<Transport> Make(const ScriptedServer& server) {
    ClientConfig config;
    config.server = server.url();
    config.ca.value = ca_.pem();
    TransportOptions options;
    options.connections = 1;
    auto transport = MakeTransport(config, options);
    EXPECT_TRUE(transport.ok()) << transport.error().message;
    return std::move(*transport);
  }

  // How a stream ends that `script` serves.
  Status EndOf(const ScriptedServer::Script& script, Duration idle = kPatience) {
    ScriptedServer server(identity_, script);
    auto transport = Make(server);
    auto stream = transport->Open(kWatch, idle, listener_.Handlers());
    return listener_.End();
  }

  const Request kWatch{Method::kGet, "/api/v1/pods?watch=1", ""};
  TestCa ca_;
  Issued identity_;
  Listener listener_;
};

TEST_F(StreamTest, DataComesAsSoonAsItIsSentWhateverTheChunks) {
  std::promise<void> seen_first;
  ScriptedServer server(identity_, [&](ServerConnection& connection) {
    connection.Read();
    connection.Write(kHead + Chunk("one\n"));
    seen_first.get_future().wait();
    for (char c : Chunk("two\n") + Chunk("three") + "0\r\n\r\n") {
      connection.Write(std::string(1, c));
    }
    connection.AwaitClose();
  });
  auto transport = Make(server);
  auto stream = transport->Open(kWatch, kPatience, listener_.Handlers());
  EXPECT_EQ(listener_.Data(4), "one\n");
  seen_first.set_value();
  Status end = listener_.End();
  EXPECT_TRUE(end.ok()) << end.error().message;
  EXPECT_EQ(listener_.Data(0), "one\ntwo\nthree");
  ASSERT_EQ(listener_.heads().size(), 1);
  EXPECT_EQ(listener_.heads()[0].status, 200);
}

TEST_F(StreamTest, AnErrorComesWithItsBodyInTheHead) {
  Status end = EndOf([](ServerConnection& connection) {
    connection.Read();
    connection.Answer(410, "{\"kind\":\"Status\"}", "Retry-After: 1\r\n");
    connection.AwaitClose();
  });
  EXPECT_TRUE(end.ok());
  ASSERT_EQ(listener_.heads().size(), 1);
  EXPECT_EQ(listener_.heads()[0].status, 410);
  EXPECT_EQ(listener_.heads()[0].body, "{\"kind\":\"Status\"}");
  EXPECT_EQ(listener_.heads()[0].retry_after, seconds(1));
  EXPECT_EQ(listener_.calls(), 0);
}

TEST_F(StreamTest, AnErrorsBodyHasALimit) {
  Status end = EndOf([](ServerConnection& connection) {
    connection.Read();
    connection.Answer(500, std::string(kMaxErrorBody + 1, 'x'));
    connection.AwaitClose();
  });
  ASSERT_FALSE(end.ok());
  EXPECT_EQ(end.error().kind, ErrorKind::kTooLarge);
}

TEST_F(StreamTest, AStreamCutOffAnywhereIsUnavailable) {
  for (const std::string& part :
       {std::string("HTTP/1.1 200"), std::string(kHead), kHead + std::string("5\r\nab"),
        kHead + Chunk("whole\n"), kHead + Chunk("whole\n") + "0\r\n"}) {
    for (bool reset : {false, true}) {
      listener_.Forget();
      Status end = EndOf([&](ServerConnection& connection) {
        connection.Read();
        connection.Write(part);
        if (reset) connection.Cut();
      });
      ASSERT_FALSE(end.ok()) << part;
      EXPECT_EQ(end.error().kind, ErrorKind::kUnavailable) << part << end.error().message;
    }
  }
}

TEST_F(StreamTest, AHalfOpenStreamTimesOut) {
  for (const std::string& part : {std::string(), kHead + Chunk("one\n")}) {
    listener_.Forget();
    Status end = EndOf(
        [&](ServerConnection& connection) {
          connection.Read();
          if (!part.empty()) connection.Write(part);
          connection.AwaitClose();
        },
        milliseconds(200));
    ASSERT_FALSE(end.ok());
    EXPECT_EQ(end.error().kind, ErrorKind::kTimeout) << end.error().message;
  }
}

TEST_F(StreamTest, AStreamThatIsNotSilentOutlivesTheIdleTimeout) {
  std::atomic<bool> enough = false;
  ScriptedServer server(identity_, [&](ServerConnection& connection) {
    connection.Read();
    connection.Write(kHead);
    while (!enough && connection.Write(Chunk("x"))) {
      std::this_thread::sleep_for(milliseconds(20));
    }
    connection.Write("0\r\n\r\n");
    connection.AwaitClose();
  });
  auto transport = Make(server);
  Time begin = BootTime();
  auto stream = transport->Open(kWatch, seconds(5), listener_.Handlers());
  while (BootTime() - begin < seconds(6) && listener_.ends() == 0) listener_.Data(1);
  enough = true;
  Status end = listener_.End();
  EXPECT_TRUE(end.ok()) << end.error().message;
}

TEST_F(StreamTest, ALargeChunkComesInPieces) {
  const std::string large(16 << 20, 'x');
  Status end = EndOf([&](ServerConnection& connection) {
    connection.Read();
    connection.Write(kHead + Chunk(large) + "0\r\n\r\n");
    connection.AwaitClose();
  });
  EXPECT_TRUE(end.ok());
  EXPECT_EQ(listener_.Data(large.size()).size(), large.size());
  EXPECT_LE(listener_.largest(), 64 << 10);
}

TEST_F(StreamTest, ASilentStreamIsCancelledAtOnce) {
  for (const std::string& part : {std::string(), std::string(kHead), kHead + Chunk("one\n")}) {
    listener_.Forget();
    std::promise<void> written;
    ScriptedServer server(identity_, [&](ServerConnection& connection) {
      connection.Read();
      if (!part.empty()) connection.Write(part);
      written.set_value();
      connection.AwaitClose();  // it ends: the client closes the connection
    });
    auto transport = Make(server);
    auto stream = transport->Open(kWatch, kPatience, listener_.Handlers());
    written.get_future().wait();
    Time begin = BootTime();
    stream.reset();
    EXPECT_LT(BootTime() - begin, seconds(10));
    EXPECT_EQ(listener_.ends(), 0);
  }
}

TEST_F(StreamTest, AStreamThatIsStillConnectingIsCancelledAtOnce) {
  ScriptedServer server(identity_, [](ServerConnection&) {}, {.speaks = false});
  auto transport = Make(server);
  auto stream = transport->Open(kWatch, kPatience, listener_.Handlers());
  Time begin = BootTime();
  stream.reset();
  EXPECT_LT(BootTime() - begin, seconds(10));
  EXPECT_EQ(listener_.ends(), 0);
}

TEST_F(StreamTest, NothingIsHeardAfterACancelInTheMidstOfData) {
  ScriptedServer server(identity_, [](ServerConnection& connection) {
    connection.Read();
    connection.Write(kHead);
    while (connection.Write(Chunk(std::string(1000, 'x')))) {
    }
  });
  auto transport = Make(server);
  for (int i = 0; i < 50; ++i) {
    auto listener = std::make_unique<Listener>();
    auto stream = transport->Open(kWatch, kPatience, listener->Handlers());
    listener->Data(1 + static_cast<size_t>(i) * 1000);
    stream.reset();
    listener.reset();  // a handler that ran now would use what is gone
  }
}

TEST_F(StreamTest, RequestsGoOnBesideAStream) {
  ScriptedServer server(identity_, [](ServerConnection& connection) {
    while (auto received = connection.Read()) {
      if (received->path == "/api") {
        connection.Answer(200, "{}");
      } else {
        connection.Write(kHead + Chunk("event\n"));
      }
    }
  });
  auto transport = Make(server);
  auto stream = transport->Open(kWatch, kPatience, listener_.Handlers());
  listener_.Data(1);
  for (int i = 0; i < 10; ++i) {
    std::promise<Result<Response>> answer;
    transport->Send({Method::kGet, "/api", ""}, kPatience,
                    [&](Result<Response> result) { answer.set_value(std::move(result)); });
    Result<Response> response = answer.get_future().get();
    EXPECT_TRUE(response.ok()) << response.error().message;
  }
  EXPECT_EQ(server.accepted(), 2);
  EXPECT_EQ(listener_.ends(), 0);
}

}  // namespace
}  // namespace lockstep::kube::stream_contract_test
