#include "core/gang/coordinator/code_versions.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/gang/protocol/rules.h"

namespace lockstep::core {
namespace {

std::string ListOf(const std::vector<uint32_t>& machines) {
  std::string list;
  for (const uint32_t machine : machines) {
    list.append(list.empty() ? "" : ", ").append(std::to_string(machine));
  }
  return list;
}

std::string Short(const std::string& digest) { return digest.substr(0, 12); }

}  // namespace

bool CodeVersions::HasVersion(const Roster::Slot& slot, const std::string& digest) {
  return slot.code && std::ranges::find(slot.code->digests, digest) != slot.code->digests.end();
}

bool CodeVersions::MembersHold(const std::string& digest) const {
  return digest.empty() || std::ranges::all_of(roster_.gang(), [&](const Roster::Slot& slot) {
           return slot.connection != 0 && HasVersion(slot, digest);
         });
}

std::vector<uint32_t> CodeVersions::Lacking(const std::string& digest) const {
  std::vector<uint32_t> machines;
  for (const Roster::Slot& slot : roster_.gang()) {
    if (slot.connection == 0 || !HasVersion(slot, digest)) machines.push_back(slot.machine);
  }
  return machines;
}

bool CodeVersions::Known() const {
  return !synced_ || settled_ ||
         (heard_operator_ && std::ranges::all_of(roster_.gang(), [](const Roster::Slot& slot) {
            return slot.code.has_value();
          }));
}

bool CodeVersions::HeldBy(const Members& machines) const {
  for (uint32_t place = 0; place < machines.size() && !wanted_.digest.empty(); ++place) {
    if (!HasVersion(roster_[machines.At(place)], wanted_.digest)) return false;
  }
  return true;
}

bool CodeVersions::Lost() const {
  return synced_ && !wanted_.digest.empty() && Known() &&
         std::ranges::all_of(roster_.gang(),
                             [](const Roster::Slot& slot) { return slot.within_reach(); }) &&
         std::ranges::none_of(roster_, [this](const Roster::Slot& slot) {
           return slot.within_reach() && HasVersion(slot, wanted_.digest);
         });
}

// The version of the latest generation counts.
void CodeVersions::Adopt(const std::string& digest, Generation generation) {
  if (settled_ || digest.empty() || generation <= wanted_.generation) return;
  if (digest == wanted_.digest) {
    wanted_.generation = generation;  // a user may have gone back to it
    return;
  }
  wanted_ = Version{digest, generation};
  outbox_.Change();
}

void CodeVersions::OnHeld(Roster::Slot& slot, const HeldCode& held) {
  if (!synced_) return;
  slot.code = held;
  if (HasVersion(slot, slot.fetching_code)) slot.fetching_code.clear();
  Adopt(held.ran, held.generation);
  outbox_.Change();
}

void CodeVersions::OnFailed(Time now, Roster::Slot& slot, const CodeFailed& failed) {
  if (failed.digest != slot.fetching_code) return;
  slot.fetching_code.clear();
  retry_at_ = now + kPause;
  const std::string why = "machine " + std::to_string(slot.machine) +
                          " could not get the code from machine " +
                          std::to_string(slot.fetches_from) + ": " + failed.reason;
  outbox_.Log(why);
  if (offer_ && offer_->digest == failed.digest) {
    if (++tries_ >= kMostTries) DropOffer(why);
  } else {
    problem_ = why;
  }
  outbox_.Change();
}

void CodeVersions::OnOperator(const std::optional<DesiredState::Code>& recorded) {
  if (!synced_) return;
  heard_operator_ = true;
  if (recorded) Adopt(recorded->digest, recorded->generation);
}

void CodeVersions::DropOffer(const std::string& why) {
  dropped_ = std::exchange(offer_, std::nullopt)->digest;
  problem_ = why;
  retry_at_ = kNever;
  outbox_.Change();
}

void CodeVersions::OnReceiverLeft(const std::string& receiver) {
  if (!offer_ || receiver.empty() || offer_->receiver != receiver) return;
  const std::string why = offer_->by + " has left before every machine had the code";
  outbox_.Log(why);
  DropOffer(why);
}

Status CodeVersions::Allows(const CodeOffer& offer) const {
  if (!synced_) {
    return Error::Invalid("this job does not allow sync: create it with spec.sync: {}");
  }
  if (!Known()) return Error::Unavailable("the machines have not yet reported their code");
  // A user's own next version replaces the last one.
  const bool follows_offer = offer_ && offer.replaces == offer_->digest;
  if (offer_ && !follows_offer && offer_->digest != offer.digest) {
    return Error::Conflict(offer_->by + " syncs other code at this moment (" +
                           Short(offer_->digest) + ")");
  }
  const bool again = offer.digest == wanted_.digest;
  if (!follows_offer && !again && offer.replaces != wanted_.digest) {
    return Error::Conflict((wanted_.by.empty() ? "somebody" : wanted_.by) +
                           " has synced other code meanwhile (" + Short(wanted_.digest) +
                           "); sync again to replace it");
  }
  return {};
}

Status CodeVersions::Offer(const CodeOffer& offer) {
  if (Status allowed = Allows(offer); !allowed.ok()) return allowed;
  offer_ = offer;
  tries_ = 0;
  dropped_.clear();
  problem_.clear();
  outbox_.Change();
  return {};
}

void CodeVersions::Spread(Time now, const std::string& digest) {
  if (now >= retry_at_) retry_at_ = kNever;
  if (digest.empty() || retry_at_ != kNever) return;
  std::map<uint32_t, int> fetches;  // by the machine that serves
  for (const Roster::Slot& slot : roster_) {
    if (slot.connection != 0 && !slot.fetching_code.empty()) ++fetches[slot.fetches_from];
  }
  for (Roster::Slot& slot : roster_) {
    if (!slot.within_reach() || !slot.code || HasVersion(slot, digest)) continue;
    if (slot.fetching_code == digest) {
      // Its holder may have gone; the fetch ends by itself.
      continue;
    }
    const Roster::Slot* from = nullptr;
    for (const Roster::Slot& holder : roster_) {
      if (!holder.within_reach() || !HasVersion(holder, digest)) continue;
      if (fetches[holder.machine] >= kMostFetches) continue;
      if (from == nullptr || fetches[holder.machine] < fetches[from->machine]) from = &holder;
    }
    if (from == nullptr) return;
    ++fetches[from->machine];
    slot.fetching_code = digest;
    slot.fetches_from = from->machine;
    outbox_.Send(slot, FetchCode{digest, from->code->address});
  }
}

std::optional<CodeOffer> CodeVersions::Step(Time now, Generation last) {
  if (!synced_) return std::nullopt;
  if (!offer_) {
    Spread(now, wanted_.digest);
    return std::nullopt;
  }
  Spread(now, offer_->digest);
  const bool complete = !Holds(Rule::kCodeBeforeStart) || MembersHold(offer_->digest);
  if (!complete) return std::nullopt;
  CodeOffer offer = *std::exchange(offer_, std::nullopt);
  const bool same = offer.digest == wanted_.digest;
  wanted_.by = offer.by;
  wanted_.files = offer.files;
  if (!same) {
    wanted_.digest = offer.digest;
    wanted_.since = now;
    wanted_.generation = {attempt_, last.n + 1};
  }
  settled_ = true;
  outbox_.Change();
  return offer;
}

SyncedCode CodeVersions::View() const {
  SyncedCode view;
  view.digest = wanted_.digest;
  view.files = wanted_.files;
  view.by = wanted_.by;
  view.since = wanted_.since;
  if (Known()) view.generation = wanted_.generation;
  if (offer_) {
    view.next = offer_->digest;
    view.next_by = offer_->by;
  }
  const std::string& digest = offer_ ? offer_->digest : wanted_.digest;
  if (!digest.empty()) view.missing = ListOf(Lacking(digest));
  view.dropped = dropped_;
  view.problem = problem_;
  view.lost = Lost();
  return view;
}

std::string CodeVersions::Reason() const {
  if (!Known()) {
    return heard_operator_ ? "waiting for the machines to report which code they hold"
                           : "waiting for the operator to name the code";
  }
  if (Lost()) {
    return "no machine holds the code that was synced (" + Short(wanted_.digest) +
           "): run kubectl lockstep sync";
  }
  if (MembersHold(wanted_.digest)) return "";
  return "waiting for the code on machines " + ListOf(Lacking(wanted_.digest)) +
         (problem_.empty() ? "" : "; " + problem_);
}

}  // namespace lockstep::core
