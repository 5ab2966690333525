// The folder that holds one machine's part of a checkpoint in memory, and its manifest beside it:
// what lies in it, with modes, sizes and SHA-256. A copy of it is the same tree: names are bytes,
// and no name of ours is among them. All calls block on the file system.
#ifndef LOCKSTEP_WORKER_AGENT_FILES_PART_FOLDER_H_
#define LOCKSTEP_WORKER_AGENT_FILES_PART_FOLDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace lockstep::agent {

inline constexpr size_t kMaxPartEntries = 8192;              // files, folders and links
inline constexpr size_t kMaxPartPath = 2048;                 // bytes of one path
inline constexpr size_t kMaxPartNames = size_t{2} << 20;     // bytes of all paths and targets
inline constexpr size_t kMaxManifestText = size_t{8} << 20;  // room for as many

enum class PartKind : uint8_t { kFolder, kFile, kLink };

struct PartEntry {
  std::string path;  // below the folder: "model/shard-0"; "": the folder itself
  PartKind kind = PartKind::kFile;
  uint32_t mode = 0;        // its permissions; of a link none
  uint64_t size = 0;        // a file's
  std::string sha256 = {};  // a file's; "": not read yet
  std::string target = {};  // a link's

  friend bool operator==(const PartEntry&, const PartEntry&) = default;
};
// By path, so that a folder comes before what is in it; the first is the folder itself.
using Manifest = std::vector<PartEntry>;

uint64_t SizeOf(const Manifest& manifest);

// What is in it, without hashes. Invalid for what a copy can't have: pipes, sockets, devices and
// what this process may not read; TooLarge beyond the limits above. The error names it.
Result<Manifest> ListPart(const std::string& folder);
// The same with each file's hash.
Result<Manifest> HashPart(const std::string& folder);

// A regular file for reading, never a link or a pipe that came in its place.
Result<UniqueFd> OpenPartFile(const std::string& path);

std::string ToText(const Manifest& manifest);
// Strict: a path that leads out of the folder, or through a link, is Invalid.
Result<Manifest> ParseManifest(std::string_view text);

// Folders as in the manifest, but writable by their owner while they are filled.
Status MakeFolders(const Manifest& manifest, const std::string& folder);
// The links, and then the folders' modes: the folder's own, too.
Status FinishFolders(const Manifest& manifest, const std::string& folder);

// Whatever the modes in it are.
void RemoveTree(const std::string& folder);

// A checkpoint's way from memory to the volume. All machines lay their parts over each other, at
// the same time, in a folder of ours:
//
//   WORK/tree/            what becomes the checkpoint
//   WORK/part-0           the manifest of machine 0's part, which lies in the tree, whole
//   WORK/draft-f81d...    a file that is being written
//
// Writes `from` there, durably.
Status WritePart(const std::string& from, const std::string& work, uint32_t machine);
// The same for parts of several machines, by machine.
Status WriteParts(const std::map<uint32_t, std::string>& folders, const std::string& work);
// Once all are there: makes the tree what the manifests say. Unavailable if the part of one of so
// many machines is not; Conflict if two have a file of the same name with other content.
Status FinishParts(const std::string& work, uint32_t machines);
std::string TreeOf(const std::string& work);
// All parts in one. What two have alike may differ in its mode: then the first one's counts.
Result<Manifest> MergeParts(const std::vector<Manifest>& parts);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_FILES_PART_FOLDER_H_
