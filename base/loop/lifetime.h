// Lifetime: a member whose owner's callbacks die with the owner.
//
//   loop_->Post(lifetime_.Guard([this] { Flush(); }));  // nothing once *this is gone
//   client_->Call(request, lifetime_.Hop(
//       loop_, [this](std::string answer) { Take(std::move(answer)); }));
//
// The owner lives in the loop's thread, and guarded calls are made there. Making, copying and
// dropping them is allowed in any thread, as long as the owner is there when one is made.
#ifndef LOCKSTEP_BASE_LOOP_LIFETIME_H_
#define LOCKSTEP_BASE_LOOP_LIFETIME_H_

#include <memory>
#include <utility>

#include "base/loop/event_loop.h"

namespace lockstep {

class Lifetime {
 public:
  // For use after a call that may have destroyed the owner: says whether it did.
  class Watch {
   public:
    bool gone() const { return alive_.expired(); }

   private:
    friend class Lifetime;
    explicit Watch(std::weak_ptr<const bool> alive) : alive_(std::move(alive)) {}
    std::weak_ptr<const bool> alive_;
  };

  Lifetime() = default;
  Lifetime(const Lifetime&) = delete;
  Lifetime& operator=(const Lifetime&) = delete;

  Watch watch() const { return Watch(alive_); }

  // Calls `callback` while the owner lives; later it does nothing.
  template <typename Callback>
  auto Guard(Callback callback) const {
    return [watch = watch(), callback = std::move(callback)](auto&&... args) mutable -> void {
      if (!watch.gone()) callback(std::forward<decltype(args)>(args)...);
    };
  }

  // The same, called from any thread: `callback` gets its arguments in the loop, later.
  template <typename Callback>
  auto Hop(EventLoop* loop, Callback callback) const {
    return [loop, guarded = Guard(std::move(callback))](auto... args) mutable -> void {
      loop->PostFromAnyThread(
          [guarded, ... args = std::move(args)]() mutable { guarded(std::move(args)...); });
    };
  }

 private:
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_LOOP_LIFETIME_H_
