#include "bench/helper.h"

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace lockstep::bench {
namespace {

constexpr size_t kMaxSaid = size_t{64} << 10;

}  // namespace

void Fail(const char* what) {
  std::perror(what);
  std::_Exit(1);
}

void Line::Say(const Json& value) const {
  const std::string text = value.dump();
  if (send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) Fail("lockstep-bench: send");
}

Json Line::Hear() const {
  std::string text(kMaxSaid, '\0');
  const ssize_t got = recv(fd_.get(), text.data(), text.size(), 0);
  if (got <= 0) Fail("lockstep-bench: a part of the benchmark ended");
  return Json::parse(text.substr(0, static_cast<size_t>(got)));
}

void Line::Watch(EventLoop* loop, std::function<void(const Json&)> heard) const {
  const Status watched = loop->Watch(fd_.get(), EPOLLIN,
                                     [this, heard = std::move(heard)](uint32_t) { heard(Hear()); });
  if (!watched.ok()) Fail("lockstep-bench: epoll");
}

Helper Helper::Start(const std::function<void(const Line&)>& role) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) Fail("socketpair");
  UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) Fail("fork");
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ours.reset();
    role(Line(std::move(theirs)));
    std::_Exit(0);
  }
  return {pid, Line(std::move(ours))};
}

Helper::~Helper() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void AllowFiles(size_t least) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_max = std::max<rlim_t>(limit.rlim_max, least);
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) Fail("lockstep-bench: too few open files allowed");
}

Json Usage() {
  Json usage;
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    const char* name = line.starts_with("VmRSS:")   ? "rssMB"
                       : line.starts_with("VmHWM:") ? "peakMB"
                                                    : nullptr;
    if (name != nullptr) usage[name] = Round(std::stod(line.substr(line.find(':') + 1)) / 1024);
  }
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto ms = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) / 1e3;
  };
  usage["cpuMs"] = Round(ms(used.ru_utime) + ms(used.ru_stime));
  return usage;
}

}  // namespace lockstep::bench
