// TCP between the ranks: addresses are IPs, sockets do not block, every wait has a deadline.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_SOCKET_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_SOCKET_H_

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"

namespace lockstep::collectives {

// True for "10.0.0.7" and "fd00::7".
bool IsAddress(const std::string& text);

// "10.0.0.7:7070", "[fd00::7]:7070".
std::string AddressText(const std::string& address, uint16_t port);

// Listens on `address`, or on all of this machine's where that one is another's (a Service's
// virtual address leads here without being here). Conflict when the port is in use.
Result<UniqueFd> ListenTcp(const std::string& address, uint16_t port, int backlog);

// Connects once, waiting at most until `deadline`. Unavailable when nobody listens.
Result<UniqueFd> ConnectTcp(const std::string& address, uint16_t port, Time deadline);

// No Nagle; a peer whose machine vanished is noticed in 15 s, even when nothing is sent.
void SetTcpOptions(int socket);

// The address that this machine has on the way to `address`, and its interface's name.
Result<std::string> LocalAddressTowards(const std::string& address);
std::string InterfaceOf(const std::string& local_address);
// An address of `interface`, of the family of `like`. Invalid, naming GLOO_SOCKET_IFNAME, when the
// interface has none.
Result<std::string> AddressOf(const std::string& interface, const std::string& like);

// Milliseconds for poll() until `deadline`, rounded up, at least 0.
int PollTimeout(Time now, Time deadline);

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_SOCKET_H_
