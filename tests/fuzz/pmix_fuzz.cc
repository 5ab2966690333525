// A lockstep-pmix that says anything: the agent's side of the talk holds its limits, tells of ranks
// that there are, and of a fence when none is open.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/gang/protocol/kvs_exchange.h"
#include "worker/agent/services/pmix.h"
#include "worker/pmix/message.h"

namespace {

using lockstep::Result;
using lockstep::agent::Pmix;
using lockstep::core::TableEntry;
using lockstep::pmix::Kind;
using lockstep::pmix::Message;

size_t Byte(char c) { return static_cast<uint8_t>(c); }

void Check(bool holds) {
  if (!holds) std::abort();
}

class Talk {
 public:
  Talk(uint32_t machines, uint32_t processes)
      : processes_(processes),
        most_(processes * lockstep::core::MostTableBytes(machines, processes)),
        pmix_(machines, processes) {}

  // False: the helper is given up.
  bool Hear(std::string_view packet) {
    Result<Message> message = lockstep::pmix::Decode(packet);
    if (!message.ok()) return false;
    Check(lockstep::pmix::Encode(*message) == packet);
    Result<Pmix::Effects> effects = pmix_.OnMessage(*std::move(message));
    if (!effects.ok()) return false;
    if (!effects->ready.empty())
      Check(!std::exchange(ready_, true) && effects->ready.size() == processes_);
    if (effects->abort) Check(effects->abort->local_rank < processes_);
    if (effects->fence) OnFence(*effects->fence);
    Check(effects->answers.empty() || !effects->refused.empty());
    return true;
  }

  // What the gang answers: what this machine has put, in two parts.
  void Answer() {
    if (!fencing_) return Check(pmix_.OnFence({}, true).empty());
    const size_t half = put_.size() / 2;
    const std::vector<TableEntry> first(put_.begin(), put_.begin() + static_cast<ptrdiff_t>(half));
    const std::vector<TableEntry> rest(put_.begin() + static_cast<ptrdiff_t>(half), put_.end());
    std::string told;
    for (const auto* part : {&first, &rest}) {
      const std::vector<Message> parts = pmix_.OnFence(*part, part == &rest);
      for (const Message& each : parts) {
        Check(each.kind == Kind::kFence && each.bytes.size() <= lockstep::pmix::kMaxBytes);
        Check(each.last == (part == &rest && &each == &parts.back()));
        told += each.bytes;
      }
    }
    std::string put;
    for (const TableEntry& entry : put_) put += entry.value;
    Check(told == put);
    fencing_ = false;
  }

 private:
  void OnFence(const std::vector<TableEntry>& entries) {
    Check(ready_ && !std::exchange(fencing_, true));
    size_t bytes = 0;
    for (const TableEntry& entry : entries) bytes += lockstep::core::TableBytes(entry);
    Check(bytes <= most_);
    put_ = entries;
  }

  uint32_t processes_;
  size_t most_;
  Pmix pmix_;
  bool ready_ = false;
  bool fencing_ = false;
  std::vector<TableEntry> put_;
};

}  // namespace

// Bytes: the shape; then packets, each behind its size. A size of 0 is the gang's answer; one with
// its highest bit set is a packet as long as can be, of the byte that follows it again and again.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  Talk talk(1 + data[0] % 4, 1 + data[0] / 4 % 4);
  std::string_view rest(reinterpret_cast<const char*>(data + 1), size - 1);
  while (rest.size() >= 2) {
    const size_t length = Byte(rest[0]) << 8 | Byte(rest[1]);
    rest.remove_prefix(2);
    if (length == 0) {
      talk.Answer();
      continue;
    }
    std::string packet(rest.substr(0, length & 0x7fff));
    rest.remove_prefix(packet.size());
    if ((length & 0x8000) != 0 && !packet.empty()) {
      packet.resize(lockstep::pmix::kMaxPacket, packet.back());
    }
    if (!talk.Hear(packet)) return 0;
  }
  return 0;
}
