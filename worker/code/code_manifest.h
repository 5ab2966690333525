// CodeManifest: the files of one version of a program's code, by path, size, mode and content.
#ifndef LOCKSTEP_WORKER_CODE_CODE_MANIFEST_H_
#define LOCKSTEP_WORKER_CODE_CODE_MANIFEST_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep {

inline constexpr size_t kMaxCodeFiles = 20'000;
inline constexpr uint64_t kMaxCodeFile = uint64_t{16} << 20;   // bytes
inline constexpr uint64_t kMaxCodeBytes = uint64_t{64} << 20;  // of all files

struct CodeFile {
  std::string sha256;
  uint32_t mode = 0644;  // permissions
  uint64_t size = 0;

  friend bool operator==(const CodeFile&, const CodeFile&) = default;
};

struct CodeManifest {
  std::map<std::string, CodeFile> files;  // by path, relative to the folder

  // Names the version: 64 hexadecimal digits over paths, modes and contents.
  std::string Digest() const;
  // The folders that hold files, "" for the top among them.
  std::set<std::string> Folders() const;
};

inline constexpr size_t kMaxCodeManifestText = size_t{16} << 20;

// JSON: [["src/model.py", "SHA-256", MODE, SIZE], ...].
std::string ToText(const CodeManifest& manifest);
// Strict: a path that leads out of the folder is Invalid, and TooLarge what is beyond the limits.
Result<CodeManifest> ParseCodeManifest(std::string_view text);

// The paths that are new, changed or gone.
std::vector<std::string> Changes(const CodeManifest& from, const CodeManifest& to);
// "model.py", "model.py and train.py", "model.py and 7 more files"
std::string NamesOfChanges(const std::vector<std::string>& paths);

}  // namespace lockstep

#endif  // LOCKSTEP_WORKER_CODE_CODE_MANIFEST_H_
