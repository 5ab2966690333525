// Reading files that should be small (configurations, tokens, records, /proc and /sys), and writing
// files so that a reader sees the old text or the new one, whole.
//
// Errors name the file: NotFound, Denied (by its permissions), Invalid (it is no regular file),
// TooLarge, Unavailable (its disk or file server).
#ifndef LOCKSTEP_BASE_FILE_H_
#define LOCKSTEP_BASE_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace lockstep {

// For reading. A pipe, a socket, a device or a folder is refused, and a pipe's writer not waited
// for.
Result<UniqueFd> OpenRegularFile(const std::string& path);

// All of it, if that is at most `limit` bytes.
Result<std::string> ReadFile(const std::string& path, size_t limit);
// The same from what is open, and may be a pipe: waits for its end. `name` is for errors.
Result<std::string> ReadToEnd(int fd, const std::string& name, size_t limit);

// Retries until all is written.
Status WriteAll(int fd, std::string_view text, const std::string& name);

struct WriteOptions {
  std::optional<mode_t> mode = {};  // whatever the umask; without it 0644 less the umask
  bool durable = false;             // survives a power cut once written
};
Status WriteFileAtomically(const std::string& path, std::string_view text,
                           const WriteOptions& options = {});
// In place, durably, of a file that is there and has room for the text: for a full disk. A power
// cut meanwhile may leave half of it.
Status OverwriteFile(const std::string& path, std::string_view text);
// As WriteFileAtomically, with what another file holds, of whatever size; a block of it is in
// memory at a time.
Status CopyFileAtomically(const std::string& from, const std::string& to,
                          const WriteOptions& options = {});

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_FILE_H_
