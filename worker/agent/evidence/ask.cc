#include "worker/agent/evidence/ask.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "base/file.h"
#include "base/text/json.h"
#include "base/unique_fd.h"
#include "worker/agent/ranks/progress_message.h"

namespace lockstep::agent {
namespace {

constexpr size_t kMaxAnswer = size_t{32} << 20;
constexpr time_t kPatienceSeconds = 12;

Result<std::string> ReadLine(int fd) {
  std::string line;
  std::array<char, 4096> buffer;
  while (line.find('\n') == std::string::npos) {
    if (line.size() > kMaxProgressLine) return Error::TooLarge("its answer is too long");
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error::Unavailable("the agent gives no answer");
    if (got == 0) return Error::Unavailable("the agent closed the connection");
    line.append(buffer.data(), static_cast<size_t>(got));
  }
  return line.substr(0, line.find('\n'));
}

// What is asked may be run by another user than the ranks', who can put a link or a pipe there, or
// answer in the agent's place.
Result<std::string> ReadEvidence(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info{};
  if (!fd.valid() || fstat(fd.get(), &info) != 0) return ErrnoError("opening " + path, errno);
  if (!S_ISREG(info.st_mode)) return Error::Invalid(path + " is no file of an agent");
  return ReadToEnd(fd.get(), path, kMaxAnswer);
}

}  // namespace

Result<std::string> AskForEvidence(const std::string& run_dir) {
  const std::string path = run_dir + "/agent.sock";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return Error::Invalid(path + " is too long a path");
  std::ranges::copy(path, address.sun_path);
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience{kPatienceSeconds, 0};
  if (!fd.valid() ||
      setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
      connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return ErrnoError("no agent can be asked at " + path, errno);
  }
  const Status asked = WriteAll(fd.get(), "{\"id\":1,\"evidence\":true}\n", path);
  if (!asked.ok()) return asked.error();
  Result<std::string> line = ReadLine(fd.get());
  if (!line.ok()) return line;
  const Json answer = ParseJson(*line);
  if (!answer.is_object() || !answer.contains("evidence") || !answer["evidence"].is_string()) {
    const bool told =
        answer.is_object() && answer.contains("reason") && answer["reason"].is_string();
    return Error::Unavailable(told ? answer["reason"].get<std::string>() : "no answer of an agent");
  }
  return ReadEvidence(EvidenceFile(run_dir));
}

}  // namespace lockstep::agent
