// CurlTransfer: one request and its answer on one easy handle of libcurl. It belongs to the thread
// that drives the multi handle.
#ifndef LOCKSTEP_OPERATOR_KUBE_HTTP_CURL_TRANSFER_H_
#define LOCKSTEP_OPERATOR_KUBE_HTTP_CURL_TRANSFER_H_

#include <curl/curl.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "operator/kube/config/credentials.h"
#include "operator/kube/http/transport.h"

namespace lockstep::kube {

struct CurlEasyFree {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
using CurlEasy = std::unique_ptr<CURL, CurlEasyFree>;

// Where and how all requests of a transport go.
struct CurlEndpoint {
  std::string url;         // before the path
  std::string connect_to;  // "::HOST:PORT" where the URL's host is only the certificate's name
  TransportOptions options;
};

class CurlTransfer {
 public:
  // One of `on_response` and `stream` is set; `limit` is the deadline's or the silence's length.
  CurlTransfer(Request request, Duration limit, Transport::OnResponse on_response);
  CurlTransfer(Request request, Duration limit, StreamHandlers stream);
  ~CurlTransfer();
  CurlTransfer(const CurlTransfer&) = delete;
  CurlTransfer& operator=(const CurlTransfer&) = delete;

  // Sets `easy` up for this request, whatever it was used for before.
  void Prepare(CurlEasy easy, const CurlEndpoint& endpoint,
               std::shared_ptr<const Identity> identity);
  CurlEasy Release();

  CURL* easy() const { return easy_.get(); }
  bool is_stream() const { return !on_response_; }
  Duration limit() const { return limit_; }
  // When bytes last came; how a stream's silence is measured.
  Time last_heard() const { return last_heard_; }
  const std::shared_ptr<const Identity>& identity() const { return identity_; }
  int status() const { return response_.status; }

  // Called when the answer is complete or libcurl has failed. Calls the handlers for the last time.
  void Finish(CURLcode code);
  void Fail(const Error& error);

 private:
  static size_t OnHeader(char* data, size_t size, size_t count, void* self);
  static size_t OnBody(char* data, size_t size, size_t count, void* self);
  bool TakeHeader(std::string_view line);
  bool TakeBody(std::string_view data);
  void SetCommon(const CurlEndpoint& endpoint);
  void SetRequest(const CurlEndpoint& endpoint);
  void Head();
  Error ErrorOf(CURLcode code) const;

  Request request_;
  const Duration limit_;
  Transport::OnResponse on_response_;
  StreamHandlers stream_;

  CurlEasy easy_;
  curl_slist* headers_ = nullptr;
  curl_slist* connect_to_ = nullptr;
  std::shared_ptr<const Identity> identity_;
  size_t max_body_ = 0;
  char curl_message_[CURL_ERROR_SIZE] = "";

  Response response_;
  size_t header_bytes_ = 0;
  bool head_complete_ = false;
  bool head_given_ = false;
  std::optional<Error> refused_;  // why this side ended it
  Time last_heard_ = Time(0);
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_HTTP_CURL_TRANSFER_H_
