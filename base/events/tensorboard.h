// Event files, as TensorBoard reads them: numbers by step.
//
// A file is a row of records: size (8 bytes), masked CRC-32C of the size (4), a message Event of
// TensorFlow's event.proto (hand-encoded: it takes three kinds), masked CRC-32C of it (4); all
// little-endian. The first says the version; the second that the run starts at a step: TensorBoard
// then drops what older files of the folder hold from that step on, for it was undone.
#ifndef LOCKSTEP_BASE_EVENTS_TENSORBOARD_H_
#define LOCKSTEP_BASE_EVENTS_TENSORBOARD_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace lockstep::events {

struct Scalar {
  std::string_view tag;  // "train/loss"
  double value = 0;      // kept as float
};

// The records of a file, as bytes. wall_time: seconds since 1970.
std::string VersionRecord(double wall_time);
std::string StartRecord(double wall_time, int64_t step);
std::string ScalarsRecord(double wall_time, int64_t step, std::span<const Scalar> scalars);

class EventFile {
 public:
  // A new file in `dir`, which is made. start_step: the first that will be told here.
  static Result<std::unique_ptr<EventFile>> Create(const std::string& dir, int64_t start_step);
  // Flushes, if it can.
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  const std::string& path() const { return path_; }

  // Kept in memory until 64 KiB are there or Flush() is called. kUnavailable: the disk is full or
  // failed; what was kept is dropped, the file stays whole, and later steps may be told again.
  Status Scalars(int64_t step, double wall_time, std::span<const Scalar> scalars);
  Status Flush();

 private:
  EventFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  int fd_;
  std::string path_;
  std::string unwritten_;
};

}  // namespace lockstep::events

#endif  // LOCKSTEP_BASE_EVENTS_TENSORBOARD_H_
