// CodeWatch: says when something in these folders has changed, once the changes have paused.
#ifndef LOCKSTEP_CLI_SYNC_CODE_WATCH_H_
#define LOCKSTEP_CLI_SYNC_CODE_WATCH_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/loop/event_loop.h"
#include "base/loop/wake_timer.h"
#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"

namespace lockstep::cli {

class CodeWatch {
 public:
  // An editor writes a file in several steps, and git many files.
  static constexpr Duration kPause = milliseconds(100);
  static constexpr Duration kLongest = seconds(2);  // from the first change, without a pause

  static Result<std::unique_ptr<CodeWatch>> Open(EventLoop* loop, std::function<void()> on_change);
  ~CodeWatch();
  CodeWatch(const CodeWatch&) = delete;
  CodeWatch& operator=(const CodeWatch&) = delete;

  // Watches these folders and no others: names below `top`, "" for itself. Folders that are gone
  // are passed over. Unavailable: the kernel's limit of watches is reached.
  Status Watch(const std::string& top, const std::set<std::string>& folders);

 private:
  CodeWatch(EventLoop* loop, UniqueFd fd, std::function<void()> on_change);
  void OnReady();

  EventLoop* loop_;
  UniqueFd fd_;
  std::function<void()> on_change_;
  std::map<std::string, int> watches_;  // by absolute path
  Time first_ = kNever;                 // of the changes that were not told
  WakeTimer pause_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_SYNC_CODE_WATCH_H_
