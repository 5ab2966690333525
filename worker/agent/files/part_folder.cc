#include "worker/agent/files/part_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <ranges>
#include <span>
#include <system_error>
#include <utility>

#include "base/crypto/sha256.h"
#include "base/file.h"
#include "base/text/json.h"
#include "base/uuid.h"

namespace lockstep::agent {

namespace {

namespace fs = std::filesystem;

constexpr size_t kPiece = size_t{1} << 20;
constexpr mode_t kPermissions = 07777;
constexpr mode_t kOwner = 0700;  // while a folder is filled

// Calls `use` with each piece of the file.
template <typename Use>
Status ReadPieces(const std::string& path, Use use) {
  const Result<UniqueFd> fd = OpenPartFile(path);
  if (!fd.ok()) return fd.error();
  std::string piece(kPiece, '\0');
  while (true) {
    const ssize_t n = read(fd->get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError("reading " + path, errno);
    if (n == 0) return {};
    Status used = use(std::string_view(piece).substr(0, static_cast<size_t>(n)));
    if (!used.ok()) return used;
  }
}

Status SyncPath(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) return ErrnoError("fsync " + path, errno);
  return {};
}

std::string In(const std::string& folder, const std::string& path) {
  return path.empty() ? folder : folder + "/" + path;
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

// ---- looking ----

Error NotKept(const std::string& path, const std::string& what) {
  return Error::Invalid(path + " is " + what +
                        ": a checkpoint in memory has files, folders and symbolic links; remove " +
                        path + " before the commit");
}

Result<std::string> ReadLink(const std::string& path, const std::string& name) {
  std::string target(kMaxPartPath + 1, '\0');
  const ssize_t n = readlink(path.c_str(), target.data(), target.size());
  if (n < 0) return ErrnoError("reading the link " + name, errno);
  if (static_cast<size_t>(n) > kMaxPartPath) {
    return Error::TooLarge("the link " + name + " has a target of more than " +
                           std::to_string(kMaxPartPath) + " bytes");
  }
  target.resize(static_cast<size_t>(n));
  return target;
}

Result<PartEntry> Look(const std::string& folder, const std::string& path) {
  const std::string full = In(folder, path);
  if (path.size() > kMaxPartPath) {
    return Error::TooLarge(path + " is a path of more than " + std::to_string(kMaxPartPath) +
                           " bytes");
  }
  struct stat status{};
  if (lstat(full.c_str(), &status) != 0) return ErrnoError("looking at " + path, errno);
  PartEntry entry{.path = path, .mode = status.st_mode & kPermissions};
  if (S_ISLNK(status.st_mode)) {
    entry.kind = PartKind::kLink;
    entry.mode = 0;
    Result<std::string> target = ReadLink(full, path);
    if (!target.ok()) return target.error();
    entry.target = std::move(*target);
    return entry;
  }
  if (S_ISFIFO(status.st_mode)) return NotKept(path, "a named pipe");
  if (S_ISSOCK(status.st_mode)) return NotKept(path, "a socket");
  if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode)) return NotKept(path, "a device");
  const bool is_folder = S_ISDIR(status.st_mode);
  if (faccessat(AT_FDCWD, full.c_str(), is_folder ? R_OK | X_OK : R_OK, AT_EACCESS) != 0) {
    return Error::Invalid((path.empty() ? "the folder" : path) + " cannot be read by user " +
                          std::to_string(geteuid()) + ": change its permissions before the commit");
  }
  if (is_folder) {
    entry.kind = PartKind::kFolder;
  } else {
    entry.size = static_cast<uint64_t>(status.st_size);
  }
  return entry;
}

// ---- the manifest's text ----

// Names are bytes, and JSON has none: all but plain characters are written as %E9.
std::string Escaped(std::string_view bytes) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > 0x20 && byte < 0x7f && c != '%' && c != '"' && c != '\\') {
      text += c;
    } else {
      text += '%';
      text += kHex[byte >> 4];
      text += kHex[byte & 15];
    }
  }
  return text;
}

std::optional<std::string> Unescaped(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string bytes;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      bytes += text[at];
      continue;
    }
    if (at + 2 >= text.size()) return std::nullopt;
    const size_t high = kHex.find(text[at + 1]);
    const size_t low = kHex.find(text[at + 2]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    bytes += static_cast<char>(high * 16 + low);
    at += 2;
  }
  return bytes;
}

std::string_view LetterOf(PartKind kind) {
  switch (kind) {
    case PartKind::kFolder:
      return "d";
    case PartKind::kFile:
      return "f";
    case PartKind::kLink:
      return "l";
  }
}

bool StaysBelow(const std::string& path) {
  const fs::path parsed(path);
  return !path.empty() && path.size() <= kMaxPartPath && path.find('\0') == std::string::npos &&
         parsed.is_relative() && std::ranges::none_of(parsed, [](const fs::path& name) {
           return name.empty() || name == "." || name == "..";
         });
}

// ["f", path, mode, size, sha256], ["d", path, mode] or ["l", path, target].
std::optional<PartEntry> ParseEntry(const Json& json) {
  if (!json.is_array() || json.size() < 3 || !json[0].is_string() || !json[1].is_string()) {
    return std::nullopt;
  }
  const std::optional<std::string> path = Unescaped(json[1].get_ref<const std::string&>());
  if (!path) return std::nullopt;
  PartEntry entry{.path = *path};
  const std::string& kind = json[0].get_ref<const std::string&>();
  if (kind == LetterOf(PartKind::kLink)) {
    if (json.size() != 3 || !json[2].is_string()) return std::nullopt;
    const std::optional<std::string> target = Unescaped(json[2].get_ref<const std::string&>());
    if (!target || target->empty() || target->find('\0') != std::string::npos) return std::nullopt;
    entry.kind = PartKind::kLink;
    entry.target = *target;
    return entry;
  }
  if (!json[2].is_number_unsigned() || json[2].get<uint64_t>() > kPermissions) return std::nullopt;
  entry.mode = json[2].get<uint32_t>();
  if (kind == LetterOf(PartKind::kFolder)) {
    entry.kind = PartKind::kFolder;
    return json.size() == 3 ? std::optional(entry) : std::nullopt;
  }
  if (kind != LetterOf(PartKind::kFile) || json.size() != 5 || !json[3].is_number_unsigned() ||
      !json[4].is_string()) {
    return std::nullopt;
  }
  entry.size = json[3].get<uint64_t>();
  entry.sha256 = json[4].get<std::string>();
  return entry;
}

// ---- the way to the volume ----

std::string MarkOf(const std::string& work, uint32_t machine) {
  return work + "/part-" + std::to_string(machine);
}

Error Differs(const std::string& path) {
  return Error::Conflict(path +
                         " is not the same on two machines: give each machine's files their own "
                         "names, such as with its rank in them");
}

// Copies it to the draft, which is synced, and returns its hash.
Result<std::string> CopyFile(const std::string& from, const std::string& draft,
                             const PartEntry& file) {
  const UniqueFd fd(open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrnoError("creating " + draft, errno);
  Sha256 hash;
  Status copied = ReadPieces(from, [&](std::string_view piece) {
    hash.Add(std::as_bytes(std::span(piece)));
    return WriteAll(fd.get(), piece, draft);
  });
  if (!copied.ok()) return copied.error();
  if (fchmod(fd.get(), file.mode) != 0 || fsync(fd.get()) != 0) {
    return ErrnoError("writing " + file.path, errno);
  }
  return hash.Hex();
}

// Whichever machine comes last: where their contents differ, FinishParts refuses both.
Status PlaceFile(const std::string& from, const std::string& work, PartEntry& file) {
  const std::string draft = work + "/draft-" + Uuid::Random().ToString();
  Result<std::string> hash = CopyFile(from, draft, file);
  Status placed;
  if (!hash.ok()) {
    placed = hash.error();
  } else if (rename(draft.c_str(), In(TreeOf(work), file.path).c_str()) != 0) {
    placed = errno == EISDIR || errno == ENOTDIR ? Differs(file.path)
                                                 : ErrnoError("writing " + file.path, errno);
  }
  if (!placed.ok()) unlink(draft.c_str());
  if (placed.ok()) file.sha256 = std::move(*hash);
  return placed;
}

Status SyncFolders(const Manifest& manifest, const std::string& folder) {
  for (const PartEntry& entry : manifest) {
    if (entry.kind != PartKind::kFolder) continue;
    Status synced = SyncPath(In(folder, entry.path));
    if (!synced.ok()) return synced;
  }
  return {};
}

}  // namespace

uint64_t SizeOf(const Manifest& manifest) {
  uint64_t size = 0;
  for (const PartEntry& entry : manifest) size += entry.size;
  return size;
}

Result<Manifest> ListPart(const std::string& folder) {
  std::error_code code;
  if (!fs::is_directory(fs::symlink_status(folder, code))) {
    return Error::NotFound("there is no folder " + folder);
  }
  Manifest manifest;
  size_t names = 0;
  std::vector<std::string> unseen = {""};
  while (!unseen.empty()) {
    Result<PartEntry> entry = Look(folder, unseen.back());
    unseen.pop_back();
    if (!entry.ok()) return entry.error();
    names += entry->path.size() + entry->target.size();
    if (manifest.size() == kMaxPartEntries) {
      return Error::TooLarge("more than " + std::to_string(kMaxPartEntries) +
                             " files, folders and links: write fewer, larger files");
    }
    if (names > kMaxPartNames) return Error::TooLarge("names of more than 2 MiB in all");
    manifest.push_back(std::move(*entry));
    const PartEntry& listed = manifest.back();
    if (listed.kind != PartKind::kFolder) continue;
    for (fs::directory_iterator it(In(folder, listed.path), code), end; !code && it != end;
         it.increment(code)) {
      const std::string name = it->path().filename().string();
      unseen.push_back(listed.path.empty() ? name : listed.path + "/" + name);
      if (unseen.size() > kMaxPartEntries) break;
    }
    if (code) return Error::Unavailable("reading " + listed.path + ": " + code.message());
  }
  std::ranges::sort(manifest, {}, &PartEntry::path);
  return manifest;
}

Result<Manifest> HashPart(const std::string& folder) {
  Result<Manifest> manifest = ListPart(folder);
  if (!manifest.ok()) return manifest;
  for (PartEntry& entry : *manifest) {
    if (entry.kind != PartKind::kFile) continue;
    Sha256 hash;
    Status read = ReadPieces(In(folder, entry.path), [&](std::string_view piece) -> Status {
      hash.Add(std::as_bytes(std::span(piece)));
      return {};
    });
    if (!read.ok()) return read.error();
    entry.sha256 = hash.Hex();
  }
  return manifest;
}

Result<UniqueFd> OpenPartFile(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) return ErrnoError("opening " + path, errno);
  struct stat status{};
  if (fstat(fd.get(), &status) != 0) return ErrnoError("looking at " + path, errno);
  if (!S_ISREG(status.st_mode)) return Error::Invalid(path + " is no longer a file");
  return fd;
}

std::string ToText(const Manifest& manifest) {
  Json entries = Json::array();
  for (const PartEntry& entry : manifest) {
    Json json = {std::string(LetterOf(entry.kind)), Escaped(entry.path)};
    if (entry.kind == PartKind::kLink) {
      json.push_back(Escaped(entry.target));
    } else {
      json.push_back(entry.mode);
    }
    if (entry.kind == PartKind::kFile) {
      json.push_back(entry.size);
      json.push_back(entry.sha256);
    }
    entries.push_back(std::move(json));
  }
  return DumpJson(entries);
}

Result<Manifest> ParseManifest(std::string_view text) {
  const Json entries = ParseJson(text);
  if (!entries.is_array() || entries.empty() || entries.size() > kMaxPartEntries) {
    return Error::Invalid("no manifest");
  }
  Manifest manifest;
  std::map<std::string, PartKind> seen;
  for (const Json& json : entries) {
    const std::optional<PartEntry> entry = ParseEntry(json);
    bool sound = entry.has_value();
    if (sound && manifest.empty()) {
      sound = entry->path.empty() && entry->kind == PartKind::kFolder;
    } else if (sound) {
      const auto parent = seen.find(ParentOf(entry->path));
      sound = StaysBelow(entry->path) && parent != seen.end() &&
              parent->second == PartKind::kFolder && entry->path > manifest.back().path;
    }
    if (!sound) return Error::Invalid("a manifest with " + DumpJson(json).substr(0, 200));
    seen[entry->path] = entry->kind;
    manifest.push_back(*entry);
  }
  return manifest;
}

Status MakeFolders(const Manifest& manifest, const std::string& folder) {
  for (const PartEntry& entry : manifest) {
    if (entry.kind != PartKind::kFolder) continue;
    const std::string path = In(folder, entry.path);
    if (mkdir(path.c_str(), kOwner) == 0) continue;
    struct stat status{};
    const int error = errno;
    if (error != EEXIST || lstat(path.c_str(), &status) != 0) {
      return ErrnoError("making " + path, error);
    }
    if (!S_ISDIR(status.st_mode)) return Differs(entry.path);
  }
  return {};
}

Status FinishFolders(const Manifest& manifest, const std::string& folder) {
  for (const PartEntry& entry : manifest) {
    if (entry.kind != PartKind::kLink) continue;
    const std::string path = In(folder, entry.path);
    if (symlink(entry.target.c_str(), path.c_str()) != 0 && errno != EEXIST) {
      return ErrnoError("making the link " + path, errno);
    }
  }
  for (const PartEntry& entry : std::views::reverse(manifest)) {
    if (entry.kind != PartKind::kFolder) continue;
    const std::string path = In(folder, entry.path);
    struct stat status{};
    // A volume's group is inherited by folders with this bit.
    if (lstat(path.c_str(), &status) != 0 ||
        chmod(path.c_str(), entry.mode | (status.st_mode & S_ISGID)) != 0) {
      return ErrnoError("setting the mode of " + path, errno);
    }
  }
  return {};
}

void RemoveTree(const std::string& folder) {
  std::error_code code;
  fs::remove_all(folder, code);
  if (!code) return;
  // A folder that its owner may not write to keeps what is in it.
  chmod(folder.c_str(), kOwner);
  for (fs::recursive_directory_iterator it(folder, code), end; !code && it != end;
       it.increment(code)) {
    if (fs::is_directory(it->symlink_status(code))) chmod(it->path().c_str(), kOwner);
  }
  fs::remove_all(folder, code);
}

std::string TreeOf(const std::string& work) { return work + "/tree"; }

Status WritePart(const std::string& from, const std::string& work, uint32_t machine) {
  Result<Manifest> manifest = ListPart(from);
  if (!manifest.ok()) return manifest.error();
  std::error_code code;
  fs::create_directories(work, code);
  if (code) return Error::Unavailable("making " + work + ": " + code.message());
  Status made = MakeFolders(*manifest, TreeOf(work));
  if (!made.ok()) return made;
  for (PartEntry& entry : *manifest) {
    if (entry.kind != PartKind::kFile) continue;
    Status placed = PlaceFile(In(from, entry.path), work, entry);
    if (!placed.ok()) return placed;
  }
  Status synced = SyncFolders(*manifest, TreeOf(work));
  if (!synced.ok()) return synced;
  return WriteFileAtomically(MarkOf(work, machine), ToText(*manifest), {.durable = true});
}

Result<Manifest> MergeParts(const std::vector<Manifest>& parts) {
  std::map<std::string, PartEntry> merged;
  for (const Manifest& part : parts) {
    for (const PartEntry& entry : part) {
      const auto [at, is_new] = merged.emplace(entry.path, entry);
      if (is_new) continue;
      PartEntry with_its_mode = entry;
      with_its_mode.mode = at->second.mode;
      if (with_its_mode != at->second) return Differs(entry.path);
    }
  }
  Manifest all;
  for (auto& [path, entry] : merged) all.push_back(std::move(entry));
  return all;
}

Status WriteParts(const std::map<uint32_t, std::string>& folders, const std::string& work) {
  for (const auto& [machine, from] : folders) {
    Status written = WritePart(from, work, machine);
    if (!written.ok()) return written;
  }
  return {};
}

Status FinishParts(const std::string& work, uint32_t machines) {
  std::vector<Manifest> parts;
  for (uint32_t machine = 0; machine < machines; ++machine) {
    const Result<std::string> text = ReadFile(MarkOf(work, machine), kMaxManifestText);
    Result<Manifest> part = text.ok() ? ParseManifest(*text) : text.error();
    if (!part.ok()) {
      return Error::Unavailable("machine " + std::to_string(machine) + "'s part is gone from " +
                                work);
    }
    parts.push_back(std::move(*part));
  }
  const Result<Manifest> all = MergeParts(parts);
  if (!all.ok()) return all.error();
  Status finished = FinishFolders(*all, TreeOf(work));
  return finished.ok() ? SyncFolders(*all, TreeOf(work)) : finished;
}

}  // namespace lockstep::agent
