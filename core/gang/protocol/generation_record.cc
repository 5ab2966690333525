#include "core/gang/protocol/generation_record.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "core/text/limited_text.h"

namespace lockstep::core {
namespace {

constexpr size_t kMostWords = 256;           // bytes of a failure's message
constexpr size_t kRoom = size_t{16} * 1024;  // bytes of the texts of all records
constexpr size_t kRoomOfOtherFields = 256;   // bytes of one record

}  // namespace

GenerationRecord GenerationRecord::Shifted(Duration by) const {
  GenerationRecord shifted = *this;
  for (std::optional<Time>* time :
       {&shifted.announced, &shifted.spawned, &shifted.first_step, &shifted.halted, &shifted.died,
        &shifted.stop_sent, &shifted.all_stopped, &shifted.ended}) {
    if (*time) **time += by;
  }
  return shifted;
}

std::vector<GenerationRecord> LastEnded(const std::vector<GenerationRecord>& history,
                                        Duration shift) {
  std::vector<GenerationRecord> ended;
  size_t room = kRoom;
  for (const GenerationRecord& each : history | std::views::reverse) {
    if (!each.ended) continue;
    GenerationRecord record = each.Shifted(shift);
    record.failure.stderr_tail.clear();
    record.failure.message = FirstBytes(record.failure.message, kMostWords);
    const size_t size = kRoomOfOtherFields + record.failure.message.size() + record.resume.size() +
                        record.members.ToString().size() + record.code.size();
    if (ended.size() == kMaxEnded || size > room) break;
    room -= size;
    ended.push_back(std::move(record));
  }
  std::ranges::reverse(ended);
  return ended;
}

void AddEnded(std::vector<GenerationRecord>& known, const std::vector<GenerationRecord>& ended) {
  for (const GenerationRecord& each : ended) {
    if (!each.ended) continue;
    auto place =
        std::ranges::lower_bound(known, each.generation, {}, &GenerationRecord::generation);
    if (place == known.end() || place->generation != each.generation) {
      known.insert(place, each);
    } else if (!place->ended) {
      *place = each;
    }
  }
}

}  // namespace lockstep::core
