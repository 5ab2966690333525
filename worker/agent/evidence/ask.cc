#include "worker/agent/evidence/ask.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/file.h"
#include "base/text/json.h"
#include "base/unique_fd.h"
#include "worker/agent/rank_socket/ask_agent.h"

namespace lockstep::agent {
namespace {

constexpr size_t kMaxAnswer = size_t{32} << 20;
constexpr Duration kPatience = seconds(12);

// What is asked may be run by another user than the ranks', who can put a link or a pipe there, or
// answer in the agent's place.
Result<std::string> ReadEvidence(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info{};
  if (!fd.valid() || fstat(fd.get(), &info) != 0) return ErrnoError("opening " + path, errno);
  if (!S_ISREG(info.st_mode)) return Error::Invalid(path + " is not a file of an agent");
  return ReadToEnd(fd.get(), path, kMaxAnswer);
}

}  // namespace

Result<std::string> AskForEvidence(const std::string& run_dir) {
  const Result<Json> asked =
      AskAgent(run_dir + "/agent.sock", {{"id", 1}, {"evidence", true}}, kPatience);
  if (!asked.ok()) return asked.error();
  const Json& answer = *asked;
  if (!answer.contains("evidence") || !answer["evidence"].is_string()) {
    const bool told = answer.contains("reason") && answer["reason"].is_string();
    return Error::Unavailable(told ? answer["reason"].get<std::string>() : "no answer of an agent");
  }
  return ReadEvidence(EvidenceFile(run_dir));
}

}  // namespace lockstep::agent
