// The HTTP/1.1 that agents speak on their TLS port (docs/reference/protocol.md): the operator's
// requests, and their answers as far as they are read. Bounded: a head of 8 KiB, a body of 256 KiB
// by Content-Length only, no redirects. Pure.
#ifndef LOCKSTEP_OPERATOR_GANG_HTTP_ANSWER_H_
#define LOCKSTEP_OPERATOR_GANG_HTTP_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace lockstep::gang {

struct HttpAnswer {
  int status = 0;
  std::string body;
};

inline constexpr size_t kMaxAnswerHead = 8 * 1024;

// The answer at the beginning of `bytes`: nullopt while it isn't all there; Invalid or TooLarge
// when it never will be one that is read. `used` gets its length, `keep_alive` whether another may
// follow on the connection.
Result<std::optional<HttpAnswer>> ParseHttpAnswer(std::string_view bytes, size_t* used,
                                                  bool* keep_alive);

// Answered at once.
std::string GetStatusRequest();
// Answered when the version is above `after`, at the latest after `timeout` (whole seconds).
std::string GetStatusRequest(uint64_t after, Duration timeout);
std::string PutGangRequest(std::string_view body);

}  // namespace lockstep::gang

#endif  // LOCKSTEP_OPERATOR_GANG_HTTP_ANSWER_H_
