// A program's output: whatever it prints, in whatever pieces, the scanner's figures stay in their
// bounds, and so does what it keeps. The first line may be a pattern of the user.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/scan/line_cutter.h"
#include "core/scan/progress_scanner.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  constexpr int64_t kMost = 1'000'000'000'000'000;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  auto patterns = std::make_shared<std::vector<core::CompiledPattern>>();
  if (rest.starts_with("pattern ")) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    auto pattern = core::CompileUserPattern(std::string(rest.substr(8, end - 8)));
    if (pattern.ok()) patterns->push_back(std::move(*pattern));
    rest.remove_prefix(end);
  }
  core::ProgressScanner scanner({.patterns = patterns, .explain = true});
  core::LineCutter cutter;
  Time now = seconds(1);
  const auto scan = [&](const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      if (line.size() > core::LineCutter::kMaxLine) std::abort();
      if (core::PlainLine(line).size() > core::kMaxScannedLine) std::abort();
      scanner.Scan(line);
      if (!scanner.progress()) continue;
      const core::OutputProgress& progress = *scanner.progress();
      const bool sound = progress.step >= 0 && progress.step <= kMost && progress.total >= 0 &&
                         progress.total <= kMost &&
                         (progress.total == 0 || progress.total >= progress.step);
      if (!sound) std::abort();
    }
  };
  while (!rest.empty()) {
    const size_t piece = std::min<size_t>(rest.size(), 1 + static_cast<uint8_t>(rest[0]) % 97);
    scan(cutter.Feed(rest.substr(0, piece), now));
    rest.remove_prefix(piece);
    now += milliseconds(30);
    if (now % milliseconds(990) == Duration::zero()) scanner.Restart();
    if (cutter.NextTick() != kNever) scan(cutter.Tick(now));
  }
  scan(cutter.Finish());
  if (scanner.Explain().size() > 2 * core::ProgressScanner::kMaxSeries) std::abort();
  return 0;
}
