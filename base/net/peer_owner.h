// Which user has the other end of a TCP connection on this computer.
#ifndef LOCKSTEP_BASE_NET_PEER_OWNER_H_
#define LOCKSTEP_BASE_NET_PEER_OWNER_H_

#include <sys/types.h>

#include <optional>

namespace lockstep {

// `socket`: a connected IPv4 one. Asks the kernel for the socket at the other end (sock_diag(7)),
// which takes microseconds, however many sockets there are. Nothing where it is on another
// computer, is gone, or where the kernel does not tell.
std::optional<uid_t> OwnerOfPeer(int socket);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_NET_PEER_OWNER_H_
