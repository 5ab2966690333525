#include "worker/trainer/checkpoint/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "worker/trainer/data/input_file.h"

namespace lockstep::trainer {

namespace {

// Summed while it is still in the processor's cache, and large beside the cost of a system call.
constexpr size_t kPieceBytes = size_t{1} << 20;

Error WriteError(const std::string& path, int code) {
  std::string what = "writing " + path + ": " + std::generic_category().message(code);
  if (code == ENOSPC || code == EDQUOT || code == EFBIG) {
    what += "; free space on its volume, or keep fewer checkpoints";
  }
  return Error::Unavailable(what);
}

}  // namespace

Result<OutputFile> OutputFile::Create(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return WriteError(path, errno);
  return OutputFile(std::move(fd), path);
}

Status OutputFile::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    std::span<const std::byte> piece = bytes.first(std::min(bytes.size(), kPieceBytes));
    ssize_t put = write(fd_.get(), piece.data(), piece.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return WriteError(path_, errno);
    auto written = static_cast<size_t>(put);
    sum_.Add(piece.first(written));
    bytes_ += written;
    bytes = bytes.subspan(written);
  }
  return {};
}

Result<FileSum> OutputFile::Finish() {
  if (fsync(fd_.get()) != 0) return WriteError(path_, errno);
  // Network file systems may tell only here that there is no space.
  if (close(fd_.release()) != 0) return WriteError(path_, errno);
  return FileSum{bytes_, sum_.Hex()};
}

Result<FileSum> SumFile(const std::string& path) {
  Result<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return file.error();
  Sha256 sum;
  std::vector<std::byte> piece(kPieceBytes);
  for (uint64_t offset = 0; offset < file->size(); offset += piece.size()) {
    piece.resize(std::min<uint64_t>(kPieceBytes, file->size() - offset));
    Status read = file->ReadAt(offset, piece);
    if (!read.ok()) return read.error();
    sum.Add(piece);
  }
  return FileSum{file->size(), sum.Hex()};
}

Status SyncFolder(const std::string& folder) {
  const UniqueFd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) return WriteError(folder, errno);
  return {};
}

}  // namespace lockstep::trainer
