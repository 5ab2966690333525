#include "worker/agent/last_message.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/file.h"
#include "core/gang/status/status_api.h"

namespace lockstep::agent {

LastMessage::LastMessage(UniqueFd starter, std::string path)
    : starter_(std::move(starter)), path_(std::move(path)) {
  if (path_.empty()) return;
  file_.reset(open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  // The size stays 0: no message means none. Where that is not supported there is no reserve.
  if (file_.valid()) {
    fallocate(file_.get(), FALLOC_FL_KEEP_SIZE, 0, core::kMaxTerminationMessage);
  }
}

Status LastMessage::Write(std::string_view text) const {
  Status told;
  if (starter_.valid()) {
    // An empty socket takes more than any message has.
    const ssize_t n = send(starter_.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n != static_cast<ssize_t>(text.size())) {
      told = ErrnoError("the last message could not be sent to the process that started this agent",
                        errno);
    }
  }
  const Status written = path_.empty() ? Status() : WriteFile(text);
  return told.ok() ? written : told;
}

Status LastMessage::WriteFile(std::string_view text) const {
  if (!file_.valid()) {
    return Error::Unavailable("the last message could not be written: " + path_ +
                              " could not be opened when the agent started");
  }
  Status written = WriteAll(file_.get(), text, "the last message to " + path_);
  // Half a message is none: the operator then decides by what it heard, or by the exit code.
  if (!written.ok()) static_cast<void>(ftruncate(file_.get(), 0));
  return written;
}

}  // namespace lockstep::agent
