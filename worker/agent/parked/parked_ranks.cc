#include "worker/agent/parked/parked_ranks.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <random>
#include <sstream>
#include <utility>
#include <variant>

#include "base/file.h"
#include "base/text/ascii.h"
#include "base/text/json.h"
#include "worker/topology/small_file.h"

namespace lockstep::agent {
namespace {

constexpr char kHook[] =
#include "worker/agent/parked/prestart_hook.inc"
    ;

// As SpawnRequest::extra_fds hands it down.
constexpr int kChildFd = 3;
// It runs nothing of the user's, and the computer may be busy.
constexpr Duration kProbedWithin = minutes(1);
constexpr Duration kHeldWithin = seconds(10);
constexpr Duration kReadyWithin = minutes(10);
// While a parked interpreter imports beside ranks that need its core: a fifth of the time at most.
constexpr Duration kBurst = milliseconds(10);
constexpr Duration kRest = milliseconds(40);
// While it has a core to itself.
constexpr Duration kLook = milliseconds(50);
constexpr int kMostLinesShown = 20;
constexpr size_t kReadSize = size_t{16} << 10;
// What a pipe holds. More is left to the next time that the loop comes by.
constexpr int kReadsAtOnce = 4;
constexpr size_t kMostPrinted = size_t{1} << 20;

// What a rank is told of its generation when it is let go.
bool IsLate(std::string_view assignment) {
  for (const std::string_view prefix :
       {"LOCKSTEP_", "MASTER_", "PET_MASTER_", "TMPDIR=", "TORCHELASTIC_"}) {
    if (assignment.starts_with(prefix)) return true;
  }
  return false;
}

std::vector<std::string> WithoutLate(const std::vector<std::string>& environment) {
  std::vector<std::string> rest;
  std::ranges::copy_if(environment, std::back_inserter(rest),
                       [](const std::string& entry) { return !IsLate(entry); });
  return rest;
}

void AddHook(const std::string& folder, const std::string& mode, std::vector<std::string>* env) {
  std::string path = folder;
  std::erase_if(*env, [&](const std::string& entry) {
    if (!entry.starts_with("PYTHONPATH=")) return false;
    // An empty entry would be the working directory.
    if (const std::string own = entry.substr(11); !own.empty()) path += ":" + own;
    return true;
  });
  env->push_back("PYTHONPATH=" + path);
  env->push_back("LOCKSTEP_PRESTART=" + mode);
}

std::string MakeNonce() {
  std::random_device random;
  return std::to_string((uint64_t{random()} << 32) | random());
}

bool IsDead(const UniqueFd& pidfd) {
  pollfd dead{pidfd.get(), POLLIN, 0};
  return poll(&dead, 1, 0) != 0;
}

// Whether it has it then. A kernel that refuses it kills by size alone, as ever.
bool SetOomScore(pid_t pid, const std::string& score) {
  const std::string path = "/proc/" + std::to_string(pid) + "/oom_score_adj";
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const bool written = fd.valid() && write(fd.get(), score.data(), score.size()) > 0;
  return written || topology::ReadSmallFile(path).value_or("0") == score;
}

struct CpuTimes {
  uint64_t ran_ns = 0;
  uint64_t waited_ns = 0;
};

// Of the thread that imports.
std::optional<CpuTimes> ReadCpuTimes(pid_t pid) {
  std::istringstream text(
      topology::ReadSmallFile("/proc/" + std::to_string(pid) + "/schedstat").value_or(""));
  CpuTimes times;
  if (!(text >> times.ran_ns >> times.waited_ns)) return std::nullopt;
  return times;
}

std::string WhyOf(const Json& said, const char* otherwise) {
  const Json why = said.value("why", Json());
  return why.is_string() ? why.get<std::string>() : otherwise;
}

// One read's worth. False: there is no more for now.
bool ReadSome(int fd, std::string* text, bool* ended) {
  std::array<char, kReadSize> buffer;
  const ssize_t got = read(fd, buffer.data(), buffer.size());
  *ended = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
  if (got <= 0) return false;
  text->assign(buffer.data(), static_cast<size_t>(got));
  return true;
}

}  // namespace

bool ParkedRanks::Interpreter::Go() {
  const ssize_t sent =
      send(socket.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  socket.reset();
  return sent == static_cast<ssize_t>(message.size());
}

ParkedRanks::ParkedRanks(EventLoop* loop, Spawner* spawner, ProcessSet* processes, Options options,
                         LogFn log)
    : loop_(loop),
      spawner_(spawner),
      processes_(processes),
      options_(std::move(options)),
      log_(std::move(log)),
      oom_score_adj_(topology::ReadSmallFile("/proc/self/oom_score_adj").value_or("0")),
      refill_timer_(loop, [this] { Refill(); }),
      limit_timer_(loop,
                   [this] {
                     if (probe_) return OnProbe(/*ended=*/true);
                     if (!importing_) return;
                     const bool held = parked_[*importing_].held;
                     Lose(*importing_,
                          held ? "it was not ready in 10 minutes" : "it was not held in 10 s");
                   }),
      duty_timer_(loop, [this] { OnDuty(); }),
      look_timer_(loop, [this] { OnLook(); }),
      memory_(options_.root) {
  if (!wanted()) return;
  const Status written = WriteHook();
  if (written.ok()) return;
  closed_ = true;
  why_not_ = written.error().message;
  log_("prestart: no interpreter is parked: " + why_not_);
}

ParkedRanks::~ParkedRanks() { Close(); }

Status ParkedRanks::WriteHook() {
  std::error_code code;
  // As Python itself writes it, for the hook takes it out of PYTHONPATH again.
  options_.folder = std::filesystem::absolute(options_.folder, code).lexically_normal();
  if (options_.folder.find(':') != std::string::npos) {
    return Error::Invalid("PYTHONPATH can't hold " + options_.folder +
                          ", because it contains a colon");
  }
  std::filesystem::create_directories(options_.folder, code);
  return WriteFileAtomically(options_.folder + "/sitecustomize.py", kHook, {.mode = 0600});
}

std::string ParkedRanks::ListOf(size_t local_rank) const {
  return options_.folder + "/imports." + std::to_string(local_rank);
}

core::Parked ParkedRanks::told() const {
  if (!wanted()) return {};
  return {
      .ready = static_cast<uint32_t>(ready()),
      .why_not = why_not_,
      .saved = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(taken_seconds_))};
}

size_t ParkedRanks::ready() const {
  return static_cast<size_t>(
      std::ranges::count_if(parked_, [](const auto& entry) { return entry.second.ready; }));
}

// ---- a generation ----

void ParkedRanks::BeginGeneration() {
  refill_timer_.Cancel();
  EndProbe();
  for (auto& [l, parked] : parked_) {
    if (!parked.ready) Kill(&parked);
    parked.lost = false;
  }
  filling_ = false;
  taken_seconds_ = 0;
}

// Whether a parked interpreter is what `request` would start now. Names alone do not decide: a link
// may have been switched, a folder replaced, or a script given another first line.
bool ParkedRanks::Matches(const Parked& parked, const SpawnRequest& before,
                          const SpawnRequest& request) {
  std::error_code code;
  const std::string folder = "/proc/" + std::to_string(parked.process.pid) + "/cwd";
  const std::string& wanted = request.working_directory;
  const Result<PythonCommand> python = FindPython(request);
  return before.path == request.path && before.working_directory == wanted &&
         parked.given == WithoutLate(request.env) && python.ok() && *python == parked.python &&
         std::filesystem::equivalent(folder, wanted.empty() ? "." : wanted, code);
}

std::optional<ParkedRanks::Interpreter> ParkedRanks::Take(size_t local_rank,
                                                          const SpawnRequest& request) {
  if (!wanted() || closed_) return std::nullopt;
  Parked& parked = parked_[local_rank];
  const SpawnRequest before = std::exchange(parked.wanted, request);
  if (!parked.ready) return std::nullopt;
  if (before.argv != request.argv) {
    Close();
    NoneParked("the command line has a value that differs in each generation");
    return std::nullopt;
  }
  const bool dead = IsDead(parked.process.pidfd);
  if (dead || !Matches(parked, before, request)) {
    log_("prestart: the parked interpreter of local rank " + std::to_string(local_rank) +
         (dead ? " is dead" : " differs from the rank to start") + "; the rank starts cold");
    Kill(&parked);
    return std::nullopt;
  }
  if (!SetOomScore(parked.process.pid, oom_score_adj_)) {
    log_("prestart: the parked interpreter of local rank " + std::to_string(local_rank) +
         " would be the kernel's first choice to kill for memory; the rank starts cold");
    Kill(&parked);
    return std::nullopt;
  }
  Json late = Json::object();
  for (const std::string& entry : request.env) {
    const size_t equals = entry.find('=');
    if (IsLate(entry)) late[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  taken_seconds_ = std::max(taken_seconds_, parked.seconds);
  Release(&parked);
  processes_->TakeIn(parked.process.pid);
  return Interpreter{std::move(parked.process), std::move(parked.socket),
                     DumpJson(Json{{"go", late}}) + "\n"};
}

void ParkedRanks::Record(size_t local_rank, SpawnRequest* request) const {
  if (!wanted() || closed_ || !FindPython(*request).ok()) return;
  const std::string list = ListOf(local_rank);
  const UniqueFd made(
      open(list.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (made.valid()) {
    std::string text;
    for (const std::string& name : options_.exclude) text += "exclude " + name + "\n";
    if (!WriteAll(made.get(), text, list).ok()) return;
  }
  AddHook(options_.folder, "record:-1::" + list, &request->env);
}

void ParkedRanks::OnStarted(bool warm) {
  ++(warm ? warm_ : cold_);
  if (warm) saved_seconds_ += taken_seconds_;
  if (!wanted() || closed_) return;
  if (warm) log_("prestart: all ranks of this machine started from parked interpreters");
  why_not_ = "waiting for the first step";
  // A list that is being written tells less than all; Always takes what an earlier one told.
  RefillLater(options_.prestart == core::Prestart::kAlways && warm_ + cold_ > 1);
}

// What was not ready as it began is made anew.
void ParkedRanks::OnKept() {
  if (wanted() && !closed_) RefillLater(options_.prestart == core::Prestart::kAlways);
}

void ParkedRanks::RefillLater(bool at_once) {
  started_ = BootTime();
  stepped_ = false;
  refill_timer_.WakeAt(at_once ? started_ : started_ + options_.patience);
}

// Under Auto, ranks that end before they have run for as long as they took to begin pay nothing.
void ParkedRanks::OnStep() {
  if (!refill_timer_.armed() || std::exchange(stepped_, true)) return;
  const Time now = BootTime();
  const Duration took = std::min(now - started_, options_.patience);
  refill_timer_.WakeAt(options_.prestart == core::Prestart::kAlways ? now : now + took);
}

void ParkedRanks::Close() {
  if (std::exchange(closed_, true)) return;
  refill_timer_.Cancel();
  EndProbe();
  for (auto& [l, parked] : parked_) Kill(&parked);
}

// ---- the probe ----

void ParkedRanks::Refill() {
  if (closed_ || filling_ || parked_.empty()) return;
  filling_ = true;
  why_not_.clear();
  const Status probed = Probe();
  if (!probed.ok()) NoneParked(probed.error().message);
}

Status ParkedRanks::HasRoom() const {
  return options_.prestart == core::Prestart::kAlways ? Status() : memory_.HasRoom();
}

// Whether this interpreter, with these options and this environment, obeys the hook at all.
Status ParkedRanks::Probe() {
  SpawnRequest request = parked_.begin()->second.wanted;
  const Result<PythonCommand> python = FindPython(request);
  if (!python.ok()) return python.error();
  Status room = HasRoom();
  if (!room.ok()) return room;
  request.path = python->path;
  request.argv = python->options;
  request.argv.insert(request.argv.end(), {"-c", "pass"});
  request.hook = nullptr;
  probe_nonce_ = MakeNonce();
  Result<SpawnedProcess> probe =
      SpawnHeld(std::move(request), "probe:" + std::to_string(kChildFd) + ":" + probe_nonce_ + ":",
                "", &probe_socket_);
  if (!probe.ok()) return probe.error();
  probe_.emplace(std::move(*probe));
  limit_timer_.WakeAt(BootTime() + kProbedWithin);
  return loop_->Watch(probe_socket_.get(), EPOLLIN, [this](uint32_t) { OnProbe(/*ended=*/false); });
}

void ParkedRanks::OnProbe(bool ended) {
  std::string text;
  bool closed = false;
  for (int i = 0; i < kReadsAtOnce && ReadSome(probe_socket_.get(), &text, &closed); ++i) {
    probe_lines_.Append(text);
  }
  const std::optional<std::string_view> line = probe_lines_.Next();
  if (!line && !closed && !ended) return;
  const Json answer = ParseJson(line.value_or(""));
  const bool obeys = answer.is_object() && answer.value("probe", Json()) == probe_nonce_;
  const bool cannot = answer.is_object() && answer.value("cannot", Json()) == probe_nonce_;
  EndProbe();
  if (cannot) return NoneParked(WhyOf(answer, "this Python cannot wait"));
  if (!obeys) {
    return NoneParked(ended ? "this Python did not answer in a minute"
                            : "this Python did not load the parking hook (as with -I, -E and -S)");
  }
  ParkNext();
}

void ParkedRanks::EndProbe() {
  limit_timer_.Cancel();
  if (!probe_) return;
  loop_->Unwatch(probe_socket_.get());
  probe_socket_.reset();
  probe_lines_.Clear();
  kill(-probe_->pid, SIGKILL);
  processes_->TakeIn(probe_->pid);
  probe_.reset();
}

// ---- parked interpreters ----

Result<SpawnedProcess> ParkedRanks::SpawnHeld(SpawnRequest request, const std::string& mode,
                                              const std::string& list, UniqueFd* socket) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return ErrnoError("socketpair", errno);
  }
  UniqueFd own(ends[0]);
  const UniqueFd its_end(ends[1]);
  if (fcntl(own.get(), F_SETFL, O_NONBLOCK) != 0) return ErrnoError("fcntl", errno);
  request.env = WithoutLate(request.env);
  AddHook(options_.folder, mode + list, &request.env);
  request.extra_fds = {its_end.get()};
  SpawnResult result = spawner_->Spawn(request);
  if (const auto* failure = std::get_if<SpawnFailure>(&result)) {
    return Error::Unavailable(failure->message);
  }
  auto& process = std::get<SpawnedProcess>(result);
  processes_->LeaveOut(process.pid);
  SetOomScore(process.pid, "1000");
  *socket = std::move(own);
  return std::move(process);
}

void ParkedRanks::ParkNext() {
  for (auto& [l, parked] : parked_) {
    if (parked.alive || parked.lost) continue;
    const Status begun = Park(l);
    if (!begun.ok()) NoneParked(begun.error().message);
    return;
  }
  Changed();
  if (ready() == 0) return;
  double most = 0;
  for (const auto& [l, parked] : parked_) most = std::max(most, parked.seconds);
  std::ostringstream line;
  line.precision(2);
  line << "prestart: " << ready() << " of " << parked_.size()
       << " parked interpreters are ready; a start saves about " << most << " s";
  log_(line.str());
}

Status ParkedRanks::Park(size_t local_rank) {
  Status room = HasRoom();
  if (!room.ok()) return room;
  Parked& parked = parked_[local_rank];
  const Result<PythonCommand> python = FindPython(parked.wanted);
  if (!python.ok()) return python.error();
  parked.python = *python;
  parked.nonce = MakeNonce();
  parked.given = WithoutLate(parked.wanted.env);
  const std::string mode = "park+record:" + std::to_string(kChildFd) + ":" + parked.nonce + ":";
  Result<SpawnedProcess> process =
      SpawnHeld(parked.wanted, mode, ListOf(local_rank), &parked.socket);
  if (!process.ok()) return process.error();
  parked.process = std::move(*process);
  parked.alive = true;
  parked.began = BootTime();
  importing_ = local_rank;
  cpu_ns_ = wait_ns_ = 0;
  limit_timer_.WakeAt(parked.began + kHeldWithin);
  duty_timer_.WakeAt(parked.began + kBurst);
  look_timer_.WakeAt(parked.began);
  const auto watch = [this](int fd, auto callback) {
    const Status watched = loop_->Watch(fd, EPOLLIN, [callback](uint32_t) { callback(); });
    if (!watched.ok()) log_("prestart: " + watched.error().message);
  };
  watch(parked.socket.get(), [this, local_rank] { OnSocket(local_rank); });
  watch(parked.process.pidfd.get(), [this, local_rank] {
    OnSocket(local_rank);  // its last words
    if (parked_[local_rank].alive) Lose(local_rank, "it ended");
  });
  const auto watch_output = [&](int fd, LineSplitter Parked::* splitter) {
    watch(fd, [this, local_rank, fd, splitter] {
      ReadOutput(local_rank, fd, &(parked_[local_rank].*splitter));
      if (parked_[local_rank].printed > kMostPrinted) Lose(local_rank, "it prints without end");
    });
  };
  watch_output(parked.process.stdout_fd.get(), &Parked::out);
  watch_output(parked.process.stderr_fd.get(), &Parked::err);
  return {};
}

void ParkedRanks::OnSocket(size_t local_rank) {
  Parked& parked = parked_[local_rank];
  std::string text;
  bool ended = false;
  for (int i = 0; i < kReadsAtOnce && ReadSome(parked.socket.get(), &text, &ended); ++i) {
    parked.lines.Append(text);
    while (const auto line = parked.lines.Next()) {
      OnLine(local_rank, *line);
      if (!parked.alive) return;
    }
    if (parked.lines.overflow()) ended = true;
  }
  if (parked.alive && ended) Lose(local_rank, "it closed its connection to the agent");
}

void ParkedRanks::OnLine(size_t local_rank, std::string_view line) {
  Parked& parked = parked_[local_rank];
  const Json said = ParseJson(line);
  const auto is = [&](const char* name) {
    return said.is_object() && said.value(name, Json()) == parked.nonce;
  };
  if (is("held")) {
    parked.held = true;
    limit_timer_.WakeAt(parked.began + kReadyWithin);
  } else if (is("again") && parked.held) {
    parked.held = false;
    limit_timer_.WakeAt(BootTime() + kHeldWithin);
    log_("prestart: local rank " + std::to_string(local_rank) +
         ": left to the program: " + WhyOf(said, "an import"));
  } else if (is("ready") && parked.held) {
    const Json took = said.value("seconds", Json());
    OnReady(local_rank, took.is_number() ? took.get<double>() : 0);
  } else if (is("cannot")) {
    Lose(local_rank, WhyOf(said, "it cannot wait"));
  } else {
    Lose(local_rank, "it answered something else than that it waits");
  }
}

void ParkedRanks::OnReady(size_t local_rank, double seconds) {
  Parked& parked = parked_[local_rank];
  parked.ready = true;
  parked.seconds = seconds;
  if (std::exchange(parked.stopped, false)) kill(-parked.process.pid, SIGCONT);
  importing_.reset();
  limit_timer_.Cancel();
  duty_timer_.Cancel();
  memory_.Update(parked.process.pid);
  ParkNext();
}

void ParkedRanks::ReadOutput(size_t local_rank, int fd, LineSplitter* splitter) {
  Parked& parked = parked_[local_rank];
  const auto show = [&](std::string_view line, Piece) {
    if (++parked.lines_shown > kMostLinesShown) return;
    log_("prestart: local rank " + std::to_string(local_rank) + ": " + std::string(line));
  };
  std::string text;
  bool ended = false;
  for (int i = 0; i < kReadsAtOnce && ReadSome(fd, &text, &ended); ++i) {
    parked.printed += text.size();
    splitter->Feed(text, BootTime(), show);
  }
  if (ended) loop_->Unwatch(fd);
}

// It is watched no more; what it has said so far was the parked interpreter's, not the rank's.
void ParkedRanks::Release(Parked* parked) {
  const auto l = std::ranges::find_if(parked_, [&](const auto& entry) {
                   return &entry.second == parked;
                 })->first;
  ReadOutput(l, parked->process.stdout_fd.get(), &parked->out);
  ReadOutput(l, parked->process.stderr_fd.get(), &parked->err);
  for (const UniqueFd* fd : {&parked->socket, &parked->process.pidfd, &parked->process.stdout_fd,
                             &parked->process.stderr_fd}) {
    loop_->Unwatch(fd->get());
  }
  if (importing_ == l) {
    importing_.reset();
    limit_timer_.Cancel();
    duty_timer_.Cancel();
  }
  parked->out = {};
  parked->err = {};
  parked->lines.Clear();
  parked->lines_shown = 0;
  parked->printed = 0;
  parked->alive = parked->held = parked->ready = parked->stopped = false;
}

void ParkedRanks::Kill(Parked* parked) {
  if (!parked->alive) return;
  Release(parked);
  // It is reaped by `processes_` alone, so the number is still its own.
  kill(-parked->process.pid, SIGKILL);
  processes_->TakeIn(parked->process.pid);
  parked->process = {};
  parked->socket.reset();
}

void ParkedRanks::Lose(size_t local_rank, const std::string& why) {
  Kill(&parked_[local_rank]);
  parked_[local_rank].lost = true;
  NoneParked("the parked interpreter of local rank " + std::to_string(local_rank) + ": " + why);
  if (!importing_) ParkNext();
}

void ParkedRanks::NoneParked(const std::string& why) {
  why_not_ = why;
  if (std::exchange(logged_, why) != why) {
    log_("prestart: " +
         std::string(ready() == 0 ? "no interpreter is parked: "
                                  : "fewer interpreters are parked than ranks run: ") +
         why);
  }
  Changed();
}

void ParkedRanks::Changed() {
  if (options_.on_change) options_.on_change();
}

// ---- beside running ranks ----

// A parked interpreter that stands runnable without a core takes one from a rank.
void ParkedRanks::OnDuty() {
  if (!importing_) return;
  Parked& parked = parked_[*importing_];
  const pid_t pid = parked.process.pid;
  const std::optional<CpuTimes> times = ReadCpuTimes(pid);
  const uint64_t ran = times ? times->ran_ns - cpu_ns_ : 0;
  const uint64_t waited = times ? times->waited_ns - wait_ns_ : 0;
  if (times) {
    cpu_ns_ = times->ran_ns;
    wait_ns_ = times->waited_ns;
  }
  if (parked.stopped) {
    kill(-pid, SIGCONT);
    parked.stopped = false;
    return duty_timer_.WakeAt(BootTime() + kBurst);
  }
  const bool crowded = parked.held && processes_->live() > 0 && (!times || waited > ran / 4);
  if (crowded) kill(-pid, SIGSTOP);
  parked.stopped = crowded;
  duty_timer_.WakeAt(BootTime() + (crowded ? kRest : kLook));
}

void ParkedRanks::OnLook() {
  if (std::ranges::none_of(parked_, [](const auto& entry) { return entry.second.alive; })) return;
  LookAtFiles();
  look_timer_.WakeAt(BootTime() + LookAtMemory());
}

// A thread that an import has left may open them when the hook looks no more.
void ParkedRanks::LookAtFiles() {
  if (BootTime() < files_at_) return;
  files_at_ = BootTime() + ParkedMemory::kLookAtMost;
  for (auto& [l, parked] : parked_) {
    if (!parked.ready) continue;
    if (const auto path = OpenAccelerator(options_.root, parked.process.pid)) {
      Lose(l, "it opened " + *path);
    }
  }
}

// How long that will do.
Duration ParkedRanks::LookAtMemory() {
  if (options_.prestart == core::Prestart::kAlways) return ParkedMemory::kLookAtMost;
  const Result<Duration> enough = memory_.Enough();
  if (enough.ok()) return *enough;
  for (auto& [l, parked] : parked_) {
    Kill(&parked);
    parked.lost = true;
  }
  NoneParked("memory became short: " + enough.error().message);
  return ParkedMemory::kLookAtMost;
}

// ---- telling ----

std::vector<prometheus::MetricFamily> ParkedRanks::Collect() const {
  const char* begun =
      "Generations that began on this machine: warm, if all its ranks started from parked "
      "interpreters, or cold.";
  return Families()
      .Gauge("lockstep_prestart_interpreters_ready",
             "Interpreters that wait to become the next generation's ranks of this machine.",
             static_cast<double>(ready()))
      .Counter("lockstep_generations_begun_total", begun, static_cast<double>(warm_),
               {{"start", "warm"}})
      .Counter("lockstep_generations_begun_total", begun, static_cast<double>(cold_),
               {{"start", "cold"}})
      .Counter("lockstep_prestart_saved_seconds_total",
               "CPU time of imports that generations found done, of the rank with the most.",
               saved_seconds_)
      .Take();
}

}  // namespace lockstep::agent
