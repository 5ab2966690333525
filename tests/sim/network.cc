#include "tests/sim/network.h"

#include <algorithm>
#include <utility>

#include "tests/sim/schedule.h"
#include "tests/sim/world.h"

namespace lockstep::sim {

void Network::Isolate(Node node, uint32_t how, Duration duration) {
  Time until = world_.now() + duration;
  partitions_.push_back({node, how, until});
  if ((how & kReset) != 0) world_.queue().At(until, [this, node] { Cut(node); });
}

void Network::Delay(Node node, Duration most, Duration duration) {
  slow_.push_back({node, most, world_.now() + duration});
}

void Network::Cut(Node node) {
  for (auto& link : links_) {
    if (link->open && (link->client == node || link->server == node)) Cut(*link);
  }
}

void Network::Cut(Link& link) {
  link.open = false;
  // Either end notices in its own time; the server perhaps only after the client is back.
  core::ConnectionId id = link.id;
  Node client = link.client;
  Node server = link.server;
  Random& random = world_.random();
  world_.queue().After(random.Between(Duration::zero(), milliseconds(20)),
                       [this, client, id] { world_.machine(client).OnDisconnected(id); });
  Duration late = random.Chance(30) ? seconds(4) : milliseconds(50);
  world_.queue().After(random.Between(Duration::zero(), late),
                       [this, server, id] { world_.machine(server).OnPeerGone(id); });
}

Time Network::ClearAt(Node a, Node b) const {
  Time clear = Time::zero();
  for (const Partition& partition : partitions_) {
    if (partition.until <= world_.now()) continue;
    if (partition.node != a && partition.node != b) continue;
    Node other = partition.node == a ? b : a;
    uint32_t side = other == kOperatorNode ? kFromOperator : kFromPeers;
    if ((partition.how & side) != 0) clear = std::max(clear, partition.until);
  }
  return clear;
}

Duration Network::Latency(Node a, Node b) {
  Duration latency = world_.random().Between(microseconds(50), world_.shape().network);
  for (const Slowness& slowness : slow_) {
    if (slowness.until <= world_.now() || (slowness.node != a && slowness.node != b)) continue;
    latency += world_.random().Between(Duration::zero(), slowness.most);
  }
  return latency;
}

core::ConnectionId Network::Connect(Node client, Node server) {
  auto link = std::make_unique<Link>();
  link->id = kFirstLink + links_.size();
  link->client = client;
  link->server = server;
  links_.push_back(std::move(link));
  return links_.back()->id;
}

void Network::SendUp(core::ConnectionId id, core::Message message) {
  Put(id, true, std::move(message));
}

void Network::SendDown(core::ConnectionId id, core::Message message) {
  Put(id, false, std::move(message));
}

void Network::Put(core::ConnectionId id, bool up, std::optional<core::Message> message) {
  Link* link = &Get(id);
  if (!link->open) return;
  Time& last = up ? link->up_last : link->down_last;
  Time from = std::max(world_.now(), ClearAt(link->client, link->server));
  last = std::max(last, from + Latency(link->client, link->server));
  (up ? link->up : link->down).push_back(std::move(message));
  world_.queue().At(last,
                    [this, tag = id * 2 + (up ? 1U : 0U)] { Deliver(tag / 2, tag % 2 == 1); });
}

void Network::Deliver(core::ConnectionId id, bool up) {
  Link* link = &Get(id);
  if (!link->open) return;
  Stream& stream = up ? link->up : link->down;
  std::optional<core::Message> message = std::move(stream.front());
  stream.pop_front();
  Machine& machine = world_.machine(up ? link->server : link->client);
  if (message) {
    up ? machine.OnMessageFromPeer(id, std::move(*message))
       : machine.OnMessage(id, std::move(*message));
    return;
  }
  link->open = false;
  up ? machine.OnPeerGone(id) : machine.OnDisconnected(id);
}

void Network::CloseAll(Node node) {
  for (auto& link : links_) {
    if (!link->open) continue;
    if (link->client == node) CloseUp(link->id);
    if (link->server == node) CloseDown(link->id);
  }
}

}  // namespace lockstep::sim
