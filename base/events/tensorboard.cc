#include "base/events/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/events/append.h"
#include "base/events/crc32c.h"
#include "base/folder.h"
#include "base/process/process.h"

namespace lockstep::events {

namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr size_t kFlushBytes = size_t{64} << 10;
constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr const char* kUntilThen = "; TensorBoard lacks steps until the volume has room again";

// Protocol Buffers' encoding: https://protobuf.dev/programming-guides/encoding.
enum WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

class Message {
 public:
  Message& Varint(int field, uint64_t value) {
    Key(field, kVarint);
    AppendVarint(value);
    return *this;
  }
  Message& Double(int field, double value) {
    Key(field, kFixed64);
    Append(&value, sizeof(value));
    return *this;
  }
  Message& Float(int field, float value) {
    Key(field, kFixed32);
    Append(&value, sizeof(value));
    return *this;
  }
  Message& Bytes(int field, std::string_view value) {
    Key(field, kBytes);
    AppendVarint(value.size());
    bytes_ += value;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Key(int field, WireType type) {
    AppendVarint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type));
  }
  void AppendVarint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  void Append(const void* value, size_t size) {
    bytes_.append(static_cast<const char*>(value), size);
  }

  std::string bytes_;
};

// The fields of event.proto and summary.proto that are used here.
enum EventField : uint8_t { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kLog = 7 };
constexpr int kLogStatus = 1;  // of SessionLog
constexpr uint64_t kStart = 1;
constexpr int kSummaryValue = 1;  // of Summary
constexpr int kTag = 1;           // of Summary.Value
constexpr int kSimpleValue = 2;

// TensorFlow masks its CRCs, since a CRC over bytes that hold CRCs is weak.
uint32_t MaskedCrc(std::string_view bytes) { return std::rotr(Crc32c(bytes), 15) + 0xA282EAD8U; }

std::string Record(const Message& event) {
  auto bytes_of = [](const auto& number) {
    std::string bytes(sizeof(number), '\0');
    std::memcpy(bytes.data(), &number, sizeof(number));
    return bytes;
  };
  std::string size = bytes_of(static_cast<uint64_t>(event.bytes().size()));
  return size + bytes_of(MaskedCrc(size)) + event.bytes() + bytes_of(MaskedCrc(event.bytes()));
}

Message Event(double wall_time, int64_t step) {
  Message event;
  event.Double(kWallTime, wall_time).Varint(kStep, static_cast<uint64_t>(step));
  return event;
}

// The time in the last name of `dir`, 0 without one. TensorBoard takes files in the order of their
// names, and a restart within a second, or on a machine whose clock is behind, must come later.
int64_t LastSecond(const std::string& dir) {
  int64_t last = 0;
  ForEachEntry(dir, [&last](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) return;
    uint32_t second = 0;
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), second);
    last = std::max<int64_t>(last, second);
  });
  return last;
}

Error FileError(const std::string& what, const std::string& path, int code) {
  return Error::Unavailable(what + " " + path + ": " + std::generic_category().message(code) +
                            kUntilThen);
}

}  // namespace

std::string VersionRecord(double wall_time) {
  return Record(Message().Double(kWallTime, wall_time).Bytes(kFileVersion, "brain.Event:2"));
}

std::string StartRecord(double wall_time, int64_t step) {
  Message log;
  log.Varint(kLogStatus, kStart);
  return Record(Event(wall_time, step).Bytes(kLog, log.bytes()));
}

std::string ScalarsRecord(double wall_time, int64_t step, std::span<const Scalar> scalars) {
  Message summary;
  for (const Scalar& scalar : scalars) {
    Message value;
    value.Bytes(kTag, scalar.tag).Float(kSimpleValue, static_cast<float>(scalar.value));
    summary.Bytes(kSummaryValue, value.bytes());
  }
  return Record(Event(wall_time, step).Bytes(kSummary, summary.bytes()));
}

Result<std::unique_ptr<EventFile>> EventFile::Create(const std::string& dir, int64_t start_step) {
  std::error_code code;
  fs::create_directories(dir, code);
  if (code) return FileError("making the folder", dir, code.value());
  std::chrono::duration<double> since_1970 = std::chrono::system_clock::now().time_since_epoch();
  double wall_time = since_1970.count();
  int64_t second = std::max(static_cast<int64_t>(wall_time), LastSecond(dir) + 1);
  int fd = -1;
  std::string path;
  for (; fd < 0; ++second) {
    path = dir + "/" + std::string(kPrefix) + std::to_string(second) + "." + OwnHostName() + "." +
           std::to_string(getpid()) + ".0";
    fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0 && errno != EEXIST) return FileError("making", path, errno);
  }
  std::unique_ptr<EventFile> file(new EventFile(fd, path));
  file->unwritten_ = VersionRecord(wall_time) + StartRecord(wall_time, start_step);
  Status flushed = file->Flush();
  if (!flushed.ok()) return flushed.error();
  return file;
}

EventFile::~EventFile() {
  Status flushed = Flush();
  // A destructor has nobody to report an error to.
  static_cast<void>(flushed);
  close(fd_);
}

Status EventFile::Scalars(int64_t step, double wall_time, std::span<const Scalar> scalars) {
  unwritten_ += ScalarsRecord(wall_time, step, scalars);
  if (unwritten_.size() < kFlushBytes) return {};
  return Flush();
}

Status EventFile::Flush() {
  Status written = AppendWhole(fd_, std::exchange(unwritten_, {}), path_);
  if (written.ok()) return written;
  return Error::Unavailable(written.error().message + kUntilThen);
}

}  // namespace lockstep::events
