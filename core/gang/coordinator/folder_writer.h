// FolderWriter: moves checkpoints from the machines' memory to the checkpoint folder. Each machine
// writes its part, or the part of a lost machine. The checkpoint then gets its final name. The
// coordinator owns it. Pure.
#ifndef LOCKSTEP_CORE_GANG_COORDINATOR_FOLDER_WRITER_H_
#define LOCKSTEP_CORE_GANG_COORDINATOR_FOLDER_WRITER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/time.h"
#include "core/gang/coordinator/coordinator_actions.h"
#include "core/gang/coordinator/memory_copies.h"
#include "core/gang/protocol/messages.h"
#include "core/gang/roster/roster.h"

namespace lockstep::core {

// How long the newest checkpoint may take from memory to the checkpoint folder, or to an object
// store.
inline constexpr Duration kPersistPatience = minutes(2);
inline constexpr Duration kUploadPatience = minutes(30);

class FolderWriter {
 public:
  struct Config {
    std::string folder;  // or an object store's URL; "": there is none, and nothing is written
    Duration every{};    // 0: at the end alone
    Duration patience = kPersistPatience;
  };
  // Roster, copies and outbox must outlive it.
  FolderWriter(Config config, const Roster& roster, const MemoryCopies& copies, Outbox& outbox)
      : config_(std::move(config)), roster_(roster), copies_(copies), outbox_(outbox) {}

  // ---- events ----
  // The folder has the file of `generation`, which finds `commit` there.
  void OnGenerationFile(Generation generation, CheckpointId commit);
  void OnFolderUnusable() { problem_ = "the job ends, because the folder cannot be used"; }
  // All machines' parts of this checkpoint were granted.
  void OnGranted(Time now, MemoryPart checkpoint);
  void OnPersisted(uint32_t machine, const Persisted& persisted);
  // The final name: `error` says why there is none.
  void OnNamed(CheckpointId to, const std::string& error);
  // Repeats the request to a machine, because its last connection may have lost it.
  void AskAgain(const Roster::Slot& slot);

  // ---- steps ----
  // A generation begins from `memory`; none: from what the folder has.
  void Begin(Time now, CheckpointId memory);
  // What is being written comes too late for the next generation's file.
  void Drop() { writing_.reset(); }
  void CheckWriters(Time now);
  // While a generation runs: writes the newest, every so often.
  void WriteNowAndThen(Time now);
  // Before the gang ends: whether it must wait for the checkpoint that was just granted, or that is
  // being written. Logs the checkpoint that stays unwritten.
  bool WriteLast(Time now, Generation generation);
  void SayWhatIsUnwritten();

  // ---- state ----
  // The newest checkpoint that the next generation finds in the folder, as it was committed.
  CheckpointId in_folder() const { return in_folder_; }
  // The checkpoint in memory that an ended gang has not written, and why; "": none.
  const std::string& unwritten() const { return unwritten_; }
  // The name of the one that is being written; "": none.
  std::string writing() const { return writing_ ? writing_->to.name : ""; }
  Time NextWake(bool running) const;

 private:
  struct Writing {
    FinishPersisting to;
    std::map<uint32_t, Persist> writers;  // by machine; those that have not answered
    Time give_up{};
  };

  // Whether the newest one in memory is on its way to the folder.
  bool WriteNewest(Time now);
  void GiveUp(const std::string& why);

  const Config config_;
  const Roster& roster_;
  const MemoryCopies& copies_;
  Outbox& outbox_;
  std::optional<Writing> writing_;
  FinishPersisting written_;  // the last that reached the folder
  CheckpointId in_folder_;
  std::string problem_;  // why the last try failed
  std::string unwritten_;
  CheckpointId tried_;  // the last that was begun to be written, and how often in this generation
  int tries_ = 0;
  // The last that was granted in this line; it counts once each machine has said that it holds its
  // part.
  MemoryPart granted_;
  Time granted_at_{};
  Generation on_volume_;  // the last of which there is a file in the folder
  Time next_ = kNever;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_COORDINATOR_FOLDER_WRITER_H_
