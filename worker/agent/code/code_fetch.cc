#include "worker/agent/code/code_fetch.h"

#include <filesystem>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include "base/crypto/sha256.h"
#include "base/file.h"
#include "base/http/http_answer.h"

namespace lockstep::agent {

CodeFetch::CodeFetch(EventLoop* loop, const TlsPskContext* tls, const Endpoint& endpoint,
                     std::string digest, std::string stage, Done done)
    : loop_(loop),
      tls_(tls),
      endpoint_(endpoint),
      digest_(std::move(digest)),
      stage_(std::move(stage)),
      done_(std::move(done)) {}

void CodeFetch::Start() {
  Result<UniqueFd> fd = ConnectTcp(endpoint_);
  if (!fd.ok()) return End(fd.error());
  connection_ = Connection::ConnectTls(loop_, std::move(*fd), tls_);
  connection_->SetDeadline(BootTime() + kPatience, "did not answer in time");
  connection_->Start(
      {.on_open = [this] { Ask(); },
       .on_data = [this](std::string_view bytes) { OnData(bytes); },
       .on_close = [this](const std::string& reason) { End(Error::Unavailable(reason)); }});
}

void CodeFetch::Ask() {
  const std::string target =
      !manifest_
          ? "/code?version=" + digest_ + "&offset=" + std::to_string(text_.size())
          : "/code?content=" + wanted_.back().sha256 + "&offset=" + std::to_string(content_.size());
  connection_->SetDeadline(BootTime() + kPatience, "did not answer in time");
  connection_->Write("GET " + target + " HTTP/1.1\r\nHost: lockstep\r\n\r\n");
}

void CodeFetch::OnData(std::string_view bytes) {
  if (ended_) return;
  received_.append(bytes);
  size_t used = 0;
  bool keep_alive = true;
  Result<std::optional<HttpAnswer>> parsed =
      ParseHttpAnswer(received_, kCodePiece, &used, &keep_alive);
  if (!parsed.ok()) return End(parsed.error());
  if (!*parsed) {
    connection_->SetDeadline(BootTime() + kPatience, "fell silent");
    return;
  }
  received_.clear();
  const HttpAnswer& answer = **parsed;
  if (answer.status != 200) return End(Error::Unavailable(answer.body.substr(0, 200)));
  const Status taken = manifest_ ? TakePiece(answer.body) : TakeManifestPiece(answer.body);
  if (!taken.ok()) return End(taken.error());
  if (manifest_ && wanted_.empty()) return End(*manifest_);
  Ask();
}

Status CodeFetch::TakeManifestPiece(std::string_view body) {
  text_.append(body);
  if (text_.size() > kMaxCodeManifestText) return Error::TooLarge("the list of files is too long");
  return body.size() < kCodePiece ? TakeManifest() : Status();
}

Status CodeFetch::TakeManifest() {
  Result<CodeManifest> manifest = ParseCodeManifest(std::exchange(text_, ""));
  if (!manifest.ok()) return manifest.error();
  if (manifest->Digest() != digest_) {
    return Error::Invalid("the list of files does not have the digest that was asked for");
  }
  manifest_ = std::move(*manifest);
  std::set<std::string> seen;
  for (const auto& [path, file] : manifest_->files) {
    std::error_code none;
    if (!seen.insert(file.sha256).second) continue;
    if (std::filesystem::exists(stage_ + "/" + file.sha256, none)) continue;
    wanted_.push_back({file.sha256, file.size});
    // An empty one has no piece to ask for.
    if (file.size == 0) {
      if (Status kept = Keep(); !kept.ok()) return kept;
    }
  }
  return {};
}

Status CodeFetch::TakePiece(std::string_view body) {
  if (body.empty() || content_.size() + body.size() > wanted_.back().size) {
    return Error::Invalid("a file has another size than its manifest gives");
  }
  content_.append(body);
  if (content_.size() < wanted_.back().size) return {};
  return Keep();
}

Status CodeFetch::Keep() {
  const std::string sha256 = std::move(wanted_.back().sha256);
  wanted_.pop_back();
  const std::string content = std::exchange(content_, "");
  Sha256 hash;
  hash.Add(std::as_bytes(std::span(content)));
  if (hash.Hex() != sha256) {
    return Error::Invalid("a file does not have the hash that its manifest gives: it is torn");
  }
  return WriteFileAtomically(stage_ + "/" + sha256, content, {.mode = 0600});
}

void CodeFetch::End(Result<CodeManifest> result) {
  if (std::exchange(ended_, true)) return;
  loop_->Post(lifetime_.Guard([this, result = std::move(result)] {
    // The handler may destroy this.
    const auto done = std::move(done_);
    done(result);
  }));
}

}  // namespace lockstep::agent
