// CpprestConnection: a client of cpprestsdk for one request at a time, and so with at most one
// connection. It counts incoming bytes below HTTP, since cpprestsdk buffers headers and whole
// chunks of any size before it hands over a byte. On cpprestsdk's thread.
#ifndef LOCKSTEP_OPERATOR_KUBE_HTTP_CPPREST_CONNECTION_H_
#define LOCKSTEP_OPERATOR_KUBE_HTTP_CPPREST_CONNECTION_H_

#include <cpprest/http_client.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "operator/kube/http/cpprest/tls.h"

namespace lockstep::kube {

class CpprestConnection {
 public:
  CpprestConnection(const std::string& server, std::shared_ptr<const CpprestTls> tls);

  web::http::client::http_client& client() { return client_; }

  // For the next request: `on_over` is called once, from within OpenSSL, when more than `limit`
  // bytes came.
  void Begin(size_t limit, std::function<void()> on_over);
  // All so far was handed over: from here on up to `limit` bytes may come.
  void Allow(size_t limit);
  // Whether nothing came since Begin and no new connection was made: the server had closed the old
  // one.
  bool WasClosedMeanwhile() const { return !traffic_->is_new && !traffic_->heard; }

 private:
  // Outlives this while a request of cpprestsdk's does.
  struct Traffic {
    size_t received = 0;  // since Begin or Allow
    size_t limit = 0;
    bool is_new = false;  // a connection was made since Begin
    bool heard = false;   // something came since Begin
    std::function<void()> on_over;
  };
  static void OnMessage(int is_write, int version, int type, const void* bytes, size_t size,
                        SSL* ssl, void* traffic);
  static web::http::client::http_client_config Config(std::shared_ptr<Traffic> traffic,
                                                      std::shared_ptr<const CpprestTls> tls);

  const std::shared_ptr<Traffic> traffic_ = std::make_shared<Traffic>();
  web::http::client::http_client client_;
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_HTTP_CPPREST_CONNECTION_H_
