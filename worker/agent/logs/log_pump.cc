#include "worker/agent/logs/log_pump.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <utility>

#include "base/text/json.h"

namespace lockstep::agent {
namespace {

constexpr size_t kReadSize = size_t{64} << 10;
// Programs read raw lines, and another rank's line between two pieces would spoil both.
constexpr size_t kMaxRawLine = size_t{256} << 10;
constexpr size_t kMostHeld = size_t{64} << 10;  // of one rank
// A pipe holds 64 KiB, a megabyte at most; whoever still writes to it is not waited for.
constexpr int kReadsAtDeath = 16;

// RFC 3339, UTC, milliseconds: "2026-01-31T23:59:59.042Z".
std::string TimeOfDay() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::time_t whole = duration_cast<seconds>(now).count();
  const auto millis = static_cast<int>((duration_cast<milliseconds>(now) % seconds(1)).count());
  std::tm utc{};
  gmtime_r(&whole, &utc);
  std::array<char, 32> text{};
  const size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  const std::string fraction = std::to_string(1000 + millis).substr(1);
  return std::string(text.data(), size) + "." + fraction + "Z";
}

const char* NameOf(size_t stream) { return stream == 0 ? "stdout" : "stderr"; }

}  // namespace

LogPump::LogPump(EventLoop* loop, LogPumpOptions options, Console* console, LogFiles* files)
    : loop_(loop), options_(options), console_(console), files_(files), hold_timer_(loop, [this] {
        ShowOverdue();
      }) {}

LogPump::~LogPump() {
  for (auto& [rank, state] : ranks_) {
    for (const Source& source : state.sources) {
      if (source.fd.valid()) loop_->Unwatch(source.fd.get());
    }
  }
}

void LogPump::StartGeneration(const std::string& generation, const std::set<int>& kept) {
  for (auto& [rank, state] : ranks_) {
    if (kept.contains(rank)) continue;
    Close(rank, kStdout);
    Close(rank, kStderr);
    ShowHeld(rank, false);
  }
  std::erase_if(ranks_, [&](const auto& entry) { return !kept.contains(entry.first); });
  generation_ = generation;
  if (files_ != nullptr) files_->StartGeneration(generation);
}

void LogPump::Add(int rank, UniqueFd stdout_fd, UniqueFd stderr_fd) {
  // Of a process before it, whose children may hold them still.
  Close(rank, kStdout);
  Close(rank, kStderr);
  ShowHeld(rank, false);
  Rank& state = ranks_[rank] = {};
  if (options_.format == core::LogFormat::kRaw) {
    for (Source& source : state.sources) source.splitter = LineSplitter(kMaxRawLine);
  }
  state.sources[kStdout].fd = std::move(stdout_fd);
  state.sources[kStderr].fd = std::move(stderr_fd);
  for (const Stream stream : {kStdout, kStderr}) {
    const Status watched = loop_->Watch(state.sources[stream].fd.get(), EPOLLIN,
                                        [this, rank, stream](uint32_t) { ReadSome(rank, stream); });
    if (!watched.ok()) state.sources[stream].fd.reset();
  }
}

bool LogPump::ReadSome(int rank, Stream stream) {
  Rank& state = ranks_[rank];
  Source& source = state.sources[stream];
  if (!source.fd.valid()) return false;
  std::array<char, kReadSize> buffer;
  const ssize_t got = read(source.fd.get(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) {
    Close(rank, stream);
    return false;
  }
  const std::string_view bytes(buffer.data(), static_cast<size_t>(got));
  bytes_read_ += bytes.size();
  lines_read_ += static_cast<uint64_t>(std::ranges::count(bytes, '\n'));
  if (stream == kStderr) {
    state.tail.Feed(bytes);
    state.words.Feed(bytes, BootTime());
  }
  if (files_ != nullptr) {
    files_->Append("rank-" + std::to_string(rank) + "." + NameOf(stream), bytes);
  }
  if (watcher_) watcher_(rank, static_cast<int>(stream), bytes);
  if (Shows(rank)) {
    source.splitter.Feed(bytes, BootTime(), [&](std::string_view line, Piece piece) {
      PrintLine(rank, stream, line, piece);
    });
  }
  return true;
}

void LogPump::ReadAll(int rank, Stream stream) {
  for (int i = 0; i < kReadsAtDeath && ReadSome(rank, stream); ++i) {
  }
}

Time LogPump::WordsBegan(int rank) {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return kNever;
  ReadAll(rank, kStderr);
  return found->second.words.began();
}

void LogPump::Close(int rank, Stream stream) {
  Source& source = ranks_[rank].sources[stream];
  if (!source.fd.valid()) return;
  loop_->Unwatch(source.fd.get());
  source.fd.reset();
  if (watcher_) watcher_(rank, static_cast<int>(stream), {});
  source.splitter.Finish(
      [&](std::string_view line, Piece piece) { PrintLine(rank, stream, line, piece); });
}

std::string LogPump::Finish(int rank) {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return {};
  for (const Stream stream : {kStdout, kStderr}) {
    ReadAll(rank, stream);
    if (!found->second.sources[stream].fd.valid()) continue;
    found->second.sources[stream].splitter.Finish(
        [&](std::string_view line, Piece piece) { PrintLine(rank, stream, line, piece); });
  }
  return found->second.tail.Lines(kFailureTail);
}

void LogPump::ShowFailed(int rank) {
  const auto found = ranks_.find(rank);
  if (options_.console != core::Console::kFailedOnly || found == ranks_.end()) return;
  LineSplitter lines;
  const auto show = [&](std::string_view line, Piece piece) {
    console_->Write(Format(rank, kStderr, line, piece));
  };
  lines.Feed(found->second.tail.Lines(TextTail::kKept) + "\n", BootTime(), show);
  lines.Finish(show);
}

bool LogPump::Shows(int rank) const {
  switch (options_.console) {
    case core::Console::kAll:
      return true;
    case core::Console::kRankZero:
      return rank == 0;
    case core::Console::kFailedOnly:
      return false;
  }
  return true;
}

// Machines that lost a peer say so at length, all at once, over what the peer itself said.
bool LogPump::Hold(int rank, Stream stream, std::string_view line) {
  if (options_.format != core::LogFormat::kPrefix || stream != kStderr) return false;
  Rank& state = ranks_[rank];
  if (state.held_until == kNever) {
    if (!core::BeginsLastWords(line)) return false;
    state.held_until = BootTime() + core::kWordsBeforeEnd;
    if (!hold_timer_.armed()) hold_timer_.WakeAt(state.held_until);
  }
  state.held.emplace_back(line);
  state.held_bytes += line.size();
  if (state.held_bytes > kMostHeld) ShowHeld(rank, false);
  return true;
}

void LogPump::ShowHeld(int rank, bool folded) {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return;
  std::vector<std::string> held = std::exchange(found->second.held, {});
  found->second.held_bytes = 0;
  found->second.held_until = kNever;
  if (folded && held.size() > 1) {
    const auto last = std::ranges::find_if(held.rbegin(), held.rend(),
                                           [](const std::string& line) { return !line.empty(); });
    const std::string words = last == held.rend() ? "" : ": " + *last;
    held = {"lost a peer" + words + " (" + std::to_string(held.size()) + " lines are folded here)"};
  }
  for (const std::string& line : held) {
    console_->Write(Format(rank, kStderr, line, Piece::kLine));
  }
}

// Who lives on has handled it.
void LogPump::ShowOverdue() {
  Time next = kNever;
  for (auto& [rank, state] : ranks_) {
    if (state.held_until <= BootTime()) ShowHeld(rank, false);
    next = std::min(next, state.held_until);
  }
  hold_timer_.WakeAt(next);
}

void LogPump::PrintLine(int rank, Stream stream, std::string_view line, Piece piece) {
  const bool is_raw = options_.format == core::LogFormat::kRaw;
  if (is_raw && piece == Piece::kState) return;  // a line that the process did not write
  if (Hold(rank, stream, line)) return;
  console_->Write(Format(rank, stream, line, piece));
}

std::string LogPump::Format(int rank, Stream stream, std::string_view line, Piece piece) const {
  const char* mark = piece == Piece::kContinues ? " [the line continues]" : "";
  switch (options_.format) {
    case core::LogFormat::kRaw:
      return std::string(line) + (piece == Piece::kLine ? "\n" : "");
    case core::LogFormat::kPrefix:
      return "[m" + std::to_string(options_.machine) + " r" + std::to_string(rank) +
             (options_.marks_stderr && stream == kStderr ? " err] " : "] ") + std::string(line) +
             mark + "\n";
    case core::LogFormat::kJson:
      break;
  }
  const OrderedJson object = {{"time", TimeOfDay()},
                              {"machine", options_.machine},
                              {"rank", rank},
                              {"generation", generation_},
                              {"stream", NameOf(stream)},
                              {"message", std::string(line) + mark}};
  return DumpJson(object) + "\n";
}

std::vector<prometheus::MetricFamily> LogPump::Collect() const {
  const char* dropped =
      "Bytes of the ranks' output left out because the console's reader was slow or the files' "
      "disk full or over its cap; no rank waited for them.";
  std::optional<double> files;
  if (files_ != nullptr) files = files_->dropped_bytes();
  return Families()
      .Counter("lockstep_log_lines_total", "Lines read from the ranks' stdout and stderr.",
               lines_read_)
      .Counter("lockstep_log_bytes_total", "Bytes read from the ranks' stdout and stderr.",
               bytes_read_)
      .Counter("lockstep_log_dropped_bytes_total", dropped, console_->dropped_bytes(),
               {{"sink", "console"}})
      .Counter("lockstep_log_dropped_bytes_total", dropped, files, {{"sink", "files"}})
      .Take();
}

}  // namespace lockstep::agent
