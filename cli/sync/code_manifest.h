// CodeManifest: the files of one version of a program's code, by path, size, mode and content.
#ifndef LOCKSTEP_CLI_SYNC_CODE_MANIFEST_H_
#define LOCKSTEP_CLI_SYNC_CODE_MANIFEST_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace lockstep::cli {

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

// The paths that are new, changed or gone.
std::vector<std::string> Changes(const CodeManifest& from, const CodeManifest& to);
// "model.py", "model.py and train.py", "model.py and 7 more files"
std::string NamesOfChanges(const std::vector<std::string>& paths);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_SYNC_CODE_MANIFEST_H_
