#include "tests/full_disk/full_disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/events/tensorboard.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/loop/event_loop.h"
#include "cli/run/kept_checkpoint.h"
#include "cli/run/run_state.h"
#include "core/exit_codes.h"
#include "core/gang/status/outcome.h"
#include "tests/worker/trainer/checkpoint/checkpoint_test_base.h"
#include "worker/agent/files/part_folder.h"
#include "worker/agent/last_message.h"
#include "worker/agent/logs/log_store.h"
#include "worker/agent/memory/memory_store.h"
#include "worker/agent/storage/checkpoint_volume.h"
#include "worker/agent/storage/compile_caches.h"
#include "worker/trainer/checkpoint/async_writer.h"
#include "worker/trainer/checkpoint/checkpoint.h"
#include "worker/trainer/link/agent_link.h"
#include "worker/trainer/report/reporter.h"
#include "worker/trainer/saving/checkpoint_line.h"

namespace lockstep::full_disk {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr size_t kMost = size_t{1} << 20;

std::string Text(const std::string& path) {
  const Result<std::string> text = ReadFile(path, kMost);
  return text.ok() ? *text : "";
}

void Put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

// ---- base: files that are replaced ----

class Replaced : public testing::TestWithParam<bool> {};

TEST_P(Replaced, FileHasItsOldTextOrItsNewOneAndLeavesNothingBeside) {
  const WriteOptions options{.mode = 0600, .durable = GetParam()};
  Status written;
  AtEveryWrite({.prepare = [](const std::string& folder) { Put(folder + "/f", "the old text"); },
                .act =
                    [&](const std::string& folder) {
                      written = WriteFileAtomically(folder + "/f", "the new text", options);
                    },
                .check =
                    [&](const std::string& folder, bool refused) {
                      EXPECT_EQ(Text(folder + "/f"),
                                written.ok() ? "the new text" : "the old text");
                      if (!refused) EXPECT_TRUE(written.ok());
                      if (!written.ok())
                        EXPECT_THAT(written.error().message, HasSubstr("No space"));
                      ExpectNoTemporaryFiles(folder);
                    }},
               4);
}

TEST_P(Replaced, CopyIsWholeOrNotThere) {
  const WriteOptions options{.mode = 0700, .durable = GetParam()};
  const std::string text(100000, 'x');
  Status written;
  AtEveryWrite({.prepare = [&](const std::string& folder) { Put(folder + "/from", text); },
                .act =
                    [&](const std::string& folder) {
                      written = CopyFileAtomically(folder + "/from", folder + "/to", options);
                    },
                .check =
                    [&](const std::string& folder, bool) {
                      EXPECT_EQ(Text(folder + "/to"), written.ok() ? text : "");
                      ExpectNoTemporaryFiles(folder);
                    }},
               8);
}

INSTANTIATE_TEST_SUITE_P(FullDisk, Replaced, testing::Bool());

// ---- lockstep run ----

TEST(FullDisk, NoEpochOfARunIsGivenTwice) {
  const auto raise = [](const std::string& folder) -> Result<uint32_t> {
    Result<cli::RunState> state = cli::RunState::Open("job", folder, "Auto");
    if (!state.ok()) return state.error();
    return state->RaiseEpoch();
  };
  Result<uint32_t> raised = 0U;
  AtEveryWrite({.prepare = [&](const std::string& folder) { EXPECT_EQ(*raise(folder), 1U); },
                .act = [&](const std::string& folder) { raised = raise(folder); },
                .check =
                    [&](const std::string& folder, bool refused) {
                      EXPECT_TRUE(raised.ok() || refused);
                      const Result<uint32_t> next = raise(folder);
                      ASSERT_TRUE(next.ok()) << next.error().message;
                      EXPECT_GT(*next, raised.ok() ? *raised : 1U);
                      ExpectNoTemporaryFiles(folder + "/.lockstep");
                    }},
               4);
}

TEST(FullDisk, FirstRunOfAFolderThatFindsNoRoomIsFollowedByOneThatDoes) {
  AtEveryWrite(
      {.act =
           [](const std::string& folder) {
             Result<cli::RunState> state = cli::RunState::Open("job", folder + "/c", "Auto");
             if (state.ok()) static_cast<void>(state->RaiseEpoch());
           },
       .check =
           [](const std::string& folder, bool) {
             Result<cli::RunState> state = cli::RunState::Open("job", folder + "/c", "Auto");
             ASSERT_TRUE(state.ok()) << state.error().message;
             EXPECT_TRUE(state->RaiseEpoch().ok());
             ExpectNoTemporaryFiles(folder);
           }},
      5);
}

TEST(FullDisk, CheckpointInMemoryThatCannotBeMovedOutOfARunStaysWhereItWas) {
  Result<cli::KeptCheckpoint> kept = Error::NotFound("");
  AtEveryWrite(
      {.prepare =
           [](const std::string& folder) {
             Put(folder + "/run/m0.1/memory/1-1/0/000001.step-1/model", "0");
             Put(folder + "/run/m1.1/memory/1-1/1/000001.step-1/model", "1");
           },
       .act = [&](const std::string& folder) { kept = cli::KeepCheckpoint(folder + "/run", 2); },
       .check =
           [&](const std::string& folder, bool) {
             if (kept.ok()) {
               EXPECT_EQ(Text(kept->folder + "/machine-0/model"), "0");
               EXPECT_EQ(Text(kept->folder + "/machine-1/model"), "1");
               return;
             }
             EXPECT_THAT(kept.error().message, HasSubstr("No space"));
             // If nothing can be renamed, the parts cannot be moved back either.
             if (AllWereRefused()) return;
             EXPECT_EQ(Text(folder + "/run/m0.1/memory/1-1/0/000001.step-1/model"), "0");
             EXPECT_EQ(Text(folder + "/run/m1.1/memory/1-1/1/000001.step-1/model"), "1");
             ExpectNoTemporaryFiles(folder);
           }},
      3);
}

// ---- agent ----

TEST(FullDisk, VerdictReachesTheOperatorWhateverOfTheLastMessageFindsRoom) {
  core::Termination verdict;
  verdict.attempt = 1;
  verdict.generation = {1, 1};
  verdict.verdict = true;
  verdict.reason = "done";
  const std::string message = core::ToJson(verdict);
  // kubelet makes the file.
  AtEveryWrite({.prepare = [](const std::string& folder) { Put(folder + "/termination-log", ""); },
                .act =
                    [&](const std::string& folder) {
                      const agent::LastMessage last(UniqueFd(), folder + "/termination-log");
                      static_cast<void>(last.Write(message));
                    },
                .check =
                    [&](const std::string& folder, bool) {
                      const std::string left = Text(folder + "/termination-log");
                      EXPECT_THAT(left, AnyOf("", message)) << "half a message";
                      const auto outcome =
                          core::OutcomeOf({0, 1, core::kExitSuccess, left}, nullptr, 1);
                      ASSERT_TRUE(outcome) << "the job would run again";
                      EXPECT_EQ(outcome->exit_code, core::kExitSuccess);
                    }},
               2);
}

TEST(FullDisk, GenerationThatFindsNoRoomIsFollowedByOneThatResumesFromTheNewestCommit) {
  const auto volume = [](const std::string& folder) {
    return agent::CheckpointVolume(folder, "job");
  };
  Result<agent::CheckpointVolume::Begun> begun = Error::NotFound("");
  AtEveryWrite(
      {.prepare =
           [&](const std::string& folder) {
             EXPECT_TRUE(volume(folder).BeginGeneration({1, 1}).ok());
             Put(volume(folder).FinalPath({1, 1}, 1, "step-10") + "/model", "weights");
           },
       .act = [&](const std::string& folder) { begun = volume(folder).BeginGeneration({1, 2}); },
       .check =
           [&](const std::string& folder, bool) {
             const std::string newest = volume(folder).FinalPath({1, 1}, 1, "step-10");
             if (begun.ok()) EXPECT_EQ(begun->resumes, newest);
             if (!begun.ok()) EXPECT_THAT(begun.error().message, HasSubstr("No space"));
             const auto next = volume(folder).BeginGeneration({1, 3});
             ASSERT_TRUE(next.ok()) << next.error().message;
             EXPECT_EQ(next->resumes, newest);
           }},
      4);
}

TEST(FullDisk, CheckpointOnItsWayFromMemoryCountsWholeOrNotAtAll) {
  const core::CheckpointId id{{1, 1}, 3};
  const core::CheckpointId to{{1, 1}, 1};
  Status finished;
  const auto persist = [&](const std::string& folder) -> Status {
    const agent::CheckpointVolume volume(folder + "/ckpt", "job");
    const std::string work = volume.PersistDir(to, id);
    volume.RemoveUnfinished("");
    for (const uint32_t machine : {0U, 1U}) {
      Status written = agent::WritePart(folder + "/part-" + std::to_string(machine), work, machine);
      if (!written.ok()) return written;
    }
    return volume.FinishPersisting(work, to, "step-9", 2);
  };
  AtEveryWrite({.prepare =
                    [&](const std::string& folder) {
                      const agent::CheckpointVolume volume(folder + "/ckpt", "job");
                      ASSERT_TRUE(volume.BeginGeneration({1, 1}).ok());
                      Put(folder + "/ckpt/LATEST", "checkpoints/1-1/former\n");
                      Put(folder + "/part-0/deep/shard-0", "weights 0");
                      Put(folder + "/part-1/deep/shard-1", "weights 1");
                      fs::create_symlink("shard-1", folder + "/part-1/deep/newest");
                    },
                .act = [&](const std::string& folder) { finished = persist(folder); },
                .check =
                    [&](const std::string& folder, bool) {
                      const agent::CheckpointVolume volume(folder + "/ckpt", "job");
                      const std::string final =
                          volume.FinalPath(to.generation, to.number, "step-9");
                      const auto whole = [&] {
                        return Text(final + "/deep/shard-0") == "weights 0" &&
                               Text(final + "/deep/newest") == "weights 1";
                      };
                      EXPECT_TRUE(fs::exists(final) ? whole() : !finished.ok());
                      EXPECT_THAT(Text(folder + "/ckpt/LATEST"),
                                  AnyOf("checkpoints/1-1/former\n", EndsWith("000001.step-9\n")));
                      if (!finished.ok())
                        EXPECT_THAT(finished.error().message, HasSubstr("No space"));
                      if (!fs::exists(final)) {
                        EXPECT_EQ(Text(folder + "/ckpt/LATEST"), "checkpoints/1-1/former\n");
                        const Status again = persist(folder);
                        EXPECT_TRUE(again.ok()) << again.error().message;
                      }
                      EXPECT_TRUE(whole());
                      volume.RemoveUnfinished("");
                      ExpectNoTemporaryFiles(folder);
                      EXPECT_FALSE(fs::exists(volume.PersistDir(to, id)));
                    }},
               20);
}

// One of this generation's parts is taken and granted, and then the next generation begins.
class Store final : private agent::MemoryStore::Owner {
 public:
  explicit Store(const std::string& folder) : loop_(std::move(*EventLoop::Create())) {
    store_ = std::move(
        *agent::MemoryStore::Create(loop_.get(), &tls_, {.run_dir = folder, .size = kMost}, this));
  }

  // Why not; "" if it is held.
  std::string Commit() {
    std::string problem = "no answer";
    bool answered = false;
    store_->StorePart(1, "step-1", [&](std::string said) {
      problem = std::move(said);
      answered = true;
    });
    while (!answered) loop_->RunOnce();
    if (!problem.empty()) {
      store_->Refuse(1);
      return problem;
    }
    store_->Grant(1, {{{1, 1}, 1}, 0, "step-1"}, [&](const Result<std::string>& path) {
      problem = path.ok() ? "" : path.error().message;
    });
    return problem;
  }
  void BeginGeneration() { store_->BeginGeneration(); }
  std::string part() const { return held_ ? store_->OwnPart(held_->id) : ""; }

 private:
  void OnPartHeld(core::MemoryPart part) override { held_ = std::move(part); }
  void OnFetchFailed(core::MemoryPart /*part*/, std::string /*reason*/) override {}
  void OnPersisted(core::Persisted /*persisted*/) override {}

  TlsPskContext tls_ = std::move(*TlsPskContext::Client({}, "job"));
  std::unique_ptr<EventLoop> loop_;
  std::optional<core::MemoryPart> held_;
  std::unique_ptr<agent::MemoryStore> store_;
};

TEST(FullDisk, PartInMemoryIsHeldWholeOrRefusedAndNoGenerationFindsAnEarliersFiles) {
  std::unique_ptr<Store> store;
  std::string problem;
  AtEveryWrite({.prepare =
                    [&](const std::string& folder) {
                      store = std::make_unique<Store>(folder);
                      Put(folder + "/local/checkpoints/step-1/model", "weights");
                      Put(folder + "/local/checkpoints/left", "half");
                    },
                .act =
                    [&](const std::string&) {
                      problem = store->Commit();
                      store->BeginGeneration();
                    },
                .check =
                    [&](const std::string& folder, bool refused) {
                      EXPECT_TRUE(problem.empty() || refused) << problem;
                      EXPECT_EQ(store->part().empty(), !problem.empty());
                      if (problem.empty()) EXPECT_EQ(Text(store->part() + "/model"), "weights");
                      EXPECT_FALSE(fs::exists(folder + "/local/checkpoints/left"));
                      store->BeginGeneration();
                      EXPECT_TRUE(fs::is_directory(folder + "/local/checkpoints"));
                      store.reset();
                    }},
               4);
}

TEST(FullDisk, LogsLoseWhatFindsNoRoomAndNothingOlderOrLater) {
  std::unique_ptr<agent::LogStore> store;
  const auto open = [&](const std::string& folder) {
    store = std::make_unique<agent::LogStore>(
        agent::LogStoreOptions{.path = folder + "/logs", .max_file = 10});
    store->StartGeneration("1-1");
  };
  AtEveryWrite({.prepare =
                    [&](const std::string& folder) {
                      open(folder);
                      EXPECT_TRUE(store->Append("rank-0.stdout", "older\n").ok());
                    },
                .act =
                    [&](const std::string&) {
                      static_cast<void>(store->Append("rank-0.stdout", "second\n"));
                      static_cast<void>(store->Append("rank-1.stdout", "other\n"));
                    },
                .check =
                    [&](const std::string& folder, bool) {
                      EXPECT_TRUE(store->Append("rank-0.stdout", "later\n").ok());
                      const std::string all = Text(folder + "/logs/1-1/rank-0.stdout.log.1") +
                                              Text(folder + "/logs/1-1/rank-0.stdout.log");
                      EXPECT_THAT(all, AnyOf(HasSubstr("older\n"), HasSubstr("second\n")));
                      EXPECT_THAT(all, EndsWith("later\n"));
                      store.reset();
                    }},
               3);
}

TEST(FullDisk, CompileCachesThatAreKeptAreWhole) {
  const std::string kernel(200000, 'k');
  AtEveryWrite({.prepare =
                    [&](const std::string& folder) {
                      Put(folder + "/caches/kernels/a.cubin", kernel);
                      Put(folder + "/caches/kernels/b.cubin", kernel);
                    },
                .act =
                    [](const std::string& folder) {
                      agent::KeepCaches(folder + "/caches", folder + "/kept",
                                        fs::file_time_type::clock::now() + seconds(60), {});
                    },
                .check =
                    [&](const std::string& folder, bool refused) {
                      int whole = 0;
                      for (const char* name : {"a", "b"}) {
                        const std::string text = Text(folder + "/kept/kernels/" + name + ".cubin");
                        EXPECT_TRUE(text.empty() || text == kernel) << text.size();
                        whole += text.empty() ? 0 : 1;
                      }
                      if (!refused) EXPECT_EQ(whole, 2);
                      ExpectNoTemporaryFiles(folder + "/kept");
                    }},
               4);
}

// ---- trainer ----

constexpr trainer::Shape kShape = {
    .layers = 1, .heads = 1, .width = 8, .vocabulary = 256, .context = 8};

// Trains nothing, and saves step 10, or 20, as the trainer does.
class Line {
 public:
  explicit Line(const std::string& folder)
      : line_({.folder = folder + "/ckpt", .resume = "auto"}, agent_) {}

  Result<std::string> Save(int64_t step, float first) {
    const trainer::OwnedState state(kShape, first);
    trainer::AsyncWriter writer(
        kShape, [this](const std::string& written) { return line_.Commit(written); });
    trainer::Manifest manifest = trainer::SomeManifest();
    manifest.step = step;
    Status begun = writer.Begin(line_.FolderFor(step), state.saved(), manifest);
    if (!begun.ok()) return begun.error();
    return *writer.Wait();
  }
  // Whether this step is there, whole, and as it was saved with `first`.
  bool Has(int64_t step, float first) {
    trainer::OwnedState state(kShape);
    const auto candidates = line_.ToResumeFrom();
    for (const std::string& folder : candidates->folders) {
      const auto manifest = trainer::ReadCheckpoint(folder, kShape, state.view());
      EXPECT_TRUE(manifest.ok()) << folder << ": " << manifest.error().message;
      const bool same = state == trainer::OwnedState(kShape, first);
      if (manifest.ok() && manifest->step == step && same) return true;
    }
    return false;
  }

 private:
  trainer::AgentLink agent_{"", 0};
  trainer::CheckpointLine line_;
};

TEST(FullDisk, TrainersLatestNamesAWholeCheckpointOrTheFormerOne) {
  Result<std::string> saved = Error::NotFound("");
  AtEveryWrite(
      {.prepare = [](const std::string& folder) { EXPECT_TRUE(Line(folder).Save(10, 1).ok()); },
       .act = [&](const std::string& folder) { saved = Line(folder).Save(20, 2); },
       .check =
           [&](const std::string& folder, bool refused) {
             EXPECT_TRUE(saved.ok() || refused) << saved.error().message;
             EXPECT_TRUE(Line(folder).Has(10, 1));
             if (saved.ok()) EXPECT_TRUE(Line(folder).Has(20, 2));
             std::string latest = Text(folder + "/ckpt/LATEST");
             ASSERT_THAT(latest, EndsWith("\n"));
             latest.pop_back();
             trainer::OwnedState state(kShape);
             EXPECT_TRUE(
                 trainer::ReadCheckpoint(folder + "/ckpt/" + latest, kShape, state.view()).ok())
                 << latest;
             ExpectNoTemporaryFiles(folder);
             EXPECT_TRUE(Line(folder).Save(20, 3).ok());
             EXPECT_TRUE(Line(folder).Has(20, 3));
           }},
      20);
}

TEST(FullDisk, CheckpointThatIsWrittenAgainIsTheFormerOneUntilTheNewOneIsWhole) {
  AtEveryWrite(
      {.prepare = [](const std::string& folder) { EXPECT_TRUE(Line(folder).Save(20, 1).ok()); },
       .act = [](const std::string& folder) { static_cast<void>(Line(folder).Save(20, 2)); },
       .check =
           [](const std::string& folder, bool refused) {
             Line line(folder);
             EXPECT_TRUE(line.Has(20, 2) || (refused && line.Has(20, 1)));
             ExpectNoTemporaryFiles(folder);
           }},
      20);
}

TEST(FullDisk, EventFilesOfTensorBoardHoldWholeRecordsAndGoOn) {
  std::unique_ptr<events::EventFile> file;
  const std::array<events::Scalar, 1> scalars = {{{"train/loss", 2.5}}};
  size_t before = 0;
  const size_t record = events::ScalarsRecord(1, 1, scalars).size();
  AtEveryWrite({.prepare =
                    [&](const std::string& folder) {
                      file = std::move(*events::EventFile::Create(folder, 1));
                      before = fs::file_size(file->path());
                    },
                .act =
                    [&](const std::string&) {
                      for (const int64_t step : {1, 2}) {
                        static_cast<void>(file->Scalars(step, 1, scalars));
                        static_cast<void>(file->Flush());
                      }
                    },
                .check =
                    [&](const std::string&, bool refused) {
                      const size_t now = fs::file_size(file->path());
                      EXPECT_EQ((now - before) % record, 0U) << "half a record";
                      if (!refused) EXPECT_EQ(now - before, 2 * record);
                      EXPECT_TRUE(file->Scalars(3, 1, scalars).ok() && file->Flush().ok());
                      EXPECT_EQ(fs::file_size(file->path()), now + record);
                      file.reset();
                    }},
               2);
}

TEST(FullDisk, FigureLinesAreWholeAndGoOnOnceThereIsRoom) {
  trainer::AgentLink agent("", 0);
  std::unique_ptr<trainer::Reporter> reporter;
  const auto tell = [&](int64_t step) {
    reporter->Tell({.step = step, .total_steps = 9, .loss = 2.5}, {}, false);
  };
  AtEveryWrite({.prepare =
                    [&](const std::string& folder) {
                      reporter = std::make_unique<trainer::Reporter>();
                      trainer::Reporter::Options options;
                      options.metrics = folder + "/figures.jsonl";
                      options.log_every = 0;
                      ASSERT_TRUE(reporter->Open(options, agent).ok());
                      tell(2);
                    },
                .act =
                    [&](const std::string&) {
                      tell(3);
                      tell(4);
                    },
                .check =
                    [&](const std::string& folder, bool) {
                      tell(5);
                      std::ifstream file(folder + "/figures.jsonl");
                      std::vector<std::string> lines;
                      for (std::string line; std::getline(file, line);) lines.push_back(line);
                      ASSERT_GE(lines.size(), 2U);
                      for (const std::string& line : lines) {
                        EXPECT_THAT(line, testing::AllOf(StartsWith("{"), EndsWith("}")));
                      }
                      EXPECT_THAT(lines.front(), HasSubstr("\"step\":2"));
                      EXPECT_THAT(lines.back(), HasSubstr("\"step\":5"));
                      reporter.reset();
                    }},
               2);
}

}  // namespace
}  // namespace lockstep::full_disk
