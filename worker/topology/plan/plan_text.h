// The sentences of a binding plan's reasons and notes.
#ifndef LOCKSTEP_WORKER_TOPOLOGY_PLAN_PLAN_TEXT_H_
#define LOCKSTEP_WORKER_TOPOLOGY_PLAN_PLAN_TEXT_H_

#include <cstddef>
#include <string>

namespace lockstep::topology {

// Behind a semicolon, once.
inline void AddReason(const std::string& text, std::string* to) {
  if (text.empty() || to->find(text) != std::string::npos) return;
  *to += (to->empty() ? "" : "; ") + text;
}

// "1 GPU", "2 GPUs".
inline std::string CountText(size_t number, const std::string& what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_PLAN_PLAN_TEXT_H_
