#include "cli/cluster/page/gang_follower.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>
#include <variant>

#include "base/text/json.h"
#include "core/text/limited_text.h"

namespace lockstep::cli {
namespace {

constexpr Duration kFirstPause = seconds(1);
constexpr Duration kLongestPause = seconds(30);
constexpr size_t kMostOfWords = 4096;
constexpr double kOldest = 1e9;  // seconds
constexpr std::string_view kAge = "{\"age\":";
constexpr std::string_view kGang = ",\"gang\":";

}  // namespace

Result<GangLine> ParseGangLine(std::string_view line) {
  const size_t gang = line.find(kGang);
  if (!line.starts_with(kAge) || gang == std::string_view::npos || !line.ends_with('}')) {
    return Error::Invalid("the agent gives an answer that this version can't read");
  }
  const Json age = ParseJson(line.substr(kAge.size(), gang - kAge.size()));
  line.remove_prefix(gang + kGang.size());
  line.remove_suffix(1);
  Result<core::GangStatus> status = core::ParseGangStatus(line);
  if (!status.ok()) return status.error();
  if (!age.is_number() || age < 0 || age > kOldest) {
    return Error::Invalid("an agent's age is no number of seconds");
  }
  return GangLine{duration_cast<Duration>(std::chrono::duration<double>(age.get<double>())),
                  *std::move(status)};
}

GangFollower::GangFollower(EventLoop* loop, Spawner* spawner, Owner* owner)
    : loop_(loop),
      spawner_(spawner),
      owner_(owner),
      pause_(kFirstPause),
      again_(loop, [this] { Start(); }),
      silence_(loop, [this] { End("it has been silent for 30 s"); }) {}

GangFollower::~GangFollower() { Kill(); }

void GangFollower::Follow(const std::string& uid, std::vector<std::string> argv) {
  if (uid == uid_) return;
  Stop();
  uid_ = uid;
  argv_ = std::move(argv);
  born_.reset();
  pause_ = kFirstPause;
  Start();
}

void GangFollower::Stop() {
  uid_.clear();
  again_.Cancel();
  Kill();
}

void GangFollower::Kill() {
  silence_.Cancel();
  if (!process_) return;
  for (UniqueFd* fd : {&process_->stdout_fd, &process_->stderr_fd}) {
    if (fd->valid()) loop_->Unwatch(fd->get());
  }
  syscall(SYS_pidfd_send_signal, process_->pidfd.get(), SIGKILL, nullptr, 0);
  waitpid(process_->pid, nullptr, 0);
  process_.reset();
}

void GangFollower::Start() {
  SpawnRequest request;
  request.path = argv_.front();
  request.argv = argv_;
  request.env = OwnEnvironment();
  SpawnResult result = spawner_->Spawn(request);
  if (const auto* failure = std::get_if<SpawnFailure>(&result)) return End(failure->message);
  process_ = std::move(std::get<SpawnedProcess>(result));
  lines_.Clear();
  words_.clear();
  for (const UniqueFd* fd : {&process_->stdout_fd, &process_->stderr_fd}) {
    const Status watched = loop_->Watch(fd->get(), EPOLLIN, [this](uint32_t) { Read(); });
    if (!watched.ok()) return End(watched.error().message);
  }
  silence_.WakeAt(BootTime() + kSilence);
}

void GangFollower::Read() {
  std::array<char, 65536> block;
  bool some = false;
  const auto read_one = [&](UniqueFd& fd, const auto& take) {
    if (!fd.valid()) return;
    const ssize_t got = read(fd.get(), block.data(), block.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got > 0) {
      some = true;
      return take(std::string_view(block.data(), static_cast<size_t>(got)));
    }
    loop_->Unwatch(fd.get());
    fd.reset();
  };
  read_one(process_->stdout_fd, [&](std::string_view data) { lines_.Append(data); });
  read_one(process_->stderr_fd, [&](std::string_view data) {
    words_.append(data.substr(0, kMostOfWords - std::min(words_.size(), kMostOfWords)));
  });
  if (some) silence_.WakeAt(BootTime() + kSilence);
  std::optional<std::string> newest;  // many may have come at once
  bool beat = false;
  while (const auto line = lines_.Next()) {
    beat = beat || line->empty();
    if (!line->empty()) newest = *line;
  }
  if (lines_.overflow()) return End("its answer has more than 2 MiB");
  const std::string uid = uid_;
  if (newest) {
    OnLine(*newest);
  } else if (beat) {
    owner_->OnGangBeat();
  }
  if (uid != uid_ || !process_) return;
  if (process_->stdout_fd.valid() || process_->stderr_fd.valid()) return;
  End(words_.empty() ? "kubectl exec has ended" : words_);
}

void GangFollower::OnLine(std::string_view line) {
  const Result<GangLine> news = ParseGangLine(line);
  if (!news.ok()) return End(news.error().message);
  pause_ = kFirstPause;
  // The answer that took the shortest way is nearest to the truth.
  const Time born = BootTime() - news->age;
  born_ = std::min(born_.value_or(born), born);
  owner_->OnGang(news->gang, *born_);
}

void GangFollower::End(std::string why) {
  Kill();
  again_.WakeAt(BootTime() + pause_);
  pause_ = std::min<Duration>(2 * pause_, kLongestPause);
  why.erase(why.find_last_not_of(" \r\n") + 1);
  owner_->OnGangLost(core::OneLine(core::FirstBytes(why, kMostOfWords)));
}

}  // namespace lockstep::cli
