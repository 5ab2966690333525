// A file that is written once, from its beginning to its end, and summed on the way.
#ifndef LOCKSTEP_WORKER_TRAINER_CHECKPOINT_OUTPUT_FILE_H_
#define LOCKSTEP_WORKER_TRAINER_CHECKPOINT_OUTPUT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/crypto/sha256.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace lockstep::trainer {

struct FileSum {
  uint64_t bytes = 0;
  std::string sha256;  // 64 hexadecimal digits

  friend bool operator==(const FileSum&, const FileSum&) = default;
};

class OutputFile {
 public:
  // Empties what stands there.
  static Result<OutputFile> Create(const std::string& path);

  // In large pieces, straight from `bytes`. kUnavailable names the file: disk full, I/O error.
  Status Write(std::span<const std::byte> bytes);
  Status Write(std::string_view text) { return Write(std::as_bytes(std::span(text))); }

  // Once, at the end: all of it is on the disk.
  Result<FileSum> Finish();

 private:
  OutputFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::string path_;
  Sha256 sum_;
  uint64_t bytes_ = 0;
};

// The sum of a file that is there. kNotFound, kDenied, kUnavailable.
Result<FileSum> SumFile(const std::string& path);

// Makes what was created, renamed or removed in `folder` last through a crash of the machine.
Status SyncFolder(const std::string& folder);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CHECKPOINT_OUTPUT_FILE_H_
