#include "worker/trainer/collectives/store/flight_recorder.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/file.h"
#include "base/text/json.h"
#include "worker/trainer/collectives/store/socket.h"

namespace lockstep::collectives {
namespace {

Json ToJson(const RecordedOperation& operation) {
  return {{"number", operation.number},
          {"kind", ToString(operation.kind)},
          {"tag", operation.tag},
          {"bytes", operation.bytes},
          {"peer", operation.peer},
          {"state", operation.State()},
          {"enqueued", operation.enqueued.count()},
          {"started", operation.started.count()},
          {"finished", operation.finished.count()}};
}

}  // namespace

const char* ToString(OperationKind kind) {
  switch (kind) {
    case OperationKind::kAllReduce:
      return "allreduce";
    case OperationKind::kBroadcast:
      return "broadcast";
    case OperationKind::kReduceScatter:
      return "reduce-scatter";
    case OperationKind::kAllGather:
      return "all-gather";
    case OperationKind::kSend:
      return "send";
    case OperationKind::kReceive:
      return "receive";
    case OperationKind::kExchange:
      return "exchange";
    case OperationKind::kBarrier:
      break;
  }
  return "barrier";
}

bool IsCollective(OperationKind kind) {
  return kind != OperationKind::kSend && kind != OperationKind::kReceive &&
         kind != OperationKind::kExchange;
}

const char* RecordedOperation::State() const {
  if (finished != Time{}) return "finished";
  return started != Time{} ? "started" : "enqueued";
}

std::string RecordedOperation::Describe() const {
  std::string text = std::string(ToString(kind)) + " " + std::to_string(number);
  if (!tag.empty()) text += " \"" + tag + "\"";
  if (kind == OperationKind::kSend) text += " to rank " + std::to_string(peer);
  if (kind == OperationKind::kReceive) text += " from rank " + std::to_string(peer);
  if (kind == OperationKind::kExchange) text += " with rank " + std::to_string(peer);
  return text;
}

uint64_t FlightRecorder::Enqueued(const Operation& operation, uint64_t bytes, std::string_view tag,
                                  Time now) {
  const MutexLock lock(&mutex_);
  RecordedOperation& record = ring_[next_ % kCapacity];
  record.number = operation.number;
  record.kind = operation.kind;
  record.tag = tag;
  record.bytes = bytes;
  record.peer = operation.peer;
  record.enqueued = now;
  record.started = Time{};
  record.finished = Time{};
  if (IsCollective(operation.kind)) issued_ = operation.number;
  return next_++;
}

void FlightRecorder::Started(uint64_t ticket, Time now) {
  const MutexLock lock(&mutex_);
  if (RecordedOperation* record = Find(ticket)) record->started = now;
}

void FlightRecorder::Finished(uint64_t ticket, Time now) {
  const MutexLock lock(&mutex_);
  running_ = ticket + 1;  // they finish in the order in which they came
  RecordedOperation* record = Find(ticket);
  if (record == nullptr) return;
  record->finished = now;
  if (IsCollective(record->kind)) finished_ = record->number;
}

std::optional<RecordedOperation> FlightRecorder::Running() const {
  const MutexLock lock(&mutex_);
  const uint64_t oldest = next_ > kCapacity ? next_ - kCapacity : 0;
  if (running_ >= next_ || running_ < oldest) return std::nullopt;
  const RecordedOperation& record = ring_[running_ % kCapacity];
  if (record.started == Time{}) return std::nullopt;
  return record;
}

std::string FlightRecorder::Standing() const {
  const MutexLock lock(&mutex_);
  if (running_ < next_) {
    const RecordedOperation& record = ring_[running_ % kCapacity];
    const std::string bytes = " of " + std::to_string(record.bytes) + " bytes";
    return record.Describe() + (record.bytes == 0 ? "" : bytes);
  }
  if (next_ == 0) return "its own code before any operation";
  return "its own code after " + ring_[(next_ - 1) % kCapacity].Describe();
}

uint64_t FlightRecorder::last_issued() const {
  const MutexLock lock(&mutex_);
  return issued_;
}

uint64_t FlightRecorder::last_finished() const {
  const MutexLock lock(&mutex_);
  return finished_;
}

std::vector<RecordedOperation> FlightRecorder::Operations() const {
  const MutexLock lock(&mutex_);
  std::vector<RecordedOperation> all;
  const uint64_t oldest = next_ > kCapacity ? next_ - kCapacity : 0;
  all.reserve(static_cast<size_t>(next_ - oldest));
  for (uint64_t ticket = oldest; ticket < next_; ++ticket) {
    all.push_back(ring_[ticket % kCapacity]);
  }
  return all;
}

std::string FlightRecorder::Dump(const EvidenceHeader& header) const {
  Json operations = Json::array();
  for (const RecordedOperation& one : Operations()) operations.push_back(ToJson(one));
  const auto utc = std::chrono::system_clock::now().time_since_epoch();
  const Json out = {
      {"rank", header.rank},
      {"world", header.world},
      {"identity", header.identity},
      {"backend", header.backend},
      {"reason", header.reason},
      {"blamed", header.blamed},
      {"issued", last_issued()},
      {"finished", last_finished()},
      {"clock", {{"boot", BootTime().count()}, {"utc", duration_cast<nanoseconds>(utc).count()}}},
      {"operations", std::move(operations)},
  };
  // Tags are bytes of the caller's: what is no UTF-8 in them must not cost the evidence.
  return DumpJson(out, 1);
}

Status FlightRecorder::Write(const std::string& dir, const EvidenceHeader& header) const {
  std::error_code failed;
  std::filesystem::create_directories(dir, failed);
  if (failed) return Error::Internal("making " + dir + ": " + failed.message());
  char name[32];
  std::snprintf(name, sizeof name, "rank-%05d.json", header.rank);
  return WriteFileAtomically(dir + "/" + name, Dump(header));
}

RecordedOperation* FlightRecorder::Find(uint64_t ticket) {
  if (ticket >= next_ || next_ - ticket > kCapacity) return nullptr;
  return &ring_[ticket % kCapacity];
}

}  // namespace lockstep::collectives
