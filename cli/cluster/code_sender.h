// CodeSender: sends the code of a folder to machine 0's agent, and says what the gang makes of it:
// the client of lockstep-agent --sync-receive (worker/agent/sync_receive.h). One loop.
//
//   CodeSender sender(loop, spawner, &scanner, {.by = "alice", .watch = true}, owner);
//   sender.Start(argv);   // `kubectl exec -i` of that agent
//   sender.OnEdit();      // the folder has changed
#ifndef LOCKSTEP_CLI_CLUSTER_CODE_SENDER_H_
#define LOCKSTEP_CLI_CLUSTER_CODE_SENDER_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/wake_timer.h"
#include "base/process/process.h"
#include "base/result.h"
#include "base/text/json.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "cli/sync/code_scanner.h"
#include "core/terms/generation.h"

namespace lockstep::cli {

class CodeSender {
 public:
  struct Options {
    std::string by;      // who syncs
    std::string stage;   // where the scanner keeps contents
    bool watch = false;  // the user edits on: code that fails before its first step holds the gang
  };
  class Owner {
   public:
    // The ranks run the code, or the gang holds it until it may run.
    virtual void OnCodeRuns() = 0;
    // The agent, or the gang, does not take the code that was sent.
    virtual void OnRefused(const std::string& why) = 0;
    // The line to the agent ended. Never from within Start or OnEdit.
    virtual void OnLineEnded(const std::string& why) = 0;

   protected:
    ~Owner() = default;
  };

  // All that is pointed to outlives the sender.
  CodeSender(EventLoop* loop, Spawner* spawner, CodeScanner* scanner, Options options,
             Owner* owner);
  ~CodeSender();
  CodeSender(const CodeSender&) = delete;
  CodeSender& operator=(const CodeSender&) = delete;

  // Starts the program, which then gets the folder's code.
  void Start(std::vector<std::string> argv);
  // Sends the folder's code if it has changed. The errors of CodeScanner.
  Status OnEdit();
  // What the last scan found.
  const CodeScan& scan() const { return scan_; }
  // Scans without sending.
  Status Scan();

 private:
  void Read();
  void OnLine(std::string_view line);
  void OnGang(const Json& gang);
  void ShowGeneration(const Json& record, bool broken);
  void OnGreeting(const Json& gang);
  void Offer();
  // Whether another user's code came after this sender's.
  bool OthersCame() const;
  void SayOthersCame();
  void SendMissing(const Json& digests);
  void Write(std::string_view text);
  void Flush();
  void CloseInput();
  void Stop();

  EventLoop* loop_;
  Spawner* spawner_;
  CodeScanner* scanner_;
  Options options_;
  Owner* owner_;
  CodeScan scan_;
  std::optional<SpawnedProcess> process_;
  UniqueFd stdin_;
  std::string unsent_;  // to its input
  size_t sent_ = 0;     // of that
  std::string received_;
  std::string words_;  // what the program said on standard error
  bool greeted_ = false;
  bool offering_ = false;    // an answer is due
  bool again_ = false;       // the folder has changed meanwhile
  std::string offered_;      // the digest that was sent last
  std::string current_;      // the digest that the job has now, as far as is known
  std::string current_by_;   // who synced it
  std::string taken_;        // the digest that was taken last of this sender
  std::string replaced_;     // the one that it replaces
  CodeManifest known_;       // the files of `current_`, if this sender sent them
  bool stale_ = false;       // the job has other code than `current_`
  Time edited_{};            // when the code that was sent last had been saved
  core::Generation runs_;    // that was said to run it
  core::Generation failed_;  // whose failure was shown
  std::string reason_;       // of the gang, as last shown
  WakeTimer retry_;          // of code that the gang could not take yet
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_CODE_SENDER_H_
