#include <curl/curl.h>
#include <sys/epoll.h>

#include <csignal>
#include <future>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/thread.h"
#include "operator/kube/http/curl_transfer.h"
#include "operator/kube/http/transport_factory.h"

namespace lockstep::kube {
namespace {

// Servers close connections that were idle for 90 s or more (Go's default is 3 min).
constexpr Duration kWarmEvery = seconds(45);
constexpr Duration kWarmTimeout = seconds(10);

// libcurl keeps its state for the process.
bool InitializeCurl() {
  static const bool ok = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return ok;
}

struct CurlMultiFree {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};

class CurlTransport final : public Transport {
 public:
  CurlTransport(CurlEndpoint endpoint, std::shared_ptr<Credentials> credentials,
                std::unique_ptr<EventLoop> loop)
      : endpoint_(std::move(endpoint)),
        credentials_(std::move(credentials)),
        loop_(std::move(loop)),
        multi_(curl_multi_init()) {
    curl_multi_setopt(multi_.get(), CURLMOPT_SOCKETFUNCTION, &CurlTransport::OnSocket);
    curl_multi_setopt(multi_.get(), CURLMOPT_SOCKETDATA, this);
    curl_multi_setopt(multi_.get(), CURLMOPT_TIMERFUNCTION, &CurlTransport::OnTimer);
    curl_multi_setopt(multi_.get(), CURLMOPT_TIMERDATA, this);
    curl_multi_setopt(multi_.get(), CURLMOPT_PIPELINING, long{CURLPIPE_NOTHING});
    curl_multi_setopt(multi_.get(), CURLMOPT_MAXCONNECTS,
                      static_cast<long>(2 * endpoint_.options.connections + 16));
    if (endpoint_.options.connections > 1) loop_->Post([this] { Warm(); });
  }

  // Once, before anything is sent.
  Status Start() {
    Result<std::thread> thread = StartThread([this] {
      // OpenSSL writes to sockets whose peer may be gone; signals are other threads' business
      // anyway.
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_BLOCK, &all, nullptr);
      loop_->Run();
    });
    if (!thread.ok()) return thread.error();
    thread_ = std::move(*thread);
    return {};
  }

  ~CurlTransport() override {
    if (!thread_.joinable()) return;
    loop_->PostFromAnyThread([this] { End(); });
    thread_.join();
  }

  void Send(Request request, Duration timeout, OnResponse on_response) override {
    // shared_ptr because std::function copies what it holds.
    auto transfer =
        std::make_shared<CurlTransfer>(std::move(request), timeout, std::move(on_response));
    loop_->PostFromAnyThread([this, transfer] { Start(transfer); });
  }

  std::unique_ptr<Stream> Open(Request request, Duration idle_timeout,
                               StreamHandlers handlers) override {
    auto transfer =
        std::make_shared<CurlTransfer>(std::move(request), idle_timeout, std::move(handlers));
    loop_->PostFromAnyThread([this, transfer] { Start(transfer); });
    return std::make_unique<OpenStream>(this, transfer);
  }

 private:
  using Shared = std::shared_ptr<CurlTransfer>;

  class OpenStream final : public Stream {
   public:
    OpenStream(CurlTransport* transport, Shared transfer)
        : transport_(transport), transfer_(std::move(transfer)) {}
    ~OpenStream() override {
      std::promise<void> gone;
      transport_->loop_->PostFromAnyThread([this, &gone] {
        transport_->Drop(transfer_.get());
        gone.set_value();
      });
      gone.get_future().wait();
    }

   private:
    CurlTransport* transport_;
    Shared transfer_;
  };

  // ---- on the loop's thread ----
  void Start(const Shared& transfer) {
    CurlEasy easy;
    if (spare_.empty()) {
      easy.reset(curl_easy_init());
    } else {
      easy = std::move(spare_.back());
      spare_.pop_back();
    }
    transfer->Prepare(std::move(easy), endpoint_, credentials_->Current());
    transfers_[transfer->easy()] = transfer;
    curl_multi_add_handle(multi_.get(), transfer->easy());
    if (transfer->is_stream()) Listen(transfer, transfer->last_heard() + transfer->limit());
  }

  // Removes the transfer from libcurl. No handler of it is called any more.
  void Remove(CurlTransfer* transfer) {
    curl_multi_remove_handle(multi_.get(), transfer->easy());
    transfers_.erase(transfer->easy());
    CurlEasy easy = transfer->Release();
    if (spare_.size() < endpoint_.options.connections) spare_.push_back(std::move(easy));
  }

  void Drop(CurlTransfer* transfer) {
    if (transfer->easy() != nullptr) Remove(transfer);
  }

  // Looks at `when` whether the stream has been silent for too long.
  void Listen(const std::weak_ptr<CurlTransfer>& stream, Time when) {
    loop_->StartTimer(when, [this, stream] {
      Shared transfer = stream.lock();
      if (!transfer || transfer->easy() == nullptr) return;
      Time end = transfer->last_heard() + transfer->limit();
      if (loop_->now() < end) {
        Listen(transfer, end);
        return;
      }
      Remove(transfer.get());
      transfer->Fail(Error::Timeout("the API server's stream was silent for too long"));
    });
  }

  void Drive(curl_socket_t fd, int what) {
    int running = 0;
    curl_multi_socket_action(multi_.get(), fd, what, &running);
    int left = 0;
    while (CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
      if (message->msg == CURLMSG_DONE) Done(message->easy_handle, message->data.result);
    }
  }

  void Done(CURL* easy, CURLcode code) {
    Shared transfer = transfers_.at(easy);
    Remove(transfer.get());
    if (code == CURLE_OK && transfer->status() == 401) credentials_->Refused(transfer->identity());
    transfer->Finish(code);
  }

  // Sends as many requests at once as there are connections to keep, so that none stays idle for
  // long.
  void Warm() {
    for (size_t i = 0; i < endpoint_.options.connections; ++i) {
      Start(std::make_shared<CurlTransfer>(Request{Method::kGet, "/version", ""}, kWarmTimeout,
                                           [](const Result<Response>&) {}));
    }
    loop_->StartTimer(loop_->now() + kWarmEvery, [this] { Warm(); });
  }

  void End() {
    while (!transfers_.empty()) {
      Shared transfer = transfers_.begin()->second;
      Remove(transfer.get());
      transfer->Fail(Error::Unavailable("the connection to the API server is being closed"));
    }
    spare_.clear();
    multi_.reset();
    loop_->Stop();
  }

  static int OnSocket(CURL*, curl_socket_t fd, int what, void* self, void*) {
    static_cast<CurlTransport*>(self)->WatchSocket(fd, what);
    return 0;
  }

  void WatchSocket(curl_socket_t fd, int what) {
    if (what == CURL_POLL_REMOVE) {
      if (watched_.erase(fd) > 0) loop_->Unwatch(fd);
      return;
    }
    uint32_t events = ((what & CURL_POLL_IN) != 0 ? uint32_t{EPOLLIN} : 0) |
                      ((what & CURL_POLL_OUT) != 0 ? uint32_t{EPOLLOUT} : 0);
    if (!watched_.insert(fd).second) {
      loop_->Modify(fd, events);
      return;
    }
    Status status = loop_->Watch(fd, events, [this, fd](uint32_t ready) {
      int what_happened = ((ready & EPOLLIN) != 0 ? CURL_CSELECT_IN : 0) |
                          ((ready & EPOLLOUT) != 0 ? CURL_CSELECT_OUT : 0) |
                          ((ready & (EPOLLERR | EPOLLHUP)) != 0 ? CURL_CSELECT_ERR : 0);
      Drive(fd, what_happened);
    });
    assert(status.ok());  // a socket can be waited for
  }

  static int OnTimer(CURLM*, long timeout_ms, void* self) {
    static_cast<CurlTransport*>(self)->SetTimer(timeout_ms);
    return 0;
  }

  void SetTimer(long timeout_ms) {
    loop_->CancelTimer(timer_);
    timer_ = 0;
    if (timeout_ms < 0) return;
    // A timer even when due at once: with Post, a stream that never pauses would never end the
    // loop's round.
    timer_ = loop_->StartTimer(BootTime() + milliseconds(timeout_ms),
                               [this] { Drive(CURL_SOCKET_TIMEOUT, 0); });
  }

  const CurlEndpoint endpoint_;
  const std::shared_ptr<Credentials> credentials_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<CURLM, CurlMultiFree> multi_;
  std::unordered_map<CURL*, Shared> transfers_;
  std::vector<CurlEasy> spare_;
  std::unordered_set<int> watched_;
  TimerId timer_ = 0;
  std::thread thread_;
};

// Of "https://HOST:PORT/..." the part after the scheme up to the first slash.
std::string Authority(const std::string& server) {
  std::string rest = server.substr(server.find("://") + 3);
  return rest.substr(0, rest.find('/'));
}

CurlEndpoint EndpointOf(const std::string& server, const std::string& name,
                        TransportOptions options) {
  CurlEndpoint endpoint{server, "", std::move(options)};
  if (name.empty()) return endpoint;
  std::string authority = Authority(server);
  size_t colon = authority.rfind(':');
  bool has_port = colon != std::string::npos && authority.find(']', colon) == std::string::npos;
  std::string port = has_port ? authority.substr(colon) : ":443";
  std::string host = has_port ? authority.substr(0, colon) : authority;
  endpoint.connect_to = "::" + host + port;
  endpoint.url.replace(endpoint.url.find("://") + 3, authority.size(), name + port);
  return endpoint;
}

}  // namespace

Result<std::unique_ptr<Transport>> MakeCurlTransport(TransportParts parts) {
  if (!InitializeCurl()) return Error::Internal("libcurl cannot be initialized");
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
  if (!loop.ok()) return loop.error();
  auto transport = std::make_unique<CurlTransport>(
      EndpointOf(parts.server, parts.tls_server_name, std::move(parts.options)),
      std::move(parts.credentials), std::move(*loop));
  if (Status started = transport->Start(); !started.ok()) return started.error();
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace lockstep::kube
