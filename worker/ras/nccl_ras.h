// What NCCL's RAS thread tells of a job's communicators: since NCCL 2.24 every process of a job
// listens for clients, by default on localhost:28028, else where NCCL_RAS_ADDR says; those of one
// machine share the port. Text both ways: a greeting with the protocol's version, the patience in
// seconds, and a question that is answered by some lines and the end of the connection.
//
// Whoever listens may say anything, and for ever: each wait has an end, and each text a limit.
#ifndef LOCKSTEP_WORKER_RAS_NCCL_RAS_H_
#define LOCKSTEP_WORKER_RAS_NCCL_RAS_H_

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/text/endpoint.h"
#include "base/time.h"

namespace lockstep::ras {

inline constexpr size_t kMaxAnswer = size_t{64} << 10;  // bytes that are kept
inline constexpr size_t kMaxFindings = 400;

// Where this process listens for clients of RAS, `named` being its NCCL_RAS_ADDR; nullopt where it
// does not: RAS is off, or the port is another job's.
std::optional<Endpoint> ListenerOf(pid_t pid, const std::string& named);

struct Answer {
  std::string text;    // lines
  bool whole = false;  // it has ended
};
// Its verbose status; nullopt where nobody answers as RAS does. It waits, at most `until`.
std::optional<Answer> Ask(const Endpoint& address, Time until);

// The answer's errors and warnings in one line of at most kMaxFindings printable bytes: "1 job
// process is considered dead (unreachable via the RAS network), Process 3487984 on node 10.0.0.7
// managing GPU 5"; that there are none; "" where the text has no such sections.
std::string Findings(std::string_view text);

}  // namespace lockstep::ras

#endif  // LOCKSTEP_WORKER_RAS_NCCL_RAS_H_
