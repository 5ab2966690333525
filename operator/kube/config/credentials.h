// Credentials: the client's credentials and the authorities to check the server by. Values in the
// configuration never change. Files are read again every minute, an exec plugin is run again before
// its credentials expire, and both are when the server refused them. If that fails, the last good
// credentials stay. Thread-safe; has its own thread if anything can change.
#ifndef LOCKSTEP_OPERATOR_KUBE_CONFIG_CREDENTIALS_H_
#define LOCKSTEP_OPERATOR_KUBE_CONFIG_CREDENTIALS_H_

#include <condition_variable>
#include <memory>
#include <string>
#include <thread>

#include "base/result.h"
#include "base/thread_annotations.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "operator/kube/config/client_config.h"

namespace lockstep::kube {

// PEM. A connection belongs to the material that it was made with.
struct TlsMaterial {
  std::string ca;
  std::string certificate;
  std::string key;
  friend bool operator==(const TlsMaterial&, const TlsMaterial&) = default;
};

struct Identity {
  std::string authorization;  // "Bearer ...", or empty
  std::shared_ptr<const TlsMaterial> tls;
};

class Credentials {
 public:
  static constexpr Duration kReload = seconds(60);
  static constexpr Duration kRetry = seconds(1);  // between two reloads, whatever asks for them

  // Reads everything, and runs the plugin. Errors: NotFound, Invalid, TooLarge, Denied (plugin).
  static Result<std::shared_ptr<Credentials>> Create(ClientConfig config,
                                                     Duration reload = kReload);
  ~Credentials();

  // The pointer, and `tls` in it, changes only when the value behind it does.
  std::shared_ptr<const Identity> Current() const;
  // For the caller to report that the server answered 401.
  void Refused(const std::shared_ptr<const Identity>& identity);

 private:
  struct Loaded {
    Identity identity;
    Time next;  // when to load again
  };
  Credentials(ClientConfig config, Duration reload, UniqueFd stop)
      : config_(std::move(config)), reload_(reload), stop_(std::move(stop)) {}
  Result<Loaded> Load() const;
  void Adopt(Loaded loaded);
  void Refresh();

  const ClientConfig config_;
  const Duration reload_;
  UniqueFd stop_;  // readable once it is to end: for a plugin that runs
  mutable Mutex mutex_;
  std::condition_variable_any wake_;
  std::shared_ptr<const Identity> current_ GUARDED_BY(mutex_);
  Time next_ GUARDED_BY(mutex_) = kNever;
  Time loaded_at_ GUARDED_BY(mutex_) = Time(0);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_CONFIG_CREDENTIALS_H_
