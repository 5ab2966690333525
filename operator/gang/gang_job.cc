#include "operator/gang/gang_job.h"

#include <algorithm>
#include <utility>

#include "core/gang/coordinator/coordinator.h"
#include "core/model/names.h"
#include "operator/gang/agent_requests.h"

namespace lockstep::gang {
namespace {

constexpr Duration kShortestPoll = seconds(1);  // also while other jobs wait for their turn
constexpr Duration kLongestPoll = seconds(30);
constexpr Duration kQuick = seconds(1);        // answers so close make the next gap longer
constexpr Duration kPatience = seconds(2);     // beyond a long poll's own time
constexpr Duration kBeyond = milliseconds(5);  // after the moment from which a silence counts
constexpr Duration kPutPatience = seconds(5);
constexpr int kOk = 200;
constexpr size_t kMaxReason = 256;

// nullptr: it does not run.
const GangPeers::Member* Machine0Of(const GangPeers& peers) {
  auto found = std::ranges::find(peers.members, 0u, &GangPeers::Member::machine);
  return found == peers.members.end() ? nullptr : &*found;
}

// Whether there was no answer. An unreadable answer counts as one.
bool IsSilence(const Error& error) {
  return error.kind != ErrorKind::kTooLarge && error.kind != ErrorKind::kInvalid;
}

}  // namespace

GangJob::GangJob(GangShared* shared, std::string name)
    : shared_(shared),
      name_(std::move(name)),
      poll_(shared->loop, &shared->polls, [this] { Poll(); }),
      retry_(shared->options.first_retry, shared->options.last_retry),
      gap_(shared->options.first_gap, shared->options.last_gap),
      others_{Other{{shared->loop, &shared->polls, [this] { AskOther(0); }}, {}},
              Other{{shared->loop, &shared->polls, [this] { AskOther(1); }}, {}}},
      others_retry_(shared->options.first_retry, shared->options.last_retry),
      put_(shared->loop, &shared->puts, [this] { Put(); }),
      put_retry_(shared->options.first_retry, shared->options.last_retry) {}

void GangJob::Set(GangPeers peers) {
  if (peers == peers_) return;
  const GangPeers before = std::exchange(peers_, std::move(peers));
  const GangPeers::Member* old0 = Machine0Of(before);
  const GangPeers::Member* new0 = Machine0Of(peers_);
  bool same0 = old0 == nullptr || new0 == nullptr ? old0 == new0 : *old0 == *new0;
  bool asked_left = std::ranges::any_of(others_, [this](const Other& other) {
    return other.connection.busy() &&
           std::ranges::find(peers_.members, other.asked) == peers_.members.end();
  });
  bool goes_on = before.job_uid == peers_.job_uid && before.key == peers_.key &&
                 !before.members.empty() && same0 && !asked_left;
  if (goes_on) return;
  poll_.Leave();
  LeaveOthers();
  put_.Leave();
  version_ = 0;
  heard_ = true;
  unreadable_ = false;
  retry_.Reset();
  put_retry_.Reset();
  Time now = shared_->loop->now();
  AgentConnection& first = new0 != nullptr ? poll_ : others_[0].connection;
  first.Schedule(now);
  if (!desired_.empty()) put_.Schedule(now);
}

void GangJob::SetDesiredState(std::string desired) {
  if (desired == desired_) return;
  desired_ = std::move(desired);
  put_retry_.Reset();
  if (!put_.busy()) put_.Schedule(shared_->loop->now());
}

bool GangJob::Accepted(const std::string& desired) const {
  const GangPeers::Member* machine0 = Machine0Of(peers_);
  return machine0 != nullptr && accepted_by_ == machine0->attempt && accepted_ == desired;
}

// ---- asking ----

Duration GangJob::PollLength() const {
  if (poll_.crowded()) return kShortestPoll;
  return std::clamp<Duration>(peers_.machine_lost_after / 3, kShortestPoll, kLongestPoll);
}

// From one answer of a gang that runs to the next question.
Duration GangJob::Calm() const {
  const GangLinkOptions& options = shared_->options;
  return std::max<Duration>(options.calm, options.calm_a_job * static_cast<int64_t>(shared_->jobs));
}

// From one question to others to the next.
Duration GangJob::Pace() const {
  return std::clamp<Duration>(peers_.machine_lost_after / 10, milliseconds(100), seconds(1));
}

void GangJob::Poll() {
  const GangPeers::Member* machine0 = Machine0Of(peers_);
  if (machine0 == nullptr) return poll_.Leave();  // until Set says where it is
  const Time now = asked_at_ = shared_->loop->now();
  const Duration length = PollLength();
  poll_.Client(peers_.key, core::GangIdentity(peers_.job_uid))
      .Ask(machine0->address, GetStatusRequest(version_, length, shared_->options.by_machine),
           now + length + kPatience,
           [this](const Result<HttpAnswer>& answer) { OnAnswer(answer); });
  // A machine 0 that is dead has been silent for a while by then: what it owes is not waited for.
  if (!ask_others_) others_[0].connection.Schedule(now + length + Pace());
}

Result<core::GangStatus> GangJob::Read(const Result<HttpAnswer>& answer,
                                       const GangPeers::Member& asked) const {
  if (!answer.ok()) return answer.error();
  const std::string& who = asked.address;
  if (answer->status != kOk) {
    return Error::Unavailable(who + " answered GET /status with " + std::to_string(answer->status));
  }
  Result<core::GangStatus> status = core::ParseGangStatus(answer->body);
  if (!status.ok()) return status.error();
  if (status->job_uid != peers_.job_uid || status->machine != asked.machine ||
      status->attempt != asked.attempt) {
    return Error::Invalid(who + " is machine " + std::to_string(status->machine) + " attempt " +
                          std::to_string(status->attempt) + " of job " + status->job_uid +
                          ", not the agent that was asked");
  }
  return status;
}

void GangJob::OnAnswer(const Result<HttpAnswer>& answer) {
  Time now = shared_->loop->now();
  SetHeard(answer.ok() || !IsSilence(answer.error()));
  Result<core::GangStatus> status = Read(answer, *Machine0Of(peers_));
  unreadable_ = heard_ && !status.ok();
  Duration wait{};
  if (!status.ok()) {
    version_ = 0;  // so that its next answer counts as new
    poll_error_ = status.error().message;
    wait = retry_.Take();
    // If other members are alive, it may only listen late.
    if (others_answer_) wait = std::min(wait, Pace());
    if (!ask_others_) others_[0].connection.Schedule(now);
  } else {
    LeaveOthers();
    poll_error_.clear();
    retry_.Reset();
    version_ = status->version;
    if (status->phase == core::GangPhase(core::CoordinatorPhase::kRunning)) wait = Calm();
    if (now - std::exchange(answered_at_, now) >= kQuick) gap_.Reset();
    wait = std::max(wait, asked_at_ + gap_.Take() - now);
  }
  if (!status.ok()) poll_.Leave();
  poll_.GiveWay();
  poll_.Schedule(now + wait);
  if (status.ok()) shared_->owner->OnStatus(std::string(name_), *status, now);
}

// ---- asking others ----

const GangPeers::Member* GangJob::NextOther() {
  for (size_t i = 0; i < peers_.members.size(); ++i) {
    next_other_ = (next_other_ + 1) % peers_.members.size();
    if (peers_.members[next_other_].machine != 0) return &peers_.members[next_other_];
  }
  return nullptr;
}

void GangJob::AskOther(size_t which) {
  const GangPeers::Member* next = NextOther();
  if (next == nullptr) return LeaveOthers();  // until machine 0 fails to answer once more
  ask_others_ = true;
  Other& other = others_[which];
  AgentConnection& second = others_[1 - which].connection;
  if (second.busy() && others_[1 - which].asked == *next) return other.connection.Leave();
  const Time now = shared_->loop->now();
  other.asked = *next;
  other.connection.Client(peers_.key, core::GangIdentity(peers_.job_uid))
      .Ask(other.asked.address, GetStatusRequest(), now + kPatience,
           [this, which](const Result<HttpAnswer>& answer) { OnOthersAnswer(which, answer); });
  // A late member may be dead too, so the next one is asked meanwhile.
  if (!second.busy()) second.Schedule(now + Pace());
}

void GangJob::OnOthersAnswer(size_t which, const Result<HttpAnswer>& answer) {
  const Time now = shared_->loop->now();
  AgentConnection& connection = others_[which].connection;
  const Result<core::GangStatus> status = Read(answer, others_[which].asked);
  others_answer_ = status.ok();
  poll_error_ = status.ok() ? "" : status.error().message;
  if (status.ok()) others_retry_.Reset();
  const Duration wait = status.ok() ? UntilSilenceCounts(*status) : others_retry_.Take();
  // One series of questions is enough, whichever member answers.
  AgentConnection& second = others_[1 - which].connection;
  if (status.ok() || !second.busy()) second.Leave();
  if (!status.ok()) connection.Leave();
  connection.GiveWay();
  connection.Schedule(now + wait);
  if (status.ok()) shared_->owner->OnStatus(std::string(name_), *status, now);
}

// Until a member asked again will have missed machine 0 for machineLostAfter, if that stays silent.
Duration GangJob::UntilSilenceCounts(const core::GangStatus& status) const {
  const GangPeers::Member* machine0 = Machine0Of(peers_);
  Duration wait = Pace();
  for (const core::GangStatus::MachineStatus& told : status.machines) {
    if (machine0 == nullptr || told.index != 0 || told.attempt != machine0->attempt) continue;
    const Duration left = peers_.machine_lost_after - told.silent_for;
    if (left > Duration::zero()) wait = std::min(wait, left + kBeyond);
  }
  return wait;
}

void GangJob::LeaveOthers() {
  for (Other& other : others_) other.connection.Leave();
  ask_others_ = others_answer_ = false;
  others_retry_.Reset();
}

// ---- telling ----

void GangJob::SetHeard(bool heard) {
  const bool again = heard && !heard_;
  heard_ = heard;
  if (again && !put_.busy()) put_.Schedule(shared_->loop->now());
}

// A machine that does not answer polls gets no PUT. The polls continue and show when it is back.
void GangJob::Put() {
  const GangPeers::Member* machine0 = Machine0Of(peers_);
  if (machine0 == nullptr || desired_.empty() || Accepted(desired_) || !heard_) return put_.Leave();
  HttpClient& client = put_.Client(peers_.key, core::GangIdentity(peers_.job_uid));
  said_ = desired_;
  said_to_ = machine0->attempt;
  client.Ask(machine0->address, PutGangRequest(said_), shared_->loop->now() + kPutPatience,
             [this](const Result<HttpAnswer>& answer) { OnPutAnswer(answer); });
}

void GangJob::OnPutAnswer(const Result<HttpAnswer>& answer) {
  put_.Leave();
  bool accepted = answer.ok() && answer->status == kOk;
  Time now = shared_->loop->now();
  if (!accepted) {
    put_.Schedule(now + put_retry_.Take());
    // A refusal would be repeated, so the next try waits longest.
    if (answer.ok()) put_retry_.SetLongest();
    put_error_ = answer.ok() ? "machine 0 refused PUT /gang: " + answer->body.substr(0, kMaxReason)
                             : answer.error().message;
    return;
  }
  put_error_.clear();
  put_retry_.Reset();
  accepted_ = std::exchange(said_, "");
  accepted_by_ = said_to_;
  if (desired_.empty()) return;
  if (!Accepted(desired_)) return put_.Schedule(now);
  shared_->owner->OnAccepted(std::string(name_));
}

}  // namespace lockstep::gang
