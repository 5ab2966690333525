// The folder that holds one machine's part of a checkpoint in memory, and its manifest beside it:
// which files of which size and SHA-256. All calls block on the file system.
#ifndef LOCKSTEP_WORKER_AGENT_MEMORY_PART_FOLDER_H_
#define LOCKSTEP_WORKER_AGENT_MEMORY_PART_FOLDER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::agent {

inline constexpr size_t kMaxPartFiles = 4096;

struct PartFile {
  std::string path;  // below the folder: "model/shard-0"
  uint64_t size = 0;
  std::string sha256;  // "": not read yet

  friend bool operator==(const PartFile&, const PartFile&) = default;
};
using Manifest = std::vector<PartFile>;

uint64_t SizeOf(const Manifest& manifest);

// Its files and their sizes. Invalid for links and other things that are no files, and for more
// than kMaxPartFiles.
Result<Manifest> ListPart(const std::string& folder);
// The same with each file's hash.
Result<Manifest> HashPart(const std::string& folder);

std::string ToText(const Manifest& manifest);
// Strict: a path that leads out of the folder is Invalid.
Result<Manifest> ParseManifest(std::string_view text);

// `from` with all that is in it into `to`, durably. Others may do the same at the same time, with
// another `machine`: Conflict if `to` has a file of the same name with other content.
Status CopyPart(const std::string& from, const std::string& to, uint32_t machine);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_MEMORY_PART_FOLDER_H_
