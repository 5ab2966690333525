#include "cli/sync/code_watch.h"

#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "cli/sync/code_rules.h"

namespace lockstep::cli {
namespace {

constexpr uint32_t kChanges =
    IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_ONLYDIR;

}  // namespace

Result<std::unique_ptr<CodeWatch>> CodeWatch::Open(EventLoop* loop,
                                                   std::function<void()> on_change) {
  UniqueFd fd(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!fd.valid()) return ErrnoError("inotify_init1", errno);
  std::unique_ptr<CodeWatch> watch(new CodeWatch(loop, std::move(fd), std::move(on_change)));
  CodeWatch* raw = watch.get();
  const Status watched = loop->Watch(raw->fd_.get(), EPOLLIN, [raw](uint32_t) { raw->OnReady(); });
  if (!watched.ok()) return watched.error();
  return watch;
}

CodeWatch::CodeWatch(EventLoop* loop, UniqueFd fd, std::function<void()> on_change)
    : loop_(loop), fd_(std::move(fd)), on_change_(std::move(on_change)), pause_(loop, [this] {
        first_ = kNever;
        on_change_();
      }) {}

CodeWatch::~CodeWatch() { loop_->Unwatch(fd_.get()); }

Status CodeWatch::Watch(const std::string& top, const std::set<std::string>& folders) {
  std::set<std::string> wanted;
  for (const std::string& below : folders) {
    wanted.insert(below.empty() ? top : (std::filesystem::path(top) / below).string());
  }
  for (auto watch = watches_.begin(); watch != watches_.end();) {
    if (wanted.contains(watch->first)) {
      ++watch;
    } else {
      inotify_rm_watch(fd_.get(), watch->second);
      watch = watches_.erase(watch);
    }
  }
  for (const std::string& path : wanted) {
    // Also one that is watched: another folder may have its name now.
    const int number = inotify_add_watch(fd_.get(), path.c_str(), kChanges);
    if (number >= 0) {
      watches_[path] = number;
    } else if (errno == ENOSPC || errno == ENOMEM) {
      return Error::Unavailable("cannot watch " + path +
                                ": raise fs.inotify.max_user_watches, or ignore folders");
    } else if (errno == ENOENT || errno == ENOTDIR) {
      watches_.erase(path);
    } else {
      return ErrnoError("cannot watch " + path, errno);
    }
  }
  return {};
}

void CodeWatch::OnReady() {
  alignas(inotify_event) std::array<char, 16384> buffer;
  bool changed = false;
  while (true) {
    const ssize_t got = read(fd_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    for (size_t at = 0; at < static_cast<size_t>(got);) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof event);
      const char* name = event.len > 0 ? buffer.data() + at + sizeof event : "";
      at += sizeof event + event.len;
      if ((event.mask & IN_IGNORED) != 0 || IsNeverCode(name)) continue;
      changed = true;
      const bool new_folder =
          (event.mask & IN_ISDIR) != 0 && (event.mask & (IN_CREATE | IN_MOVED_TO)) != 0;
      if (!new_folder) continue;
      const int wd = event.wd;
      // It holds no code yet, and is watched for the first that comes.
      const auto parent =
          std::ranges::find_if(watches_, [wd](const auto& each) { return each.second == wd; });
      if (parent == watches_.end()) continue;
      const std::string path = parent->first + "/" + name;
      const int number = inotify_add_watch(fd_.get(), path.c_str(), kChanges);
      if (number >= 0) watches_[path] = number;
    }
  }
  if (!changed) return;
  const Time now = BootTime();
  if (first_ == kNever) first_ = now;
  pause_.WakeAt(std::min(now + kPause, first_ + kLongest));
}

}  // namespace lockstep::cli
