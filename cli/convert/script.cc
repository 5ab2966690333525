#include "cli/convert/script.h"

#include <algorithm>
#include <utility>

#include "base/text/ascii.h"
#include "cli/convert/job_builder.h"

namespace lockstep::convert {
namespace {

bool StartsWithWord(std::string_view text, std::string_view word) {
  return text.starts_with(word) && (text.size() == word.size() || IsShellBlank(text[word.size()]));
}

// What closes a block that `keyword` opens; empty where it opens none.
std::string_view CloserOf(std::string_view keyword) {
  if (keyword == "if") return "fi";
  if (keyword == "case") return "esac";
  if (keyword == "{") return "}";
  return IsOneOf(keyword, {"for", "while", "until", "select"}) ? "done" : "";
}

class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  Script Split() {
    while (at_ < text_.size() && !script_.problem) Step();
    if (!script_.problem) Finish();
    if (!script_.problem && !blocks_.empty()) {
      Problem(blocks_.back().line, "the `" + blocks_.back().opener + "` here never ends");
    }
    if (!script_.problem && !here_documents_.empty()) {
      Problem(line_, "the here-document \"" + here_documents_.front() + "\" never ends");
    }
    return std::move(script_);
  }

 private:
  struct Block {
    std::string opener;
    std::string_view closer;
    int line;
  };

  char Next() const { return at_ + 1 < text_.size() ? text_[at_ + 1] : '\0'; }
  char Previous() const { return at_ > start_ ? text_[at_ - 1] : '\0'; }

  void Problem(int line, std::string message) {
    script_.problem = core::Problem{.line = line, .column = 1, .message = std::move(message)};
  }

  void Advance(size_t end) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    at_ = end;
  }

  // Ends the command, and goes on behind the `length` characters that do so.
  void End(size_t length, bool pipe = false) {
    const bool any = at_ > start_;
    Finish();
    if (any) after_pipe_ = pipe;  // a line may end behind a |
    Advance(std::min(at_ + length, text_.size()));
    start_ = at_;
  }

  void Step() {
    const char c = text_[at_];
    if (c == '\n') return EndLine();
    if (at_ == start_ && IsShellBlank(c)) return Begin();
    if (at_ == start_) {
      command_line_ = line_;
      in_test_ = text_.substr(at_).starts_with("[[");
    }
    if (c == '\\') return Advance(std::min(at_ + 2, text_.size()));
    if (c == '\'' || c == '"' || c == '`' || (c == '$' && (Next() == '(' || Next() == '{'))) {
      return Skip("this quote or substitution never ends");
    }
    if (c == '#' && (at_ == start_ || IsShellBlank(text_[at_ - 1]))) return EndOfComment();
    if (in_test_) {
      in_test_ = !text_.substr(at_).starts_with("]]");
      return Advance(at_ + 1);
    }
    Operator(c);
  }

  void Begin() { start_ = ++at_; }

  void Operator(char c) {
    if (c == ';') return End(Next() == ';' ? 2 : 1);
    if (c == '&' && Next() != '>' && !IsOneOf(std::string(1, Previous()), {">", "<"})) {
      return End(Next() == '&' ? 2 : 1);
    }
    if (c == '|' && Previous() != '>') {
      return Next() == '|' ? End(2) : End(Next() == '&' ? 2 : 1, true);
    }
    if (c == '<' && Next() == '<') return HereDocument();
    if (c == '(') return Open();
    if (c == ')') return Close();
    Advance(at_ + 1);
  }

  void Skip(const char* message) {
    const size_t end = EndOfQuoted(text_, at_);
    if (end == std::string_view::npos) return Problem(line_, message);
    Advance(end);
  }

  void EndOfComment() {
    Finish();
    at_ = std::min(text_.find('\n', at_), text_.size());
    start_ = at_;
  }

  void EndLine() {
    End(1);
    while (!here_documents_.empty() && at_ < text_.size()) {
      const size_t end = std::min(text_.find('\n', at_), text_.size());
      if (Trim(text_.substr(at_, end - at_)) == here_documents_.front()) {
        here_documents_.erase(here_documents_.begin());
      }
      Advance(std::min(end + 1, text_.size()));
      start_ = at_;
    }
  }

  // <<EOF, <<-EOF, <<'EOF'; <<< takes a word alone.
  void HereDocument() {
    if (text_.substr(at_).starts_with("<<<")) return Advance(at_ + 3);
    Advance(at_ + 2);
    while (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == ' ')) Advance(at_ + 1);
    const size_t end = std::min(text_.find_first_of(" \t\n;|&<>", at_), text_.size());
    std::string word;
    for (const char c : text_.substr(at_, end - at_)) {
      if (c != '\'' && c != '"' && c != '\\') word += c;
    }
    if (!word.empty()) here_documents_.push_back(std::move(word));
    Advance(end);
  }

  // A subshell, a list in brackets (A=(a b)), arithmetic, or a function's name().
  void Open() {
    if (Next() == '(' || Previous() == '=') {
      Skip("this bracket never ends");
    } else if (at_ == start_) {
      blocks_.push_back({"(", ")", line_});
      Begin();
    } else if (Trim(text_.substr(at_ + 1, 2), " ").starts_with(")")) {
      Advance(text_.find(')', at_) + 1);
      start_ = at_;
    } else {
      Advance(at_ + 1);
    }
  }

  void Close() {
    if (!blocks_.empty() && blocks_.back().closer == ")") {
      Finish();
      if (!blocks_.empty() && blocks_.back().closer == ")") blocks_.pop_back();
      Begin();
    } else if (StartsWithWord(text_.substr(start_), "case")) {
      End(1);
    } else {
      Advance(at_ + 1);
      if (!blocks_.empty() && blocks_.back().closer == "esac") start_ = at_;  // a case's pattern
    }
  }

  // Takes the command from start_ to here, without the keywords before it.
  void Finish() {
    std::string_view text = Trim(text_.substr(start_, at_ - start_));
    start_ = at_;
    if (text.empty()) return;
    const bool after_pipe = std::exchange(after_pipe_, false);
    while (!text.empty()) {
      const std::string_view word =
          text.substr(0, std::min(text.find_first_of(" \t\n"), text.size()));
      if (IsOneOf(word, {"fi", "done", "esac", "}"})) return CloseBlock(word);
      if (word == "function") {
        if (text.find('{') != std::string_view::npos)
          blocks_.push_back({"function", "}", command_line_});
        return;
      }
      const std::string_view closer = CloserOf(word);
      if (!closer.empty()) blocks_.push_back({std::string(word), closer, command_line_});
      if (IsOneOf(word, {"for", "case", "select"})) return;
      if (closer.empty() && !IsOneOf(word, {"then", "do", "else", "elif", "!", "time"})) break;
      text = Trim(text.substr(word.size()));
    }
    if (text.empty()) return;
    script_.commands.push_back({.text = std::string(text),
                                .line = command_line_,
                                .depth = static_cast<int>(blocks_.size()),
                                .after_pipe = after_pipe});
  }

  void CloseBlock(std::string_view closer) {
    if (blocks_.empty() || blocks_.back().closer != closer) {
      return Problem(command_line_, "nothing is open that `" + std::string(closer) + "` closes");
    }
    blocks_.pop_back();
  }

  const std::string_view text_;
  size_t at_ = 0;
  size_t start_ = 0;  // of the command
  int line_ = 1;
  int command_line_ = 1;
  bool after_pipe_ = false;
  bool in_test_ = false;  // between [[ and ]]
  std::vector<Block> blocks_;
  std::vector<std::string> here_documents_;
  Script script_;
};

}  // namespace

Script ReadScript(std::string_view text) { return Splitter(text).Split(); }

bool IsShellBlank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

size_t EndOfQuoted(std::string_view text, size_t at, int depth) {
  constexpr int kDeepest = 50;
  if (depth > kDeepest) return std::string_view::npos;
  if (text[at] == '\'') {
    const size_t end = text.find('\'', at + 1);
    return end == std::string_view::npos ? std::string_view::npos : end + 1;
  }
  const char opener = text[at] == '$' ? text[at + 1] : text[at];
  const char closer = opener == '(' ? ')' : opener == '{' ? '}' : opener;
  for (size_t i = at + (text[at] == '$' ? 2 : 1); i < text.size();) {
    const char c = text[i];
    if (c == closer) return i + 1;
    const bool substitutes =
        c == '$' && i + 1 < text.size() && (text[i + 1] == '(' || text[i + 1] == '{');
    const bool quotes = opener != '`' && (c == '`' || substitutes);
    const bool plain_quotes = opener != '"' && opener != '`' && (c == '\'' || c == '"');
    if (c == '\\') {
      i += 2;
    } else if (quotes || plain_quotes || (opener == '(' && c == '(')) {
      i = EndOfQuoted(text, i, depth + 1);
      if (i == std::string_view::npos) return std::string_view::npos;
    } else {
      ++i;
    }
  }
  return std::string_view::npos;
}

}  // namespace lockstep::convert
