#include <cpprest/containerstream.h>
#include <cpprest/http_client.h>
#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <pplx/threadpool.h>

#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <unordered_set>
#include <utility>  // first: Boost 1.74's asio needs it in C++20 and does not say so
#include <vector>

#include "operator/kube/http/cpprest/connection.h"
#include "operator/kube/http/cpprest/tls.h"
#include "operator/kube/http/transport_factory.h"

namespace lockstep::kube {
namespace {

namespace http = web::http;
using Buffer = concurrency::streams::container_buffer<std::vector<uint8_t>>;

constexpr Duration kWarmEvery = seconds(20);  // cpprestsdk drops what was idle for 30 s
constexpr Duration kWarmTimeout = seconds(10);
constexpr size_t kMaxHeaders = 64 * 1024;
constexpr size_t kReadAhead = 64 * 1024;  // cpprestsdk reads beyond what it looks for

boost::asio::io_service& Service() {
  static std::once_flag once;
  std::call_once(once, [] { crossplat::threadpool::initialize_with_threads(1); });
  return crossplat::threadpool::shared_instance().service();
}

// A request under way, on a connection of its own. Answered once, by whichever comes first: the
// answer, the deadline, a limit, the end of the transport. All of it is on cpprestsdk's thread.
class CpprestCall : public std::enable_shared_from_this<CpprestCall> {
 public:
  using Message = std::function<http::http_request()>;

  CpprestCall(std::unique_ptr<CpprestConnection> connection, Message message, size_t max_body)
      : connection_(std::move(connection)),
        message_(std::move(message)),
        max_body_(max_body),
        timer_(Service()) {}

  void OnResponse(Transport::OnResponse on_response) { on_response_ = std::move(on_response); }

  void Begin(Duration timeout) {
    timer_.expires_after(timeout);
    timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      if (!error) self->Cancel(Error::Timeout("the API server did not answer in time"));
    });
    Send();
  }

  void Cancel(Error why) {
    Answer(std::move(why));
    cancel_.cancel();
  }

  // Once it is answered: fit for the next request if the answer was whole.
  std::unique_ptr<CpprestConnection> Release() { return std::move(connection_); }

 private:
  void Send() {
    auto self = shared_from_this();
    // Not at once: OpenSSL is being called, under cpprestsdk's lock of the connection.
    connection_->Begin(kMaxHeaders + kReadAhead, [weak = weak_from_this()] {
      Service().post([weak] {
        if (auto call = weak.lock()) call->Cancel(Error::TooLarge("the answer is too large"));
      });
    });
    http::http_request message = message_();
    message.set_response_stream(body_.create_ostream());
    message.set_progress_handler(
        [self](http::message_direction::direction direction, utility::size64_t bytes) {
          if (direction != http::message_direction::download) return;
          if (bytes > self->max_body_) {
            self->too_large_ = true;
            throw std::runtime_error("too large");  // the only way to end it from here
          }
          self->AllowPiece();
        });
    connection_->client()
        .request(message, cancel_.get_token())
        .then([self](const pplx::task<http::http_response>& head) { self->Head(head); });
  }

  // The next that is handed over may be as large as a whole body.
  void AllowPiece() {
    if (connection_) connection_->Allow(max_body_ + kReadAhead);
  }

  void Head(const pplx::task<http::http_response>& head) {
    try {
      http::http_response response = head.get();
      AllowPiece();
      response.content_ready().then(
          [self = shared_from_this()](const pplx::task<http::http_response>& whole) {
            self->Whole(whole);
          });
    } catch (const std::exception& e) {
      // cpprestsdk itself sends again what was lost while it read, not what was while it wrote.
      if (on_response_ && connection_->WasClosedMeanwhile()) {
        Send();
      } else {
        Answer(ErrorOf(e));
      }
    }
  }

  void Whole(const pplx::task<http::http_response>& whole) {
    try {
      http::http_response received = whole.get();
      Response response;
      response.status = received.status_code();
      response.body.assign(body_.collection().begin(), body_.collection().end());
      int64_t after = 0;
      if (received.headers().match("Retry-After", after) && after >= 0) {
        response.retry_after = seconds(std::min<int64_t>(after, 3600));
      }
      if (response.body.size() > max_body_) {
        Answer(Error::TooLarge("the answer is too large"));
      } else {
        Answer(std::move(response));
      }
    } catch (const std::exception& e) {
      Answer(ErrorOf(e));
    }
  }

  Error ErrorOf(const std::exception& e) const {
    if (too_large_) return Error::TooLarge("the answer is too large");
    auto* failed = dynamic_cast<const http::http_exception*>(&e);
    auto code = failed == nullptr ? 0 : static_cast<unsigned>(failed->error_code().value());
    if (ERR_GET_LIB(code) == ERR_LIB_SSL &&
        ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED) {
      return Error::Denied(
          "no TLS with the API server: its certificate is not signed by the cluster's CA");
    }
    return Error::Unavailable(std::string("the API server cannot be reached: ") + e.what());
  }

  void Answer(Result<Response> result) {
    if (!on_response_) return;
    timer_.cancel();
    std::exchange(on_response_, nullptr)(std::move(result));
  }

  std::unique_ptr<CpprestConnection> connection_;
  const Message message_;
  Transport::OnResponse on_response_;
  const size_t max_body_;
  Buffer body_;
  bool too_large_ = false;
  pplx::cancellation_token_source cancel_;
  boost::asio::steady_timer timer_;
};

class CpprestTransport final : public Transport {
 public:
  CpprestTransport(TransportParts parts, std::unique_ptr<Transport> streams)
      : server_(std::move(parts.server)),
        name_(std::move(parts.tls_server_name)),
        credentials_(std::move(parts.credentials)),
        streams_(std::move(streams)),
        options_(std::move(parts.options)),
        warm_timer_(Service()) {
    if (options_.connections > 1) Service().post([this] { Warm(); });
  }

  ~CpprestTransport() override {
    std::promise<void> ended;
    Service().post([this, &ended] {
      ending_ = true;
      warm_timer_.cancel();
      while (!calls_.empty()) {
        Shared call = *calls_.begin();
        call->Cancel(Error::Unavailable("the connection to the API server is being closed"));
      }
      idle_.clear();
      // Posted behind the handlers of the requests that were cancelled just now.
      Service().post([&ended] { ended.set_value(); });
    });
    ended.get_future().wait();
  }

  void Send(Request request, Duration timeout, OnResponse on_response) override {
    Service().post([this, request = std::move(request), timeout, done = std::move(on_response)] {
      Start(request, BootTime() + timeout, done);
    });
  }

  std::unique_ptr<Stream> Open(Request request, Duration idle_timeout,
                               StreamHandlers handlers) override {
    return streams_->Open(std::move(request), idle_timeout, std::move(handlers));
  }

 private:
  using Shared = std::shared_ptr<CpprestCall>;

  // ---- on cpprestsdk's thread ----
  void Start(const Request& request, Time deadline, const OnResponse& done) {
    if (interim_) {
      streams_->Send(request, deadline - BootTime(), done);
      return;
    }
    std::shared_ptr<const Identity> identity = credentials_->Current();
    Status status = UseMaterial(identity->tls);
    if (!status.ok()) {
      done(status.error());
      return;
    }
    auto call = std::make_shared<CpprestCall>(
        TakeConnection(), [this, request, identity] { return MessageOf(request, *identity); },
        options_.max_body);
    calls_.insert(call);
    // The call holds this, and is held by what may outlive the answer: a weak pointer.
    call->OnResponse([this, request, deadline, identity, done,
                      weak = std::weak_ptr(call)](Result<Response> result) {
      Shared ended = weak.lock();
      calls_.erase(ended);
      if (result.ok() && result->status < 200) {
        // cpprestsdk takes `100 Continue` for the answer, and what follows it on the connection for
        // the next request's. No server sends it unasked but some proxies: libcurl is for those.
        interim_ = true;
        Start(request, deadline, done);
        return;
      }
      if (result.ok()) Keep(ended->Release(), identity->tls);
      if (result.ok() && result->status == 401) credentials_->Refused(identity);
      done(std::move(result));
    });
    call->Begin(deadline - BootTime());
  }

  http::http_request MessageOf(const Request& request, const Identity& identity) const {
    http::http_request message(ToString(request.method));
    message.set_request_uri(request.path);
    http::http_headers& headers = message.headers();
    headers.add("Accept", "application/json");
    headers.add("User-Agent", options_.user_agent);
    if (!identity.authorization.empty()) headers.add("Authorization", identity.authorization);
    // It takes the name that the certificate must have from here.
    if (!name_.empty()) headers.add("Host", name_);
    if (!request.body.empty()) message.set_body(request.body, request.content_type);
    return message;
  }

  // Connections are made with the material that is used now.
  Status UseMaterial(const std::shared_ptr<const TlsMaterial>& material) {
    if (tls_ && material_ == material) return {};
    Result<std::shared_ptr<const CpprestTls>> tls = CpprestTls::Create(*material);
    if (!tls.ok()) return Error::Denied(tls.error().message);
    idle_.clear();
    tls_ = std::move(*tls);
    material_ = material;
    return {};
  }

  std::unique_ptr<CpprestConnection> TakeConnection() {
    if (idle_.empty()) return std::make_unique<CpprestConnection>(server_, tls_);
    auto connection = std::move(idle_.back());
    idle_.pop_back();
    return connection;
  }

  void Keep(std::unique_ptr<CpprestConnection> connection,
            const std::shared_ptr<const TlsMaterial>& material) {
    if (material == material_ && idle_.size() < options_.connections) {
      idle_.push_back(std::move(connection));
    }
  }

  void Warm() {
    if (ending_ || interim_) return;
    for (size_t i = 0; i < options_.connections; ++i) {
      Start({Method::kGet, "/version", ""}, BootTime() + kWarmTimeout,
            [](const Result<Response>&) {});
    }
    warm_timer_.expires_after(kWarmEvery);
    warm_timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) Warm();
    });
  }

  const std::string server_;
  const std::string name_;
  const std::shared_ptr<Credentials> credentials_;
  const std::unique_ptr<Transport> streams_;
  const TransportOptions options_;
  std::shared_ptr<const TlsMaterial> material_;
  std::shared_ptr<const CpprestTls> tls_;                 // of material_
  std::vector<std::unique_ptr<CpprestConnection>> idle_;  // made with tls_
  std::unordered_set<Shared> calls_;
  boost::asio::steady_timer warm_timer_;
  bool interim_ = false;  // the server sends interim answers: requests go by libcurl, too
  bool ending_ = false;
};

}  // namespace

Result<std::unique_ptr<Transport>> MakeCpprestTransport(TransportParts parts) {
  TransportParts for_streams = parts;
  for_streams.options.connections = 1;
  Result<std::unique_ptr<Transport>> streams = MakeCurlTransport(std::move(for_streams));
  if (!streams.ok()) return streams.error();
  return std::unique_ptr<Transport>(
      std::make_unique<CpprestTransport>(std::move(parts), std::move(*streams)));
}

}  // namespace lockstep::kube
