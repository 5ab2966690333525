// Server: OpenPMIx's server library for one machine's ranks of one generation. What it asks of its
// host comes in threads of the library's and goes to the agent; the answers come back by OnFence.
//
// Served are what MPI_Init, MPI_Abort and MPI_Finalize take: the job's shape, fences over all its
// ranks with what they put, abort. Spawning, publishing, connecting and asking for one rank's data
// alone (direct modex) are refused.
#ifndef LOCKSTEP_WORKER_PMIX_HELPER_SERVER_H_
#define LOCKSTEP_WORKER_PMIX_HELPER_SERVER_H_

#include <pmix_server.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_annotations.h"
#include "worker/pmix/helper/job_info.h"
#include "worker/pmix/helper/link.h"

namespace lockstep::pmix {

class Server {
 public:
  // One in a process, until its end: the library knows no other. `link` outlives it.
  Server(JobShape shape, Link* link);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // The library is up, and knows of no job.
  Status Init();
  // Its ranks may come once their variables have been sent.
  Status Begin(const std::string& name);
  // Of all machines, the answer to the fence that waits longest.
  Status OnFence(const Message& part);

 private:
  struct Fence {
    std::string data;
    pmix_modex_cbfunc_t answer = nullptr;
    void* answer_data = nullptr;
  };

  static pmix_server_module_t Module();
  static pmix_status_t Connected(const pmix_proc_t* proc, void* object, pmix_info_t info[],
                                 size_t count, pmix_op_cbfunc_t answer, void* data);
  static pmix_status_t Finalized(const pmix_proc_t* proc, void* object, pmix_op_cbfunc_t answer,
                                 void* data);
  static pmix_status_t Aborted(const pmix_proc_t* proc, void* object, int status,
                               const char message[], pmix_proc_t procs[], size_t count,
                               pmix_op_cbfunc_t answer, void* data);
  static pmix_status_t EnterFence(const pmix_proc_t procs[], size_t count, const pmix_info_t info[],
                                  size_t infos, char* bytes, size_t size,
                                  pmix_modex_cbfunc_t answer, void* data);

  static pmix_status_t RefuseSpawn(const pmix_proc_t* proc, const pmix_info_t info[], size_t infos,
                                   const pmix_app_t apps[], size_t count,
                                   pmix_spawn_cbfunc_t answer, void* data);

  bool IsOurs(const pmix_proc_t& proc) const;
  bool AreAll(const pmix_proc_t procs[], size_t count) const;
  void Tell(Kind kind, const pmix_proc_t& proc, int code, std::string text);
  pmix_status_t Queue(Fence fence);

  JobShape shape_;
  Link* link_;
  std::string name_;                         // of the namespace; set before any client can come
  size_t most_;                              // bytes that this machine may put in a fence
  std::string answer_;                       // parts that have come
  std::atomic<bool> spawn_refused_ = false;  // and said so
  Mutex mutex_;
  // The first is the agent's.
  std::deque<Fence> fences_ GUARDED_BY(mutex_);
};

}  // namespace lockstep::pmix

#endif  // LOCKSTEP_WORKER_PMIX_HELPER_SERVER_H_
