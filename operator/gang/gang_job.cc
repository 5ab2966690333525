#include "operator/gang/gang_job.h"

#include <algorithm>
#include <utility>

#include "core/gang/coordinator.h"
#include "core/model/names.h"

namespace lockstep::gang {
namespace {

constexpr Duration kShortestPoll = seconds(1);  // also while other jobs wait for their turn
constexpr Duration kLongestPoll = seconds(30);
constexpr Duration kQuick = seconds(1);     // answers so close make the next gap longer
constexpr Duration kPatience = seconds(2);  // beyond a long poll's own time
constexpr Duration kPutPatience = seconds(5);
constexpr int kOk = 200;
constexpr size_t kMaxReason = 256;

// nullptr: it does not run.
const GangPeers::Member* Machine0Of(const GangPeers& peers) {
  auto found = std::ranges::find(peers.members, 0u, &GangPeers::Member::machine);
  return found == peers.members.end() ? nullptr : &*found;
}

// Whether nobody answered. An answer that can't be read counts as one.
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
      put_(shared->loop, &shared->puts, [this] { Put(); }),
      put_retry_(shared->options.first_retry, shared->options.last_retry) {}

void GangJob::Set(GangPeers peers) {
  if (peers == peers_) return;
  const GangPeers before = std::exchange(peers_, std::move(peers));
  const GangPeers::Member* old0 = Machine0Of(before);
  const GangPeers::Member* new0 = Machine0Of(peers_);
  bool same0 = old0 == nullptr || new0 == nullptr ? old0 == new0 : *old0 == *new0;
  bool asked_left =
      poll_.busy() && std::ranges::find(peers_.members, asked_) == peers_.members.end();
  bool goes_on = before.job_uid == peers_.job_uid && before.key == peers_.key &&
                 !before.members.empty() && same0 && !asked_left;
  if (goes_on) return;
  poll_.Leave();
  put_.Leave();
  version_ = 0;
  heard_ = true;
  unreadable_ = false;
  ask_others_ = false;
  retry_.Reset();
  put_retry_.Reset();
  Time now = shared_->loop->now();
  poll_.Schedule(now);
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

// The next machine to ask: machine 0; while it does not answer, machine 0 and another by turns.
const GangPeers::Member* GangJob::NextToAsk() {
  const GangPeers::Member* machine0 = Machine0Of(peers_);
  if (machine0 != nullptr && !ask_others_) return machine0;
  for (size_t i = 0; i < peers_.members.size(); ++i) {
    next_other_ = (next_other_ + 1) % peers_.members.size();
    if (peers_.members[next_other_].machine != 0) return &peers_.members[next_other_];
  }
  return machine0;
}

void GangJob::Poll() {
  const GangPeers::Member* next = NextToAsk();
  if (next == nullptr) return poll_.Leave();  // until Set says whom
  asked_ = *next;
  asked_at_ = shared_->loop->now();
  HttpClient& client = poll_.Client(peers_.key, core::GangIdentity(peers_.job_uid));
  bool machine0 = asked_.machine == 0;
  Duration length = machine0 ? PollLength() : Duration::zero();
  client.Ask(asked_.address, machine0 ? GetStatusRequest(version_, length) : GetStatusRequest(),
             shared_->loop->now() + length + kPatience,
             [this](const Result<HttpAnswer>& answer) { OnAnswer(answer); });
}

Result<core::GangStatus> GangJob::Read(const Result<HttpAnswer>& answer) const {
  if (!answer.ok()) return answer.error();
  std::string who = asked_.address;
  if (answer->status != kOk) {
    return Error::Unavailable(who + " answered GET /status with " + std::to_string(answer->status));
  }
  Result<core::GangStatus> status = core::ParseGangStatus(answer->body);
  if (!status.ok()) return status.error();
  if (status->job_uid != peers_.job_uid || status->machine != asked_.machine ||
      status->attempt != asked_.attempt) {
    return Error::Invalid(who + " is machine " + std::to_string(status->machine) + " attempt " +
                          std::to_string(status->attempt) + " of job " + status->job_uid +
                          ", not who was asked");
  }
  return status;
}

void GangJob::OnAnswer(const Result<HttpAnswer>& answer) {
  Time now = shared_->loop->now();
  if (asked_.machine == 0) SetHeard(answer.ok() || !IsSilence(answer.error()));
  Result<core::GangStatus> status = Read(answer);
  Duration wait{};
  if (asked_.machine == 0) unreadable_ = heard_ && !status.ok();
  ask_others_ = !status.ok() && asked_.machine == 0;
  if (!status.ok()) {
    version_ = 0;  // so that its next answer counts as new
    poll_error_ = status.error().message;
    wait = retry_.Take();
  } else {
    poll_error_.clear();
    if (status->machine != 0) {
      // Machine 0 may only be late to listen: it is asked again as soon as it would be without
      // this.
      wait = std::clamp<Duration>(peers_.machine_lost_after / 10, milliseconds(100), seconds(1));
      wait = std::min(wait, retry_.next());
    } else {
      retry_.Reset();
      version_ = status->version;
      if (status->phase == core::GangPhase(core::CoordinatorPhase::kRunning))
        wait = shared_->options.calm;
      if (now - std::exchange(answered_at_, now) >= kQuick) gap_.Reset();
      wait = std::max(wait, asked_at_ + gap_.Take() - now);
    }
  }
  if (!status.ok() || poll_.crowded()) poll_.Leave();
  poll_.Schedule(now + wait);
  if (status.ok()) shared_->handlers.on_status(std::string(name_), *status, now);
}

// ---- telling ----

void GangJob::SetHeard(bool heard) {
  const bool again = heard && !heard_;
  heard_ = heard;
  if (again && !put_.busy()) put_.Schedule(shared_->loop->now());
}

// A machine that does not answer polls gets no PUT; the polls go on and show when it is back.
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
  if (shared_->handlers.on_accepted) shared_->handlers.on_accepted(std::string(name_));
}

}  // namespace lockstep::gang
