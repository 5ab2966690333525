// Sockets in the file system, by which processes of one user on one computer ask each other.
#ifndef LOCKSTEP_BASE_NET_UNIX_SOCKET_H_
#define LOCKSTEP_BASE_NET_UNIX_SOCKET_H_

#include <string>

#include "base/result.h"
#include "base/text/json.h"
#include "base/time.h"
#include "base/unique_fd.h"

namespace lockstep {

// A listening, non-blocking socket at `path`, with mode 0600. Invalid: a path of over 107 bytes.
Result<UniqueFd> ListenUnix(const std::string& path);

// Sends one line of JSON and reads one. Blocks, for at most `patience` if it is not 0. `who` names
// the other side in errors, as in "the agent". Unavailable: nobody listens, it goes, or it is
// silent; TooLarge: an answer of over `max_answer` bytes.
Result<Json> AskUnix(const std::string& path, const Json& question, Duration patience,
                     size_t max_answer, const std::string& who);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_NET_UNIX_SOCKET_H_
