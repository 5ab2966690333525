#include "operator/gang/gated_line.h"

#include <utility>

namespace lockstep::gang {

void GatedLine::Leave() {
  timer_.Cancel();
  client_.reset();
  if (std::exchange(place_, Place::kNone) != Place::kNone) gate_->Leave(this);
}

void GatedLine::Enter() {
  if (place_ == Place::kQueue) return;
  if (place_ == Place::kInside && crowded()) Leave();
  if (place_ == Place::kNone && !gate_->Enter(this)) {
    place_ = Place::kQueue;
    return;
  }
  place_ = Place::kInside;
  begin_();
}

void GatedLine::OnAdmitted() {
  if (place_ != Place::kQueue) return;
  place_ = Place::kInside;
  begin_();
}

HttpClient& GatedLine::Client(const Key& key, const std::string& identity) {
  if (!client_) client_.emplace(loop_, key, identity);
  return *client_;
}

}  // namespace lockstep::gang
