// ProgressScanner: how far a program is, from what it prints anyway. One scanner reads the output
// of one rank, both streams, line by line.
//
//   ProgressScanner scanner({.patterns = CompileUserPatterns(spec.progress.patterns)});
//   for (const std::string& line : cutter.Feed(bytes, now)) scanner.Scan(line);
//   if (scanner.progress()) Tell(*scanner.progress());
//
// It believes series, not lines: lines of one print statement whose count grows, from the third
// value on, or from the second if a loss stands beside the count. Where nothing is certain it stays
// silent. Of several series that are believed one is the program's progress; the order is that of
// `rank` in patterns.cc, after the user's own patterns.
//
// Pure and bounded: kMaxSeries series, lines of kMaxScannedLine bytes. One thread.
#ifndef LOCKSTEP_CORE_SCAN_PROGRESS_SCANNER_H_
#define LOCKSTEP_CORE_SCAN_PROGRESS_SCANNER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/scan/line_reader.h"
#include "core/scan/patterns.h"

namespace lockstep::core {

struct OutputProgress {
  int64_t step = 0;
  int64_t total = 0;             // 0: not known
  std::optional<int64_t> epoch;  // as printed
  bool derived = false;          // the step is computed of epochs, not printed
  LineFigures figures;           // the last ones printed
  LineFigures said;              // those in the last line alone
  std::string pattern;           // the name of what found it
  std::string series;            // which lines; changes when others are preferred

  // The shown values; a line that repeats them changes nothing.
  bool operator==(const OutputProgress& other) const;
  // Whether the last line changed a shown value, or has figures that `told` did not have.
  bool HasNewsAfter(const OutputProgress& told) const;
};

// One series in the output of `lockstep plan --try-log`.
struct SeriesView {
  std::string pattern;
  std::string example;  // its first line
  uint64_t lines = 0;
  int64_t step = 0;
  int64_t total = 0;
  bool believed = false;
  bool chosen = false;
  std::string why_not;  // if it is not believed
};

struct ScannerOptions {
  std::shared_ptr<const std::vector<CompiledPattern>> patterns;  // the user's; may be null
  bool explain = false;                                          // keep what Explain() tells
};

class ProgressScanner {
 public:
  static constexpr size_t kMaxSeries = 64;

  explicit ProgressScanner(ScannerOptions options = {});
  ~ProgressScanner();
  ProgressScanner(ProgressScanner&&) noexcept;
  ProgressScanner& operator=(ProgressScanner&&) noexcept;

  // One line without its end.
  void Scan(std::string_view line);
  // The program begins anew. Series that were believed are believed from their next line on.
  void Restart();

  // Nothing: not known. It never goes away again but by Restart and where an evaluation was taken
  // for training.
  const std::optional<OutputProgress>& progress() const { return progress_; }
  std::vector<SeriesView> Explain() const;

 private:
  struct Series;
  using SeriesMap = std::map<std::string, std::unique_ptr<Series>>;
  // The position of a series' count in the whole run.
  struct Place {
    int64_t step = 0;
    int64_t total = 0;
    bool derived = false;
  };
  // A count whose loss may stand on a line below it.
  struct Pending {
    LineReading reading;
    std::string line;
    int lines_left = 0;
    Series* counted = nullptr;  // it counts already; null: it counts only if a loss follows
  };
  struct Table {
    std::string header;
    int headers = 0;  // how often it was printed
    size_t columns = 0;
    int step = -1;
    int epoch = -1;
    int loss = -1;
    bool any_loss = false;
  };

  void TakeContext(const LineSaid& said, std::string_view line);
  void TakeHeader(std::string_view line);
  std::optional<LineReading> ReadRow(std::string_view line) const;
  void TakeReading(LineReading reading, std::string_view line, bool below);
  void TakeFigures(const LineFigures& figures);
  bool IsBeside(const LineReading& reading) const;
  Series* Open(const std::string& key, const LineReading& reading, std::string_view line);
  Place Locate(Series& series, const LineReading& reading);
  // Whether the series is believed after this line.
  void Advance(Series& series, const LineReading& reading, bool below);
  bool IsPreferred(const Series& series) const;
  // A bar that counts the same steps knows their total.
  void JoinTotal(Series& series);
  void OnEvaluation(std::string_view line);
  void LeaveOut(Series& series, std::string why);
  // Leaves the pending count out, because no loss followed it.
  void DropPending();
  void Note(const LineReading& reading, std::string_view line, std::string why);

  ScannerOptions options_;
  SeriesMap series_;
  Series* source_ = nullptr;
  Series* last_bar_ = nullptr;
  Series* first_bar_ = nullptr;
  std::optional<OutputProgress> progress_;
  std::optional<Pending> pending_;
  std::optional<Table> table_;
  std::optional<int64_t> line_epoch_;  // of the last line that is an epoch alone
  std::optional<int64_t> line_epochs_;
  int64_t total_steps_ = 0;   // from a separate line
  int64_t total_epochs_ = 0;  // likewise
  bool evaluation_ahead_ = false;
  uint64_t lines_ = 0;
  std::map<std::string, SeriesView> noted_;  // candidates that are no series, with `explain`
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_SCAN_PROGRESS_SCANNER_H_
