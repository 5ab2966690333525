// CodeFetch: gets one version of the program's code from another agent, over the gang's port and
// under its key: the manifest, then the contents that are not in the stage, piece by piece. What
// does not fit its hash is refused. One thread.
//
//   GET /code?version=DIGEST&offset=0          at most kCodePiece bytes of the manifest
//   GET /code?content=SHA256&offset=1048576    at most kCodePiece bytes of a file
//
// The last piece of a manifest is shorter than kCodePiece, and may be empty.
#ifndef LOCKSTEP_WORKER_AGENT_CODE_CODE_FETCH_H_
#define LOCKSTEP_WORKER_AGENT_CODE_CODE_FETCH_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/crypto/tls_psk.h"
#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/net/connection.h"
#include "base/net/tcp.h"
#include "base/result.h"
#include "base/time.h"
#include "worker/code/code_manifest.h"

namespace lockstep::agent {

inline constexpr size_t kCodePiece = size_t{1} << 20;

class CodeFetch {
 public:
  static constexpr Duration kPatience = seconds(5);  // without a byte
  // Once, never from within Start: all contents are in the stage, or why not. May destroy the
  // fetch.
  using Done = std::function<void(Result<CodeManifest>)>;

  CodeFetch(EventLoop* loop, const TlsPskContext* tls, const Endpoint& endpoint, std::string digest,
            std::string stage, Done done);
  CodeFetch(const CodeFetch&) = delete;
  CodeFetch& operator=(const CodeFetch&) = delete;

  void Start();

  const std::string& digest() const { return digest_; }
  // Null: it has not come yet.
  const CodeManifest* manifest() const { return manifest_ ? &*manifest_ : nullptr; }

 private:
  struct Wanted {
    std::string sha256;
    uint64_t size = 0;
  };

  void Ask();
  void OnData(std::string_view bytes);
  Status TakeManifestPiece(std::string_view body);
  Status TakeManifest();
  Status TakePiece(std::string_view body);
  // Puts the content that is complete into the stage.
  Status Keep();
  void End(Result<CodeManifest> result);

  EventLoop* loop_;
  const TlsPskContext* tls_;
  Endpoint endpoint_;
  std::string digest_;
  std::string stage_;
  Done done_;
  std::unique_ptr<Connection> connection_;
  std::string received_;
  std::string text_;  // of the manifest, so far
  std::optional<CodeManifest> manifest_;
  std::vector<Wanted> wanted_;  // the next one last
  std::string content_;         // of that one, so far
  bool ended_ = false;
  Lifetime lifetime_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_CODE_CODE_FETCH_H_
