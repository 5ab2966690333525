#include "core/gang/messages.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <type_traits>

namespace lockstep::core {

namespace {

// Both directions walk the same list of fields, so they cannot disagree. A field is an integer or
// an enum in its own width, a bool or a byte, a Time or Duration as signed 64-bit nanoseconds, a
// double as its IEEE bits, a string behind a 16-bit length, a list behind a 16-bit count.

constexpr size_t kMaxString = 8 * 1024;
constexpr size_t kMaxList = 1024;

class Writer {
 public:
  static constexpr bool kReads = false;

  template <typename T>
  void Integer(const T& value) {
    using Unsigned = std::make_unsigned_t<T>;
    auto bits = static_cast<Unsigned>(value);
    for (int shift = static_cast<int>(sizeof(T)) * 8 - 8; shift >= 0; shift -= 8) {
      bytes_.push_back(static_cast<char>((bits >> shift) & 0xff));
    }
  }
  void Text(const std::string& value) {
    size_t size = std::min(value.size(), kMaxString);
    Integer(static_cast<uint16_t>(size));
    bytes_.append(value, 0, size);
  }
  std::string Take() { return std::move(bytes_); }
  bool ok() const { return true; }

 private:
  std::string bytes_;
};

class Reader {
 public:
  static constexpr bool kReads = true;

  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  void Integer(T& value) {
    if (bytes_.size() < sizeof(T)) return Fail();
    using Unsigned = std::make_unsigned_t<T>;
    Unsigned bits = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      bits = static_cast<Unsigned>(static_cast<uint64_t>(bits) << 8 |
                                   static_cast<unsigned char>(bytes_[i]));
    }
    value = static_cast<T>(bits);
    bytes_.remove_prefix(sizeof(T));
  }
  void Text(std::string& value) {
    uint16_t size = 0;
    Integer(size);
    if (size > kMaxString || size > bytes_.size()) return Fail();
    value.assign(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
  }
  void Fail() {
    ok_ = false;
    bytes_ = {};
  }
  bool ok() const { return ok_; }
  bool finished() const { return ok_ && bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

template <typename V, typename T>
  requires std::is_integral_v<T>
void Field(V& v, T& value) {
  if constexpr (std::is_same_v<std::remove_const_t<T>, bool>) {
    auto byte = static_cast<uint8_t>(value);
    v.Integer(byte);
    if constexpr (V::kReads) {
      if (byte > 1) v.Fail();
      value = byte == 1;
    }
  } else {
    v.Integer(value);
  }
}

template <typename V>
void Field(V& v, Duration& value) {
  int64_t count = value.count();
  v.Integer(count);
  if constexpr (V::kReads) value = Duration(count);
}

template <typename V>
void Field(V& v, double& value) {
  auto bits = std::bit_cast<uint64_t>(value);
  v.Integer(bits);
  if constexpr (V::kReads) value = std::bit_cast<double>(bits);
}

template <typename V>
void Field(V& v, std::string& value) {
  v.Text(value);
}

template <typename V, typename E>
void EnumField(V& v, E& value, int count) {
  auto byte = static_cast<uint8_t>(value);
  v.Integer(byte);
  if constexpr (V::kReads) {
    if (byte >= count) return v.Fail();
    value = static_cast<E>(byte);
  }
}

template <typename V>
void Field(V& v, MemberPhase& value) {
  EnumField(v, value, kMemberPhaseCount);
}
template <typename V>
void Field(V& v, Binding& value) {
  EnumField(v, value, kBindingCount);
}
template <typename V>
void Field(V& v, StopReason& value) {
  EnumField(v, value, kStopReasonCount);
}
template <typename V>
void Field(V& v, Cause& value) {
  EnumField(v, value, kCauseCount);
}
template <typename V>
void Field(V& v, RefusalCode& value) {
  EnumField(v, value, kRefusalCodeCount);
}

template <typename V, typename... T>
void Fields(V& v, T&... fields);

template <typename V, typename T>
void Field(V& v, std::vector<T>& list) {
  auto count = static_cast<uint16_t>(std::min(list.size(), kMaxList));
  v.Integer(count);
  if constexpr (V::kReads) {
    if (count > kMaxList) return v.Fail();
    for (uint16_t i = 0; i < count && v.ok(); ++i) Field(v, list.emplace_back());
  } else {
    for (uint16_t i = 0; i < count; ++i) Field(v, list[i]);
  }
}

template <typename V>
void Field(V& v, Generation& g) {
  Fields(v, g.attempt, g.n);
}
template <typename V>
void Field(V& v, Counters& c) {
  Fields(v, c.generations, c.process_failures, c.process_failures_base, c.out_of_memory,
         c.out_of_memory_base, c.replacements, c.replacements_base, c.leases_expired, c.stops);
}
template <typename V>
void Field(V& v, Death& d) {
  Fields(v, d.rank, d.cause, d.exit_code, d.signal, d.at, d.by_itself, d.stderr_tail);
}
template <typename V>
void Field(V& v, Report& r) {
  Fields(v, r.generation, r.phase, r.lease_expired, r.lease_expired_at, r.first_step, r.last_step,
         r.unkillable, r.binding, r.binding_reason, r.deaths);
}
template <typename V>
void Field(V& v, LeaseGrant& g) {
  Fields(v, g.present, g.echo, g.age, g.length);
}
template <typename V>
void Field(V& v, Failure& f) {
  Fields(v, f.cause, f.machine, f.rank, f.exit_code, f.signal, f.message, f.stderr_tail);
}
template <typename V>
void Field(V& v, RankProgress& p) {
  Fields(v, p.rank, p.step, p.total_steps, p.loss, p.tokens_per_second);
}

template <typename V>
void Field(V& v, Hello& m) {
  Fields(v, m.job_uid, m.machine, m.attempt, m.machines, m.processes, m.machine0_attempt,
         m.predecessor_dead, m.draining, m.silence, m.lease_length, m.now, m.counters, m.report);
}
template <typename V>
void Field(V& v, Pong& m) {
  Fields(v, m.ping_sent, m.now, m.generation, m.phase);
}
template <typename V>
void Field(V& v, ReportMessage& m) {
  Fields(v, m.report);
}
template <typename V>
void Field(V& v, StopRequest& m) {
  Fields(v, m.reason, m.grace);
}
template <typename V>
void Field(V& v, CommitRequest& m) {
  Fields(v, m.id, m.generation);
}
template <typename V>
void Field(V& v, Progress& m) {
  Fields(v, m.generation, m.ranks);
}
template <typename V>
void Field(V& v, VerdictAck& m) {
  Fields(v, m.generation);
}
template <typename V>
void Field(V& v, Welcome& m) {
  Fields(v, m.machine0_attempt, m.counters);
}
template <typename V>
void Field(V& v, Refused& m) {
  Fields(v, m.code, m.reason);
}
template <typename V>
void Field(V& v, Ping& m) {
  Fields(v, m.sent, m.machine0_attempt, m.lease);
}
template <typename V>
void Field(V& v, Start& m) {
  Fields(v, m.generation, m.master_address, m.master_port, m.resume, m.restarts, m.hang_timeout,
         m.counters, m.lease);
}
template <typename V>
void Field(V& v, Stop& m) {
  Fields(v, m.generation, m.reason, m.grace);
}
template <typename V>
void Field(V& v, CommitReply& m) {
  Fields(v, m.id, m.granted, m.number, m.reason);
}
template <typename V>
void Field(V& v, Verdict& m) {
  Fields(v, m.generation, m.exit_code, m.failure, m.reason);
}

template <typename V, typename... T>
void Fields(V& v, T&... fields) {
  (Field(v, fields), ...);
}

template <size_t kIndex = 0>
Result<Message> DecodeAs(size_t index, Reader& reader) {
  if constexpr (kIndex < std::variant_size_v<Message>) {
    if (index != kIndex) return DecodeAs<kIndex + 1>(index, reader);
    std::variant_alternative_t<kIndex, Message> message;
    Field(reader, message);
    if (!reader.ok()) {
      return Error::Invalid(std::string(NameOf(message)) +
                            ": bytes are missing or a field is out of range");
    }
    if (!reader.finished()) {
      return Error::Invalid(std::string(NameOf(message)) + ": bytes are left over");
    }
    return Message(std::move(message));
  } else {
    return Error::Invalid("unknown message type " + std::to_string(index + 1));
  }
}

}  // namespace

const char* ToString(MemberPhase phase) {
  static constexpr std::array<const char*, kMemberPhaseCount> kNames = {
      "Joining", "Idle", "Starting", "Running", "Finished", "Stopping", "Stopped", "Exiting"};
  return kNames.at(static_cast<size_t>(phase));
}

bool MayHaveLiveRanks(MemberPhase phase) {
  return phase == MemberPhase::kStarting || phase == MemberPhase::kRunning ||
         phase == MemberPhase::kStopping;
}

const char* ToString(StopReason reason) {
  static constexpr std::array<const char*, kStopReasonCount> kNames = {
      "Failure",  "MachineLost", "LeaseExpired", "Suspended",
      "Draining", "Deadline",    "Scaled",       "Deleted"};
  return kNames.at(static_cast<size_t>(reason));
}

const char* ToString(Binding binding) {
  static constexpr std::array<const char*, kBindingCount> kNames = {"", "None", "Partial", "Node"};
  return kNames.at(static_cast<size_t>(binding));
}

const char* NameOf(const Message& message) {
  static constexpr std::array<const char*, std::variant_size_v<Message>> kNames = {
      "HELLO",    "PONG",        "REPORT",       "STOP_REQUEST", "COMMIT_REQUEST",
      "PROGRESS", "VERDICT_ACK", "WELCOME",      "REFUSED",      "PING",
      "START",    "STOP",        "COMMIT_REPLY", "VERDICT"};
  return kNames.at(message.index());
}

std::string Encode(const Message& message) {
  Writer writer;
  writer.Integer(static_cast<uint8_t>(message.index() + 1));
  // Writer only reads the fields; Field takes them by reference for Reader's sake.
  std::visit(
      [&writer](const auto& body) {
        Field(writer, const_cast<std::remove_cvref_t<decltype(body)>&>(body));
      },
      message);
  return writer.Take();
}

Result<Message> Decode(std::string_view bytes) {
  if (bytes.empty()) return Error::Invalid("an empty message");
  if (bytes.size() > kMaxMessage) return Error::TooLarge("a message over 64 KiB");
  Reader reader(bytes.substr(1));
  auto type = static_cast<unsigned char>(bytes[0]);
  if (type == 0) return Error::Invalid("unknown message type 0");
  return DecodeAs(type - 1U, reader);
}

}  // namespace lockstep::core
