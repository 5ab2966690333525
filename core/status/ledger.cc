#include "core/status/ledger.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace lockstep::core {
namespace {

WallTime WholeMs(WallTime time) { return std::chrono::floor<milliseconds>(time); }

template <typename Map>
void AddTo(Map& to, const Map& from, int64_t sign) {
  for (const auto& [key, value] : from) {
    const auto sum = to.try_emplace(key, 0).first;
    sum->second += sign * value;
    if (sum->second == 0) to.erase(sum);
  }
}

void Add(LedgerSums& to, const LedgerSums& from, int64_t sign = 1) {
  AddTo(to.activities, from.activities, sign);
  AddTo(to.lost_to, from.lost_to, sign);
}

// Cuts the time from one moment on into adjacent pieces, for any times between them.
class Cutter {
 public:
  Cutter(WallTime from, WallTime until, int machines)
      : at_(WholeMs(from)), until_(WholeMs(until)), machines_(machines) {}

  int64_t Until(WallTime end) const {
    const WallTime to = std::clamp(WholeMs(end), at_, std::max(at_, until_));
    return (to - at_) / milliseconds(1);
  }
  // Up to `end`, or nothing where that is earlier.
  void Cut(Activity activity, WallTime end, Cause cause) { Take(activity, Until(end), cause); }
  void Take(Activity activity, int64_t length, Cause cause) {
    at_ += milliseconds(length);
    if (length == 0 || machines_ == 0) return;
    sums_.activities[activity] += length * machines_;
    if (IsLoss(activity)) sums_.lost_to[cause] += length * machines_;
  }
  LedgerSums sums() && { return std::move(sums_); }

 private:
  WallTime at_;
  WallTime until_;
  int64_t machines_;
  LedgerSums sums_;
};

// The open generation's time is now `sums`, whatever it was before.
void Replace(Ledger& ledger, LedgerSums sums) {
  Add(ledger.sums, ledger.open->sums, -1);
  Add(ledger.sums, sums);
  ledger.open->sums = std::move(sums);
}

WallTime First(std::initializer_list<std::optional<WallTime>> times, WallTime otherwise) {
  for (const std::optional<WallTime>& time : times) {
    if (time) return *time;
  }
  return otherwise;
}

// The share of its stepping time that equals their share of its steps.
int64_t RedoneOf(int64_t length, const GenerationSpan& span, int64_t furthest) {
  if (span.resumed_at <= 0 || span.resumed_at > furthest) return 0;
  if (span.last_step <= furthest) return length;
  const auto again = static_cast<double>(furthest - span.resumed_at);
  const auto all = static_cast<double>(span.last_step - span.resumed_at);
  return static_cast<int64_t>(static_cast<double>(length) * again / all);
}

// From the end of the generation before it until `until`. Null: none was announced yet.
LedgerSums Reckon(const Ledger::Open& open, const GenerationSpan* span, int64_t furthest,
                  WallTime until, int machines) {
  Cutter cutter(open.since, until, machines);
  const WallTime announced = span == nullptr ? until : First({span->announced}, until);
  const int64_t waited = cutter.Until(announced);
  const int64_t nodes = std::min(open.nodes_milliseconds, waited);
  cutter.Take(Activity::kWaitingForNodes, nodes, open.cause);
  cutter.Take(Activity::kWaitingForMachines, waited - nodes, open.cause);
  if (span == nullptr) return std::move(cutter).sums();
  const WallTime halted = First({span->halted, span->stop_sent, span->ended}, until);
  cutter.Cut(Activity::kSpawn, First({span->spawned}, halted), open.cause);
  const bool reports = furthest > 0 || span->last_step > 0 || span->first_step;
  // A last step without a first one: when the first was done is not known.
  if (reports && (span->first_step || span->last_step <= 0)) {
    const WallTime stepped = First({span->first_step}, halted);
    const int64_t starting = cutter.Until(stepped);
    const int64_t loading =
        span->first_step ? std::clamp<int64_t>(span->loaded / milliseconds(1), 0, starting) : 0;
    cutter.Take(span->warm ? Activity::kWarmStartUp : Activity::kStartUp, starting - loading,
                open.cause);
    cutter.Take(Activity::kCheckpointLoad, loading, open.cause);
  }
  const int64_t ran = cutter.Until(halted);
  const int64_t redone = RedoneOf(ran, *span, furthest);
  cutter.Take(Activity::kRedone, redone, open.cause);
  cutter.Take(reports ? Activity::kProductive : Activity::kUnknown, ran - redone, open.cause);
  cutter.Cut(span->cause == Cause::kHang ? Activity::kHang : Activity::kDetect,
             First({span->stop_sent, span->ended}, until), span->cause);
  cutter.Cut(Activity::kStop, until, span->cause);
  return std::move(cutter).sums();
}

void ShowGoodput(Ledger& ledger) {
  const int64_t total = ledger.sums.total();
  ledger.goodput.clear();
  if (total <= 0) return;
  // Before any generation, all time was lost.
  const bool began = ledger.settled.exists() || (ledger.open && ledger.open->generation.exists());
  if (began && !ledger.step_known()) {
    ledger.goodput = kUnknownGoodput;
    return;
  }
  const double share =
      static_cast<double>(ledger.sums.of(Activity::kProductive)) / static_cast<double>(total);
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%.1f%%", 100 * share);
  ledger.goodput = text.data();
}

// How long it is since the last call; nothing where the clock was set back and what it shows now is
// accounted already.
std::optional<int64_t> Advance(Ledger& ledger, const LedgerMoment& moment) {
  const WallTime now = WholeMs(moment.now);
  const bool first = !ledger.since;
  if (first) ledger.since = ledger.through = std::min(WholeMs(moment.begun), now);
  WallTime& through = *ledger.through;
  if (now < through) return std::nullopt;
  if (!ledger.open) {
    through = std::clamp(WholeMs(moment.begun), through, now);
    ledger.open = {.since = through, .cause = first ? Cause::kNone : Cause::kStopRequested};
  }
  const int64_t passed = (now - through) / milliseconds(1);
  through = now;
  ledger.elapsed_milliseconds += passed;
  return passed;
}

// The last result stays.
void Settle(Ledger& ledger, WallTime next, Cause cause) {
  Ledger::Open& open = *ledger.open;
  ledger.settled = std::max(ledger.settled, open.generation);
  ledger.furthest_step = std::max(ledger.furthest_step, open.last_step);
  open = {.since = next, .cause = cause};
}

}  // namespace

bool IsLoss(Activity activity) {
  return activity != Activity::kProductive && activity != Activity::kUnknown;
}

int64_t LedgerSums::total() const {
  int64_t all = 0;
  for (const auto& [activity, time] : activities) all += time;
  return all;
}

int64_t LedgerSums::of(Activity activity) const {
  const auto found = activities.find(activity);
  return found == activities.end() ? 0 : found->second;
}

int64_t LedgerSums::lost() const {
  int64_t sum = 0;
  for (const auto& [activity, time] : activities) {
    if (IsLoss(activity)) sum += time;
  }
  return sum;
}

bool Ledger::step_known() const {
  return furthest_step > 0 || (open && open->last_step > 0) || sums.of(Activity::kProductive) > 0;
}

void Account(Ledger& ledger, const std::vector<GenerationSpan>& generations,
             const LedgerMoment& moment) {
  const bool running = ledger.open && ledger.open->generation.exists();
  const bool told = !generations.empty() &&
                    (!running || generations.back().generation >= ledger.open->generation);
  if (running && !told) return;  // what it does is not known; it will be
  const WallTime before = ledger.through.value_or(moment.begun);
  const std::optional<int64_t> passed = Advance(ledger, moment);
  if (!passed) return;
  Ledger::Open& open = *ledger.open;
  if (moment.waits_for_nodes) open.nodes_milliseconds += *passed;
  const GenerationSpan* last = nullptr;
  const auto end_at = [&](std::optional<WallTime> said, Cause cause) {
    const WallTime end =
        std::clamp(WholeMs(said.value_or(moment.now)), open.since, *ledger.through);
    Replace(ledger, Reckon(open, last, ledger.furthest_step, end, moment.machines));
    Settle(ledger, end, cause);
    last = nullptr;
  };
  for (const GenerationSpan& span : generations) {
    if (span.generation <= ledger.settled) continue;
    if (last != nullptr) {
      end_at(span.announced, open.cause);  // its end was not reported, but it has ended
    } else if (open.generation.exists() && span.generation > open.generation) {
      Settle(ledger, before, open.cause);
    }
    open.generation = span.generation;
    open.last_step = span.last_step;
    last = &span;
    if (span.over) end_at(span.ended, span.cause);
  }
  Replace(ledger, Reckon(open, last, ledger.furthest_step, *ledger.through, moment.machines));
  ShowGoodput(ledger);
}

void AccountLoss(Ledger& ledger, Cause cause, const LedgerMoment& moment) {
  const bool running = ledger.open && ledger.open->generation.exists();
  if (!running) Account(ledger, {}, moment);
  const std::optional<int64_t> passed = Advance(ledger, moment);
  if (!passed) return;
  if (const int64_t lost = *passed * moment.machines; lost > 0) {
    Add(ledger.sums, {.activities = {{Activity::kDetect, lost}}, .lost_to = {{cause, lost}}});
  }
  Settle(ledger, *ledger.through, cause);
  ShowGoodput(ledger);
}

void Pause(Ledger& ledger) {
  if (!ledger.open) return;
  Settle(ledger, *ledger.through, Cause::kNone);
  ledger.open.reset();
}

}  // namespace lockstep::core
