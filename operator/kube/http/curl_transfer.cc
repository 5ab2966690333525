#include "operator/kube/http/curl_transfer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/text/ascii.h"

namespace lockstep::kube {
namespace {

constexpr size_t kMaxHeaders = 64 * 1024;
constexpr Duration kMaxRetryAfter = hours(1);

template <typename T>
void Set(CURL* easy, CURLoption option, T value) {
  // Fails only for what libcurl wasn't built with, or for want of memory.
  [[maybe_unused]] CURLcode code = curl_easy_setopt(easy, option, value);
  assert(code == CURLE_OK);
}

// TCP keep-alive: a peer that vanished is noticed within half a minute even on an idle connection.
// `options`: TransportOptions.
int OnSocket(void* options, curl_socket_t fd, curlsocktype) {
  int on = 1;
  int idle = 30;
  int interval = 10;
  const Duration unacknowledged = static_cast<const TransportOptions*>(options)->unacknowledged;
  auto unacknowledged_ms = static_cast<int>(duration_cast<milliseconds>(unacknowledged).count());
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof(unacknowledged_ms));
  return CURL_SOCKOPT_OK;
}

// libcurl compares this before it reuses a connection, so it never takes one that was made with
// other material.
void SetBlob(CURL* easy, CURLoption option, const std::string& pem) {
  if (pem.empty()) return;
  curl_blob blob{const_cast<char*>(pem.data()), pem.size(), CURL_BLOB_NOCOPY};
  Set(easy, option, &blob);
}

long Milliseconds(Duration duration) {
  return static_cast<long>(std::max<int64_t>(1, duration_cast<milliseconds>(duration).count()));
}

std::optional<Duration> RetryAfter(std::string_view text) {
  int64_t count = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end == text.data() || count < 0) return std::nullopt;
  return std::min<Duration>(seconds(std::min<int64_t>(count, 1'000'000)), kMaxRetryAfter);
}

}  // namespace

CurlTransfer::CurlTransfer(Request request, Duration limit, Transport::OnResponse on_response)
    : request_(std::move(request)), limit_(limit), on_response_(std::move(on_response)) {}

CurlTransfer::CurlTransfer(Request request, Duration limit, StreamHandlers stream)
    : request_(std::move(request)), limit_(limit), stream_(std::move(stream)) {}

CurlTransfer::~CurlTransfer() {
  curl_slist_free_all(headers_);
  curl_slist_free_all(connect_to_);
}

void CurlTransfer::Prepare(CurlEasy easy, const CurlEndpoint& endpoint,
                           std::shared_ptr<const Identity> identity) {
  easy_ = std::move(easy);
  identity_ = std::move(identity);
  max_body_ = endpoint.options.max_body;
  last_heard_ = BootTime();
  // Forgets, besides options, how often connections died under earlier requests: libcurl 7.88 gives
  // up at the fifth.
  curl_easy_reset(easy_.get());
  SetCommon(endpoint);
  SetRequest(endpoint);
}

// Sets the options that are the same for all requests.
void CurlTransfer::SetCommon(const CurlEndpoint& endpoint) {
  CURL* raw = easy_.get();
  Set(raw, CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
  Set(raw, CURLOPT_PROTOCOLS_STR, "https");
  Set(raw, CURLOPT_FOLLOWLOCATION, 0L);
  Set(raw, CURLOPT_PROXY, "");
  Set(raw, CURLOPT_NOSIGNAL, 1L);
  Set(raw, CURLOPT_QUICK_EXIT, 1L);  // never waits for a name server at the end
  Set(raw, CURLOPT_SSLVERSION, long{CURL_SSLVERSION_TLSv1_2});
  // Debian's libcurl trusts /etc/ssl/certs as well, unless this turns it off.
  Set<char*>(raw, CURLOPT_CAPATH, nullptr);
  Set<char*>(raw, CURLOPT_CAINFO, nullptr);
  Set(raw, CURLOPT_CONNECTTIMEOUT_MS, Milliseconds(endpoint.options.connect_timeout));
  Set(raw, CURLOPT_SOCKOPTFUNCTION, &OnSocket);
  Set(raw, CURLOPT_SOCKOPTDATA, &endpoint.options);
  Set(raw, CURLOPT_USERAGENT, endpoint.options.user_agent.c_str());
  Set(raw, CURLOPT_BUFFERSIZE, 16L * 1024);
  Set(raw, CURLOPT_UPLOAD_BUFFERSIZE, 16L * 1024);
}

void CurlTransfer::SetRequest(const CurlEndpoint& endpoint) {
  CURL* raw = easy_.get();
  Set(raw, CURLOPT_URL, (endpoint.url + request_.path).c_str());
  Set(raw, CURLOPT_PATH_AS_IS, 1L);
  if (!endpoint.connect_to.empty()) {
    connect_to_ = curl_slist_append(nullptr, endpoint.connect_to.c_str());
    Set(raw, CURLOPT_CONNECT_TO, connect_to_);
  }
  if (!request_.body.empty() || request_.method == Method::kPost) {
    Set(raw, CURLOPT_POSTFIELDS, request_.body.c_str());
    Set(raw, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
    headers_ = curl_slist_append(headers_, ("Content-Type: " + request_.content_type).c_str());
    headers_ = curl_slist_append(headers_, "Expect:");
  }
  // Set by name, since libcurl would choose the method by whether there is a body.
  Set(raw, CURLOPT_CUSTOMREQUEST, ToString(request_.method));
  headers_ = curl_slist_append(headers_, "Accept: application/json");
  if (!identity_->authorization.empty()) {
    headers_ = curl_slist_append(headers_, ("Authorization: " + identity_->authorization).c_str());
  }
  Set(raw, CURLOPT_HTTPHEADER, headers_);
  SetBlob(raw, CURLOPT_CAINFO_BLOB, identity_->tls->ca);
  SetBlob(raw, CURLOPT_SSLCERT_BLOB, identity_->tls->certificate);
  SetBlob(raw, CURLOPT_SSLKEY_BLOB, identity_->tls->key);
  if (!is_stream()) Set(raw, CURLOPT_TIMEOUT_MS, Milliseconds(limit_));
  Set(raw, CURLOPT_ERRORBUFFER, curl_message_);
  Set(raw, CURLOPT_HEADERFUNCTION, &CurlTransfer::OnHeader);
  Set(raw, CURLOPT_HEADERDATA, this);
  Set(raw, CURLOPT_WRITEFUNCTION, &CurlTransfer::OnBody);
  Set(raw, CURLOPT_WRITEDATA, this);
}

CurlEasy CurlTransfer::Release() {
  Set<char*>(easy_.get(), CURLOPT_ERRORBUFFER, nullptr);
  return std::move(easy_);
}

size_t CurlTransfer::OnHeader(char* data, size_t size, size_t count, void* self) {
  bool ok = static_cast<CurlTransfer*>(self)->TakeHeader({data, size * count});
  return ok ? size * count : 0;
}

size_t CurlTransfer::OnBody(char* data, size_t size, size_t count, void* self) {
  bool ok = static_cast<CurlTransfer*>(self)->TakeBody({data, size * count});
  return ok ? size * count : 0;
}

bool CurlTransfer::TakeHeader(std::string_view line) {
  last_heard_ = BootTime();
  header_bytes_ += line.size();
  if (header_bytes_ > kMaxHeaders) {
    refused_ = Error::TooLarge("the answer's headers are over 64 KiB");
    return false;
  }
  constexpr std::string_view kRetryAfterName = "retry-after:";
  if (line.size() > kRetryAfterName.size() &&
      // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): no more than that size is read.
      strncasecmp(line.data(), kRetryAfterName.data(), kRetryAfterName.size()) == 0) {
    response_.retry_after = RetryAfter(Trim(line.substr(kRetryAfterName.size())));
  } else if (Trim(line).empty()) {
    long status = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    response_.status = static_cast<int>(status);
    head_complete_ = status >= 200;
    if (is_stream() && !head_given_ && status >= 200 && status < 300) Head();
  }
  return true;
}

bool CurlTransfer::TakeBody(std::string_view data) {
  last_heard_ = BootTime();
  if (is_stream() && head_given_) {
    stream_.on_data(data);
    return true;
  }
  size_t limit = is_stream() ? kMaxErrorBody : max_body_;
  if (response_.body.size() + data.size() > limit) {
    refused_ = Error::TooLarge("the answer is over " + std::to_string(limit) + " bytes");
    return false;
  }
  response_.body.append(data);
  return true;
}

void CurlTransfer::Head() {
  head_given_ = true;
  stream_.on_head(response_);
}

void CurlTransfer::Finish(CURLcode code) {
  if (code != CURLE_OK) {
    Fail(ErrorOf(code));
  } else if (!head_complete_) {
    // libcurl takes a connection that ends within the headers for the end of an empty body.
    Fail(Error::Unavailable("the API server's answer was cut off"));
  } else if (on_response_) {
    on_response_(std::move(response_));
  } else {
    if (!head_given_) Head();
    stream_.on_end({});
  }
}

void CurlTransfer::Fail(const Error& error) {
  if (on_response_) {
    on_response_(error);
  } else {
    stream_.on_end(error);
  }
}

Error CurlTransfer::ErrorOf(CURLcode code) const {
  if (refused_) return *refused_;
  std::string what = curl_message_[0] != '\0' ? curl_message_ : curl_easy_strerror(code);
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return Error::Timeout("the API server did not answer in time: " + what);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
      return Error::Denied("no TLS with the API server: " + what);
    default:
      return Error::Unavailable("the API server cannot be reached: " + what);
  }
}

}  // namespace lockstep::kube
