#include "worker/agent/memory/part_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <set>
#include <span>
#include <system_error>
#include <thread>

#include "base/crypto/sha256.h"
#include "base/file.h"
#include "base/text/json.h"
#include "base/unique_fd.h"

namespace lockstep::agent {

namespace {

namespace fs = std::filesystem;

constexpr size_t kPiece = size_t{1} << 20;

// Calls `use` with each piece of the file.
template <typename Use>
Status ReadPieces(const std::string& path, Use use) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) return ErrnoError("opening " + path, errno);
  std::string piece(kPiece, '\0');
  while (true) {
    const ssize_t n = read(fd.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError("reading " + path, errno);
    if (n == 0) return {};
    Status used = use(std::string_view(piece).substr(0, static_cast<size_t>(n)));
    if (!used.ok()) return used;
  }
}

bool StaysBelow(const std::string& path) {
  const fs::path parsed(path);
  return !path.empty() && path.find('\0') == std::string::npos && parsed.is_relative() &&
         std::ranges::none_of(parsed, [](const fs::path& name) {
           return name.empty() || name == "." || name == "..";
         });
}

Status SyncPath(const fs::path& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) return ErrnoError("fsync " + path.string(), errno);
  return {};
}

Status Differs(const std::string& path) {
  return Error::Conflict(path + " is there already with other content: each machine's files need " +
                         "names of their own, such as with its rank in them");
}

Status CompareFiles(const std::string& mine, const std::string& theirs) {
  UniqueFd fd(open(theirs.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) return ErrnoError("opening " + theirs, errno);
  std::error_code code;
  if (fs::file_size(mine, code) != fs::file_size(theirs, code) || code) return Differs(theirs);
  std::string piece;
  return ReadPieces(mine, [&](std::string_view expected) -> Status {
    piece.resize(expected.size());
    for (size_t have = 0; have < piece.size();) {
      const ssize_t n = read(fd.get(), piece.data() + have, piece.size() - have);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoError("reading " + theirs, errno);
      if (n == 0) break;
      have += static_cast<size_t>(n);
    }
    return piece == expected ? Status() : Differs(theirs);
  });
}

// Where files can't have two names: whoever makes target.lock may look whether there is a target.
Status RenameUnlessThere(const std::string& draft, const std::string& target) {
  const std::string lock = target + ".lock";
  UniqueFd fd;
  for (int tries = 0; !fd.valid(); ++tries) {
    fd.reset(open(lock.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (fd.valid()) break;
    if (errno != EEXIST || tries == 50) return ErrnoError("creating " + lock, errno);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  std::error_code code;
  Status placed;
  if (fs::exists(target, code)) {
    placed = CompareFiles(draft, target);
    unlink(draft.c_str());
  } else if (rename(draft.c_str(), target.c_str()) != 0) {
    placed = ErrnoError("writing " + target, errno);
  }
  unlink(lock.c_str());
  return placed;
}

// `draft` becomes `target`, or is found to be the same.
Status Place(const std::string& draft, const std::string& target) {
  const int linked = link(draft.c_str(), target.c_str()) == 0 ? 0 : errno;
  if (linked == EPERM || linked == EOPNOTSUPP || linked == ENOSYS || linked == EMLINK) {
    return RenameUnlessThere(draft, target);
  }
  Status placed;
  if (linked == EEXIST) {
    placed = CompareFiles(draft, target);
  } else if (linked != 0) {
    placed = ErrnoError("writing " + target, linked);
  }
  unlink(draft.c_str());
  return placed;
}

}  // namespace

uint64_t SizeOf(const Manifest& manifest) {
  uint64_t size = 0;
  for (const PartFile& file : manifest) size += file.size;
  return size;
}

Result<Manifest> ListPart(const std::string& folder) {
  Manifest manifest;
  std::error_code code;
  if (!fs::is_directory(fs::symlink_status(folder, code))) {
    return Error::NotFound("there is no folder " + folder);
  }
  for (fs::recursive_directory_iterator it(folder, code), end; !code && it != end;
       it.increment(code)) {
    const fs::file_status status = it->symlink_status(code);
    if (code) break;
    if (fs::is_directory(status)) continue;
    const std::string path = it->path().lexically_relative(folder).string();
    if (!fs::is_regular_file(status)) return Error::Invalid(path + " is no file");
    if (manifest.size() == kMaxPartFiles) {
      return Error::TooLarge("more than " + std::to_string(kMaxPartFiles) + " files");
    }
    manifest.push_back({path, it->file_size(code), ""});
  }
  if (code) return Error::Unavailable("reading " + folder + ": " + code.message());
  std::ranges::sort(manifest, {}, &PartFile::path);
  return manifest;
}

Result<Manifest> HashPart(const std::string& folder) {
  Result<Manifest> manifest = ListPart(folder);
  if (!manifest.ok()) return manifest;
  for (PartFile& file : *manifest) {
    Sha256 hash;
    Status read = ReadPieces(folder + "/" + file.path, [&](std::string_view piece) -> Status {
      hash.Add(std::as_bytes(std::span(piece)));
      return {};
    });
    if (!read.ok()) return read.error();
    file.sha256 = hash.Hex();
  }
  return manifest;
}

std::string ToText(const Manifest& manifest) {
  Json files = Json::array();
  for (const PartFile& file : manifest) files.push_back({file.path, file.size, file.sha256});
  return DumpJson(files);
}

Result<Manifest> ParseManifest(std::string_view text) {
  const Json files = ParseJson(text);
  if (!files.is_array() || files.size() > kMaxPartFiles) return Error::Invalid("no manifest");
  Manifest manifest;
  std::set<std::string> seen;
  for (const Json& file : files) {
    const bool whole = file.is_array() && file.size() == 3 && file[0].is_string() &&
                       file[1].is_number_unsigned() && file[2].is_string();
    if (!whole || !StaysBelow(file[0].get<std::string>()) ||
        !seen.insert(file[0].get<std::string>()).second) {
      return Error::Invalid("a manifest with " + DumpJson(file).substr(0, 200));
    }
    manifest.push_back(
        {file[0].get<std::string>(), file[1].get<uint64_t>(), file[2].get<std::string>()});
  }
  return manifest;
}

Status CopyPart(const std::string& from, const std::string& to, uint32_t machine) {
  Result<Manifest> manifest = ListPart(from);
  if (!manifest.ok()) return manifest.error();
  std::set<fs::path> folders = {to};
  std::error_code code;
  for (const PartFile& file : *manifest) {
    const fs::path target = fs::path(to) / file.path;
    fs::create_directories(target.parent_path(), code);
    folders.insert(target.parent_path());
    const std::string draft = target.string() + ".part-" + std::to_string(machine);
    UniqueFd fd(open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (!fd.valid()) return ErrnoError("creating " + draft, errno);
    Status copied = ReadPieces(from + "/" + file.path, [&](std::string_view piece) {
      return WriteAll(fd.get(), piece, draft);
    });
    if (!copied.ok()) return copied;
    if (fsync(fd.get()) != 0) return ErrnoError("writing " + draft, errno);
    Status placed = Place(draft, target.string());
    if (!placed.ok()) return placed;
  }
  fs::create_directories(to, code);
  for (const fs::path& folder : folders) {
    Status synced = SyncPath(folder);
    if (!synced.ok()) return synced;
  }
  return {};
}

}  // namespace lockstep::agent
