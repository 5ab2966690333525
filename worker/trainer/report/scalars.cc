#include "worker/trainer/report/scalars.h"

#include <chrono>
#include <utility>
#include <vector>

#include "worker/trainer/process/exit_code.h"

namespace lockstep::trainer {

namespace {

constexpr Duration kFlushEvery = seconds(5);

double WallTime() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Scalars::Scalars(const std::string& folder, int64_t step) {
  if (folder.empty()) return;
  Result<std::unique_ptr<events::EventFile>> made = events::EventFile::Create(folder, step + 1);
  if (made.ok()) {
    file_ = std::move(*made);
  } else {
    Give(made.error());
  }
}

void Scalars::Add(int64_t step, const Numbers& numbers) {
  if (file_ == nullptr) return;
  std::vector<events::Scalar> scalars;
  for (const auto& [tag, value] : numbers) scalars.push_back({tag, value});
  Give(file_->Scalars(step, WallTime(), scalars));
  if (BootTime() - flushed_ >= kFlushEvery) Flush();
}

void Scalars::Flush() {
  if (file_ == nullptr) return;
  Give(file_->Flush());
  flushed_ = BootTime();
}

void Scalars::Give(const Status& status) {
  if (status.ok()) return;
  Warn("no more TensorBoard events: " + status.error().message);
  file_ = nullptr;
}

}  // namespace lockstep::trainer
