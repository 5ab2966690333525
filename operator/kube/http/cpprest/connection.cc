#include "operator/kube/http/cpprest/connection.h"

#include <algorithm>
#include <utility>

#include "base/time.h"

namespace lockstep::kube {
namespace {

// What a record of TLS 1.3 holds besides its content; older records hold more.
constexpr size_t kRecordOverhead = 17;

}  // namespace

CpprestConnection::CpprestConnection(const std::string& server,
                                     std::shared_ptr<const CpprestTls> tls)
    : client_(server, Config(traffic_, std::move(tls))) {}

void CpprestConnection::Begin(size_t limit, std::function<void()> on_over) {
  *traffic_ = {.limit = limit, .on_over = std::move(on_over)};
}

void CpprestConnection::Allow(size_t limit) {
  traffic_->received = 0;
  traffic_->limit = limit;
}

void CpprestConnection::OnMessage(int is_write, int /*version*/, int type, const void* bytes,
                                  size_t size, SSL* /*ssl*/, void* traffic) {
  if (is_write != 0 || type != SSL3_RT_HEADER || size < SSL3_RT_HEADER_LENGTH) return;
  auto* self = static_cast<Traffic*>(traffic);
  const auto* header = static_cast<const unsigned char*>(bytes);
  const size_t record = size_t{header[3]} << 8 | header[4];
  self->heard = true;
  self->received += record - std::min(record, kRecordOverhead);
  if (self->received > self->limit && self->on_over) std::exchange(self->on_over, nullptr)();
}

web::http::client::http_client_config CpprestConnection::Config(
    std::shared_ptr<Traffic> traffic, std::shared_ptr<const CpprestTls> tls) {
  web::http::client::http_client_config config;
  config.set_max_redirects(0);
  config.set_timeout(hours(1));  // each call has its own deadline
  // Once for each connection.
  config.set_ssl_context_callback(
      [traffic = std::move(traffic), tls = std::move(tls)](boost::asio::ssl::context& context) {
        traffic->is_new = true;
        tls->Apply(context.native_handle());
        SSL_CTX_set_msg_callback(context.native_handle(), &CpprestConnection::OnMessage);
        SSL_CTX_set_msg_callback_arg(context.native_handle(), traffic.get());
      });
  return config;
}

}  // namespace lockstep::kube
