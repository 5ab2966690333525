#include "worker/agent/gang/gang_client.h"

#include <utility>

namespace lockstep::agent {

GangClient::GangClient(EventLoop* loop, const TlsPskContext* tls, const Endpoint& endpoint,
                       Handlers handlers, uint64_t seed)
    : loop_(loop),
      tls_(tls),
      endpoint_(endpoint),
      handlers_(std::move(handlers)),
      random_(seed),
      retry_(loop, [this] { Connect(); }) {}

void GangClient::Start() { Connect(); }

void GangClient::Connect() {
  Result<UniqueFd> fd = ConnectTcp(endpoint_);
  if (!fd.ok()) return OnClose(fd.error().message);
  connecting_ = Connection::ConnectTls(loop_, std::move(*fd), tls_);
  connecting_->SetDeadline(BootTime() + kConnectDeadline,
                           endpoint_.ToString() + " did not answer in time");
  connecting_->Start({.on_open = [this] { OnOpen(); },
                      .on_data = {},
                      .on_close = [this](const std::string& reason) { OnClose(reason); }});
}

void GangClient::OnOpen() {
  connecting_->ClearDeadline();
  connecting_->Write(kFrameMagic);
  frames_ = std::make_unique<FrameConnection>(std::move(connecting_), loop_, "");
  frames_->Start({.on_message =
                      [this](std::string_view body) {
                        // Only a peer that answers has earned a quick retry.
                        delay_.Reset();
                        if (handlers_.on_message) handlers_.on_message(body);
                      },
                  .on_close = [this](const std::string& reason) { OnClose(reason); }});
  if (handlers_.on_open) handlers_.on_open();
}

void GangClient::OnClose(const std::string& reason) {
  connecting_.reset();
  frames_.reset();
  retry_.WakeAt(BootTime() + NextDelay());
  if (handlers_.on_close) handlers_.on_close(reason);
}

void GangClient::Reconnect(const std::string& reason) {
  if (connecting_ || frames_) OnClose(reason);
}

void GangClient::Send(std::string_view body) {
  if (frames_) frames_->Send(body);
}

Duration GangClient::NextDelay() {
  const Duration delay = delay_.Take();
  std::uniform_int_distribution<int64_t> jitter(delay.count() / 2, delay.count());
  return Duration(jitter(random_));
}

}  // namespace lockstep::agent
