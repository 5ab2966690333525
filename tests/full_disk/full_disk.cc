#include "tests/full_disk/full_disk.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/folder.h"

// The linker's --wrap=open makes `open` __wrap_open, and __real_open what it was.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl50-cpp)
extern "C" {
int __real_open(const char* path, int flags, ...);
int __real_open64(const char* path, int flags, ...);
int __real_mkdir(const char* path, mode_t mode);
char* __real_mkdtemp(char* pattern);
int __real_rename(const char* from, const char* to);
int __real_renameat2(int from_folder, const char* from, int to_folder, const char* to,
                     unsigned int flags);
int __real_symlink(const char* target, const char* path);
int __real_link(const char* from, const char* to);
ssize_t __real_write(int fd, const void* bytes, size_t size);
ssize_t __real_writev(int fd, const iovec* parts, int count);
ssize_t __real_pwrite(int fd, const void* bytes, size_t size, off_t offset);
int __real_fsync(int fd);
int __real_fdatasync(int fd);
int __real_fallocate(int fd, int mode, off_t offset, off_t size);
ssize_t __real_sendfile(int to, int from, off_t* offset, size_t size);
ssize_t __real_copy_file_range(int from, off64_t* from_offset, int to, off64_t* to_offset,
                               size_t size, unsigned int flags);
FILE* __real_fopen(const char* path, const char* mode);
FILE* __real_fopen64(const char* path, const char* mode);
int __real_close(int fd);
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl50-cpp)

namespace lockstep::full_disk {
namespace {

namespace fs = std::filesystem;

enum class Then : uint8_t { kOneRefused, kAllRefused };

constexpr size_t kMaxFiles = 4096;

std::atomic<bool> filling{false};
std::atomic<Then> then{Then::kOneRefused};
std::atomic<int> at{0};    // the write to refuse, from 1
std::atomic<int> seen{0};  // writes
// By descriptor: a new file, with bytes that were not synced.
std::array<std::atomic<bool>, kMaxFiles> is_new{};
std::array<std::atomic<bool>, kMaxFiles> unsynced{};

bool Refuse() {
  if (!filling) return false;
  const int now = ++seen;
  if (now == at || (now > at && then == Then::kAllRefused)) {
    errno = ENOSPC;
    return true;
  }
  return false;
}

// Of a disk: neither a pipe or socket nor a file of the kernel's.
bool IsOnDisk(int fd) {
  struct stat status{};
  struct statfs system{};
  return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && fstatfs(fd, &system) == 0 &&
         system.f_type != PROC_SUPER_MAGIC && system.f_type != SYSFS_MAGIC;
}

bool IsNew(const char* path, int flags) {
  struct stat status{};
  return (flags & O_CREAT) != 0 && lstat(path, &status) != 0;
}

bool Known(int fd) { return fd >= 0 && static_cast<size_t>(fd) < kMaxFiles; }

void NoteOpened(int fd, bool made) {
  if (!Known(fd)) return;
  is_new[static_cast<size_t>(fd)] = made;
  unsynced[static_cast<size_t>(fd)] = false;
}

void NoteWritten(int fd, bool written) {
  if (Known(fd)) unsynced[static_cast<size_t>(fd)] = written;
}

bool IsNewAndUnsynced(int fd) {
  return Known(fd) && is_new[static_cast<size_t>(fd)] && unsynced[static_cast<size_t>(fd)];
}

// What the first write beyond the file's end that finds the disk full puts there. A block that the
// file has already is either overwritten or not.
ssize_t WriteHalf(int fd, const void* bytes, size_t size) {
  struct stat status{};
  const bool grows = fstat(fd, &status) == 0 && ((fcntl(fd, F_GETFL) & O_APPEND) != 0 ||
                                                 lseek(fd, 0, SEEK_CUR) >= status.st_size);
  if (then == Then::kAllRefused && seen == at && grows && size > 1)
    return __real_write(fd, bytes, size / 2);
  errno = ENOSPC;
  return -1;
}

int Open(decltype(__real_open)* real, const char* path, int flags, mode_t mode) {
  const bool made = filling && IsNew(path, flags);
  if (made && Refuse()) return -1;
  const int fd = real(path, flags, mode);
  NoteOpened(fd, made);
  return fd;
}

template <typename Call>
auto OnDisk(int fd, Call call) -> decltype(call()) {
  if (filling && IsOnDisk(fd)) {
    if (Refuse()) return -1;
    NoteWritten(fd, true);
  }
  return call();
}

template <typename Call>
auto Anywhere(Call call) -> decltype(call()) {
  if (Refuse()) return -1;
  return call();
}

// Whether a write was refused.
bool Run(const Scene& scene, const std::string& folder) {
  seen = 0;
  filling = true;
  scene.act(folder);
  filling = false;
  return seen >= at;
}

void OneWay(const Scene& scene, int least) {
  constexpr int kMost = 5000;
  for (int n = 1; n <= kMost; ++n) {
    SCOPED_TRACE("write " + std::to_string(n) + (then == Then::kOneRefused ? " alone" : " and on") +
                 " is refused");
    // In memory if possible: what is synced costs a disk's time.
    std::string folder =
        (access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : testing::TempDir()) + "full-disk-XXXXXX";
    ASSERT_NE(__real_mkdtemp(folder.data()), nullptr);
    scene.prepare(folder);
    at = n;
    const bool refused = Run(scene, folder);
    scene.check(folder, refused);
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    if (testing::Test::HasFailure()) return;
    if (refused) continue;
    EXPECT_GT(n, least) << "there were fewer writes than there are known to be";
    return;
  }
  ADD_FAILURE() << "writes were refused without an end";
}

}  // namespace

bool AllWereRefused() { return then == Then::kAllRefused; }

void AtEveryWrite(const Scene& scene, int least) {
  for (const Then each : {Then::kOneRefused, Then::kAllRefused}) {
    then = each;
    OneWay(scene, least);
  }
}

void ExpectNoTemporaryFiles(const std::string& folder) {
  ForEachEntryBelow(folder, [](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    for (const char* prefix : {".lockstep-", ".writing-", "draft-", "lockstep-kept-"}) {
      EXPECT_FALSE(name.starts_with(prefix)) << entry.path();
    }
    EXPECT_FALSE(name.ends_with(".tmp") || name.ends_with(".new")) << entry.path();
    return true;
  });
}

}  // namespace lockstep::full_disk

using namespace lockstep::full_disk;  // NOLINT(google-build-using-namespace)

// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl50-cpp)
extern "C" {

int __wrap_open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return Open(__real_open, path, flags, mode);
}

int __wrap_open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return Open(__real_open64, path, flags, mode);
}

int __wrap_mkdir(const char* path, mode_t mode) {
  struct stat status{};
  if (lstat(path, &status) == 0) return __real_mkdir(path, mode);
  return Anywhere([&] { return __real_mkdir(path, mode); });
}

char* __wrap_mkdtemp(char* pattern) { return Refuse() ? nullptr : __real_mkdtemp(pattern); }

int __wrap_rename(const char* from, const char* to) {
  return Anywhere([&] { return __real_rename(from, to); });
}

int __wrap_renameat2(int from_folder, const char* from, int to_folder, const char* to,
                     unsigned int flags) {
  return Anywhere([&] { return __real_renameat2(from_folder, from, to_folder, to, flags); });
}

int __wrap_symlink(const char* target, const char* path) {
  return Anywhere([&] { return __real_symlink(target, path); });
}

int __wrap_link(const char* from, const char* to) {
  return Anywhere([&] { return __real_link(from, to); });
}

ssize_t __wrap_write(int fd, const void* bytes, size_t size) {
  if (!filling || !IsOnDisk(fd)) return __real_write(fd, bytes, size);
  if (Refuse()) return WriteHalf(fd, bytes, size);
  NoteWritten(fd, true);
  return __real_write(fd, bytes, size);
}

ssize_t __wrap_writev(int fd, const iovec* parts, int count) {
  return OnDisk(fd, [&] { return __real_writev(fd, parts, count); });
}

ssize_t __wrap_pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  return OnDisk(fd, [&] { return __real_pwrite(fd, bytes, size, offset); });
}

int __wrap_fsync(int fd) {
  if (filling && IsOnDisk(fd) && Refuse()) return -1;
  NoteWritten(fd, false);
  return __real_fsync(fd);
}

int __wrap_fdatasync(int fd) {
  if (filling && IsOnDisk(fd) && Refuse()) return -1;
  NoteWritten(fd, false);
  return __real_fdatasync(fd);
}

int __wrap_fallocate(int fd, int mode, off_t offset, off_t size) {
  return OnDisk(fd, [&] { return __real_fallocate(fd, mode, offset, size); });
}

ssize_t __wrap_sendfile(int to, int from, off_t* offset, size_t size) {
  return OnDisk(to, [&] { return __real_sendfile(to, from, offset, size); });
}

ssize_t __wrap_copy_file_range(int from, off64_t* from_offset, int to, off64_t* to_offset,
                               size_t size, unsigned int flags) {
  return OnDisk(
      to, [&] { return __real_copy_file_range(from, from_offset, to, to_offset, size, flags); });
}

FILE* __wrap_fopen(const char* path, const char* mode) {
  const int flags = std::strpbrk(mode, "wa") != nullptr ? O_CREAT : 0;
  if (filling && IsNew(path, flags) && Refuse()) return nullptr;
  return __real_fopen(path, mode);
}

FILE* __wrap_fopen64(const char* path, const char* mode) {
  const int flags = std::strpbrk(mode, "wa") != nullptr ? O_CREAT : 0;
  if (filling && IsNew(path, flags) && Refuse()) return nullptr;
  return __real_fopen64(path, mode);
}

// What a network file system could not store by then is lost.
int __wrap_close(int fd) {
  const bool lost = filling && IsNewAndUnsynced(fd) && IsOnDisk(fd) && Refuse();
  struct stat status{};
  if (lost && fstat(fd, &status) == 0) static_cast<void>(ftruncate(fd, status.st_size / 2));
  NoteOpened(fd, false);
  const int closed = __real_close(fd);
  if (!lost) return closed;
  errno = ENOSPC;
  return -1;
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,cert-dcl50-cpp)
