#include "worker/agent/code/code_store.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/folder.h"
#include "base/text/ascii.h"
#include "base/text/endpoint.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNewestKept = 2;

HttpResponse Code(int status, std::string body) {
  return {.status = status, .content_type = "application/octet-stream", .body = std::move(body)};
}

bool HasContent(const std::string& path, uint64_t size) {
  std::error_code none;
  return fs::is_regular_file(fs::symlink_status(path, none)) && fs::file_size(path, none) == size;
}

}  // namespace

Result<std::unique_ptr<CodeStore>> CodeStore::Create(EventLoop* loop, const TlsPskContext* tls,
                                                     const std::string& run_dir, Owner* owner) {
  const std::string home = CodeHome(run_dir);
  std::error_code ignored;
  fs::remove_all(home, ignored);
  Result<CodeFolder> folder = CodeFolder::Open(home);
  if (!folder.ok()) return folder.error();
  return std::unique_ptr<CodeStore>(new CodeStore(loop, tls, home, std::move(*folder), owner));
}

Result<CodeManifest> CodeStore::Take(const std::string& digest, const std::string& incoming) {
  const std::string from = home_ + "/" + incoming;
  const Result<std::string> text = ReadFile(from + "/" + kIncomingManifest, kMaxCodeManifestText);
  if (!text.ok()) return text.error();
  Result<CodeManifest> manifest = ParseCodeManifest(*text);
  if (!manifest.ok()) return manifest.error();
  if (manifest->Digest() != digest) return Error::Invalid("the files do not have that digest");
  size_t missing = 0;
  for (const auto& [path, file] : manifest->files) {
    const std::string staged = folder_.stage() + "/" + file.sha256;
    const std::string brought = from + "/" + file.sha256;
    if (HasContent(staged, file.size)) continue;
    if (!HasContent(brought, file.size)) {
      ++missing;
    } else if (rename(brought.c_str(), staged.c_str()) != 0) {
      return ErrnoError("moving " + brought, errno);
    }
  }
  if (missing > 0) return Error::NotFound(std::to_string(missing) + " files are not here");
  std::error_code ignored;
  fs::remove_all(from, ignored);
  Add(digest, *manifest);
  return manifest;
}

void CodeStore::Fetch(const core::FetchCode& fetch) {
  if (fetch_ && fetch_->digest() == fetch.digest) return;  // asked again around a reconnect
  const Result<Endpoint> from = ParseEndpoint(fetch.address);
  if (!from.ok()) return owner_->OnCodeFailed(fetch.digest, from.error().message);
  fetch_ =
      std::make_unique<CodeFetch>(loop_, tls_, *from, fetch.digest, folder_.stage(),
                                  [this, digest = fetch.digest](Result<CodeManifest> manifest) {
                                    fetch_.reset();
                                    if (!manifest.ok())
                                      return owner_->OnCodeFailed(digest, manifest.error().message);
                                    Add(digest, std::move(*manifest));
                                  });
  fetch_->Start();
}

void CodeStore::Add(const std::string& digest, CodeManifest manifest) {
  std::erase_if(versions_, [&](const auto& version) { return version.first == digest; });
  versions_.emplace_back(digest, std::move(manifest));
  DropOld();
  owner_->OnCodeHeld(Digests());
}

void CodeStore::DropOld() {
  const auto is_used = [this](const auto& version) { return version.first == used_; };
  const auto used = static_cast<size_t>(std::ranges::count_if(versions_, is_used));
  size_t others = versions_.size() - used;
  std::erase_if(versions_,
                [&](const auto& version) { return !is_used(version) && others-- > kNewestKept; });
  std::set<std::string> kept;
  const auto keep = [&](const CodeManifest& manifest) {
    for (const auto& [path, file] : manifest.files) kept.insert(file.sha256);
  };
  for (const auto& [digest, manifest] : versions_) keep(manifest);
  if (fetch_ && fetch_->manifest() != nullptr) keep(*fetch_->manifest());
  DropContents(folder_.stage(), kept);
}

std::vector<std::string> CodeStore::Digests() const {
  std::vector<std::string> digests;
  for (const auto& [digest, manifest] : versions_) digests.push_back(digest);
  return digests;
}

Status CodeStore::Use(const std::string& digest) {
  const auto version =
      std::ranges::find_if(versions_, [&](const auto& each) { return each.first == digest; });
  if (version == versions_.end()) return Error::NotFound("the code " + digest + " is not here");
  if (Status applied = folder_.Apply(version->second); !applied.ok()) return applied;
  used_ = digest;
  return {};
}

const std::string* CodeStore::TextOf(const std::string& digest) {
  const auto version =
      std::ranges::find_if(versions_, [&](const auto& each) { return each.first == digest; });
  if (version == versions_.end()) return nullptr;
  // A machine that fetches it asks for one piece after another.
  if (served_.first != digest) served_ = {digest, ToText(version->second)};
  return &served_.second;
}

void CodeStore::Serve(const HttpRequest& request, HttpResponder respond) {
  if (request.method != "GET") return respond.Send(Code(405, "/code takes GET"));
  const std::string* offset_text = request.Query("offset");
  const auto offset = ParseNumber<uint64_t>(offset_text != nullptr ? *offset_text : "0");
  if (const std::string* digest = request.Query("version")) {
    const std::string* text = TextOf(*digest);
    if (text == nullptr) return respond.Send(Code(404, "that code is not here"));
    if (!offset || *offset > text->size()) {
      return respond.Send(Code(400, "the list of files is shorter"));
    }
    return respond.Send(Code(200, text->substr(*offset, kCodePiece)));
  }
  const std::string* sha256 = request.Query("content");
  const bool named = sha256 != nullptr && sha256->size() == 64 &&
                     sha256->find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!named || !offset || *offset >= kMaxCodeFile) {
    return respond.Send(Code(400, "there are version, content and offset"));
  }
  const Result<UniqueFd> fd = OpenRegularFile(folder_.stage() + "/" + *sha256);
  std::string piece(kCodePiece, '\0');
  const ssize_t n =
      fd.ok() ? pread(fd->get(), piece.data(), piece.size(), static_cast<off_t>(*offset)) : -1;
  if (n < 0) return respond.Send(Code(404, "that file is not here"));
  piece.resize(static_cast<size_t>(n));
  respond.Send(Code(200, std::move(piece)));
}

}  // namespace lockstep::agent
