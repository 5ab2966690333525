// floor [restart|start SHAPE SAMPLES]: what a restart and a start of a gang cost with nothing but
// one process a machine, a socket to each, pidfds and posix_spawn: no TLS, no logs, no binding, no
// lease. The floor beside `restart` and `start`.
//
// Ranks are lockstep-bench-rank, which write down when they die and when they live again: what is
// measured is what they say, as in the benchmarks of `lockstep run`.
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/benchmarks.h"
#include "bench/helper.h"

namespace lockstep::bench {
namespace {

struct Shape {
  int machines = 0;
  int processes = 0;
  std::string text;
};

// What a machine and the coordinator say to each other: one byte each.
enum class Word : char { kStart = 'S', kDied = 'D', kStop = 'X', kStopped = 'K', kFinished = 'F' };

void Say(int fd, Word word) {
  if (send(fd, &word, 1, MSG_NOSIGNAL) != 1) Fail("lockstep-bench: send");
}

class Machine {
 public:
  Machine(EventLoop* loop, UniqueFd line, int index, int processes,
          std::vector<std::string> command)
      : loop_(loop),
        line_(std::move(line)),
        index_(index),
        processes_(processes),
        command_(std::move(command)) {
    Watch(line_.get(), [this] { OnWord(); });
  }

 private:
  void Watch(int fd, const std::function<void()>& callback) {
    if (!loop_->Watch(fd, EPOLLIN, [callback](uint32_t) { callback(); }).ok()) Fail("epoll");
  }

  void OnWord() {
    Word word{};
    if (recv(line_.get(), &word, 1, 0) != 1) std::_Exit(0);
    if (word == Word::kStart) return Start();
    stopping_ = true;
    for (const auto& [pid, pidfd] : alive_) kill(-pid, SIGKILL);
    if (alive_.empty()) OnEmpty();
  }

  void Start() {
    stopping_ = false;
    for (int i = 0; i < processes_; ++i) Spawn(index_ * processes_ + i);
  }

  void Spawn(int rank) {
    setenv("RANK", std::to_string(rank).c_str(), 1);
    std::vector<char*> argv;
    for (std::string& word : command_) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    pid_t pid = 0;
    if (posix_spawn(&pid, argv[0], nullptr, &attributes, argv.data(), environ) != 0) Fail(argv[0]);
    posix_spawnattr_destroy(&attributes);
    UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    Watch(pidfd.get(), [this, pid] { OnDeath(pid); });
    alive_[pid] = std::move(pidfd);
  }

  void OnDeath(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    loop_->Unwatch(alive_.at(pid).get());
    alive_.erase(pid);
    if (status != 0 && !stopping_) Say(line_.get(), Word::kDied);
    if (alive_.empty()) OnEmpty();
  }

  void OnEmpty() { Say(line_.get(), stopping_ ? Word::kStopped : Word::kFinished); }

  EventLoop* loop_;
  UniqueFd line_;
  int index_;
  int processes_;
  std::vector<std::string> command_;
  bool stopping_ = false;
  std::map<pid_t, UniqueFd> alive_;
};

// One job from its start to its end, restarted in full at a first death.
class Gang {
 public:
  Gang(EventLoop* loop, const Shape& shape, const std::vector<std::string>& command) : loop_(loop) {
    for (int m = 0; m < shape.machines; ++m) {
      std::array<int, 2> ends{};
      if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
        Fail("socketpair");
      const pid_t pid = fork();
      if (pid < 0) Fail("fork");
      if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        lines_.clear();
        auto own_loop = EventLoop::Create();
        if (!own_loop.ok()) Fail("epoll");
        close(ends[0]);
        const Machine machine(own_loop->get(), UniqueFd(ends[1]), m, shape.processes, command);
        (*own_loop)->Run();
      }
      close(ends[1]);
      pids_.push_back(pid);
      lines_.emplace_back(ends[0]);
    }
    for (const UniqueFd& line : lines_) {
      const int fd = line.get();
      if (!loop_->Watch(fd, EPOLLIN, [this, fd](uint32_t) { OnWord(fd); }).ok()) Fail("epoll");
    }
    Tell(Word::kStart);
  }

  ~Gang() {
    for (const UniqueFd& line : lines_) loop_->Unwatch(line.get());
    lines_.clear();
    for (const pid_t pid : pids_) waitpid(pid, nullptr, 0);
  }
  Gang(const Gang&) = delete;
  Gang& operator=(const Gang&) = delete;

 private:
  void Tell(Word word) {
    done_ = 0;
    for (const UniqueFd& line : lines_) Say(line.get(), word);
  }

  void OnWord(int fd) {
    Word word{};
    if (recv(fd, &word, 1, 0) != 1) Fail("lockstep-bench: a machine of the floor ended");
    if (word == Word::kDied && !std::exchange(stopping_, true)) return Tell(Word::kStop);
    const Word awaited = stopping_ ? Word::kStopped : Word::kFinished;
    if (word != awaited || ++done_ < lines_.size()) return;
    if (!std::exchange(stopping_, false)) return loop_->Stop();
    Tell(Word::kStart);
  }

  EventLoop* loop_;
  std::vector<UniqueFd> lines_;
  std::vector<pid_t> pids_;
  size_t done_ = 0;
  bool stopping_ = false;
};

struct Times {
  int64_t death = 0;
  int64_t last_start = 0;    // of the first generation
  int64_t last_restart = 0;  // of the second
};

Times Read(const std::string& path) {
  Times times;
  std::ifstream file(path);
  std::string event;
  int rank = 0;
  int restarted = 0;
  for (int64_t ns = 0; file >> event >> rank >> restarted >> ns;) {
    int64_t& slot = event == "death" ? times.death
                    : restarted > 0  ? times.last_restart
                                     : times.last_start;
    slot = std::max(slot, ns);
  }
  return times;
}

void Measure(const std::string& figure, const Shape& shape, const std::string& death, int samples) {
  const std::string rank = std::filesystem::read_symlink("/proc/self/exe").string() + "-rank";
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("lockstep-floor-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::string path = folder / "times";
  setenv("BENCH_TIMES", path.c_str(), 1);
  std::vector<double> found;
  for (int i = 0; i < samples; ++i) {
    std::filesystem::remove(path);
    auto loop = EventLoop::Create();
    if (!loop.ok()) Fail("epoll");
    const Time began = BootTime();
    const Gang gang(loop->get(), shape, {rank, death, "1", "100", "50"});
    (*loop)->Run();
    const Times times = Read(path);
    const int64_t from = figure == "start" ? began.count() : times.death;
    const int64_t to = figure == "start" ? times.last_start : times.last_restart;
    found.push_back(Milliseconds(Duration(to - from)));
  }
  std::filesystem::remove_all(folder);
  Json line = {{"benchmark", "floor"}, {"figure", figure}, {"shape", shape.text}, {"unit", "ms"}};
  if (figure == "restart") line["death"] = death;
  line.update(Spread(found));
  Print(line);
}

Shape ParseShape(const std::string& text) {
  const size_t by = text.find('x');
  if (by == std::string::npos) Fail("lockstep-bench floor: a shape looks like 2x2");
  return {std::stoi(text.substr(0, by)), std::stoi(text.substr(by + 1)), text};
}

void MeasureAll(const std::string& figure, const std::string& shape, int samples) {
  if (figure == "start") return Measure(figure, ParseShape(shape), "none", samples);
  for (const char* death : {"exit", "kill"}) Measure(figure, ParseShape(shape), death, samples);
}

}  // namespace

int RunFloor(const std::vector<std::string>& arguments) {
  if (arguments.size() == 3) {
    MeasureAll(arguments[0], arguments[1], std::stoi(arguments[2]));
    return 0;
  }
  MeasureAll("restart", "2x2", 50);
  MeasureAll("restart", "8x4", 50);
  MeasureAll("start", "2x2", 20);
  MeasureAll("start", "64x8", 5);
  return 0;
}

}  // namespace lockstep::bench
