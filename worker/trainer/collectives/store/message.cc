#include "worker/trainer/collectives/store/message.h"

namespace lockstep::collectives {
namespace {

constexpr size_t kLength = 4;
constexpr size_t kFixed = 1 + 4 + 8 + 8 + 2;

void Put(std::string* out, uint64_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    out->push_back(static_cast<char>((value >> shift) & 0xff));
  }
}

// Takes `bytes` bytes off the front of `in`, which has them.
uint64_t Take(std::string_view* in, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value = (value << 8) | static_cast<unsigned char>((*in)[i]);
  in->remove_prefix(bytes);
  return value;
}

Result<Message> Decode(std::string_view body) {
  Message message;
  const uint64_t type = Take(&body, 1);
  if (type < static_cast<uint64_t>(MessageType::kHello) ||
      type > static_cast<uint64_t>(MessageType::kFailed)) {
    return Error::Invalid("unknown message type " + std::to_string(type));
  }
  message.type = static_cast<MessageType>(type);
  message.rank = static_cast<int32_t>(static_cast<uint32_t>(Take(&body, 4)));
  message.first = Take(&body, 8);
  message.second = Take(&body, 8);
  const auto key = static_cast<size_t>(Take(&body, 2));
  if (key > kMaxKey || key > body.size() || body.size() - key > kMaxValue) {
    return Error::Invalid("a message whose parts exceed it");
  }
  message.key = body.substr(0, key);
  message.value = body.substr(key);
  return message;
}

}  // namespace

std::string Encode(const Message& message) {
  std::string out;
  const size_t body = kFixed + message.key.size() + message.value.size();
  out.reserve(kLength + body);
  Put(&out, body, kLength);
  Put(&out, static_cast<uint64_t>(message.type), 1);
  Put(&out, static_cast<uint32_t>(message.rank), 4);
  Put(&out, message.first, 8);
  Put(&out, message.second, 8);
  Put(&out, message.key.size(), 2);
  out += message.key;
  out += message.value;
  return out;
}

void MessageReader::Feed(std::string_view bytes) {
  if (failed_) return;
  buffer_.erase(0, used_);
  used_ = 0;
  buffer_.append(bytes);
}

Result<std::optional<Message>> MessageReader::Next() {
  if (failed_) return Error::Invalid("the stream is lost");
  std::string_view rest = std::string_view(buffer_).substr(used_);
  if (rest.size() < kLength) return std::optional<Message>();
  const auto length = static_cast<size_t>(Take(&rest, kLength));
  if (length < kFixed || length > limit_) {
    failed_ = true;
    buffer_.clear();
    used_ = 0;
    return Error::Invalid("a message of " + std::to_string(length) + " bytes");
  }
  if (rest.size() < length) return std::optional<Message>();
  used_ += kLength + length;
  Result<Message> message = Decode(rest.substr(0, length));
  if (!message.ok()) {
    failed_ = true;
    return message.error();
  }
  return std::optional<Message>(std::move(*message));
}

ErrorKind ErrorKindOf(uint64_t number) {
  return number <= static_cast<uint64_t>(ErrorKind::kBroken) ? static_cast<ErrorKind>(number)
                                                             : ErrorKind::kInternal;
}

}  // namespace lockstep::collectives
