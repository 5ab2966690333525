#include "worker/agent/logs/log_files.h"

#include <utility>

namespace lockstep::agent {
namespace {

constexpr uint64_t kLogBurst = 1;
constexpr Duration kLogWindow = minutes(1);

}  // namespace

LogFiles::LogFiles(FileWorker* worker, LogStoreOptions options, LogFn log)
    : worker_(worker),
      log_(std::move(log), kLogBurst, kLogWindow),
      store_(std::make_shared<LogStore>(std::move(options))) {}

void LogFiles::StartGeneration(const std::string& generation) {
  pending_.push_back({.generation = generation, .name = {}, .bytes = {}});
  pending_index_.clear();
  Submit();
}

void LogFiles::Append(const std::string& name, std::string_view bytes) {
  if (pending_bytes_ + in_flight_bytes_ + bytes.size() > kMaxPending) {
    dropped_bytes_ += bytes.size();
    log_.Write(BootTime(), "log files: the file system is too slow; output is left out");
    return;
  }
  pending_bytes_ += bytes.size();
  const auto [found, is_new] = pending_index_.try_emplace(name, pending_.size());
  if (is_new) pending_.push_back({.generation = {}, .name = name, .bytes = {}});
  pending_[found->second].bytes.append(bytes);
  Submit();
}

void LogFiles::Submit() {
  if (in_flight_ || pending_.empty()) return;
  in_flight_ = true;
  in_flight_bytes_ = std::exchange(pending_bytes_, 0);
  pending_index_.clear();
  worker_->Run([store = store_,
                items = std::exchange(pending_, {})] { return WriteAll(store.get(), items); },
               lifetime_.Guard([this](const Outcome& outcome) { OnDone(outcome); }));
}

LogFiles::Outcome LogFiles::WriteAll(LogStore* store, const std::vector<Item>& items) {
  Outcome outcome;
  for (const Item& item : items) {
    if (!item.generation.empty()) {
      store->StartGeneration(item.generation);
      continue;
    }
    const Status written = store->Append(item.name, item.bytes);
    if (written.ok()) continue;
    outcome.lost_bytes += item.bytes.size();
    outcome.error = written.error().message;
  }
  return outcome;
}

void LogFiles::OnDone(const Outcome& outcome) {
  in_flight_ = false;
  in_flight_bytes_ = 0;
  dropped_bytes_ += outcome.lost_bytes;
  if (!outcome.error.empty()) {
    log_.Write(BootTime(),
               "log files: " + outcome.error + "; output is left out, and the job continues");
  }
  Submit();
}

}  // namespace lockstep::agent
