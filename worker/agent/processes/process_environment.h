// The environment that a process began with, as far as the kernel shows it; of one that hangs in
// the kernel (state D) none, for it may hold its memory map, which reading waits for.
#ifndef LOCKSTEP_WORKER_AGENT_PROCESSES_PROCESS_ENVIRONMENT_H_
#define LOCKSTEP_WORKER_AGENT_PROCESSES_PROCESS_ENVIRONMENT_H_

#include <sys/types.h>

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>

namespace lockstep::agent {

class ProcessEnvironment {
 public:
  explicit ProcessEnvironment(pid_t pid);
  // Whether the kernel may show it another time: not now, for the process hangs.
  bool hidden() const { return hidden_; }
  bool empty() const { return variables_.empty(); }
  // The first of these that is set to more than nothing; "" without one.
  std::string FirstOf(std::initializer_list<std::string_view> names) const;

 private:
  bool hidden_ = true;
  std::map<std::string, std::string, std::less<>> variables_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_PROCESSES_PROCESS_ENVIRONMENT_H_
