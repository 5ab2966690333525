#include "cli/cluster/page/pod_logs.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/thread_annotations.h"
#include "core/model/spec.h"

namespace lockstep::cli {
namespace {

constexpr Duration kRetry = seconds(2);
constexpr Duration kSweep = seconds(10);

}  // namespace

// What a stream's thread has read and the loop has not taken.
struct PodLogs::Lines {
  struct Line {
    std::optional<WallTime> at;
    std::string text;
  };

  void Add(std::optional<WallTime> at, std::string_view text) {
    const MutexLock lock(&mutex);
    bytes += text.size();
    lines.push_back({at, std::string(text)});
    for (; bytes > kMostWaiting; lines.pop_front()) bytes -= lines.front().text.size();
  }
  // Whether the loop has to be told.
  bool Fill() {
    const MutexLock lock(&mutex);
    return !std::exchange(told, true);
  }
  std::deque<Line> Take() {
    const MutexLock lock(&mutex);
    told = false;
    bytes = 0;
    return std::exchange(lines, {});
  }

  Mutex mutex;
  std::deque<Line> lines GUARDED_BY(mutex);
  size_t bytes GUARDED_BY(mutex) = 0;
  bool told GUARDED_BY(mutex) = false;
};

PodLogs::PodLogs(EventLoop* loop, kube::Transport* transport, Owner* owner)
    : loop_(loop), transport_(transport), owner_(owner) {}

PodLogs::~PodLogs() {
  loop_->CancelTimer(sweep_);
  for (auto& [machine, reading] : readings_) Close(&reading);
}

void PodLogs::SetPods(const PodsByMachine& pods) {
  for (auto it = readings_.begin(); it != readings_.end();) {
    if (pods.contains(it->first)) {
      ++it;
      continue;
    }
    Close(&it->second);
    it = readings_.erase(it);
  }
  for (const auto& [machine, pod] : pods) {
    Reading& reading = readings_[machine];
    if (reading.pod.uid != pod->meta.uid) {
      Close(&reading);
      const Time wanted = reading.wanted;
      reading = {};
      reading.pod = pod->meta;
      reading.wanted = wanted;
    }
    reading.started = HasStarted(*pod);
    reading.ended = pod->worker.kind == kube::ContainerState::Kind::kTerminated;
    if (BootTime() - reading.wanted < kWanted) Open(machine, &reading);
  }
}

void PodLogs::Want(const std::vector<int>& machines) {
  const Time now = BootTime();
  for (size_t i = 0; i < std::min(machines.size(), kMost); ++i) {
    const auto found = readings_.find(machines[i]);
    if (found == readings_.end()) continue;
    found->second.wanted = now;
    Open(machines[i], &found->second);
  }
  if (sweep_ == 0) CloseUnwanted();
}

bool PodLogs::pending() const {
  return std::ranges::any_of(readings_, [](const auto& entry) {
    return entry.second.stream != nullptr && (entry.second.ended || !entry.second.come);
  });
}

bool PodLogs::whole() const {
  const Time now = BootTime();
  return std::ranges::all_of(readings_, [now](const auto& entry) {
    const Reading& reading = entry.second;
    return now - reading.wanted >= kWanted || !reading.started || reading.whole;
  });
}

void PodLogs::Open(int machine, Reading* reading) {
  if (!reading->started || reading->stream || reading->whole || reading->retry != 0) return;
  const auto open = static_cast<size_t>(std::ranges::count_if(
      readings_, [](const auto& entry) { return entry.second.stream != nullptr; }));
  if (open >= kMost) {
    const auto oldest = std::ranges::min_element(readings_, {}, [](const auto& entry) {
      return entry.second.stream ? entry.second.wanted : kNever;
    });
    Close(&oldest->second);
  }
  reading->come = false;
  const std::string uid = reading->pod.uid;
  auto lines = std::make_shared<Lines>();
  auto tell =
      lifetime_.Hop(loop_, [this, machine, uid, lines] { Take(machine, uid, lines.get()); });
  reading->stream = std::make_unique<LogStream>(
      transport_,
      PodLog{.name_space = reading->pod.name_space,
             .pod = reading->pod.name,
             .follow = true,
             .behind = reading->last,
             .from = kFirstLines},
      LogFilter(core::Spec(), std::nullopt),
      LogSink{.line = [lines](std::optional<WallTime> at,
                              std::string_view line) { lines->Add(at, line); },
              .pause =
                  [lines, tell]() mutable {
                    if (lines->Fill()) tell();
                  }},
      lifetime_.Hop(loop_,
                    [this, machine, uid](const Status& status, std::optional<WallTime> last) {
                      OnEnd(machine, uid, status, last);
                    }));
}

void PodLogs::Take(int machine, const std::string& uid, Lines* lines) {
  const auto found = readings_.find(machine);
  if (found == readings_.end() || found->second.pod.uid != uid) return;
  for (const Lines::Line& line : lines->Take()) {
    if (line.at) found->second.last = line.at;
    owner_->OnLogLine(machine, line.at, line.text);
  }
  found->second.come = true;
  owner_->OnLogRead({});
}

void PodLogs::OnEnd(int machine, const std::string& uid, const Status& status,
                    std::optional<WallTime> last) {
  const auto found = readings_.find(machine);
  if (found == readings_.end() || found->second.pod.uid != uid) return;
  Reading& reading = found->second;
  reading.stream.reset();
  if (last) reading.last = last;
  // A running pod's log ends only by a break. What is denied is tried again when it is wanted anew.
  reading.whole = status.ok() ? reading.ended : status.error().kind == ErrorKind::kDenied;
  reading.retry = loop_->StartTimer(BootTime() + kRetry, lifetime_.Guard([this, machine, uid] {
    const auto again = readings_.find(machine);
    if (again == readings_.end() || again->second.pod.uid != uid) return;
    again->second.retry = 0;
    if (BootTime() - again->second.wanted < kWanted) Open(machine, &again->second);
  }));
  owner_->OnLogRead(status);
}

void PodLogs::Close(Reading* reading) {
  reading->stream.reset();
  loop_->CancelTimer(std::exchange(reading->retry, 0));
}

void PodLogs::CloseUnwanted() {
  const Time now = BootTime();
  for (auto& [machine, reading] : readings_) {
    if (now - reading.wanted < kWanted) continue;
    Close(&reading);
    reading.whole = false;
  }
  sweep_ = loop_->StartTimer(now + kSweep, lifetime_.Guard([this] { CloseUnwanted(); }));
}

}  // namespace lockstep::cli
