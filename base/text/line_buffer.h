// LineBuffer: bytes as they arrive, cut into lines where they stand.
#ifndef LOCKSTEP_BASE_TEXT_LINE_BUFFER_H_
#define LOCKSTEP_BASE_TEXT_LINE_BUFFER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

class LineBuffer {
 public:
  // `padding`: bytes that may be read behind each line.
  explicit LineBuffer(size_t max_line, size_t padding = 0)
      : max_line_(max_line), padding_(padding) {}

  void Append(std::string_view data) {
    buffer_.erase(0, begin_);
    begin_ = 0;
    // The memory of a rare long line is given back.
    if (buffer_.capacity() > kKept && buffer_.size() + data.size() < kKept / 2) {
      buffer_.shrink_to_fit();
    }
    if (padding_ > 0) buffer_.reserve(buffer_.size() + data.size() + padding_);
    buffer_.append(data);
  }

  // The next whole line without its end; good until the next Append.
  std::optional<std::string_view> Next() {
    const size_t end = buffer_.find('\n', begin_ + searched_);
    if (end == std::string::npos) {
      searched_ = buffer_.size() - begin_;
      return std::nullopt;
    }
    const std::string_view line(buffer_.data() + begin_, end - begin_);
    begin_ = end + 1;
    searched_ = 0;
    return line;
  }

  // What there is of the line that has no end yet, once Next has returned all others.
  std::string_view rest() const { return std::string_view(buffer_).substr(begin_); }
  // It is more than a line may be.
  bool overflow() const { return searched_ > max_line_; }

  void Clear() {
    buffer_ = {};
    begin_ = searched_ = 0;
  }

 private:
  static constexpr size_t kKept = size_t{1} << 20;

  size_t max_line_;
  size_t padding_;
  std::string buffer_;
  size_t begin_ = 0;     // of what Next has not returned
  size_t searched_ = 0;  // bytes from there that hold no end of a line
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_TEXT_LINE_BUFFER_H_
