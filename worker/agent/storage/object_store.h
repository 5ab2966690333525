// ObjectStore: runs lockstep-s3 (worker/s3), the program that talks S3 for the agent, once for each
// operation. It is a child of the agent that no stop of a generation ends. The credentials are
// those of the agent's environment, or of checkpoint.secret.
#ifndef LOCKSTEP_WORKER_AGENT_STORAGE_OBJECT_STORE_H_
#define LOCKSTEP_WORKER_AGENT_STORAGE_OBJECT_STORE_H_

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/process/process.h"
#include "base/result.h"
#include "base/text/json.h"
#include "base/time.h"

namespace lockstep::agent {

inline constexpr char kS3Program[] = "lockstep-s3";

// The path of lockstep-s3 beside the agent, else in PATH; beside the agent if it is nowhere.
std::string FindS3Program();

// The variables of this process that begin with core::kStorePrefix, as NAME=value without it, which
// are then no longer in its environment. Call it before any thread starts.
std::vector<std::string> TakeStoreVariables();

// The environment of lockstep-s3: `own`, in which `store` has replaced variables of the same names.
// Credentials come from one of the two only.
std::vector<std::string> StoreEnvironment(std::vector<std::string> own,
                                          const std::vector<std::string>& store);

class ObjectStore {
 public:
  struct Handlers {
    // As ProcessSet has them.
    std::function<void(pid_t)> leave_out;
    std::function<void(pid_t)> take_in;
  };

  // `program`: the path of lockstep-s3. `url`: s3://BUCKET/PREFIX. `variables`: of
  // TakeStoreVariables.
  ObjectStore(EventLoop* loop, Spawner* spawner, std::string program, std::string url,
              std::vector<std::string> variables, Handlers handlers);
  ~ObjectStore() { Close(); }
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;

  const std::string& url() const { return url_; }

  // Runs one command to its end, and gives what it printed. It waits: not for the loop's thread,
  // which must run meanwhile or Close. Errors: Conflict if another writer was first, NotFound,
  // Invalid if a repetition fails again, Unavailable.
  Result<Json> Run(std::vector<std::string> arguments, Duration patience);
  // For the loop's thread: ends what runs. From here on Run is Unavailable.
  void Close();

 private:
  using Process = std::shared_ptr<SpawnedProcess>;

  Result<Process> Start(const std::vector<std::string>& arguments);
  void End(pid_t pid);

  EventLoop* loop_;
  Spawner* spawner_;
  std::string program_;
  std::string url_;
  std::vector<std::string> variables_;
  Handlers handlers_;
  std::atomic<bool> closed_ = false;
  std::map<pid_t, Process> running_;  // for the loop's thread
  Lifetime lifetime_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_STORAGE_OBJECT_STORE_H_
