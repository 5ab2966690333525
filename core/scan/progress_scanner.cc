#include "core/scan/progress_scanner.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <tuple>
#include <utility>

namespace lockstep::core {
namespace {

constexpr int64_t kFarthest = 1'000'000'000'000'000;
constexpr int kLinesBelow = 40;  // from a count to the loss below it
constexpr size_t kMaxNoted = 64;
constexpr size_t kMaxExample = 160;  // bytes
constexpr int kWithoutLoss = 2;      // places lower in the order
constexpr int kMostColumns = 32;

// Rows of a table with a line of column names.
const CompiledPattern& TableShape(bool by_epoch) {
  static const CompiledPattern* const steps = [] {
    auto* shape = new CompiledPattern();
    shape->name = "table";
    shape->kind = ShapeKind::kTable;
    shape->rank = 2;
    shape->beside = Beside::kFigure;
    return shape;
  }();
  static const CompiledPattern* const epochs = [] {
    auto* shape = new CompiledPattern();
    shape->name = "table of epochs";
    shape->kind = ShapeKind::kEpoch;
    shape->rank = 9;
    shape->beside = Beside::kLoss;
    return shape;
  }();
  return by_epoch ? *epochs : *steps;
}

bool IsBar(ShapeKind kind) { return kind == ShapeKind::kBar || kind == ShapeKind::kKeras; }
// Counts that begin anew with each epoch, whose number may stand on a line before them.
bool TakesLineEpoch(ShapeKind kind) { return IsBar(kind) || kind == ShapeKind::kCount; }

std::string Cut(std::string_view line) {
  size_t size = std::min(line.size(), kMaxExample);
  while (size < line.size() && size > 0 &&
         (static_cast<unsigned char>(line[size]) & 0xC0) == 0x80) {
    --size;
  }
  return std::string(line.substr(0, size));
}

std::vector<std::string_view> Words(std::string_view line) {
  std::vector<std::string_view> words;
  size_t at = 0;
  while (at < line.size() && words.size() <= static_cast<size_t>(kMostColumns)) {
    const size_t begin = line.find_first_not_of(" \t|", at);
    if (begin == std::string_view::npos) break;
    const size_t end = std::min(line.find_first_of(" \t|", begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    at = end;
  }
  return words;
}

// Names of columns: at least two spaces, a tab or a bar stand between them.
std::vector<std::string> Columns(std::string_view line) {
  std::vector<std::string> columns;
  std::string column;
  int spaces = 2;
  for (const char c : line) {
    if (c == ' ') {
      ++spaces;
      continue;
    }
    if (c == '\t' || c == '|') {
      spaces = 2;
      continue;
    }
    if (spaces >= 2) {
      if (!column.empty()) columns.push_back(column);
      column.clear();
    } else if (spaces == 1) {
      column.push_back(' ');
    }
    spaces = 0;
    column.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  if (!column.empty()) columns.push_back(column);
  return columns;
}

std::optional<int64_t> WholeNumber(std::string_view word) {
  if (word.empty() || word.size() > 15) return std::nullopt;
  int64_t value = 0;
  for (const char c : word) {
    if (c == ',') continue;
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

bool IsFigure(std::string_view word) {
  const auto c = static_cast<unsigned char>(word[0]);
  const bool number =
      std::isdigit(c) != 0 || ((c == '-' || c == '+' || c == '.') && word.size() > 1);
  return number || word == "nan" || word == "-" || word == "n/a" || word == "inf";
}

bool SameNumber(const std::optional<double>& a, const std::optional<double>& b) {
  if (a.has_value() != b.has_value()) return false;
  return !a || *a == *b || (std::isnan(*a) && std::isnan(*b));
}

constexpr std::array kKeptFigures = {
    &LineFigures::loss,          &LineFigures::tokens_per_second, &LineFigures::samples_per_second,
    &LineFigures::mfu,           &LineFigures::teraflops,         &LineFigures::accuracy,
    &LineFigures::gradient_norm, &LineFigures::learning_rate};

bool SameFigures(const LineFigures& a, const LineFigures& b) {
  return std::ranges::all_of(kKeptFigures,
                             [&](const auto& figure) { return SameNumber(a.*figure, b.*figure); });
}

int64_t Product(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > kFarthest) return kFarthest;
  return product;
}

}  // namespace

bool OutputProgress::operator==(const OutputProgress& other) const {
  return step == other.step && total == other.total && epoch == other.epoch &&
         series == other.series && SameFigures(figures, other.figures);
}

bool OutputProgress::HasNewsAfter(const OutputProgress& told) const {
  if (!(*this == told)) return true;
  return !SameFigures(said, LineFigures()) && !SameFigures(said, told.said);
}

struct ProgressScanner::Series {
  const CompiledPattern* shape = nullptr;
  std::string key;
  std::string example;
  uint64_t lines = 0;
  uint64_t last_line = 0;
  // The count, as printed.
  std::optional<int64_t> last;
  std::optional<int64_t> epoch;
  std::optional<int64_t> first_epoch;
  int64_t epochs = 0;
  int64_t per_epoch = 0;    // 0: not known
  int64_t epoch_begin = 0;  // the least count of this epoch
  bool grew_in_epoch = false;
  bool begins_anew = false;  // with each epoch, as was seen
  bool goes_on = false;      // over an epoch's end, as was seen
  int64_t stride = 1;
  int64_t wraps = 0;  // of a count without an epoch
  // In the whole run.
  int64_t reach = 0;
  int64_t total = 0;
  std::optional<int64_t> low;  // a first value below `reach`
  bool has_place = false;
  // Belief.
  int values = 0;  // that grew
  int backs = 0;
  int strikes = 0;
  bool has_loss = false;
  bool below = false;  // its loss stands on a line below
  int with_bar = 0;    // updates at which a bar stood at the same step
  int without_bar = 0;
  std::optional<int64_t> over;  // the epoch in which an evaluation began to count
  bool believed = false;
  bool learned = false;  // in an earlier life of the program
  std::string other;     // the word that shows that the line is not about training

  int rank() const { return shape->rank + (has_loss ? 0 : kWithoutLoss); }
  bool finished() const { return total > 0 && reach >= total; }
};

ProgressScanner::ProgressScanner(ScannerOptions options) : options_(std::move(options)) {}
ProgressScanner::~ProgressScanner() = default;
ProgressScanner::ProgressScanner(ProgressScanner&&) noexcept = default;
ProgressScanner& ProgressScanner::operator=(ProgressScanner&&) noexcept = default;

void ProgressScanner::Restart() {
  std::erase_if(series_, [](const auto& entry) { return !entry.second->believed; });
  for (auto& [key, series] : series_) {
    auto fresh = std::make_unique<Series>();
    fresh->shape = series->shape;
    fresh->key = series->key;
    fresh->example = series->example;
    fresh->first_epoch = series->first_epoch;
    fresh->per_epoch = series->per_epoch;
    fresh->epochs = series->epochs;
    fresh->begins_anew = series->begins_anew;
    fresh->goes_on = series->goes_on;
    fresh->stride = series->stride;
    fresh->has_loss = series->has_loss;
    fresh->below = series->below;
    fresh->other = series->other;
    fresh->learned = true;
    series = std::move(fresh);
  }
  source_ = last_bar_ = first_bar_ = nullptr;
  progress_.reset();
  pending_.reset();
  table_.reset();
  line_epoch_.reset();
  line_epochs_.reset();
  total_steps_ = total_epochs_ = 0;
  evaluation_ahead_ = false;
}

void ProgressScanner::Scan(std::string_view line) {
  ++lines_;
  if (progress_) progress_->said = LineFigures();
  const std::string plain = PlainLine(line);
  static const std::vector<CompiledPattern> kNone;
  LineSaid said = ReadLine(plain, options_.patterns ? *options_.patterns : kNone);
  if (!said.reading && table_) said.reading = ReadRow(plain);
  TakeContext(said, plain);
  const bool takes_part = said.reading && said.reading->other.empty();
  if (pending_ && --pending_->lines_left <= 0) DropPending();
  if (pending_ && said.has_loss && !takes_part) {
    Series* const counted = pending_->counted;
    if (counted == nullptr) {
      const Pending pending = *std::exchange(pending_, std::nullopt);
      LineReading reading = pending.reading;
      reading.figures = said.figures;
      return TakeReading(std::move(reading), pending.line, true);
    }
    counted->has_loss = true;
    if (counted == source_) TakeFigures(said.figures);
    return;
  }
  if (!said.reading) {
    if (said.context.loss_record) TakeFigures(said.figures);
    return;
  }
  if (said.reading->shape->kind == ShapeKind::kEpoch && said.context.epoch &&
      said.reading->shape != &TableShape(true)) {
    // A heading: the counts below it are its epoch's, or its loss stands there.
    DropPending();
    pending_ = Pending{std::move(*said.reading), plain, kLinesBelow, nullptr};
    return;
  }
  TakeReading(std::move(*said.reading), plain, false);
}

// ---- lines without a count ----

void ProgressScanner::TakeContext(const LineSaid& said, std::string_view line) {
  const LineContext& context = said.context;
  if (context.total_steps && *context.total_steps > 0) total_steps_ = *context.total_steps;
  if (context.total_epochs && *context.total_epochs > 0) total_epochs_ = *context.total_epochs;
  if (context.epoch) {
    line_epoch_ = context.epoch;
    line_epochs_ = context.epochs;
  }
  if (context.evaluation) OnEvaluation(line);
  if (context.table_header && (!said.reading || said.reading->shape->kind == ShapeKind::kEpoch)) {
    TakeHeader(line);
  }
}

void ProgressScanner::TakeHeader(std::string_view line) {
  std::vector<std::string> columns = Columns(line);
  if (columns.size() < 2) {
    columns.clear();
    for (const std::string_view word : Words(line)) {
      std::string column(word);
      std::ranges::transform(column, column.begin(),
                             [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      columns.push_back(std::move(column));
    }
  }
  if (columns.size() < 2 || columns.size() > static_cast<size_t>(kMostColumns)) return;
  Table table;
  table.header = Cut(line);
  table.columns = columns.size();
  table.headers = table_ && table_->header == table.header ? table_->headers + 1 : 1;
  for (size_t i = 0; i < columns.size(); ++i) {
    const std::string& name = columns[i];
    const int at = static_cast<int>(i);
    if (i < 2 && (name == "epoch" || name == "e" || name == "ep")) table.epoch = at;
    if (i < 3 && (name == "step" || name == "#" || name == "iter" || name == "iteration" ||
                  name == "round")) {
      table.step = at;
    }
    const bool of_other = name.find("val") != std::string::npos ||
                          name.find("test") != std::string::npos ||
                          name.find("eval") != std::string::npos;
    if (name.find("loss") == std::string::npos || of_other) continue;
    table.any_loss = true;
    if (table.loss < 0 && (name == "loss" || name == "train_loss" || name == "train loss" ||
                           name == "training loss" || name == "training_loss")) {
      table.loss = at;
    }
  }
  if (table.step < 0 && table.epoch < 0) return;
  if (!table.any_loss && table.step < 0) return;
  table_ = std::move(table);
}

std::optional<LineReading> ProgressScanner::ReadRow(std::string_view line) const {
  const std::vector<std::string_view> words = Words(line);
  if (words.size() != table_->columns || !std::ranges::all_of(words, IsFigure)) return std::nullopt;
  LineReading reading;
  reading.shape = &TableShape(table_->step < 0);
  if (table_->step >= 0) reading.step = WholeNumber(words[static_cast<size_t>(table_->step)]);
  if (table_->epoch >= 0) reading.epoch = WholeNumber(words[static_cast<size_t>(table_->epoch)]);
  if (table_->step >= 0 && !reading.step) return std::nullopt;
  if (table_->step < 0 && !reading.epoch) return std::nullopt;
  reading.skeleton = table_->header;
  reading.figures.any_loss = table_->any_loss;
  reading.figures.any = table_->any_loss || table_->headers > 1;
  if (table_->loss >= 0) {
    double value = 0;
    const std::string word(words[static_cast<size_t>(table_->loss)]);
    char* end = nullptr;
    value = std::strtod(word.c_str(), &end);
    if (end != word.c_str() && *end == '\0') reading.figures.loss = value;
  }
  if (table_->step >= 0) reading.epoch.reset();  // the step continues over its epochs
  return reading;
}

void ProgressScanner::TakeFigures(const LineFigures& figures) {
  Series* series = source_ != nullptr ? source_ : first_bar_;
  if (series == nullptr) return;
  series->has_loss |= figures.any_loss;
  if (!progress_) return;
  for (const auto& figure : kKeptFigures) {
    if (figures.*figure) progress_->figures.*figure = progress_->said.*figure = figures.*figure;
  }
}

// The bar of an evaluation has no name; its end is known by what is printed after it, and in some
// programs by a line before it.
void ProgressScanner::OnEvaluation(std::string_view line) {
  if (line.find("Running ") != std::string_view::npos ||
      line.find("running ") != std::string_view::npos) {
    evaluation_ahead_ = true;
    return;
  }
  evaluation_ahead_ = false;
  if (last_bar_ == nullptr || !last_bar_->finished()) return;
  // The first bar is the training's, unless nothing speaks for it.
  const bool training = last_bar_ == first_bar_ && last_bar_->has_loss;
  if (training || (last_bar_ == first_bar_ && source_ != nullptr && source_ != first_bar_)) return;
  if (last_bar_ == first_bar_) first_bar_ = nullptr;
  LeaveOut(*last_bar_, "the figures after it belong to an evaluation");
}

void ProgressScanner::LeaveOut(Series& series, std::string why) {
  series.other = std::move(why);
  series.believed = false;
  if (source_ != &series) return;
  source_ = nullptr;
  progress_.reset();
  for (auto& [key, other] : series_) {
    if (!other->believed || !other->has_place || !IsPreferred(*other)) continue;
    source_ = other.get();
    progress_ = OutputProgress{};
    progress_->step = other->reach;
    progress_->total = other->total;
    progress_->pattern = other->shape->name;
    progress_->series = other->key;
  }
}

// ---- lines with a count ----

bool ProgressScanner::IsBeside(const LineReading& reading) const {
  switch (reading.shape->beside) {
    case Beside::kNothing:
      break;
    case Beside::kFigure:
      return reading.figures.any;
    case Beside::kLoss:
      return reading.figures.any_loss || reading.figures.tokens_per_second ||
             reading.figures.samples_per_second ||
             (reading.shape->kind == ShapeKind::kEpoch && reading.figures.accuracy);
  }
  return true;
}

void ProgressScanner::Note(const LineReading& reading, std::string_view line, std::string why) {
  if (!options_.explain) return;
  const std::string key = reading.shape->name + " " + reading.skeleton + " " + why;
  const auto found = noted_.find(key);
  if (found == noted_.end() && noted_.size() >= kMaxNoted) return;
  SeriesView& view = noted_[key];
  if (view.lines++ == 0) {
    view.pattern = reading.shape->name;
    view.example = Cut(line);
    view.why_not = std::move(why);
  }
  view.step = reading.step.value_or(reading.epoch.value_or(0));
  view.total = reading.total.value_or(reading.epochs.value_or(0));
}

void ProgressScanner::TakeReading(LineReading reading, std::string_view line, bool below) {
  if (!reading.other.empty()) {
    return Note(reading, line,
                "\"" + reading.other + "\" marks a line that is not a training step");
  }
  const bool own = reading.shape->kind == ShapeKind::kUser;
  if (own && !reading.step && !reading.epoch) return TakeFigures(reading.figures);
  if (!below && !IsBeside(reading)) {
    DropPending();
    pending_ = Pending{std::move(reading), std::string(line), kLinesBelow, nullptr};
    return;
  }
  if (!reading.epoch && TakesLineEpoch(reading.shape->kind)) {
    if (reading.shape->kind == ShapeKind::kKeras && !line_epoch_) {
      return Note(reading, line, "no line \"Epoch 1/3\" is before it");
    }
    reading.epoch = line_epoch_;
    reading.epochs = line_epochs_;
  }
  const std::string key = std::string(reading.shape->name) + "\n" + reading.skeleton;
  Series* series = Open(key, reading, line);
  if (series == nullptr) return;
  ++series->lines;
  series->last_line = lines_;
  if (!series->other.empty()) return;
  Advance(*series, reading, below);
  DropPending();
  if (!reading.figures.loss && !IsBar(reading.shape->kind)) {
    pending_ = Pending{{}, {}, kLinesBelow, series};
  }
}

void ProgressScanner::DropPending() {
  if (!pending_) return;
  const Pending dropped = *std::exchange(pending_, std::nullopt);
  if (dropped.counted != nullptr) return;
  const bool loss = dropped.reading.shape->beside == Beside::kLoss;
  Note(dropped.reading, dropped.line,
       loss ? "no loss is beside the count" : "no figure of training is beside the count");
}

ProgressScanner::Series* ProgressScanner::Open(const std::string& key, const LineReading& reading,
                                               std::string_view line) {
  const auto found = series_.find(key);
  if (found != series_.end()) {
    if (IsBar(reading.shape->kind) && first_bar_ == nullptr) first_bar_ = found->second.get();
    return found->second.get();
  }
  if (series_.size() >= kMaxSeries) {
    // A series that was never accepted and is no longer printed goes first.
    auto oldest = series_.end();
    for (auto it = series_.begin(); it != series_.end(); ++it) {
      const Series& each = *it->second;
      if (each.believed || &each == first_bar_ || &each == last_bar_ || &each == source_) continue;
      if (oldest == series_.end() || each.last_line < oldest->second->last_line) oldest = it;
    }
    if (oldest == series_.end()) return nullptr;
    if (pending_ && pending_->counted == oldest->second.get()) pending_.reset();
    series_.erase(oldest);
  }
  auto series = std::make_unique<Series>();
  series->shape = reading.shape;
  series->key = key;
  series->example = Cut(line);
  if (IsBar(reading.shape->kind)) {
    if (std::exchange(evaluation_ahead_, false)) {
      series->other = "an earlier line announces an evaluation";
    } else if (first_bar_ == nullptr) {
      first_bar_ = series.get();
    }
  }
  return (series_[key] = std::move(series)).get();
}

ProgressScanner::Place ProgressScanner::Locate(Series& series, const LineReading& reading) {
  int64_t step = reading.step.value_or(0);
  int64_t total = reading.total.value_or(0);
  std::optional<int64_t> epoch = reading.epoch;
  int64_t epochs = reading.epochs.value_or(0);
  if (!reading.step) {
    step = epoch.value_or(0);
    total = std::max(epochs, total_epochs_);
    epoch.reset();
    epochs = 0;
  }
  const std::optional<int64_t> last = series.last;
  if (!epoch) {
    const bool counts_epochs = TakesLineEpoch(series.shape->kind);
    if (counts_epochs && total > 0 && last && step < *last && step <= total / 10 + 1 &&
        *last >= total - total / 5) {
      ++series.wraps;
    }
    Place place;
    place.step = std::min(kFarthest, Product(series.wraps, total) + step);
    place.derived = series.wraps > 0 || !reading.step;
    if (series.wraps == 0) {
      place.total = total > 0 ? total : total_steps_;
    } else if (total_epochs_ > 0) {
      place.total = Product(total_epochs_, total);
    }
    if (place.total < place.step) place.total = 0;
    return place;
  }
  if (!series.first_epoch) series.first_epoch = *epoch == 0 ? 0 : 1;
  series.epochs = std::max({series.epochs, epochs, total_epochs_});
  if (series.epoch && *epoch > *series.epoch && last) {
    if (step > *last && step > series.per_epoch) {
      series.goes_on = true;
    } else if (step < *last) {
      series.begins_anew = true;
    }
    // How long an epoch was: only what was seen. A count from 0 ends one stride early.
    if (total == 0) {
      const int64_t seen = *last + (series.epoch_begin == 0 ? series.stride : 0);
      series.per_epoch = std::max(series.per_epoch, seen);
    }
    series.epoch_begin = step;
    if (!series.begins_anew && step == *last) series.grew_in_epoch = false;
  } else if (!last) {
    series.epoch_begin = step;
  }
  if (total > 0) series.per_epoch = total;
  Place place;
  if (series.goes_on && !series.begins_anew) {
    place.step = step;
    place.total = total > 0 ? total : total_steps_;
  } else {
    const int64_t before = std::max<int64_t>(*epoch - *series.first_epoch, 0);
    place.step = std::min(kFarthest, Product(before, series.per_epoch) + step);
    place.derived = before > 0;
    // Lightning's rich bar names the last epoch, from 0: "Epoch 0/2" is one of three.
    const bool names_last = series.shape->name == "rich bar" && *series.first_epoch == 0;
    const int64_t all = series.epochs + (names_last && series.epochs > 0 ? 1 : 0);
    if (all > 0 && total > 0) place.total = Product(all, total);
  }
  if (place.total < place.step) place.total = 0;
  return place;
}

void ProgressScanner::Advance(Series& series, const LineReading& reading, bool below) {
  series.has_loss |= reading.figures.any_loss;
  series.below |= below;
  if (IsBar(series.shape->kind)) last_bar_ = &series;
  const int64_t step = reading.step.value_or(reading.epoch.value_or(0));
  // An evaluation under the same line "Epoch 3/3" counts from 1 again.
  if (series.shape->kind == ShapeKind::kKeras) {
    if (series.over == reading.epoch) return;
    series.over.reset();
    if (series.last && step < *series.last && series.epoch == reading.epoch) {
      series.over = reading.epoch;
      return;
    }
  }
  const Place place = Locate(series, reading);
  const bool unknown_epoch = reading.step && reading.epoch && series.first_epoch &&
                             *reading.epoch > *series.first_epoch && series.per_epoch == 0 &&
                             !series.goes_on;
  if (series.last && step > *series.last) {
    series.stride =
        series.values > 2 ? std::min(step - *series.last, series.stride) : step - *series.last;
    series.grew_in_epoch = true;
  }
  if (reading.step) series.epoch = reading.epoch;
  series.last = step;
  if (unknown_epoch) return;
  if (series.believed && series.has_place && place.step < series.reach) {
    // Once: a bar's last state is drawn again, a line came late. Twice, and growing: it begins
    // anew.
    const std::optional<int64_t> low = std::exchange(series.low, place.step);
    if (!low || place.step <= *low) return;
  }
  series.low.reset();
  if (!series.has_place) {
    series.values = 1;
    series.reach = place.step;
  } else if (place.step > series.reach) {
    ++series.values;
    series.strikes = 0;
    series.reach = place.step;
  } else if (place.step < series.reach) {
    ++series.backs;
    ++series.strikes;
    if (!series.believed && series.strikes > 1 && series.values < 3) series.values = 0;
    series.reach = place.step;
  }
  series.has_place = true;
  series.total = place.total;
  const bool own = series.shape->kind == ShapeKind::kUser;
  const int needed = own || series.learned ? 1 : series.has_loss && !series.below ? 2 : 3;
  // The number of an epoch's steps, printed at its end, is no count.
  const bool counts = !reading.step || !reading.epoch || reading.total || series.grew_in_epoch ||
                      own || series.learned;
  if (series.values >= needed && series.backs <= series.values / 3 && counts)
    series.believed = true;
  if (series.backs > std::max(2, series.values)) series.believed = false;
  if (!series.believed || !IsPreferred(series)) return;
  if (source_ != &series) progress_ = OutputProgress{};
  source_ = &series;
  progress_->step = place.step;
  progress_->total = place.total;
  progress_->derived = place.derived;
  if (reading.epoch) progress_->epoch = reading.epoch;
  progress_->pattern = series.shape->name;
  progress_->series = series.key;
  JoinTotal(series);
  TakeFigures(reading.figures);
}

void ProgressScanner::JoinTotal(Series& series) {
  if (series.total > 0 || IsBar(series.shape->kind) || progress_->derived) return;
  for (const auto& [key, bar] : series_) {
    if (!bar->believed || bar->shape->kind != ShapeKind::kBar || bar->total <= 0 ||
        bar->wraps > 0 || bar->epoch || progress_->step > bar->total) {
      continue;
    }
    const int64_t apart = bar->reach - progress_->step;
    const bool same = std::abs(apart) <= 1 + bar->total / 50;
    ++(same ? series.with_bar : series.without_bar);
    if (series.with_bar >= 2 && series.with_bar > series.without_bar) progress_->total = bar->total;
    return;
  }
}

bool ProgressScanner::IsPreferred(const Series& series) const {
  if (source_ == nullptr || source_ == &series) return true;
  if (series.rank() != source_->rank()) return series.rank() < source_->rank();
  if (series.total != source_->total) return series.total > source_->total;
  // If one count is printed twice, the more frequent print wins.
  return series.total == 0 && series.values > 2 * source_->values + 2;
}

std::vector<SeriesView> ProgressScanner::Explain() const {
  std::vector<SeriesView> views;
  for (const auto& [key, series] : series_) {
    SeriesView view;
    view.pattern = series->shape->name;
    view.example = series->example;
    view.lines = series->lines;
    view.step = series->has_place ? series->reach : 0;
    view.total = series->total;
    view.believed = series->believed;
    view.chosen = series.get() == source_;
    if (!series->other.empty()) {
      view.why_not = series->other;
    } else if (!series->believed) {
      view.why_not =
          series->values < 2 ? "its count does not grow" : "it has too few values that grow";
    }
    views.push_back(std::move(view));
  }
  for (const auto& [key, view] : noted_) views.push_back(view);
  std::ranges::sort(views, {}, [](const SeriesView& view) {
    return std::tuple(!view.chosen, !view.believed, view.pattern, view.example);
  });
  return views;
}

}  // namespace lockstep::core
