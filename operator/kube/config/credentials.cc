#include "operator/kube/config/credentials.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/file.h"
#include "base/thread.h"
#include "base/wall_time.h"
#include "operator/kube/config/credentials_exec.h"

namespace lockstep::kube {
namespace {

// A plugin's credentials are fetched anew this long before they expire.
constexpr Duration kExpiryLeeway = seconds(30);

Result<std::string> Read(const Material& material) {
  return material.file.empty() ? Result<std::string>(material.value)
                               : ReadFile(material.file, kMaxCredential);
}

// A header's value: a token with a line end in it would be the next header.
Result<std::string> Authorization(std::string token, const std::string& where) {
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r' || token.back() == ' ')) {
    token.pop_back();
  }
  if (token.empty()) return Error::Invalid("the token in " + where + " is empty");
  if (!std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 127; })) {
    return Error::Invalid("the token in " + where + " has characters that no token has");
  }
  return "Bearer " + token;
}

}  // namespace

Result<std::shared_ptr<Credentials>> Credentials::Create(ClientConfig config, Duration reload) {
  UniqueFd stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop.valid()) return ErrnoError("eventfd", errno);
  std::shared_ptr<Credentials> credentials(
      new Credentials(std::move(config), reload, std::move(stop)));
  Result<Loaded> loaded = credentials->Load();
  if (!loaded.ok()) return loaded.error();
  bool changes = loaded->next != kNever || credentials->config_.exec;
  credentials->Adopt(std::move(*loaded));
  if (changes) {
    Result<std::thread> thread = StartThread([raw = credentials.get()] { raw->Refresh(); });
    if (!thread.ok()) return thread.error();
    credentials->thread_ = std::move(*thread);
  }
  return credentials;
}

Credentials::~Credentials() {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    eventfd_write(stop_.get(), 1);
    wake_.notify_one();
  }
  thread_.join();
}

std::shared_ptr<const Identity> Credentials::Current() const {
  MutexLock lock(&mutex_);
  return current_;
}

void Credentials::Refused(const std::shared_ptr<const Identity>& identity) {
  MutexLock lock(&mutex_);
  if (identity != current_) return;
  next_ = std::min(next_, loaded_at_ + kRetry);
  wake_.notify_one();
}

Result<Credentials::Loaded> Credentials::Load() const {
  Loaded loaded;
  loaded.next = kNever;
  TlsMaterial tls;
  struct Wanted {
    const Material* from;
    std::string* to;
  };
  std::string token;
  for (const Wanted& wanted :
       {Wanted{&config_.ca, &tls.ca}, Wanted{&config_.token, &token},
        Wanted{&config_.certificate, &tls.certificate}, Wanted{&config_.key, &tls.key}}) {
    Result<std::string> text = Read(*wanted.from);
    if (!text.ok()) return text.error();
    *wanted.to = std::move(*text);
    if (!wanted.from->file.empty()) loaded.next = BootTime() + reload_;
  }
  std::string where = config_.token.file.empty() ? "the configuration" : config_.token.file;
  if (config_.exec) {
    Result<ExecCredential> printed = RunExecPlugin(config_, stop_.get());
    if (!printed.ok()) return printed.error();
    token = std::move(printed->token);
    where = "the output of " + config_.exec->command.front();
    if (!printed->certificate.empty()) {
      tls.certificate = std::move(printed->certificate);
      tls.key = std::move(printed->key);
    }
    if (printed->expires) {
      Duration left = *printed->expires - WallNow() - kExpiryLeeway;
      loaded.next = std::min(loaded.next, BootTime() + std::max(left, kRetry));
    }
  }
  if (!token.empty() || !config_.token.file.empty()) {
    Result<std::string> header = Authorization(std::move(token), where);
    if (!header.ok()) return header.error();
    loaded.identity.authorization = std::move(*header);
  }
  loaded.identity.tls = std::make_shared<const TlsMaterial>(std::move(tls));
  return loaded;
}

void Credentials::Adopt(Loaded loaded) {
  MutexLock lock(&mutex_);
  next_ = loaded.next;
  if (current_ && *current_->tls == *loaded.identity.tls) {
    loaded.identity.tls = current_->tls;
    if (current_->authorization == loaded.identity.authorization) return;
  }
  current_ = std::make_shared<const Identity>(std::move(loaded.identity));
}

void Credentials::Refresh() {
  for (;;) {
    {
      MutexLock lock(&mutex_);
      for (Time now = BootTime(); !stopping_ && now < next_; now = BootTime()) {
        if (next_ == kNever) {
          wake_.wait(mutex_);
        } else {
          wake_.wait_for(mutex_, next_ - now);
        }
      }
      if (stopping_) return;
      loaded_at_ = BootTime();
    }
    Result<Loaded> loaded = Load();
    if (loaded.ok()) {
      Adopt(std::move(*loaded));
    } else {
      MutexLock lock(&mutex_);
      next_ = BootTime() + std::min(reload_, 5 * kRetry);
    }
  }
}

}  // namespace lockstep::kube
