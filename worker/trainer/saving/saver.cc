#include "worker/trainer/saving/saver.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/thread.h"
#include "worker/trainer/process/exit_code.h"

namespace lockstep::trainer {

Saver::Saver(CheckpointLine& line, const Shape& shape)
    : line_(&line), writer_(shape, [this](const std::string& folder) {
        Result<std::string> final = line_->Commit(folder);
        const Duration took = BootTime() - begun_.load();
        if (line_->IsInMemory(folder)) {
          last_memory_write_ = took;
        } else if (final.ok()) {
          last_write_ = took;
        }
        return final;
      }) {}

// What is wrong with each of them, as a store that is too small, is said once.
void Saver::Say(const Result<std::string>& ended) {
  const std::string why = ended.ok() ? "" : ended.error().message;
  if (!ended.ok() && why != said_) Warn("checkpoint not kept: " + why);
  said_ = why;
}

void Saver::Save(ConstTrainingState state, const Manifest& manifest, bool in_memory) {
  Wait();
  begun_ = BootTime();
  const std::string folder =
      in_memory ? line_->MemoryFolderFor(manifest.step) : line_->FolderFor(manifest.step);
  Status begun = writer_.BeginCopy(folder, state, manifest);
  if (begun.ok()) return;
  Warn("no checkpoint of step " + std::to_string(manifest.step) + ": " + begun.error().message);
}

void Saver::Wait() {
  while (auto ended = writer_.Wait()) Say(*ended);
}

void Saver::ReportEnded() {
  while (auto ended = writer_.Poll()) Say(*ended);
}

EmptyPart::~EmptyPart() {
  if (committing_.joinable()) committing_.join();
}

void EmptyPart::Commit(int64_t step) {
  if (committing_.joinable()) committing_.join();
  const std::string folder = line_->MemoryFolderFor(step);
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  // Where it is refused, so is rank 0's, which says why.
  const auto commit = [line = line_, folder] { static_cast<void>(line->Commit(folder)); };
  Result<std::thread> thread = StartThread(commit);
  if (!thread.ok()) return commit();  // it takes this thread's time, and rank 0 waits for it
  committing_ = std::move(*thread);
}

}  // namespace lockstep::trainer
