// The parts of `scale`, each a process (helper.h) with an event loop of its own:
//
//   coordinator  machine 0's coordinator behind the agent's TLS port, as a real agent runs it
//   members      real protocol members that answer Spawn at once, without a process
//   strangers    agents with the right key and a wrong place, and connections that speak garbage
//   echo         what the same sockets cost with no protocol: the floor
#ifndef LOCKSTEP_TESTS_BENCH_SCALE_H_
#define LOCKSTEP_TESTS_BENCH_SCALE_H_

#include <cstdint>

#include "base/crypto/tls_psk.h"
#include "base/net/tcp.h"
#include "bench/helper.h"

namespace lockstep::bench {

inline constexpr char kJobUid[] = "5ca1e000-0000-4000-8000-000000000001";
Key BenchKey();

// Says {"port"}, then {"announced", "spawned"} (ns) when the generation runs; answers anything with
// its Usage().
void CoordinatorRole(const Line& line, uint32_t members, uint32_t processes = 1);

// Says {"began", "lastHello"} (ns) when every HELLO is out. Then answers {"pings": n}, once every
// member has had n more PINGs, with how late those since the last answer came:
// {"intervalMs", "late": spread, "delivery": spread, "lost": members}.
void MembersRole(const Line& line, uint16_t port, uint32_t members);

// Connects `count` at once, and again when all were refused, for at least `length`; then says
// {"connections", "waves", "seconds"}.
void StrangersRole(const Line& line, uint16_t port, uint32_t members, uint32_t count,
                   Duration length);

// Says {"port"}; answers {"broadcast": bytes} with the ms until each of `count` connections has
// answered it.
void EchoServerRole(const Line& line, uint32_t count);
// Says {"connectMs"}: until all of `count` connections have had 64 bytes echoed.
void EchoClientRole(const Line& line, uint16_t port, uint32_t count);

}  // namespace lockstep::bench

#endif  // LOCKSTEP_TESTS_BENCH_SCALE_H_
