#include "cli/programs/ask.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <variant>

#include "base/process/process.h"
#include "base/unique_fd.h"

namespace lockstep::cli {
namespace {

constexpr size_t kMaxAnswer = size_t{32} << 20;

// A child and what it has said so far.
struct Asked {
  size_t index = 0;
  SpawnedProcess process;
  Time until{};
  Answer answer;
};

void Read(UniqueFd& fd, std::string& text) {
  std::array<char, 65536> buffer;
  const ssize_t got = read(fd.get(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0 || text.size() > kMaxAnswer) return fd.reset();
  text.append(buffer.data(), static_cast<size_t>(got));
}

bool IsSilent(const Asked& asked) {
  return !asked.process.stdout_fd.valid() && !asked.process.stderr_fd.valid();
}

// Waits until one of them says something, ends, or has had its time.
void ReadSome(std::vector<Asked>& asked) {
  std::vector<pollfd> waits;
  std::vector<std::pair<UniqueFd*, std::string*>> pipes;
  Time until = kNever;
  for (Asked& each : asked) {
    until = std::min(until, each.until);
    pipes.emplace_back(&each.process.stdout_fd, &each.answer.text);
    pipes.emplace_back(&each.process.stderr_fd, &each.answer.words);
  }
  std::erase_if(pipes, [](const auto& pipe) { return !pipe.first->valid(); });
  for (const auto& [fd, text] : pipes) waits.push_back({fd->get(), POLLIN, 0});
  const auto left = std::max<int64_t>((until - BootTime()) / milliseconds(1) + 1, 0);
  if (poll(waits.data(), waits.size(), static_cast<int>(left)) <= 0) return;
  for (size_t i = 0; i < waits.size(); ++i) {
    if (waits[i].revents != 0) Read(*pipes[i].first, *pipes[i].second);
  }
}

void End(const Asked& each) {
  syscall(SYS_pidfd_send_signal, each.process.pidfd.get(), SIGKILL, nullptr, 0);
  waitpid(each.process.pid, nullptr, 0);
}

Result<Asked> Ask(Spawner& spawner, const Question& question, const AskOptions& options) {
  const char* path = std::getenv("PATH");
  auto found = FindExecutable(question.argv.front(), path == nullptr ? "" : path, "");
  if (const auto* failure = std::get_if<SpawnFailure>(&found)) {
    return Error::NotFound(failure->message);
  }
  SpawnRequest request;
  request.path = std::get<std::string>(found);
  request.argv = question.argv;
  request.env = options.env;
  SpawnResult result = spawner.Spawn(request);
  if (const auto* failure = std::get_if<SpawnFailure>(&result)) {
    return Error::Unavailable(failure->message);
  }
  Asked asked;
  asked.process = std::move(std::get<SpawnedProcess>(result));
  asked.until = BootTime() + options.patience;
  return asked;
}

}  // namespace

Status AskAll(const std::vector<Question>& questions, const AskOptions& options,
              const std::function<void(size_t, const Result<Answer>&)>& take) {
  Result<std::unique_ptr<Spawner>> spawner = Spawner::Create();
  if (!spawner.ok()) return spawner.error();
  std::vector<Asked> asked;
  const auto take_ended = [&](size_t most) {
    while (asked.size() > most) {
      ReadSome(asked);
      std::erase_if(asked, [&, now = BootTime()](Asked& each) {
        each.answer.late = now >= each.until;
        if (!each.answer.late && !IsSilent(each)) return false;
        End(each);
        each.answer.words.erase(each.answer.words.find_last_not_of(" \r\n") + 1);
        take(each.index, std::move(each.answer));
        return true;
      });
    }
  };
  for (size_t i = 0; i < questions.size(); ++i) {
    take_ended(options.at_once - 1);
    Result<Asked> each = Ask(**spawner, questions[i], options);
    if (!each.ok()) {
      take(i, each.error());
      continue;
    }
    each->index = i;
    asked.push_back(std::move(*each));
  }
  take_ended(0);
  return {};
}

}  // namespace lockstep::cli
