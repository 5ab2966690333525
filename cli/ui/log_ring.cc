#include "cli/ui/log_ring.h"

#include <algorithm>
#include <queue>
#include <ranges>
#include <utility>

#include "core/text/limited_text.h"

namespace lockstep::cli {
namespace {

// Without the sequences that color text or move a terminal's cursor.
std::string WithoutEscapes(std::string_view text) {
  std::string plain;
  while (true) {
    const size_t escape = text.find("\x1b[");
    plain += text.substr(0, escape);
    if (escape == std::string_view::npos) return plain;
    text.remove_prefix(escape + 2);
    const auto last = std::ranges::find_if(text, [](char c) { return c >= '@' && c <= '~'; });
    if (last == text.end()) return plain;
    text.remove_prefix(static_cast<size_t>(last - text.begin()) + 1);
  }
}

size_t CostOf(const LogLine& line) { return line.text.size() + LogRing::kLineCost; }

OrderedJson LineJson(uint32_t rank, const LogLine& line) {
  OrderedJson json = {{"n", line.n}, {"t", line.t}, {"r", rank}};
  if (line.stream != StdStream::kUnknown) {
    json["s"] = line.stream == StdStream::kErr ? "err" : "out";
  }
  json["m"] = line.text;
  return json;
}

}  // namespace

void LogRing::Add(uint32_t rank, double t, StdStream stream, std::string_view text) {
  LogLine line{++last_, t, stream, core::FirstBytes(WithoutEscapes(text), kMostOfLine)};
  line.text.shrink_to_fit();
  Rank& of = ranks_[rank];
  of.bytes += CostOf(line);
  bytes_ += CostOf(line);
  ++of.added;
  if (of.lines.empty()) oldest_[line.n] = rank;
  of.lines.push_back(std::move(line));
  while (of.lines.size() > limits_.lines || of.bytes > limits_.bytes) DropFirst(rank, of);
  while (bytes_ > limits_.in_all) {
    const uint32_t loser = oldest_.begin()->second;
    DropFirst(loser, ranks_[loser]);
  }
}

void LogRing::DropFirst(uint32_t number, Rank& rank) {
  const size_t cost = CostOf(rank.lines.front());
  oldest_.erase(rank.lines.front().n);
  rank.bytes -= cost;
  bytes_ -= cost;
  rank.lines.pop_front();
  if (!rank.lines.empty()) oldest_[rank.lines.front().n] = number;
}

OrderedJson LogRing::Answer(std::optional<uint32_t> rank, uint64_t after) const {
  // The newest line of each rank that is not taken yet, the newest of all first.
  struct Next {
    const LogLine* line;
    uint32_t rank;
    size_t left;  // lines before it
    bool operator<(const Next& other) const { return line->n < other.line->n; }
  };
  std::priority_queue<Next> next;
  uint64_t wanted = 0;
  const auto add = [&](uint32_t number, const Rank& of) {
    const auto first = std::ranges::upper_bound(of.lines, after, {}, &LogLine::n);
    const auto count = static_cast<size_t>(of.lines.end() - first);
    wanted += count;
    if (count > 0) next.push({&of.lines.back(), number, of.lines.size() - 1});
  };
  if (rank) {
    if (const auto found = ranks_.find(*rank); found != ranks_.end()) add(*rank, found->second);
  } else {
    for (const auto& [number, of] : ranks_) add(number, of);
  }
  std::vector<std::pair<uint32_t, const LogLine*>> taken;
  while (!next.empty() && taken.size() < kMostInAnswer) {
    const Next newest = next.top();
    next.pop();
    taken.emplace_back(newest.rank, newest.line);
    if (newest.left == 0) continue;
    const LogLine& before = ranks_.at(newest.rank).lines[newest.left - 1];
    if (before.n > after) next.push({&before, newest.rank, newest.left - 1});
  }
  uint64_t gone = 0;  // behind `after`, and no longer kept
  if (!rank && after < last_) gone = last_ - after - wanted;
  if (rank && after == 0 && ranks_.contains(*rank)) gone = ranks_.at(*rank).added - wanted;
  OrderedJson lines = OrderedJson::array();
  for (const auto& [number, line] : std::views::reverse(taken)) {
    lines.push_back(LineJson(number, *line));
  }
  return {{"next", last_}, {"skipped", gone + wanted - taken.size()}, {"lines", std::move(lines)}};
}

OrderedJson LogRing::Tails(size_t lines, size_t bytes) const {
  OrderedJson tails = OrderedJson::object();
  if (ranks_.empty()) return tails;
  const size_t share = bytes / ranks_.size();
  for (const auto& [number, rank] : ranks_) {
    size_t used = 0;
    auto first = rank.lines.end();
    while (first != rank.lines.begin()) {
      used += CostOf(*std::prev(first));
      if (used > share || static_cast<size_t>(rank.lines.end() - first) == lines) break;
      --first;
    }
    OrderedJson list = OrderedJson::array();
    for (auto line = first; line != rank.lines.end(); ++line) {
      list.push_back(LineJson(number, *line));
    }
    if (!list.empty()) tails[std::to_string(number)] = std::move(list);
  }
  return tails;
}

}  // namespace lockstep::cli
