// HTTP/1.1 answers out of bytes, as agents give them (docs/reference/protocol.md). Bounded: a head
// of 8 KiB, and a body by Content-Length only, as large as the caller says. No redirects. Pure.
#ifndef LOCKSTEP_BASE_HTTP_HTTP_ANSWER_H_
#define LOCKSTEP_BASE_HTTP_HTTP_ANSWER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep {

struct HttpAnswer {
  int status = 0;
  std::string body;
};

inline constexpr size_t kMaxAnswerHead = 8 * 1024;

// The answer at the beginning of `bytes`: nullopt while it isn't all there; Invalid or TooLarge
// when it never will be one that is read. `used` gets its length, `keep_alive` whether another may
// follow on the connection.
Result<std::optional<HttpAnswer>> ParseHttpAnswer(std::string_view bytes, size_t most_body,
                                                  size_t* used, bool* keep_alive);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_HTTP_HTTP_ANSWER_H_
