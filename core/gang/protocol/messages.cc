#include "core/gang/protocol/messages.h"

#include <algorithm>
#include <bit>
#include <concepts>
#include <optional>
#include <type_traits>

#include "core/gang/protocol/message_fields.h"

namespace lockstep::core {

namespace {

// Both directions walk the same tables, so they cannot disagree. A field is an integer or an enum
// in its own width, a bool as a byte, a Time or Duration as signed 64-bit nanoseconds, a double as
// its IEEE bits, a string behind a 16-bit length, a list behind a 16-bit count, an optional behind
// a bool.

constexpr size_t kMaxString = 16 * 1024;
static_assert(kMaxString >= kMaxRunCommand);
constexpr size_t kMaxList = Members::kMost;
// No clock and no duration exceeds 36 years, so the sum of a few is valid too.
constexpr Duration kMaxTime{int64_t{1} << 60};

class Writer {
 public:
  template <std::integral T>
  void Write(T value) {
    const auto bits = static_cast<std::make_unsigned_t<T>>(value);
    for (int shift = static_cast<int>(sizeof(T)) * 8 - 8; shift >= 0; shift -= 8) {
      bytes_.push_back(static_cast<char>((bits >> shift) & 0xff));
    }
  }
  void Write(bool value) { Write(static_cast<uint8_t>(value)); }
  template <NamedEnum E>
  void Write(E value) {
    Write(static_cast<uint8_t>(value));
  }
  void Write(Duration value) { Write(int64_t{value.count()}); }
  void Write(double value) { Write(std::bit_cast<uint64_t>(value)); }
  void Write(const std::string& value) {
    const size_t size = std::min(value.size(), kMaxString);
    Write(static_cast<uint16_t>(size));
    bytes_.append(value, 0, size);
  }
  void Write(const Generation& value) {
    Write(value.attempt);
    Write(value.n);
  }
  void Write(const Members& value) { Write(value.ToString()); }
  template <typename T>
  void Write(const std::optional<T>& value) {
    Write(value.has_value());
    if (value) Write(*value);
  }
  template <typename T>
  void Write(const std::vector<T>& list) {
    const size_t count = std::min(list.size(), kMaxList);
    Write(static_cast<uint16_t>(count));
    for (size_t i = 0; i < count; ++i) WriteItem(list[i]);
  }
  template <HasFields Struct, typename Table = decltype(kFields<Struct>)>
  void Write(const Struct& value, const Table& table = kFields<Struct>) {
    ForEachField<Struct>([&](const auto& field) { Write(value.*field.member); }, table);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  template <typename T>
  void WriteItem(const T& item) {
    Write(item);
  }
  void WriteItem(const Failure& death) { Write(death, kDeathFields); }

  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <std::integral T>
  void Read(T& value) {
    if (bytes_.size() < sizeof(T)) return Fail();
    std::make_unsigned_t<T> bits = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      bits = static_cast<std::make_unsigned_t<T>>(static_cast<uint64_t>(bits) << 8 |
                                                  static_cast<unsigned char>(bytes_[i]));
    }
    value = static_cast<T>(bits);
    bytes_.remove_prefix(sizeof(T));
  }
  void Read(bool& value) {
    uint8_t byte = 0;
    Read(byte);
    if (byte > 1) return Fail();
    value = byte == 1;
  }
  template <NamedEnum E>
  void Read(E& value) {
    uint8_t byte = 0;
    Read(byte);
    for (const EnumName<E>& entry : kEnumNames<E>) {
      if (static_cast<uint8_t>(entry.value) != byte) continue;
      value = entry.value;
      return;
    }
    Fail();
  }
  void Read(Duration& value) {
    int64_t count = 0;
    Read(count);
    value = Duration(count);
    if (value > kMaxTime || value < -kMaxTime) Fail();
  }
  void Read(double& value) {
    uint64_t bits = 0;
    Read(bits);
    value = std::bit_cast<double>(bits);
  }
  void Read(std::string& value) {
    uint16_t size = 0;
    Read(size);
    if (size > kMaxString || size > bytes_.size()) return Fail();
    value.assign(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
  }
  void Read(Generation& value) {
    Read(value.attempt);
    Read(value.n);
  }
  void Read(Members& value) {
    std::string text;
    Read(text);
    Result<Members> members = Members::Parse(text);
    // A message has one form: "0,1" is not what would be written for the two.
    if (!members.ok() || members->ToString() != text) return Fail();
    value = std::move(*members);
  }
  template <typename T>
  void Read(std::optional<T>& value) {
    bool present = false;
    Read(present);
    if (present) Read(value.emplace());
  }
  template <typename T>
  void Read(std::vector<T>& list) {
    uint16_t count = 0;
    Read(count);
    if (count > kMaxList) return Fail();
    for (uint16_t i = 0; i < count && ok_; ++i) ReadItem(list.emplace_back());
  }
  template <HasFields Struct, typename Table = decltype(kFields<Struct>)>
  void Read(Struct& value, const Table& table = kFields<Struct>) {
    ForEachField<Struct>([&](const auto& field) { Read(value.*field.member); }, table);
  }
  bool ok() const { return ok_; }
  bool finished() const { return ok_ && bytes_.empty(); }

 private:
  template <typename T>
  void ReadItem(T& item) {
    Read(item);
  }
  void ReadItem(Failure& death) { Read(death, kDeathFields); }

  void Fail() {
    ok_ = false;
    bytes_ = {};
  }

  std::string_view bytes_;
  bool ok_ = true;
};

template <size_t kIndex = 0>
Result<Message> DecodeAs(size_t index, Reader& reader) {
  if constexpr (kIndex < std::variant_size_v<Message>) {
    if (index != kIndex) return DecodeAs<kIndex + 1>(index, reader);
    std::variant_alternative_t<kIndex, Message> message;
    reader.Read(message);
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

bool MayHaveLiveRanks(MemberPhase phase) {
  return phase == MemberPhase::kStarting || phase == MemberPhase::kRunning ||
         phase == MemberPhase::kStopping;
}

const char* NameOf(const Message& message) {
  return std::visit([]<typename Body>(const Body&) { return Body::kKind.name; }, message);
}

std::string Encode(const Message& message) {
  Writer writer;
  writer.Write(static_cast<uint8_t>(message.index() + 1));
  std::visit([&writer](const auto& body) { writer.Write(body); }, message);
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
