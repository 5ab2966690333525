#include "operator/gang/http_client.h"

#include <algorithm>
#include <utility>

#include "base/net/tcp.h"
#include "base/text/endpoint.h"
#include "core/gang/status/status_api.h"

namespace lockstep::gang {

void HttpClient::Ask(const std::string& address, std::string request, Time deadline,
                     OnAnswer on_answer) {
  if (busy() || address != address_) Drop();
  address_ = address;
  request_ = std::move(request);
  deadline_ = deadline;
  on_answer_ = std::move(on_answer);
  reused_ = connection_ != nullptr;
  Begin();
}

void HttpClient::Drop() {
  loop_->CancelTimer(std::exchange(timer_, 0));
  on_answer_ = nullptr;
  connection_.reset();
  received_.clear();
}

void HttpClient::Begin() {
  sent_ = false;
  loop_->CancelTimer(std::exchange(timer_, 0));
  if (connection_) return Send();
  if (Status connecting = Connect(); !connecting.ok()) {
    timer_ = loop_->StartTimer(BootTime(), [this, error = connecting.error()] { Finish(error); });
    return;
  }
  timer_ =
      loop_->StartTimer(std::min(deadline_, BootTime() + kReachPatience), [this] { OnTimer(); });
}

Status HttpClient::Connect() {
  received_.clear();
  Result<Endpoint> endpoint = ParseEndpoint(address_);
  if (!endpoint.ok()) return endpoint.error();
  if (!tls_) {
    Result<TlsPskContext> tls = TlsPskContext::Client(key_, identity_);
    if (!tls.ok()) return tls.error();
    tls_ = std::move(*tls);
  }
  Result<UniqueFd> fd = ConnectTcp(*endpoint);
  if (!fd.ok()) return fd.error();
  connection_ = Connection::ConnectTls(loop_, std::move(*fd), &*tls_);
  connection_->Start({.on_open = [this] { Send(); },
                      .on_data = [this](std::string_view bytes) { OnData(bytes); },
                      .on_close = [this](const std::string& reason) { OnClose(reason); }});
  return {};
}

void HttpClient::Send() {
  connection_->Write(request_);
  sent_ = true;
  loop_->CancelTimer(timer_);
  timer_ = loop_->StartTimer(deadline_, [this] { OnTimer(); });
}

void HttpClient::OnTimer() {
  Finish(Error::Timeout(address_ +
                        (sent_ ? " did not answer in time" : " could not be reached in time")));
}

void HttpClient::OnData(std::string_view bytes) {
  if (!busy() || !sent_) return Drop();  // no request is open
  received_.append(bytes);
  size_t used = 0;
  bool keep_alive = true;
  Result<std::optional<HttpAnswer>> parsed =
      ParseHttpAnswer(received_, core::kMaxStatusBody, &used, &keep_alive);
  if (!parsed.ok()) return Finish(parsed.error());
  if (!*parsed) return;
  received_.erase(0, used);
  if (!keep_alive || !received_.empty()) connection_.reset();
  Finish(std::move(**parsed));
}

void HttpClient::OnClose(const std::string& reason) {
  connection_.reset();
  if (!busy()) return;
  // The other side may close an idle connection at any time: once more on a new one.
  if (std::exchange(reused_, false)) return Begin();
  Finish(Error::Unavailable((sent_ ? "lost " : "cannot reach ") + address_ + ": " + reason));
}

void HttpClient::Finish(Result<HttpAnswer> answer) {
  loop_->CancelTimer(std::exchange(timer_, 0));
  if (!answer.ok()) connection_.reset();
  std::exchange(on_answer_, nullptr)(std::move(answer));  // may have destroyed this
}

}  // namespace lockstep::gang
