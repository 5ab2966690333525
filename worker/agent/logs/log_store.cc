#include "worker/agent/logs/log_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace lockstep::agent {

std::string LogStore::PathOf(const std::string& name) const {
  return options_.path + "/" + generation_ + "/" + name + ".log";
}

void LogStore::StartGeneration(const std::string& generation) {
  for (auto& [name, file] : open_) closed_.push_back({PathOf(name), file.size});
  open_.clear();
  generation_ = generation;
}

Status LogStore::Append(const std::string& name, std::string_view bytes) {
  File& file = open_[name];
  if (!file.fd.valid()) {
    const Status opened = Open(name, &file);
    if (!opened.ok()) return opened;
  }
  if (file.size > 0 && file.size + bytes.size() > options_.max_file) {
    const Status rotated = Rotate(name, &file);
    if (!rotated.ok()) return rotated;
  }
  if (!MakeRoom(bytes.size())) {
    return Error::TooLarge("the logs' total of " + std::to_string(options_.max_total) +
                           " bytes is used up");
  }
  while (!bytes.empty()) {
    const ssize_t written = write(file.fd.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoError("write " + PathOf(name), errno);
    file.size += static_cast<uint64_t>(written);
    total_ += static_cast<uint64_t>(written);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Status LogStore::Open(const std::string& name, File* file) {
  std::error_code error;
  std::filesystem::create_directories(options_.path + "/" + generation_, error);
  if (error) return ErrnoError("create " + options_.path + "/" + generation_, error.value());
  const std::string path = PathOf(name);
  file->fd.reset(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file->fd.valid()) return ErrnoError("open " + path, errno);
  struct stat info{};
  if (fstat(file->fd.get(), &info) == 0) file->size = static_cast<uint64_t>(info.st_size);
  total_ += file->size;
  return {};
}

Status LogStore::Rotate(const std::string& name, File* file) {
  const std::string path = PathOf(name);
  const std::string old = path + ".1";
  if (rename(path.c_str(), old.c_str()) != 0) return ErrnoError("rename " + path, errno);
  const auto before =
      std::find_if(closed_.begin(), closed_.end(), [&](const Closed& c) { return c.path == old; });
  if (before != closed_.end()) {
    total_ -= before->size;
    closed_.erase(before);
  }
  closed_.push_back({old, file->size});
  *file = {};
  return Open(name, file);
}

bool LogStore::MakeRoom(uint64_t bytes) {
  while (total_ + bytes > options_.max_total && !closed_.empty()) {
    unlink(closed_.front().path.c_str());
    total_ -= closed_.front().size;
    closed_.pop_front();
  }
  return total_ + bytes <= options_.max_total;
}

}  // namespace lockstep::agent
