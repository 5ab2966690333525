#include <cpprest/containerstream.h>
#include <cpprest/http_client.h>
#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <pplx/threadpool.h>

#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <future>
#include <mutex>
#include <unordered_set>
#include <utility>  // first: Boost 1.74's asio needs it in C++20 and does not say so

#include "operator/kube/cpprest/tls.h"
#include "operator/kube/transport_factory.h"

namespace lockstep::kube {
namespace {

namespace http = web::http;
using Buffer = concurrency::streams::container_buffer<std::vector<uint8_t>>;

constexpr Duration kWarmEvery = seconds(20);  // cpprestsdk drops what was idle for 30 s
constexpr Duration kWarmTimeout = seconds(10);

boost::asio::io_service& Service() {
  static std::once_flag once;
  std::call_once(once, [] { crossplat::threadpool::initialize_with_threads(1); });
  return crossplat::threadpool::shared_instance().service();
}

// A request under way. Answered once, by whichever comes first: the answer, the deadline, the end
// of the transport. All of it is on cpprestsdk's thread.
class CpprestCall : public std::enable_shared_from_this<CpprestCall> {
 public:
  explicit CpprestCall(size_t max_body) : max_body_(max_body), timer_(Service()) {}

  void OnResponse(Transport::OnResponse on_response) { on_response_ = std::move(on_response); }

  void Begin(http::client::http_client& client, http::http_request request, Duration timeout) {
    auto self = shared_from_this();
    timer_.expires_after(timeout);
    timer_.async_wait([self](const boost::system::error_code& error) {
      if (!error) self->Cancel(Error::Timeout("the API server did not answer in time"));
    });
    request.set_response_stream(body_.create_ostream());
    request.set_progress_handler(
        [self](http::message_direction::direction direction, utility::size64_t bytes) {
          if (direction == http::message_direction::download && bytes > self->max_body_) {
            self->too_large_ = true;
            throw std::runtime_error("too large");  // the only way to end it from here
          }
        });
    client.request(std::move(request), cancel_.get_token())
        .then([self](const pplx::task<http::http_response>& head) { self->Head(head); });
  }

  void Cancel(Error why) {
    Answer(std::move(why));
    cancel_.cancel();
  }

 private:
  void Head(const pplx::task<http::http_response>& head) {
    try {
      http::http_response response = head.get();
      response.content_ready().then(
          [self = shared_from_this()](const pplx::task<http::http_response>& whole) {
            self->Whole(whole);
          });
    } catch (const std::exception& e) {
      Answer(ErrorOf(e));
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
      return Error::Denied("no TLS with the API server: its certificate is not the cluster's");
    }
    return Error::Unavailable(std::string("the API server is not reached: ") + e.what());
  }

  void Answer(Result<Response> result) {
    if (!on_response_) return;
    timer_.cancel();
    std::exchange(on_response_, nullptr)(std::move(result));
  }

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
      // Behind the handlers of what was cancelled just now.
      Service().post([&ended] { ended.set_value(); });
    });
    ended.get_future().wait();
  }

  void Send(Request request, Duration timeout, OnResponse on_response) override {
    Service().post([this, request = std::move(request), timeout, done = std::move(on_response)] {
      Start(request, timeout, done);
    });
  }

  std::unique_ptr<Stream> Open(Request request, Duration idle_timeout,
                               StreamHandlers handlers) override {
    return streams_->Open(std::move(request), idle_timeout, std::move(handlers));
  }

 private:
  using HttpClient = http::client::http_client;
  using Shared = std::shared_ptr<CpprestCall>;

  // From here on all is on cpprestsdk's thread.
  void Start(const Request& request, Duration timeout, const OnResponse& done) {
    std::shared_ptr<const Identity> identity = credentials_->Current();
    Status status = UseMaterial(identity->tls);
    if (!status.ok()) {
      done(status.error());
      return;
    }
    auto call = std::make_shared<CpprestCall>(options_.max_body);
    calls_.insert(call);
    // The call holds this, and is held by what may outlive the answer: a weak pointer.
    call->OnResponse([this, identity, done, weak = std::weak_ptr(call)](Result<Response> result) {
      calls_.erase(weak.lock());
      if (result.ok() && result->status == 401) credentials_->Refused(identity);
      done(std::move(result));
    });
    call->Begin(*client_, MessageOf(request, *identity), timeout);
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

  // A client, and with it connections, of its own for each material.
  Status UseMaterial(const std::shared_ptr<const TlsMaterial>& material) {
    if (client_ && material_ == material) return {};
    Result<std::shared_ptr<const CpprestTls>> tls = CpprestTls::Create(*material);
    if (!tls.ok()) return Error::Denied(tls.error().message);
    http::client::http_client_config config;
    config.set_max_redirects(0);
    config.set_timeout(hours(1));  // each call has its own deadline
    config.set_ssl_context_callback(
        [tls = *tls](boost::asio::ssl::context& context) { tls->Apply(context.native_handle()); });
    client_ = std::make_unique<HttpClient>(server_, config);
    material_ = material;
    return {};
  }

  void Warm() {
    if (ending_) return;
    for (size_t i = 0; i < options_.connections; ++i) {
      Start({Method::kGet, "/version", ""}, kWarmTimeout, [](const Result<Response>&) {});
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
  std::unique_ptr<HttpClient> client_;
  std::unordered_set<Shared> calls_;
  boost::asio::steady_timer warm_timer_;
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
