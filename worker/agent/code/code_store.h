// CodeStore: the versions of the program's code that this machine holds, and the ranks' folder with
// one of them, below the agent's run folder (ADR 071). In jobs with sync.
//
//   code/stage/SHA256     contents, each once
//   code/tree/            the ranks' folder
//   code/incoming-PID/    a version that lockstep-agent --sync-receive brings: manifest, contents
//
// A version is held once all its contents are in the stage and have their hashes. The store keeps
// the version that ranks run and the newest two. One thread.
#ifndef LOCKSTEP_WORKER_AGENT_CODE_CODE_STORE_H_
#define LOCKSTEP_WORKER_AGENT_CODE_CODE_STORE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/crypto/tls_psk.h"
#include "base/http/http_server.h"
#include "base/loop/event_loop.h"
#include "base/result.h"
#include "core/gang/protocol/messages.h"
#include "worker/agent/code/code_fetch.h"
#include "worker/code/code_folder.h"
#include "worker/code/code_manifest.h"

namespace lockstep::agent {

// The folder of a store in the agent's run folder.
inline std::string CodeHome(const std::string& run_dir) { return run_dir + "/code"; }
// The manifest's name in a folder that --sync-receive fills.
inline constexpr const char* kIncomingManifest = "manifest";
inline constexpr const char* kIncomingFolder = "incoming-";

class CodeStore {
 public:
  class Owner {
   public:
    virtual void OnCodeHeld(std::vector<std::string> digests) = 0;
    virtual void OnCodeFailed(const std::string& digest, std::string reason) = 0;

   protected:
    ~Owner() = default;
  };

  // Empties the folder. `tls` is a client's context. It and `owner` outlive the store.
  static Result<std::unique_ptr<CodeStore>> Create(EventLoop* loop, const TlsPskContext* tls,
                                                   const std::string& run_dir, Owner* owner);
  CodeStore(const CodeStore&) = delete;
  CodeStore& operator=(const CodeStore&) = delete;

  // Moves a version from `incoming`, a folder's name below code/. NotFound: some contents are
  // neither there nor here; the folder stays. OnCodeHeld follows a success.
  Result<CodeManifest> Take(const std::string& digest, const std::string& incoming);
  void Fetch(const core::FetchCode& fetch);
  // Makes the ranks' folder this version. Only while no rank runs.
  Status Use(const std::string& digest);
  // GET /code.
  void Serve(const HttpRequest& request, HttpResponder respond);

  std::string tree() const { return folder_.tree(); }

 private:
  CodeStore(EventLoop* loop, const TlsPskContext* tls, std::string home, CodeFolder folder,
            Owner* owner)
      : loop_(loop), tls_(tls), home_(std::move(home)), folder_(std::move(folder)), owner_(owner) {}

  void Add(const std::string& digest, CodeManifest manifest);
  // The manifest's text; null: the version is not here.
  const std::string* TextOf(const std::string& digest);
  void DropOld();
  std::vector<std::string> Digests() const;

  EventLoop* loop_;
  const TlsPskContext* tls_;
  std::string home_;
  CodeFolder folder_;
  Owner* owner_;
  std::vector<std::pair<std::string, CodeManifest>> versions_;  // by digest; the newest last
  std::string used_;                                            // in the ranks' folder
  std::pair<std::string, std::string> served_;  // the last version that was asked for, as a text
  std::unique_ptr<CodeFetch> fetch_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_CODE_CODE_STORE_H_
