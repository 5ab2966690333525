#include "core/scan/line_reader.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

namespace lockstep::core {
namespace {

constexpr size_t kMaxSkeleton = 80;
constexpr size_t kMostGroups = 9;
constexpr ptrdiff_t kFarthestStep = 64;   // bytes from an epoch to its step
constexpr ptrdiff_t kFarthestEpoch = 64;  // bytes before an epoch that stands alone
constexpr int64_t kMostSteps = 1'000'000'000'000'000;

bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

// "1,234.5e-3", "nan", "inf"; nothing where no number begins.
std::optional<double> LeadingNumber(std::string_view text) {
  const bool negative = text.starts_with('-');
  const std::string word = Lower(text.substr(negative ? 1 : 0, 4));
  if (word.size() < 4 || !IsWord(word[3])) {
    const double infinity = std::numeric_limits<double>::infinity();
    if (word.starts_with("nan")) return std::numeric_limits<double>::quiet_NaN();
    if (word.starts_with("inf")) return negative ? -infinity : infinity;
  }
  std::string digits;
  bool any = false;
  for (size_t i = 0; i < text.size() && digits.size() < 40; ++i) {
    const char c = text[i];
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      any = true;
    } else if (c == ',') {
      // A comma of thousands; a list's comma is followed by something else.
      const bool thousands =
          i + 3 < text.size() && any && digits.find('.') == std::string::npos &&
          std::all_of(text.begin() + static_cast<ptrdiff_t>(i) + 1,
                      text.begin() + static_cast<ptrdiff_t>(i) + 4,
                      [](unsigned char digit) { return std::isdigit(digit) != 0; }) &&
          (i + 4 >= text.size() || std::isdigit(static_cast<unsigned char>(text[i + 4])) == 0);
      if (!thousands) break;
      continue;
    } else if (c == 'e' || c == 'E') {
      const size_t next = i + 1 < text.size() && (text[i + 1] == '-' || text[i + 1] == '+') ? 2 : 1;
      if (!any || i + next >= text.size() ||
          std::isdigit(static_cast<unsigned char>(text[i + next])) == 0) {
        break;
      }
    } else if (c == '-' || c == '+') {
      if (!digits.empty() && digits.back() != 'e' && digits.back() != 'E') break;
      if (c == '+') continue;
    } else if (c == '.') {
      if (digits.find('.') != std::string::npos) break;
    } else {
      break;
    }
    digits.push_back(c);
  }
  if (!any) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range) return std::nullopt;
  if (end == digits.data()) return std::nullopt;
  return value;
}

std::optional<int64_t> Whole(std::string_view text) {
  int64_t value = 0;
  bool any = false;
  for (const char c : text) {
    if (c == ',') continue;
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) break;
    any = true;
    value = value * 10 + (c - '0');
    if (value > kMostSteps) return std::nullopt;
  }
  if (!any) return std::nullopt;
  return value;
}

re2::StringPiece Piece(std::string_view text) { return {text.data(), text.size()}; }
std::string_view View(const re2::StringPiece& piece) { return {piece.data(), piece.size()}; }

// A match with its groups.
struct Found {
  std::array<re2::StringPiece, kMostGroups> groups{};
  std::string_view group(int number) const {
    return number <= 0 ? std::string_view() : View(groups[static_cast<size_t>(number)]);
  }
};
bool Find(const re2::RE2& regex, std::string_view line, Found* found) {
  const int groups =
      std::min<int>(static_cast<int>(kMostGroups), 1 + regex.NumberOfCapturingGroups());
  return regex.Match(Piece(line), 0, line.size(), re2::RE2::UNANCHORED, found->groups.data(),
                     groups);
}

std::string_view Named(const re2::RE2& regex, const Found& found, const char* name) {
  const auto& names = regex.NamedCapturingGroups();
  const auto number = names.find(name);
  if (number == names.end() || number->second >= static_cast<int>(kMostGroups)) return {};
  return found.group(number->second);
}

// The same print statement gives the same skeleton: what stands before the count, without numbers
// and spaces.
std::string Skeleton(std::string_view before) {
  std::string skeleton;
  bool in_number = false;
  const auto is_digit = [before](size_t i) {
    return i < before.size() && std::isdigit(static_cast<unsigned char>(before[i])) != 0;
  };
  for (size_t i = 0; i < before.size(); ++i) {
    const char c = before[i];
    const bool sign = (c == '-' || c == '+') && is_digit(i + 1);
    const bool exponent = in_number && (c == 'e' || c == 'E') &&
                          (is_digit(i + 1) || (i + 1 < before.size() && before[i + 1] == '-'));
    const bool inside = in_number && (c == '.' || c == ',' || c == ':' || c == '-');
    if (is_digit(i) || sign || exponent || inside) {
      if (!in_number) skeleton.push_back('#');
      in_number = true;
      continue;
    }
    in_number = false;
    if (c != ' ' && c != '\t') skeleton.push_back(c);
  }
  if (skeleton.size() > kMaxSkeleton) skeleton.erase(0, skeleton.size() - kMaxSkeleton);
  return skeleton;
}

// ---- losses ----

// Names of the whole loss; what stands before a slash is left out.
bool IsWholeLoss(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "loss",          "train_loss",   "training_loss",   "loss_train",       "total_loss",
      "loss_total",    "avg_loss",     "mean_loss",       "loss_avg",         "loss_mean",
      "lm_loss",       "running_loss", "global_avg_loss", "crossentropyloss", "cross_entropy_loss",
      "step_loss",     "batch_loss",   "train_loss_step", "loss_step",        "reduced_train_loss",
      "average_loss",  "trainloss",    "epoch_loss",      "train_batch_loss", "train-loss",
      "smoothed_loss", "loss_smooth",  "ce_loss",         "celoss",           "mse_loss",
      "avr_loss"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

bool TellsOfOther(std::string_view words) {
  static constexpr std::string_view kWords[] = {"val",  "eval", "test", "dev",
                                                "best", "min_", "scal", "prev"};
  return std::ranges::any_of(kWords, [words](std::string_view word) {
    const size_t at = words.find(word);
    return at != std::string_view::npos && !words.substr(at).starts_with("value") &&
           (at == 0 || !std::isalpha(static_cast<unsigned char>(words[at - 1])));
  });
}

// From the end of a loss's name to its number: `": "`, `=`, ` is `, ` (`, `: tensor(`.
std::optional<double> ValueAfter(std::string_view line, size_t at, size_t* end) {
  size_t i = at;
  int marks = 0;
  while (i < line.size() && i < at + 48) {
    const char c = line[i];
    if (c == ' ' || c == '\t' || c == '\'' || c == '"' || c == '[' || c == '(' || c == ')') {
      ++i;
    } else if ((c == ':' || c == '=' || c == '|') && marks < 2) {
      ++marks;
      ++i;
    } else if (line.substr(i).starts_with("is ")) {
      i += 3;
    } else if (line.substr(i).starts_with("tensor(")) {
      i += 7;
    } else if (line.substr(i).starts_with("train:")) {  // "loss train: 1.23, val: n/a"
      i += 6;
    } else {
      break;
    }
  }
  if (i == at) return std::nullopt;
  *end = i;
  return LeadingNumber(line.substr(i));
}

}  // namespace

LossSaid FindLoss(std::string_view line) {
  LossSaid said;
  const std::string lower = Lower(line);
  size_t at = 0;
  while (true) {
    size_t found = lower.find("loss", at);
    size_t length = 4;
    if (const size_t cost = lower.find("cost", at); cost < found) found = cost;
    if (found == std::string::npos) return said;
    size_t begin = found;
    while (begin > at && (IsWord(lower[begin - 1]) || lower[begin - 1] == '/' ||
                          lower[begin - 1] == '-' || lower[begin - 1] == '.')) {
      --begin;
    }
    size_t end = found + length;
    while (end < lower.size() && (IsWord(lower[end]) || lower[end] == '/')) ++end;
    at = end;
    std::string_view name = std::string_view(lower).substr(begin, end - begin);
    // The word before the name: "lm loss", "val loss", "Validation - loss".
    const std::string_view before =
        std::string_view(lower).substr(begin > 16 ? begin - 16 : 0, std::min<size_t>(begin, 16));
    const size_t cut = before.find_last_of(",;|{");
    const std::string_view words = cut == std::string_view::npos ? before : before.substr(cut + 1);
    if (TellsOfOther(name) || name.front() == '-') continue;  // nor an option of a command
    size_t value_at = 0;
    const std::optional<double> value = ValueAfter(lower, end, &value_at);
    if (!value || TellsOfOther(words)) continue;
    // "loss of precision", "loss of 3 rows" are none; nor is a share.
    size_t after = value_at;
    while (after < lower.size() &&
           (std::isdigit(static_cast<unsigned char>(lower[after])) != 0 || lower[after] == '.')) {
      ++after;
    }
    if (after < lower.size() && lower[after] == '%') continue;
    said.any = true;
    at = std::max(at, value_at);
    if (const size_t slash = name.rfind('/'); slash != std::string_view::npos) {
      const std::string_view last = name.substr(slash + 1);
      const std::string_view first = name.substr(0, name.find('/'));
      name = last == "train" || last == "total" || last == "step" ? first : last;
    }
    if (const size_t dot = name.rfind('.'); dot != std::string_view::npos) {
      name = name.substr(dot + 1);
    }
    // "Value function loss", "Surrogate loss": a part.
    const bool has_word = !words.empty() && words.back() == ' ' && words.size() > 1 &&
                          std::isalpha(static_cast<unsigned char>(words[words.size() - 2])) != 0;
    const bool plain_word = has_word && [&] {
      const auto begin = std::find_if_not(words.rbegin() + 1, words.rend(), IsWord).base();
      const std::string_view word(begin, words.end() - 1);
      static constexpr std::string_view kPart[] = {
          "function", "surrogate", "policy", "value", "aux", "auxiliary", "balancing",
          "entropy",  "kl",        "mtp",    "z",     "d",   "g"};  // the last two of a GAN
      return std::ranges::find(kPart, word) != std::end(kPart);
    }();
    if (IsWholeLoss(name) && !plain_word) {
      said.whole = value;
      return said;
    }
    if (name == "cost" || name == "xent") {
      said.whole = value;
      return said;
    }
  }
}

std::string PlainLine(std::string_view line) {
  std::string plain;
  plain.reserve(std::min(line.size(), kMaxScannedLine));
  for (size_t i = 0; i < line.size() && plain.size() < kMaxScannedLine; ++i) {
    const auto c = static_cast<unsigned char>(line[i]);
    if (c == 0x1b) {
      const char kind = i + 1 < line.size() ? line[i + 1] : '\0';
      if (kind == '[') {
        for (i += 2; i < line.size() && (line[i] < '@' || line[i] > '~'); ++i) {
        }
      } else if (kind == ']') {
        for (i += 2; i < line.size() && line[i] != '\a' && line[i] != '\x1b'; ++i) {
        }
        if (i < line.size() && line[i] == '\x1b') ++i;
      } else {
        ++i;
      }
      continue;
    }
    if (c == '\b' || c == '\0') continue;
    plain.push_back(line[i]);
  }
  return plain;
}

namespace {

// "loss 0.5 tokens/s 400": the first number is the loss's. "speed 400 tokens/s 3.2 it/s": it is the
// speed's own. `number` is in front of a unit that ends at `end`.
std::string_view NumberOfUnit(std::string_view line, std::string_view number, const char* end) {
  static const re2::RE2 kBehind(
      R"((?:ec(?:ond)?)?(?:/device)?\s*([:=])?\s*(\d[\d.,eE+-]*(?:[kKMG]\b)?)\s*(%|[A-Za-z]+/)?)");
  static const re2::RE2 kNameBefore(R"(([A-Za-z_]+)['"]?\s*[:=]?\s*$)");
  static const re2::RE2 kSpeed(
      R"((?i)(?:^|_)(?:speed|throughput|rate|perf(?:ormance)?|at|avg|average|mean)$)");
  const std::string_view behind = line.substr(static_cast<size_t>(end - line.data()));
  Found next;
  if (!kBehind.Match(Piece(behind), 0, behind.size(), re2::RE2::ANCHOR_START, next.groups.data(),
                     4)) {
    return number;
  }
  if (!next.group(1).empty()) return next.group(2);
  const std::string_view before = line.substr(0, static_cast<size_t>(number.data() - line.data()));
  Found name;
  const bool of_other =
      Find(kNameBefore, before, &name) && !re2::RE2::PartialMatch(Piece(name.group(1)), kSpeed);
  return of_other && next.group(3).empty() ? next.group(2) : number;
}

// "12.3k", "1.2M". Nothing for what may be metres or grams.
std::optional<double> Scaled(std::string_view text) {
  const std::optional<double> value = LeadingNumber(text);
  if (!value || text.empty()) return value;
  switch (text.back()) {
    case 'k':
    case 'K':
      return *value * 1e3;
    case 'M':
      return *value * 1e6;
    case 'G':
      return *value * 1e9;
    case 'm':
    case 'g':
      return std::nullopt;
    default:
      return value;
  }
}

std::optional<double> Figure(const Patterns& patterns, Patterns::Figure figure,
                             std::string_view line) {
  Found found;
  const re2::RE2& regex = patterns.figure(figure);
  if (!Find(regex, line, &found)) return std::nullopt;
  std::string_view text = Named(regex, found, "v");
  if (text.empty()) {
    text = Named(regex, found, "w");
    if (!text.empty()) text = NumberOfUnit(line, text, found.groups[0].end());
  }
  const bool rate = figure == Patterns::kTokensPerSecond || figure == Patterns::kSamplesPerSecond;
  // "tokens/s | 45%": another column.
  const std::string_view behind = line.substr(static_cast<size_t>(text.end() - line.begin()));
  if (rate && behind.starts_with('%')) return std::nullopt;
  std::optional<double> value = rate ? Scaled(text) : LeadingNumber(text);
  if (value && figure == Patterns::kMfu && (!Named(regex, found, "pct").empty() || *value > 1)) {
    value = *value / 100;
  }
  if (value && !std::isfinite(*value)) return std::nullopt;
  return value;
}

LineFigures ReadFigures(const Patterns& patterns, const Patterns::Matches& matches,
                        std::string_view line) {
  LineFigures figures;
  const std::pair<Patterns::Figure, std::optional<double> LineFigures::*> kept[] = {
      {Patterns::kTokensPerSecond, &LineFigures::tokens_per_second},
      {Patterns::kSamplesPerSecond, &LineFigures::samples_per_second},
      {Patterns::kMfu, &LineFigures::mfu},
      {Patterns::kTeraflops, &LineFigures::teraflops},
      {Patterns::kAccuracy, &LineFigures::accuracy},
      {Patterns::kGradientNorm, &LineFigures::gradient_norm},
      {Patterns::kLearningRate, &LineFigures::learning_rate}};
  for (const auto& [figure, member] : kept) {
    if (!matches.figures[figure]) continue;
    figures.*member = Figure(patterns, figure, line);
    figures.any |= (figures.*member).has_value();
  }
  for (const Patterns::Figure figure : {Patterns::kRatePerSecond, Patterns::kStepTime,
                                        Patterns::kRemaining, Patterns::kPerplexity}) {
    figures.any |= matches.figures[figure];
  }
  if (matches.extras[Patterns::kLossWord]) {
    const LossSaid loss = FindLoss(line);
    figures.loss = loss.whole;
    figures.any_loss = loss.any;
    figures.any |= loss.any;
  }
  return figures;
}

// A bar's description and rate: what does it count?
void JudgeBar(const Patterns& patterns, std::string_view about, std::string_view rest,
              const LineFigures& figures, LineReading* reading) {
  Found found;
  if (Find(patterns.bar_epoch(), about, &found)) {
    const re2::RE2& regex = patterns.bar_epoch();
    for (const char* name : {"epoch", "epoch2", "epoch3"}) {
      if (const auto value = Whole(Named(regex, found, name))) reading->epoch = value;
    }
    for (const char* name : {"epochs", "epochs3"}) {
      if (const auto value = Whole(Named(regex, found, name))) reading->epochs = value;
    }
  }
  static const re2::RE2 kUnit(R"([\d?.]\s*([A-Za-z]+)/s\b|s/([A-Za-z]+))");
  if (Find(kUnit, rest, &found)) {
    const std::string unit = Lower(found.group(found.group(1).empty() ? 2 : 1));
    static constexpr std::string_view kUnits[] = {
        "it",     "its",     "batch", "batches", "step",   "steps", "iter",   "epoch",
        "sample", "samples", "img",   "image",   "images", "sent",  "update", "updates",
        "round",  "tok",     "token", "tokens",  "seq",    "ex",    "ba",     "trial"};
    if (std::ranges::find(kUnits, unit) == std::end(kUnits)) {
      reading->other = unit + "/s";
      return;
    }
  }
  if (Find(patterns.training_bars(), about, &found) && !reading->epoch) {
    Found other;
    if (Find(patterns.other_bars(), about, &other)) reading->other = Lower(other.group(1));
    return;
  }
  if (reading->epoch) return;
  if (Find(patterns.other_bars(), about, &found)) {
    reading->other = Lower(found.group(1));
    return;
  }
  const bool bare = std::ranges::none_of(
      about, [](unsigned char c) { return std::isalpha(c) != 0 || c >= 0x80; });
  if (!bare && !figures.any_loss) reading->other = std::string(about.substr(0, 40));
}

std::optional<LineReading> ReadShape(const Patterns& patterns, const CompiledPattern& shape,
                                     std::string_view line, const LineFigures& figures) {
  Found found;
  if (!Find(*shape.regex, line, &found)) return std::nullopt;
  LineReading reading;
  reading.shape = &shape;
  reading.step = Whole(found.group(shape.step));
  reading.total = Whole(found.group(shape.total));
  reading.epoch = Whole(found.group(shape.epoch));
  reading.epochs = Whole(found.group(shape.epochs));
  reading.figures = figures;
  if (shape.loss > 0) reading.figures.loss = LeadingNumber(found.group(shape.loss));
  if (shape.kind == ShapeKind::kUser) {
    reading.figures.any_loss |= reading.figures.loss.has_value();
    return reading;
  }
  // {"step": 5, "max_steps": 200, ...}
  static const re2::RE2 kRecordTotal(
      R"((?i)['"](?:max|total|num)_?(?:train_?)?steps['"]\s*:\s*(\d{1,15}))");
  Found of_record;
  if (!reading.total && reading.step && line.find('{') != std::string_view::npos &&
      Find(kRecordTotal, line, &of_record)) {
    reading.total = Whole(of_record.group(1));
  }
  const std::string_view counted = found.group(reading.step ? shape.step : shape.epoch);
  if (counted.empty()) return std::nullopt;
  const auto before_size = static_cast<size_t>(counted.data() - line.data());
  const std::string_view before = line.substr(0, before_size);
  const std::string_view whole = View(found.groups[0]);
  if (shape.kind == ShapeKind::kEpochIteration && shape.epoch > 0) {
    const std::string_view epoch = found.group(shape.epoch);
    if (counted.data() - (epoch.data() + epoch.size()) > kFarthestStep) return std::nullopt;
  }
  if (shape.kind == ShapeKind::kEpoch && before.size() > kFarthestEpoch) return std::nullopt;
  if (shape.kind == ShapeKind::kRound) reading.figures.any_loss = reading.figures.any = true;
  if (shape.kind == ShapeKind::kBar) {
    const std::string_view about = found.group(shape.about);
    const auto end = static_cast<size_t>(whole.data() + whole.size() - line.data());
    JudgeBar(patterns, about, line.substr(end), figures, &reading);
    // An epoch of one bar: what else the description says changes with each step.
    reading.skeleton = reading.epoch ? "epoch" : Skeleton(about);
    reading.skeleton += " of " + std::to_string(reading.total.value_or(0));
    return reading;
  }
  const std::string_view head =
      line.substr(0, static_cast<size_t>(counted.data() + counted.size() - line.data()));
  Found other;
  if (Find(patterns.other_words(), head, &other)) reading.other = Lower(other.group(1));
  reading.skeleton = shape.name == "rich bar" ? "epoch" : Skeleton(before);
  if (shape.kind == ShapeKind::kKeras || shape.name == "rich bar") {
    reading.skeleton += " of " + std::to_string(reading.total.value_or(0));
  }
  return reading;
}

}  // namespace

LineSaid ReadLine(std::string_view line, const std::vector<CompiledPattern>& own) {
  LineSaid said;
  if (std::ranges::none_of(line, [](unsigned char c) { return std::isdigit(c) != 0; })) {
    static constexpr std::string_view kHeads[] = {"oss", "OSS", "Step", "Running "};
    if (std::ranges::none_of(
            kHeads, [line](auto word) { return line.find(word) != std::string_view::npos; })) {
      return said;
    }
  }
  const Patterns& patterns = Patterns::BuiltIn();
  const Patterns::Matches matches = patterns.Match(line);
  if (matches.any()) said.figures = ReadFigures(patterns, matches, line);
  said.has_loss = said.figures.any_loss;
  for (size_t i = 0; i < own.size() && !said.reading; ++i) {
    said.reading = ReadShape(patterns, own[i], line, said.figures);
    if (said.reading) said.reading->skeleton = "pattern " + std::to_string(i + 1);
  }
  if (!matches.any()) return said;
  for (size_t i = 0; i < matches.shapes.size() && !said.reading; ++i) {
    said.reading = ReadShape(patterns, patterns.shape(matches.shapes[i]), line, said.figures);
  }
  if (said.reading) {
    said.figures = said.reading->figures;
    said.has_loss = said.figures.any_loss;
  }
  const auto extra = [&](Patterns::Extra each, const char* name) -> std::optional<int64_t> {
    Found found;
    const re2::RE2& regex = patterns.extra(each);
    if (!matches.extras[each] || !Find(regex, line, &found)) return std::nullopt;
    return Whole(Named(regex, found, name));
  };
  said.context.loss_record = matches.extras[Patterns::kLossRecord];
  said.context.evaluation = matches.extras[Patterns::kEvaluation];
  said.context.table_header = matches.extras[Patterns::kTableHeader];
  said.context.total_steps = extra(Patterns::kTotalSteps, "v");
  said.context.total_epochs = extra(Patterns::kTotalEpochs, "v");
  said.context.epoch = extra(Patterns::kEpochLine, "epoch");
  said.context.epochs = extra(Patterns::kEpochLine, "epochs");
  return said;
}

}  // namespace lockstep::core
