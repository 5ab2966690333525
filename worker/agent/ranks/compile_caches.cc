#include "worker/agent/ranks/compile_caches.h"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <string_view>
#include <system_error>

#include "core/plan/environment.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

// torch's extensions wait for ever while there is a file `lock`; Inductor, Triton and JAX lock
// `*.lock`, `lock` and `.lockfile`, which only some file systems forget with their holder.
bool IsLock(std::string_view name) {
  return name == "lock" || name == ".lockfile" || name.ends_with(".lock");
}

// Inductor writes .PID.THREAD.tmp, Triton tmp.pid_PID_ID (a folder), and then both rename.
bool IsTemporary(std::string_view name) {
  return name.ends_with(".tmp") || name.starts_with("tmp.pid_");
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

}  // namespace lockstep::agent
