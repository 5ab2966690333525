// What must be there before a run's first agent is started, and what each agent is given of it.
#ifndef LOCKSTEP_CLI_RUN_RUN_SETUP_H_
#define LOCKSTEP_CLI_RUN_RUN_SETUP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/crypto/hkdf.h"
#include "base/loop/event_loop.h"
#include "base/process/process.h"
#include "base/result.h"
#include "cli/run/machines/places.h"
#include "core/model/spec.h"
#include "core/plan/agent_config.h"
#include "core/status/status.h"
#include "worker/place/run_folder.h"

namespace lockstep::cli {

struct RunSetup {
  Key key{};
  std::vector<Place> places;  // of each machine
  place::RunFolder folder;
  std::unique_ptr<EventLoop> loop;
  std::unique_ptr<Spawner> spawner;
};

// Changes this process: a subreaper, deaf to SIGPIPE, that may open many files.
// `agent`: its path, on other nodes too.
Result<RunSetup> PrepareRun(uint32_t machines, const Nodes& nodes, const std::string& agent);

// A file for /etc/hosts of each machine: the names and addresses of all of them, then what this
// computer's says. "": no such file could be made.
std::string MakeHostsFile(const RunSetup& setup, const std::string& job);
// Its text. Pure.
std::string HostsText(const std::string& job, const std::vector<Place>& places,
                      std::string_view computers);

// For the attempt of `machine` that stands in `status`, whose folder is made; on another node its
// far end makes one there, and sets what names it. `job`: with its UID. `checkpoint_path`: of the
// run's state, as `checkpoint_url`; `first_attempt`: the first epoch of this run.
Result<core::AgentConfig> AgentConfigOf(const RunSetup& setup, const core::TrainingJob& job,
                                        const std::string& checkpoint_path,
                                        const std::string& checkpoint_url,
                                        const core::JobStatus& status, uint32_t first_attempt,
                                        uint32_t machine);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_RUN_SETUP_H_
