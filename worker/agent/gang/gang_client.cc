#include "worker/agent/gang/gang_client.h"

#include <algorithm>
#include <utility>

namespace lockstep::agent {

GangClient::GangClient(EventLoop* loop, const TlsPskContext* tls, const Endpoint& endpoint,
                       uint32_t machines, Owner* owner, uint64_t seed, Dial dial)
    : loop_(loop),
      tls_(tls),
      endpoint_(endpoint),
      owner_(owner),
      random_(seed),
      delay_(kFirstRetry, LastRetry(machines)),
      dial_(std::move(dial)),
      retry_(loop, [this] { Connect(); }) {}

void GangClient::Start() { Connect(); }

void GangClient::Connect() {
  // A peer that was reached proves itself or is given up; another dial would only burden it.
  if (std::ranges::any_of(dials_, [](const auto& dialed) { return dialed->connected(); })) return;
  Result<UniqueFd> fd = dial_(endpoint_);
  if (!fd.ok()) return OnClose(fd.error().message);
  dials_.push_back(Connection::ConnectTls(loop_, std::move(*fd), tls_));
  Connection* dialed = dials_.back().get();
  retry_.WakeAt(BootTime() + kDialBeside);
  dialed->SetDeadline(BootTime() + kConnectDeadline,
                      endpoint_.ToString() + " did not answer in time");
  dialed->Start(
      {.on_open = [this, dialed] { OnDialOpen(dialed); },
       .on_data = {},
       .on_close = [this, dialed](const std::string& reason) { OnDialEnd(dialed, reason); }});
}

std::unique_ptr<Connection> GangClient::TakeDial(const Connection* dialed) {
  const auto at = std::ranges::find(dials_, dialed, &std::unique_ptr<Connection>::get);
  std::unique_ptr<Connection> taken = std::move(*at);
  dials_.erase(at);
  return taken;
}

void GangClient::OnDialOpen(const Connection* dialed) {
  std::unique_ptr<Connection> connection = TakeDial(dialed);
  dials_.clear();
  retry_.Cancel();
  connection->ClearDeadline();
  connection->Write(kFrameMagic);
  frames_ = std::make_unique<FrameConnection>(std::move(connection), loop_, "");
  frames_->Start({.on_message =
                      [this](std::string_view body) {
                        // Only a peer that answers has earned a quick retry.
                        delay_.Reset();
                        owner_->OnMessage(body);
                      },
                  .on_close = [this](const std::string& reason) { OnClose(reason); }});
  owner_->OnOpen();
}

void GangClient::OnDialEnd(const Connection* dialed, const std::string& reason) {
  const std::unique_ptr<Connection> ended = TakeDial(dialed);
  OnClose(reason);
}

void GangClient::OnClose(const std::string& reason) {
  frames_.reset();
  retry_.WakeAt(BootTime() + NextDelay());
  owner_->OnClose(reason);
}

void GangClient::Reconnect(const std::string& reason) {
  if (dials_.empty() && !frames_) return;
  dials_.clear();
  OnClose(reason);
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
