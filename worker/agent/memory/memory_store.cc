#include "worker/agent/memory/memory_store.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/text/ascii.h"

namespace lockstep::agent {

namespace {

namespace fs = std::filesystem;
using core::MemoryPart;

std::string Bytes(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

std::string InUrl(const MemoryPart& part) {
  return part.id.generation.ToString() + "/" + std::to_string(part.id.number) + "/" +
         std::to_string(part.machine);
}

HttpResponse Answer(int status, std::string body) {
  return {.status = status, .content_type = "application/octet-stream", .body = std::move(body)};
}

// On a tmpfs this takes no time, and on the loop it happens in its order: a move that waited in a
// queue could take the folder of a generation that has begun meanwhile.
Status Move(const std::string& from, const std::string& to) {
  std::error_code ignored;
  fs::create_directories(fs::path(to).parent_path(), ignored);
  if (rename(from.c_str(), to.c_str()) != 0) return ErrnoError("moving " + from, errno);
  return {};
}

}  // namespace

Result<std::unique_ptr<MemoryStore>> MemoryStore::Create(EventLoop* loop, const TlsPskContext* tls,
                                                         Options options, Owner* owner) {
  std::unique_ptr<MemoryStore> store(new MemoryStore(loop, tls, std::move(options), owner));
  for (auto* worker : {&store->files_, &store->hasher_, &store->volume_}) {
    Result<std::unique_ptr<FileWorker>> made = FileWorker::Create(loop);
    if (!made.ok()) return made.error();
    *worker = std::move(*made);
  }
  store->BeginGeneration();
  return store;
}

MemoryStore::MemoryStore(EventLoop* loop, const TlsPskContext* tls, Options options, Owner* owner)
    : loop_(loop),
      tls_(tls),
      options_(std::move(options)),
      owner_(owner),
      folder_(options_.run_dir + "/memory"),
      writing_(options_.run_dir + "/local/checkpoints") {}

std::string MemoryStore::PathOf(const MemoryPart& part) const {
  std::array<char, 16> number{};
  std::snprintf(number.data(), number.size(), "%06u.", part.id.number);
  return folder_ + "/" + part.id.generation.ToString() + "/" + std::to_string(part.machine) + "/" +
         number.data() + part.name;
}

std::string MemoryStore::TakenPath(uint64_t commit) const {
  return folder_ + "/taken-" + std::to_string(commit);
}

uint64_t MemoryStore::used() const {
  uint64_t used = 0;
  for (const auto& [part, size] : sizes_) used += size;
  for (const auto& [commit, taken] : taken_) used += taken.size;
  return used;
}

std::string MemoryStore::Room(uint64_t size, uint64_t times) const {
  const uint64_t has = used();
  if (has + size * times <= options_.size) return "";
  return "memory is full: checkpoint.memory.size is " + Bytes(options_.size) + ", of which " +
         Bytes(has) + " are used, and this part needs " + Bytes(size) +
         (times > 1 ? " here, and as much for a copy of another machine's part" : "");
}

// Moved aside at once, because the path may be written again before its files are gone.
void MemoryStore::Remove(const std::string& path) {
  const std::string old = folder_ + "/old-" + std::to_string(++removed_);
  std::error_code ignored;
  fs::create_directories(folder_, ignored);
  std::error_code kept;
  fs::rename(path, old, kept);
  // A move may find no room.
  if (kept) return RemoveTree(path);
  files_->Run(
      [old] {
        RemoveTree(old);
        return true;
      },
      [](bool) {});
}

// ---- commits ----

void MemoryStore::BeginGeneration() {
  ++era_;
  // The next generation never finds what an earlier one wrote.
  Remove(writing_);
  std::error_code ignored;
  fs::create_directories(writing_, ignored);
}

void MemoryStore::StorePart(uint64_t commit, const std::string& name,
                            const std::function<void(std::string)>& done) {
  taken_[commit] = {name, 0, era_};
  const std::string from = writing_ + "/" + name;
  files_->Run([from] { return ListPart(from); },
              lifetime_.Guard([this, commit, from, done](const Result<Manifest>& manifest) {
                const auto taken = taken_.find(commit);
                if (taken == taken_.end() || taken->second.era != era_) {
                  return done("the generation has ended");
                }
                if (!manifest.ok()) return done(manifest.error().message);
                const uint64_t size = SizeOf(*manifest);
                std::string full = Room(size, 1 + options_.copies);
                if (!full.empty()) return done(std::move(full));
                const Status moved = Move(from, TakenPath(commit));
                if (!moved.ok()) return done(moved.error().message);
                taken->second.size = size;
                done("");
              }));
}

void MemoryStore::Grant(uint64_t commit, const MemoryPart& part,
                        const std::function<void(Result<std::string>)>& done) {
  const auto taken = taken_.extract(commit);
  if (taken.empty()) return;
  const std::string path = PathOf(part);
  const Status moved = Move(TakenPath(commit), path);
  if (!moved.ok()) {
    Remove(TakenPath(commit));
    return done(moved.error());
  }
  // It counts from here on. Others can get it once its hashes are known, with which they are sure
  // to notice what is torn.
  sizes_[part] = taken.mapped().size;
  held_[part] = std::nullopt;
  hashing_.insert(part);
  owner_->OnPartHeld(part);
  done(path);
  hasher_->Run([path] { return HashPart(path); },
               lifetime_.Guard(
                   [this, part](const Result<Manifest>& manifest) { OnHashed(part, manifest); }));
}

void MemoryStore::OnHashed(const MemoryPart& part, const Result<Manifest>& manifest) {
  hashing_.erase(part);
  if (const auto held = held_.find(part); held != held_.end() && manifest.ok()) {
    held->second = *manifest;
  }
  for (auto& [request, respond] : std::exchange(waiting_, {})) Serve(request, std::move(respond));
  Drop(std::exchange(dropped_later_, {}));
}

void MemoryStore::Refuse(uint64_t commit) {
  const auto taken = taken_.extract(commit);
  if (taken.empty()) return;
  // What nobody waits for any more is of no use.
  const bool wanted = taken.mapped().era == era_;
  if (!wanted || !Move(TakenPath(commit), writing_ + "/" + taken.mapped().name).ok()) {
    Remove(TakenPath(commit));
  }
}

// ---- from and for others ----

void MemoryStore::Fetch(const core::Fetch& fetch) {
  const MemoryPart& part = fetch.part;
  if (sizes_.contains(part) || fetches_.contains(part) || fetching_stored_.contains(part)) return;
  if (fetch.address.empty()) return FetchStored(part);
  Result<Endpoint> endpoint = ParseEndpoint(fetch.address);
  if (!endpoint.ok()) return owner_->OnFetchFailed(part, endpoint.error().message);
  PartFetch::Handlers handlers;
  handlers.room = [this, part](uint64_t size) {
    std::string full = Room(size, 1);
    if (full.empty()) sizes_[part] = size;
    return full;
  };
  handlers.done = [this, part](Result<Manifest> manifest) { OnFetched(part, std::move(manifest)); };
  std::unique_ptr<PartFetch>& slot = fetches_[part];
  slot = std::make_unique<PartFetch>(loop_, tls_, *endpoint, InUrl(part), PathOf(part),
                                     std::move(handlers));
  slot->Start();
}

// No rank runs meanwhile, so nothing else takes the room.
void MemoryStore::FetchStored(const MemoryPart& part) {
  if (!options_.fetch_stored) {
    return owner_->OnFetchFailed(part, "this agent has no object store");
  }
  fetching_stored_.insert(part);
  const uint64_t has = used();
  const uint64_t room = options_.size - std::min(has, options_.size);
  volume_->Run(
      [fetch = options_.fetch_stored, part, path = PathOf(part), room]() -> Result<Manifest> {
        std::error_code code;
        fs::create_directories(fs::path(path).parent_path(), code);
        if (code) return Error::Unavailable("making folders for " + path + ": " + code.message());
        RemoveTree(path);
        if (room == 0) return Error::TooLarge("memory is full");
        Status fetched = fetch(part, path, room);
        if (!fetched.ok()) return fetched.error();
        return HashPart(path);
      },
      lifetime_.Guard([this, part](Result<Manifest> manifest) {
        fetching_stored_.erase(part);
        if (manifest.ok()) sizes_[part] = SizeOf(*manifest);
        OnFetched(part, std::move(manifest));
      }));
}

void MemoryStore::OnFetched(const MemoryPart& part, Result<Manifest> manifest) {
  fetches_.erase(part);
  if (manifest.ok()) {
    held_[part] = std::move(*manifest);
    return owner_->OnPartHeld(part);
  }
  sizes_.erase(part);
  Remove(PathOf(part));
  owner_->OnFetchFailed(part, manifest.error().message);
}

void MemoryStore::Drop(const std::vector<MemoryPart>& parts) {
  for (const MemoryPart& part : parts) {
    const bool persisting = std::ranges::any_of(
        persisting_, [&](const core::Persist& persist) { return persist.id == part.id; });
    if (persisting || hashing_.contains(part)) {
      dropped_later_.push_back(part);
      continue;
    }
    sizes_.erase(part);
    held_.erase(part);
    Remove(PathOf(part));
  }
}

void MemoryStore::Persist(const core::Persist& persist, WriteParts write) {
  // Asked again around a reconnect, it is answered once.
  if (std::ranges::find(persisting_, persist) != persisting_.end()) return;
  auto answer = [this, persist](std::string error) {
    owner_->OnPersisted({persist.id, std::move(error), persist.to, persist.machines});
  };
  std::map<uint32_t, std::string> folders;
  for (const auto& [part, manifest] : held_) {
    const bool wanted = std::ranges::find(persist.machines, part.machine) != persist.machines.end();
    if (part.id == persist.id && wanted) folders[part.machine] = PathOf(part);
  }
  if (folders.size() < persist.machines.size()) return answer("this machine holds no part of it");
  persisting_.push_back(persist);
  volume_->Run([folders, write = std::move(write)] { return write(folders); },
               lifetime_.Guard([this, persist, answer](const Status& written) {
                 std::erase(persisting_, persist);
                 Drop(std::exchange(dropped_later_, {}));
                 answer(written.ok() ? "" : written.error().message);
               }));
}

std::string MemoryStore::OwnPart(core::CheckpointId id) const {
  for (const auto& [part, manifest] : held_) {
    if (part.id == id && part.machine == options_.machine) return PathOf(part);
  }
  return "";
}

void MemoryStore::Serve(const HttpRequest& request, HttpResponder respond) {
  if (request.method != "GET") return respond.Send(Answer(405, "/memory takes GET"));
  const std::string* name = request.Query("part");
  const auto found = std::ranges::find_if(
      held_, [&](const auto& each) { return name != nullptr && InUrl(each.first) == *name; });
  if (found != held_.end() && hashing_.contains(found->first)) {
    waiting_.emplace_back(request, std::move(respond));
    return;
  }
  if (found == held_.end() || !found->second) {
    return respond.Send(Answer(404, "that part is not here"));
  }
  const Manifest& manifest = *found->second;
  const std::string* file_text = request.Query("file");
  const std::string* offset_text = request.Query("offset");
  if (file_text == nullptr) return respond.Send(Answer(200, ToText(manifest)));
  const auto file = ParseNumber<size_t>(*file_text);
  const auto offset = ParseNumber<uint64_t>(offset_text != nullptr ? *offset_text : "0");
  if (!file || *file >= manifest.size() || manifest[*file].kind != PartKind::kFile || !offset ||
      *offset > manifest[*file].size) {
    return respond.Send(Answer(400, "that file has no such bytes"));
  }
  const std::string path = PathOf(found->first) + "/" + manifest[*file].path;
  const Result<UniqueFd> fd = OpenPartFile(path);
  std::string piece(std::min<uint64_t>(kPieceSize, manifest[*file].size - *offset), '\0');
  const ssize_t n =
      fd.ok() ? pread(fd->get(), piece.data(), piece.size(), static_cast<off_t>(*offset)) : -1;
  if (n < 0) return respond.Send(Answer(404, "that part is gone"));
  piece.resize(static_cast<size_t>(n));
  respond.Send(Answer(200, std::move(piece)));
}

}  // namespace lockstep::agent
