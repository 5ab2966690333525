// Ranks as forked processes, for what kills or stops them. The parent must have no thread when it
// forks: it does nothing but wait.
//
//   RankProcesses ranks(TestOptions(3), [](Communicator& all, const Told& told) { ... return 0; });
//   ranks.AwaitReady();
//   ranks.Kill(1, SIGKILL);
//   EXPECT_EQ(ranks.ExitCode(0), 75);
#ifndef LOCKSTEP_TESTS_WORKER_TRAINER_COLLECTIVES_RANK_PROCESSES_H_
#define LOCKSTEP_TESTS_WORKER_TRAINER_COLLECTIVES_RANK_PROCESSES_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "tests/worker/trainer/collectives/ranks.h"

namespace lockstep::collectives {

// A rank's line back to the test.
class Told {
 public:
  explicit Told(int fd) : fd_(fd) {}
  void operator()(const std::string& line) const {
    const std::string text = line + "\n";
    [[maybe_unused]] const ssize_t written = write(fd_, text.data(), text.size());
  }

 private:
  int fd_;
};

class RankProcesses {
 public:
  // Returns the exit code.
  using Body = std::function<int(Communicator&, const Told&)>;

  RankProcesses(const Options& options, const Body& body)
      : RankProcesses(std::vector<Options>(static_cast<size_t>(options.world), options), body) {}
  RankProcesses(const std::vector<Options>& each, const Body& body) {
    for (int rank = 0; rank < static_cast<int>(each.size()); ++rank) {
      const Options& options = each[static_cast<size_t>(rank)];
      int ends[2];
      EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
      const pid_t child = fork();
      if (child == 0) _exit(Run(options, rank, Told(ends[1]), body));
      close(ends[1]);
      children_.push_back({child, UniqueFd(ends[0]), {}});
    }
  }
  ~RankProcesses() {
    for (Child& child : children_) {
      if (child.pid == 0) continue;
      kill(child.pid, SIGKILL);
      waitpid(child.pid, nullptr, 0);
    }
  }

  // The next line that the rank told; "" when it has ended, or after a minute.
  std::string Line(int rank) {
    Child& child = children_[static_cast<size_t>(rank)];
    for (;;) {
      if (const size_t end = child.text.find('\n'); end != std::string::npos) {
        std::string line = child.text.substr(0, end);
        child.text.erase(0, end + 1);
        return line;
      }
      pollfd ready{.fd = child.lines.get(), .events = POLLIN, .revents = 0};
      char bytes[4096];
      if (poll(&ready, 1, 60'000) != 1) return "";
      const ssize_t got = read(child.lines.get(), bytes, sizeof bytes);
      if (got <= 0) return "";
      child.text.append(bytes, static_cast<size_t>(got));
    }
  }
  void AwaitReady() {
    for (size_t rank = 0; rank < children_.size(); ++rank) {
      EXPECT_EQ(Line(static_cast<int>(rank)), "ready");
    }
  }
  void Signal(int rank, int signal) { kill(children_[static_cast<size_t>(rank)].pid, signal); }
  int ExitCode(int rank) {
    Child& child = children_[static_cast<size_t>(rank)];
    int status = 0;
    waitpid(child.pid, &status, 0);
    child.pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  struct Child {
    pid_t pid = 0;
    UniqueFd lines;
    std::string text;
  };

  // As the trainer does it: on_failure tells why and exits with 75.
  static int Run(Options options, int rank, const Told& told, const Body& body) {
    options.rank = rank;
    options.on_failure = [&](const Error& error) {
      told("failed " + std::to_string(static_cast<int>(error.kind)) + " " + error.message);
      _exit(75);
    };
    Result<std::unique_ptr<Communicator>> made = Connect(options);
    if (!made.ok()) {
      told(made.error().message);
      return 1;
    }
    told("ready");
    return body(**made, told);
  }

  std::vector<Child> children_;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_TESTS_WORKER_TRAINER_COLLECTIVES_RANK_PROCESSES_H_
