#include "worker/trainer/run/saver.h"

#include <string>

#include "worker/trainer/run/exit_code.h"

namespace lockstep::trainer {

namespace {

void Say(const Result<std::string>& ended) {
  if (ended.ok()) return;
  Warn("checkpoint not kept: " + ended.error().message);
}

}  // namespace

Saver::Saver(CheckpointLine& line, const Shape& shape)
    : line_(&line), writer_(shape, [this](const std::string& folder) {
        Result<std::string> final = line_->Commit(folder);
        if (final.ok()) last_write_ = BootTime() - begun_.load();
        return final;
      }) {}

void Saver::Save(ConstTrainingState state, const Manifest& manifest) {
  Wait();
  begun_ = BootTime();
  Status begun = writer_.BeginCopy(line_->FolderFor(manifest.step), state, manifest);
  if (begun.ok()) return;
  Warn("no checkpoint of step " + std::to_string(manifest.step) + ": " + begun.error().message);
}

void Saver::Wait() {
  while (auto ended = writer_.Wait()) Say(*ended);
}

void Saver::ReportEnded() {
  while (auto ended = writer_.Poll()) Say(*ended);
}

}  // namespace lockstep::trainer
