// Expander: the words of a script's commands, as far as the script says what they are.
#include <algorithm>
#include <optional>

#include "base/text/ascii.h"
#include "cli/convert/script.h"

namespace lockstep::convert {
namespace {

constexpr int kDeepestValue = 20;

size_t NameLength(std::string_view text) {
  if (text.empty() || IsDigit(text[0])) return 0;
  size_t length = 0;
  while (length < text.size() && IsNameCharacter(text[length])) ++length;
  return length;
}

// Whole numbers, names, + - * / % and brackets.
class Arithmetic {
 public:
  Arithmetic(std::string_view text, const Expander& variables)
      : text_(text), variables_(variables) {}

  std::optional<int64_t> Value() {
    const std::optional<int64_t> value = Sum();
    Blanks();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  void Blanks() {
    while (at_ < text_.size() && IsShellBlank(text_[at_])) ++at_;
  }
  char Take(std::string_view operators) {
    Blanks();
    if (at_ == text_.size() || operators.find(text_[at_]) == std::string_view::npos) return '\0';
    return text_[at_++];
  }

  std::optional<int64_t> Sum() {
    std::optional<int64_t> left = Product();
    while (const char sign = left ? Take("+-") : '\0') left = Apply(sign, *left, Product());
    return left;
  }
  std::optional<int64_t> Product() {
    std::optional<int64_t> left = Factor();
    while (const char sign = left ? Take("*/%") : '\0') left = Apply(sign, *left, Factor());
    return left;
  }

  static std::optional<int64_t> Apply(char sign, int64_t left, std::optional<int64_t> right) {
    if (!right) return std::nullopt;
    int64_t result = 0;
    bool fails = false;
    if (sign == '+') fails = __builtin_add_overflow(left, *right, &result);
    if (sign == '-') fails = __builtin_sub_overflow(left, *right, &result);
    if (sign == '*') fails = __builtin_mul_overflow(left, *right, &result);
    if (sign == '/' || sign == '%') {
      fails = *right < 1;
      if (!fails) result = sign == '/' ? left / *right : left % *right;
    }
    return fails ? std::nullopt : std::optional(result);
  }

  std::optional<int64_t> Factor() {
    if (++depth_ > kDeepestValue) return std::nullopt;
    if (Take("(") != '\0') {
      const std::optional<int64_t> inner = Sum();
      --depth_;
      return Take(")") != '\0' ? inner : std::nullopt;
    }
    --depth_;
    const bool braces = Take("$") != '\0' && Take("{") != '\0';
    Blanks();
    size_t length = NameLength(text_.substr(at_));
    std::string_view number = text_.substr(at_, length);
    if (length > 0) {
      const std::string* value = variables_.Find(number);
      if (value == nullptr) return std::nullopt;
      number = Trim(*value);
    } else {
      while (at_ + length < text_.size() && IsDigit(text_[at_ + length])) ++length;
      number = text_.substr(at_, length);
    }
    at_ += length;
    if (braces && Take("}") == '\0') return std::nullopt;
    return ParseNumber<int64_t>(number);
  }

  const std::string_view text_;
  const Expander& variables_;
  size_t at_ = 0;
  int depth_ = 0;
};

class WordReader {
 public:
  WordReader(std::string_view text, const Expander& variables, size_t* budget)
      : text_(text), variables_(variables), budget_(budget) {}

  ExpandedCommand Read() {
    while (at_ < text_.size()) Step();
    FinishWord();
    return std::move(command_);
  }

 private:
  void Add(std::string_view text) {
    word_ += text;
    in_word_ = true;
  }

  void FinishWord() {
    if (!in_word_) return;
    if (skip_word_) {
      skip_word_ = false;  // what a redirection names
      if (from_input_ && word_ != "/dev/null") command_.reads_input = true;
    } else {
      if (is_pattern_) Tell(word_.substr(Splits() ? 0 : AssignedName(word_) + 1));
      if (command_.assignments == command_.words.size() && AssignedName(word_) > 0) {
        ++command_.assignments;
      }
      command_.words.push_back(word_);
    }
    word_.clear();
    in_word_ = false;
    is_pattern_ = false;
  }

  // Whether a shell makes something else of the unquoted character here: ~ at the front of a word
  // or value, names of files of *, ? and [...], several words of {a,b} and {1..3}.
  bool StartsPattern(char c) const {
    const bool is_assignment = AssignedName(word_) > 0;  // as an argument, too, in bash
    const bool is_value = is_assignment && !Splits();
    if (c == '~') {
      return word_.empty() || (is_assignment && (word_.back() == '=' || word_.back() == ':'));
    }
    if (is_value) return false;
    const std::string_view rest = text_.substr(at_, text_.find_first_of(" \t\n", at_) - at_);
    if (c == '[') return rest.find(']') != std::string_view::npos && rest != "[[" && rest != "[";
    if (c == '{') {
      const std::string_view inner = rest.substr(0, rest.find('}'));
      return inner.size() < rest.size() && (inner.find(',') != std::string_view::npos ||
                                            inner.find("..") != std::string_view::npos);
    }
    return c == '*' || c == '?';
  }

  // Values are not split behind NAME=.
  bool Splits() const {
    const bool may_assign = command_.assignments == command_.words.size() ||
                            command_.words[command_.assignments] == "export";
    return !may_assign || AssignedName(word_) == 0;
  }

  void Step() {
    const char c = text_[at_];
    if (IsShellBlank(c)) {
      FinishWord();
      ++at_;
    } else if (c == '\\') {
      if (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') Add(text_.substr(at_ + 1, 1));
      at_ += 2;
    } else if (c == '\'') {
      const size_t end = std::min(text_.find('\'', at_ + 1), text_.size());
      Add(text_.substr(at_ + 1, end - at_ - 1));
      at_ = end + 1;
    } else if (c == '"') {
      const size_t end = std::min(EndOfQuoted(text_, at_), text_.size() + 1) - 1;
      Add(Quoted(text_.substr(at_ + 1, end - at_ - 1), 0));
      at_ = end + 1;
    } else if (c == '$' || c == '`') {
      Insert();
    } else if (c == '<' || c == '>' || (c == '&' && text_.substr(at_).starts_with("&>"))) {
      Redirect();
    } else if (c == '(' && !Splits()) {
      Unknown(std::min(EndOfQuoted(text_, at_), text_.size()));
    } else {
      is_pattern_ = is_pattern_ || StartsPattern(c);
      Add(text_.substr(at_, 1));
      ++at_;
    }
  }

  void Tell(std::string_view unknown) {
    constexpr size_t kMost = 1000;
    if (command_.unknown.size() < kMost) command_.unknown.emplace_back(unknown);
  }

  void Unknown(size_t end) {
    const std::string_view written = text_.substr(at_, end - at_);
    Tell(written);
    Add(written);
    at_ = end;
  }

  // An unquoted substitution: its blanks part words.
  void Insert() {
    size_t end = at_;
    const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (text_[at_] == '$' && (next == '\'' || next == '"')) {  // $'\n'
      return Unknown(std::min(EndOfQuoted(text_, at_ + 1), text_.size()));
    }
    const std::optional<std::string> value = Substitute(text_, &end, 0);
    if (!value) return Unknown(end);
    at_ = end;
    if (!Splits()) return Add(*value);
    for (const char c : *value) {
      if (IsShellBlank(c)) {
        FinishWord();
      } else {
        is_pattern_ = is_pattern_ || c == '*' || c == '?';
        Add(std::string_view(&c, 1));
      }
    }
  }

  // >file, 2>&1, &>file, <file
  void Redirect() {
    const bool is_number = std::all_of(word_.begin(), word_.end(), IsDigit);
    if (is_number) {
      word_.clear();
      in_word_ = false;
    }
    FinishWord();
    const size_t start = at_;
    while (at_ < text_.size() &&
           std::string_view("<>&|").find(text_[at_]) != std::string_view::npos)
      ++at_;
    from_input_ = text_.substr(start, at_ - start).find('<') != std::string_view::npos;
    skip_word_ = true;
    command_.redirected = true;
  }

  // What stands between double quotes.
  std::string Quoted(std::string_view text, int depth) {
    std::string result;
    for (size_t i = 0; i < text.size();) {
      const char c = text[i];
      const char next = i + 1 < text.size() ? text[i + 1] : '\0';
      if (c == '\\' && next == '\n') {
        i += 2;
      } else if (c == '\\' && (next == '"' || next == '\\' || next == '$' || next == '`')) {
        result += next;
        i += 2;
      } else if (c == '$' || c == '`') {
        const size_t start = i;
        const std::optional<std::string> value = Substitute(text, &i, depth);
        const std::string_view written = text.substr(start, i - start);
        if (!value) Tell(written);
        result += value ? *value : written;
      } else {
        result += c;
        ++i;
      }
    }
    return result;
  }

  // What stands at text[*at], a $ or `, is replaced by; *at moves behind it. Absent: unknown.
  std::optional<std::string> Substitute(std::string_view text, size_t* at, int depth) {
    const std::string_view rest = text.substr(*at);
    if (rest[0] == '`' || rest.starts_with("$(") || rest.starts_with("${")) {
      const size_t end = std::min(EndOfQuoted(rest, 0), rest.size());
      *at += end;
      return rest.starts_with("$((") && rest.substr(0, end).ends_with("))")
                 ? Computed(rest.substr(3, end - 5))
             : rest.starts_with("${") && end > 2 ? Braced(rest.substr(2, end - 3), depth)
                                                 : std::nullopt;
    }
    const size_t length = NameLength(rest.substr(1));
    if (length > 0) {
      *at += 1 + length;
      return Value(rest.substr(1, length));
    }
    // $1, $@, $?; a $ alone is itself.
    const bool special =
        rest.size() > 1 &&
        (IsDigit(rest[1]) || std::string_view("@*#?$!-").find(rest[1]) != std::string_view::npos);
    *at += special ? 2 : 1;
    return special ? std::nullopt : std::optional<std::string>("$");
  }

  std::optional<std::string> Computed(std::string_view expression) const {
    const std::optional<int64_t> number = Arithmetic(expression, variables_).Value();
    return number ? std::optional(std::to_string(*number)) : std::nullopt;
  }

  // NAME, NAME:-value, NAME-value, NAME:=value
  std::optional<std::string> Braced(std::string_view inner, int depth) {
    const size_t length = NameLength(inner);
    if (length == 0) return std::nullopt;
    const std::string_view rest = inner.substr(length);
    std::optional<std::string> value = Value(inner.substr(0, length));
    if (rest.empty()) return value;
    for (const std::string_view mark : {":-", ":=", "-"}) {
      if (!rest.starts_with(mark)) continue;
      if (value && (!value->empty() || mark == "-")) return value;
      if (depth == kDeepestValue) return std::nullopt;
      return Quoted(rest.substr(mark.size()), depth + 1);
    }
    return std::nullopt;
  }

  std::optional<std::string> Value(std::string_view name) {
    const std::string* value = variables_.Find(name);
    if (value == nullptr || value->size() > *budget_) return std::nullopt;
    *budget_ -= value->size();
    if (const std::vector<std::string>* unknown = variables_.UnknownOf(name)) {
      for (const std::string& each : *unknown) Tell(each);
    }
    return *value;
  }

  const std::string_view text_;
  const Expander& variables_;
  size_t* const budget_;
  size_t at_ = 0;
  std::string word_;
  bool in_word_ = false;
  bool skip_word_ = false;
  bool from_input_ = false;  // the redirection is <
  bool is_pattern_ = false;  // the word holds what a shell works on
  ExpandedCommand command_;
};

}  // namespace

std::string ExpandedCommand::UnknownIn(std::string_view word) const {
  for (const std::string& each : unknown) {
    if (word.find(each) != std::string_view::npos) return each;
  }
  return {};
}

void Expander::Set(const std::string& name, std::string value, std::vector<std::string> unknown) {
  variables_[name] = std::move(value);
  unknown_.erase(name);
  if (!unknown.empty()) unknown_[name] = std::move(unknown);
}

const std::vector<std::string>* Expander::UnknownOf(std::string_view name) const {
  const auto found = unknown_.find(name);
  return found == unknown_.end() ? nullptr : &found->second;
}

const std::string* Expander::Find(std::string_view name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : &found->second;
}

ExpandedCommand Expander::Expand(std::string_view command) {
  return WordReader(command, *this, &budget_).Read();
}

}  // namespace lockstep::convert
