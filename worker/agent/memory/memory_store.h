// MemoryStore: this machine's parts of checkpoints in memory, its own and copies of others', below
// the agent's run folder, which is a tmpfs (docs/guides/checkpoints.md).
//
//   local/checkpoints/step-1200/     written by processes: LOCKSTEP_LOCAL_DIR/checkpoints
//   memory/taken-7/                  a commit in question
//   memory/2-5/0/000003.step-1200/   machine 0's part of the third commit of 2-5
//
// It does what core's member decides; what takes long runs on a thread of its own. One loop.
#ifndef LOCKSTEP_WORKER_AGENT_MEMORY_MEMORY_STORE_H_
#define LOCKSTEP_WORKER_AGENT_MEMORY_MEMORY_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/crypto/tls_psk.h"
#include "base/http/http_server.h"
#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/result.h"
#include "core/gang/member/member.h"
#include "worker/agent/files/file_worker.h"
#include "worker/agent/memory/part_fetch.h"

namespace lockstep::agent {

class MemoryStore {
 public:
  struct Options {
    std::string run_dir;
    uint32_t machine = 0;
    uint64_t size = 0;    // bytes that all parts may have
    uint64_t copies = 0;  // of each part, on other machines
    // Makes a folder what `part` is in the object store, of at most `limit` bytes. On a thread of
    // the store's own. Empty: there is no object store.
    std::function<Status(const core::MemoryPart& part, const std::string& folder, uint64_t limit)>
        fetch_stored = {};
  };
  class Owner {
   public:
    virtual void OnPartHeld(core::MemoryPart part) = 0;
    virtual void OnFetchFailed(core::MemoryPart part, std::string reason) = 0;
    virtual void OnPersisted(core::Persisted persisted) = 0;

   protected:
    ~Owner() = default;
  };

  // `tls` is a client's context. It and `owner` outlive the store.
  static Result<std::unique_ptr<MemoryStore>> Create(EventLoop* loop, const TlsPskContext* tls,
                                                     Options options, Owner* owner);
  MemoryStore(const MemoryStore&) = delete;
  MemoryStore& operator=(const MemoryStore&) = delete;

  // Empties the folder that processes write to; none of them lives.
  void BeginGeneration();
  // Takes a folder that a process commits; `done` gets why it can't be kept, or "".
  void StorePart(uint64_t commit, const std::string& name,
                 const std::function<void(std::string)>& done);
  // What came of it: OnPartHeld, and `done` gets the part's path, or why it could not be kept.
  void Grant(uint64_t commit, const core::MemoryPart& part,
             const std::function<void(Result<std::string>)>& done);
  void Refuse(uint64_t commit);

  void Fetch(const core::Fetch& fetch);
  void Drop(const std::vector<core::MemoryPart>& parts);
  // Writes parts, by machine, where they outlive this agent. On a thread of the store's own.
  using WriteParts = std::function<Status(const std::map<uint32_t, std::string>& folders)>;
  void Persist(const core::Persist& persist, WriteParts write);
  // GET /memory.
  void Serve(const HttpRequest& request, HttpResponder respond);
  // This machine's part; "" if it holds none.
  std::string OwnPart(core::CheckpointId id) const;

 private:
  struct Taken {
    std::string name;
    uint64_t size = 0;
    uint64_t era = 0;  // BeginGeneration's
  };

  MemoryStore(EventLoop* loop, const TlsPskContext* tls, Options options, Owner* owner);
  std::string PathOf(const core::MemoryPart& part) const;
  std::string TakenPath(uint64_t commit) const;
  uint64_t used() const;
  std::string Room(uint64_t size, uint64_t times) const;
  void FetchStored(const core::MemoryPart& part);
  void OnFetched(const core::MemoryPart& part, Result<Manifest> manifest);
  void OnHashed(const core::MemoryPart& part, const Result<Manifest>& manifest);
  void Remove(const std::string& path);

  EventLoop* loop_;
  const TlsPskContext* tls_;
  Options options_;
  Owner* owner_;
  std::string folder_;
  std::string writing_;
  std::unique_ptr<FileWorker> files_;   // what processes wait for
  std::unique_ptr<FileWorker> hasher_;  // reads whole parts
  std::unique_ptr<FileWorker> volume_;  // writes whole parts to the checkpoint folder
  std::map<uint64_t, Taken> taken_;
  std::map<core::MemoryPart, uint64_t> sizes_;                  // what is held, or on its way
  std::map<core::MemoryPart, std::optional<Manifest>> held_;    // none: being read, or not readable
  std::vector<std::pair<HttpRequest, HttpResponder>> waiting_;  // for parts that are being read
  std::map<core::MemoryPart, std::unique_ptr<PartFetch>> fetches_;
  std::set<core::MemoryPart> fetching_stored_;
  std::vector<core::Persist> persisting_;        // in hand, or queued
  std::set<core::MemoryPart> hashing_;           // granted, and its hashes not yet known
  std::vector<core::MemoryPart> dropped_later_;  // it is being written to the folder, or hashed
  uint64_t era_ = 0;
  uint64_t removed_ = 0;  // names what was moved aside
  Lifetime lifetime_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_MEMORY_MEMORY_STORE_H_
