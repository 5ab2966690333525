#include "core/gang/diagnosis/whereabouts.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/text/index_list.h"

namespace lockstep::core {
namespace {

constexpr size_t kMaxGroups = 4;
constexpr size_t kMaxName = 48;
constexpr std::string_view kOwnCode = "its own code";
constexpr std::string_view kFlight = "Flight: ";

struct Frame {
  std::string_view function;
  std::string_view path;
  std::string_view line;

  bool exists() const { return !function.empty(); }
  bool installed() const {
    return path.find("/site-packages/") != std::string_view::npos ||
           path.find("/dist-packages/") != std::string_view::npos;
  }
  bool standard() const {
    if (installed()) return false;
    return path.starts_with('<') || path.find("/lib/python3") != std::string_view::npos;
  }
};

std::string_view TakeLine(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

// `  File "/x/train.py", line 30 in load_batch` (faulthandler), `    load_batch (train.py:30)`
// (py-spy).
Frame ParseFrame(std::string_view line) {
  Frame frame;
  constexpr std::string_view kFile = "  File \"";
  constexpr std::string_view kLine = "\", line ";
  constexpr std::string_view kIn = " in ";
  if (line.starts_with(kFile)) {
    line.remove_prefix(kFile.size());
    const size_t path_end = line.find(kLine);
    if (path_end == std::string_view::npos) return {};
    frame.path = line.substr(0, path_end);
    line.remove_prefix(path_end + kLine.size());
    const size_t number_end = line.find(kIn);
    if (number_end == std::string_view::npos) return {};
    frame.line = line.substr(0, number_end);
    frame.function = line.substr(number_end + kIn.size());
    return frame;
  }
  const size_t open = line.rfind(" (");
  const size_t colon = line.rfind(':');
  if (!line.starts_with("    ") || !line.ends_with(')') || open == std::string_view::npos ||
      colon == std::string_view::npos || colon < open) {
    return {};
  }
  frame.function = line.substr(4, open - 4);
  frame.path = line.substr(open + 2, colon - open - 2);
  frame.line = line.substr(colon + 1, line.size() - colon - 2);
  return frame;
}

std::string Printable(std::string_view text, size_t limit) {
  std::string out(text.substr(0, limit));
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  return out;
}

std::string Name(const Frame& frame) {
  const size_t slash = frame.path.rfind('/');
  const std::string_view file =
      slash == std::string_view::npos ? frame.path : frame.path.substr(slash + 1);
  return Printable(frame.function, kMaxName) + " (" + Printable(file, kMaxName) + ":" +
         Printable(frame.line, 8) + ")";
}

bool IsMainThread(std::string_view header) {
  return header.starts_with("Current thread ") || header.find("MainThread") != header.npos;
}

bool IsHeader(std::string_view line) {
  return line.starts_with("Current thread ") || line.starts_with("Thread ");
}

// Whether the call is one that returns when peers have come: of torch.distributed, of the
// collectives under it, of the built-in trainer.
bool WaitsForPeers(std::string_view place) {
  static constexpr std::array<std::string_view, 17> kCalls = {"barrier",
                                                              "all_reduce",
                                                              "allreduce",
                                                              "all_gather",
                                                              "allgather",
                                                              "all-gather",
                                                              "reduce_scatter",
                                                              "reduce-scatter",
                                                              "reduceScatter",
                                                              "broadcast",
                                                              "all_to_all",
                                                              "alltoall",
                                                              "synchronize",
                                                              "recv",
                                                              "send ",
                                                              "receive ",
                                                              "_engine_run_backward"};
  if (place.starts_with(kOwnCode)) return false;
  const std::string_view call = place.substr(0, place.find(" ("));
  return std::ranges::any_of(
      kCalls, [call](std::string_view name) { return call.find(name) != call.npos; });
}

struct Group {
  std::string place;
  IndexList ranks;
  bool waits = false;
};

std::string Sentence(const Group& group) {
  return (group.ranks.size() == 1 ? "rank " : "ranks ") + FormatIndexList(group.ranks) +
         (group.ranks.size() == 1 ? " is in " : " are in ") + group.place;
}

}  // namespace

std::string PlaceOf(std::string_view stacks) {
  // The main thread takes the signal unless it blocks it. If nothing else shows which thread is the
  // main one, it is the last in the output.
  std::string_view main;
  std::string_view flight;
  for (std::string_view rest = stacks; !rest.empty();) {
    const std::string_view line = TakeLine(rest);
    if (line.starts_with(kFlight)) flight = line.substr(kFlight.size());
    if (!IsHeader(line)) continue;
    main = rest;
    if (IsMainThread(line)) break;
  }
  Frame inner;
  Frame own;
  Frame first;
  while (!main.empty()) {
    const std::string_view line = TakeLine(main);
    if (IsHeader(line)) break;
    const Frame frame = ParseFrame(line);
    if (!frame.exists()) continue;
    if (!first.exists()) first = frame;
    if (frame.standard()) continue;
    if (!inner.exists()) inner = frame;
    if (frame.installed()) continue;
    own = frame;
    break;
  }
  if (!inner.exists()) inner = first;
  if (!inner.exists()) return Printable(flight, kMaxPlace);
  std::string place = Name(inner);
  if (inner.installed() && own.exists()) place += " in " + Name(own);
  return Printable(place, kMaxPlace);
}

HangVerdict JudgeHang(const std::vector<Whereabouts>& ranks) {
  std::map<std::string, IndexList> by_place;
  for (const Whereabouts& each : ranks) {
    const std::string place = Printable(each.place, kMaxPlace);
    by_place[place].push_back(static_cast<int>(std::min<uint32_t>(each.rank, 1u << 30)));
  }
  std::vector<Group> groups;
  for (auto& [place, list] : by_place) {
    std::ranges::sort(list);
    groups.push_back({place, std::move(list), WaitsForPeers(place)});
  }
  // Those that wait, then the many, then the lowest rank.
  std::ranges::sort(groups, [](const Group& a, const Group& b) {
    if (a.waits != b.waits) return a.waits;
    if (a.ranks.size() != b.ranks.size()) return a.ranks.size() > b.ranks.size();
    return a.ranks < b.ranks;
  });
  HangVerdict verdict;
  const Group& last = groups.back();
  const bool one_does_not_wait = groups.front().waits && !last.waits && last.ranks.size() == 1 &&
                                 std::ranges::count(groups, false, &Group::waits) == 1;
  const bool one_is_elsewhere =
      groups.size() == 2 && groups[0].ranks.size() > 1 && last.ranks.size() == 1;
  if (one_does_not_wait || one_is_elsewhere) {
    verdict.awaited = static_cast<uint32_t>(last.ranks.front());
  }
  size_t told = 0;
  size_t untold = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    // The last one is always included, because it differs from the others.
    if (told + 1 >= kMaxGroups && i + 1 < groups.size()) {
      untold += groups[i].ranks.size();
      continue;
    }
    if (untold > 0) verdict.sentence += ", " + std::to_string(untold) + " more are elsewhere";
    verdict.sentence += (told == 0 ? "" : ", ") + Sentence(groups[i]);
    ++told;
  }
  return verdict;
}

}  // namespace lockstep::core
