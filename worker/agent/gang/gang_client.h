// GangClient: an agent's line to the coordinator, kept up for as long as the client lives. A lost
// connection is tried again after 5 ms, then twice as long each time up to LastRetry, each time
// shortened at random by up to half so that a thousand agents do not come back at one moment.
//
// A dial that nobody answers has another beside it after 0.5 s; the first line to open is kept.
// Where a Service's address leads is settled for good when a connection begins, in every of its
// packets: one that began towards a dead machine never reaches the machine that came in its place,
// and one that begins now does. The older ones wait on, up to 5 s, for peers that are slow or far.
//
//   GangClient client(loop, &tls, endpoint, machines, owner, seed);
//   client.Start();
//   client.Send(Encode(hello));            // in OnOpen, and after it
#ifndef LOCKSTEP_WORKER_AGENT_GANG_GANG_CLIENT_H_
#define LOCKSTEP_WORKER_AGENT_GANG_GANG_CLIENT_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/backoff.h"
#include "base/crypto/tls_psk.h"
#include "base/loop/event_loop.h"
#include "base/loop/wake_timer.h"
#include "base/net/connection.h"
#include "base/net/tcp.h"
#include "base/time.h"
#include "worker/agent/gang/frame_connection.h"

namespace lockstep::agent {

class GangClient {
 public:
  class Owner {
   public:
    virtual void OnOpen() = 0;
    virtual void OnMessage(std::string_view body) = 0;
    // An open line ended, or an attempt failed; the next try is already arranged.
    virtual void OnClose(const std::string& reason) = 0;

   protected:
    ~Owner() = default;
  };
  // A socket whose connect() is under way, as ConnectTcp gives it.
  using Dial = std::function<Result<UniqueFd>(const Endpoint&)>;

  static constexpr Duration kFirstRetry = milliseconds(5);
  // Where machine 0 is not there yet: some 300 dials a second of a whole gang, up to 200 machines;
  // of a larger one each dials at least once a second.
  static constexpr Duration LastRetry(uint32_t machines) {
    return std::clamp<Duration>(machines * milliseconds(5), milliseconds(100), seconds(1));
  }
  static constexpr Duration kConnectDeadline = seconds(5);
  // The kernel's own second packet to where the first one went follows after a second.
  static constexpr Duration kDialBeside = milliseconds(500);

  // `tls` is a client's context. It and `owner` outlive this; `machines` are the gang's; `seed` is
  // for the jitter.
  GangClient(EventLoop* loop, const TlsPskContext* tls, const Endpoint& endpoint, uint32_t machines,
             Owner* owner, uint64_t seed, Dial dial = ConnectTcp);
  GangClient(const GangClient&) = delete;
  GangClient& operator=(const GangClient&) = delete;

  void Start();
  // Drops the line, if any, with this reason, and tries again.
  void Reconnect(const std::string& reason);

  bool open() const { return frames_ != nullptr; }
  // Drops the body if the connection is not open. The owner sends its state again in OnOpen.
  void Send(std::string_view body);

 private:
  void Connect();
  void OnDialOpen(const Connection* dialed);
  void OnDialEnd(const Connection* dialed, const std::string& reason);
  void OnClose(const std::string& reason);
  std::unique_ptr<Connection> TakeDial(const Connection* dialed);
  Duration NextDelay();

  EventLoop* loop_;
  const TlsPskContext* tls_;
  Endpoint endpoint_;
  Owner* owner_;
  std::mt19937_64 random_;
  DoublingPause delay_;
  Dial dial_;
  WakeTimer retry_;
  std::vector<std::unique_ptr<Connection>> dials_;  // none of them open; the oldest first
  std::unique_ptr<FrameConnection> frames_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_GANG_GANG_CLIENT_H_
