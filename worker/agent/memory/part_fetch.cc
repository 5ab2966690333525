#include "worker/agent/memory/part_fetch.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/http/http_answer.h"

namespace lockstep::agent {

PartFetch::PartFetch(EventLoop* loop, const TlsPskContext* tls, const Endpoint& endpoint,
                     std::string part, std::string folder, Handlers handlers)
    : loop_(loop),
      tls_(tls),
      endpoint_(endpoint),
      part_(std::move(part)),
      folder_(std::move(folder)),
      handlers_(std::move(handlers)),
      next_(loop, [this] { Ask(); }) {}

void PartFetch::Start() {
  began_ = BootTime();
  Result<UniqueFd> fd = ConnectTcp(endpoint_);
  if (!fd.ok()) return End(fd.error());
  connection_ = Connection::ConnectTls(loop_, std::move(*fd), tls_);
  connection_->SetDeadline(BootTime() + kPatience, "did not answer in time");
  connection_->Start(
      {.on_open = [this] { Ask(); },
       .on_data = [this](std::string_view bytes) { OnData(bytes); },
       .on_close = [this](const std::string& reason) { End(Error::Unavailable(reason)); }});
}

void PartFetch::Ask() {
  std::string target = "/memory?part=" + part_;
  if (manifest_) {
    target += "&file=" + std::to_string(file_) + "&offset=" + std::to_string(offset_);
  }
  connection_->SetDeadline(BootTime() + (manifest_ ? kPatience : kManifestPatience),
                           "did not answer in time");
  connection_->Write("GET " + target + " HTTP/1.1\r\nHost: lockstep\r\n\r\n");
}

void PartFetch::OnData(std::string_view bytes) {
  if (ended_) return;
  received_.append(bytes);
  size_t used = 0;
  bool keep_alive = true;
  Result<std::optional<HttpAnswer>> parsed =
      ParseHttpAnswer(received_, kMaxManifestText, &used, &keep_alive);
  if (!parsed.ok()) return End(parsed.error());
  if (!*parsed) {
    connection_->SetDeadline(BootTime() + kPatience, "fell silent");
    return;
  }
  received_.clear();
  const HttpAnswer& answer = **parsed;
  if (answer.status != 200) return End(Error::Unavailable(answer.body.substr(0, 200)));
  OnBody(answer.body);
}

void PartFetch::OnBody(std::string_view body) {
  const Status taken = manifest_ ? TakePiece(body) : TakeManifest(body);
  if (!taken.ok()) return End(taken.error());
  if (file_ == manifest_->size()) {
    Status finished = FinishFolders(*manifest_, folder_);
    return finished.ok() ? End(*manifest_) : End(finished.error());
  }
  bytes_ += body.size();
  next_.WakeAt(began_ + milliseconds(bytes_ * 1000 / kBytesPerSecond));
}

Status PartFetch::TakeManifest(std::string_view body) {
  Result<Manifest> manifest = ParseManifest(body);
  if (!manifest.ok()) return manifest.error();
  const std::string full = handlers_.room(SizeOf(*manifest));
  if (!full.empty()) return Error::TooLarge(full);
  manifest_ = std::move(*manifest);
  std::error_code code;
  RemoveTree(folder_);
  std::filesystem::create_directories(std::filesystem::path(folder_).parent_path(), code);
  if (code) return Error::Unavailable("making " + folder_ + ": " + code.message());
  Status made = MakeFolders(*manifest_, folder_);
  return made.ok() ? OpenNext() : made;
}

Status PartFetch::OpenNext() {
  for (; file_ < manifest_->size(); ++file_) {
    const PartEntry& file = (*manifest_)[file_];
    if (file.kind != PartKind::kFile) continue;
    const std::string path = folder_ + "/" + file.path;
    fd_.reset(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd_.valid() || fchmod(fd_.get(), file.mode) != 0) {
      return ErrnoError("creating " + path, errno);
    }
    hash_ = Sha256();
    offset_ = 0;
    if (file.size > 0) return {};
  }
  return {};
}

Status PartFetch::TakePiece(std::string_view body) {
  const PartEntry& file = (*manifest_)[file_];
  if (body.empty() || body.size() > file.size - offset_) {
    return Error::Invalid(file.path + " has another size than its manifest gives");
  }
  Status written = WriteAll(fd_.get(), body, file.path);
  if (!written.ok()) return written;
  hash_.Add(std::as_bytes(std::span(body)));
  offset_ += body.size();
  if (offset_ < file.size) return {};
  if (hash_.Hex() != file.sha256) {
    return Error::Invalid(file.path +
                          " does not have the hash that its manifest gives: it is torn");
  }
  ++file_;
  return OpenNext();
}

void PartFetch::End(Result<Manifest> result) {
  if (std::exchange(ended_, true)) return;
  next_.Cancel();
  fd_.reset();
  loop_->Post(lifetime_.Guard([this, result = std::move(result)] {
    // The handler may destroy this.
    const auto done = std::move(handlers_.done);
    done(result);
  }));
}

}  // namespace lockstep::agent
