#include "worker/agent/evidence/ask.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/file.h"
#include "base/text/json.h"
#include "base/unique_fd.h"
#include "worker/agent/rank_socket/ask_agent.h"

namespace lockstep::agent {
namespace {

constexpr size_t kMaxAnswer = size_t{32} << 20;
constexpr Duration kPatience = seconds(12);
// Between two questions of who follows; longer behind a long answer, which crosses a network.
constexpr Duration kPause = milliseconds(300);
constexpr Duration kPauseAByte = microseconds(4);

// What is asked may be run by another user than the ranks', who can put a link or a pipe there, or
// answer in the agent's place.
Result<std::string> ReadAnswer(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info{};
  if (!fd.valid() || fstat(fd.get(), &info) != 0) return ErrnoError("opening " + path, errno);
  if (!S_ISREG(info.st_mode)) return Error::Invalid(path + " is not a file of an agent");
  return ReadToEnd(fd.get(), path, kMaxAnswer);
}

Error NoAnswer(const Json& answer) {
  const bool told = answer.contains("reason") && answer["reason"].is_string();
  return Error::Unavailable(told ? answer["reason"].get<std::string>() : "no answer of an agent");
}

}  // namespace

Result<std::string> AskForEvidence(const std::string& run_dir) {
  const Result<Json> asked =
      AskAgent(run_dir + "/agent.sock", {{"id", 1}, {"evidence", true}}, kPatience);
  if (!asked.ok()) return asked.error();
  const Json& answer = *asked;
  if (!answer.contains("evidence") || !answer["evidence"].is_string()) return NoAnswer(answer);
  return ReadAnswer(EvidenceFile(run_dir));
}

Result<GangNews> AskForGang(const std::string& run_dir, uint64_t after) {
  const Result<Json> asked =
      AskAgent(run_dir + "/agent.sock", {{"id", 1}, {"gang", true}, {"after", after}}, kPatience);
  if (!asked.ok()) return asked.error();
  const Json& answer = *asked;
  const bool known = answer.contains("version") && answer["version"].is_number_unsigned() &&
                     answer.contains("file") && answer["file"].is_string();
  if (!known) return NoAnswer(answer);
  GangNews news{answer["version"].get<uint64_t>(), {}};
  if (answer["file"].get_ref<const std::string&>().empty()) return news;
  Result<std::string> text = ReadAnswer(GangFile(run_dir));
  if (!text.ok()) return text.error();
  news.text = *std::move(text);
  return news;
}

Status PrintGang(const std::string& run_dir, bool follow) {
  const Time until = BootTime() + kFollow;
  Time said = BootTime();
  for (uint64_t after = 0;;) {
    const Result<GangNews> news = AskForGang(run_dir, after);
    if (!news.ok()) return news.error();
    after = news->version;
    const Time now = BootTime();
    if (!news->text.empty() || now - said >= kBeat) {
      const std::string_view text = news->text.empty() ? "\n" : std::string_view(news->text);
      if (!WriteAll(STDOUT_FILENO, text, "standard output").ok()) return {};
      said = now;
    }
    if (!follow || now >= until) return {};
    const Duration pause =
        std::clamp<Duration>(kPauseAByte * static_cast<int64_t>(news->text.size()), kPause, kBeat);
    usleep(static_cast<useconds_t>(pause / microseconds(1)));
  }
}

}  // namespace lockstep::agent
