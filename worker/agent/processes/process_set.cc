#include "worker/agent/processes/process_set.h"

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "worker/agent/processes/death.h"
#include "worker/agent/processes/descendants.h"

namespace lockstep::agent {
namespace {

// While the guard is killing; see LiveTable.
constexpr Duration kReapRetry = milliseconds(1);

bool IsZombie(pid_t child, siginfo_t* info) {
  *info = {};
  return waitid(P_PID, static_cast<id_t>(child), info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info->si_pid == child;
}

}  // namespace

ProcessSet::ProcessSet(EventLoop* loop, LiveTable* table, Owner* owner)
    : loop_(loop),
      table_(table),
      owner_(owner),
      kill_timer_(loop, [this] { KillAll(); }),
      ending_timer_(loop, [this] { SignalEnding(); }),
      unkillable_timer_(loop, [this] { ReportUnkillable(); }),
      reap_timer_(loop, [this] { Reap(); }),
      sweep_timer_(loop, [this] { Sweep(); }) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  loop_->OnSignal(SIGCHLD, [this] { OnChildSignal(); });
  // Children that are stopped and go on (ParkedRanks) are no reason to look.
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  action.sa_flags = SA_NOCLDSTOP;
  sigaction(SIGCHLD, &action, nullptr);
}

ProcessSet::~ProcessSet() {
  for (const auto& [pid, leader] : leaders_) loop_->Unwatch(leader.pidfd.get());
  loop_->OnSignal(SIGCHLD, [] {});
}

void ProcessSet::SetGuard(pid_t guard) {
  left_out_.erase(std::exchange(guard_, guard));
  if (guard != 0) left_out_.insert(guard);
}

// Its SIGCHLD may have come already.
void ProcessSet::TakeIn(pid_t child) {
  if (left_out_.erase(child) > 0) ReapLater();
}

Status ProcessSet::Add(int rank, pid_t pid, UniqueFd pidfd) {
  Status added = table_->Add(pid);
  if (!added.ok()) return added;
  const int fd = pidfd.get();
  leaders_[pid] = {.rank = rank, .pidfd = std::move(pidfd), .signalled = false};
  return loop_->Watch(fd, EPOLLIN, [this, pid](uint32_t) { OnExit(pid); });
}

void ProcessSet::Discard(pid_t pid) {
  const auto found = leaders_.find(pid);
  if (found == leaders_.end()) return;
  kill(-pid, SIGKILL);
  loop_->Unwatch(found->second.pidfd.get());
  leaders_.erase(found);
  table_->Remove(pid);
  ReapLater();
}

void ProcessSet::OnExit(pid_t pid) {
  siginfo_t info{};
  const auto found = leaders_.find(pid);
  if (found == leaders_.end() || !IsZombie(pid, &info)) return;
  // A zombie keeps its group's number: this hits nobody else.
  kill(-pid, SIGKILL);
  core::Failure death = DeathOf(info);
  death.rank = found->second.rank;
  death.at = loop_->now();
  death.by_itself = !found->second.signalled;
  loop_->Unwatch(found->second.pidfd.get());
  leaders_.erase(found);
  if (spared_.erase(pid) > 0) left_out_.erase(pid);
  ending_.erase(pid);
  table_->Remove(pid);
  ReapLater();
  if (stopping_) ScheduleSweep();
  owner_->OnDeath(std::move(death));
}

// Orphans that ended; leaders are seen by their pidfds.
void ProcessSet::OnChildSignal() {
  ReapLater();
  if (stopping_) Sweep();
}

void ProcessSet::ReapLater(Duration after) {
  if (!reap_timer_.armed()) reap_timer_.WakeAt(BootTime() + after);
}

void ProcessSet::Reap() {
  if (!table_->MayReap()) return ReapLater(kReapRetry);
  siginfo_t info{};
  for (const pid_t child : OwnChildren()) {
    if (!leaders_.contains(child) && IsZombie(child, &info)) waitpid(child, nullptr, WNOHANG);
  }
}

std::vector<pid_t> ProcessSet::OwnChildren() const {
  std::vector<pid_t> children = ChildrenOf(getpid());
  std::erase_if(children, [this](pid_t child) { return left_out_.contains(child); });
  return children;
}

bool ProcessSet::KillOrphans(const std::function<Whose(pid_t)>& whose) {
  bool any = false;
  siginfo_t info{};
  for (const pid_t child : OwnChildren()) {
    if (leaders_.contains(child) || IsZombie(child, &info)) continue;
    const Whose is = whose(child);
    any = any || is != Whose::kOthers;
    if (is != Whose::kMeant) continue;
    // What becomes the agent's child meanwhile is judged by itself, the next time.
    KillDescendants(child, {});
    KillDescendant({child, getpid()}, getpid());
  }
  if (!any) Reap();
  return any;
}

bool ProcessSet::Spare(const std::set<pid_t>& spared) {
  bool fewer = false;
  for (const pid_t pid : std::set<pid_t>(spared_)) {
    if (spared.contains(pid)) continue;
    spared_.erase(pid);
    left_out_.erase(pid);
    leaders_.at(pid).signalled = true;
    kill(-pid, SIGKILL);
    fewer = true;
  }
  for (const pid_t pid : spared) {
    if (!leaders_.contains(pid)) continue;
    spared_.insert(pid);
    left_out_.insert(pid);
  }
  return fewer;
}

void ProcessSet::TakeInSpared() {
  for (const pid_t pid : std::exchange(spared_, {})) left_out_.erase(pid);
}

void ProcessSet::Stop(Time kill_at, const std::set<pid_t>& spared, const EndingLeaders& ending) {
  const bool now = kill_at <= BootTime();
  const bool fewer = Spare(spared);
  if (!stopping_) {
    stopping_ = true;
    if (ending.until > BootTime()) {
      ending_ = ending.pids;
      ending_timer_.WakeAt(ending.until);
    }
    if (!now) SignalGroups(SIGTERM);
  } else if (now) {
    ending_.clear();
  }
  if (killing_ && !fewer) return ScheduleSweep();
  if (killing_ || now || leaders_.size() == spared_.size()) return KillAll();
  if (kill_at >= kill_at_) return;
  kill_at_ = kill_at;
  kill_timer_.WakeAt(kill_at);
}

void ProcessSet::SignalGroups(int signal) {
  for (const auto& [pid, leader] : leaders_) {
    if (!spared_.contains(pid) && !ending_.contains(pid)) SignalGroup(pid, signal);
  }
}

void ProcessSet::SignalGroup(pid_t pid, int signal) {
  // One that was ending by itself, though we have not heard of it yet, was not signalled. Its peers
  // may have found their connections to it ended, and their deaths may be the reason for this stop.
  siginfo_t info{};
  Leader& leader = leaders_.at(pid);
  leader.signalled = leader.signalled || !(IsZombie(pid, &info) || IsEnding(pid));
  kill(-pid, signal);
}

void ProcessSet::SignalEnding() {
  for (const pid_t pid : std::exchange(ending_, {})) {
    if (leaders_.contains(pid)) SignalGroup(pid, killing_ ? SIGKILL : SIGTERM);
  }
}

void ProcessSet::KillAll() {
  kill_timer_.Cancel();
  if (!std::exchange(killing_, true)) unkillable_timer_.WakeAt(BootTime() + kUnkillableAfter);
  SignalGroups(SIGKILL);
  // Other children at once, too. What descends from a leader and left its group comes here when
  // that is dead; until then its threads are not looked for in /proc, which is work for each of
  // them.
  for (const pid_t child : OwnChildren()) {
    if (!leaders_.contains(child)) KillDescendant({child, getpid()}, getpid());
  }
  ScheduleSweep();
}

void ProcessSet::ReportUnkillable() {
  std::string names;
  for (const Descendant& left : DescendantsOf(getpid(), left_out_)) {
    names += (names.empty() ? "" : ", ") + DescribeProcess(left.pid);
  }
  owner_->OnUnkillable(names);
}

void ProcessSet::ScheduleSweep() {
  if (std::exchange(sweep_scheduled_, true)) return;
  loop_->Post(lifetime_.Guard([this] {
    sweep_scheduled_ = false;
    Sweep();
  }));
}

// What is left will end with a SIGCHLD, which leads here again.
void ProcessSet::Sweep() {
  if (!stopping_ || leaders_.size() > spared_.size()) return;
  if (!killing_) return KillAll();
  if (!table_->MayReap()) {
    sweep_timer_.WakeAt(BootTime() + kReapRetry);
    return;
  }
  // The children of one that died meanwhile became ours before it was a zombie: when all of a list
  // are zombies and the next list is the same, that is all.
  siginfo_t info{};
  std::vector<pid_t> children = OwnChildren();
  for (std::vector<pid_t> before; before != children;) {
    if (!std::ranges::all_of(children, [&](pid_t child) { return IsZombie(child, &info); })) {
      KillDescendants(getpid(), left_out_);
      return;
    }
    before = std::exchange(children, OwnChildren());
  }
  unkillable_timer_.Cancel();
  ending_timer_.Cancel();
  stopping_ = false;
  killing_ = false;
  kill_at_ = kNever;
  owner_->OnGone();
}

}  // namespace lockstep::agent
