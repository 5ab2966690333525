// PartFetch: gets one part from another agent's memory, over the gang's port and under its key: the
// manifest, then each file piece by piece, at a bounded rate. What does not fit the manifest's
// hashes is refused. One thread.
//
//   GET /memory?part=1-3/5/0                         the manifest
//   GET /memory?part=1-3/5/0&file=2&offset=1048576   at most kPieceSize bytes of its third file
#ifndef LOCKSTEP_WORKER_AGENT_MEMORY_PART_FETCH_H_
#define LOCKSTEP_WORKER_AGENT_MEMORY_PART_FETCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/crypto/sha256.h"
#include "base/crypto/tls_psk.h"
#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/loop/wake_timer.h"
#include "base/net/connection.h"
#include "base/net/tcp.h"
#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "worker/agent/files/part_folder.h"

namespace lockstep::agent {

inline constexpr size_t kPieceSize = size_t{1} << 20;

class PartFetch {
 public:
  static constexpr uint64_t kBytesPerSecond = uint64_t{256} << 20;
  static constexpr Duration kPatience = seconds(5);          // without a byte
  static constexpr Duration kManifestPatience = minutes(2);  // its holder may have to read it first

  struct Handlers {
    // Whether there is room for so many bytes; "" or why not.
    std::function<std::string(uint64_t size)> room;
    // Once, never from within Start: it lies in `folder`, whole, or why not. May destroy the fetch.
    std::function<void(Result<Manifest>)> done;
  };

  // `part` as in the request; `folder` is made.
  PartFetch(EventLoop* loop, const TlsPskContext* tls, const Endpoint& endpoint, std::string part,
            std::string folder, Handlers handlers);
  PartFetch(const PartFetch&) = delete;
  PartFetch& operator=(const PartFetch&) = delete;

  void Start();

 private:
  void Ask();
  void OnData(std::string_view bytes);
  void OnBody(std::string_view body);
  Status TakeManifest(std::string_view body);
  Status TakePiece(std::string_view body);
  // The next file that has bytes; those that have none are made on the way.
  Status OpenNext();
  void End(Result<Manifest> result);

  EventLoop* loop_;
  const TlsPskContext* tls_;
  Endpoint endpoint_;
  std::string part_;
  std::string folder_;
  Handlers handlers_;
  std::unique_ptr<Connection> connection_;
  std::string received_;
  std::optional<Manifest> manifest_;
  size_t file_ = 0;
  uint64_t offset_ = 0;
  UniqueFd fd_;
  Sha256 hash_;
  Time began_{};
  uint64_t bytes_ = 0;
  bool ended_ = false;
  WakeTimer next_;  // keeps to the rate
  Lifetime lifetime_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_MEMORY_PART_FETCH_H_
