#include "operator/kube/lease_election.h"

#include <cassert>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/thread.h"
#include "base/wall_time.h"
#include "operator/kube/http/transport.h"
#include "operator/kube/inbox.h"
#include "operator/kube/lease_loop.h"

namespace lockstep::kube {

class LeaseThread {
 public:
  LeaseThread(Transport* transport, const LeaseOptions& options, Permit* permit,
              LeaseHandlers handlers)
      : transport_(transport),
        permit_(permit),
        handlers_(std::move(handlers)),
        loop_(options),
        thread_(StartThreadOrThrow([this] { Run(); })) {}

  ~LeaseThread() {
    BeginStop();
    thread_.join();
  }
  void BeginStop() { inbox_->Stop(); }
  LeaseThread(const LeaseThread&) = delete;
  LeaseThread& operator=(const LeaseThread&) = delete;

 private:
  struct Answer {
    std::optional<Result<Response>> response = {};
    bool empty() const { return !response; }
  };

  using AnswerBox = std::shared_ptr<Inbox<Answer>>;

  void Run() {
    while (!inbox_->Stopping()) {
      LeaseLoop::Step step = loop_.Next(BootTime(), WallNow());
      UpdatePermit();
      Do(std::move(step), inbox_);
      UpdatePermit();
    }
    permit_->Drop();
    loop_.Release(BootTime());
    const AnswerBox last = std::make_shared<Inbox<Answer>>();
    for (;;) {
      LeaseLoop::Step step = loop_.Next(BootTime(), WallNow());
      if (loop_.state() != LeaseLoop::State::kReleasing) return;
      Do(std::move(step), last);
    }
  }

  void Do(LeaseLoop::Step step, const AnswerBox& inbox) {
    if (!step.call) {
      inbox->Take(step.until);
      return;
    }
    const Time sent = BootTime();
    const uint64_t number = inbox->Begin();
    transport_->Send(std::move(step.request), step.timeout,
                     [inbox, number](Result<Response> answer) {
                       inbox->Put(number, [&](Answer& put) { put.response = std::move(answer); });
                     });
    // The transport ends the call at its deadline, but the lease's safety does not depend on that.
    const bool waits = loop_.state() == LeaseLoop::State::kWaiting;
    const Answer answer = inbox->Take(waits ? kNever : sent + step.timeout);
    if (answer.empty()) return;
    const Status status = loop_.OnAnswer(*answer.response, BootTime());
    if (!status.ok() && handlers_.on_problem) handlers_.on_problem(status.error());
    if (loop_.state() != LeaseLoop::State::kWaiting || loop_.other() == other_) return;
    other_ = loop_.other();
    if (!other_.empty() && handlers_.on_waiting) handlers_.on_waiting(other_);
  }

  // The permit lasts as long as the lease is held.
  void UpdatePermit() {
    const bool holding = loop_.state() == LeaseLoop::State::kHolding;
    if (holding) {
      permit_->HoldUntil(loop_.held_until());
    } else {
      permit_->Drop();
    }
    if (holding == held_) return;
    held_ = holding;
    const auto& handler = holding ? handlers_.on_started : handlers_.on_lost;
    if (handler) handler();
  }

  Transport* transport_;
  Permit* permit_;
  const LeaseHandlers handlers_;
  LeaseLoop loop_;  // this and the next two: the thread's
  bool held_ = false;
  std::string other_;  // who else was last seen to hold it
  const AnswerBox inbox_ = std::make_shared<Inbox<Answer>>();
  std::thread thread_;
};

LeaseElection::LeaseElection(Transport* transport, const LeaseOptions& options, Permit* permit,
                             LeaseHandlers handlers) {
  assert(options.duration > options.renew_deadline);
  assert(options.renew_deadline * 5 > options.retry * 6);
  assert(!options.identity.empty());
  thread_ = std::make_unique<LeaseThread>(transport, options, permit, std::move(handlers));
}

LeaseElection::~LeaseElection() = default;

void LeaseElection::Stop() { thread_.reset(); }

void LeaseElection::BeginStop() { thread_->BeginStop(); }

}  // namespace lockstep::kube
