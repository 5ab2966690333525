// LineBuffer: bytes as they arrive, cut into lines that can be decoded where they stand.
#ifndef LOCKSTEP_OPERATOR_KUBE_LINE_BUFFER_H_
#define LOCKSTEP_OPERATOR_KUBE_LINE_BUFFER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "operator/kube/decode.h"

namespace lockstep::kube {

class LineBuffer {
 public:
  // Four times what etcd takes as one object.
  static constexpr size_t kMaxLine = size_t{4} << 20;

  void Append(std::string_view data) {
    buffer_.erase(0, begin_);
    begin_ = 0;
    buffer_.reserve(buffer_.size() + data.size() + kDecodePadding);
    buffer_.append(data);
  }

  // The next whole line without its end, with kDecodePadding bytes to read behind it; good until
  // the next Append.
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

  // What there is of the next line is more than a line may be.
  bool overflow() const { return searched_ > kMaxLine; }

  void Clear() { *this = {}; }

 private:
  std::string buffer_;
  size_t begin_ = 0;     // of what Next has not returned
  size_t searched_ = 0;  // bytes from there that hold no end of a line
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_LINE_BUFFER_H_
