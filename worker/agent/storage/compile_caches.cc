#include "worker/agent/storage/compile_caches.h"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/plan/environment.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

// torch's extensions wait for ever while there is a file `lock`; Inductor, Triton and JAX lock
// `*.lock`, `lock` and `.lockfile`, which only some file systems forget with their holder.
bool IsLock(std::string_view name) {
  return name == "lock" || name == ".lockfile" || name.ends_with(".lock");
}

// Inductor writes .PID.THREAD.tmp, Triton tmp.pid_PID_ID (a folder), torch's own kernels
// NAME_tmp_PID, and then all rename.
bool IsTemporary(std::string_view name) {
  const size_t pid = name.find_last_not_of("0123456789") + 1;
  return name.ends_with(".tmp") || name.starts_with("tmp.pid_") ||
         (pid < name.size() && name.substr(0, pid).ends_with("_tmp_"));
}

// Whether a linker was killed over it: the table of sections, which stands at the end, is missing.
bool IsTruncated(const fs::path& path) {
  Elf64_Ehdr header{};
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  if (!file) return true;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return true;
  const uint64_t end = header.e_shoff + uint64_t{header.e_shentsize} * header.e_shnum;
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  return !error && (header.e_shoff == 0 || end > size);
}

bool IsHalfMade(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename();
  if (IsTemporary(name)) return true;
  std::error_code error;
  if (!entry.is_regular_file(error)) return false;
  return IsLock(name) || (entry.path().extension() == ".so" && IsTruncated(entry.path()));
}

// Copies the files of trees until a limit is reached.
class TreeCopy {
 public:
  explicit TreeCopy(CopyLimits limits) : limits_(std::move(limits)) {}

  // Those last written before `death`, if there is one. A file of the same size is there already.
  void Copy(const fs::path& from, const fs::path& to, std::optional<fs::file_time_type> death) {
    std::error_code error;
    fs::recursive_directory_iterator at(from, fs::directory_options::skip_permission_denied, error);
    for (; !error && at != fs::end(at); at.increment(error)) {
      if (Over()) return;
      std::error_code unknown;
      const fs::file_status status = at->symlink_status(unknown);
      if (IsHalfMade(*at)) {
        if (fs::is_directory(status)) at.disable_recursion_pending();
        continue;
      }
      if (!fs::is_regular_file(status)) continue;
      const fs::file_time_type written = at->last_write_time(unknown);
      if (unknown || (death && written >= *death)) continue;
      CopyFile(*at, to / at->path().lexically_relative(from), written);
    }
    if (error && error != std::errc::no_such_file_or_directory) copied_.whole = false;
  }
  const CachesCopied& copied() const { return copied_; }

 private:
  bool Over() {
    const bool stopped = limits_.stop && limits_.stop->load();
    if (stopped || BootTime() >= end_ || seen_ > limits_.bytes) copied_.whole = false;
    return !copied_.whole;
  }

  void CopyFile(const fs::directory_entry& file, const fs::path& to, fs::file_time_type written) {
    std::error_code error;
    const uintmax_t size = file.file_size(error);
    if (error) return;
    seen_ += size;
    if (Over() || (fs::file_size(to, error) == size && !error)) return;
    const fs::path beside = to.parent_path() / ("." + std::to_string(name_()) + ".tmp");
    fs::create_directories(to.parent_path(), error);
    bool good = fs::copy_file(file.path(), beside, error) && !error;
    // What builds by time, as ninja does, finds its files as old as they were.
    if (good) fs::last_write_time(beside, written, error);
    if (good) fs::rename(beside, to, error);
    if (!good || error) {
      fs::remove(beside, error);
      copied_.whole = false;
      return;
    }
    ++copied_.files;
    copied_.bytes += size;
  }

  CopyLimits limits_;
  Time end_ = BootTime() + limits_.time;
  uint64_t seen_ = 0;
  std::random_device name_;
  CachesCopied copied_;
};

}  // namespace

void MakeCompileCaches(const std::string& folder) {
  std::error_code ignored;
  for (const core::CompileCache& cache : core::CompileCaches()) {
    fs::create_directories(fs::path(folder) / cache.folder, ignored);
  }
}

int ClearHalfMade(const std::string& folder, fs::file_time_type death, Duration limit) {
  const Time end = BootTime() + limit;
  int removed = 0;
  // On locks of extensions a rank waits for ever; the others cost it minutes at most.
  for (const fs::path& part : {fs::path(folder) / "extensions", fs::path(folder)}) {
    std::error_code error;
    fs::recursive_directory_iterator at(part, fs::directory_options::skip_permission_denied, error);
    for (; !error && at != fs::end(at) && BootTime() < end; at.increment(error)) {
      std::error_code unknown;
      if (!IsHalfMade(*at)) continue;
      const fs::path path = at->path();
      if (at->is_directory(unknown)) at.disable_recursion_pending();
      // Looked at last, for what is younger is somebody's who lives.
      if (fs::last_write_time(path, unknown) >= death || unknown) continue;
      if (fs::remove_all(path, unknown) > 0 && !unknown) ++removed;
    }
  }
  return removed;
}

CachesCopied KeepCaches(const std::string& folder, const std::string& kept,
                        fs::file_time_type death, const CopyLimits& limits) {
  // Of agents that were killed as they copied.
  ClearHalfMade(kept, death - std::chrono::hours(1), seconds(1));
  TreeCopy copy(limits);
  for (const core::CompileCache& cache : core::CompileCaches()) {
    copy.Copy(fs::path(folder) / cache.folder, fs::path(kept) / cache.folder, death);
  }
  return copy.copied();
}

CachesCopied FetchCaches(const std::string& kept, const std::string& folder,
                         const CopyLimits& limits) {
  const fs::path beside = fs::path(folder) / ".fetched";
  TreeCopy copy(limits);
  CachesCopied fetched;
  std::error_code error;
  fs::remove_all(beside, error);
  for (const core::CompileCache& cache : core::CompileCaches()) {
    const fs::path from = fs::path(kept) / cache.folder;
    const fs::path to = fs::path(folder) / cache.folder;
    if (!fs::exists(from, error) || !fs::is_empty(to, error) || error) continue;
    const CachesCopied before = copy.copied();
    copy.Copy(from, beside / cache.folder, std::nullopt);
    fetched.whole = copy.copied().whole;
    if (!fetched.whole) break;
    fs::rename(beside / cache.folder, to, error);  // refused if somebody has begun to use it
    if (error) continue;
    fetched.files += copy.copied().files - before.files;
    fetched.bytes += copy.copied().bytes - before.bytes;
  }
  fs::remove_all(beside, error);
  return fetched;
}

}  // namespace lockstep::agent
