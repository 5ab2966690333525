#include "worker/pmix/message.h"

namespace lockstep::pmix {
namespace {

void Put(std::string* packet, uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    packet->push_back(static_cast<char>((number >> shift) & 0xff));
  }
}

uint32_t NumberAt(std::string_view packet, size_t at) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4; ++i) number = number << 8 | static_cast<uint8_t>(packet[at + i]);
  return number;
}

}  // namespace

std::string Encode(const Message& message) {
  std::string packet;
  packet.push_back(static_cast<char>(message.kind));
  Put(&packet, message.local_rank);
  Put(&packet, static_cast<uint32_t>(message.code));
  packet.push_back(message.last ? 1 : 0);
  packet.append(message.bytes, 0, kMaxBytes);
  return packet;
}

Result<Message> Decode(std::string_view packet) {
  if (packet.size() < kHeaderBytes || packet.size() > kMaxPacket) {
    return Error::Invalid("a packet of " + std::to_string(packet.size()) + " bytes");
  }
  const auto kind = static_cast<uint8_t>(packet[0]);
  const auto last = static_cast<uint8_t>(packet[9]);
  if (kind < static_cast<uint8_t>(Kind::kInitialized) ||
      kind > static_cast<uint8_t>(Kind::kProblem) || last > 1) {
    return Error::Invalid("a packet of no known kind");
  }
  return Message{static_cast<Kind>(kind), NumberAt(packet, 1),
                 static_cast<int32_t>(NumberAt(packet, 5)), last == 1,
                 std::string(packet.substr(kHeaderBytes))};
}

std::vector<Message> FenceParts(std::string_view data) {
  std::vector<Message> parts;
  do {
    parts.push_back({.kind = Kind::kFence,
                     .last = data.size() <= kMaxBytes,
                     .bytes = std::string(data.substr(0, kMaxBytes))});
    data.remove_prefix(parts.back().bytes.size());
  } while (!parts.back().last);
  return parts;
}

}  // namespace lockstep::pmix
