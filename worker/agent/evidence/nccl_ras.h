// What NCCL's RAS thread tells of a job's communicators: since NCCL 2.24 every process of a job
// listens for clients, by default on localhost:28028, else where NCCL_RAS_ADDR says. Text both
// ways: a greeting with the protocol's version, the patience in seconds, and a question that is
// answered by some lines and the end of the connection.
#ifndef LOCKSTEP_WORKER_AGENT_EVIDENCE_NCCL_RAS_H_
#define LOCKSTEP_WORKER_AGENT_EVIDENCE_NCCL_RAS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "base/time.h"
#include "worker/agent/evidence/evidence.h"

namespace lockstep::agent {

inline constexpr size_t kMaxRas = size_t{64} << 10;  // bytes that are kept

// "" where no process of the ranks listens at the address: it may be another job's. It is an
// answer's beginning where that is long, or has not ended by `until`. It waits: not for the loop's
// thread.
std::string AskNcclRas(const std::vector<RankProcess>& ranks, Time until);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_EVIDENCE_NCCL_RAS_H_
