#include "base/net/peer_owner.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "base/unique_fd.h"

namespace lockstep {
namespace {

struct Question {
  nlmsghdr header;
  inet_diag_req_v2 about;
};

// The connection as its other end has it: source and destination swapped.
std::optional<inet_diag_sockid> OtherEnd(int socket) {
  sockaddr_in own{};
  sockaddr_in peer{};
  socklen_t own_size = sizeof own;
  socklen_t peer_size = sizeof peer;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_size) != 0) return std::nullopt;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) return std::nullopt;
  if (own.sin_family != AF_INET || peer.sin_family != AF_INET) return std::nullopt;
  inet_diag_sockid id{};
  id.idiag_sport = peer.sin_port;
  id.idiag_dport = own.sin_port;
  id.idiag_src[0] = peer.sin_addr.s_addr;
  id.idiag_dst[0] = own.sin_addr.s_addr;
  id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
  id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return id;
}

}  // namespace

std::optional<uid_t> OwnerOfPeer(int socket) {
  const std::optional<inet_diag_sockid> id = OtherEnd(socket);
  if (!id) return std::nullopt;
  const UniqueFd kernel(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!kernel.valid()) return std::nullopt;
  Question question{};
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.about.sdiag_family = AF_INET;
  question.about.sdiag_protocol = IPPROTO_TCP;
  question.about.idiag_states = ~uint32_t{0};
  question.about.id = *id;
  if (send(kernel.get(), &question, sizeof question, 0) != sizeof question) return std::nullopt;
  // The kernel has answered by the time that send returns.
  alignas(nlmsghdr) std::array<char, 4096> answer{};
  const ssize_t got = recv(kernel.get(), answer.data(), answer.size(), MSG_DONTWAIT);
  constexpr size_t kWhole = NLMSG_LENGTH(sizeof(inet_diag_msg));
  if (got < static_cast<ssize_t>(kWhole)) return std::nullopt;
  nlmsghdr header{};
  std::memcpy(&header, answer.data(), sizeof header);
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY) return std::nullopt;
  inet_diag_msg about{};
  std::memcpy(&about, answer.data() + NLMSG_HDRLEN, sizeof about);
  return about.idiag_uid;
}

}  // namespace lockstep
