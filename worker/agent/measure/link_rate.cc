#include "worker/agent/measure/link_rate.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "base/net/tcp.h"
#include "base/text/ascii.h"
#include "base/uuid.h"
#include "worker/measure/measure.h"

namespace lockstep::agent {
namespace {

constexpr size_t kLinkMessage = size_t{256} << 10;
constexpr Duration kLinkTime = milliseconds(250);
constexpr uint32_t kMostLinkMessages = 256;
constexpr Duration kMostLinkTime = seconds(2);     // a link that takes longer is slow anyhow
constexpr Duration kPartnerPatience = seconds(6);  // it may be held up by a slow one
constexpr int kLinkBacklog = 64;
constexpr size_t kMachineDigits = 8;
constexpr size_t kMostCallers = 64;  // of whom it isn't known yet who they are
constexpr char kReady = 'r';

bool WaitForOneOf(std::span<pollfd> waits, Time until) {
  for (;;) {
    const auto left = (until - BootTime()) / milliseconds(1);
    if (left <= 0) return false;
    const int ready = poll(waits.data(), waits.size(), static_cast<int>(left));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool WaitFor(int fd, short events, Time until) {
  pollfd wait{fd, events, 0};
  return WaitForOneOf({&wait, 1}, until);
}

// What got through of `size` bytes; less: the time is up, or the peer is gone.
template <typename Step>
size_t Transfer(int fd, short events, size_t size, Time until, const Step& step) {
  size_t done = 0;
  while (done < size) {
    const ssize_t count = step(done, size - done);
    const bool later = count < 0 && (errno == EAGAIN || errno == EINTR);
    if (count > 0) {
      done += static_cast<size_t>(count);
    } else if (!later || !WaitFor(fd, events, until)) {
      return done;
    }
    if (BootTime() >= until) return done;
  }
  return done;
}

size_t SendBytes(int fd, const char* data, size_t size, Time until) {
  return Transfer(fd, POLLOUT, size, until,
                  [&](size_t at, size_t left) { return send(fd, data + at, left, MSG_NOSIGNAL); });
}

size_t ReceiveBytes(int fd, char* data, size_t size, Time until) {
  return Transfer(fd, POLLIN, size, until,
                  [&](size_t at, size_t left) { return recv(fd, data + at, left, 0); });
}

// Messages there and back, the leader's first. The leader says how often.
class LinkExchange {
 public:
  LinkExchange(int fd, bool leads) : fd_(fd), leads_(leads), message_(kLinkMessage) {}

  double Measure() {
    const Time began = BootTime();
    until_ = began + kMostLinkTime;
    if (!Exchange(1)) return Rate(began);  // the connection's window opens
    const Time warm = BootTime();
    if (!Exchange(1)) return Rate(began);
    uint32_t count = 0;
    if (leads_) {
      const Duration once = std::max(BootTime() - warm, Duration(1));
      count = static_cast<uint32_t>(
          std::clamp<int64_t>(kLinkTime / once, 1, int64_t{kMostLinkMessages}));
    }
    auto* const bytes = reinterpret_cast<char*>(&count);
    const size_t told = leads_ ? SendBytes(fd_, bytes, sizeof count, until_)
                               : ReceiveBytes(fd_, bytes, sizeof count, until_);
    if (told != sizeof count) return Rate(began);
    received_ = 0;
    const Time measured = BootTime();
    Exchange(std::min(count, kMostLinkMessages));
    return Rate(measured);
  }

 private:
  bool Exchange(uint32_t count) {
    for (uint32_t i = 0; i < 2 * count; ++i) {
      const bool sends = leads_ == (i % 2 == 0);
      const size_t done = sends ? SendBytes(fd_, message_.data(), kLinkMessage, until_)
                                : ReceiveBytes(fd_, message_.data(), kLinkMessage, until_);
      if (!sends) received_ += done;  // what was sent may stand in this kernel's buffers yet
      if (done != kLinkMessage) return false;
    }
    return true;
  }

  double Rate(Time since) const {
    return 2e-9 * static_cast<double>(received_) / InSeconds(BootTime() - since);
  }

  int fd_;
  bool leads_;
  std::vector<char> message_;
  Time until_{};
  size_t received_ = 0;
};

}  // namespace

Result<LinkMeter> LinkMeter::Listen(const std::string& host, uint32_t machine) {
  const Result<Endpoint> any = MakeEndpoint(host, 0);
  if (!any.ok()) return any.error();
  Result<UniqueFd> listener = ListenTcp(*any, kLinkBacklog);
  if (!listener.ok()) return listener.error();
  const Result<Endpoint> own = LocalEndpoint(listener->get());
  if (!own.ok()) return own.error();
  return LinkMeter(std::move(*listener), machine, own->ToString(), Uuid::Random().ToString());
}

std::vector<double> LinkMeter::Measure(const std::vector<core::Partner>& partners) {
  std::vector<double> rates;
  for (const core::Partner& partner : partners) rates.push_back(MeasureWith(partner));
  return rates;
}

double LinkMeter::MeasureWith(const core::Partner& partner) {
  const Time until = BootTime() + kPartnerPatience;
  const bool leads = machine_ < partner.machine;
  const UniqueFd link = leads ? Reach(partner, until) : Await(partner.machine, until);
  return link.valid() ? LinkExchange(link.get(), leads).Measure() : 0;
}

// The partner's kernel takes the connection; that it is ready the partner says itself.
UniqueFd LinkMeter::Reach(const core::Partner& partner, Time until) const {
  const Result<Endpoint> endpoint = ParseEndpoint(partner.address);
  if (!endpoint.ok()) return {};
  Result<UniqueFd> link = ConnectTcp(*endpoint);
  if (!link.ok() || !WaitFor(link->get(), POLLOUT, until)) return {};
  SetTcpOptions(link->get());
  std::string name = std::to_string(machine_);
  name.insert(0, kMachineDigits - std::min(name.size(), kMachineDigits), '0');
  const std::string greeting = partner.token + name;
  if (SendBytes(link->get(), greeting.data(), greeting.size(), until) != greeting.size()) return {};
  char ready = 0;
  const bool told = ReceiveBytes(link->get(), &ready, 1, until) == 1 && ready == kReady;
  return told ? std::move(*link) : UniqueFd{};
}

// Whoever says nothing holds nobody else up, and has as much time as there is: a partner's machine
// may be busy.
UniqueFd LinkMeter::Await(uint32_t machine, Time until) {
  while (!early_.contains(machine)) {
    std::vector<pollfd> waits = {{listener_.get(), POLLIN, 0}};
    for (const Caller& caller : callers_) waits.push_back({caller.link.get(), POLLIN, 0});
    if (!WaitForOneOf(waits, until)) return {};
    std::erase_if(callers_, [this](Caller& caller) { return !StillGreets(&caller); });
    UniqueFd link(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!link.valid()) continue;
    SetTcpOptions(link.get());
    if (callers_.size() == kMostCallers) callers_.erase(callers_.begin());
    callers_.push_back({std::move(link), ""});
  }
  UniqueFd link = std::move(early_.extract(machine).mapped());
  return SendBytes(link.get(), &kReady, 1, until) == 1 ? std::move(link) : UniqueFd{};
}

bool LinkMeter::StillGreets(Caller* caller) {
  const size_t whole = token_.size() + kMachineDigits;
  std::array<char, 64> buffer;
  const size_t missing = std::min(whole - caller->said.size(), buffer.size());
  const ssize_t got = recv(caller->link.get(), buffer.data(), missing, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0) return false;
  caller->said.append(buffer.data(), static_cast<size_t>(got));
  if (caller->said.size() < whole) return true;
  if (!caller->said.starts_with(token_)) return false;
  const auto from = ParseNumber<uint32_t>(caller->said.substr(token_.size()));
  if (from) early_[*from] = std::move(caller->link);
  return false;
}

}  // namespace lockstep::agent
