#include "worker/trainer/collectives/nccl/nccl_agreement.h"

#include <utility>

#include "base/thread.h"
#include "worker/trainer/collectives/nccl/nccl_handshake.h"
#include "worker/trainer/collectives/store/failure.h"

namespace lockstep::collectives {
namespace {

// Beyond the deadline of the initialisation, so that ranks that reach it still tell each other.
constexpr Duration kTellTime = seconds(2);

}  // namespace

NcclAgreement::NcclAgreement(Rendezvous& rendezvous, std::string generation, Time deadline,
                             std::function<void()> failed)
    : rendezvous_(rendezvous),
      generation_(std::move(generation)),
      deadline_(std::min(deadline, kNever - kTellTime) + kTellTime) {
  // Alone, there is nobody to agree with.
  if (rendezvous_.world() == 1) return;
  Result<std::thread> thread = StartThread([this, failed = std::move(failed)] { Watch(failed); });
  if (thread.ok()) {
    thread_ = std::move(*thread);
    return;
  }
  error_ = Error{thread.error().kind,
                 "rank " + std::to_string(rendezvous_.rank()) + ": " + thread.error().message};
  [[maybe_unused]] const Status told =
      rendezvous_.Set(RollKey(generation_, "over"), EncodeRoll(*error_));
}

NcclAgreement::~NcclAgreement() {
  if (!thread_.joinable()) return;
  [[maybe_unused]] const Status left = Agree(Error::Unavailable("the initialisation was left"));
}

void NcclAgreement::Watch(const std::function<void()>& failed) {
  Result<std::string> over = rendezvous_.Get(RollKey(generation_, "over"), deadline_);
  if (over.ok()) over = DecodeRoll(*over);
  if (over.ok()) return;
  error_ = over.error();
  failed();
}

Status NcclAgreement::AwaitAll() {
  for (int rank = 1; rank < rendezvous_.world(); ++rank) {
    const Result<std::string> made =
        rendezvous_.Get(RollKey(generation_, std::to_string(rank) + "/made"), deadline_);
    if (!made.ok()) return made.error();
  }
  return {};
}

Status NcclAgreement::Agree(const Status& own) {
  if (!thread_.joinable()) return error_ ? Status(*error_) : own;
  const std::string rank = std::to_string(rendezvous_.rank());
  // What fails here fails in Watch, too, and a key that is set already was set by who came first.
  [[maybe_unused]] Status set;
  if (!own.ok()) {
    const Error error{own.error().kind, "rank " + rank + ": " + own.error().message};
    set = rendezvous_.Set(RollKey(generation_, "over"), EncodeRoll(error));
  }
  set = rendezvous_.Set(RollKey(generation_, rank + "/made"), "");
  if (rendezvous_.rank() == 0 && own.ok()) {
    const Status all = AwaitAll();
    set = rendezvous_.Set(RollKey(generation_, "over"),
                          all.ok() ? EncodeRoll(std::string()) : EncodeRoll(all.error()));
  }
  thread_.join();
  if (!error_) return own;
  HearTogether(rendezvous_, generation_);
  // An abort for another rank's error makes this rank's own start fail as well.
  return error_->message.starts_with("rank " + rank + ": ") ? *error_ : AtPeers(*error_);
}

}  // namespace lockstep::collectives
