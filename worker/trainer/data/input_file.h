// A regular file that is read by position, from any thread.
//
// By pread, not through a memory map: both read the page cache, but where a file shrinks, or its
// disk or file server fails, a map ends the process with SIGBUS (a check of the size before each
// read only narrows the window, and network file systems answer it from a cache), while pread
// returns what every caller here wants: an error that names the file.
#ifndef LOCKSTEP_WORKER_TRAINER_DATA_INPUT_FILE_H_
#define LOCKSTEP_WORKER_TRAINER_DATA_INPUT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/unique_fd.h"

namespace lockstep::trainer {

class InputFile {
 public:
  // kNotFound, kDenied, or kInvalid for a folder, a pipe or a device; each names the file and says
  // what to do.
  static Result<InputFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // bytes, when it was opened

  // Fills `bytes` from `offset` on. kUnavailable: the file ends before, or can't be read now.
  Status ReadAt(uint64_t offset, std::span<std::byte> bytes) const;
  // Lets the kernel read these bytes into its cache, and does not wait for it.
  void Prefetch(uint64_t offset, uint64_t bytes) const;

 private:
  InputFile(UniqueFd fd, std::string path, uint64_t size)
      : fd_(std::move(fd)), path_(std::move(path)), size_(size) {}

  UniqueFd fd_;
  std::string path_;
  uint64_t size_ = 0;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_DATA_INPUT_FILE_H_
