// Network: ordered connections, as TCP gives them, between nodes. A connection keeps its order
// under any delay; it may stall behind a partition and go on, or be cut and lose what is in flight.
// A node is one container; the operator and the API server stand on a node of their own.
#ifndef LOCKSTEP_TESTS_SIM_NETWORK_H_
#define LOCKSTEP_TESTS_SIM_NETWORK_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/time.h"
#include "core/gang/coordinator/coordinator.h"
#include "core/gang/protocol/messages.h"

namespace lockstep::sim {

class World;

using Node = uint32_t;
inline constexpr Node kOperatorNode = UINT32_MAX;

// One end's view of what the other sent and has not arrived; nullopt is the end of the stream.
using Stream = std::deque<std::optional<core::Message>>;

struct Link {
  core::ConnectionId id = 0;
  Node client = 0;
  Node server = 0;
  bool open = true;  // false: nothing that is still in flight arrives
  Stream up;         // to the server
  Stream down;
  Time up_last{};
  Time down_last{};
};

// The connection of machine 0's member to its own coordinator never leaves the process.
inline constexpr core::ConnectionId kLocalConnection = 1;
inline constexpr core::ConnectionId kFirstLink = 2;

class Network {
 public:
  explicit Network(World& world) : world_(world) {}

  void Isolate(Node node, uint32_t how, Duration duration);
  void Delay(Node node, Duration most, Duration duration);
  // The connections of a node are reset.
  void Cut(Node node);

  bool Blocked(Node a, Node b) const { return ClearAt(a, b) > Time::zero(); }
  // When a and b reach each other again; zero: they do.
  Time ClearAt(Node a, Node b) const;
  Duration Latency(Node a, Node b);

  core::ConnectionId Connect(Node client, Node server);
  Node ClientOf(core::ConnectionId id) const { return Get(id).client; }
  Node ServerOf(core::ConnectionId id) const { return Get(id).server; }
  void SendUp(core::ConnectionId id, core::Message message);
  void SendDown(core::ConnectionId id, core::Message message);
  // What was sent before still arrives; then the other end sees the end of the stream.
  void CloseUp(core::ConnectionId id) { Put(id, true, std::nullopt); }
  void CloseDown(core::ConnectionId id) { Put(id, false, std::nullopt); }
  // Both, for every connection of a container that ended.
  void CloseAll(Node node);

 private:
  struct Partition {
    Node node;
    uint32_t how;
    Time until;
  };
  struct Slowness {
    Node node;
    Duration most;
    Time until;
  };

  Link& Get(core::ConnectionId id) const { return *links_[id - kFirstLink]; }
  void Put(core::ConnectionId id, bool up, std::optional<core::Message> message);
  void Deliver(core::ConnectionId id, bool up);
  void Cut(Link& link);

  World& world_;
  std::vector<Partition> partitions_;
  std::vector<Slowness> slow_;
  std::vector<std::unique_ptr<Link>> links_;  // by id, from kFirstLink
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_NETWORK_H_
