// Evidence: where the processes of a machine's ranks stand, for people and for the verdict of a
// hang. Of each process of a rank: its state, its threads with what each waits for, as far as the
// kernel shows it to their user, and its Python stacks: by itself where it is armed
// (armed_stacks.h), else by py-spy.
//
// It changes nothing of a healthy job: no process is stopped, traced or sent a signal that it did
// not ask for. What programs write is hostile text: it is bounded here, and made printable by who
// shows it.
#ifndef LOCKSTEP_WORKER_AGENT_EVIDENCE_EVIDENCE_H_
#define LOCKSTEP_WORKER_AGENT_EVIDENCE_EVIDENCE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "core/gang/protocol/messages.h"

namespace lockstep::agent {

inline constexpr size_t kMaxEvidence = size_t{256} << 10;  // bytes of one rank

struct RankProcess {
  uint32_t rank = 0;
  pid_t pid = 0;  // 0: it has ended
};

// It and what descends from it, some.
std::vector<pid_t> ProcessesOf(const RankProcess& rank);

struct RankEvidence {
  uint32_t rank = 0;
  std::string place;  // in one line; "" where nothing is known
  std::string text;   // lines
};

std::vector<core::Whereabouts> PlacesOf(const std::vector<RankEvidence>& ranks);

// `stacks_folder`: of the armed. Done by `until`, but for a kernel that does not answer.
std::vector<RankEvidence> LookAtRanks(const std::vector<RankProcess>& ranks,
                                      const std::string& stacks_folder, Time until);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_EVIDENCE_EVIDENCE_H_
